"""What readers decided, taken out of the database: as a dataset that trains the next bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dice_ce.csvfile import table_text
from dice_ce.datasets.folder import ExamRow, write_dataset
from dice_ce.datasets.tables import Annotation
from dice_ce.datasets.tables import Finding as ReportedFinding
from dice_ce.errors import DiceError, InputError
from dice_ce.exam.clock import ClockOptions, read_sidecar
from dice_ce.exam.open import sidecar_beside
from dice_ce.files import write_atomically
from dice_ce.reader.frames import summary_clock
from dice_ce.reader.measures import Clock, find_knots
from dice_ce.reader.serve import default_database
from dice_ce.reader.state import State, fold
from dice_ce.reader.storage import Loaded, Storage
from dice_ce.reader.tables import open_engine
from dice_ce.taxonomy import Taxonomy

CLOCKS = "clocks"
"""Folder for the clocks of exams that have none beside their video."""


@dataclass(frozen=True)
class ReadReview:
    """A review as its reader left it."""

    loaded: Loaded
    state: State
    """At the last signature; without one, as it is."""
    reader: str
    is_signed: bool
    clock: Clock
    seconds: float
    """Active reading time of that reader; 0 if it was not measured."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    exams: int
    findings: int
    remarks: tuple[str, ...]


def open_reviews(database: str | None) -> list[ReadReview]:
    """Read all reviews in which somebody has decided something."""
    if database is None and not default_database().exists():
        raise InputError(f"{default_database()}: nothing has been read yet; begin with: dice-ce read RESULTS")
    if database is not None and "://" not in database and not Path(database).is_file():
        raise InputError(f"{database}: no such database; check --database")
    storage = Storage(open_engine(database or default_database()))
    try:
        spent = storage.time_spent()
        rows = [row for row in storage.all_readings() if row.version]
        loaded = [found for row in rows if (found := storage.load(row.id)) is not None]
    finally:
        storage.close()
    return [_as_left(one, spent) for one in loaded]


def _as_left(loaded: Loaded, spent: dict[tuple[str, str], float]) -> ReadReview:
    signatures = loaded.state.signatures
    state = fold(loaded.initial, loaded.events[: signatures[-1].sequence]) if signatures else loaded.state
    reader = signatures[-1].by if signatures else loaded.events[-1].by
    seconds = spent.get((loaded.reading.id, reader), 0.0)
    return ReadReview(loaded, state, reader, bool(signatures), stored_clock(loaded), seconds)


def stored_clock(loaded: Loaded) -> Clock:
    """Tell the times of an exam without opening its video: from the clock file beside it, or from the summary."""
    if (sidecar := _sidecar(loaded)) is not None:
        try:
            times, _ = read_sidecar(sidecar, loaded.reading.frames, None)
            return find_knots(range(len(times)), [float(time) for time in times])
        except DiceError:
            pass  # of another exam, or with names of files: the summary knows enough
    if loaded.summary is not None:
        return summary_clock(loaded.summary)
    return find_knots((0, max(1, loaded.reading.frames - 1)), (0.0, loaded.reading.duration))


def _sidecar(loaded: Loaded) -> Path | None:
    if loaded.reading.video is None:
        return None
    beside = sidecar_beside(Path(loaded.reading.video))
    return beside if beside.is_file() else None


def export_reviews(reviews: Sequence[ReadReview], folder: Path, *, with_unsigned: bool = False) -> Exported:
    """Write confirmed findings as a dataset; of several readings of one exam, the first that counts."""
    chosen: dict[str, ReadReview] = {}
    for review in sorted(reviews, key=lambda one: (one.loaded.reading.second_of is not None, one.loaded.reading.name)):
        if review.is_signed or with_unsigned:
            chosen.setdefault(review.loaded.reading.exam_digest, review)
    rows: list[ExamRow] = []
    annotations: dict[str, Annotation] = {}
    remarks: list[str] = []
    for review in chosen.values():
        reading = review.loaded.reading
        if reading.video is None or not Path(reading.video).exists():
            remarks.append(f"{reading.name}: left out, because its video is not there")
            continue
        name = reading.name if reading.name not in annotations else f"{reading.name}-{reading.exam_digest[:8]}"
        rows.append(ExamRow(name, name, "", Path(reading.video), _clock_options(review, name, folder)))
        annotations[name] = Annotation(name, tuple(_findings(review, remarks)))
    if not rows:
        raise InputError("reviews: no signed review whose video is there; sign one first, or add --unsigned")
    write_dataset(folder, rows, annotations)
    return Exported(len(rows), sum(len(one.findings) for one in annotations.values()), tuple(remarks))


def _clock_options(review: ReadReview, name: str, folder: Path) -> ClockOptions:
    reading = review.loaded.reading
    if _sidecar(review.loaded) is not None or not reading.is_exam_time:
        return ClockOptions()
    target = folder / CLOCKS / f"{name}.clock.csv"
    write_atomically(target, table_text(("frame", "seconds"), review.clock.knots).encode())
    return ClockOptions(sidecar=target)


def _findings(review: ReadReview, remarks: list[str]) -> list[ReportedFinding]:
    summary = review.loaded.summary
    taxonomy = summary.taxonomy if summary else Taxonomy()
    found = []
    for one in review.state.confirmed:
        try:
            index = taxonomy.index(one.label)
        except InputError:
            remarks.append(f"{review.loaded.reading.name}: '{one.label}' is not in {taxonomy.name} and was left out")
            continue
        if index != taxonomy.normal:
            found.append(ReportedFinding(one.id, review.clock.seconds(one.keyframe), taxonomy.labels[index]))
    return sorted(found, key=lambda finding: (finding.seconds, finding.id))
