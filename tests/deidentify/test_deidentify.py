"""De-identified exams: the same frames at the same times, and nothing in them or around them that says whose they are.

A pretended reader takes magenta for the name of a patient: it sees it in the original and would see it in the result.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from dice_ce.cli import main
from dice_ce.deidentify import run
from dice_ce.deidentify.blackout import Blackout, all_kept
from dice_ce.deidentify.legible import gather, is_legible, kind_of
from dice_ce.deidentify.run import LegibleError, Options, deidentify
from dice_ce.deidentify.write import plain_names
from dice_ce.errors import UsageError
from dice_ce.exam.codec import write_image
from dice_ce.exam.ocr import Box, TextLine
from dice_ce.exam.open import open_exam
from tests.material import moving_dots, variable_rate, write_video, zipped

SIZE, FRAMES = 128, 40
MAGENTA = (255, 0, 255)
IN_THE_WINDOW, OUTSIDE = Box(50, 60, 30, 10), Box(2, 2, 24, 8)


class MagentaReader:
    """Reads every patch of magenta as a name."""

    def find(self, image: np.ndarray) -> list[TextLine]:
        values = image.astype(int)
        patch = (values[:, :, 0] > 180) & (values[:, :, 1] < 80) & (values[:, :, 2] > 180)
        return [
            TextLine("DOE JANE", 0.99, box) for box in (IN_THE_WINDOW, OUTSIDE, LATE) if patch[box.slices].mean() > 0.2
        ]


LATE = Box(60, 90, 20, 10)


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "text_reader", MagentaReader)


def named_frames(*places: Box, late: int | None = None) -> Iterator[np.ndarray]:
    for number, image in enumerate(moving_dots(FRAMES, SIZE)):
        shown = np.minimum(image, 170)
        for box in places:
            shown[box.slices] = MAGENTA
        if number == late:
            shown[LATE.slices] = MAGENTA
        yield shown


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "Doe_Jane_1950.mkv"
    write_video(
        path, named_frames(IN_THE_WINDOW, OUTSIDE), options={"crf": "8"}, pts=variable_rate, time_base=Fraction(1, 1000)
    )
    return path


def exact_times(path: Path) -> list[Fraction]:
    with open_exam(path, mask=False) as exam:
        return [(int(pts) - int(exam.frames.pts[0])) * exam.frames.time_base for pts in exam.frames.pts]


@pytest.mark.parametrize("quality", ["high", "lossless"])
def test_frames_and_exact_times_stay_and_text_goes(video: Path, tmp_path: Path, quality: str) -> None:
    before = video.read_bytes()
    out = tmp_path / "out" / "case01.mp4"
    with open_exam(video) as exam:
        report = deidentify(exam, out, Options(quality=quality, checks=FRAMES))  # type: ignore[arg-type]
        assert exact_times(out) == exact_times(video)
        with open_exam(out, mask=False) as result:
            inside = exam.field.mask(SIZE, SIZE)
            for cover in report.covers:
                inside[cover.slices] = False
            for ordinal, image in result.read():
                assert image[IN_THE_WINDOW.slices].max() <= 24, ordinal
                assert image[OUTSIDE.slices].max() <= 24, ordinal
            if quality == "lossless":
                with open_exam(video, mask=False) as whole:
                    deep = np.zeros_like(inside)
                    deep[90:110, 40:60] = True
                    assert np.array_equal(whole.image(7)[deep], result.image(7)[deep])
    assert [text.is_inside for text in report.texts] == [False, True]
    assert report.frames_searched == FRAMES
    assert video.read_bytes() == before
    assert sorted(path.name for path in out.parent.iterdir()) == ["case01.deidentified.json", "case01.mp4"]


def test_the_report_keeps_the_name_to_itself_unless_asked(
    video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "case01.mp4"
    words = ["deidentify", str(video), "--out", str(out), "--check", "4"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "DOE" not in said.out
    assert "DOE" not in (tmp_path / "case01.deidentified.json").read_text()
    assert "no text in 4 of them" in said.out
    assert main([*words[:3], str(tmp_path / "case02.mp4"), "--show-text", "--json", "--check", "4"]) == 0
    assert json.loads(capsys.readouterr().out)["texts"][0]["text"] == "DOE JANE"


def test_what_the_container_says_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "in.mp4"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "Jane Doe"
        container.metadata["comment"] = "ward 4"
        stream = container.add_stream("libx264", rate=25)
        stream.width = stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        sound = container.add_stream("aac", rate=44100)
        for image in named_frames(OUTSIDE):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
        quiet = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        quiet.sample_rate = 44100
        container.mux(sound.encode(quiet))
        container.mux(sound.encode(None))
    with open_exam(path) as exam:
        report = deidentify(exam, tmp_path / "out.mp4", Options(checks=2))
    assert {"title", "comment"} <= set(report.removed.metadata)
    assert report.removed.other_streams == ("audio",)
    content = (tmp_path / "out.mp4").read_bytes()
    assert b"Jane" not in content
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert [stream.type for stream in container.streams] == ["video"]


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_folders_and_zips_get_plain_names_and_keep_their_numbers(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "doe"
    folder.mkdir()
    for number, image in enumerate(named_frames(IN_THE_WINDOW, OUTSIDE)):
        write_image(folder / f"DoeJane_{3 * number}.png", image)
    source = folder if form == "folder" else zipped(folder, tmp_path / "doe.zip")
    out = tmp_path / ("case01" if form == "folder" else "case01.zip")
    with open_exam(source) as exam:
        report = deidentify(exam, out, Options(checks=4))
    names = sorted(p.name for p in out.iterdir()) if form == "folder" else sorted(zipfile.ZipFile(out).namelist())
    assert names == [f"frame_{3 * number:07d}.png" for number in range(FRAMES)]
    assert report.renamed == FRAMES
    with open_exam(out, mask=False) as result:
        assert not result.image(5)[IN_THE_WINDOW.slices].any()


def test_text_that_is_left_means_that_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_video(tmp_path / "e.mp4", named_frames(OUTSIDE, late=29), options={"crf": "8"})
    out = tmp_path / "out"
    out.mkdir()
    assert main(["deidentify", str(path), "--out", str(out / "case.mp4"), "--check", str(FRAMES)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "frame 29 would still show text at" in error
    assert "--cover" in error
    assert list(out.iterdir()) == []
    remedy = error.rpartition(" ")[2]
    assert (
        main(["deidentify", str(path), "--out", str(out / "case.mp4"), "--check", str(FRAMES), "--cover", remedy]) == 0
    )


def test_text_in_the_window_can_be_kept(video: Path, tmp_path: Path) -> None:
    with open_exam(video) as exam:
        deidentify(exam, tmp_path / "o.mp4", Options(keep_inner_text=True, checks=2))
    with open_exam(tmp_path / "o.mp4", mask=False) as result:
        assert result.image(3)[IN_THE_WINDOW.slices][:, :, 0].mean() > 150
        assert result.image(3)[OUTSIDE.slices].max() <= 24


def test_the_clock_goes_with_the_exam_and_begins_at_zero(video: Path, tmp_path: Path) -> None:
    words = ["deidentify", str(video), "--out", str(tmp_path / "o.mp4"), "--exam-fps", "2", "--exam-start", "10:00:00"]
    assert main([*words, "--check", "2"]) == 0
    with open_exam(tmp_path / "o.mp4") as exam:
        assert (exam.clock.source, exam.clock.seconds(0), exam.clock.seconds(39)) == ("sidecar", 0, Fraction(39, 2))
    words[3] = str(tmp_path / "p.mp4")
    assert main([*words, "--check", "2", "--keep-times"]) == 0
    with open_exam(tmp_path / "p.mp4") as exam:
        assert exam.clock.seconds(0) == 36000


def test_damaged_frames_become_black_and_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    for number, image in enumerate(named_frames()):
        write_image(folder / f"{number:03d}.png", image)
    (folder / "007.png").write_bytes((folder / "007.png").read_bytes()[:60])
    with open_exam(folder) as exam:
        report = deidentify(exam, tmp_path / "out", Options(checks=2))
    assert report.undecodable == (7,)
    with open_exam(tmp_path / "out", mask=False) as result:
        assert len(result) == FRAMES
        assert not result.image(7).any()


@pytest.mark.parametrize(
    ("out", "message"),
    [("there.mp4", "is there already"), ("case.avi", "ends in .mp4"), ("case", "ends in .mp4")],
)
def test_wrong_names_are_refused_before_any_work(
    out: str, message: str, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.mp4").write_text("mine")
    monkeypatch.setattr(run, "text_reader", lambda: pytest.fail("worked"))
    with open_exam(video) as exam, pytest.raises(UsageError, match=message):
        deidentify(exam, tmp_path / out)
    assert (tmp_path / "there.mp4").read_text() == "mine"


def test_what_should_be_black_and_is_not_is_refused(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Blackout, "__call__", lambda self, frame, pixel_format: frame.reformat(format=pixel_format))
    with open_exam(video) as exam, pytest.raises(LegibleError, match="is not black where it should be"):
        deidentify(exam, tmp_path / "out" / "o.mp4", Options(checks=2))
    assert list((tmp_path / "out").iterdir()) == []


def test_a_shared_colour_is_kept_only_if_all_its_pixels_are() -> None:
    keep = np.ones((4, 5), np.bool_)
    keep[1, 2] = False
    assert all_kept(keep, 2, 2).tolist() == [[True, False, True], [True, True, True]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [("2021-03-14", "date"), ("14 Mar 21", "date"), ("03:12:45", "time"), ("ID 4711-0815", "number"), ("Doe", "words")],
)
def test_kinds_of_text(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_single_signs_and_doubtful_lines_are_no_text() -> None:
    box = Box(0, 0, 9, 9)
    assert not is_legible(TextLine("88", 0.94, box))
    assert not is_legible(TextLine("DOE", 0.5, box))
    assert is_legible(TextLine("DOE", 0.9, box))
    assert is_legible(TextLine("王芳", 0.9, box))


def test_what_stands_at_one_place_is_one_text() -> None:
    window = np.zeros((50, 50), np.bool_)
    window[20:] = True
    lines = [[TextLine("10:00:01", 0.9, Box(2, 2, 20, 8))], [TextLine("10:00:09", 0.9, Box(3, 2, 21, 8))]]
    (found,) = gather(lines, window)
    assert (found.kind, found.frames, found.is_inside, found.box) == ("time", 2, False, Box(2, 2, 22, 8))


def test_names_of_frames_say_nothing() -> None:
    assert plain_names(("Doe_8.png", "Doe_12.png")) == ["frame_0000008", "frame_0000012"]
    assert plain_names(("20210314120000.png", "20210314120001.png")) == ["frame_0000000", "frame_0000001"]
    assert plain_names(("b.png", "a.png")) == ["frame_0000000", "frame_0000001"]
