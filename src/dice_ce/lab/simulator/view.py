"""What every pixel sees: which point of the wall, and how brightly lit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dice_ce.lab.simulator.motion import Pose
from dice_ce.lab.simulator.mucosa import PERIOD, Mucosa
from dice_ce.types import Floats, Image

ANGLES, DEPTHS, RINGS = 288, 128, 160  # grids on which hidden surfaces are removed; finer would not show
AHEAD = np.sinh(np.linspace(np.arcsinh(-2.5), np.arcsinh(9.0), DEPTHS)).astype(np.float32)  # dense when near
FIRST_ARCSINH = np.float32(np.arcsinh(-2.5))
ARCSINH_STEP = np.float32((np.arcsinh(9.0) - np.arcsinh(-2.5)) / (DEPTHS - 1))
FIRST_AHEAD = int(np.searchsorted(AHEAD, 0.0))
TURN = np.float32(2 * np.pi)
AROUND = np.linspace(0.0, TURN, ANGLES, endpoint=False, dtype=np.float32)[:, None]
HALF_FIELD = float(np.deg2rad(66.0))  # from the centre of the image to the middle of its sides
CAPSULE_RADIUS = 0.42  # the wall cannot come closer than the shell of the capsule


@dataclass(frozen=True)
class Optics:
    """An equidistant fisheye, as capsules have."""

    lines: Floats  # 3 x height x width: the unit direction each pixel looks in
    vignette: Floats

    @classmethod
    def of_size(cls, size: int) -> Optics:
        place = (np.arange(size) + 0.5) / size * 2.0 - 1.0
        x, y = np.meshgrid(place, place)
        r = np.hypot(x, y)
        across = np.sin(HALF_FIELD * r) / r.clip(1e-6)
        lines = np.stack([x * across, y * across, np.cos(HALF_FIELD * r)])
        return cls(lines.astype(np.float32), (1.0 - 0.22 * r**4).clip(0.2).astype(np.float32))

    @property
    def size(self) -> int:
        return int(self.lines.shape[-1])

    @property
    def pixels_per_radian(self) -> float:
        return self.size / 2 / HALF_FIELD


@dataclass(frozen=True)
class View:
    """One instant seen through the optics."""

    pose: Pose
    optics: Optics
    radius: Floats  # ANGLES x DEPTHS: from the line of travel to the wall
    angle: Floats  # of each pixel, around the bowel; the wall itself is further turned by the roll
    ahead: Floats  # of each pixel, along the bowel from the capsule
    light: Floats  # of each pixel, about 1 on average

    def skin(self, mucosa: Mucosa) -> Image:
        """The texel of skin that each pixel looks at."""
        rows, columns, channels = mucosa.skin.shape
        turn, travel = np.float32(self.pose.roll % TURN), np.float32(self.pose.depth % PERIOD + PERIOD)
        row = ((self.angle + turn) * np.float32(rows / TURN)).astype(np.intp)
        column = ((self.ahead + travel) * np.float32(columns / PERIOD)).astype(np.intp)
        # Powers of two wrap with a mask, which is much faster than a remainder.
        texel = (row & (rows - 1)) * columns + (column & (columns - 1))
        return np.asarray(mucosa.skin.reshape(-1, channels).take(texel, axis=0))

    def wall_radius(self, pixels: NDArray[np.intp]) -> Floats:
        """How far from the line of travel the wall is that these pixels show."""
        row = self.angle.take(pixels) * np.float32(ANGLES / TURN * (1 - 1e-6))
        column = ((np.arcsinh(self.ahead.take(pixels)) - FIRST_ARCSINH) / ARCSINH_STEP).clip(0.0, DEPTHS - 1.001)
        whole_row, whole_column = np.floor(row), np.floor(column)
        row, column = row - whole_row, column - whole_column
        flat = np.concatenate([self.radius, self.radius[:1]]).ravel()
        cell = (whole_row * DEPTHS + whole_column).astype(np.intp)
        low = flat.take(cell) * (1 - column) + flat.take(cell + 1) * column
        high = flat.take(cell + DEPTHS) * (1 - column) + flat.take(cell + DEPTHS + 1) * column
        return np.asarray(low + (high - low) * row)

    def on_wall(self, angle: Floats, ahead: Floats) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Return where points of the wall appear: pixel x, pixel y, distance, and whether they are in sight at all.

        `angle` is fixed to the wall: it turns with the roll.
        """
        size = self.optics.size
        seen_angle = (angle - np.float32(self.pose.roll)) % TURN
        row = (seen_angle * np.float32(ANGLES / TURN)).astype(np.intp) % ANGLES
        radius = self.radius[row, np.searchsorted(AHEAD, ahead).clip(0, DEPTHS - 1)]
        point = np.stack([radius * np.cos(seen_angle), radius * np.sin(seen_angle), ahead])
        distance = np.sqrt((point**2).sum(axis=0))
        right, down, forward = _turned(_facing(self.pose).T, point / distance)
        stretch = np.arccos(forward.clip(-1.0, 1.0)) * self.optics.pixels_per_radian
        stretch /= np.hypot(right, down).clip(1e-6)
        x, y = size / 2 + stretch * right, size / 2 + stretch * down
        inside = (x >= 0) & (x < size) & (y >= 0) & (y < size)
        wall = self.ahead[np.where(inside, y, 0).astype(np.intp), np.where(inside, x, 0).astype(np.intp)]
        return x, y, distance, inside & (ahead < wall.clip(0.0) + 0.15)


