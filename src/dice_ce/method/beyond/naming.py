"""Two scales: what is found in a small context is named from all that its surroundings show. Ours, not the paper's.

Fine contexts hold one lesion each, but few frames to name it from; wide ones hold many frames, but several lesions. So
contexts stay fine, and a context's lesions are weighed by the frames around it, inside its anatomical context G_i, the
more suspicious a frame the more it counts. Whether there is a lesion at all stays as the context's own frames say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dice_ce.method.chain import Judged
from dice_ce.method.converger import Judgment
from dice_ce.settings import setting
from dice_ce.types import Doubles


@dataclass(frozen=True)
class NamingSettings:
    """How far around a context its name is looked for."""

    naming_seconds: float = setting(
        0.0,
        "time around a context, inside its anatomical context, whose frames have a say in its label",
        low=0,
        search=(0.0, 60.0, 150.0, 300.0),
        rule="Two scales",
        off=0.0,
    )


def name_contexts(judged: Judged, settings: NamingSettings) -> Judged:
    """Name what was kept from the evidence in its neighbourhood."""
    if not settings.naming_seconds:
        return judged
    normal, seconds = judged.taxonomy.normal, judged.candidates.seconds
    lesions = judged.distributions.astype(np.float64)
    lesions[:, normal] = 0
    suspicion = lesions.sum(axis=1)
    coarse = np.empty(len(seconds), np.int64)
    for one in judged.judgments:
        coarse[one.context.rows] = one.context.coarse

    def rename(one: Judgment) -> Judgment:
        if one.verdict != "kept":
            return one
        first, last = seconds[one.retained[0]], seconds[one.retained[-1]]
        begin = np.searchsorted(seconds, first - settings.naming_seconds, side="left")
        end = np.searchsorted(seconds, last + settings.naming_seconds, side="right")
        near = begin + np.flatnonzero(coarse[begin:end] == one.context.coarse)
        return _named(one, suspicion[near] @ lesions[near], normal)

    return replace(judged, judgments=tuple(map(rename, judged.judgments)))


def _named(one: Judgment, shown: Doubles, normal: int) -> Judgment:
    """Share what speaks for lesions as the surroundings do."""
    evidence = (1 - one.evidence[normal]) * shown / shown.sum()
    evidence[normal] = one.evidence[normal]
    order = np.argsort(-np.where(np.arange(len(evidence)) == normal, -1.0, evidence), kind="stable")
    label = int(order[0])
    runner_up = int(np.where(np.arange(len(evidence)) == label, -1.0, evidence).argmax())
    margin = float(evidence[label] - evidence[runner_up])
    confidence = float(evidence[label])
    return replace(one, evidence=evidence, label=label, confidence=confidence, runner_up=runner_up, margin=margin)
