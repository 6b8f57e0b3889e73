"""Images for vision-language models: resized, normalised and cut into patches exactly as their processors do it.

The processors of transformers need torchvision for some of these models, so Pillow resizes and numpy does the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dice_ce.types import Floats, Image

FILTERS = (2, 3)
"""Bilinear and bicubic, by Pillow's numbers, which preprocessor files use."""
MOST_ELONGATED = 200
"""Sides of a more extreme ratio are refused by the models of the Qwen family."""


def resize(image: Image, height: int, width: int, resample: int) -> Image:
    """Resize with Pillow, antialiased, as the models' own processors do."""
    from PIL.Image import Resampling, fromarray

    return np.asarray(fromarray(image).resize((width, height), Resampling(resample)))


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

    def normalise(self, image: Image) -> Floats:
        """Return [3, height, width]."""
        scaled = (image.transpose(2, 0, 1).astype(np.float64) * self.rescale).astype(np.float32)
        mean, std = (np.asarray(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std))
        return np.asarray((scaled - mean) / std, np.float32)


@dataclass(frozen=True, eq=False)
class Prepared:
    """One image as its model takes it."""

    values: Floats
    """[3, side, side], or [patches, numbers per patch]."""
    grid: tuple[int, int, int] | None
    """Numbers of patches: times, rows, columns."""
    tokens: int
    """Places that the image takes in the prompt."""


@dataclass(frozen=True)
class Square:
    """Feeding of InternVL and Gemma: one square of a fixed size. No further crops, which a round view does not need."""

    levels: Levels
    height: int
    width: int
    tokens: int

    def __call__(self, image: Image) -> Prepared:
        """Prepare one image."""
        resized = resize(image, self.height, self.width, self.levels.resample)
        return Prepared(self.levels.normalise(resized), None, self.tokens)


@dataclass(frozen=True)
class Patches:
    """Feeding of the Qwen family: about as large as it is, as a list of patches in the order in which they merge."""

    levels: Levels
    patch: int
    merge: int
    times: int
    """A image is repeated this often."""
    least: int
    """Pixels; smaller images are enlarged."""
    most: int

    def __call__(self, image: Image) -> Prepared:
        """Prepare one image."""
        height, width = fit_grid(image.shape[0], image.shape[1], self.patch * self.merge, self.least, self.most)
        values = self.levels.normalise(resize(image, height, width, self.levels.resample))
        rows, columns = height // self.patch, width // self.patch
        patches = patchify(values, self.patch, self.merge, self.times)
        return Prepared(patches, (1, rows, columns), rows * columns // self.merge**2)


Feeding = Square | Patches


def fit_grid(height: int, width: int, unit: int, least: int, most: int) -> tuple[int, int]:
    """Find the nearest multiples of `unit` with between `least` and `most` pixels, keeping the aspect ratio."""
    if max(height, width) > MOST_ELONGATED * min(height, width):
        raise ValueError(f"an image of {width}x{height} pixels is too elongated")
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
