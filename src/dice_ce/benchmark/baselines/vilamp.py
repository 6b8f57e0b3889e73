"""ViLAMP's differential keyframe selection: the most relevant frames that do not look alike, then fill the gaps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dice_ce.benchmark.baselines.pool import BUDGET, Pool
from dice_ce.method.tokens import unit_length
from dice_ce.settings import setting
from dice_ce.types import Ints


@dataclass(frozen=True)
class VilampSettings:
    """How different frames must be."""

    alike: float = setting(
        0.85,
        "f2f: cosine above which a frame is taken for a repetition of a chosen one",
        search=tuple(round(0.5 + 0.02 * i, 2) for i in range(25)),
    )
    floor: float | None = setting(
        None, "score below which no frame is chosen for its relevance", low=0, high=1, search=(None, 0.5, 0.7)
    )


def choose_vilamp(
    pool: Pool,
    budget: int = BUDGET,
    *,
    settings: VilampSettings = VilampSettings(),  # noqa: B008  frozen
) -> Ints:
    """Choose by relevance and difference, then pad to the budget."""
    if len(pool) <= budget:
        return np.arange(len(pool))
    return pad(choose_different(pool, budget, settings), len(pool), budget)


def choose_different(pool: Pool, budget: int, settings: VilampSettings) -> Ints:
    """Take frames in the order of relevance, passing over those that look like one taken before."""
    vectors = unit_length(pool.vectors.astype(np.float32))
    visited = np.zeros(len(pool), np.bool_)
    chosen: list[int] = []
    for row in np.argsort(-pool.score, kind="stable"):
        if len(chosen) == budget or (settings.floor is not None and pool.score[row] < settings.floor):
            break
        if visited[row]:
            continue
        chosen.append(int(row))
        visited |= vectors @ vectors[row] > settings.alike
        visited[row] = True
    return np.sort(np.array(chosen, np.int64))


def pad(chosen: Ints, count: int, budget: int) -> Ints:
    """Fill the gaps between the chosen frames evenly until the budget is reached."""
    missing = budget - len(chosen)
    if missing <= 0:
        return chosen
    gaps = unselected_runs(chosen, count)
    lengths = np.array([stop - start for start, stop in gaps])
    distance = next(d for d in range(1, count + 1) if (-(-lengths // d) - 1).sum() <= missing)
    added: list[int] = []
    for start, stop in gaps:
        length = stop - start
        k = -(-length // distance) - 1
        step = -(-length // (k + 1))
        added += sorted({min(start + step * (i + 1), stop - 1) for i in range(k)})
    taken = set(added)
    spare = (row for start, stop in reversed(gaps) for row in range(stop - 1, start - 1, -1) if row not in taken)
    while len(taken) < missing:
        taken.add(next(spare))
    return np.sort(np.concatenate([chosen, np.array(sorted(taken), np.int64)]))


def unselected_runs(chosen: Ints, count: int) -> list[tuple[int, int]]:
    """Return the maximal runs [start, stop) of frames that were not chosen."""
    edges = [-1, *chosen.tolist(), count]
    return [(left + 1, right) for left, right in pairwise(edges) if right - left > 1]
