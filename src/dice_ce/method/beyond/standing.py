"""What stands out: a lesion is rare in its exam, mucosa is not. Ours, not the paper's.

A Selector judges every frame by itself, and one patient's mucosa looks like another's lesions. So it also counts how
little a frame resembles the other frames of the same exam, which needs no label and costs next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dice_ce.features.rows import Vectors, rows_of
from dice_ce.method.selector import CHUNK, Screened
from dice_ce.settings import setting
from dice_ce.types import Floats

COMPARED = 256
"""Frames from all over the exam that every frame is compared with."""
FURTHEST = 10.0
"""Standard deviations that count."""
SMALLEST_SPREAD = 1e-6
"""Of likeness, below which all frames are the same."""


@dataclass(frozen=True)
class StandingSettings:
    """How much it counts that a frame is unlike the others."""

    standing_out: float = setting(
        0.0,
        "weight of how much a frame stands out in its exam: one standard deviation multiplies the odds of its Selector "
        "score by e to this power",
        low=0,
        high=4,
        search=(0.0, 0.25, 0.5, 1.0),
        rule="Standing out",
        off=0.0,
    )


def lifted(screened: Screened, settings: StandingSettings) -> Screened:
    """Raise the scores of frames that stand out in this exam, and lower those of the others."""
    if settings.standing_out == 0:
        return screened
    unlike = np.clip(how_unlike(screened.vectors).astype(np.float64), -FURTHEST, FURTHEST)
    odds = np.exp(settings.standing_out * unlike)
    raised = screened.score * odds
    return replace(screened, score=(raised / (1 - screened.score + raised)).astype(np.float32))


def how_unlike(vectors: Vectors) -> Floats:
    """Tell how many standard deviations a frame is less like the exam's frames than frames are on average.

    The likeness of a frame is its median cosine to frames from all over the exam: few others like it change nothing.
    """
    rows = rows_of(vectors)
    if len(rows) < 2:
        return np.zeros(len(rows), np.float32)
    some = _unit(rows[np.unique(np.linspace(0, len(rows) - 1, COMPARED).round().astype(np.int64))])
    parts = [np.median(_unit(rows[i : i + CHUNK]) @ some.T, axis=1) for i in range(0, len(rows), CHUNK)]
    likeness = np.concatenate(parts)
    spread = likeness.std()
    if spread < SMALLEST_SPREAD:
        return np.zeros(len(rows), np.float32)
    return np.asarray((likeness.mean() - likeness) / spread, np.float32)


def _unit(vectors: npt.NDArray[np.floating]) -> Floats:
    """Scale vectors to length 1; one of only zeros stays so."""
    plain = vectors.astype(np.float32)
    return np.asarray(plain / np.maximum(np.linalg.norm(plain, axis=1, keepdims=True), np.finfo(np.float32).tiny))
