"""The Evidence Converger: many doubtful frames into one judgment per context (paper, section 4.5, eq. 7-11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dice_ce.method.weaver import Context
from dice_ce.settings import setting
from dice_ce.types import Doubles, Floats, Ints

Verdict = Literal["kept", "normal", "low_confidence", "beside_surer", "beyond_limit"]
"""The last two are given by a rule of ours, `beyond/listing.py`."""


@dataclass(frozen=True)
class ConvergerSettings:
    """When frames agree, and when a context is believed."""

    evidence: Literal["fused", "best-frame"] = setting(
        "fused", "what speaks for a context: all its frames, or (the paper's ablation) its most confident one"
    )
    tau_agree: float = setting(
        0.3,
        "probability of the provisional label from which a frame supports its context",
        low=0,
        high=1,
        search=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    )
    tau_min: float = setting(
        0.4,
        "confidence below which a context is dropped",
        low=0,
        high=1,
        search=(0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    )


@dataclass(frozen=True, eq=False)
class Judgment:
    """What the frames of one context say together, and everything that led to it."""

    context: Context
    retained: Ints
    """Rows of the candidates that support the judgment: H_ret."""
    dissent: Ints
    """Rows removed because they contradict the provisional label."""
    evidence_before: Doubles
    """P of all frames that were looked at, normalised."""
    evidence: Doubles
    """P_ref of the retained frames, normalised."""
    provisional: int
    label: int
    confidence: float
    runner_up: int
    margin: float
    """Confidence minus that of the runner-up."""
    fell_back: bool
    """No frame reached tau_agree, so all were kept."""
    verdict: Verdict


def converge(
    contexts: Sequence[Context], distributions: Floats, normal: int, settings: ConvergerSettings
) -> list[Judgment]:
    """Judge every context by those of its frames that were looked at; one without any is no context."""
    judge = fuse if settings.evidence == "fused" else trust_best_frame
    looked = np.asarray(~np.isnan(distributions).any(axis=1))
    return [judge(one, distributions, normal, settings) for one in contexts if looked[one.rows].any()]


def heard(context: Context, distributions: Floats) -> tuple[Ints, Doubles]:
    """Return the rows of a context that somebody looked at, and what they show."""
    p = distributions[context.rows].astype(np.float64)
    looked = ~np.isnan(p).any(axis=1)
    return context.rows[looked], p[looked]


def fuse(context: Context, distributions: Floats, normal: int, settings: ConvergerSettings) -> Judgment:
    """Fuse, refine and prune one context; ties go to the lowest label index."""
    rows, p = heard(context, distributions)
    fused = p.sum(axis=0)  # eq. 7
    provisional = int(fused.argmax())
    agrees = p[:, provisional] >= settings.tau_agree  # eq. 8
    fell_back = not agrees.any()
    retained = np.ones_like(agrees) if fell_back else agrees  # eq. 9
    refined = p[retained].sum(axis=0)  # eq. 10
    return judgment(context, rows[retained], rows[~retained], fused, refined, fell_back, normal, settings)


def trust_best_frame(context: Context, distributions: Floats, normal: int, settings: ConvergerSettings) -> Judgment:
    """Return what stands in for the converger in the ablation: the label of the single most confident frame."""
    rows, p = heard(context, distributions)
    best = int(p.max(axis=1).argmax())
    return judgment(context, rows[[best]], np.delete(rows, best), p.sum(axis=0), p[best], False, normal, settings)


def judgment(
    context: Context,
    retained: Ints,
    dissent: Ints,
    fused: Doubles,
    refined: Doubles,
    fell_back: bool,
    normal: int,
    settings: ConvergerSettings,
) -> Judgment:
    """Prune (eq. 11), and add what follows from the evidence: confidence, runner-up and margin."""
    evidence = refined / refined.sum()
    label = int(refined.argmax())
    runner_up = int(np.where(np.arange(len(evidence)) == label, -1.0, evidence).argmax())
    verdict: Verdict = "kept"
    if label == normal:
        verdict = "normal"
    elif evidence[label] < settings.tau_min:
        verdict = "low_confidence"
    return Judgment(
        context=context,
        retained=retained,
        dissent=dissent,
        evidence_before=fused / fused.sum(),
        evidence=evidence,
        provisional=int(fused.argmax()),
        label=label,
        confidence=float(evidence[label]),
        runner_up=runner_up,
        margin=float(evidence[label] - evidence[runner_up]),
        fell_back=fell_back,
        verdict=verdict,
    )
