"""Keyframes: the image of every finding, masked, in its own size."""

from __future__ import annotations

import re
from pathlib import Path

from dice_ce.errors import ExamError
from dice_ce.files import write_atomically
from dice_ce.method.summary import Summary, SummaryItem
from dice_ce.outputs.images import FrameImage, Wanted


def write(summary: Summary, jpeg: FrameImage, folder: Path) -> None:
    """Write one JPEG per finding."""
    for number, item in enumerate(summary.items, start=1):
        content = jpeg(item.keyframe.frame, None)
        if content is None:
            raise ExamError(
                f"{summary.exam.id}: frame {item.keyframe.frame} could be decoded before and no longer can; "
                "was the file changed? Run summarize again"
            )
        write_atomically(folder / keyframe_name(number, item), content)


def images_needed(summary: Summary) -> list[Wanted]:
    """List the keyframes of all findings."""
    return [(item.keyframe.frame, None) for item in summary.items]


def keyframe_name(number: int, item: SummaryItem) -> str:
    """Name a keyframe so that files sort in exam order and say what they show."""
    label = re.sub(r"[^a-z0-9]+", "-", item.label.lower())
    return f"{number:02d}_{label}_frame{item.keyframe.frame:06d}.jpg"
