"""What `dice-ce summarize` leaves in a folder: summary.json, findings.csv, keyframes and the report."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dice_ce.clock import hms
from dice_ce.errors import ExamError, UsageError
from dice_ce.exam import Exam, exam_name
from dice_ce.files import atomic_folder, write_atomically
from dice_ce.pictures import encode_picture
from dice_ce.readers import open_source
from dice_ce.report import pictures_needed, render_report
from dice_ce.summary import Summary, SummaryItem

SUMMARY, FINDINGS, REPORT, KEYFRAMES = "summary.json", "findings.csv", "report.html", "keyframes"
OWNED = (SUMMARY, FINDINGS, REPORT, KEYFRAMES)
"""All that this software writes into a result folder, and so may replace there."""
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


def write_outputs(summary: Summary, exam: Exam, out: Path, *, force: bool = False) -> Path:
    """Write everything into `out/<exam>`; an earlier result there is replaced whole, once the new one is complete.

    What is there but is not an earlier result of the same exam is refused, unless `force` is given. Files of other
    people beside ours are kept in any case.
    """
    folder = out / exam.id
    _check_place(folder, exam.source.path, lambda: exam.digest, force)
    with atomic_folder(folder, OWNED) as draft:
        _write_all(summary, exam, draft)
    return folder


def check_places(exams: Sequence[Path], out: Path, *, force: bool = False) -> None:
    """Refuse, before any work, exams that share a name and places that hold something else."""
    named: dict[str, Path] = {}
    for path in exams:
        name = exam_name(path)
        if name in named:
            raise UsageError(
                f"{path}: {named[name]} is called '{name}', too; summarise them into different folders (--out)"
            )
        named[name] = path
        _check_place(out / name, path, lambda path=path: open_source(path).digest(), force)  # type: ignore[misc]


def _check_place(folder: Path, exam: Path, digest: Callable[[], str], force: bool) -> None:
    real, source = Path(os.path.realpath(folder)), Path(os.path.realpath(exam))
    if source.is_relative_to(real) and source.exists():
        raise UsageError(f"{exam}: its results would replace the exam, or the folder it lies in; give another --out")
    if not real.exists():
        return
    if not real.is_dir():
        raise UsageError(f"{folder}: is there already and is not a folder; give another --out")
    if force or not any(real.iterdir()):
        return
    stored = _stored_digest(real)
    if stored is None:
        raise UsageError(f"{folder}: is there already and holds no summary; give another --out, or insist with --force")
    try:
        own = digest()
    except ExamError:  # cannot be read, so nothing will be written; told when its turn comes
        return
    if own != stored:
        raise UsageError(
            f"{exam}: {folder} holds the summary of another exam of the same name (content {stored[:12]}, this one has "
            f"{own[:12]}); give another --out, or replace it with --force"
        )


def _stored_digest(folder: Path) -> str | None:
    """Read of which exam a folder holds the summary; None if it holds none that can be read."""
    try:
        content = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return str(content["exam"]["digest"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write_all(summary: Summary, exam: Exam, folder: Path) -> None:
    for number, item in enumerate(summary.items, start=1):
        image = exam.image(item.keyframe.frame)
        write_atomically(folder / KEYFRAMES / keyframe_name(number, item), encode_picture(image, ".jpg"))
    summary.write(folder / SUMMARY)
    write_atomically(folder / FINDINGS, findings_csv(summary).encode())

    # In the order of the frames, because going forward in a video is cheap and going back is not.
    pictures = {
        (frame, size): encode_picture(image, ".jpg")
        for frame, size in pictures_needed(summary)
        for _, image in exam.images([frame], size=size)
    }
    report = render_report(summary, lambda frame, size: pictures.get((frame, size)))
    write_atomically(folder / REPORT, report.encode())


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
                f"{KEYFRAMES}/{keyframe_name(number, item)}",
                summary.reliability_of(item.label).grade,
            ]
        )
    return buffer.getvalue()
