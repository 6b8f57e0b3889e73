"""What was truly to be seen: the per-frame truth that simulated and composed exams have beside their videos."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dice_ce.csvfile import read_table
from dice_ce.datasets.folder import ExamRow
from dice_ce.datasets.spliced import is_spliced
from dice_ce.errors import InputError
from dice_ce.exam.clock import parse_time, read_sidecar
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Ints


class Span(NamedTuple):
    """A stretch of an exam in which a lesion is in view."""

    first: float
    """Exam seconds of its first frame."""
    last: float
    """Exam seconds of its last frame."""
    label: str


def truth_beside(row: ExamRow) -> Path | None:
    """Find the truth of an exam, if there is one; the list of a spliced exam says it itself."""
    if is_spliced(row.video):
        return row.video
    path = row.video.with_name(f"{row.video.stem}.truth.csv")
    return path if path.is_file() else None


def read_truth_labels(path: Path, frames: Ints, taxonomy: Taxonomy = Taxonomy()) -> Ints:  # noqa: B008  frozen
    """Read what some frames of an exam show, as label numbers."""
    rows = read_table(path, ("frame", "label"))
    known = {
        _frame(row["frame"], path, line): taxonomy.index(_label(row["label"], taxonomy, path, line))
        for line, row in rows
    }
    if missing := [frame for frame in frames.tolist() if frame not in known]:
        raise InputError(f"{path}: says nothing about frame {missing[0]}; the video is not the one it was made with")
    return np.array([known[frame] for frame in frames.tolist()], np.int64)


def read_truth_spans(path: Path, taxonomy: Taxonomy = Taxonomy()) -> list[Span]:  # noqa: B008  frozen
    """Read when which lesion is in view from a `<video>.truth.csv`; consecutive frames of one label are one stretch.

    The simulator writes no times into it, so they are taken from the `<video>.clock.csv` beside it.
    """
    rows = read_table(path, ("frame", "label"))
    if not rows:
        return []
    numbers = [_frame(row["frame"], path, line) for line, row in rows]
    if "seconds" in rows[0][1]:
        seconds = [_seconds(row["seconds"], path, line) for line, row in rows]
    else:
        clock = path.with_name(f"{path.name.removesuffix('.truth.csv')}.clock.csv")
        times, _ = read_sidecar(clock, max(numbers) + 1, None)
        seconds = [float(times[number]) for number in numbers]
    spans: list[Span] = []
    before = None
    for (line, row), number, time in zip(rows, numbers, seconds, strict=True):
        label = _label(row["label"], taxonomy, path, line)
        if label == taxonomy.labels[taxonomy.normal]:
            before = None
            continue
        if before == (number - 1, label):
            spans[-1] = spans[-1]._replace(last=time)
        else:
            spans.append(Span(time, time, label))
        before = number, label
    return spans


def _frame(text: str, path: Path, line: int) -> int:
    if not text.isdecimal():
        raise InputError(f"{path}, line {line}: '{text}' is no frame number; count frames from 0")
    return int(text)


def _seconds(text: str, path: Path, line: int) -> float:
    try:
        return float(parse_time(text))
    except ValueError as error:
        raise InputError(f"{path}, line {line}: {error}; write exam time in seconds") from error


def _label(text: str, taxonomy: Taxonomy, path: Path, line: int) -> str:
    try:
        return taxonomy.labels[taxonomy.index(text)]
    except InputError as error:
        raise InputError(f"{path}, line {line}: {error}") from error
