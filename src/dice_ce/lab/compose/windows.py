"""The fields of view of the sources, and images continued beyond theirs, so that a moving camera never looks past them.

Every source shows the bowel in a window of its own (Kvasir-Capsule an octagon, SEE-AI a disc). It is found from the
frames themselves. Beyond its edge a source frame goes on as its own mirror image, and what lies outside the exam's
window is black: so a frame fits any window, its own or that of another make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError, require
from dice_ce.exam.field import Field, find_field
from dice_ce.types import Image

REACH = 1.6
"""Side of a continued source frame, as a multiple of the source frame's."""
INSET = 0.975
"""Share of the window that is surely image: rims are dark or blurred."""
SAMPLE, SAMPLE_SIDE = 60, 224
SQUARE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))


def opencv() -> Any:
    """Import OpenCV late: only composing needs it."""
    return require("cv2", extra="datasets", purpose="Composing exams")


def read_image(path: Path, flags: int | None = None) -> Image:
    """Decode an image, in OpenCV's order of colours, cut to its middle square."""
    cv2 = opencv()
    try:
        content = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the folder of frames") from error
    image = cv2.imdecode(content, cv2.IMREAD_COLOR if flags is None else flags) if content.size else None
    if image is None:
        raise InputError(f"{path}: not an image that can be decoded; download it again or remove its row")
    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return np.asarray(image[top : top + side, left : left + side])


def find_windows(frames: Iterable[LabelledFrame]) -> dict[str, Field]:
    """Find the window of every source from frames of all its cases."""
    sources: dict[str, list[LabelledFrame]] = {}
    for frame in frames:
        sources.setdefault(frame.source, []).append(frame)
    return {source: _find_window(sorted(own, key=lambda frame: frame.path)) for source, own in sources.items()}


def _find_window(frames: Sequence[LabelledFrame]) -> Field:
    cv2 = opencv()
    chosen = sorted({int(i) for i in np.linspace(0, len(frames) - 1, SAMPLE)})
    greys = [cv2.resize(read_image(frames[i].path, cv2.IMREAD_GRAYSCALE), (SAMPLE_SIDE, SAMPLE_SIDE)) for i in chosen]
    return find_field(np.stack(greys))


class SourceImages:
    """Decoded and continued images of all sources, for one exam; remembers the last few."""

    KEPT = 4

    def __init__(self, windows: Mapping[str, Field], size: int) -> None:
        self._windows, self._size = windows, size
        self._kept: dict[Path, Image] = {}

    def __call__(self, frame: LabelledFrame) -> Image:
        """Give the source frame with its surroundings."""
        source = self._kept.pop(frame.path, None)
        if source is None:
            source = self._continued(frame)
        self._kept[frame.path] = source
        if len(self._kept) > self.KEPT:
            del self._kept[next(iter(self._kept))]
        return source

    def _continued(self, frame: LabelledFrame) -> Image:
        cv2 = opencv()
        image = read_image(frame.path)
        if len(image) > self._size:  # finer than the exam: shrunk once, well, rather than at every frame
            image = cv2.resize(image, (self._size, self._size), interpolation=cv2.INTER_AREA)
        maps = _mirror(self._windows[frame.source], len(image))
        # A fourth channel, unused: OpenCV warps four more than twice as fast as three.
        image = cv2.cvtColor(image, cv2.COLOR_BGR2BGRA)
        return np.asarray(cv2.remap(image, maps, None, cv2.INTER_NEAREST))


@cache
def _mirror(window: Field, side: int) -> npt.NDArray[np.int16]:
    """Tell for every pixel of a continued source frame which pixel of the source frame it repeats."""
    corners = np.array(window.polygon or SQUARE)
    middle = corners.mean(axis=0)
    corners = middle + (corners - middle) * INSET
    reach = round(side * REACH)
    place = (np.arange(reach) + 0.5 - reach / 2) / side + 0.5
    x, y = np.meshgrid(place - middle[0], place - middle[1])
    edge = np.full(x.shape, np.inf)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        across, along = end[1] - start[1], start[0] - end[0]  # the outward normal, for corners in the order of `Field`
        distance = across * (start[0] - middle[0]) + along * (start[1] - middle[1])
        if distance < 0:
            across, along, distance = -across, -along, -distance
        towards = across * x + along * y
        edge = np.minimum(edge, np.divide(distance, towards, out=np.full(x.shape, np.inf), where=towards > 1e-9))
    beyond = edge < 1  # `edge` is how often the way to the pixel goes into the way to the rim
    factor = np.where(beyond, np.maximum(2 * edge - 1, 0.0), 1.0)
    source = np.stack([middle[0] + x * factor, middle[1] + y * factor], axis=-1) * side - 0.5
    return np.rint(source).clip(0, side - 1).astype(np.int16)
