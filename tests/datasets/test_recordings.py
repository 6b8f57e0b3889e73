"""Real recordings: labelled frames put back at their places, and what a report would say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dice_ce.cli import main
from dice_ce.datasets.folder import load_dataset
from dice_ce.datasets.recordings import RATE, find_recordings, find_runs, write_recordings
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError
from tests.material import numbered_folder


def labelled(number: int, *labels: str, case: str = "video", path: Path = Path("x.jpg")) -> LabelledFrame:
    return LabelledFrame(path, "KVASIR", case, number, labels, labels)


def test_a_run_ends_where_another_label_or_a_gap_of_more_than_ten_seconds_begins() -> None:
    frames = [
        labelled(1, "ulcer"),
        labelled(21, "ulcer"),
        labelled(42, "ulcer"),
        labelled(43, "normal"),
        labelled(44, "ulcer"),
        labelled(45, "ulcer", "erosion"),
        labelled(46, "erosion"),
        labelled(47),
    ]
    runs = [(run.label, run.frames) for run in find_runs(frames)]
    assert runs == [("ulcer", (1, 21)), ("ulcer", (42,)), ("ulcer", (44, 45)), ("erosion", (45, 46))]


def some_recording() -> list[LabelledFrame]:
    normal = [labelled(number, "normal") for number in range(100, 140)]
    near = [labelled(number, "ulcer") for number in (200, 201, 202, 700)]
    between = [labelled(number, "polyp") for number in (500, 501)]
    far = [labelled(number, "ulcer") for number in (1500, 1501)]
    return [*far, *normal, *near, *between]


def test_runs_of_one_lesion_within_the_window_are_one_finding_at_the_middle_of_the_longest() -> None:
    (recording,) = find_recordings(some_recording())
    assert [frame.number for frame in recording.frames] == sorted(frame.number or 0 for frame in recording.frames)
    found = [(finding.label, finding.seconds * RATE) for finding in recording.findings]
    assert found == [("ulcer", 201), ("polyp", 501), ("ulcer", 1501)]
    assert len(recording.every_run) == 4


def test_a_video_with_hardly_any_frame_is_no_recording() -> None:
    assert not find_recordings(some_recording()[:20])


def test_the_dataset_opens_at_true_times_and_has_both_readings(tmp_path: Path) -> None:
    names = [f"{place}.png" for place in range(len(some_recording()))]
    folder = numbered_folder(tmp_path / "images", names)
    frames = [
        labelled(frame.number or 0, *frame.labels, path=folder / name)
        for name, frame in zip(names, some_recording(), strict=True)
    ]
    made = write_recordings(frames, tmp_path / "out")
    dataset, runs = load_dataset(tmp_path / "out"), load_dataset(tmp_path / "out" / "runs")
    assert [len(one.annotations["video"].findings) for one in (dataset, runs)] == [3, 4]
    assert dataset.exams[0].split == made[0].split == "fold-0"
    assert runs.exams[0].video.resolve() == dataset.exams[0].video.resolve()
    with runs.exams[0].open() as exam:
        assert len(exam) == len(frames)
        assert exam.clock.is_exam_time
        assert float(exam.clock.seconds(len(exam) - 1)) == 1501 / RATE
    before = (tmp_path / "out" / "exams" / "video.zip").read_bytes()
    (tmp_path / "out" / "exams" / "video.zip").unlink()
    write_recordings(frames, tmp_path / "out")
    assert (tmp_path / "out" / "exams" / "video.zip").read_bytes() == before


def test_frames_without_numbers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="labelled frames with numbers"):
        write_recordings([], tmp_path / "out")
    assert main(["data", "recordings", "--frames", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) != 0
    assert "none" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
