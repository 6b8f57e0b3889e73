"""The exam prior: what an exam shows often is likelier to be what a doubtful frame shows. Ours, not the paper's.

A diagnoser learns from labels that were made about equally frequent, but one patient has few kinds of lesions. The
frequencies of this exam are estimated from its most suspicious frames by expectation maximisation (Saerens et al.,
2002), and every frame's distribution over the lesions is weighed with them. How likely it is normal stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dice_ce.settings import setting
from dice_ce.types import Doubles, Floats

SUSPICIOUS = 0.9
"""Selector score from which a frame has a say in what the exam shows; if none has it, all candidates do."""
ROUNDS = 5
FLOOR = 1e-3
"""Added to every frequency: what was not seen yet is unlikely, not impossible."""


@dataclass(frozen=True)
class PriorSettings:
    """How much an exam's own frequencies count."""

    prior_strength: float = setting(
        0.0,
        "weight of the exam's own label frequencies: an exponent, 1 believes them fully",
        low=0,
        high=1,
        search=(0.0, 0.25, 0.5, 0.75),
        rule="Exam prior",
        off=0.0,
    )


def adapt(distributions: Floats, score: Floats, normal: int, settings: PriorSettings) -> Floats:
    """Weigh the lesions in every candidate's distribution with the frequencies in this exam.

    Rows that are no numbers, because nobody looked, stay so.
    """
    heard = ~np.isnan(distributions).any(axis=1)
    if settings.prior_strength == 0 or not heard.any():
        return distributions
    adapted = distributions.copy()
    adapted[heard] = _adapt(distributions[heard].astype(np.float64), score[heard], normal, settings.prior_strength)
    return adapted


def _adapt(p: Doubles, score: Floats, normal: int, strength: float) -> Doubles:
    lesions = np.arange(p.shape[1]) != normal
    abnormal = p[:, lesions].sum(axis=1, keepdims=True)
    among = p[:, lesions] / np.maximum(abnormal, np.finfo(np.float64).tiny)
    speaks = score >= SUSPICIOUS if (score >= SUSPICIOUS).any() else np.ones(len(p), np.bool_)
    prior = lesion_frequencies(among[speaks], abnormal[speaks, 0], strength)
    p[:, lesions] = abnormal * _weighed(among, prior, strength)
    return p


def lesion_frequencies(among: Doubles, weight: Doubles, strength: float) -> Doubles:
    """Estimate how often each lesion is what the frames show; `among` are distributions over lesions only."""
    prior = np.ones(among.shape[1])
    for _ in range(ROUNDS):
        said = _weighed(among, prior, strength)
        prior = weight @ said / max(weight.sum(), np.finfo(np.float64).tiny) + FLOOR
    return prior


def _weighed(among: Doubles, prior: Doubles, strength: float) -> Doubles:
    weighed = among * prior**strength
    return np.asarray(weighed / np.maximum(weighed.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))
