"""The frame table: labelled frames in one CSV, the simplest way to bring images of one's own.

    path,label,source,case,frame_number,split
    images/0001.jpg,ulcer,Our Hospital,patient-07,1831,train

`path` is relative to the file, and `|` stands between several labels. Only `path` and `label` are needed, but frames
without a `case` (patient, video) cannot be split honestly, and only `frame_number` tells which follow each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dice_ce.csvfile import Row, read_table, table_text
from dice_ce.datasets.tables import LabelledFrame, Tables
from dice_ce.datasets.words import labels_of, unique
from dice_ce.errors import InputError
from dice_ce.files import write_atomically
from dice_ce.table import bars
from dice_ce.taxonomy import VIDEOCAP_12

FRAMES = "frames.csv"
COLUMNS = ("path", "source", "case", "frame_number", "label", "split")
BETWEEN = "|"


def read_frame_table(path: Path) -> Tables:
    """Read a frame table; every image must be there."""
    frames = tuple(_frame(path, f"{path}, line {line}", row) for line, row in read_table(path, ("path", "label")))
    if not frames:
        raise InputError(f"{path}: no frame is listed; add a row per image below 'path,label'")
    return Tables(frames)


def _frame(table: Path, where: str, row: Row) -> LabelledFrame:
    image = table.parent / row["path"].replace("\\", "/")
    if not row["path"] or not image.is_file():
        raise InputError(f"{where}: there is no image '{row['path']}'; give its path relative to the table")
    words = unique(word for word in row["label"].split(BETWEEN) if word.strip())
    if not words:
        raise InputError(f"{where}: no label; write one of VideoCAP-12, or several with '{BETWEEN}' between them")
    try:
        labels = labels_of(words)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    number = row.get("frame_number", "")
    if number and not (number.isascii() and number.isdigit()):
        raise InputError(f"{where}: frame_number '{number}' is not a whole number; correct it or leave it empty")
    return LabelledFrame(
        path=image,
        source=row.get("source", ""),
        case=row.get("case", ""),
        number=int(number) if number else None,
        labels=labels,
        words=words,
        split=row.get("split", ""),
    )


def write_frames(path: Path, frames: Iterable[LabelledFrame]) -> int:
    """Write a frame table of those frames whose image is there; return how many."""
    here = [frame for frame in frames if frame.path.is_file()]
    if not here:
        raise InputError(f"{path}: not written, because none of the images is on this disk; download them first")
    root = path.parent.resolve()
    rows = [
        (
            _relative(frame.path, root),
            frame.source,
            frame.case,
            "" if frame.number is None else frame.number,
            BETWEEN.join(frame.labels or frame.words),
            frame.split,
        )
        for frame in here
    ]
    write_atomically(path, table_text(COLUMNS, rows).encode())
    return len(rows)


def _relative(image: Path, root: Path) -> str:
    image = image.resolve()
    return (image.relative_to(root) if image.is_relative_to(root) else image).as_posix()


def tables_facts(tables: Tables) -> dict[str, Any]:
    """Sum up what an importer read, for programs."""
    frames, timelines = tables.frames, tables.timelines
    labels = Counter(label for frame in frames for label in frame.labels)
    outside = Counter(word for frame in frames if not frame.labels for word in frame.words)
    words = Counter(word for timeline in timelines for event in timeline.events for word in event.words)
    return {
        "frames": len(frames),
        "images_here": sum(frame.path.is_file() for frame in frames),
        "cases": len({frame.case for frame in frames if frame.case}),
        "boxes": sum(len(frame.boxes) for frame in frames),
        "sources": dict(sorted(Counter(frame.source for frame in frames).items())),
        "labels": {label: labels[label] for label in VIDEOCAP_12 if labels[label]},
        "outside": dict(sorted(outside.items())),
        "timelines": len(timelines),
        "events": sum(len(timeline.events) for timeline in timelines),
        "event_words": dict(words.most_common()),
        "remarks": list(tables.remarks),
    }


def tables_text(tables: Tables) -> str:
    """Sum up what an importer read, for people."""
    facts = tables_facts(tables)
    parts = []
    if tables.frames:
        outside = {f"({word})": count for word, count in facts["outside"].items()}
        parts.append(
            f"{facts['frames']:,} frames of {facts['cases']:,} cases, {facts['boxes']:,} boxes; "
            f"{facts['images_here']:,} images are here\n"
            + bars({f"from {name}": count for name, count in facts["sources"].items()})
            + f"\n\n{bars(facts['labels'] | outside)}\n"
        )
    if tables.timelines:
        parts.append(f"{facts['timelines']:,} timelines, {facts['events']:,} events\n{bars(facts['event_words'])}\n")
    if tables.remarks:
        parts.append("\n".join(f"remark   {remark}" for remark in tables.remarks))
    return "\n".join(parts)
