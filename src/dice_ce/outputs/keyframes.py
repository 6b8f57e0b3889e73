"""Keyframes: the image of every finding, masked, in its own size."""

from __future__ import annotations

import re
from pathlib import Path

from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import Exam
from dice_ce.files import write_atomically
from dice_ce.method.summary import Summary, SummaryItem


def write(summary: Summary, exam: Exam, folder: Path) -> None:
    """Write one JPEG per finding."""
    for number, item in enumerate(summary.items, start=1):
        image = exam.image(item.keyframe.frame)
        write_atomically(folder / keyframe_name(number, item), encode_image(image, ".jpg"))


def keyframe_name(number: int, item: SummaryItem) -> str:
    """Name a keyframe so that files sort in exam order and say what they show."""
    label = re.sub(r"[^a-z0-9]+", "-", item.label.lower())
    return f"{number:02d}_{label}_frame{item.keyframe.frame:06d}.jpg"
