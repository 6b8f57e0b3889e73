"""Does an exam look like anything that the networks learnt from?

Networks answer whatever they are shown: another make of capsule, a stomach, a colonoscopy. Their features cannot tell,
since they are trained not to see the make. The images themselves can: their colours, and how much of light and colour
changes over how many pixels. The mean of that over a few frames from all over the exam is its look, and an exam whose
look lies farther from that of every source that was learnt from than nearly all held-out cases did is called
unfamiliar, in the summary and in every report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dice_ce.exam.open import Exam
from dice_ce.types import Bools, Doubles, Floats

SIDE = 112
"""Of the images that a look is taken from: fine detail tells more about compression than about the capsule."""
BANDS = 4
"""Steps from pixel to pixel, from two to two, and so on."""
QUANTILES = (0.1, 0.5, 0.9)
DARKEST = 4.0
"""Added to grey levels before their logarithm, below which there is only noise."""
FAINTEST = 1e-3
UNFAMILIAR = 1.0
"""From here on an exam is called unfamiliar."""


@dataclass(frozen=True, eq=False)
class Familiarity:
    """How the cases looked that were learnt from."""

    sources: Floats
    """[sources, k]: mean look of the cases of each."""
    whiten: Floats
    """[k, k]: takes out how cases of one source differ."""
    limit: float
    """Distance that few held-out cases exceed."""

    def arrays(self) -> dict[str, Floats]:
        """Name the numbers for storing."""
        return {
            "familiar.sources": self.sources,
            "familiar.whiten": self.whiten,
            "familiar.limit": np.array([self.limit], np.float32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self | None:
        """Read them back; None where there are none."""
        if "familiar.sources" not in arrays:
            return None
        sources, whiten, limit = (
            np.asarray(arrays[f"familiar.{name}"], np.float32) for name in ("sources", "whiten", "limit")
        )
        return cls(sources, whiten, float(limit[0]))

    def distances(self, looks: npt.NDArray[np.floating]) -> Doubles:
        """Return how far looks [n, k] lie from the nearest source, per number: below 1 for most of its own cases."""
        away = (looks[:, None] - self.sources[None]).astype(np.float64) @ self.whiten
        return np.asarray(np.sqrt((away**2).mean(axis=2)).min(axis=1), np.float64)

    def strangeness(self, exam: Exam) -> float:
        """Return how far an exam lies from what is familiar: 1 is as far as few held-out cases."""
        return float(self.distances(look_of_exam(exam)[None])[0]) / self.limit


def look_of_exam(exam: Exam) -> Floats:
    """Describe how an exam looks."""
    return look_of(np.stack([image for _, image in exam.images(exam.spread().tolist(), size=SIDE)]))


def look_of(images: npt.NDArray[np.uint8]) -> Floats:
    """Describe how the images of an exam [n, SIDE, SIDE, 3] look, black outside the field of view: k numbers."""
    seen = _inner(images.max(axis=(0, 3)) > 0)
    if not seen.any():
        seen[:] = True  # nothing but black: as strange as it gets
    return np.asarray(np.mean([_look(image, seen) for image in images], axis=0), np.float32)


def _look(image: npt.NDArray[np.uint8], seen: Bools) -> Doubles:
    """Describe one image: light, red against green and green against blue, their spread and their change by scale."""
    red, green, blue = np.moveaxis(np.log(image.astype(np.float64) + DARKEST), 2, 0)
    planes = np.stack([(red + green + blue) / 3, red - green, green - blue])
    inside = planes[:, seen]
    parts = [inside.mean(axis=1), inside.std(axis=1), *np.quantile(inside, QUANTILES, axis=1)]
    for _ in range(BANDS):
        coarse, whole = _halved(planes), np.asarray(_quarters(seen).all(axis=(1, 3)))
        change = np.abs(planes - coarse.repeat(2, axis=1).repeat(2, axis=2))
        known = whole.repeat(2, axis=0).repeat(2, axis=1)
        parts.append(np.log((change[:, known].mean(axis=1) if known.any() else np.zeros(3)) + FAINTEST))
        planes, seen = coarse, whole
    return np.concatenate(parts)


def _inner(window: Bools) -> Bools:
    """Leave out the rim, where the window's edge would count as a change."""
    inner = window.copy()
    for axis in (0, 1):
        for step in (-2, -1, 1, 2):
            inner &= np.roll(window, step, axis)
    return inner


def _quarters(plane: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """View a plane as squares of two by two."""
    high, wide = plane.shape
    return plane.reshape(high // 2, 2, wide // 2, 2)


def _halved(planes: Doubles) -> Doubles:
    return np.stack([_quarters(plane).mean(axis=(1, 3)) for plane in planes])


def unfamiliar_text(strangeness: float) -> str:
    """Warn a reader."""
    return (
        f"this exam looks unlike anything that the model was trained on, {strangeness:.1f} times as far from it as "
        "nearly all exams of known capsules (another capsule, another organ?): what the model says about it is not to "
        "be relied on"
    )
