"""What one method selected: read from Summary JSON files, or from a plain CSV that anybody can write.

A folder is searched with all its subfolders. If there are summaries in it, they are read and nothing else, because
`dice-ce summarize` leaves a CSV beside each that says the same; otherwise its CSV files are read.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dice_ce.benchmark.match import NO_FRAME, Selection, Selections, milliseconds
from dice_ce.csvfile import Row, read_table, read_text
from dice_ce.errors import InputError
from dice_ce.exam.clock import MAX_SECONDS, hms, parse_time
from dice_ce.method.summary import SCHEMA, Summary
from dice_ce.taxonomy import Taxonomy

COLUMNS = ("exam_id", "seconds", "label")
"""A CSV must have these; `frame` tells frames of one instant apart, `clock` may say `playback`, others are ignored."""
MOST_NAMED = 5
"""Exams that a message names before it only counts the rest."""


@dataclass(frozen=True)
class Prediction:
    """What was selected in one exam."""

    selections: Selections
    source: Path
    """The file that says so."""
    is_exam_time: bool
    """Whether times are those of the capsule, as far as the file tells, rather than those of the player."""


@dataclass(frozen=True)
class Predictions:
    """What one method selected in all exams it was given."""

    source: Path
    exams: Mapping[str, Prediction]
    silence_is_empty: bool
    """Whether an exam that is not named had nothing selected (CSV), or was not processed (summaries)."""

    def for_exams(
        self,
        wanted: Collection[str],
        known: Collection[str] | None = None,
        *,
        missing_as_empty: bool = False,
        allow_playback: bool = False,
    ) -> dict[str, Selections]:
        """Return the selections of the wanted exams; refuse what cannot be scored fairly.

        `known` are all exams of the dataset: those of other splits may be predicted, and are left out.
        """
        strangers = [exam for exam in self.exams if exam not in (wanted if known is None else known)]
        if strangers:
            where = self.exams[strangers[0]].source
            raise InputError(f"{where}: {_name(strangers)} not in the dataset; correct the id, or remove the file")
        missing = [exam for exam in wanted if exam not in self.exams]
        if missing and not (self.silence_is_empty or missing_as_empty):
            raise InputError(
                f"{self.source}: {_name(missing)} without a summary; summarise every exam, or count what is missing "
                "as empty with --missing-as-empty"
            )
        for exam in wanted:
            if exam in self.exams and not self.exams[exam].is_exam_time and not allow_playback:
                raise InputError(
                    f"{self.exams[exam].source}: exam '{exam}' has playback times, and findings have exam times; "
                    "summarise it again with --exam-fps, --exam-duration or --clock, or insist with --allow-playback"
                )
        empty = Selections.of(())
        return {exam: self.exams[exam].selections if exam in self.exams else empty for exam in wanted}


def read_predictions(path: Path, taxonomy: Taxonomy | None = None) -> Predictions:
    """Read what one method selected, from a CSV file or from a folder of summaries or CSV files."""
    taxonomy = taxonomy or Taxonomy()
    if path.is_file():
        return Predictions(path, _merge([_read_csv(path, taxonomy)]), silence_is_empty=True)
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder; check the path")
    files = [file for file in sorted(path.rglob("*")) if not _is_hidden(file.relative_to(path))]
    summaries = [_read_summary(file, taxonomy) for file in files if file.suffix.casefold() == ".json"]
    found = [summary for summary in summaries if summary]
    if found:
        return Predictions(path, _merge(found), silence_is_empty=False)
    tables = [_read_csv(file, taxonomy) for file in files if file.suffix.casefold() == ".csv"]
    if not tables:
        raise InputError(f"{path}: holds neither summaries ('{SCHEMA}') nor CSV files; give a method's output folder")
    return Predictions(path, _merge(tables), silence_is_empty=True)


def from_summary(summary: Summary, taxonomy: Taxonomy, source: Path) -> Prediction:
    """Take the keyframes of a summary, with their labels."""
    chosen = []
    for item in summary.items:
        seconds, frame = item.keyframe.seconds, item.keyframe.frame
        if frame >= 10**15 or seconds > MAX_SECONDS:
            raise InputError(f"item {item.id}: keyframe {frame} at {seconds} s is no frame of an exam; make it again")
        chosen.append(Selection(milliseconds(seconds), frame, taxonomy.index(item.label)))
    return Prediction(Selections.of(chosen), source, summary.exam.clock.is_exam_time)


def _is_hidden(path: Path) -> bool:
    """Whether a file or one of its folders begins with a dot, as unfinished work does."""
    return any(part.startswith(".") for part in path.parts)


def _merge(files: Iterable[Mapping[str, Prediction]]) -> dict[str, Prediction]:
    """Put the exams of several files together; each must be in one file only."""
    exams: dict[str, Prediction] = {}
    for file in files:
        for exam, prediction in file.items():
            if exam in exams:
                raise InputError(
                    f"{prediction.source}: exam '{exam}' is in {exams[exam].source}, too; keep one file per exam and "
                    "one folder per method"
                )
            exams[exam] = prediction
    return exams


def _name(exams: list[str]) -> str:
    some = ", ".join(f"'{exam}'" for exam in sorted(exams)[:MOST_NAMED])
    more = f" and {len(exams) - MOST_NAMED} more" if len(exams) > MOST_NAMED else ""
    return f"exam {some} is" if len(exams) == 1 else f"exams {some}{more} are"


# --- summaries -----------------------------------------------------------------------------------------------------


def _read_summary(path: Path, taxonomy: Taxonomy) -> dict[str, Prediction]:
    """Read one summary; a JSON file of another kind is no error, for exams that are missing are found out anyway."""
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON file ({error}); make it again, or remove it") from error
    if not isinstance(content, dict) or not str(content.get("schema")).startswith(SCHEMA.rsplit("/", 1)[0]):
        return {}
    try:
        summary = Summary.from_json(text)
        return {summary.exam.id: from_summary(summary, taxonomy, path)}
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


# --- CSV -----------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, taxonomy: Taxonomy) -> dict[str, Prediction]:
    """Read rows of exam_id, seconds, label; commas, semicolons or tabs between them."""
    chosen: dict[str, list[Selection]] = defaultdict(list)
    playback: set[str] = set()
    seen: dict[tuple[str, int, int], int] = {}
    for line, row in read_table(path, COLUMNS):
        where = f"{path}, line {line}"
        exam, selection = _selection(row, taxonomy, where)
        key = exam, selection.time, selection.frame
        if key in seen:
            remedy = "remove one" if selection.frame != NO_FRAME else "remove one, or add a column 'frame'"
            raise InputError(
                f"{where}: the frame at {hms(selection.time / 1000)} of exam '{exam}' stands in line {seen[key]}, too; "
                f"{remedy}"
            )
        seen[key] = line
        chosen[exam].append(selection)
        if row.get("clock", "").casefold() == "playback":
            playback.add(exam)
    return {
        exam: Prediction(Selections.of(selections), path, exam not in playback) for exam, selections in chosen.items()
    }


def _selection(row: Row, taxonomy: Taxonomy, where: str) -> tuple[str, Selection]:
    if not row["exam_id"]:
        raise InputError(f"{where}: no exam_id; say which exam the frame is of")
    try:
        time = milliseconds(parse_time(row["seconds"]))
    except ValueError as error:
        raise InputError(f"{where}: {error}; write for instance 754.5 or 00:12:34.5") from error
    frame = row.get("frame", "")
    if frame and not re.fullmatch(r"\d{1,15}", frame):
        raise InputError(f"{where}: frame '{frame}' is no frame number; count frames from 0, or leave it empty")
    try:
        label = taxonomy.index(row["label"])
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return row["exam_id"], Selection(time, int(frame) if frame else NO_FRAME, label)
