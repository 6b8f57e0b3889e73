"""The lesion diagnoser g_phi: a distribution over the labels for every candidate frame (paper, section 4.5, eq. 6)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.encoder import Encoder
from dice_ce.errors import InputError
from dice_ce.exam import Exam, Image
from dice_ce.selector import Candidates, Head

Floats = npt.NDArray[np.float32]

BATCH = 8


def softmax(logits: Floats, temperature: float = 1.0) -> Floats:
    """Turn logits into distributions; a temperature above 1 makes them less sure."""
    scaled = logits.astype(np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    weights = np.exp(scaled)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def diagnose_images(
    ordinals: Sequence[int], images: Iterable[tuple[int, Image]], judge: Callable[[Iterable[Image]], Floats]
) -> Floats:
    """Judge those of some frames whose images there are; the rows of the others are NaN."""
    found: list[int] = []

    def note(image: tuple[int, Image]) -> Image:
        found.append(image[0])
        return image[1]

    judged = judge(map(note, images))
    distributions = np.full((len(ordinals), judged.shape[1]), np.nan, np.float32)
    distributions[np.isin(ordinals, found)] = judged
    return distributions


def leave_out_unseen(candidates: Candidates, distributions: Floats) -> tuple[Candidates, Floats]:
    """Leave out the candidates that the diagnoser could not look at: nothing can be said about them."""
    seen = np.flatnonzero(~np.isnan(distributions).any(axis=1))
    return candidates[seen], distributions[seen]


@dataclass(frozen=True, eq=False)
class HeadDiagnoser:
    """A head on the features that the selector has computed already: one pass over the video, half the cost."""

    head: Head
    temperature: float = 1.0

    def __call__(self, exam: Exam | None, candidates: Candidates) -> Floats:
        """Return p_t = g_phi(u_t) (eq. 6)."""
        return self.judge(candidates.vectors)

    def judge(self, vectors: npt.NDArray[np.floating]) -> Floats:
        """Return p for features."""
        return softmax(self.head(vectors), self.temperature)


@dataclass(frozen=True, eq=False)
class NetworkDiagnoser:
    """A second network that looks at candidate frames only, as in the paper; its outputs are logits."""

    network: Encoder
    temperature: float = 1.0

    def __call__(self, exam: Exam | None, candidates: Candidates) -> Floats:
        """Return p_t = g_phi(I_t) (eq. 6); NaN where the frame cannot be decoded."""
        if exam is None:
            raise InputError("this bundle's diagnoser looks at frames: give the exam, not only its features")
        ordinals = candidates.frames.index.tolist()
        images = exam.images(ordinals, size=self.network.input_size, resize=self.network.resize)
        return diagnose_images(ordinals, images, self.judge)

    def judge(self, pictures: Iterable[npt.NDArray[np.uint8]]) -> Floats:
        """Return p for pictures of the network's size."""
        return softmax(self.logits(pictures), self.temperature)

    def logits(self, pictures: Iterable[npt.NDArray[np.uint8]]) -> Floats:
        """Return what the network says before the temperature."""
        remaining = iter(pictures)
        batches = iter(lambda: list(itertools.islice(remaining, BATCH)), [])
        logits = [self.network.encode(np.stack(batch)) for batch in batches]
        return np.concatenate([np.empty((0, self.network.dim), np.float32), *logits])
