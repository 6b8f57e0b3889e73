"""Names for what every room passes around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
"""RGB pixels [height, width, 3]."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Resize = Literal["area", "bilinear", "bicubic"]
"""How images are made smaller."""
Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""