def look(mucosa: Mucosa, optics: Optics, pose: Pose, rise: Floats | None = None) -> View:
    """`rise`, if any, lifts the wall off its folds: ANGLES x DEPTHS around the capsule."""
    radius = _tube_radius(mucosa, pose, rise)
    hit = _first_hit(radius)
    ahead = _at_hit(np.tile(AHEAD, (ANGLES, 1)), hit)
    light = _at_hit(_headlight(radius) * _around_pose(mucosa.glow, pose), hit)
    angle, ahead, light = _unroll(_turned(_facing(pose), optics.lines), ahead, light)
    light *= optics.vignette
    light /= light[::3, ::3].mean()  # the capsule exposes by itself
    return View(pose, optics, radius, angle, ahead, light)


def _tube_radius(mucosa: Mucosa, pose: Pose, rise: Floats | None) -> Floats:
    """Distance from the line of travel to the wall, for each angle and depth."""
    folds, pillows = _around_pose(mucosa.folds, pose), _around_pose(mucosa.pillows, pose)
    if rise is not None:
        folds = folds + rise
    contraction = pose.squeeze * ((AHEAD - 0.2) / 1.7).clip(0.0, 1.0) ** 1.5
    closing = np.maximum(contraction, 1.6 * ((AHEAD - pose.horizon) / 1.6).clip(0.0, 1.0))
    bending = AHEAD.clip(0.0, 5.0) ** 2 / 10.0
    aside = (pose.drift_x + pose.bend_x * bending) * np.cos(AROUND)
    aside += (pose.drift_y + pose.bend_y * bending) * np.sin(AROUND)
    radius = (1.0 - folds) * (1.0 - closing * (0.6 + 0.75 * pillows)) - aside
    least = CAPSULE_RADIUS * (1.6 - 0.8 * np.abs(AHEAD)).clip(0.0, 1.0) + 0.02
    excess = radius - least
    return np.asarray(least + 0.5 * (excess + np.sqrt(excess**2 + 0.006)), dtype=np.float32)  # a soft maximum


def _first_hit(radius: Floats) -> Floats:
    """Index into AHEAD of the wall that a ray meets first, for each angle and each ring (ANGLES x RINGS).

    A ray at the angle a from the axis meets the wall where ahead / distance = cos a. Going away from the
    capsule, whatever lies below the running maximum is hidden by nearer wall: no ray needs to be marched.
    Rings are evenly spaced in sin(a / 2), which a square root finds from a direction.
    """
    reach = (AHEAD / np.sqrt(AHEAD**2 + radius**2)).astype(np.float64)
    reach[:, FIRST_AHEAD:] = np.maximum.accumulate(reach[:, FIRST_AHEAD:], axis=1)
    reach[:, :FIRST_AHEAD] = np.minimum.accumulate(reach[:, FIRST_AHEAD - 1 :: -1], axis=1)[:, ::-1]
    reach += 1e-9 * np.arange(DEPTHS)  # strictly increasing, as interpolation needs
    wanted = 1.0 - 2.0 * np.linspace(1.0, 0.0, RINGS) ** 2
    apart = 4.0 * np.arange(ANGLES)[:, None]  # more than cosines span: one call serves all angles
    index = np.tile(np.arange(float(DEPTHS)), ANGLES)
    hit = np.interp((wanted + apart).ravel(), (reach + apart).ravel(), index)
    return hit.reshape(ANGLES, RINGS)[:, ::-1].astype(np.float32)


