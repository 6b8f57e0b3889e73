"""Does an exam look like anything that the networks learnt from?

Networks answer whatever they are shown: another make of capsule, a stomach, a colonoscopy. Features of the frames that
were learnt from fill a small part of their space. How far a frame lies from it is measured along the main directions of
those features and across them (probabilistic principal components), and an exam most of whose frames lie farther than
nearly all held-out frames did is called unfamiliar, in the summary and in every report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dice_ce.features.rows import Vectors
from dice_ce.types import Doubles, Floats

UNFAMILIAR = 0.5
"""Share of frames beyond the limit from which an exam is called unfamiliar."""
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Familiarity:
    """What features usually look like."""

    mean: Floats
    """[d]"""
    basis: Floats
    """[d, k]: main directions, orthonormal."""
    spread: Floats
    """[k]: variance along them."""
    rest: float
    """Variance of every direction across them."""
    limit: float
    """Distance that few held-out frames exceed."""

    def arrays(self) -> dict[str, Floats]:
        """Name the numbers for storing."""
        single = {"rest": np.array([self.rest]), "limit": np.array([self.limit])}
        parts = {"mean": self.mean, "basis": self.basis, "spread": self.spread, **single}
        return {f"familiar.{name}": np.asarray(part, np.float32) for name, part in parts.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self | None:
        """Read them back; None where there are none."""
        if "familiar.mean" not in arrays:
            return None
        mean, basis, spread, rest, limit = (
            np.asarray(arrays[f"familiar.{name}"], np.float32) for name in ("mean", "basis", "spread", "rest", "limit")
        )
        return cls(mean, basis, spread, float(rest[0]), float(limit[0]))

    def distances(self, vectors: Vectors) -> Doubles:
        """Return how far features lie from what was learnt from, per direction: about 1 for those themselves."""
        parts = [self._distances(vectors[i : i + CHUNK]) for i in range(0, len(vectors), CHUNK)]
        return np.concatenate([np.empty(0), *parts])

    def _distances(self, vectors: npt.NDArray[np.floating]) -> Doubles:
        centred = vectors.astype(np.float32) - self.mean
        along = centred @ self.basis
        across = np.maximum(0, np.einsum("nd,nd->n", centred, centred) - np.einsum("nk,nk->n", along, along))
        total = (along**2 / self.spread).sum(axis=1) + across / self.rest
        return np.asarray(np.sqrt(total / len(self.mean)), np.float64)

    def unfamiliar_share(self, vectors: Vectors) -> float:
        """Return the share of frames beyond the limit."""
        return float(np.mean(self.distances(vectors) > self.limit)) if len(vectors) else 0.0


def unfamiliar_text(share: float) -> str:
    """Warn a reader."""
    return (
        f"{100 * share:.0f} % of the frames look unlike anything that the model was trained on (another capsule, "
        "another organ?): what it says about this exam is not to be relied on"
    )
