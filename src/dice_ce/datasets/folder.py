"""The dataset format: whole exams and what their reports say, as a hospital can fill it from a spreadsheet.

exams.csv      exam_id, patient_id, split, video, and how to tell exam time:
               clock (a CSV per video) or exam_fps or exam_duration or container_clock, and exam_start
findings.csv   exam_id, finding_id, seconds (or HH:MM:SS), label
videos         wherever `video` points to, relative to the folder
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dice_ce.csvfile import Row, fill_column, read_table, table_text
from dice_ce.datasets.spliced import is_spliced
from dice_ce.datasets.splits import FOLD_NAMES, SPLITS
from dice_ce.datasets.tables import Annotation, Finding
from dice_ce.errors import InputError, UsageError
from dice_ce.exam.clock import ClockOptions, parse_rate, parse_time
from dice_ce.exam.open import Exam, open_exam
from dice_ce.files import write_atomically
from dice_ce.taxonomy import Taxonomy

EXAMS, FINDINGS = "exams.csv", "findings.csv"
EXAM_COLUMNS = ("exam_id", "patient_id", "split", "video")
CLOCK_COLUMNS = ("clock", "exam_fps", "exam_duration", "exam_start", "container_clock")
FINDING_COLUMNS = ("exam_id", "finding_id", "seconds", "label")
YES, NO = ("1", "yes", "true"), ("", "0", "no", "false")


@dataclass(frozen=True)
class ExamRow:
    """One exam of a dataset."""

    exam_id: str
    patient_id: str
    split: str
    """train, validation, test, a fold, or empty if it is not decided yet."""
    video: Path
    """File or folder of frames."""
    clock: ClockOptions = field(default_factory=ClockOptions)

    def open(self) -> Exam:
        """Open the exam under the name it has in the dataset."""
        if is_spliced(self.video):
            raise InputError(
                f"exam '{self.exam_id}': is a list of images without a video; only benchmark and tune can read it"
            )
        return replace(open_exam(self.video, clock=self.clock), id=self.exam_id)


@dataclass(frozen=True)
class Dataset:
    """Exams and their annotations; every exam has one, if only an empty one."""

    folder: Path
    exams: tuple[ExamRow, ...]
    annotations: Mapping[str, Annotation]
    name: str = ""
    """What tables call it, unless that is the name of its folder."""

    @property
    def title(self) -> str:
        """What tables call it."""
        return self.name or f"'{self.folder.resolve().name}'"

    def of(self, split: str) -> Dataset:
        """Keep the exams of one split."""
        exams = tuple(row for row in self.exams if row.split == split)
        if not exams:
            known = sorted({row.split for row in self.exams if row.split})
            raise InputError(f"{self.folder}: no exam in the split '{split}'; there is {', '.join(known) or 'none'}")
        return replace(self, exams=exams, annotations={row.exam_id: self.annotations[row.exam_id] for row in exams})

    def leaking_patients(self) -> list[str]:
        """Name the patients that stand in more than one split."""
        splits: dict[str, set[str]] = defaultdict(set)
        for row in self.exams:
            splits[row.patient_id].add(row.split)
        return sorted(patient for patient, found in splits.items() if len(found) > 1)


def together(datasets: Sequence[Dataset]) -> Dataset:
    """Make one dataset of several, such as exams that were spliced with different seeds."""
    exams = tuple(row for dataset in datasets for row in dataset.exams)
    if doubled := [exam for exam, count in Counter(row.exam_id for row in exams).items() if count > 1]:
        raise InputError(f"the exam '{doubled[0]}' stands in two datasets; call one of them something else")
    annotations = {exam: found for dataset in datasets for exam, found in dataset.annotations.items()}
    return Dataset(datasets[0].folder, exams, annotations, " and ".join(dataset.title for dataset in datasets))


def _stop(problem: InputError) -> None:
    raise problem


def load_dataset(
    folder: str | Path,
    taxonomy: Taxonomy = Taxonomy(),  # noqa: B008  frozen
    on_problem: Callable[[InputError], None] = _stop,
) -> Dataset:
    """Read exams.csv and findings.csv; videos are looked at only when an exam is opened.

    A row that cannot be used goes to `on_problem`, which raises it unless someone collects them.
    """
    folder = Path(folder)
    if not (folder / EXAMS).is_file():
        raise InputError(f"{folder}: not a dataset: there is no {EXAMS} in it (columns {', '.join(EXAM_COLUMNS)})")
    exams: dict[str, ExamRow] = {}
    for line, row in read_table(folder / EXAMS, EXAM_COLUMNS):
        try:
            exam = _exam(row, exams, folder, f"{folder / EXAMS}, line {line}")
            exams[exam.exam_id] = exam
        except InputError as problem:
            on_problem(problem)
    if not exams:
        raise InputError(f"{folder / EXAMS}: names no exam; add a row per exam")
    findings: dict[str, list[Finding]] = {exam_id: [] for exam_id in exams}
    rows = read_table(folder / FINDINGS, FINDING_COLUMNS) if (folder / FINDINGS).is_file() else []
    for line, row in rows:
        try:
            finding = _finding(row, findings, taxonomy, f"{folder / FINDINGS}, line {line}")
            findings[row["exam_id"]].append(finding)
        except InputError as problem:
            on_problem(problem)
    annotations = {
        exam_id: Annotation(exam_id, tuple(sorted(found, key=lambda finding: (finding.seconds, finding.id))))
        for exam_id, found in findings.items()
    }
    return Dataset(folder, tuple(exams.values()), annotations)


def _exam(row: Row, known: Container[str], folder: Path, where: str) -> ExamRow:
    for name in ("exam_id", "patient_id", "video"):
        if not row[name]:
            raise InputError(f"{where}: '{name}' is empty; fill it")
    if row["exam_id"] in known:
        raise InputError(f"{where}: the exam '{row['exam_id']}' stands there twice; give each exam an id of its own")
    if row["split"] not in (*SPLITS, *FOLD_NAMES, ""):
        raise InputError(
            f"{where}: split '{row['split']}' is none of {', '.join(SPLITS)} (or {FOLD_NAMES[0]} and so on); "
            "leave it empty if undecided"
        )
    options = read_clock(row, folder, where)
    return ExamRow(row["exam_id"], row["patient_id"], row["split"], folder / row["video"], options)


def read_clock(row: Row, folder: Path, where: str) -> ClockOptions:
    """Read the clock columns of a row; all of them may be missing."""
    clock = {name: row.get(name, "") for name in CLOCK_COLUMNS}
    if clock["container_clock"].casefold() not in YES + NO:
        raise InputError(f"{where}: container_clock '{clock['container_clock']}' is neither yes nor no")
    try:
        return ClockOptions(
            sidecar=folder / clock["clock"] if clock["clock"] else None,
            exam_fps=parse_rate(clock["exam_fps"]) if clock["exam_fps"] else None,
            exam_duration=parse_time(clock["exam_duration"]) if clock["exam_duration"] else None,
            exam_start=parse_time(clock["exam_start"]) if clock["exam_start"] else None,
            container_is_exam_time=clock["container_clock"].casefold() in YES,
        )
    except (ValueError, UsageError) as error:
        raise InputError(f"{where}: {error}; correct the clock columns") from error


def _finding(row: Row, known: Mapping[str, list[Finding]], taxonomy: Taxonomy, where: str) -> Finding:
    if row["exam_id"] not in known:
        raise InputError(f"{where}: the exam '{row['exam_id']}' is not in {EXAMS}; add it there")
    try:
        label = taxonomy.labels[taxonomy.index(row["label"])]
        seconds = float(parse_time(row["seconds"]))
    except (InputError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error
    if not row["finding_id"]:
        raise InputError(f"{where}: 'finding_id' is empty; number the findings of an exam")
    if any(other.id == row["finding_id"] for other in known[row["exam_id"]]):
        raise InputError(f"{where}: '{row['finding_id']}' stands twice in exam '{row['exam_id']}'; number the findings")
    return Finding(row["finding_id"], seconds, label)


def write_splits(folder: Path, splits: Mapping[str, str]) -> None:
    """Fill the split column of exams.csv, by patient; every other cell, column and file stays as it is."""
    table = folder / EXAMS
    write_atomically(table, fill_column(table, "split", lambda row: splits[row["patient_id"]]).encode())


def write_dataset(folder: Path, exams: Iterable[ExamRow], annotations: Mapping[str, Annotation]) -> None:
    """Write exams.csv and findings.csv; exams.csv comes last and says that the dataset is complete."""
    exams = list(exams)
    findings = [
        (row.exam_id, finding.id, round(finding.seconds, 3), finding.label)
        for row in exams
        for finding in annotations[row.exam_id].findings
    ]
    write_atomically(folder / FINDINGS, table_text(FINDING_COLUMNS, findings).encode())
    rows = [
        (row.exam_id, row.patient_id, row.split, _relative(row.video, folder), *_clock_cells(row.clock, folder))
        for row in exams
    ]
    write_atomically(folder / EXAMS, table_text((*EXAM_COLUMNS, *CLOCK_COLUMNS), rows).encode())


def _clock_cells(clock: ClockOptions, folder: Path) -> tuple[str, ...]:
    def cell(value: object) -> str:
        return "" if value is None else str(value)

    return (
        _relative(clock.sidecar, folder) if clock.sidecar else "",
        cell(clock.exam_fps),
        cell(clock.exam_duration and float(clock.exam_duration)),
        cell(clock.exam_start and float(clock.exam_start)),
        "yes" if clock.container_is_exam_time else "",
    )


def _relative(path: Path, folder: Path) -> str:
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    beside = path.is_relative_to(folder.parent)  # another reading of the same exams
    return f"../{path.relative_to(folder.parent).as_posix()}" if beside else path.as_posix()
