"""The keyframe of a context: the medoid of the frames that support it (paper, section 4.5, eq. 12).

It is chosen here for everybody, so that rules about time judge a context where a reader will see it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dice_ce.method.converger import Judgment
from dice_ce.method.selector import Candidates

TIE = 1e-9
"""Sums of cosines closer than this are equal; rounding errors are far smaller, differences that can be seen larger."""


def medoid(vectors: npt.NDArray[np.floating]) -> int:
    """Return the most typical row: the least summed cosine distance to all others, the earliest of equals.

    Of two rows it is always the first: their distance is the same from both sides.
    """
    rows = np.asarray(vectors, np.float64)  # lengths in single precision differ enough to break ties at random
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = rows / np.where(lengths > 0, lengths, 1)
    to_others = units @ units.sum(axis=0) - np.einsum("nd,nd->n", units, units)
    return int(np.argmax(to_others >= to_others.max() - TIE))


class Keyframes:
    """Finds the keyframes of contexts of one exam.

    Medoids are remembered by what was retained: most contexts come back unchanged when only thresholds change.
    """

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._known: dict[bytes, int] = {}

    def row(self, judgment: Judgment) -> int:
        """Return the row of the candidate that stands for a context."""
        key = judgment.retained.tobytes()
        if key not in self._known:
            vectors = self._candidates.vectors[judgment.retained]
            self._known[key] = int(judgment.retained[medoid(vectors)])
        return self._known[key]

    def seconds(self, judgment: Judgment) -> float:
        """Say when a reader sees a context: the time of its keyframe."""
        return float(self._candidates.seconds[self.row(judgment)])
