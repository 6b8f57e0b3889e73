"""Spatio-temporal tokens: what a frame looks like and when it was taken, in one vector (paper, section 4.3, eq. 3).

Both halves have unit length and are weighed, v = [sqrt(a) u ; sqrt(1 - a) e], so that the product of two tokens is
v . v' = a cos(u, u') + (1 - a) k(t - t'), where k falls from 1 as the two times move apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.settings import setting
from dice_ce.types import Floats


@dataclass(frozen=True)
class TokenSettings:
    """How time becomes part of a token."""

    token_time: Literal["seconds", "frame_index"] = setting(
        "seconds", "what the temporal half of a token counts; the paper says frames, seconds ignore the frame rate"
    )
    token_unit: float = setting(1.0, "seconds (or frames) per step of the sinusoids", low=1e-6)
    token_base: float = setting(1e4, "longest wavelength in steps, over 2 pi: about 17.5 h by default", low=1.0)


def unit_length(vectors: npt.NDArray[np.floating]) -> Floats:
    """Scale rows to length 1; a zero row stays zero."""
    rows = np.array(vectors, np.float32)
    _make_unit_length(rows)
    return rows


def _make_unit_length(rows: Floats) -> None:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)


def _write_waves(waves: Floats, steps: npt.NDArray[np.float64], base: float) -> None:
    """Write e_t: sines, then cosines, of geometrically spaced wavelengths.

    In place, since a token is so long that every temporary array costs time.
    """
    pairs = (waves.shape[1] + 1) // 2
    frequency = base ** -(np.arange(pairs) / pairs)
    turns = steps[:, None] * (frequency / (2 * np.pi))
    # Whole turns are taken off in double precision; the sines themselves can then be computed in single.
    turns -= np.rint(turns)
    turns *= 2 * np.pi
    phase = turns.astype(np.float32)
    np.sin(phase, out=waves[:, :pairs])
    np.cos(phase[:, : waves.shape[1] - pairs], out=waves[:, pairs:])


def time_steps(
    seconds: npt.NDArray[np.float64], index: npt.NDArray[np.int64], settings: TokenSettings
) -> npt.NDArray[np.float64]:
    """Return the times on which the temporal half is built."""
    return (seconds if settings.token_time == "seconds" else index.astype(np.float64)) / settings.token_unit


def token_halves(vectors: npt.NDArray[np.floating], steps: npt.NDArray[np.float64], base: float) -> Floats:
    """Put u_t and e_t side by side (eq. 3), each of unit length, not yet weighed against each other."""
    count, d = vectors.shape
    halves = np.empty((count, 2, d), np.float32)
    halves[:, 0] = vectors
    _write_waves(halves[:, 1], steps, base)
    _make_unit_length(halves.reshape(-1, d))
    return halves.reshape(count, 2 * d)


def half_weights(alpha: float, length: int) -> Floats:
    """Return the share of each dimension of (sums of) tokens in their product: the visual half has `alpha` of it."""
    return np.repeat(np.array([alpha, 1 - alpha], np.float32), length // 2)


def weigh(halves: Floats, alpha: float) -> Floats:
    """Give the two halves of (sums of) tokens their weights: the visual one has `alpha` of the product."""
    return halves * np.sqrt(half_weights(alpha, halves.shape[1]))
