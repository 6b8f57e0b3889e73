"""A folder of exams means each of them, and a folder of images is one exam."""

import json
import os
from pathlib import Path

import pytest

from dice_ce.cli import main
from dice_ce.errors import ExamError, UsageError
from dice_ce.exam.open import open_exam
from dice_ce.exam.readers import exams_of_folder, open_source
from tests.material import moving_dots, numbered_folder, numbered_video, write_tiny_encoder, write_video, zipped


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Four exams of all kinds, one of them broken, between things that are none."""
    folder = tmp_path / "clinic"
    folder.mkdir()
    numbered_video(folder / "exam10.mp4", 30)
    (folder / "exam10.clock.csv").write_text("0,0\n29,58\n")
    numbered_folder(folder / "exam9", [f"{i}.png" for i in range(30)])
    zipped(folder / "exam9", folder / "exam2.ZIP")
    (folder / "exam3.avi").write_text("no video")
    (folder / "notes.txt").write_text("from Tuesday")
    (folder / ".hidden.mp4").write_text("of a file manager")
    (folder / "results" / "exam9" / "keyframes").mkdir(parents=True)
    (folder / "results" / "exam9" / "keyframes" / "01.jpg").write_bytes(b"")
    return folder


def names_in(folder: Path) -> list[str]:
    content = exams_of_folder(folder)
    return [] if content is None else [exam.name for exam in content.exams]


def test_videos_zips_and_frame_folders_are_exams_in_natural_order(clinic: Path) -> None:
    assert names_in(clinic) == ["exam2.ZIP", "exam3.avi", "exam9", "exam10.mp4"]
    content = exams_of_folder(clinic)
    assert content is not None
    assert content.others == ("notes.txt", "results"), "what earlier runs wrote is no exam, and a clock file is read"


def test_one_video_in_a_folder_is_one_exam(tmp_path: Path) -> None:
    numbered_video(tmp_path / "exam.mp4", 3)
    assert names_in(tmp_path) == ["exam.mp4"]


def test_a_folder_of_images_is_one_exam_and_so_is_a_file(clinic: Path, tmp_path: Path) -> None:
    assert exams_of_folder(clinic / "exam9") is None
    assert exams_of_folder(clinic / "exam10.mp4") is None
    (tmp_path / "empty").mkdir()
    assert exams_of_folder(tmp_path / "empty") is None
    assert exams_of_folder(tmp_path / "missing") is None


@pytest.mark.parametrize("other", ["exam.mp4", "exam.zip", "more"])
def test_images_beside_exams_are_ambiguous(tmp_path: Path, other: str) -> None:
    numbered_folder(tmp_path, [f"{i}.png" for i in range(8)])
    if other == "more":
        numbered_folder(tmp_path / other, ["1.png"])
    else:
        (tmp_path / other).touch()
    with pytest.raises(UsageError) as refused:
        exams_of_folder(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}: holds images (0.png, 1.png, 2.png, 3.png, 4.png and 3 more) as well as exams ({other}); "
        "name the exams that you mean, or put the images into a folder of their own"
    )
    assert len(open_source(tmp_path).frames) == 8, "in Python, a folder with images is opened as one exam"


def test_where_one_exam_is_wanted_a_folder_of_them_is_refused(clinic: Path) -> None:
    with pytest.raises(ExamError, match=r"is a folder of 4 exams \(exam2.ZIP, exam3.avi, .*\); give one of them"):
        open_exam(clinic)


def test_extract_takes_every_exam_of_a_folder_and_names_the_broken_one(
    clinic: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    single = write_video(tmp_path / "single.mp4", moving_dots(20))
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx")
    code = main(["extract", str(single), str(clinic), "--encoder", str(encoder), "--json"])
    out, err = capfd.readouterr()
    assert code == 1
    assert err.startswith(f"dice-ce: {clinic}: 4 exams; not read: notes.txt, results\n")
    assert err.endswith(f"dice-ce: 1 of 5 inputs failed: {clinic / 'exam3.avi'}\n")
    done = json.loads(out)["exams"]
    assert [facts.get("id", facts.get("input")) for facts in done] == [
        "single",
        "exam2",
        str(clinic / "exam3.avi"),
        "exam9",
        "exam10",
    ]
    assert done[-1]["clock_source"] == "sidecar"


def test_an_ambiguous_folder_is_found_before_any_work(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = numbered_folder(tmp_path / "mixed", ["1.png"])
    single = numbered_video(folder / "exam.mp4", 3)
    assert main(["summarize", str(single), str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "as well as exams (exam.mp4)" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_does_not_stop_the_others(clinic: Path) -> None:
    (clinic / "exam9").chmod(0)
    try:
        assert "exam9" in names_in(clinic), "opening it says what is wrong"
    finally:
        (clinic / "exam9").chmod(0o755)
