"""Fluid that gathers in the low part of the lumen: blood, and cloudy intestinal fluid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dice_ce.lab.simulator.motion import Pose
from dice_ce.lab.simulator.mucosa import PERIOD, smooth_noise
from dice_ce.lab.simulator.view import TURN, View
from dice_ce.types import Floats, Image

SHEET = 256  # texels along each side of the seamless sheets of swirl and foam
SHEET_SPAN = 2.0  # radii
BEHIND, FARTHEST = -1.8, 3.2  # radii: beyond, a pool is out of sight or in the dark of the lumen
DARKNESS = 0.2
HIGHLIGHT = np.array([255, 252, 240], dtype=np.float32)
FOAM_RIM = np.array([226, 214, 150], dtype=np.float32)
FLECK = np.array([226, 206, 112], dtype=np.float32)


@dataclass(frozen=True)
class Liquid:
    """What sets one fluid apart from another."""

    thin: tuple[int, int, int]
    deep: tuple[int, int, int]
    clear: float  # depth in radii through which two thirds of the wall is lost
    level: tuple[float, float]  # of the surface, below the capsule: from high to low
    length: tuple[float, float]  # half the stretch of bowel it fills
    streaks: float  # how unevenly it clings to the wall above its level
    foam: float  # 0: none, 1: all along the margin


POOLS = {
    "hematocele": Liquid((196, 28, 18), (84, 6, 4), 0.07, (0.42, 0.62), (0.4, 0.7), 0.24, 0.0),
    "intestinal fluid accumulation": Liquid((194, 158, 64), (136, 116, 34), 0.09, (0.36, 0.5), (0.5, 0.8), 0.03, 1.0),
}


@dataclass(frozen=True)
class Pool:
    """One accumulation, around its lowest point."""

    label: str
    angle: float  # of the lowest point, fixed to the wall
    place: float
    level: float
    length: float
    swirl: Floats
    foam: Floats  # SHEET x SHEET x (film, rim, lamp)

    @classmethod
    def grown(cls, label: str, rng: Generator, angle: float, place: float) -> Pool:
        liquid = POOLS[label]
        swirl = 0.75 * _sheet_noise(rng, 0.5) + 0.45 * _sheet_noise(rng, 0.16) + 0.3 * _sheet_noise(rng, 0.05)
        level, length = float(rng.uniform(*liquid.level)), float(rng.uniform(*liquid.length))
        return cls(label, angle, place, level, length, swirl, liquid.foam * _foam(rng))

    @property
    def footprint(self) -> tuple[float, float]:
        return float(np.arccos(self.level)), self.length

    def moved(self, angle: float, place: float) -> Pool:
        return replace(self, angle=angle, place=place)

    def near(self, pose: Pose) -> bool:
        return BEHIND < self.place - pose.depth < FARTHEST

    def rise(self, pose: Pose) -> None:
        return None

    def paint(self, image: Image, view: View) -> NDArray[np.bool_]:
        """A ray that would meet the wall below the level meets the surface first."""
        liquid, pose = POOLS[self.label], view.pose
        mask = np.zeros(view.ahead.shape, dtype=np.bool_)
        onward = np.float32(pose.depth - self.place)
        pixels = np.flatnonzero(np.abs(view.ahead + onward) < 1.4 * self.length)
        turn = view.angle.take(pixels) + np.float32((pose.roll - self.angle) % float(TURN))
        pixels, turn = pixels[np.cos(turn) > 0.1], turn[np.cos(turn) > 0.1]
        ahead, radius = view.ahead.take(pixels), view.wall_radius(pixels)
        depth = self._depth(radius, turn, ahead + onward)
        wet = depth > 0.0
        if not wet.any():
            return mask
        pixels, ahead, radius, turn, depth = pixels[wet], ahead[wet], radius[wet], turn[wet], depth[wet]

        scale = (np.float32(self.level) / (radius * np.cos(turn))).clip(0.25, 1.0)  # of the way to the wall
        surface = scale * radius * np.sin(turn), scale * ahead + onward
        far = radius**2 + ahead**2
        light = view.light.take(pixels) * ((far + 0.45) / (far * scale**2 + 0.45)) ** np.float32(0.75)
        lit = (1.3 * light / (light + 0.75)).clip(0.0, 1.25)
        cover = 1.0 - np.exp(-depth / np.float32(liquid.clear))
        swirl = self.swirl[_cell(surface[0]), _cell(surface[1])]
        thin, deep = np.array(liquid.thin, np.float32), np.array(liquid.deep, np.float32)
        colour = thin + (deep - thin) * (cover * cover + 0.16 * swirl).clip(0.0, 1.0)[:, None]
        painted = image.reshape(-1, 3)[pixels].astype(np.float32)
        _mix(painted, colour * (lit * (1.0 + 0.09 * swirl))[:, None], 0.97 * cover)

        flecks = self.swirl[_cell(3.0 * surface[1]), _cell(3.0 * surface[0])]
        _mix(painted, FLECK * lit[:, None], np.float32(0.5 * liquid.foam) * cover * (flecks - 1.1).clip(0.0, 1.0))
        meniscus = np.exp(-(((depth - 0.03) / 0.018) ** 2)) * (scale < 1.0)
        _mix(painted, 1.35 * painted, np.float32(0.8) * meniscus)
        film, rim, lamp = self.foam[_cell(surface[0]), _cell(surface[1])].T
        margin = (
            (np.exp(-depth / 0.12) + (swirl - 0.9).clip(0.0, 1.0)).clip(0.0, 1.0) * (scale < 1.0) / (1.0 + ahead**2)
        )
        _mix(painted, 0.5 * painted, 0.5 * margin * film)
        _mix(painted, FOAM_RIM * lit[:, None], 0.85 * margin * rim)
        beneath = np.sqrt(far) * scale / np.float32(self.level)  # 1 where the lamp shines straight down
        glint = np.exp(-(beneath.clip(1.0) - 1.0) / 0.02) * (swirl - 0.7).clip(0.0, 1.0) * (scale < 1.0)
        _mix(painted, HIGHLIGHT, 0.8 * np.maximum(glint, margin * lamp))
        image.reshape(-1, 3)[pixels] = painted.clip(0, 255)
        mask.reshape(-1)[pixels] = (cover > 0.3) & (view.light.take(pixels) > DARKNESS)
        return mask

    def _depth(self, radius: Floats, turn: Floats, along: Floats) -> Floats:
        """Return the depth of the fluid over points of the wall; it ends gently, with streaks along the bowel."""
        liquid = POOLS[self.label]
        ends = 0.5 * (along / np.float32(self.length)) ** 4
        streaks = self.swirl[_cell(0.5 * np.sin(turn) + 0.3 * along), _cell(0.35 * along)]
        return np.asarray(radius * np.cos(turn) - np.float32(self.level) - ends + np.float32(liquid.streaks) * streaks)


def _cell(length: Floats) -> NDArray[np.intp]:
    return np.asarray(np.floor(length * np.float32(SHEET / SHEET_SPAN)).astype(np.intp) & (SHEET - 1))


def _mix(painted: Floats, colour: Floats, cover: Floats) -> None:
    painted += (colour - painted) * cover[:, None]


def _sheet_noise(rng: Generator, grain: float) -> Floats:
    return smooth_noise(rng, (SHEET, SHEET), grain * 2 * np.pi / SHEET_SPAN, stretch=PERIOD / (2 * np.pi))


def _foam(rng: Generator) -> Floats:
    """Bubbles of all sizes side by side."""
    place = np.linspace(0.0, SHEET_SPAN, SHEET, endpoint=False, dtype=np.float32)
    foam = np.zeros((SHEET, SHEET, 3), dtype=np.float32)
    for radius in np.sort(0.02 * 4.0 ** rng.uniform(0.0, 1.0, 420)):  # the large ones lie on top
        x, y = rng.uniform(0.0, SHEET_SPAN, 2)
        right = ((place - x + SHEET_SPAN / 2) % SHEET_SPAN - SHEET_SPAN / 2) / radius
        down = ((place - y + SHEET_SPAN / 2) % SHEET_SPAN - SHEET_SPAN / 2) / radius
        rows, columns = np.flatnonzero(np.abs(right) < 1.0), np.flatnonzero(np.abs(down) < 1.0)
        u, v = right[rows][:, None], down[columns][None]
        away = np.hypot(u, v)
        rim = np.exp(-(((away - 0.85) / 0.14) ** 2))
        lamp = np.exp(-((u + 0.35) ** 2 + (v + 0.4) ** 2) / 0.03)
        bubble = np.stack([np.ones_like(away), rim, lamp], axis=-1)
        patch = np.ix_(rows, columns)
        foam[patch] = np.where((away < 1.0)[..., None], bubble, foam[patch])
    return foam
