"""Chance: intervals from resampled patients, and whether two methods differ on the same patients (points 11 and 12).

Written here in numpy, because the package does not need scipy for anything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.types import Doubles, Floats, Ints

RESAMPLES = 2000
CONFIDENCE = 95.0
FEWEST_PATIENTS = 6
"""With fewer, no two-sided signed-rank test can reach 0.05."""
MOST_EXACT = 200
"""Differences up to which the exact distribution is computed; beyond, the normal one is indistinguishable."""
DECIMALS = 12
"""To which differences of quotients are compared: 1/3 - 1/6 and 1/2 - 1/3 are a tie, although not as floats."""


# --- intervals -----------------------------------------------------------------------------------------------------


def resample(patients: Sequence[str], resamples: int = RESAMPLES, seed: int = 0) -> Doubles:
    """Draw patients with replacement; return how often each exam counts in each resample.

    One patient's exams go together: they are not independent of each other. From a single patient nothing can be said
    about others, so there are no resamples then, rather than an interval without width.
    """
    names, patient = np.unique(np.asarray(patients, dtype=np.str_), return_inverse=True)
    if len(names) < 2:
        return np.zeros((0, len(patients)))
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    return drawn[:, patient].astype(np.float64)


def resampled_quotients(weights: Doubles, top: Doubles, bottom: Doubles) -> Doubles:
    """Compute a quotient of sums over exams in every resample."""
    return quotients(weights @ top, weights @ bottom)


def quotients(top: Doubles, bottom: Doubles) -> Doubles:
    """Divide; NaN where there is nothing to divide by."""
    result: Doubles = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
    return result


def interval(values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Return the percentile interval of the resamples in which the figure is defined."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        return float("nan"), float("nan")
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(defined, (tail, 100 - tail)).tolist()
    return low, high


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval over resampled patients or cases."""

    value: float
    low: float
    high: float
    top: float = math.nan
    """Summed over exams: the figure is top / bottom, where it is a quotient."""
    bottom: float = math.nan

    def __str__(self) -> str:
        """Write it for a table; a single case gives no interval, and a figure may not be defined."""
        if math.isnan(self.value):
            return "–"
        return f"{self.value:.3f}" + ("" if math.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]")

    def to_json(self) -> dict[str, float | None]:
        """Write it for programs; what is not defined is null, for JSON has no NaN."""
        return {name: json_number(value) for name, value in asdict(self).items()}


def json_number(value: float) -> float | None:
    """Write a figure that is not defined as null."""
    return None if math.isnan(value) else value


# --- tests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignedRank:
    """Result of a paired, two-sided Wilcoxon signed-rank test."""

    n: int
    """Patients for whom both methods have a value."""
    nonzero: int
    """Patients among them whose values differ: only these are ranked."""
    p: float | None
    how: Literal["exact", "normal approximation", "all equal", "insufficient"]


def signed_rank(one: Doubles, two: Doubles) -> SignedRank:
    """Test whether paired values differ; NaN stands for patients without a value.

    Equal pairs are left out before ranking, as Wilcoxon did; equal differences share their mean rank, and the exact
    distribution is that of these ranks. Fewer than six patients are insufficient for any statement.
    """
    difference = np.round((one - two)[np.isfinite(one) & np.isfinite(two)], DECIMALS)
    n, different = len(difference), difference[difference != 0]
    if n < FEWEST_PATIENTS:
        return SignedRank(n, len(different), None, "insufficient")
    if not len(different):
        return SignedRank(n, 0, 1.0, "all equal")
    ranks = doubled_ranks(np.abs(different))
    positive = int(ranks[different > 0].sum())
    if len(different) <= MOST_EXACT:
        return SignedRank(n, len(different), exact_p(ranks, positive), "exact")
    return SignedRank(n, len(different), normal_p(ranks, positive), "normal approximation")


def doubled_ranks(values: Doubles | Floats) -> Ints:
    """Rank values from 1; equal ones share their mean rank. Twice the rank, so that all are whole numbers."""
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(size)
    return np.asarray((2 * last - size + 1)[group], np.int64)


def exact_p(ranks: Ints, positive: int) -> float:
    """Two-sided probability of a rank sum at least this far out, if every sign were the toss of a coin."""
    lower = min(positive, int(ranks.sum()) - positive)
    chance = np.zeros(lower + 1)
    chance[0] = 1.0
    for rank in ranks[ranks <= lower].tolist():
        chance[rank:] += chance[:-rank]
        chance /= 2
    return min(1.0, 2 * float(chance.sum()) / 2.0 ** int((ranks > lower).sum()))


def normal_p(ranks: Ints, positive: int) -> float:
    """Compute the same from the normal distribution, with the variance of the tied ranks and continuity correction."""
    centre = float(ranks.sum()) / 4
    deviation = math.sqrt(float((ranks.astype(np.float64) ** 2).sum())) / 4
    distance = max(abs(positive / 2 - centre) - 0.5, 0.0)
    return math.erfc(distance / deviation / math.sqrt(2))


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of one family of tests; those without a value are not part of it."""
    known = sorted((p, place) for place, p in enumerate(chances) if p is not None)
    adjusted: list[float | None] = [None] * len(chances)
    largest = 0.0
    for step, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - step) * p))
        adjusted[place] = largest
    return adjusted
