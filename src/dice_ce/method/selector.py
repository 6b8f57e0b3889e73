"""The Selector: which frames may matter (paper, section 4.2, eq. 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError
from dice_ce.exam.clock import ExamClock
from dice_ce.exam.frames import FrameTable
from dice_ce.features.rows import Vectors, rows_of
from dice_ce.features.store import Features
from dice_ce.settings import setting
from dice_ce.types import Floats, Ints

CHUNK = 4096
"""Rows that go through a head at once, so that memory does not grow with the exam."""
EPSILON = 1e-5
"""Of a head's LayerNorm."""


@dataclass(frozen=True)
class SelectorSettings:
    """Which frames become candidates."""

    tau_s: float = setting(0.5, "Selector score from which a frame is a candidate", low=0, high=1)
    candidate_share: float = setting(
        1.0,
        "most candidates, as a share of all frames",
        low=0,
        high=1,
        search=(1.0, 0.4, 0.2, 0.1, 0.05),
        rule="Share of candidates",
        off=1.0,
    )


@dataclass(frozen=True, eq=False)
class Head:
    """A small network on features: LayerNorm, Linear, GELU, Linear. Dropout only matters while training."""

    scale: Floats
    shift: Floats
    weight1: Floats
    """[d, hidden]"""
    bias1: Floats
    weight2: Floats
    """[hidden, outputs]"""
    bias2: Floats

    def __post_init__(self) -> None:
        d, hidden = self.weight1.shape
        expected = {"scale": (d,), "shift": (d,), "bias1": (hidden,), "weight2": (hidden, len(self.bias2))}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"head: expected {name} of shape {shape}, got {getattr(self, name).shape}")
        if not all(np.isfinite(getattr(self, part.name)).all() for part in fields(self)):
            raise InputError("head: some weights are not finite; train it again")

    def __call__(self, vectors: Vectors) -> Floats:
        """Return logits [n, outputs]."""
        if vectors.shape[1] != len(self.scale):
            raise InputError(
                f"head: expected features of {len(self.scale)} numbers, got {vectors.shape[1]}; "
                "features and weights belong to different encoders"
            )
        parts = [self._forward(vectors[i : i + CHUNK].astype(np.float32)) for i in range(0, len(vectors), CHUNK)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.bias2)), np.float32)

    def _forward(self, u: Floats) -> Floats:
        centred = u - u.mean(axis=1, keepdims=True)
        normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON) * self.scale + self.shift
        return np.asarray(gelu(normed @ self.weight1 + self.bias1) @ self.weight2 + self.bias2, np.float32)

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        return sum(getattr(self, part.name).size for part in fields(self))

    def arrays(self, prefix: str) -> dict[str, Floats]:
        """Name the weights for storing."""
        return {f"{prefix}.{part.name}": getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Floats], prefix: str) -> Self:
        """Read the weights back."""
        try:
            return cls(**{part.name: arrays[f"{prefix}.{part.name}"] for part in fields(cls)})
        except KeyError as error:
            raise InputError(f"head: the weights have no {error}; the bundle is damaged") from error


def gelu(x: Floats) -> Floats:
    """Gaussian error linear unit in its tanh form, as the heads are trained with."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3))))


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)), np.float32)


@dataclass(frozen=True, eq=False)
class Screened:
    """Frames of an exam with features and scores, in exam order; slicing it gives fewer."""

    frames: FrameTable
    seconds: npt.NDArray[np.float64]
    """Time of each frame on the exam clock."""
    vectors: Vectors
    """Visual features u_t."""
    score: Floats
    """Selector scores s_t."""
    seen_by: str = ""
    """Digest of the encoder that the features are of, if that is known."""

    def __post_init__(self) -> None:
        lengths = {len(self.frames), len(self.seconds), len(self.vectors), len(self.score)}
        if len(lengths) > 1:
            raise ValueError(f"expected columns of equal length, got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, rows: Ints) -> Self:
        vectors = rows_of(self.vectors).some(rows)
        return type(self)(self.frames[rows], self.seconds[rows], vectors, self.score[rows], self.seen_by)


class Candidates(Screened):
    """The screened frames that may matter: C of eq. 2."""


def score_vectors(vectors: Vectors, head: Head) -> Floats:
    """Screen features: s_t = h_psi(u_t) in [0, 1] (eq. 1)."""
    return sigmoid(head(vectors)[:, 0])


def screen(features: Features, head: Head, clock: ExamClock) -> Screened:
    """Score every decodable frame of an exam: s_t = h_psi(f_theta(I_t)) (eq. 1)."""
    seconds = np.asarray(clock.ticks[features.frames.index] * float(clock.unit), np.float64)
    vectors = rows_of(features.vectors)
    return Screened(features.frames, seconds, vectors, score_vectors(vectors, head), features.encoder_digest)


def select(screened: Screened, settings: SelectorSettings) -> Candidates:
    """Keep the frames that may matter (eq. 2)."""
    rows = candidate_rows(screened.score, settings)
    return Candidates(*vars(screened[rows]).values())


def candidate_rows(score: Floats, settings: SelectorSettings) -> Ints:
    """Find the frames with s_t >= tau_s (eq. 2), at most a share of all frames: the highest scores.

    The share is ours, not the paper's: scores are not equally high in all patients; how many frames somebody can look
    into is. It is rounded up, so that a short exam keeps a candidate. Where more frames tie at the lowest score that
    still fits, they are taken evenly over the exam: many scores are exactly 1, and to take the earliest of those would
    be blind to the rest of the exam.
    """
    rows = np.flatnonzero(score >= settings.tau_s)
    most = math.ceil(round(settings.candidate_share * len(score), 6))  # 0.07 * 100 is a little more than 7
    if len(rows) <= most:
        return rows
    if most == 0:
        return rows[:0]
    lowest = np.sort(score[rows])[-most]
    above, tied = rows[score[rows] > lowest], rows[score[rows] == lowest]
    places = most - len(above)
    spread = tied[(2 * np.arange(places) + 1) * len(tied) // (2 * places)]
    return np.sort(np.concatenate([above, spread]))
