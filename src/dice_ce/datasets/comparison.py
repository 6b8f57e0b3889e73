"""What datasets offer, side by side: the comparison of the paper (table 1), for what is on this disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dice_ce.datasets import IMPORTERS, import_dataset
from dice_ce.datasets.folder import EXAMS, load_dataset
from dice_ce.datasets.tables import Tables
from dice_ce.datasets.words import labels_of
from dice_ce.errors import InputError, UsageError
from dice_ce.exam.images import ImageCursor, ImageSource
from dice_ce.table import Table
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12
from dice_ce.types import Progress

SAMPLES = 50
"""Images of a dataset that are looked at for their size, evenly spread."""


@dataclass(frozen=True)
class DatasetFacts:
    """One row; None where it is not known, or makes no sense."""

    name: str
    exams: int | None
    patients: int | None
    frames: int
    """All frames of whole exams, or the labelled images that are listed."""
    sizes: tuple[tuple[int, int], ...]
    """Smallest and largest width and height that were seen; empty if there are no images here."""
    labels: int | None
    """Labels of VideoCAP-12 that occur, `normal` among them."""
    has_lesions: bool
    findings: int | None
    """Findings of clinical reports, each with its keyframe."""
    is_video: bool
    """Whether frames stand in their order, as in the whole recording."""
    has_time: bool
    """Whether the exam time of every frame is known."""

    def to_json(self) -> dict[str, object]:
        """Return what programs read."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


PUBLISHED = (
    DatasetFacts("Rhode Island", None, None, 5_247_588, ((320, 320),), None, False, None, False, False),
    DatasetFacts("AI-KODA", None, None, 2_173, ((320, 320),), None, True, None, False, False),
    DatasetFacts("SEE-AI", None, None, 18_481, (), None, True, None, False, False),
    DatasetFacts("Kvasir-Capsule", 43, None, 1_955_675, ((256, 256), (512, 512)), None, True, None, True, False),
    DatasetFacts("KID", 47, None, 2_500, ((360, 360),), None, True, None, True, False),
    DatasetFacts("Galar", 80, None, 3_513_539, ((336, 336), (512, 512)), None, True, None, True, False),
    DatasetFacts("VideoCAP", 240, None, 7_245_249, ((576, 576),), 12, True, None, True, True),
)
"""The figures of the paper's table, as they stand there."""
REPORTED = frozenset({"VideoCAP"})
"""Published datasets whose findings come from reports."""


def gather_facts(specs: Sequence[str], progress: Progress | None = None) -> list[DatasetFacts]:
    """Read datasets of exams (a folder with exams.csv) and public ones as they were downloaded (NAME=DIR)."""
    places = [_place(spec) for spec in specs]  # all of them before the first is read, which may take minutes
    found = []
    for done, (name, folder) in enumerate(places):
        found.append(_facts_of_exams(folder) if name is None else _facts_of_tables(name, import_dataset(name, folder)))
        if progress:
            progress(done + 1, len(places))
    return found


def _place(spec: str) -> tuple[str | None, Path]:
    name, is_named, folder = spec.partition("=")
    if is_named and name in IMPORTERS:
        return name, Path(folder)
    if (Path(spec) / EXAMS).is_file():
        return None, Path(spec)
    if is_named and not Path(spec).exists():
        raise UsageError(f"there is no importer '{name}'; choose one of {', '.join(IMPORTERS)}")
    raise InputError(
        f"{spec}: no dataset of exams ({EXAMS}); for a public dataset give NAME={spec} with one of "
        f"{', '.join(IMPORTERS)}"
    )


def _facts_of_exams(folder: Path) -> DatasetFacts:
    dataset = load_dataset(folder)
    frames, sizes, has_time = 0, set(), True
    for row in dataset.exams:
        with row.open() as exam:
            frames += len(exam)
            has_time &= exam.clock.is_exam_time
            sizes |= {image.shape[1::-1] for _, image in exam.images([0])}
    findings = [finding for report in dataset.annotations.values() for finding in report.findings]
    return DatasetFacts(
        name=folder.resolve().name,
        exams=len(dataset.exams),
        patients=len({row.patient_id for row in dataset.exams}),
        frames=frames,
        sizes=_ends(sizes),
        labels=len({finding.label for finding in findings}),
        has_lesions=any(finding.label != NORMAL for finding in findings),
        findings=len(findings),
        is_video=True,
        has_time=has_time,
    )


def _facts_of_tables(name: str, tables: Tables) -> DatasetFacts:
    of_events = {label for one in tables.timelines for event in one.events for label in _labels(event.words)}
    labels = {label for frame in tables.frames for label in frame.labels} | of_events
    # Where frames have numbers a case is a recording; elsewhere it may be a block of file names.
    recordings = {frame.case for frame in tables.frames if frame.case and frame.number is not None}
    exams = len(tables.timelines) or len(recordings) or None
    return DatasetFacts(
        name=name,
        exams=exams,
        patients=None,
        frames=len(tables.frames) or sum(event.frames for one in tables.timelines for event in one.events),
        sizes=_ends(_image_sizes([frame.path for frame in tables.frames if frame.path.is_file()])),
        labels=len(labels),
        has_lesions=bool(labels - {NORMAL}),
        findings=None,
        is_video=bool(tables.timelines),
        has_time=False,
    )


def _labels(words: Iterable[str]) -> tuple[str, ...]:
    """Translate words of a timeline; Galar's and Rhode Island's organs mean nothing, those of a segment may be new."""
    try:
        return labels_of(words)
    except InputError:
        return ()


def _image_sizes(paths: Sequence[Path]) -> set[tuple[int, int]]:
    step = max(1, len(paths) // SAMPLES)
    chosen = [str(path) for path in paths[::step]]
    with closing(ImageCursor(ImageSource(Path(), tuple(chosen), ()))) as cursor:
        return {(frame.width, frame.height) for _, frame in cursor.read(0, len(chosen))}


def _ends(sizes: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Keep the smallest and the largest."""
    ordered = sorted(set(sizes), key=lambda size: (size[0] * size[1], size))
    return tuple(dict.fromkeys((ordered[0], ordered[-1]))) if ordered else ()


def comparison_table(found: Sequence[DatasetFacts], published: Sequence[DatasetFacts] = ()) -> Table:
    """Put what is here above what was published; published rows are marked."""
    header = (
        "Dataset",
        "Whole videos",
        "Lesion labels",
        "Exams",
        "Patients",
        "Resolution",
        "Frames",
        "Labels of VideoCAP-12",
        "Reported findings",
        "Exam time",
    )
    rows = [_row(facts, facts.name, _count(facts.findings)) for facts in found]
    rows += [_row(facts, f"{facts.name} (paper)", _yes(facts.name in REPORTED)) for facts in published]
    return Table.of(header, rows, "Datasets")


def _row(facts: DatasetFacts, name: str, findings: str) -> tuple[str, ...]:
    return (
        name,
        _yes(facts.is_video),
        _yes(facts.has_lesions),
        _count(facts.exams),
        _count(facts.patients),
        " – ".join(f"{width}×{height}" for width, height in facts.sizes) or "–",
        _count(facts.frames),
        "–" if facts.labels is None else f"{facts.labels} of {len(VIDEOCAP_12)}",
        findings,
        _yes(facts.has_time),
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
