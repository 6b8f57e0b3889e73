"""Images to train on, read once the way the product reads them, with the window each was seen through."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError
from dice_ce.exam.field import find_field
from dice_ce.exam.open import FIELD_SAMPLES, open_exam
from dice_ce.features.images import read_images
from dice_ce.files import atomic_file
from dice_ce.types import Progress

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Images:
    """Square images as decoded, nothing blacked yet, and their windows."""

    pixels: Pixels
    """[n, size, size, 3]"""
    windows: Pixels
    """[windows, size, size]: 1 inside, 0 outside."""
    window: npt.NDArray[np.int64]
    """Which window each image has."""

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def size(self) -> int:
        """Side of the images."""
        return int(self.pixels.shape[1])

    def masked(self, rows: npt.NDArray[np.int64]) -> Pixels:
        """Return some of the images, black outside their windows, as an encoder sees them in an exam."""
        return np.asarray(self.pixels[rows] * self.windows[self.window[rows]][..., None])


def read_labelled_images(frames: Sequence[LabelledFrame], size: int, progress: Progress | None = None) -> Images:
    """Decode frames; the window is found for each case, as it would be in its exam."""
    cases: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, frame in enumerate(frames):
        cases[frame.source, frame.case].append(row)
    pixels = np.empty((len(frames), size, size, 3), np.uint8)
    window = np.empty(len(frames), np.int64)
    windows, done = [], 0
    for case, rows in enumerate(cases.values()):
        missing = set(rows)
        for place, image in read_images([frames[row].path for row in rows], size):
            pixels[rows[place]] = image
            missing.discard(rows[place])
            done += 1
            if progress is not None:
                progress(done, len(frames))
        if missing:
            damaged = frames[min(missing)].path
            raise InputError(f"{damaged}: cannot be decoded; copy the image again, or take it out of the table")
        samples = np.array(rows)[np.unique(np.linspace(0, len(rows) - 1, FIELD_SAMPLES).astype(np.int64))]
        windows.append(find_field(pixels[samples].max(axis=3)).mask(size, size))
        window[rows] = case
    return Images(pixels, np.array(windows, np.uint8).reshape(-1, size, size), window)


def read_exam_images(path: Path, ordinals: Sequence[int], size: int) -> Images:
    """Take frames out of an exam, in the order given.

    Its burned-in text is blacked already, since it lies outside the window.
    """
    with open_exam(path) as exam:
        wanted = set(ordinals)
        found = {ordinal: image for ordinal, image in exam.read(size=size) if ordinal in wanted}
        window = exam.field.mask(size, size).astype(np.uint8)
    if len(found) < len(wanted):
        raise InputError(f"{path}: {len(wanted) - len(found)} frames cannot be decoded; export the exam again")
    pixels = np.stack([found[ordinal] for ordinal in ordinals])
    return Images(pixels, window[None], np.zeros(len(pixels), np.int64))


def joined(parts: Sequence[Images]) -> Images:
    """Put several tables of images below each other."""
    offsets = np.cumsum([0] + [len(part.windows) for part in parts])
    return Images(
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.windows for part in parts]),
        np.concatenate([part.window + offset for part, offset in zip(parts, offsets, strict=False)]),
    )


def kept(folder: Path, key: object, make: Callable[[], Images]) -> Images:
    """Read what was made for this key before, straight from the disk, or make and keep it."""
    tag = hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:16]
    files = [folder / f"images-{tag}.{part}.npy" for part in ("windows", "window", "pixels")]
    if not files[-1].exists():
        made = make()
        parts: list[npt.NDArray[Any]] = [made.windows, made.window, made.pixels]
        for file, part in zip(files, parts, strict=True):
            with atomic_file(file) as target:
                np.save(target, part)
    windows, window, pixels = (np.load(file, mmap_mode="r") for file in files)
    return Images(pixels, np.asarray(windows), np.asarray(window))
