"""Pictures for vision-language models: resized, normalised and cut into patches exactly as their processors do it.

The processors of transformers need torchvision for some of these models, so this is numpy alone. Resizing follows
Pillow to the last bit: the same filters in fixed-point arithmetic, rounded to whole levels between the two directions.
Each row is resized first, then each column, as torchvision does; so did Pillow before version 13, which turns it round
where a picture grows in width and shrinks in height.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

FRACTION_BITS = 22
"""Bits after the point of a filter weight, as in Pillow: eight are left for the pixel and two for overshoot."""
MOST_ELONGATED = 200
"""Sides of a more extreme ratio are refused by the models of the Qwen family."""


# --- resizing ------------------------------------------------------------------------------------------------------


def _triangle(x: Doubles) -> Doubles:
    return np.where(x < 1, 1 - x, 0.0)


def _cubic(x: Doubles) -> Doubles:
    a = -0.5
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


FILTERS: dict[int, tuple[Callable[[Doubles], Doubles], float]] = {2: (_triangle, 1.0), 3: (_cubic, 2.0)}
"""Filter and its reach, by Pillow's numbers, which preprocessor files use: bilinear and bicubic."""


def resize(picture: Image, height: int, width: int, resample: int) -> Image:
    """Resize as Pillow does, antialiased."""
    return _resize_axis(_resize_axis(picture, width, 1, resample), height, 0, resample)


def _resize_axis(picture: Image, size: int, axis: int, resample: int) -> Image:
    if picture.shape[axis] == size:
        return picture
    places, weights = _taps(picture.shape[axis], size, resample)
    lines = np.moveaxis(picture, axis, 0)
    total = np.full((size, *lines.shape[1:]), 1 << (FRACTION_BITS - 1), np.int32)  # a half, to round
    for k in range(places.shape[1]):
        total += lines[places[:, k]].astype(np.int32) * weights[:, k].reshape(-1, 1, 1)
    return np.moveaxis(np.clip(total >> FRACTION_BITS, 0, 255).astype(np.uint8), 0, axis)


