"""Text that is burned into the field of view itself, found by numbers alone: no text reader is needed for it.

Recorders write names across the corners of the window. The bowel moves and its edges with it, while the strokes of
burned-in text stand where they are in every frame; so does the rim of the window, which is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dice_ce.exam.field import Field, Mask, brightest, dilated
from dice_ce.exam.ocr import Box
from dice_ce.types import Floats, Image

LEAST_FRAMES = 12
"""Images from all over the exam; with fewer, what stands still may be the bowel."""
LEAST_EDGE, TIMES_USUAL = 24.0, 4.0
"""Mean step in brightness between neighbours, absolute and by that of the window, from which a pixel is a stroke."""
LEAST_STROKES = 14
"""Pixels of strokes in a box, below which it is a speck on the lens."""
MOST_STROKES, LARGEST_COVERS = 0.08, 0.2
"""Shares of the window above which strokes or boxes are no text, and are not believed."""


def find_covers(images: Iterable[Image], field: Field) -> tuple[Box, ...]:
    """Find boxes of burned-in text inside the window from images all over the exam."""
    edges = _mean_edges(images)
    if edges is None:
        return ()
    height, width = edges.shape
    window = field.mask(width, height)
    inner = window if field.kind == "full" else ~dilated(~window, rim_width(width, height))
    if not inner.any():
        return ()
    strokes = inner & (edges > max(LEAST_EDGE, TIMES_USUAL * float(np.median(edges[inner]))))
    if strokes.sum() > MOST_STROKES * window.sum():
        return ()
    reach, rim = max(3, height // 60), rim_width(width, height)
    boxes = [box for box, size in _pieces(strokes, reach) if size >= LEAST_STROKES]
    # Sideways by another letter, which is no wider than the line is high: the rim may cut one in two.
    covers = joined(box.padded(box.height + 2 * rim, reach, (width, height)) for box in boxes)
    return covers if sum(box.width * box.height for box in covers) < LARGEST_COVERS * window.sum() else ()


def joined(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Join boxes that meet, until none do."""
    apart: list[Box] = []
    for box in boxes:
        while meeting := [other for other in apart if other.meets(box)]:
            for other in meeting:
                apart.remove(other)
                box = box.joined(other)
        apart.append(box)
    return tuple(sorted(apart, key=lambda box: (box.y, box.x)))


def rim_width(width: int, height: int) -> int:
    """Pixels along the rim of the window whose edge is the rim itself."""
    return max(3, min(width, height) // 64)


def _mean_edges(images: Iterable[Image]) -> Floats | None:
    """Mean over the images of the largest step in brightness around each pixel."""
    total: npt.NDArray[np.int32] | None = None
    count = 0
    for image in images:
        grey = brightest(image).astype(np.int16)  # half the time of floats, and their sums are exact
        edge = np.zeros_like(grey)
        edge[:, 1:] = np.abs(np.diff(grey, axis=1))
        edge[1:] = np.maximum(edge[1:], np.abs(np.diff(grey, axis=0)))
        total = edge.astype(np.int32) if total is None else total + edge
        count += 1
    return total.astype(np.float32) / np.float32(count) if total is not None and count >= LEAST_FRAMES else None


def _pieces(strokes: Mask, reach: int) -> list[tuple[Box, int]]:
    """Join strokes that are near each other into boxes, with the number of stroke pixels in each."""
    rows, columns = np.nonzero(strokes)
    boxes: list[tuple[Box, int]] = []
    for y, x in zip(rows.tolist(), columns.tolist(), strict=True):
        box, size = Box(x, y, 1, 1), 1
        near = box.padded(2 * reach, reach, (strokes.shape[1], strokes.shape[0]))
        apart = []
        for other, other_size in boxes:
            if other.meets(near):
                box, size = box.joined(other), size + other_size
            else:
                apart.append((other, other_size))
        boxes = [*apart, (box, size)]
    return boxes
