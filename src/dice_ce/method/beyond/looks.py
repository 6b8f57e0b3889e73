"""Looks: the diagnoser sees the most suspicious frames of the most suspicious contexts only. Ours, not the paper's.

A network of its own costs more for one frame than all that comes before it. A context of a hundred frames is the same
thing seen a hundred times, and a long exam has thousands of contexts for a list of a few dozen items.
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
    """How much of a context is looked at, and at how many contexts."""

    looks: int | None = setting(
        None,
        "most frames of a context that the diagnoser looks at: those with the highest scores",
        low=1,
        rule="Few looks",
        off=None,
    )
    looked_contexts: int | None = setting(
        None,
        "most contexts that the diagnoser looks at: those whose most suspicious frames have the highest scores",
        low=1,
        rule="Few looks",
        off=None,
    )


def rows_to_look_at(contexts: Sequence[Context], score: Floats, settings: LooksSettings) -> Ints:
    """Choose the candidates to look at, in their order; of equal scores the earlier."""
    suspicion = np.array([score[context.rows].max() for context in contexts], np.float32)
    seen = [contexts[i] for i in _highest(suspicion, settings.looked_contexts)]
    chosen = [context.rows[_highest(score[context.rows], settings.looks)] for context in seen]
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))


def _highest(score: Floats, most: int | None) -> Ints:
    return np.argsort(-score, kind="stable")[:most]
