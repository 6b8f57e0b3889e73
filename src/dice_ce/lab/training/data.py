"""Where training data comes from: datasets of whole exams and tables of labelled frames, mixed, in folds of cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dice_ce.datasets.folder import EXAMS, Dataset, ExamRow, load_dataset
from dice_ce.datasets.frametable import read_frame_table
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import FOLDS, SPLITS, fold_cases
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError
from dice_ce.taxonomy import NORMAL

TEST = "test"


@dataclass(frozen=True)
class TrainingData:
    """All that was given. Cases are dealt to folds, but for those of the split `test`, which nothing is learnt from."""

    datasets: tuple[Dataset, ...]
    frames: tuple[LabelledFrame, ...]
    fold: Mapping[str, int]
    """By case; test cases have none."""

    @property
    def folds(self) -> int:
        """How many folds there are: five, or one per case where there are fewer."""
        return max(self.fold.values(), default=-1) + 1

    @property
    def exams(self) -> dict[str, ExamRow]:
        """All exams by name."""
        found: dict[str, ExamRow] = {}
        for row in (row for dataset in self.datasets for row in dataset.exams):
            if row.exam_id in found:
                raise InputError(f"the exam '{row.exam_id}' stands in two datasets; call one of them something else")
            found[row.exam_id] = row
        return found


def gather(paths: Sequence[Path], taxonomy_labels: Sequence[str]) -> TrainingData:
    """Read everything; refuse patients on two sides and labels that the taxonomy does not have."""
    datasets: list[Dataset] = []
    frames: list[LabelledFrame] = []
    for path in paths:
        if (path / EXAMS).is_file():
            datasets.append(_usable(load_dataset(path)))
        else:
            frames += _usable_frames(path, taxonomy_labels)
    known = [frame for frame in (*frames, *_shown(datasets)) if frame.split != TEST]
    cases = len({frame.case for frame in known})
    if cases < 2:
        raise InputError(f"there are {cases} cases to learn from: one is always held out, so it takes two; add cases")
    return TrainingData(tuple(datasets), tuple(frames), fold_cases(known, min(FOLDS, cases)))


def _shown(datasets: Sequence[Dataset]) -> Iterator[LabelledFrame]:
    """Describe exams by their findings, so that their patients are dealt like the cases of frames."""
    for dataset in datasets:
        for row in dataset.exams:
            labels = [NORMAL, *(finding.label for finding in dataset.annotations[row.exam_id].findings)]
            for label in labels:
                yield LabelledFrame(row.video, "exams", row.patient_id, None, (label,), (label,), split=row.split)


def _usable(dataset: Dataset) -> Dataset:
    if leaking := [patient for patient in dataset.leaking_patients() if _is_tested(dataset, patient)]:
        raise InputError(
            f"{dataset.folder}: patient '{leaking[0]}' stands in more than one split ({len(leaking)} in all); "
            "keep all exams of a patient on one side: dice-ce data split DIR --force"
        )
    return dataset


def _is_tested(dataset: Dataset, patient: str) -> bool:
    return any(row.split == TEST for row in dataset.exams if row.patient_id == patient)


def _usable_frames(path: Path, taxonomy_labels: Sequence[str]) -> list[LabelledFrame]:
    """Read the frames of a table; its own test cases stay test cases, if it splits its cases cleanly."""
    tables = read_frame_table(path) if path.suffix.lower() == ".csv" else load_pool(path)
    frames = [frame for frame in tables.frames if frame.case]
    if not frames:
        raise InputError(f"{path}: no frame has a case (patient), so none can be held out; fill the column 'case'")
    for frame in frames:
        if strange := [label for label in frame.labels if label not in taxonomy_labels]:
            raise InputError(f"{frame.path}: label '{strange[0]}' is not in the bundle's taxonomy; remove or rename it")
    if not all(frame.split in SPLITS for frame in frames):
        return [replace(frame, split="") for frame in frames]
    splits: dict[str, set[str]] = defaultdict(set)
    for frame in frames:
        splits[frame.case].add(frame.split)
    if leaking := sorted(case for case, found in splits.items() if len(found) > 1):
        raise InputError(
            f"{path}: case '{leaking[0]}' stands in more than one split ({len(leaking)} in all); "
            "keep all frames of a case on one side, or empty the column 'split'"
        )
    return frames
