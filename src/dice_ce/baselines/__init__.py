"""What DiCE is compared with: rules that choose a fixed number of frames, each labelled on its own by a diagnoser.

Every rule is a function of a `Pool` and a budget, and returns the rows it chooses, in time order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dice_ce.frames import Ints

from .aks import AksConfig, choose_aks
from .pool import BUDGET, Pool
from .simple import choose_random, choose_top, choose_uniform
from .vilamp import VilampConfig, choose_vilamp

Rule = Callable[[Pool, int], Ints]

BASELINES: Mapping[str, Callable[..., Rule]] = {
    "uniform": lambda: choose_uniform,
    "random": lambda seed=0: partial(choose_random, seed=seed),
    "top-score": lambda: choose_top,
    "aks": lambda **settings: partial(choose_aks, config=AksConfig(**settings)),
    "vilamp": lambda **settings: partial(choose_vilamp, config=VilampConfig(**settings)),
}
"""Builders by name; their keyword arguments are what tuning may change."""


def build_baseline(name: str, settings: Mapping[str, Any] | None = None) -> Rule:
    """Make a rule by its name."""
    return BASELINES[name](**(settings or {}))


__all__ = ["BASELINES", "BUDGET", "AksConfig", "Pool", "Rule", "VilampConfig", "build_baseline"]
