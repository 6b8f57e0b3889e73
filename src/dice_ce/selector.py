"""The Selector: which frames may matter (paper, section 4.2, eq. 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from dice_ce.clock import ExamClock
from dice_ce.errors import InputError
from dice_ce.frames import FrameTable, Ints
from dice_ce.store import Features

Floats = npt.NDArray[np.float32]

CHUNK = 4096
"""Rows that go through a head at once, so that memory does not grow with the exam."""


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

    def __call__(self, vectors: npt.NDArray[np.floating]) -> Floats:
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
        normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * self.scale + self.shift
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
class Candidates:
    """The frames that may matter, in exam order: C of eq. 2."""

    frames: FrameTable
    seconds: npt.NDArray[np.float64]
    """Time of each candidate on the exam clock."""
    vectors: npt.NDArray[np.float16] | Floats
    """Visual features u_t."""
    score: Floats
    """Selector scores s_t."""

    def __post_init__(self) -> None:
        lengths = {len(self.frames), len(self.seconds), len(self.vectors), len(self.score)}
        if len(lengths) > 1:
            raise ValueError(f"expected columns of equal length, got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, rows: Ints) -> Candidates:
        return Candidates(self.frames[rows], self.seconds[rows], self.vectors[rows], self.score[rows])


def score_vectors(vectors: npt.NDArray[np.floating], head: Head) -> Floats:
    """Screen features: s_t = h_psi(u_t) in [0, 1] (eq. 1)."""
    return sigmoid(head(vectors)[:, 0])


def score_frames(features: Features, head: Head) -> Floats:
    """Screen every frame of an exam: s_t = h_psi(f_theta(I_t)) (eq. 1)."""
    return score_vectors(features.vectors, head)


def candidate_rows(score: Floats, tau_s: float, share: float = 1.0) -> Ints:
    """Find the frames with s_t >= tau_s (eq. 2), at most a share of all frames: the highest scores.

    The share is ours, not the paper's: scores are not equally high in all patients; how many frames somebody can look
    into is. It is rounded up, so that a short exam keeps a candidate. Where more frames tie at the lowest score that
    still fits, they are taken evenly over the exam: many scores are exactly 1, and to take the earliest of those would
    be blind to the rest of the exam.
    """
    rows = np.flatnonzero(score >= tau_s)
    most = math.ceil(round(share * len(score), 6))  # 0.07 * 100 is a little more than 7
    if len(rows) <= most:
        return rows
    if most == 0:
        return rows[:0]
    lowest = np.sort(score[rows])[-most]
    above, tied = rows[score[rows] > lowest], rows[score[rows] == lowest]
    places = most - len(above)
    spread = tied[(2 * np.arange(places) + 1) * len(tied) // (2 * places)]
    return np.sort(np.concatenate([above, spread]))


def select(features: Features, score: Floats, clock: ExamClock, tau_s: float = 0.5, share: float = 1.0) -> Candidates:
    """Keep the frames that may matter (eq. 2)."""
    return take(features, score, clock, candidate_rows(score, tau_s, share))


def take(features: Features, score: Floats, clock: ExamClock, rows: Ints) -> Candidates:
    """Make some rows of the features candidates."""
    frames = features.frames[rows]
    seconds = np.asarray(clock.ticks[frames.index] * float(clock.unit), np.float64)
    return Candidates(frames, seconds, np.asarray(features.vectors[rows]), score[rows])
