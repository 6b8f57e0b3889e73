"""The exam prior: what an exam shows often is likelier to be what a doubtful frame shows. Ours, not the paper's.

A diagnoser learns from labels that were made about equally frequent, but one patient has few kinds of lesions. The
frequencies of this exam are estimated from its most suspicious frames by expectation maximisation (Saerens et al.,
2002), and every frame's distribution over the lesions is weighed with them. How likely it is normal stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

SUSPICIOUS = 0.9
"""Selector score from which a frame has a say in what the exam shows; if none has it, all candidates do."""
ROUNDS = 5
FLOOR = 1e-3
"""Added to every frequency: what was not seen yet is unlikely, not impossible."""


@dataclass(frozen=True)
class PriorConfig:
    """How much an exam's own frequencies count."""

    strength: float = 0.0
    """Exponent of the frequencies: 0 leaves the diagnoser alone (the paper), 1 believes them fully."""


def adapt(distributions: Floats, score: Floats, normal: int, config: PriorConfig) -> Floats:
    """Weigh the lesions in every candidate's distribution with the frequencies in this exam."""
    if config.strength == 0 or not len(distributions):
        return distributions
    p = distributions.astype(np.float64)
    lesions = np.arange(p.shape[1]) != normal
    abnormal = p[:, lesions].sum(axis=1, keepdims=True)
    among = p[:, lesions] / np.maximum(abnormal, np.finfo(np.float64).tiny)
    speaks = score >= SUSPICIOUS if (score >= SUSPICIOUS).any() else np.ones(len(p), np.bool_)
    prior = lesion_frequencies(among[speaks], abnormal[speaks, 0], config.strength)
    p[:, lesions] = abnormal * _weighed(among, prior, config.strength)
    return p.astype(np.float32)


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
