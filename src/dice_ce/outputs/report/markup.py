"""What all parts of the report share: colours, shapes, numbers and images."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from dice_ce.exam.clock import hms
from dice_ce.method.reliability import Grade
from dice_ce.method.summary import SummaryItem
from dice_ce.taxonomy import NEUTRAL, PALETTE, Taxonomy

FrameImage = Callable[[int, int], bytes | None]
"""JPEG bytes of a frame at a size, or None if it cannot be decoded."""

SHAPES = (
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0Z",
    "M-5.3-5.3H5.3V5.3H-5.3Z",
    "M0-7.2 7.2 0 0 7.2-7.2 0Z",
    "M0-6.6 7 5.6H-7Z",
)
"""Twelve colours are too many to tell apart by colour alone, so neighbours differ in shape as well."""


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

    def glyph(self, label: str) -> str:
        """Draw the mark of a label, to stand in a line of text."""
        return (
            f'<svg class="glyph {self.colour(label)}" viewBox="-8 -8 16 16" aria-hidden="true">'
            f'<path d="{self.shape(label)}"/></svg>'
        )

    def time(self, seconds: float) -> str:
        """Write a time so that playback time cannot be taken for exam time."""
        return hms(seconds) + ("" if self.is_exam_time else " (playback)")

    def image(self, frame: int, size: int, alt: str) -> str:
        """Embed an image, or say that there is none."""
        jpeg = self.jpeg(frame, size)
        if jpeg is None:
            return f'<span class="missing" role="img" aria-label="{escape(alt)}: not decodable">not decodable</span>'
        data = base64.b64encode(jpeg).decode("ascii")
        return f'<img src="data:image/jpeg;base64,{data}" alt="{escape(alt)}">'


def palette_css() -> str:
    """Write the label colours as classes, for light ground and paper, and for dark screens."""
    pairs = [(f"c-{index}", *colours) for index, colours in enumerate(PALETTE)] + [("c-normal", *NEUTRAL)]
    light = "".join(f".{name} {{ --label: {colour}; }}\n" for name, colour, _ in pairs)
    dark = "".join(f"  .{name} {{ --label: {colour}; }}\n" for name, _, colour in pairs)
    return f"{light}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n"


def title(label: str) -> str:
    """Write a label as a heading."""
    return escape(label[:1].upper() + label[1:])


def anchor(item: SummaryItem) -> str:
    """Name of the context inside the page."""
    return "context-" + re.sub(r"[^A-Za-z0-9.-]", "_", item.id)


def grade_class(grade: Grade) -> str:
    """CSS class of how well a label is recognised: what is not at least fair is set off."""
    return "trusted" if grade in ("well recognised", "fairly recognised") else "doubted"


def percent(share: float) -> str:
    """Write a share in whole percent."""
    return f"{100 * share:.0f}\u00a0%"


def number(count: int) -> str:
    """Write a count with its thousands apart."""
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    """Write a count and what is counted."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Write how long something takes in the two largest units that matter."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}\u00a0h {minutes:02d}\u00a0min"
    if minutes:
        return f"{minutes}\u00a0min {rest:02d}\u00a0s" if minutes < 10 and rest else f"{minutes}\u00a0min"
    return f"{rest}\u00a0s"
