"""What `dice-ce summarize` leaves in a folder: summary.json, findings.csv, keyframes and the report."""

from __future__ import annotations

import csv
import io
import re
import secrets
import shutil
from pathlib import Path

from dice_ce.clock import hms
from dice_ce.errors import StoreError
from dice_ce.exam import Exam
from dice_ce.files import PARTIAL_PREFIX, write_atomically
from dice_ce.pictures import encode_picture
from dice_ce.report import pictures_needed, render_report
from dice_ce.summary import Summary, SummaryItem

COLUMNS = (
    "exam_id",
    "finding_id",
    "seconds",
    "label",
    "confidence",
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


def write_outputs(summary: Summary, exam: Exam, out: Path) -> Path:
    """Write everything into `out/<exam>`; an earlier result there is replaced whole, once the new one is complete."""
    folder = out / exam.id
    draft = out / f"{PARTIAL_PREFIX}{secrets.token_hex(8)}"
    try:
        _write_all(summary, exam, draft)
        _replace_folder(draft, folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror}); point --out at another folder") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _replace_folder(draft: Path, folder: Path) -> None:
    """Swap the new folder in; the old one is moved aside first, because a folder cannot be renamed onto another."""
    aside = draft.with_name(f"{draft.name}-old")
    if folder.exists():
        folder.rename(aside)
    draft.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _write_all(summary: Summary, exam: Exam, folder: Path) -> None:
    for number, item in enumerate(summary.items, start=1):
        image = exam.image(item.keyframe.frame)
        write_atomically(folder / "keyframes" / keyframe_name(number, item), encode_picture(image, ".jpg"))
    summary.write(folder / "summary.json")
    write_atomically(folder / "findings.csv", findings_csv(summary).encode())

    # In the order of the frames, because going forward in a video is cheap and going back is not.
    pictures = {
        (frame, size): encode_picture(image, ".jpg")
        for frame, size in pictures_needed(summary)
        for _, image in exam.images([frame], size=size)
    }
    report = render_report(summary, lambda frame, size: pictures.get((frame, size)))
    write_atomically(folder / "report.html", report.encode())


def keyframe_name(number: int, item: SummaryItem) -> str:
    """Name a keyframe so that files sort in exam order and say what they show."""
    label = re.sub(r"[^a-z0-9]+", "-", item.label.lower())
    return f"{number:02d}_{label}_frame{item.keyframe.frame:06d}.jpg"


def findings_csv(summary: Summary) -> str:
    """One row per finding; the first columns are those the benchmark reads."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(COLUMNS)
    for number, item in enumerate(summary.items, start=1):
        rows.writerow(
            [
                summary.exam["id"],
                item.id,
                item.keyframe.seconds,
                item.label,
                item.confidence,
                hms(item.keyframe.seconds),
                summary.exam["clock"]["source"],
                item.keyframe.frame,
                item.keyframe.file or "",
                item.first_seconds,
                item.last_seconds,
                len(item.support),
                f"keyframes/{keyframe_name(number, item)}",
                summary.reliability_of(item.label).grade,
            ]
        )
    return buffer.getvalue()
