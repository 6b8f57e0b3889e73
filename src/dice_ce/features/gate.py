"""The near-duplicate gate: capsules stand still for minutes, and what does not change need not be encoded again.

A run of frames that look like its first one is encoded at both ends only. If the two features agree, the frames in
between take the nearer one; if not, the run is halved and asked again. So every reused feature lies between two exact
ones, at most `run_limit` frames apart, whose cosine distance is at most `feature`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.float32]
Encode = Callable[[Images], Vectors]

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
    shortest: int = 8
    """Frames from which a run counts as standing still; shorter ones are encoded in full."""


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """Features of consecutive frames, and which of them were computed rather than reused."""

    vectors: Vectors
    exact: npt.NDArray[np.bool_]
    worst: float
    """Largest cosine distance between the ends of a run that was accepted."""


def encode_block(images: Images, encode: Encode, gate: GateConfig | None) -> EncodedBlock:
    """Encode consecutive frames; without a gate, each of them."""
    runs = find_runs(cell_means(images), gate) if gate else [(i, i) for i in range(len(images))]
    limit = gate.feature if gate else 0.0
    known: dict[int, Vectors] = {}
    source = np.arange(len(images))  # which frame's feature each frame takes
    worst = 0.0
    while runs:
        wanted = sorted({end for run in runs for end in run} - known.keys())
        known.update(zip(wanted, _encode(images, wanted, encode), strict=True))
        halves = []
        for first, last in runs:
            middle = (first + last) // 2
            distance = cosine_distance(known[first], known[last])
            if last - first > 1 and distance > limit:
                halves += [(first, middle), (middle, last)]
            elif last - first > 1:
                source[first : middle + 1], source[middle + 1 : last + 1] = first, last
                worst = max(worst, distance)
        runs = halves
    return EncodedBlock(np.stack([known[i] for i in source.tolist()]), source == np.arange(len(images)), worst)


def find_runs(cells: npt.NDArray[np.float32], gate: GateConfig) -> list[tuple[int, int]]:
    """Cut the frames into (first, last) runs in which every frame looks like the first."""
    runs: list[tuple[int, int]] = []
    first = 0
    for frame in range(1, len(cells) + 1):
        if frame == len(cells) or np.abs(cells[frame] - cells[first]).max() > gate.pixel:
            is_still = frame - first >= gate.shortest
            runs += [(first, frame - 1)] if is_still else [(i, i) for i in range(first, frame)]
            first = frame
    return runs


def cell_means(images: Images) -> npt.NDArray[np.float32]:
    """Return the mean colour of every cell of every frame, [n, rows, columns, 3]: few numbers, yet local enough."""
    missing = -images.shape[1] % CELL
    if missing:
        images = np.pad(images, ((0, 0), (0, missing), (0, missing), (0, 0)), mode="edge")
    # Adding strided slices is several times faster here than reshaping and averaging.
    rows = sum((images[:, k::CELL].astype(np.uint16) for k in range(1, CELL)), images[:, ::CELL].astype(np.uint16))
    cells = sum((rows[:, :, k::CELL] for k in range(1, CELL)), rows[:, :, ::CELL])
    return np.asarray(cells, np.float32) / np.float32(CELL**2)


def cosine_distance(a: Vectors, b: Vectors) -> float:
    """1 - cos(a, b); two zero vectors are alike."""
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return 1.0 - float(a @ b) / norms if norms > 0 else float(np.any(a != b))


def _encode(images: Images, rows: list[int], encode: Encode) -> Iterator[Vectors]:
    for i in range(0, len(rows), BATCH):
        yield from encode(images[rows[i : i + BATCH]])
