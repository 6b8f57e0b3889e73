"""Bubbles and flakes of debris, drawn once and laid over frames as small patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from dice_ce.lab.compose.windows import opencv
from dice_ce.types import Image

Floats = npt.NDArray[np.float64]

VARIANTS = 16
"""Sprites of each kind; each may also be turned in four ways."""
RIM = np.array([88.0, 168.0, 212.0])  # blue, green, red
FLAKES = np.array([[66.0, 176.0, 200.0], [50.0, 122.0, 165.0], [72.0, 160.0, 182.0], [116.0, 200.0, 225.0]])


@dataclass(frozen=True, eq=False)
class Sprite:
    """A patch: how much of the frame shines through, and what is added to it."""

    through: Image
    added: Image


def overlay(image: Image, sprite: Sprite, x: float, y: float, strength: float) -> None:
    """Lay a sprite over the image with its middle at a point, both given in pixels; what sticks out is cut off."""
    cv2 = opencv()
    height, width = sprite.through.shape[:2]
    top, left = round(y - height / 2), round(x - width / 2)
    rows = slice(max(0, top), min(image.shape[0], top + height))
    columns = slice(max(0, left), min(image.shape[1], left + width))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    inner = np.s_[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
    patch = image[rows, columns]
    covered = cv2.add(cv2.multiply(patch, sprite.through[inner], scale=1 / 255), sprite.added[inner])
    image[rows, columns] = cv2.addWeighted(covered, strength, patch, 1 - strength, 0)


@cache
def bubbles(size: int) -> tuple[Sprite, ...]:
    """Draw clusters of bubbles for images of this size."""
    return _all_ways(size, 1, _bubble_cluster)


@cache
def debris(size: int) -> tuple[Sprite, ...]:
    """Draw flakes of debris for images of this size."""
    return _all_ways(size, 2, _flakes)


def _all_ways(size: int, kind: int, draw: Callable[[int, np.random.Generator], Sprite]) -> tuple[Sprite, ...]:
    drawn = [draw(size, np.random.default_rng([kind, variant])) for variant in range(VARIANTS)]
    return tuple(
        Sprite(np.rot90(one.through, way).copy(), np.rot90(one.added, way).copy()) for one in drawn for way in range(4)
    )


def _bubble_cluster(size: int, rng: np.random.Generator) -> Sprite:
    side = round(size * rng.uniform(0.25, 0.6))
    y, x = np.mgrid[:side, :side].astype(np.float64)
    through, added = np.ones((side, side)), np.zeros((side, side, 3))
    for _ in range(int(rng.integers(8, 40))):
        radius = size * 0.012 * 5.0 ** float(rng.uniform() ** 1.6)
        middle = side / 2 + np.clip(rng.normal(0, side / 7, 2), radius - side / 2, side / 2 - radius)
        right, down = (x - middle[0]) / radius, (y - middle[1]) / radius
        away = np.hypot(right, down)
        inside = np.clip((1.0 - away) * radius, 0.0, 1.0)
        rim = np.exp(-(((away - 0.88) / 0.09) ** 2)) * inside
        shade = np.exp(-(((away - 0.72) / 0.12) ** 2)) * inside
        lamp = np.exp(-((right + 0.35) ** 2 + (down + 0.4) ** 2) / 0.02) * inside
        glint = np.exp(-((right - 0.4) ** 2 + (down - 0.35) ** 2) / 0.03) * inside
        keep = 1 - np.clip(0.12 * inside + 0.5 * rim + 0.14 * shade + 0.9 * lamp + 0.4 * glint, 0, 1)
        through, added = through * keep, added * keep[..., None]
        added += rim[..., None] * 0.5 * RIM + np.clip(0.9 * lamp + 0.4 * glint, 0, 1)[..., None] * 245.0
    return _sprite(through, added)


def _flakes(size: int, rng: np.random.Generator) -> Sprite:
    cv2 = opencv()
    side = round(size * rng.uniform(0.2, 0.55))
    coarse = cv2.GaussianBlur(rng.normal(size=(side, side)), (0, 0), size * 0.018)
    fine = cv2.GaussianBlur(rng.normal(size=(side, side)), (0, 0), size * 0.005)
    y, x = (np.mgrid[:side, :side] + 0.5) / side * 2 - 1
    height = coarse / coarse.std() + 0.45 * fine / fine.std() - 2.0 * (x**2 + y**2) - float(rng.uniform(-0.3, 0.3))
    cover = np.clip(height * 2.2, 0.0, 1.0) * np.clip(3 * (1 - np.hypot(x, y)), 0, 1) * float(rng.uniform(0.65, 0.95))
    relief = 1 + 0.16 * fine / fine.std() + 0.1 * np.clip(height, 0, 2)
    colour = FLAKES[int(rng.integers(len(FLAKES)))] * float(rng.uniform(0.7, 1.0))
    return _sprite(1 - cover, cover[..., None] * (relief[..., None] * colour).clip(0, 255))


def _sprite(through: Floats, added: Floats) -> Sprite:
    return Sprite(
        np.repeat(np.rint(through * 255)[..., None], 3, axis=-1).astype(np.uint8),
        np.rint(added.clip(0, 255)).astype(np.uint8),
    )
