"""AKS, adaptive keyframe sampling: split the video in halves until a half has clear peaks, then take the peaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.baselines.pool import BUDGET, Pool
from dice_ce.settings import setting
from dice_ce.types import Ints


@dataclass(frozen=True)
class AksSettings:
    """When a segment is kept whole, and how deep the halving goes."""

    peak_gap: float = setting(
        0.8,
        "t1: how far the best scores of a segment stand above its mean",
        search=tuple(round(0.1 + 0.05 * i, 2) for i in range(17)),
    )
    spread: float = setting(-100.0, "t2: least standard deviation; the default switches it off")
    depth: int = setting(5, "how often a segment may be halved; 0 never splits (TOP)", low=0, search=(2, 3, 4, 5))


@dataclass(frozen=True)
class Segment:
    """A stretch [start, stop) of the pool, halved `depth` times."""

    start: int
    stop: int
    depth: int


def choose_aks(pool: Pool, budget: int = BUDGET, *, settings: AksSettings = AksSettings()) -> Ints:  # noqa: B008  frozen
    """Choose frames by adaptive splitting; ties go to the earlier frame."""
    if len(pool) < budget:
        return np.arange(len(pool))
    score = normalised(pool.score)
    segments = split(score, budget, settings)
    chosen = [
        segment.start + np.argsort(-score[segment.start : segment.stop], kind="stable")[:quota]
        for segment, quota in zip(segments, quotas(segments, budget), strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def normalised(score: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Stretch the scores of one video to 0..1; constant scores become zeros."""
    low, high = float(score.min()), float(score.max())
    return (score.astype(np.float64) - low) / (high - low) if high > low else np.zeros(len(score))


def split(score: npt.NDArray[np.float64], budget: int, settings: AksSettings) -> list[Segment]:
    """Halve the sequence until every segment is kept; segments are returned in time order."""
    kept, work = [], [Segment(0, len(score), 0)]
    while work:
        segment = work.pop()
        part = score[segment.start : segment.stop]
        gap = np.sort(part)[-budget:].mean() - part.mean()
        has_peaks = gap > settings.peak_gap and part.std() > settings.spread
        if has_peaks or segment.depth >= settings.depth or len(part) < 2:
            kept.append(segment)
            continue
        middle = segment.start + len(part) // 2
        work += [
            Segment(segment.start, middle, segment.depth + 1),
            Segment(middle, segment.stop, segment.depth + 1),
        ]
    return sorted(kept, key=lambda segment: segment.start)


def quotas(segments: list[Segment], budget: int) -> list[int]:
    """Give each segment its share budget / 2^depth; what rounding down loses goes to the largest remainders.

    No segment gets more than it has frames.
    """
    shares = [budget / 2**segment.depth for segment in segments]
    quota = [min(int(share), segment.stop - segment.start) for share, segment in zip(shares, segments, strict=True)]
    missing = budget - sum(int(share) for share in shares)
    by_remainder = sorted(range(len(segments)), key=lambda i: (int(shares[i]) - shares[i], i))
    for i in by_remainder:
        if missing and quota[i] < segments[i].stop - segments[i].start:
            quota[i] += 1
            missing -= 1
    return quota
