"""Some rows of a large matrix, read when they are needed.

The features of a long exam take a quarter of a gigabyte in the cache. Whoever goes through them piece by piece needs no
copy of those that became candidates, and should not keep what it has read in memory either.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.types import Ints

DONT_NEED = getattr(mmap, "MADV_DONTNEED", None)
"""Tells the system that it may take memory back; Windows has no such word."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A matrix, or some of its rows; indexing it reads them."""

    matrix: npt.NDArray[Any]
    """[n, d], in memory or mapped from a file."""
    rows: Ints | None = None
    """All if None."""

    def __len__(self) -> int:
        return len(self.matrix if self.rows is None else self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """As an array has it."""
        return len(self), self.matrix.shape[1]

    def __getitem__(self, key: slice | Ints) -> npt.NDArray[Any]:
        """Read some: a copy, so that a mapped file need not stay in memory."""
        chosen = key if self.rows is None else self.rows[key]
        found = np.array(self.matrix[chosen]) if isinstance(chosen, slice) else np.asarray(self.matrix)[chosen]
        if DONT_NEED is not None and isinstance(mapped := self.matrix.base, mmap.mmap):
            mapped.madvise(DONT_NEED)  # the file is still there; what is read again comes from the system's own cache
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype)

    def some(self, rows: Ints) -> Rows:
        """Choose rows, without reading them."""
        return Rows(self.matrix, np.asarray(rows) if self.rows is None else self.rows[rows])


Vectors = npt.NDArray[np.floating] | Rows
"""Features [n, d] of frames."""


def rows_of(vectors: Vectors) -> Rows:
    """Read vectors when they are needed, wherever they are."""
    return vectors if isinstance(vectors, Rows) else Rows(vectors)
