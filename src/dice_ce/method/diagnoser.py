"""The lesion diagnoser g_phi: a distribution over the labels for every candidate frame (paper, section 4.5, eq. 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError
from dice_ce.exam.open import Exam
from dice_ce.features.encoder import Encoder
from dice_ce.features.extraction import cpu_count
from dice_ce.features.rows import Vectors
from dice_ce.method.selector import Head, Screened
from dice_ce.types import Floats, Image, Progress

STRETCH = 64
"""Candidates that are decoded and looked at one after the other."""


def softmax(logits: Floats, temperature: float = 1.0) -> Floats:
    """Turn logits into distributions; a temperature above 1 makes them less sure."""
    scaled = logits.astype(np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    weights = np.exp(scaled)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def diagnose_images(
    ordinals: Sequence[int], images: Iterable[tuple[int, Image]], diagnose: Callable[[Iterable[Image]], Floats]
) -> Floats:
    """Diagnose those of some frames whose images there are; the rows of the others are NaN."""
    found: list[int] = []

    def note(image: tuple[int, Image]) -> Image:
        found.append(image[0])
        return image[1]

    of_found = diagnose(map(note, images))
    distributions = np.full((len(ordinals), of_found.shape[1]), np.nan, np.float32)
    distributions[np.isin(ordinals, found)] = of_found
    return distributions


@dataclass(frozen=True, eq=False)
class HeadDiagnoser:
    """A head on the features that the selector has computed already: one pass over the video, half the cost."""

    head: Head
    temperature: float = 1.0

    def __call__(
        self, exam: Exam | None, candidates: Screened, progress: Progress | None = None, workers: int | None = None
    ) -> Floats:
        """Return p_t = g_phi(u_t) (eq. 6)."""
        return self.diagnose(candidates.vectors)

    def diagnose(self, vectors: Vectors) -> Floats:
        """Return p for features."""
        return softmax(self.head(vectors), self.temperature)


@dataclass(frozen=True, eq=False)
class NetworkDiagnoser:
    """A second network that looks at candidate frames only, as in the paper; its outputs are logits.

    With a head on the Selector's features, which errs elsewhere, the logits of both are added.
    """

    network: Encoder
    temperature: float = 1.0
    head: Head | None = None

    def __call__(
        self, exam: Exam | None, candidates: Screened, progress: Progress | None = None, workers: int | None = None
    ) -> Floats:
        """Return p_t = g_phi(I_t) (eq. 6); NaN where the frame cannot be decoded."""
        if exam is None:
            raise InputError("this bundle's diagnoser looks at frames: give the exam, not only its features")
        logits = network_logits(exam, candidates.frames.index.tolist(), self.network, progress, workers)
        return self.diagnose(logits, candidates.vectors)

    def diagnose(self, logits: npt.NDArray[np.floating], vectors: Vectors) -> Floats:
        """Return p for what the network says, and for features."""
        return softmax(self.add_head(logits, vectors), self.temperature)

    def add_head(self, logits: npt.NDArray[np.floating], vectors: Vectors) -> Floats:
        """Return the logits of both."""
        known = logits.astype(np.float32)
        return known if self.head is None else known + self.head(vectors)


def network_logits(
    exam: Exam,
    ordinals: Sequence[int],
    network: Encoder,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Floats:
    """Ask a network about frames of an exam, in stretches, several at a time; NaN where one cannot be decoded."""

    def look(stretch: Sequence[int]) -> Floats:
        nothing = np.empty((0, network.dim), np.float32)
        with exam.apart() as own:
            images = own.images(stretch, size=network.input_size, resize=network.resize)
            return diagnose_images(
                stretch, images, lambda seen: np.concatenate([nothing, *(network.encode(one[None]) for one in seen)])
            )

    stretches = [ordinals[i : i + STRETCH] for i in range(0, len(ordinals), STRETCH)]
    found = [np.empty((0, network.dim), np.float32)]
    if progress is not None:
        progress(0, len(ordinals))
    with ThreadPoolExecutor(workers or cpu_count()) as pool:
        for logits in pool.map(look, stretches):
            found.append(logits)
            if progress is not None:
                progress(sum(map(len, found)), len(ordinals))
    return np.concatenate(found)


class RememberedDiagnoser:
    """A diagnoser of one exam that looks at each frame once, however often the candidates change."""

    def __init__(self, diagnose: Callable[[Screened], Floats], frame_count: int, labels: int) -> None:
        self._diagnose = diagnose
        self._is_known = np.zeros(frame_count, np.bool_)
        self._known = np.empty((frame_count, labels), np.float32)

    def __call__(self, frames: Screened) -> Floats:
        """Return p_t of these frames; NaN where one cannot be decoded."""
        ordinals = frames.frames.index
        if len(new := np.flatnonzero(~self._is_known[ordinals])):
            self._known[ordinals[new]] = self._diagnose(frames[new])
            self._is_known[ordinals[new]] = True
        return self._known[ordinals]
