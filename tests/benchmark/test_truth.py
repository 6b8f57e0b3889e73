"""The truth of every frame, where it is known: stretches in view, and labels by frame."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dice_ce.benchmark.truth import read_truth_labels, read_truth_spans
from dice_ce.csvfile import table_text
from dice_ce.errors import ClockError, InputError
from dice_ce.lab.compose.truth import COLUMNS
from dice_ce.lab.simulator.truth import FrameTruth, collect_findings, truth_csv
from dice_ce.taxonomy import Taxonomy


def composed(target: Path, labels: Sequence[str]) -> Path:
    rows = [
        [{"frame": i, "label": label, "seconds": f"{2.5 * i:.3f}"}.get(column, "") for column in COLUMNS]
        for i, label in enumerate(labels)
    ]
    target.write_text(table_text(COLUMNS, rows))
    return target


def test_consecutive_frames_of_one_label_are_one_stretch(tmp_path: Path) -> None:
    labels = ["normal", "ulcer", "ulcer", "polyp", "normal", "ulcer", "normal", "polyp", "polyp", "polyp"]
    path = composed(tmp_path / "exam.truth.csv", labels)
    assert read_truth_spans(path) == [
        (2.5, 5.0, "ulcer"),
        (7.5, 7.5, "polyp"),
        (12.5, 12.5, "ulcer"),
        (17.5, 22.5, "polyp"),
    ]


def test_frames_that_are_left_out_end_a_stretch(tmp_path: Path) -> None:
    path = tmp_path / "exam.truth.csv"
    path.write_text("frame,label,seconds\n3,ulcer,3\n4,ulcer,4\n9,ulcer,9\n")
    assert read_truth_spans(path) == [(3, 4, "ulcer"), (9, 9, "ulcer")]


def test_times_of_a_simulated_exam_come_from_its_clock(tmp_path: Path) -> None:
    lesion: Any = SimpleNamespace(label="polyp")
    truths = [FrameTruth(lesion if 3 <= frame < 6 else None, 0.1) for frame in range(8)]
    findings = collect_findings(truths, Fraction)
    path = tmp_path / "exam.truth.csv"
    path.write_text(truth_csv(truths, findings))
    (tmp_path / "exam.clock.csv").write_text("frame,seconds\n0,0\n7,3.5\n")
    assert read_truth_spans(path) == [(1.5, 2.5, "polyp")]


def test_a_truth_without_times_and_without_a_clock_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "exam.truth.csv"
    path.write_text("frame,label\n0,ulcer\n")
    with pytest.raises(ClockError, match=r"exam\.clock\.csv: the clock file cannot be read"):
        read_truth_spans(path)


def test_labels_of_some_frames_are_read_by_number(tmp_path: Path) -> None:
    path = composed(tmp_path / "exam.truth.csv", ["normal", "ulcer", "ulcer", "polyp"])
    labels = Taxonomy().labels
    assert [labels[i] for i in read_truth_labels(path, np.array([3, 1, 0]))] == ["polyp", "ulcer", "normal"]
    with pytest.raises(InputError, match="says nothing about frame 4"):
        read_truth_labels(path, np.array([3, 4]))


def test_an_empty_truth_has_no_stretches(tmp_path: Path) -> None:
    assert read_truth_spans(composed(tmp_path / "exam.truth.csv", [])) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,ulcer,1", "line 3: 'x' is no frame number"),
        ("1,ulcr,1", "line 3: label 'ulcr' is not in the taxonomy .* did you mean 'ulcer'"),
        ("1,ulcer,soon", "line 3: 'soon' is neither seconds"),
    ],
)
def test_a_wrong_row_of_the_truth_is_named(row: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "exam.truth.csv"
    path.write_text(f"frame,label,seconds\n0,ulcer,0\n{row}\n")
    with pytest.raises(InputError, match=message):
        read_truth_spans(path)
