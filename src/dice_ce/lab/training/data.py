"""Where training data comes from: datasets of whole exams and tables of labelled frames, mixed, split by case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dice_ce.datasets.folder import EXAMS, Dataset, ExamRow, load_dataset
from dice_ce.datasets.frametable import read_frame_table
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import SPLITS, split_cases
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError


@dataclass(frozen=True)
class TrainingData:
    """All that was given, in splits that share no case."""

    datasets: tuple[Dataset, ...]
    frames: dict[str, tuple[LabelledFrame, ...]]
    """Labelled images by split."""

    @property
    def exams(self) -> dict[str, ExamRow]:
        """All exams by name."""
        found: dict[str, ExamRow] = {}
        for row in (row for dataset in self.datasets for row in dataset.exams):
            if row.exam_id in found:
                raise InputError(f"the exam '{row.exam_id}' stands in two datasets; call one of them something else")
            found[row.exam_id] = row
        return found

    def check_splits(self, *splits: str) -> None:
        """Refuse data without any case in one of these splits, before anything is encoded."""
        for split in splits:
            if not self.frames[split] and not any(row.split == split for row in self.exams.values()):
                raise InputError(f"there is no case in the split '{split}'; needed are {', '.join(splits)}: add cases")


def gather(paths: Sequence[Path], taxonomy_labels: Sequence[str]) -> TrainingData:
    """Read everything; refuse patients on two sides and labels that the taxonomy does not have."""
    datasets, frames = [], []
    for path in paths:
        if (path / EXAMS).is_file():
            datasets.append(_usable(load_dataset(path)))
        else:
            frames += _usable_frames(path, taxonomy_labels)
    images: dict[str, list[LabelledFrame]] = {split: [] for split in SPLITS}
    for frame in frames:
        images[frame.split].append(frame)
    return TrainingData(tuple(datasets), {split: tuple(part) for split, part in images.items()})


def _usable(dataset: Dataset) -> Dataset:
    if leaking := dataset.leaking_patients():
        raise InputError(
            f"{dataset.folder}: patient '{leaking[0]}' stands in more than one split ({len(leaking)} in all); "
            "keep all exams of a patient on one side: dice-ce data split DIR --force"
        )
    for split in ("train", "validation"):
        dataset.of(split)
    return dataset


def _usable_frames(path: Path, taxonomy_labels: Sequence[str]) -> list[LabelledFrame]:
    """Give every frame its split: its own, if the table has a clean one, else by case."""
    tables = read_frame_table(path) if path.suffix.lower() == ".csv" else load_pool(path)
    frames = [frame for frame in tables.frames if frame.case]
    if not frames:
        raise InputError(f"{path}: no frame has a case (patient), so nothing can be split; fill the column 'case'")
    for frame in frames:
        if strange := [label for label in frame.labels if label not in taxonomy_labels]:
            raise InputError(f"{frame.path}: label '{strange[0]}' is not in the bundle's taxonomy; remove or rename it")
    if all(frame.split in SPLITS for frame in frames):
        splits: dict[str, set[str]] = defaultdict(set)
        for frame in frames:
            splits[frame.case].add(frame.split)
        if leaking := sorted(case for case, found in splits.items() if len(found) > 1):
            raise InputError(
                f"{path}: case '{leaking[0]}' stands in more than one split ({len(leaking)} in all); "
                "keep all frames of a case on one side, or empty the column 'split'"
            )
        return frames
    # The splits that public datasets come with share cases; ours do not.
    dealt = split_cases(frames)
    return [replace(frame, split=dealt[frame.case]) for frame in frames]
