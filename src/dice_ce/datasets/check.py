"""Everything that can be wrong with a dataset, found before a week of computing is spent on it."""

from __future__ import annotations

import hashlib
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from dice_ce.datasets.folder import Dataset, ExamRow, load_dataset
from dice_ce.datasets.spliced import is_spliced, read_images_table, read_splice
from dice_ce.datasets.splits import FOLD_NAMES, SPLITS
from dice_ce.datasets.tables import Finding
from dice_ce.errors import InputError
from dice_ce.exam.clock import hms
from dice_ce.exam.images import ImageCursor, ImageSource
from dice_ce.exam.open import Exam
from dice_ce.table import aligned, bars
from dice_ce.taxonomy import VIDEOCAP_12, Taxonomy

SMALLEST_IMAGE = 2048
"""Bytes; smaller packets and files are black or blank, and being alike means nothing."""
MOST_LISTED = 20


@dataclass(frozen=True)
class ExamFacts:
    """What an exam turned out to be."""

    exam_id: str
    split: str
    frames: int
    seconds: float
    clock: str


@dataclass(frozen=True)
class Check:
    """The outcome of a check: problems must be solved, remarks should be known."""

    dataset: Dataset
    exams: tuple[ExamFacts, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def check_dataset(folder: Path, progress: Callable[[int, int], None] | None = None) -> Check:
    """Look at every row, open every exam, compare the splits. All problems are collected, not only the first."""
    problems: list[str] = []
    dataset = load_dataset(folder, on_problem=lambda problem: problems.append(str(problem)))
    facts: list[ExamFacts] = []
    images: dict[str, dict[str, str]] = defaultdict(dict)
    for done, row in enumerate(dataset.exams):
        if progress:
            progress(done, len(dataset.exams))
        try:
            found, shown, own_problems = _look(row, dataset.annotations[row.exam_id].findings)
            facts.append(found)
            problems += own_problems
            for digest, name in shown.items():
                images[digest].setdefault(row.split, f"{row.exam_id} {name}")
        except InputError as problem:
            problems.append(f"exam '{row.exam_id}': {problem}")
    if progress:
        progress(len(dataset.exams), len(dataset.exams))
    problems += [
        f"patient '{patient}' stands in more than one split; keep all exams of a patient on one side"
        for patient in dataset.leaking_patients()
    ]
    problems += _shared_images(images)
    return Check(dataset, tuple(facts), tuple(problems), tuple(_remarks(dataset)))


def _look(row: ExamRow, findings: tuple[Finding, ...]) -> tuple[ExamFacts, dict[str, str], list[str]]:
    """Return what an exam is, which images it has (digest and name), and what is wrong with its times."""
    if is_spliced(row.video):
        images = read_images_table(row.video.parents[1])
        splice = read_splice(row.video, len(images), Taxonomy())
        first, last = float(splice.seconds[0]), float(splice.seconds[-1])
        # An image is a file here, so its path tells it from others.
        shown = {str(images[i].path): images[i].path.name for i in np.unique(splice.image)}
        facts = ExamFacts(row.exam_id, row.split, len(splice), last - first, "list of images")
        return facts, shown, list(_outside(row, first, last, findings))
    with row.open() as exam:
        first, last = float(exam.clock.seconds(0)), float(exam.clock.seconds(len(exam) - 1))
        facts = ExamFacts(row.exam_id, row.split, len(exam), last - first, exam.clock.source)
        shown = dict(image_digests(exam))
        if exam.clock.is_exam_time:
            return facts, shown, list(_outside(row, first, last, findings))
    problem = (
        f"exam '{row.exam_id}': the exam time is not known, only playback time; fill one of the columns clock, "
        "exam_fps, exam_duration or container_clock"
    )
    return facts, shown, [problem]


def _outside(row: ExamRow, first: float, last: float, findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        if not first <= finding.seconds <= last:
            yield (
                f"exam '{row.exam_id}': finding '{finding.id}' at {hms(finding.seconds)} lies outside the exam "
                f"({hms(first)} to {hms(last)}); correct its time or the exam's clock"
            )


def image_digests(exam: Exam) -> Iterator[tuple[str, str]]:
    """Yield (digest, name) of the stored images: image files, or the keyframes of a video as they are in the file.

    Two exams that share such bytes share images. Nothing is decoded, so this costs little more than reading.
    """
    if isinstance(exam.source, ImageSource):
        with closing(ImageCursor(exam.source)) as cursor:
            for name in exam.source.names:
                content = cursor.content(name)
                if len(content) >= SMALLEST_IMAGE:
                    yield hashlib.sha256(content).hexdigest(), name
        return
    with av.open(str(exam.source.path)) as container:
        for packet in container.demux(video=0):
            if packet.is_keyframe and packet.size >= SMALLEST_IMAGE:
                yield hashlib.sha256(bytes(packet)).hexdigest(), f"at {packet.pts}"


def _shared_images(images: dict[str, dict[str, str]]) -> list[str]:
    shared = [where for where in images.values() if len(where) > 1]
    pairs = Counter(tuple(sorted(where)) for where in shared)
    examples = {tuple(sorted(where)): " = ".join(where[split] for split in sorted(where)) for where in reversed(shared)}
    return [
        f"{count} byte-identical images stand in {' and '.join(split or 'no split' for split in pair)} "
        f"(for instance {examples[pair]}); keep all that shows one patient on one side"
        for pair, count in sorted(pairs.items())
    ]


def _remarks(dataset: Dataset) -> Iterator[str]:
    undecided = sum(not row.split for row in dataset.exams)
    if undecided:
        yield f"{undecided} exams have no split yet: dice-ce data split {dataset.folder}"
    silent = [row.exam_id for row in dataset.exams if not dataset.annotations[row.exam_id].findings]
    if silent:
        yield f"{len(silent)} exams have no finding: {_some(silent)}"
    seen = {finding.label for annotation in dataset.annotations.values() for finding in annotation.findings}
    if absent := [label for label in VIDEOCAP_12 if label not in seen]:
        yield f"no finding of {', '.join(absent)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:MOST_LISTED]) + (
        f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    )


def check_facts(check: Check) -> dict[str, object]:
    """Sum up a check for programs."""
    splits = [name for name in (*SPLITS, *FOLD_NAMES, "") if any(row.split == name for row in check.dataset.exams)]
    return {
        "dataset": str(check.dataset.folder),
        "splits": {name or "undecided": _split_facts(check, name) for name in splits},
        "problems": list(check.problems),
        "remarks": list(check.remarks),
    }


def _split_facts(check: Check, split: str) -> dict[str, object]:
    rows = [row for row in check.dataset.exams if row.split == split]
    seconds = [facts.seconds for facts in check.exams if facts.split == split]
    findings = [finding for row in rows for finding in check.dataset.annotations[row.exam_id].findings]
    labels = Counter(finding.label for finding in findings)
    return {
        "patients": len({row.patient_id for row in rows}),
        "exams": len(rows),
        "frames": sum(facts.frames for facts in check.exams if facts.split == split),
        "median_hours": round(statistics.median(seconds) / 3600, 2) if seconds else None,
        "findings": len(findings),
        "findings_per_exam": round(len(findings) / len(rows), 2),
        "labels": {label: labels[label] for label in VIDEOCAP_12 if labels[label]},
    }


def check_text(check: Check) -> str:
    """Sum up a check for people, with the labels drawn as bars."""
    facts = check_facts(check)
    splits = facts["splits"]
    assert isinstance(splits, dict)
    lines = [f"{check.dataset.folder}: {len(check.dataset.exams)} exams", ""]
    rows = [("split", "patients", "exams", "frames", "hours", "findings", "per exam")]
    for name, part in splits.items():
        numbers = part["patients"], part["exams"], f"{part['frames']:,}", part["median_hours"] or "–"
        rows.append((name, *map(str, numbers), str(part["findings"]), str(part["findings_per_exam"])))
    lines.append(aligned(rows, numbers=True))
    labels = Counter[str]()
    for part in splits.values():
        labels.update(part["labels"])
    lines += ["", "findings by label", bars({label: labels[label] for label in VIDEOCAP_12})]
    lines += ["", *(f"remark   {remark}" for remark in check.remarks)]
    lines += [f"PROBLEM  {problem}" for problem in check.problems]
    lines.append(f"{len(check.problems)} problems" if check.problems else "no problems found")
    return "\n".join(lines)
