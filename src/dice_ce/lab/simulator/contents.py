"""What lies on the wall and passes by: bubbles and debris.

Both belong to a place in the bowel, not to a moment, so they rest when the capsule rests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dice_ce.lab.simulator.mucosa import smooth_noise
from dice_ce.lab.simulator.view import View
from dice_ce.types import Floats, Image

LOOP = np.float32(53.0)  # out of step with the wall, so that a bubble and a fold do not meet twice
BEHIND, FARTHEST = np.float32(-0.8), np.float32(3.5)
BUBBLE_RIM = np.array([238, 220, 168])
PALE_FLAKE, DARK_FLAKE = np.array([226, 202, 112]), np.array([164, 122, 44])
GRAIN_SHAPE = (192, 1024)
FLAKE_REACH = 45  # how much of the grain shows from the middle of a flake to its edge


@dataclass(frozen=True)
class Specks:
    """Small things on the wall, in clusters."""

    angle: Floats
    place: Floats
    size: Floats

    @classmethod
    def scattered(
        cls, rng: np.random.Generator, *, clusters: int, most: int, spread: float, sizes: tuple[float, float]
    ) -> Specks:
        owner = np.repeat(np.arange(clusters), rng.integers(1, most + 1, clusters))
        angle = rng.uniform(0.0, 2 * np.pi, clusters)[owner] + rng.normal(0.0, spread, len(owner))
        place = rng.uniform(0.0, LOOP, clusters)[owner] + rng.normal(0.0, spread, len(owner))
        smallest, largest = sizes
        size = smallest * (largest / smallest) ** rng.uniform(0.0, 1.0, len(owner))
        return cls(angle.astype(np.float32), place.astype(np.float32), size.astype(np.float32))

    def __len__(self) -> int:
        return len(self.size)

    def in_sight(self, view: View) -> Iterator[tuple[int, float, float, float]]:
        """Ordinal, pixel x, pixel y and radius in pixels of each, the farthest first."""
        travelled = np.float32(view.pose.depth % LOOP)
        ahead = (self.place - travelled - BEHIND) % LOOP + BEHIND
        near = np.flatnonzero(ahead < FARTHEST)
        near = near[np.argsort(-ahead[near], kind="stable")]
        x, y, distance, in_sight = view.on_wall(self.angle[near], ahead[near])
        radius = self.size[near] / distance * view.optics.pixels_per_radian
        for i in np.flatnonzero(in_sight & (radius > 0.6)):
            yield int(near[i]), float(x[i]), float(y[i]), float(radius[i])


@dataclass(frozen=True)
class Bubbles:
    specks: Specks

    @classmethod
    def grown(cls, seed: int) -> Bubbles:
        rng = np.random.default_rng([seed, 5])
        return cls(Specks.scattered(rng, clusters=18, most=18, spread=0.13, sizes=(0.014, 0.1)))

    def paint(self, image: Image, view: View) -> None:
        for _, x, y, radius in self.specks.in_sight(view):
            patch, right, down = _patch(image, x, y, radius)
            away = np.hypot(right, down)
            inside = np.clip((1.0 - away) * radius, 0.0, 1.0)
            rim = np.exp(-(((away - 0.86) / 0.1) ** 2))
            lamp = np.exp(-((right + 0.35) ** 2 + (down + 0.4) ** 2) / 0.025)
            reflection = np.exp(-((right - 0.4) ** 2 + (down - 0.35) ** 2) / 0.03)
            _blend(patch, np.zeros(3), 0.16 * inside)
            _blend(patch, BUBBLE_RIM, 0.5 * rim * inside)
            _blend(patch, np.full(3, 255.0), (lamp + 0.5 * reflection) * inside)


@dataclass(frozen=True)
class Debris:
    """Ragged flakes; the larger, the thinner."""

    specks: Specks
    paleness: Floats
    grain: Floats  # a sheet of noise from which each flake is cut
    middle: NDArray[np.intp]  # where in the sheet

    @classmethod
    def grown(cls, seed: int) -> Debris:
        rng = np.random.default_rng([seed, 6])
        specks = Specks.scattered(rng, clusters=30, most=10, spread=0.09, sizes=(0.01, 0.15))
        grain = smooth_noise(rng, GRAIN_SHAPE, 0.5) + 0.4 * smooth_noise(rng, GRAIN_SHAPE, 0.2)
        middle = rng.integers(0, GRAIN_SHAPE, (len(specks), 2), dtype=np.intp)
        return cls(specks, rng.random(len(specks), dtype=np.float32), grain, middle)

    def paint(self, image: Image, view: View) -> None:
        for i, x, y, radius in self.specks.in_sight(view):
            patch, right, down = _patch(image, x, y, radius)
            row, column = self.middle[i]
            grain = self.grain[
                np.rint(row + FLAKE_REACH * down).astype(np.intp) % GRAIN_SHAPE[0],
                np.rint(column + FLAKE_REACH * right).astype(np.intp) % GRAIN_SHAPE[1],
            ]
            thickness = np.clip(1.05 - 5.0 * self.specks.size[i], 0.35, 0.9)
            cover = thickness * np.clip(3.0 * (0.5 - np.hypot(right, down) + 0.24 * grain), 0.0, 1.0)
            light = min(1.1, 0.25 + 0.65 * float(view.light[int(y), int(x)]))
            colour = DARK_FLAKE + (PALE_FLAKE - DARK_FLAKE) * self.paleness[i]
            _blend(patch, colour * (light * (1.0 + 0.1 * grain))[..., None], cover)


def _patch(image: Image, x: float, y: float, radius: float) -> tuple[Image, Floats, Floats]:
    """The square of the image around a point, with its coordinates in units of the radius."""
    rows = slice(max(0, int(y - radius - 1)), int(y + radius + 2))
    columns = slice(max(0, int(x - radius - 1)), int(x + radius + 2))
    patch = image[rows, columns]
    down = (np.arange(patch.shape[0], dtype=np.float32)[:, None] + (rows.start + 0.5 - y)) / radius
    right = (np.arange(patch.shape[1], dtype=np.float32)[None] + (columns.start + 0.5 - x)) / radius
    return patch, right, down


def _blend(patch: Image, colour: NDArray[np.floating], cover: NDArray[np.floating]) -> None:
    patch[:] = (patch + (colour - patch) * cover[..., None].clip(0.0, 1.0)).clip(0, 255)