def _taps(old: int, new: int, resample: int) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Say which old pixels make up each new one, and with which weights."""
    kernel, reach = FILTERS[resample]
    scale = old / new
    stretch = max(scale, 1.0)
    centre = (np.arange(new) + 0.5) * scale
    first = np.maximum((centre - reach * stretch + 0.5).astype(np.int64), 0)
    after = np.minimum((centre + reach * stretch + 0.5).astype(np.int64), old)
    places = first[:, None] + np.arange(int((after - first).max()))
    weights = kernel(np.abs((places - centre[:, None] + 0.5) * (1 / stretch))) * (places < after[:, None])
    weights *= 1 / weights.cumsum(axis=1)[:, -1:]  # summed one by one: another order rounds differently
    fixed = np.trunc(weights * (1 << FRACTION_BITS) + np.copysign(0.5, weights)).astype(np.int32)
    return np.minimum(places, old - 1), fixed


# --- what a model is fed -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Levels:
    """How whole levels become the numbers of a network."""

    resample: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale: float = 1 / 255

    def __post_init__(self) -> None:
        if self.resample not in FILTERS:
            raise ValueError(f"resample {self.resample} is none of {', '.join(map(str, FILTERS))}")
        if not len(self.mean) == len(self.std) == 3:
            raise ValueError(f"expected mean and std of three colours, got {self.mean} and {self.std}")

    def normalise(self, picture: Image) -> Floats:
        """Return [3, height, width]."""
        scaled = (picture.transpose(2, 0, 1).astype(np.float64) * self.rescale).astype(np.float32)
        mean, std = (np.asarray(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std))
        return np.asarray((scaled - mean) / std, np.float32)


@dataclass(frozen=True, eq=False)
class Prepared:
    """One picture as its model takes it."""

    values: Floats
    """[3, side, side], or [patches, numbers per patch]."""
    grid: tuple[int, int, int] | None
    """Of patches: times, rows, columns."""
    tokens: int
    """Places that the picture takes in the prompt."""


@dataclass(frozen=True)
class Square:
    """Feeding of InternVL and Gemma: one square of a fixed size. No further crops, which a round view does not need."""

    levels: Levels
    height: int
    width: int
    tokens: int

    def __call__(self, picture: Image) -> Prepared:
        """Prepare one picture."""
        resized = resize(picture, self.height, self.width, self.levels.resample)
        return Prepared(self.levels.normalise(resized), None, self.tokens)


@dataclass(frozen=True)
class Patches:
    """Feeding of the Qwen family: about as large as it is, as a list of patches in the order in which they merge."""

    levels: Levels
    patch: int
    merge: int
    times: int
    """A still picture is repeated this often."""
    least: int
    """Pixels; smaller pictures are enlarged."""
    most: int

    def __call__(self, picture: Image) -> Prepared:
        """Prepare one picture."""
        height, width = fit_grid(picture.shape[0], picture.shape[1], self.patch * self.merge, self.least, self.most)
        image = self.levels.normalise(resize(picture, height, width, self.levels.resample))
        rows, columns = height // self.patch, width // self.patch
        patches = patchify(image, self.patch, self.merge, self.times)
        return Prepared(patches, (1, rows, columns), rows * columns // self.merge**2)


Feeding = Square | Patches


def fit_grid(height: int, width: int, unit: int, least: int, most: int) -> tuple[int, int]:
    """Find the nearest multiples of `unit` with between `least` and `most` pixels, keeping the aspect ratio."""
    if max(height, width) > MOST_ELONGATED * min(height, width):
        raise ValueError(f"a picture of {width}x{height} pixels is too elongated")
    rows, columns = round(height / unit), round(width / unit)
    if rows * columns * unit**2 > most:
        shrink = math.sqrt(height * width / most)
        rows, columns = max(1, math.floor(height / shrink / unit)), max(1, math.floor(width / shrink / unit))
    elif rows * columns * unit**2 < least:
        grow = math.sqrt(least / (height * width))
        rows, columns = math.ceil(height * grow / unit), math.ceil(width * grow / unit)
    return rows * unit, columns * unit


def patchify(image: Floats, patch: int, merge: int, times: int) -> Floats:
    """Cut [3, height, width] into patches, those that merge into one token next to each other."""
    colours, height, width = image.shape
    rows, columns = height // (patch * merge), width // (patch * merge)
    cells = image.reshape(colours, rows, merge, patch, columns, merge, patch).transpose(1, 4, 2, 5, 0, 3, 6)
    repeated = np.repeat(cells[:, :, :, :, :, None], times, axis=5)
    return repeated.reshape(rows * columns * merge**2, colours * times * patch**2)


# --- from the files of a model -------------------------------------------------------------------------------------

HALF = (0.5, 0.5, 0.5)
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read_levels(given: dict[str, Any], default: Levels) -> Levels:
    """Let the preprocessor file have the last word."""
    is_normalised, is_rescaled = given.get("do_normalize", True), given.get("do_rescale", True)
    return Levels(
        resample=int(given.get("resample", default.resample)),
        mean=tuple(map(float, given.get("image_mean", default.mean) if is_normalised else (0, 0, 0))),
        std=tuple(map(float, given.get("image_std", default.std) if is_normalised else (1, 1, 1))),
        rescale=float(given.get("rescale_factor", default.rescale)) if is_rescaled else 1.0,
    )


def read_patches(given: dict[str, Any], vision: Any, default: Patches) -> Patches:
    """Take the sizes of patches from the model, the rest from the preprocessor file."""
    size = given.get("size") or {}
    return Patches(
        levels=read_levels(given, default.levels),
        patch=int(vision.patch_size),
        merge=int(vision.spatial_merge_size),
        times=int(vision.temporal_patch_size),
        least=int(given.get("min_pixels") or size.get("shortest_edge") or default.least),
        most=int(given.get("max_pixels") or size.get("longest_edge") or default.most),
    )


def read_square(given: dict[str, Any], default: Square) -> Square:
    """Take the size from the preprocessor file."""
    size = given.get("size") or {}
    return replace(
        default,
        levels=read_levels(given, default.levels),
        height=int(size.get("height", default.height)),
        width=int(size.get("width", default.width)),
    )
