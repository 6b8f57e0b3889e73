"""The field of view: the round or octagonal window in which a capsule shows the bowel.

Everything outside it is black in the image, except where names and dates are burned in. It is found once per exam,
from many frames, and pixels outside are blacked in everything that leaves the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.types import Doubles, Image

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
    seed = largest_piece(_opened(_changing_or_lit(images), max(2, max(height, width) // 72)))
    if seed.mean() < SMALLEST_SHARE:
        return FULL
    hull = _convex_hull(seed)
    window = _fill(hull, width, height)
    if window.mean() > FULL_SHARE:
        return FULL
    polygon = tuple((round(float(x) / width, 4), round(float(y) / height, 4)) for x, y in hull)
    return Field(_name_shape(window), polygon)


def _changing_or_lit(images: npt.NDArray[np.uint8]) -> Mask:
    ordered = sorted_pixels(images)
    # Percentiles rather than a deviation: a title page or a black stretch must not light up the surroundings.
    spread = (percentile(ordered, 85) - percentile(ordered, 15)) / 2
    lively = float(np.percentile(spread, 90))
    if len(images) >= 8 and lively >= 6:
        return np.asarray(spread > max(3.0, 0.25 * lively))
    bright = percentile(ordered, 90)
    return np.asarray(bright > max(16.0, 0.15 * float(np.percentile(bright, 90))))


def sorted_pixels(images: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
    """Sort every pixel over the images, by Batcher's network: comparing whole images is many times as fast."""
    ordered = list(images)
    for low, high in _batcher(len(ordered)):
        ordered[low], ordered[high] = np.minimum(ordered[low], ordered[high]), np.maximum(ordered[low], ordered[high])
    return ordered


def _batcher(count: int) -> Iterator[tuple[int, int]]:
    """Yield the comparisons that sort, in order: sorted runs of 1, 2, 4, ... are merged with ever smaller steps."""
    run = 1
    while run < count:
        step = run
        while step:
            for start in range(step % run, count - step, 2 * step):
                for low in range(start, min(start + step, count - step)):
                    if low // (2 * run) == (low + step) // (2 * run):
                        yield low, low + step
            step //= 2
        run *= 2


def percentile(ordered: Sequence[npt.NDArray[np.uint8]], percent: float) -> Doubles:
    """Return what `numpy.percentile` does along the first axis, of what is in order already."""
    below, share = divmod((len(ordered) - 1) * (percent / 100), 1)
    low, high = (ordered[min(int(below) + i, len(ordered) - 1)].astype(np.float64) for i in (0, 1))
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


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


def largest_piece(mask: Mask) -> Mask:
    """Keep the largest connected piece (4-neighbours), growing each piece from its first pixel until it stops."""
    best, rest = np.zeros_like(mask), mask.copy()
    while rest.sum() > best.sum():
        piece = np.zeros_like(mask)
        piece.flat[int(np.argmax(rest))] = True
        size = 0
        while size != (size := int(piece.sum())):
            piece = _grown_along_columns(_grown_along_columns(piece.T, rest.T).T, rest)
        rest &= ~piece
        if piece.sum() > best.sum():
            best = piece
    return best


def _grown_along_columns(piece: Mask, mask: Mask) -> Mask:
    """Add every upright stretch of the mask that the piece touches: whole stretches, since single steps are many."""
    begins = mask.copy()
    begins[1:] &= ~mask[:-1]
    stretch = begins.T.cumsum().reshape(begins.T.shape).T
    touched = np.zeros(int(stretch[-1, -1]) + 1, np.bool_)
    touched[stretch[piece]] = True
    return np.asarray(mask & touched[stretch])


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
    discs = _best_overlap(window, box, x**2 + y**2, np.linspace(1, math.sqrt(2), 42) ** 2)
    octagons = _best_overlap(window, box, np.abs(x) + np.abs(y), 2 - np.linspace(0.05, 0.95, 46)[::-1])
    if max(discs, octagons) < SHAPE_AGREEMENT:
        return "other"
    return "round" if discs >= octagons else "octagon"


def _best_overlap(window: Mask, box: Mask, measure: Doubles, limits: Doubles) -> float:
    """Largest intersection over union of a window with the part of a box that lies within one of the rising limits."""
    first = np.searchsorted(limits, measure[box])  # limit that a pixel lies within
    inside, common = (
        np.bincount(pixels, minlength=len(limits) + 1).cumsum()[:-1] for pixels in (first, first[window[box]])
    )
    return float((common / (inside + window.sum() - common)).max())
