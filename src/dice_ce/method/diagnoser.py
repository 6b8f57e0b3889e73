"""The lesion diagnoser g_phi: a distribution over the labels for every candidate frame (paper, section 4.5, eq. 6)."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError
from dice_ce.exam.open import Exam, Renderer
from dice_ce.features.encoder import Encoder
from dice_ce.features.extraction import cpu_count
from dice_ce.features.rows import Vectors
from dice_ce.method.selector import Head, Screened
from dice_ce.types import Floats, Progress, Resize

STRETCH = 64
"""Candidates that are decoded and looked at one after the other."""


def softmax(logits: Floats, temperature: float = 1.0) -> Floats:
    """Turn logits into distributions; a temperature above 1 makes them less sure."""
    scaled = logits.astype(np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    weights = np.exp(scaled)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


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
class HeadedEncoder:
    """The diagnoser's head on an encoder: a network that gives logits. It may see frames larger than the Selector.

    Where the Selector saw them through the same encoder in the same size, it takes those features.
    """

    encoder: Encoder
    head: Head

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"head on {self.encoder.name}"

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over encoder and head."""
        weights = b"".join(np.ascontiguousarray(part).tobytes() for part in self.head.arrays("").values())
        return hashlib.sha256(self.encoder.digest.encode() + weights).hexdigest()

    @property
    def input_size(self) -> int:
        """Side of the frames."""
        return self.encoder.input_size

    @property
    def dim(self) -> int:
        """How many labels there are."""
        return len(self.head.bias2)

    @property
    def resize(self) -> Resize:
        """How frames are resized."""
        return self.encoder.resize

    def encode(self, batch: npt.NDArray[np.uint8]) -> Floats:
        """Return logits."""
        return self.head(self.encoder.encode(batch))


@dataclass(frozen=True, eq=False)
class NetworkDiagnoser:
    """Networks that look at candidate frames only, as in the paper. What they give are logits, which are added.

    Networks that share nothing err in different places, so two say more than one.
    """

    networks: tuple[Encoder, ...]
    temperature: float = 1.0

    @property
    def headed(self) -> HeadedEncoder | None:
        """The one that is a head on the encoder, if there is one."""
        return next((one for one in self.networks if isinstance(one, HeadedEncoder)), None)

    def split(self, seen_by: str) -> tuple[tuple[Head, ...], tuple[Encoder, ...]]:
        """Split into heads on an encoder whose features there are already, and networks that have to look."""
        known = [one for one in self.networks if isinstance(one, HeadedEncoder) and one.encoder.digest == seen_by]
        return tuple(one.head for one in known), tuple(one for one in self.networks if one not in known)

    def __call__(
        self, exam: Exam | None, candidates: Screened, progress: Progress | None = None, workers: int | None = None
    ) -> Floats:
        """Return p_t = g_phi(I_t) (eq. 6); NaN where the frame cannot be decoded."""
        if exam is None:
            raise InputError("this bundle's diagnoser looks at frames: give the exam, not only its features")
        heads, networks = self.split(candidates.seen_by)
        logits = look_at(exam, candidates.frames.index.tolist(), networks, progress, workers)
        return self.diagnose(sum((head(candidates.vectors) for head in heads), logits))

    def diagnose(self, logits: npt.NDArray[np.floating]) -> Floats:
        """Return p for what the networks say together."""
        return softmax(logits.astype(np.float32), self.temperature)


def look_at(
    exam: Exam,
    ordinals: Sequence[int],
    networks: Sequence[Encoder],
    progress: Progress | None = None,
    workers: int | None = None,
) -> Floats:
    """Add up what networks say about frames of an exam, in stretches, several at a time; NaN where one is damaged."""
    outputs = networks[0].dim

    def look(stretch: Sequence[int]) -> Floats:
        said = np.full((len(stretch), outputs), np.nan, np.float32)
        rows = {ordinal: row for row, ordinal in enumerate(stretch)}
        with exam.apart() as own:
            views = [(network, Renderer(own, network.input_size, network.resize)) for network in networks]
            for ordinal, frame in own.decoded(stretch):
                # One by one: another frame beside it must not change what is said about a frame.
                said[rows[ordinal]] = sum(network.encode(see(ordinal, frame)[None])[0] for network, see in views)
        return said

    stretches = [ordinals[i : i + STRETCH] for i in range(0, len(ordinals), STRETCH)]
    found = [np.empty((0, outputs), np.float32)]
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
