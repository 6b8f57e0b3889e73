"""Text that people could read in an exam's images: where it is, and what kind it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dice_ce.exam.field import Mask
from dice_ce.exam.ocr import Box, TextLine
from dice_ce.exam.shown_time import parse_shown

Kind = Literal["date", "time", "number", "words"]

LEAST_SIGNS, LEAST_SCORE = 3, 0.8
"""Letters and digits in a line, and how sure the reader must be of it: folds and bubbles are read as single signs."""
_DATE = re.compile(
    r"\b\d{4}[-./]\d{1,2}[-./]\d{1,2}\b|\b\d{1,2}[-./]\d{1,2}[-./]\d{2,4}\b|"
    r"\b\d{1,2}\W?(?:jan|feb|mar|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])\w*\W?\d{2,4}\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FoundText:
    """Text that stands at one place."""

    kind: Kind
    box: Box
    frames: int
    """Frames in which it was seen, of those that were looked at."""
    is_inside: bool
    """Whether it reaches into the field of view."""
    text: str
    """What it says, as last seen: who the patient is, maybe."""


def is_legible(line: TextLine) -> bool:
    """Whether a line is text for sure, rather than something that resembles a letter."""
    signs = sum(sign.isalnum() for sign in line.text)
    is_dense = any(ord(sign) > 0x2E80 for sign in line.text)  # two Chinese characters are a name
    return line.score >= LEAST_SCORE and signs >= (2 if is_dense else LEAST_SIGNS)


def kind_of(text: str) -> Kind:
    """Guess what a line says; a name cannot be told from other words."""
    if _DATE.search(text):
        return "date"
    if parse_shown(text) is not None:
        return "time"
    digits = sum(sign.isdigit() for sign in text)
    return "number" if digits >= 3 and 2 * digits >= sum(sign.isalnum() for sign in text) else "words"


def gather(frames: Iterable[Sequence[TextLine]], window: Mask) -> tuple[FoundText, ...]:
    """Put together what stands at the same place in several frames."""
    places: list[tuple[Box, list[str], int]] = []
    for lines in frames:
        for line in filter(is_legible, lines):
            box, texts, count = line.box, [line.text], 1
            apart = []
            for place in places:
                if place[0].meets(line.box):
                    box, texts, count = box.joined(place[0]), place[1] + texts, count + place[2]
                else:
                    apart.append(place)
            places = [*apart, (box, texts, count)]
    found = [
        FoundText(kind_of(texts[-1]), box, count, bool(window[box.slices].any()), texts[-1])
        for box, texts, count in places
    ]
    return tuple(sorted(found, key=lambda one: (one.box.y, one.box.x)))
