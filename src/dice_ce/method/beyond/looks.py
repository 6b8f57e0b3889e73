"""Looks: of a long context the diagnoser sees the most suspicious frames only. Ours, not the paper's.

A network of its own costs more for one frame than all that comes before it, and a context of a hundred frames is the
same thing seen a hundred times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dice_ce.method.weaver import Context
from dice_ce.settings import setting
from dice_ce.types import Floats, Ints


@dataclass(frozen=True)
class LooksSettings:
    """How much of a context is looked at."""

    looks: int | None = setting(
        None,
        "most frames of a context that the diagnoser looks at: those with the highest scores",
        low=1,
        rule="Few looks",
        off=None,
    )


def rows_to_look_at(contexts: Sequence[Context], score: Floats, settings: LooksSettings) -> Ints:
    """Choose the candidates to look at, in their order; of equal scores the earlier."""
    chosen = [context.rows[_highest(score[context.rows], settings.looks)] for context in contexts]
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))


def _highest(score: Floats, most: int | None) -> Ints:
    return np.argsort(-score, kind="stable")[:most]
