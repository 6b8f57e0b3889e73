"""The field of view: the round or octagonal window in which a capsule shows the bowel.

Everything outside it is black in the image, except where names and dates are burned in. It is found once per exam,
from many frames, and pixels outside are blacked in everything that leaves the program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.types import Image

Mask = npt.NDArray[np.bool_]
Point = tuple[float, float]

WORKING_SIZE = 288
"""Longest side of the images in which the field is looked for."""
SMALLEST_SHARE = 0.2
"""A window smaller than this share of the image is not believed."""
FULL_SHARE = 0.985
"""A window larger than this is the whole image."""
SHAPE_AGREEMENT = 0.97
"""Intersection over union from which a window is called round or octagonal."""


@dataclass(frozen=True)
class Field:
    """A convex window in the (cropped) image."""

    kind: Literal["full", "round", "octagon", "other"]
    polygon: tuple[Point, ...] = ()
    """Corners (x, y) as shares of width and height, counter-clockwise; empty for the full image."""

    def mask(self, width: int, height: int) -> Mask:
        """Tell for each pixel of an image of this size whether its centre lies inside."""
        if self.kind == "full":
            return np.ones((height, width), np.bool_)
        return _fill(np.array(self.polygon) * (width, height), width, height)


FULL = Field("full")


def find_field(images: npt.NDArray[np.uint8]) -> Field:
    """Find the window from grey images [n, h, w] taken all over the exam; `FULL` where none can be told.

    What moves is the bowel: the frame around it stands still, and burned-in text is thin or lies apart. So take the
    pixels that change (or, in a still exam, those that are lit), open away thin strokes, keep the largest piece, and
    close it convexly, since both kinds of window are convex and a dark lumen may have left a hole.
    """
    if not images.size:
        return FULL
    height, width = images.shape[1:]
    seed = _largest_piece(_opened(_changing_or_lit(images), max(2, max(height, width) // 72)))
    if seed.mean() < SMALLEST_SHARE:
        return FULL
    hull = _convex_hull(seed)
    window = _fill(hull, width, height)
    if window.mean() > FULL_SHARE:
        return FULL
    polygon = tuple((round(float(x) / width, 4), round(float(y) / height, 4)) for x, y in hull)
    return Field(_name_shape(window), polygon)


def _changing_or_lit(images: npt.NDArray[np.uint8]) -> Mask:
    # Percentiles rather than a deviation: a title page or a black stretch must not light up the surroundings.
    low, high = np.percentile(images, (15, 85), axis=0)
    spread = (high - low) / 2
    lively = float(np.percentile(spread, 90))
    if len(images) >= 8 and lively >= 6:
        return np.asarray(spread > max(3.0, 0.25 * lively))
    bright = np.percentile(images, 90, axis=0)
    return np.asarray(bright > max(16.0, 0.15 * float(np.percentile(bright, 90))))


def _opened(mask: Mask, radius: int) -> Mask:
    """Erode, then dilate, with a square: removes everything thinner than 2 * radius + 1."""
    eroded = ~dilated(~mask, radius)
    return dilated(eroded, radius)


def brightest(image: Image) -> npt.NDArray[np.uint8]:
    """Return the brightest colour of every pixel; NumPy's maximum along so short an axis is ten times slower."""
    return np.maximum(np.maximum(image[..., 0], image[..., 1]), image[..., 2])


def dilated(mask: Mask, radius: int) -> Mask:
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        padding[axis] = (radius, radius)
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(mask, padding), 2 * radius + 1, axis=axis)
        mask = np.asarray(windows.any(axis=-1))
    return mask


def _largest_piece(mask: Mask) -> Mask:
    """Keep the largest connected piece (4-neighbours), growing each piece from its first pixel until it stops."""
    best, rest = np.zeros_like(mask), mask.copy()
    while rest.sum() > best.sum():
        piece = np.zeros_like(mask)
        piece.flat[int(np.argmax(rest))] = True
        size = 0
        while size != (size := int(piece.sum())):
            for _ in range(16):
                grown = piece.copy()
                grown[1:] |= piece[:-1]
                grown[:-1] |= piece[1:]
                grown[:, 1:] |= piece[:, :-1]
                grown[:, :-1] |= piece[:, 1:]
                piece = grown & rest
        rest &= ~piece
        if piece.sum() > best.sum():
            best = piece
    return best


def _convex_hull(mask: Mask) -> npt.NDArray[np.float64]:
    """Return the corners of the convex hull of a mask's pixels (Andrew's monotone chain)."""
    points: list[Point] = []
    for y in np.flatnonzero(mask.any(axis=1)):
        row = np.flatnonzero(mask[y])
        points += [(float(x), float(y + dy)) for x in (row[0], row[-1] + 1) for dy in (0, 1)]
    points = sorted(set(points))

    def chain(ordered: list[Point]) -> list[Point]:
        kept: list[Point] = []
        for point in ordered:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return np.array(chain(points) + chain(points[::-1]))


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _fill(polygon: npt.NDArray[np.float64], width: int, height: int) -> Mask:
    """Mark the pixels whose centres lie on the inner side of every edge of a convex polygon."""
    x, y = np.arange(width) + 0.5, (np.arange(height) + 0.5)[:, None]
    inside = np.ones((height, width), np.bool_)
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        inside &= (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) >= 0
    return inside


def _name_shape(window: Mask) -> Literal["round", "octagon", "other"]:
    height, width = window.shape
    rows, columns = np.flatnonzero(window.any(axis=1)), np.flatnonzero(window.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    x = (np.arange(width) + 0.5 - (left + right) / 2) / ((right - left) / 2)
    y = ((np.arange(height) + 0.5 - (top + bottom) / 2) / ((bottom - top) / 2))[:, None]
    # Sensors often cut the disc off at the image's sides, and cut the octagon's corners more or less deeply.
    box = (np.abs(x) <= 1) & (np.abs(y) <= 1)
    discs = [box & (x**2 + y**2 <= radius**2) for radius in np.linspace(1, math.sqrt(2), 42)]
    octagons = [box & (np.abs(x) + np.abs(y) <= 2 - cut) for cut in np.linspace(0.05, 0.95, 46)]
    agreement = {
        "round": max(_overlap(disc, window) for disc in discs),
        "octagon": max(_overlap(octagon, window) for octagon in octagons),
    }
    if max(agreement.values()) < SHAPE_AGREEMENT:
        return "other"
    return "round" if agreement["round"] >= agreement["octagon"] else "octagon"


def _overlap(a: Mask, b: Mask) -> float:
    """Intersection over union."""
    return float((a & b).sum() / (a | b).sum())
