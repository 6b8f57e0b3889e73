"""Lesions: where they are in the bowel, and how they are laid onto the image of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dice_ce.lab.simulator.decals import DECALS, TEXELS
from dice_ce.lab.simulator.motion import Pose
from dice_ce.lab.simulator.pools import POOLS, Pool
from dice_ce.lab.simulator.view import AHEAD, AROUND, TURN, View
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12
from dice_ce.types import Floats, Image

Mask = NDArray[np.bool_]

LESIONS = tuple(label for label in VIDEOCAP_12 if label != NORMAL)
GIRTH = 0.85  # typical distance of the wall from the capsule: makes lesions about round
BEHIND, FARTHEST = -1.4, 3.0  # radii: beyond, a lesion is out of sight or too small to see
MUCOSA_RED = np.float32(190.0)  # the red of lit mucosa hardly depends on bile: it tells how lit a pixel is
DARKNESS = 40  # red below which nothing can be made out
BILE_TINT = np.array([-0.02, 0.04, -0.4], dtype=np.float32)
SHADING = np.float32(0.55)  # of slopes


class Lesion(Protocol):
    """Something abnormal at one place of the bowel."""

    @property
    def label(self) -> str: ...

    @property
    def footprint(self) -> tuple[float, float]:
        """Half its size around and along the bowel, in radii."""

    def moved(self, angle: float, place: float) -> Lesion:
        """The same, elsewhere."""

    def near(self, pose: Pose) -> bool:
        """Whether it may be in sight."""

    def rise(self, pose: Pose) -> Floats | None:
        """How far it lifts the wall around the capsule, if at all."""

    def paint(self, image: Image, view: View) -> Mask:
        """Paint it, and tell where it shows."""


@dataclass(frozen=True)
class WallLesion:
    """A decal on the wall."""

    label: str
    angle: float  # fixed to the wall
    place: float  # along the bowel
    size: float
    texels: Floats  # of its image: red, green, blue, cover, slopes around and along, extent
    relief: Floats | None  # how far the wall stands up, if it does

    @property
    def footprint(self) -> tuple[float, float]:
        radius = self.size * float(np.sqrt(self.texels[..., -1].mean() * 4 / np.pi))
        return radius, radius

    def moved(self, angle: float, place: float) -> WallLesion:
        return replace(self, angle=angle, place=place)

    def near(self, pose: Pose) -> bool:
        return BEHIND < self.place - pose.depth < FARTHEST

    def rise(self, pose: Pose) -> Floats | None:
        if self.relief is None:
            return None
        u, v = self._around(AROUND, pose), self._along(AHEAD, pose)
        rows, columns = np.nonzero((np.abs(u) < 1.0) & (np.abs(v) < 1.0))
        lifted = np.zeros((len(AROUND), len(AHEAD)), dtype=np.float32)
        lifted[rows, columns] = self.size * _read(self.relief[..., None], u[rows, 0], v[columns])[:, 0]
        return lifted

    def paint(self, image: Image, view: View) -> Mask:
        """Only the few pixels that show it are worked on."""
        pixels = np.flatnonzero(np.abs(self._along(view.ahead, view.pose)) < 1.0)
        u = self._around(view.angle.take(pixels), view.pose)
        pixels, u = pixels[np.abs(u) < 1.0], u[np.abs(u) < 1.0]
        ahead = view.ahead.take(pixels)
        mask = np.zeros(view.ahead.shape, dtype=np.bool_)
        if not len(pixels):
            return mask
        texels = _read(self.texels, u, self._along(ahead, view.pose))
        cover, around, along, extent = texels[:, 3:].T
        mucosa = image.reshape(-1, 3)[pixels]
        light = mucosa[:, :1] / MUCOSA_RED
        colour = texels[:, :3] * light * (1.0 + np.float32(view.pose.bile) * BILE_TINT)
        lean = ahead / (np.abs(ahead) + np.float32(0.5))  # the lamp is at the capsule: near slopes are lit
        shade = (1.0 + SHADING * (along * lean + 0.3 * around)).clip(0.45, 1.5)
        cover = cover / np.sqrt(1.0 + np.float32(0.6 * view.pose.haze) * ahead.clip(0.0))
        painted = (mucosa + (colour - mucosa) * cover[:, None]) * shade[:, None]
        image.reshape(-1, 3)[pixels] = painted.clip(0, 255)
        mask.reshape(-1)[pixels] = (extent > 0.5) & (mucosa[:, 0] > DARKNESS)
        return mask

    def _around(self, angle: Floats, pose: Pose) -> Floats:
        """Return the distance from the lesion's middle around the bowel, in units of the lesion."""
        turned = angle + np.float32((pose.roll - self.angle + np.pi) % float(TURN))
        return np.asarray((turned % TURN - np.float32(np.pi)) * np.float32(GIRTH / self.size))

    def _along(self, ahead: Floats, pose: Pose) -> Floats:
        return np.asarray((ahead + np.float32(pose.depth - self.place)) * np.float32(1.0 / self.size))


def make_lesion(label: str, rng: np.random.Generator, angle: float = 0.0, place: float = 0.0) -> Lesion:
    """A lesion of that kind, unlike any other."""
    check_labels((label,))
    if label in POOLS:
        return Pool.grown(label, rng, angle, place)
    grow, sizes = DECALS[label]
    decal = grow(rng)
    channels = [*np.moveaxis(decal.colour, -1, 0), decal.cover, *decal.slopes, decal.extent]
    texels = np.stack([np.asarray(channel, dtype=np.float32) for channel in channels], axis=-1)
    return WallLesion(label, angle, place, float(rng.uniform(*sizes)), texels, decal.rise)


def check_labels(labels: tuple[str, ...]) -> None:
    for label in labels:
        if label not in LESIONS:
            raise ValueError(f"unknown lesion {label!r}: choose one of {', '.join(LESIONS)}")


def _read(texels: Floats, u: Floats, v: Floats) -> Floats:
    """Texels at points of the square from -1 to 1, bilinearly."""
    row, column = (u + 1.0) * np.float32((TEXELS - 1.01) / 2), (v + 1.0) * np.float32((TEXELS - 1.01) / 2)
    top, left = row.astype(np.intp), column.astype(np.intp)
    down, right = (row - top)[:, None], (column - left)[:, None]
    flat, cell = texels.reshape(-1, texels.shape[-1]), top * TEXELS + left
    upper, lower = flat.take(cell, axis=0), flat.take(cell + TEXELS, axis=0)
    upper += (flat.take(cell + 1, axis=0) - upper) * right
    lower += (flat.take(cell + TEXELS + 1, axis=0) - lower) * right
    return np.asarray(upper + (lower - upper) * down)
