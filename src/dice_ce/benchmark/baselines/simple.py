"""The baselines without which no table is honest: a uniform grid, chance, and the highest scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dice_ce.benchmark.baselines.pool import BUDGET, Pool
from dice_ce.settings import setting
from dice_ce.types import Ints


def choose_uniform(pool: Pool, budget: int = BUDGET) -> Ints:
    """Take the middle of each of `budget` equal stretches of the pool."""
    if len(pool) <= budget:
        return np.arange(len(pool))
    return np.asarray((np.arange(budget) + 0.5) * len(pool) / budget, np.int64)


@dataclass(frozen=True)
class RandomSettings:
    """Which random draw is taken."""

    seed: int = setting(0, "seed of the draw", low=0)


def choose_random(pool: Pool, budget: int = BUDGET, *, settings: RandomSettings = RandomSettings()) -> Ints:  # noqa: B008
    """Draw without replacement."""
    return np.sort(np.random.default_rng(settings.seed).permutation(len(pool))[:budget])


def choose_top(pool: Pool, budget: int = BUDGET) -> Ints:
    """Take the highest scores; ties go to the earlier frame."""
    return np.sort(np.argsort(-pool.score, kind="stable")[:budget])
