"""Whether labels of neighbouring keyframes agree (paper, section 5.3; points 9 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dice_ce.benchmark.match import Selections
from dice_ce.types import Doubles, Ints

THRESHOLDS = (30, 60, 120, 300, 600)
"""Seconds, inclusive, up to which two consecutive keyframes are near each other."""
SHORT_SWITCH = 60
"""Seconds, inclusive, of what the paper calls a short-interval switch."""


@dataclass(frozen=True)
class Pairs:
    """Consecutive selected frames of one exam, or of many: `+` adds up."""

    near: tuple[int, ...] = (0,) * len(THRESHOLDS)
    """Pairs up to each threshold."""
    differing: tuple[int, ...] = (0,) * len(THRESHOLDS)
    """Pairs among them with different labels."""
    switches: tuple[int, ...] = ()
    """Milliseconds between all consecutive frames with different labels, however far apart, ascending."""

    def __add__(self, other: Pairs) -> Pairs:
        return Pairs(
            tuple(a + b for a, b in zip(self.near, other.near, strict=True)),
            tuple(a + b for a, b in zip(self.differing, other.differing, strict=True)),
            tuple(sorted(self.switches + other.switches)),
        )


def count_pairs(selections: Selections) -> Pairs:
    """Look at each selected frame and the next, whatever their labels."""
    gaps = np.diff(selections.times)
    differ = np.diff(selections.labels) != 0
    return Pairs(
        near=tuple(_up_to_thresholds(gaps)),
        differing=tuple(_up_to_thresholds(gaps[differ])),
        switches=tuple(np.sort(gaps[differ]).tolist()),
    )


def _up_to_thresholds(gaps: Ints) -> list[int]:
    return [int((gaps <= 1000 * threshold).sum()) for threshold in THRESHOLDS]


def pair_columns(pairs: Sequence[Pairs], threshold: int) -> tuple[Doubles, Doubles]:
    """Return per exam the pairs that differ and all pairs, up to one of the thresholds."""
    place = THRESHOLDS.index(threshold)
    differing = np.array([exam.differing[place] for exam in pairs], np.float64)
    return differing, np.array([exam.near[place] for exam in pairs], np.float64)


def spread(pairs: Sequence[Pairs], threshold: int) -> float:
    """Return the standard deviation (n - 1) of the exams' inconsistency: the paper's error bar. NaN below two exams."""
    differing, near = pair_columns(pairs, threshold)
    rates = differing[near > 0] / near[near > 0]
    return float(rates.std(ddof=1)) if len(rates) > 1 else float("nan")


def switch_distribution(pairs: Pairs) -> tuple[list[float], list[float]]:
    """Return the cumulative distribution of switch intervals: seconds, and the share of switches up to there."""
    seconds, counts = np.unique(np.array(pairs.switches, np.int64), return_counts=True)
    shares = np.cumsum(counts) / max(len(pairs.switches), 1)
    return (seconds / 1000).tolist(), shares.tolist()


def switch_quartiles(pairs: Pairs) -> tuple[float, float, float]:
    """Return the quartiles of the switch intervals in seconds, interpolated; NaN if nothing switches."""
    if not pairs.switches:
        return (float("nan"),) * 3
    low, middle, high = np.percentile(np.array(pairs.switches) / 1000, (25, 50, 75)).tolist()
    return low, middle, high