def _headlight(radius: Floats) -> Floats:
    """Brightness of the wall under a lamp beside the lens; moist tissue scatters, so the falloff is soft."""
    along = np.gradient(radius, AHEAD, axis=1)
    around = np.roll(radius, -1, axis=0) - np.roll(radius, 1, axis=0)
    around *= np.float32(ANGLES / (2 * TURN)) / radius.clip(0.15)
    squared_distance = radius**2 + AHEAD**2
    facing = (radius - AHEAD * along) / np.sqrt(squared_distance * (1.0 + along**2 + around**2))
    falloff = np.sqrt(squared_distance + 0.45)
    return np.asarray((0.45 + 0.55 * facing.clip(0.0)) / (falloff * np.sqrt(falloff)))


def _around_pose(layer: Floats, pose: Pose) -> Floats:
    """The stretch of a seamless layer near the capsule, on the angle x depth grid."""
    rows, columns = layer.shape
    place = (pose.depth + AHEAD.astype(np.float64)) * (columns / PERIOD)
    left = np.floor(place).astype(np.intp)
    share = (place - left).astype(np.float32)
    band = layer.take(left % columns, axis=1) * (1 - share) + layer.take((left + 1) % columns, axis=1) * share
    whole, part = divmod(pose.roll * rows / float(TURN), 1.0)
    turned = np.roll(band, -int(whole), axis=0)
    return np.asarray(turned * (1 - part) + np.roll(turned, -1, axis=0) * part)


def _at_hit(layer: Floats, hit: Floats) -> Floats:
    left = np.floor(hit).clip(max=DEPTHS - 2)
    cell = left.astype(np.intp) + np.arange(0, ANGLES * DEPTHS, DEPTHS)[:, None]
    low = layer.take(cell)
    return np.asarray(low + (layer.take(cell + 1) - low) * (hit - left))


def _facing(pose: Pose) -> Floats:
    """The rotation from the camera to the bowel."""
    cy, sy, cp, sp = np.cos(pose.yaw), np.sin(pose.yaw), np.cos(pose.pitch), np.sin(pose.pitch)
    return np.array([[cy, sy * sp, sy * cp], [0.0, cp, -sp], [-sy, cy * sp, cy * cp]], dtype=np.float32)


def _turned(rotation: Floats, vectors: Floats) -> Floats:
    # Not a matrix product: its last bit may depend on what other threads are doing.
    return np.stack([a * vectors[0] + b * vectors[1] + c * vectors[2] for a, b, c in rotation])


def _unroll(directions: Floats, *tables: Floats) -> tuple[Floats, ...]:
    """The angle of every direction, and each ANGLES x RINGS table read there, bilinearly."""
    x, y, z = directions
    angle = np.arctan2(y, x)
    angle += (angle < 0) * TURN
    row = angle * np.float32(ANGLES / TURN * (1 - 1e-6))
    ring = np.sqrt((0.5 - 0.5 * z).clip(0.0)) * np.float32((RINGS - 1) * (1 - 1e-6))
    whole_row, whole_ring = np.floor(row), np.floor(ring)
    row -= whole_row
    ring -= whole_ring
    cell = (whole_row * RINGS + whole_ring).astype(np.intp)

    def read(table: Floats) -> Floats:
        flat = np.concatenate([table, table[:1]]).ravel()  # the first angle follows the last
        low, high = flat.take(cell), flat.take(cell + RINGS)
        low += (flat.take(cell + 1) - low) * ring
        high += (flat.take(cell + RINGS + 1) - high) * ring
        return np.asarray(low + (high - low) * row)

    return angle, *map(read, tables)
