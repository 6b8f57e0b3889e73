"""findings.csv: a row per finding."""

from __future__ import annotations

from pathlib import Path

from dice_ce.csvfile import table_text
from dice_ce.exam.clock import hms
from dice_ce.files import write_atomically
from dice_ce.method.summary import Summary
from dice_ce.outputs.images import FrameImage
from dice_ce.outputs.keyframes import keyframe_name

COLUMNS = (
    "exam_id",
    "finding_id",
    "seconds",
    "label",
    "confidence",
    "abnormality",
    "time",
    "clock",
    "frame",
    "file",
    "first_seconds",
    "last_seconds",
    "supporting_frames",
    "keyframe",
    "reliability",
)


def write(summary: Summary, jpeg: FrameImage, path: Path) -> None:
    """Write the table."""
    write_atomically(path, findings_csv(summary).encode())


def findings_csv(summary: Summary) -> str:
    """One row per finding; the first columns are those the benchmark reads."""
    rows = [
        (
            summary.exam.id,
            item.id,
            item.keyframe.seconds,
            item.label,
            item.confidence,
            item.abnormality,
            hms(item.keyframe.seconds),
            summary.exam.clock.source,
            item.keyframe.frame,
            item.keyframe.file or "",
            item.first_seconds,
            item.last_seconds,
            len(item.support),
            f"keyframes/{keyframe_name(number, item)}",
            summary.reliability_of(item.label).grade,
        )
        for number, item in enumerate(summary.items, start=1)
    ]
    return table_text(COLUMNS, rows)
