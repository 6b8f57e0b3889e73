"""The clock in the image: read by the real reader on one small exam, by a pretended one where only the rules matter."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dice_ce.cli import main
from dice_ce.errors import ClockError, UsageError
from dice_ce.exam import burned_in
from dice_ce.exam.burned_in import find_clock, spot_clock
from dice_ce.exam.clock import ClockOptions
from dice_ce.exam.ocr import Box, TextLine
from dice_ce.exam.open import open_exam
from dice_ce.exam.shown_time import parse_shown
from tests.material import moving_dots, numbered_video

pytest.importorskip("rapidocr")
pytest.importorskip("PIL")
from dice_ce.lab.simulator.overlays import STYLES, Line, Style, adaptive, steady, with_gaps, write_overlaid

SIZE = 192


def style(*lines: Line) -> Style:
    return dataclasses.replace(
        STYLES["pillcam-like"], canvas=(SIZE + 80, SIZE), lines=lines, height=16, has_logo=False, field="round"
    )


def write_exam(path: Path, seconds: np.ndarray, *lines: Line) -> Path:
    return write_overlaid(path, moving_dots(40, SIZE), style(*lines), seconds)


CLOCK = Line("{time}", "top right")


@pytest.fixture(scope="module")
def exam_path(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    seconds = with_gaps(adaptive(150, 4, 3500), 4, gaps=1)
    folder = tmp_path_factory.mktemp("burned-in")
    return write_exam(folder / "exam.mp4", seconds, CLOCK, Line("DOE JANE", "bottom left")), seconds


def test_the_time_in_the_image_becomes_the_exam_clock(
    exam_path: tuple[Path, np.ndarray], cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, seconds = exam_path
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["burned_in_clock"].startswith("00:58:20 to 0")
    with open_exam(path, clock="burned-in") as exam:
        times = np.array([float(exam.clock.seconds(i)) for i in range(len(exam))])
        assert (np.abs(times - seconds) < 1).mean() >= 0.99
        assert (exam.clock.source, exam.clock.is_exam_time) == ("burned-in", True)
        assert "check frames within 1 s, largest difference" in exam.clock.detail
        assert exam.clock.unit == Fraction(1, 1000)
    # It is kept: nothing is read again.
    monkeypatch.setattr(burned_in, "text_reader", lambda: pytest.fail("read again"))
    with open_exam(path, clock="burned-in", exam_start=0) as again:
        assert again.clock.seconds(0) == 0
        assert abs(float(again.clock.seconds(149)) - (seconds[-1] - seconds[0])) < 1
    assert [file.parent.name for file in cache.rglob("*.json")] == ["clocks"]


class Pretender:
    """Reads what it is told: a function from the number of a reading to text."""

    def __init__(self, texts: list[str], lines: list[str]) -> None:
        self._texts, self._lines, self._looks = texts, lines, 0

    def find(self, image: np.ndarray) -> list[TextLine]:
        self._looks += 1
        text = self._lines[(self._looks - 1) % len(self._lines)]
        return [TextLine(text, 0.99, Box(SIZE, 2, 70, 16))] if text else []

    def read(self, images: list[np.ndarray]) -> list[tuple[str, float]]:
        return [(self._texts[i % len(self._texts)], 0.99) for i in range(len(images))]


RUNNING = ["00:00:01", "00:10:00", "00:20:00", "00:30:00", "00:40:00", "00:50:00"]


@pytest.mark.parametrize(
    ("lines", "texts", "message"),
    [
        ([""], [""], "no running time is burned into the image"),
        (["2021-03-14", "DOE JANE"], [""], "no running time is burned into the image"),
        (["03:12:45"], [""], "no running time is burned into the image"),
        (RUNNING, ["000123", "000999", "12345"], "is no time: 0 of"),
        (RUNNING, ["03:12:45"], "stands still"),
        (RUNNING, [f"{i * 7 % 24:02d}:{i * 31 % 60:02d}:{i * 17 % 60:02d}" for i in range(97)], "cannot be followed"),
    ],
    ids=["no text", "names", "still", "counter", "stands still", "no order"],
)
def test_what_is_no_running_time_is_refused_in_one_line(
    lines: list[str], texts: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_exam(tmp_path / "e.mp4", steady(80, 2), CLOCK)
    pretender = Pretender(texts, lines)
    monkeypatch.setattr(burned_in, "text_reader", lambda: pretender)
    with open_exam(path) as exam, pytest.raises(ClockError, match=message) as caught:
        find_clock(exam)
    assert "\n" not in str(caught.value)
    assert "--clock FILE" in str(caught.value)


@pytest.mark.parametrize(
    "write_time",
    [
        lambda second: "03:12:45",
        lambda second: f"{int(second * 7):06d}",
        lambda second: f"00:{int(second) // 60:02d}:{int(second) % 60:02d}:{int(second * 25) % 25:02d}",
    ],
    ids=["stands still", "counter", "timecode"],
)
def test_the_real_reader_takes_nothing_else_for_a_running_time(
    write_time: Callable[[float], str], tmp_path: Path
) -> None:
    other = dataclasses.replace(style(CLOCK, Line("DOE JANE", "bottom left")), write_time=write_time)
    path = write_overlaid(tmp_path / "e.mp4", moving_dots(24, SIZE), other, steady(24, 0.3))
    with open_exam(path) as exam:
        assert spot_clock(exam, 3) is None  # as many as inspect looks at


@pytest.mark.parametrize("text", ["Day 2 00:10:00", "Day 2 23:59:59"])
def test_a_whole_day_off_does_not_pass_the_check_where_the_day_is_shown(text: str) -> None:
    shown = parse_shown(text)
    assert shown is not None
    assert burned_in._difference(shown.seconds + 0.4, shown) == 0
    assert burned_in._difference(shown.seconds + 0.4 - 86400, shown) > 86000
    without_day = parse_shown(text[6:])
    assert without_day is not None
    assert burned_in._difference(shown.seconds + 0.4, without_day) == 0


def test_a_jump_of_hours_such_as_a_false_midnight_is_told(tmp_path: Path) -> None:
    """Without a day in the image, a whole day off begins with such a jump."""
    with open_exam(numbered_video(tmp_path / "e.mp4", 6)) as exam:
        ticks = np.array([72005, 72006, 86407, 86408, 86409, 86410]) * 1000
        assert "jumps by 04:00:01 before frame 2" in " ".join(burned_in._doubts(exam, ticks))
        assert "jumps" not in " ".join(burned_in._doubts(exam, (np.arange(6) + 86398) * 1000))


def test_runs_begin_where_the_text_changes(tmp_path: Path) -> None:
    seconds = adaptive(120, 1)
    path = write_exam(tmp_path / "e.mp4", seconds, CLOCK)
    with open_exam(path) as exam:
        box = Box(SIZE, 0, 80, 24)
        strip = burned_in.cut_out(exam, box)
        runs = burned_in.find_runs(strip, burned_in._still_pixels(exam, box))
    second = np.floor(seconds)
    assert len(strip) == 120
    assert list(runs.starts) == [0, *(np.flatnonzero(np.diff(second)) + 1).tolist()]


def test_the_clock_in_the_image_and_a_clock_file_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contradict"):
        ClockOptions(sidecar=tmp_path / "c.csv", burned_in=True)
    assert ClockOptions.read(clock="burned-in", exam_start=0).burned_in
    assert ClockOptions.read(clock="./burned-in").sidecar == Path("burned-in")


def test_a_damaged_cache_is_read_anew(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = numbered_video(tmp_path / "e.mp4", 5)
    with open_exam(path) as exam:
        burned_in._place(exam).parent.mkdir(parents=True)
        for content in ("", "{}", '{"box": [0,0,1,1], "milliseconds": [3, 2, 1, 0, 0]}', "[]", "null"):
            burned_in._place(exam).write_text(content)
            assert burned_in._stored(exam) is None


def test_without_the_reader_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    path = numbered_video(tmp_path / "e.mp4", 5)
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    burned_in.text_reader.cache_clear()
    assert main(["inspect", str(path), "--clock", "burned-in"]) == 1
    assert "[hospital]" in capsys.readouterr().err


def test_small_digits_are_told_apart_after_compression(tmp_path: Path) -> None:
    """01:15 was taken for 01:16 by every third reading."""
    small = STYLES["small-like"]
    seconds = steady(12, 1, 4500)
    path = write_overlaid(tmp_path / "e.mp4", [np.zeros((256, 256, 3), np.uint8)], small, seconds)
    with open_exam(path) as exam:
        strip = burned_in.cut_out(exam, Box(178, 0, 78, 19))
    texts = [text for text, _ in burned_in.text_reader().read(list(strip))]
    misread = [text for text, second in zip(texts, seconds.tolist(), strict=True) if text != small.write_time(second)]
    assert misread in ([], ["01:1b:07"])  # which is no time, and does no harm
