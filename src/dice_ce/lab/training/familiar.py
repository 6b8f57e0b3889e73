"""Fitting what features usually look like (`dice_ce.method.beyond.familiar` uses it)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dice_ce.lab.training.heads import as_stored
from dice_ce.method.beyond.familiar import Familiarity
from dice_ce.types import Doubles

DIRECTIONS = 64
"""Main directions of the features; more changes little."""
MOST = 20_000
"""Frames that are looked at, evenly spread."""
EXCEEDED = 0.05
"""Share of a held-out case's frames that may lie beyond the limit, on average over cases."""


def fit_familiarity(vectors: npt.NDArray[np.floating]) -> Familiarity:
    """Find the main directions of features; the limit is still open."""
    rows = np.unique(np.linspace(0, len(vectors) - 1, MOST).astype(np.int64))
    chosen = vectors[rows].astype(np.float64)
    mean = chosen.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov(chosen - mean, rowvar=False))
    count = min(DIRECTIONS, len(mean) - 1)
    rest = max(float(variance[:-count].mean()), 1e-6)
    spread = np.maximum(variance[-count:], rest)
    parts = (as_stored(mean), as_stored(directions[:, -count:]), as_stored(spread))
    return Familiarity(*parts, float(as_stored(np.array([rest]))[0]), np.inf)


def usual_limit(distances: Sequence[Doubles]) -> float:
    """Return the distance that few frames of held-out cases exceed; every case counts alike."""
    values = np.concatenate(distances)
    weight = np.concatenate([np.full(len(of_case), 1 / len(of_case)) for of_case in distances])
    order = np.argsort(values)
    share = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][np.searchsorted(share, 1 - EXCEEDED)])
