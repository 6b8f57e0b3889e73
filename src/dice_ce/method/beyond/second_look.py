"""The second look: what the Selector picks, the diagnoser looks at before anything is woven. Ours, not the paper's.

Inside one patient a diagnoser with a network of its own tells lesions from mucosa better than the Selector, which must
be cheap because it sees every frame. So the Selector passes on more than is woven, and what the diagnoser finds least
normal of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dice_ce.method.selector import Candidates, Screened, highest
from dice_ce.settings import setting
from dice_ce.types import Floats


@dataclass(frozen=True)
class SecondLookSettings:
    """How much is left after the diagnoser's look at all candidates."""

    second_share: float = setting(
        1.0,
        "most candidates that are left when the diagnoser has looked at all of them, as a share of all frames; "
        "1 weaves without that look",
        low=0,
        high=1,
        search=(1.0, 0.3, 0.2, 0.1, 0.05),
        rule="Second look",
        off=1.0,
    )


def look_again(
    candidates: Candidates,
    frames: int,
    diagnoser: Callable[[Screened], Floats],
    normal: int,
    settings: SecondLookSettings,
) -> Candidates:
    """Keep the candidates that the diagnoser finds least normal, of an exam of so many frames."""
    if settings.second_share == 1:
        return candidates
    score = second_score(candidates.score, diagnoser(candidates)[:, normal])
    rows = highest(score, np.arange(len(score)), settings.second_share * frames)
    return replace(candidates, score=score)[rows]


def second_score(score: Floats, normal: Floats) -> Floats:
    """Return 1 - p_t(normal) instead of s_t; what cannot be looked at again keeps its first score."""
    return np.where(np.isnan(normal), score, 1 - normal)
