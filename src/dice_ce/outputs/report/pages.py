"""Templates become pages. Everything that is put into one is escaped, unless it is our own style or script."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dice_ce.exam.clock import hms
from dice_ce.outputs.images import FrameImage
from dice_ce.outputs.report.contexts import spread
from dice_ce.outputs.report.theme import SHAPES
from dice_ce.outputs.report.words import anchor, duration, general, grade_class, heading, number, percent, plural
from dice_ce.taxonomy import PALETTE, Taxonomy

_HERE = Path(__file__).parent
FILTERS = {
    "anchor": anchor,
    "duration": duration,
    "g": general,
    "grade_class": grade_class,
    "heading": heading,
    "hms": hms,
    "number": number,
    "percent": percent,
    "plural": plural,
    "spread": spread,
}


@dataclass(frozen=True)
class Material:
    """What drawing a context takes besides the context."""

    taxonomy: Taxonomy
    jpeg: FrameImage
    is_exam_time: bool

    def colour(self, label: str) -> str:
        """CSS class that carries the colour of a label."""
        index = self.taxonomy.labels.index(label)
        return "c-normal" if index == self.taxonomy.normal else f"c-{index % len(PALETTE)}"

    def shape(self, label: str) -> str:
        """Path of the mark of a label."""
        return SHAPES[self.taxonomy.labels.index(label) % len(SHAPES)]

    def time(self, seconds: float) -> str:
        """Write a time so that playback time cannot be taken for exam time."""
        return hms(seconds) + ("" if self.is_exam_time else " (playback)")

    def base64(self, frame: int, size: int) -> str | None:
        """Image of a frame, to be embedded."""
        jpeg = self.jpeg(frame, size)
        return None if jpeg is None else base64.b64encode(jpeg).decode("ascii")


@cache
def environment(*folders: Path) -> Environment:
    """Load templates from these folders and from ours."""
    made = Environment(
        loader=FileSystemLoader([*folders, _HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=False,
    )
    made.filters |= FILTERS
    return made


def asset(name: str) -> Markup:
    """Style or script of ours, which stands in the page as it is."""
    return Markup((_HERE / name).read_text(encoding="utf-8"))
