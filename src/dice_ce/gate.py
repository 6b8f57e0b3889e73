"""The near-duplicate gate: capsules stand still for minutes, and what does not change need not be encoded again.

A run of frames that look like its first one is encoded at both ends only. If the two features agree, the frames in
between take the nearer one; if not, the run is halved and asked again. So every reused feature lies between two exact
ones, at most `run_limit` frames apart, whose cosine distance is at most `feature`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.encoder import Encoder

BATCH = 8
"""Frames encoded in one call; larger batches are not faster on a CPU and cost memory."""
CELL = 8
"""Side of the squares whose mean colours are compared, in pixels of the encoder's input."""


@dataclass(frozen=True)
class GateConfig:
    """How alike is alike. The defaults are conservative: see `benchmarks/gate.py` for what they cost and save."""

    pixel: float = 8.0
    """Largest change, in grey levels of 255, that any cell's mean colour may show within a run."""
    feature: float = 0.02
    """Largest cosine distance between the exact features at the two ends of a run."""


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """Features of consecutive frames, and which of them were computed rather than reused."""

    vectors: npt.NDArray[np.float32]
    exact: npt.NDArray[np.bool_]
    worst: float
    """Largest cosine distance between the ends of a run that was accepted."""


def encode_block(images: npt.NDArray[np.uint8], encoder: Encoder, gate: GateConfig | None) -> EncodedBlock:
    """Encode consecutive frames; without a gate, each of them."""
    if gate is None:
        everything = np.arange(len(images))
        return EncodedBlock(_encode(images, everything, encoder), np.ones(len(images), np.bool_), 0.0)
    vectors = np.zeros((len(images), encoder.dim), np.float32)
    exact = np.zeros(len(images), np.bool_)
    runs = find_runs(cell_means(images), gate.pixel)
    wanted = {frame for run in runs for frame in run}
    worst = 0.0
    while wanted:
        rows = np.array(sorted(wanted))
        vectors[rows], exact[rows] = _encode(images, rows, encoder), True
        open_runs = []
        wanted = set()
        for first, last in runs:
            distance = cosine_distance(vectors[first], vectors[last])
            if last - first > 1 and distance > gate.feature:
                middle = (first + last) // 2
                wanted.add(middle)
                open_runs += [(first, middle), (middle, last)]
            elif last - first > 1:
                worst = max(worst, distance)
                middle = (first + last) // 2
                vectors[first + 1 : middle + 1] = vectors[first]
                vectors[middle + 1 : last] = vectors[last]
        runs = open_runs
    return EncodedBlock(vectors, exact, worst)


def find_runs(cells: npt.NDArray[np.float32], pixel: float) -> list[tuple[int, int]]:
    """Cut the frames into (first, last) runs in which every frame looks like the first."""
    runs, first = [], 0
    for frame in range(1, len(cells) + 1):
        if frame == len(cells) or np.abs(cells[frame] - cells[first]).max() > pixel:
            runs.append((first, frame - 1))
            first = frame
    return runs


def cell_means(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return the mean colour of every cell of every frame, [n, rows, columns, 3]: few numbers, yet local enough."""
    missing = -images.shape[1] % CELL
    if missing:
        images = np.pad(images, ((0, 0), (0, missing), (0, missing), (0, 0)), mode="edge")
    # Adding strided slices is several times faster here than reshaping and averaging.
    rows = sum((images[:, k::CELL].astype(np.uint16) for k in range(1, CELL)), images[:, ::CELL].astype(np.uint16))
    cells = sum((rows[:, :, k::CELL] for k in range(1, CELL)), rows[:, :, ::CELL])
    return np.asarray(cells, np.float32) / np.float32(CELL**2)


def cosine_distance(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    """1 - cos(a, b); two zero vectors are alike."""
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return 1.0 - float(a @ b) / norms if norms > 0 else float(np.any(a != b))


def _encode(images: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], encoder: Encoder) -> npt.NDArray[np.float32]:
    parts = [encoder.encode(images[rows[i : i + BATCH]]) for i in range(0, len(rows), BATCH)]
    return np.concatenate(parts) if parts else np.empty((0, encoder.dim), np.float32)
