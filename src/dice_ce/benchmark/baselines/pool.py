"""What a baseline may choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dice_ce.method.selector import Screened

BUDGET = 32
"""Frames per exam: K in the paper."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Frames in time order: the Selector's candidates, or in the zero-shot setting the raw video."""

    score: npt.NDArray[np.float32]
    """Relevance: a vision-only backbone has no text query, so this is the Selector's s_t."""
    vectors: npt.NDArray[np.floating]
    """Features, whose cosine is the visual similarity."""

    def __post_init__(self) -> None:
        if len(self.score) != len(self.vectors):
            raise ValueError(f"{len(self.score)} scores for {len(self.vectors)} features")

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def of(cls, frames: Screened) -> Self:
        """Take screened frames."""
        return cls(frames.score, np.asarray(frames.vectors))
