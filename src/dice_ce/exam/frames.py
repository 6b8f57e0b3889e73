"""FrameTable: which frames, and exactly when they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dice_ce.types import Ints


@dataclass(frozen=True, eq=False)
class FrameTable:
    """Frames by ordinal, with presentation timestamps kept as integers; slicing it gives a smaller table."""

    index: Ints
    """Ordinal of each frame in the exam, counted from 0 in the order they are shown."""
    pts: Ints
    """Presentation timestamp of each frame, in units of `time_base`."""
    time_base: Fraction
    """Length of one timestamp unit in seconds."""

    def __post_init__(self) -> None:
        if self.index.ndim != 1 or self.index.shape != self.pts.shape:
            raise ValueError(
                f"index and pts must be one-dimensional and equally long, got {self.index.shape} and {self.pts.shape}"
            )
        if self.time_base <= 0:
            raise ValueError(f"time_base must be positive, got {self.time_base}")
        if len(self) and self.index[0] < 0:
            raise ValueError(f"ordinals count from 0, got {self.index[0]}")
        if np.any(np.diff(self.index) <= 0):
            raise ValueError("ordinals must increase")
        if np.any(np.diff(self.pts) < 0):
            raise ValueError("presentation timestamps must not decrease")

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice | npt.NDArray[np.bool_] | Ints) -> FrameTable:
        return FrameTable(self.index[rows], self.pts[rows], self.time_base)
