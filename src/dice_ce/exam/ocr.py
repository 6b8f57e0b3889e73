"""Reading text in images: a thin cover over RapidOCR, which carries its models in its wheel.

The models are named by their paths in the installed package, and the library gets nothing that it could download with:
left to itself, it would fetch what it misses.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from dice_ce.errors import MissingExtraError, require
from dice_ce.types import Image

EXTRA, PURPOSE = "hospital", "reading text in images"
MODELS = {"Det": "PP-OCRv6_det_small.onnx", "Rec": "PP-OCRv6_rec_small.onnx"}
"""They find lines, and read them. A third, which turns lines that stand on their head, is not needed."""
BATCH = 8
ENLARGE = 4
"""Lines are enlarged so much before they are read, smoothly: left to itself, the library enlarges by straight lines,
which closes the gap by which a small 5 differs from a 6."""
TALL = 8
"""Boxes this many times higher than wide are edges of the window, not lines of text."""


class Box(NamedTuple):
    """A rectangle of the image in pixels."""

    x: int
    y: int
    width: int
    height: int

    def padded(self, sideways: int, upwards: int, size: tuple[int, int]) -> Box:
        """Grow it on all sides, within an image of this width and height."""
        left, top = max(0, self.x - sideways), max(0, self.y - upwards)
        right = min(size[0], self.x + self.width + sideways)
        bottom = min(size[1], self.y + self.height + upwards)
        return Box(left, top, right - left, bottom - top)

    def joined(self, other: Box) -> Box:
        """Return the smallest box around both."""
        left, top = min(self.x, other.x), min(self.y, other.y)
        right = max(self.x + self.width, other.x + other.width)
        bottom = max(self.y + self.height, other.y + other.height)
        return Box(left, top, right - left, bottom - top)

    def meets(self, other: Box) -> bool:
        """Whether they share a pixel."""
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns of an image."""
        return slice(self.y, self.y + self.height), slice(self.x, self.x + self.width)


@dataclass(frozen=True)
class TextLine:
    """One line of text in an image."""

    text: str
    score: float
    """How sure the reader is, 0 to 1."""
    box: Box


def can_read() -> bool:
    """Whether the reader is installed; loads nothing."""
    return importlib.util.find_spec("rapidocr") is not None


@cache
def text_reader() -> TextReader:
    """Load the models, once in a process."""
    return TextReader()


@contextmanager
def _without_network() -> Iterator[None]:
    """Give the library an empty `requests`: it would download with it, and importing the real one opens a socket."""
    empty = ModuleType("requests")
    empty.Response = object  # type: ignore[attr-defined]  # named in a signature
    before = sys.modules.get("requests")
    sys.modules["requests"] = empty
    try:
        yield
    finally:
        if before is None:
            del sys.modules["requests"]
        else:
            sys.modules["requests"] = before


class TextReader:
    """Finds and reads lines of text."""

    def __init__(self) -> None:
        with _without_network():
            library: Any = require("rapidocr", extra=EXTRA, purpose=PURPOSE)
            require("rapidocr.main", extra=EXTRA, purpose=PURPOSE)  # what the line above imports when it is first used
        models = Path(library.__file__).parent / "models"
        params: dict[str, Any] = {"Global.log_level": "critical", "Global.use_cls": False, "Global.text_score": 0.0}
        for part, name in MODELS.items():
            if not (models / name).is_file():
                raise MissingExtraError(f"{PURPOSE} needs {name}, which this version of rapidocr lacks; install 3.10")
            params[f"{part}.model_path"] = str(models / name)
        # The narrowest input: short lines would be padded to 320 columns, at twice the time.
        params |= {"Rec.rec_img_shape": [3, 48, 48], "Rec.rec_batch_num": BATCH}
        self._engine = library.RapidOCR(params=params)
        self._recognizer: Any = None

    def find(self, image: Image) -> list[TextLine]:
        """Find and read all lines of an RGB image."""
        found = self._engine(np.ascontiguousarray(image[:, :, ::-1]), use_det=True, use_rec=True)
        if found.boxes is None or not found.txts:
            return []
        lines = [
            TextLine(text, float(score), _around(corners))
            for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True)
        ]
        return [line for line in lines if line.box.height < TALL * line.box.width]

    def read(self, lines: Sequence[Image]) -> list[tuple[str, float]]:
        """Read images that show one line each; the text is empty where there is none."""
        if not lines:
            return []
        if self._recognizer is None:
            self._engine(np.full((48, 96, 3), 255, np.uint8), use_det=False, use_rec=True)  # loads it
            self._recognizer = self._engine.text_rec
        module: Any = require("rapidocr.ch_ppocr_rec", extra=EXTRA, purpose=PURPOSE)
        cv2: Any = require("cv2", extra=EXTRA, purpose=PURPOSE)
        bgr = [
            cv2.resize(line[:, :, ::-1], None, fx=ENLARGE, fy=ENLARGE, interpolation=cv2.INTER_CUBIC) for line in lines
        ]
        found = self._recognizer(module.TextRecInput(img=bgr, return_word_box=False))
        return [(text, float(score)) for text, score in zip(found.txts, found.scores, strict=True)]


def _around(corners: Any) -> Box:
    left, top = np.floor(np.min(corners, axis=0)).astype(int)
    right, bottom = np.ceil(np.max(corners, axis=0)).astype(int)
    return Box(max(0, int(left)), max(0, int(top)), int(right - max(0, left)), int(bottom - max(0, top)))
