"""The baselines without which no table is honest: a uniform grid, chance, and the highest scores."""

from __future__ import annotations

import numpy as np

from dice_ce.frames import Ints

from .pool import BUDGET, Pool


def choose_uniform(pool: Pool, budget: int = BUDGET) -> Ints:
    """Take the middle of each of `budget` equal stretches of the pool."""
    if len(pool) <= budget:
        return np.arange(len(pool))
    return np.asarray((np.arange(budget) + 0.5) * len(pool) / budget, np.int64)


def choose_random(pool: Pool, budget: int = BUDGET, *, seed: int = 0) -> Ints:
    """Draw without replacement."""
    return np.sort(np.random.default_rng(seed).permutation(len(pool))[:budget])


def choose_top(pool: Pool, budget: int = BUDGET) -> Ints:
    """Take the highest scores; ties go to the earlier frame."""
    return np.sort(np.argsort(-pool.score, kind="stable")[:budget])
