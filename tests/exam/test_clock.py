from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.errors import ClockError, UsageError
from dice_ce.exam.clock import ClockOptions, frame_number, hms, parse_time, read_sidecar, resolve_clock
from dice_ce.exam.frames import FrameTable

FOUR = FrameTable(np.arange(4), np.array([100, 140, 185, 220]), Fraction(1, 1000))
KVASIR = ("0728084c8da942d9_7.jpg", "0728084c8da942d9_9.jpg", "0728084c8da942d9_10.jpg", "0728084c8da942d9_12.jpg")


def resolve(options: ClockOptions, names: tuple[str, ...] | None = None):  # type: ignore[no-untyped-def]
    return resolve_clock(FOUR, 40, names, options, "exam")


def seconds(clock) -> list[Fraction]:  # type: ignore[no-untyped-def]
    return [clock.seconds(i) for i in range(len(clock.ticks))]


# --- the order in which the clock is looked for


def test_without_any_hint_the_clock_is_playback_and_says_so_wherever_it_is_shown() -> None:
    clock = resolve(ClockOptions())
    assert seconds(clock) == [0, Fraction(40, 1000), Fraction(85, 1000), Fraction(120, 1000)]
    assert (clock.source, clock.is_exam_time) == ("playback", False)
    assert clock.show(3) == "00:00:00 (playback)"


def test_exam_fps_counts_frames_not_playback_time() -> None:
    clock = resolve(ClockOptions(exam_fps=Fraction("0.7"), exam_start=Fraction(60)))
    assert seconds(clock) == [60 + i / Fraction("0.7") for i in range(4)]
    assert clock.source == "options"
    assert clock.is_exam_time


def test_exam_fps_uses_the_numbers_in_file_names_with_their_gaps() -> None:
    clock = resolve(ClockOptions(exam_fps=Fraction(2)), KVASIR)
    assert seconds(clock) == [Fraction(7, 2), Fraction(9, 2), 5, 6]
    assert clock.source == "file names"


def test_exam_fps_counts_frames_where_a_name_has_no_number() -> None:
    clock = resolve(ClockOptions(exam_fps=Fraction(2)), ("a1.jpg", "b.jpg", "c3.jpg", "d4.jpg"))
    assert seconds(clock) == [0, Fraction(1, 2), 1, Fraction(3, 2)]
    assert clock.source == "options"


def test_exam_duration_stretches_the_presentation_timestamps() -> None:
    clock = resolve(ClockOptions(exam_duration=Fraction(160 * 3)))  # shown for 120 ms + 40 ms for the last frame
    assert seconds(clock) == [0, 120, 255, 360]


def test_container_timestamps_count_only_if_the_user_says_so() -> None:
    clock = resolve(ClockOptions(container_is_exam_time=True))
    assert seconds(clock)[3] == Fraction(120, 1000)
    assert clock.source == "container"
    with pytest.raises(ClockError, match="images carry no timestamps; give --exam-fps or --clock instead"):
        resolve(ClockOptions(container_is_exam_time=True), KVASIR)


def test_a_sidecar_wins_and_is_exact(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text("frame,seconds\n0,0.1\n1,0.2\n2,0.30\n3,12345.678\n")
    clock = resolve(ClockOptions(sidecar=sidecar))
    assert seconds(clock) == [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10), Fraction(12345678, 1000)]
    assert clock.source == "sidecar"


def test_a_sidecar_wins_over_options_and_options_over_the_container(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text("0,5\n3,8\n")
    fps = Fraction(2)
    assert resolve(ClockOptions(sidecar=sidecar, exam_fps=fps, container_is_exam_time=True)).source == "sidecar"
    assert resolve(ClockOptions(exam_fps=fps, container_is_exam_time=True)).source == "options"


def test_two_rates_at_once_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="--exam-fps and --exam-duration contradict each other: give one"):
        ClockOptions(exam_fps=Fraction(1), exam_duration=Fraction(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exam_fps": Fraction(0)}, "--exam-fps must be positive"),
        ({"exam_duration": Fraction(-1)}, "--exam-duration must be positive"),
        ({"exam_start": Fraction(5)}, "--exam-start needs"),
        ({"exam_fps": Fraction(1), "exam_start": Fraction(-5)}, "must not be negative"),
    ],
)
def test_clock_options_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ClockOptions(**options)  # type: ignore[arg-type]


# --- what people write


def test_python_takes_rates_and_times_as_people_write_them() -> None:
    assert ClockOptions.read(exam_duration="8:30:00").exam_duration == 30600
    assert ClockOptions.read(exam_duration=30600).exam_duration == 30600
    assert ClockOptions.read(exam_fps=0.7).exam_fps == Fraction(7, 10), "seven tenths, not the nearest binary fraction"
    assert ClockOptions.read(exam_fps="1/3", exam_start="0:12:00") == ClockOptions(
        exam_fps=Fraction(1, 3), exam_start=Fraction(720)
    )
    assert ClockOptions.read(clock="c.csv").sidecar == Path("c.csv")
    assert ClockOptions.read() == ClockOptions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"exam_duration": "8:30"}, r"exam_duration: '8:30' may be hours or minutes: write 8:30:00 for 8 h 30 min"),
        ({"exam_duration": "long"}, "exam_duration: 'long' is neither seconds nor HH:MM:SS"),
        ({"exam_duration": float("nan")}, "exam_duration: 'nan' is no number"),
        ({"exam_duration": 10**9}, "longer than any exam"),
        ({"exam_fps": "1/0"}, "exam_fps: '1/0' is no number such as 2, 0.7 or 1/3"),
        ({"exam_fps": -2}, "--exam-fps must be positive, got -2"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ClockOptions.read(**given)


@pytest.mark.parametrize(
    ("text", "hours", "minutes"), [("8:30", "8:30:00", "00:08:30"), (" 75:5 ", "75:05:00", "01:15:05")]
)
def test_a_time_in_two_parts_is_refused_with_both_readings(text: str, hours: str, minutes: str) -> None:
    with pytest.raises(ValueError, match=f"may be hours or minutes: write {hours} for .* or {minutes} for") as refused:
        parse_time(text)
    assert parse_time(hours) == 60 * parse_time(minutes)
    assert "\n" not in str(refused.value)


def test_a_time_in_two_parts_is_no_time_in_a_clock_file_either(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text("0,0:00\n3,8:30\n")
    with pytest.raises(ClockError, match="line 1: '0:00' may be hours or minutes"):
        read_sidecar(sidecar, 4, None)


@pytest.mark.parametrize(
    ("options", "unused"),
    [
        ({"exam_duration": Fraction(30600)}, " (not from --exam-duration 08:30:00)"),
        ({"exam_fps": Fraction(2)}, " (not from --exam-fps 2)"),
        ({"container_is_exam_time": True}, " (not from --container-clock)"),
        ({}, ""),
    ],
)
def test_a_clock_file_says_what_does_not_count_beside_it(options: dict[str, Any], unused: str, tmp_path: Path) -> None:
    sidecar = tmp_path / "exam.clock.csv"
    sidecar.write_text("0,0\n3,6\n")
    clock = resolve(ClockOptions(sidecar=sidecar, **options))
    assert seconds(clock) == [0, 2, 4, 6]
    assert clock.detail == f"2 times from exam.clock.csv, 2 interpolated{unused}"


# --- rates that no capsule has


@pytest.mark.parametrize(
    ("options", "rate", "said"),
    [
        ({"exam_duration": Fraction(510, 10**4)}, "78.4", "--exam-duration 00:00:00"),
        ({"exam_duration": Fraction(8 * 3600)}, "0.000139", "--exam-duration 08:00:00"),
        ({"exam_fps": Fraction(41)}, "41", "--exam-fps 41"),
        ({"exam_fps": Fraction(1, 21)}, "0.0476", "--exam-fps 0.047619"),
    ],
)
def test_a_rate_that_no_capsule_has_is_questioned(options: dict[str, Any], rate: str, said: str) -> None:
    (warning,) = resolve(ClockOptions(**options)).warnings
    assert warning == f"{rate} frames per exam second, where capsules take 0.5 to 35: is {said} right?"


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 2), Fraction(35), Fraction(40)])
def test_rates_of_capsules_and_of_thinned_exports_are_fine(rate: Fraction) -> None:
    assert resolve(ClockOptions(exam_fps=rate)).warnings == ()
    assert resolve(ClockOptions(exam_duration=4 / rate)).warnings == ()
    assert resolve(ClockOptions(container_is_exam_time=True)).warnings == ()
    assert resolve(ClockOptions()).warnings == (), "playback time is no exam time, so its rate says nothing"


def test_gaps_in_file_names_do_not_slow_the_capsule_down() -> None:
    names = ("f_1.jpg", "f_9000.jpg", "f_40000.jpg", "f_50000.jpg")
    assert resolve(ClockOptions(exam_fps=Fraction(2)), names).warnings == ()


# --- a clock that runs backwards


def test_a_backward_clock_names_the_first_offending_frame(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text("frame,HH:MM:SS\n0,01:00:00\n1,01:00:02\n2,01:00:01\n3,01:00:00\n")
    with pytest.raises(ClockError, match=r"runs backwards at frame 2: 01:00:01 comes after 01:00:02; correct"):
        resolve(ClockOptions(sidecar=sidecar))


def test_a_backward_clock_of_named_frames_names_the_file() -> None:
    mixed = (KVASIR[1], KVASIR[0], KVASIR[2], KVASIR[3])
    with pytest.raises(ClockError, match=r"at frame 1 \(0728084c8da942d9_7.jpg\)"):
        resolve(ClockOptions(exam_fps=Fraction(2)), mixed)


def test_equal_times_are_fine_because_clocks_tick_in_whole_seconds(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text("0,00:00:01\n1,00:00:01\n2,00:00:02\n3,00:00:02\n")
    assert seconds(resolve(ClockOptions(sidecar=sidecar))) == [1, 1, 2, 2]


# --- sidecars


def test_rows_between_two_known_frames_are_interpolated_and_counted(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text("frame,seconds\n0,0\n3,10\n")
    times, detail = read_sidecar(sidecar, 4, None)
    assert times == [0, Fraction(10, 3), Fraction(20, 3), 10]
    assert detail == "2 times from c.csv, 2 interpolated"


@pytest.mark.parametrize("text", ["\ufeffframe;seconds\r\n0;1\r\n3;2\r\n", "frame\ttime\n0\t1\n3\t00:00:02\n\n"])
def test_spreadsheet_flavours_are_read(tmp_path: Path, text: str) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text(text, encoding="utf-8")
    assert read_sidecar(sidecar, 4, None)[0][3] == 2


def test_frames_may_be_named_by_file(tmp_path: Path) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text(f"frame,seconds\n{KVASIR[0]},5\n{KVASIR[3]},8\n")
    assert read_sidecar(sidecar, 4, KVASIR)[0][0] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("frame,seconds\n", "has no rows"),
        ("frame,seconds\n0,0\n9,1\n", "line 3: frame 9 does not exist; the exam has frames 0 to 3"),
        ("frame,seconds\n0,0\n0,1\n", "line 3: frame 0 stands there twice"),
        ("frame,seconds\n0,nan\n", "line 2: 'nan' is neither seconds nor HH:MM:SS"),
        ("frame,seconds\n0,-3\n", "line 2: '-3' is neither seconds"),
        ("frame,seconds\n0,1e99\n", "is neither seconds"),
        ("frame,seconds\n0,99999999999\n", "longer than any exam"),
        ("frame,seconds\n0,00:61:00\n", "is neither seconds"),
        ("frame,seconds\n0,0,7\n", "expected two columns"),
        ("frame,seconds\nx,0\n", "'x' is neither a frame ordinal"),
        ("frame,seconds\n0,0\n", "no time for frame 3; give at least the first and the last frame"),
        ("frame,seconds\n3,0\n", "no time for frame 0"),
    ],
)
def test_a_bad_sidecar_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    sidecar = tmp_path / "c.csv"
    sidecar.write_text(text)
    with pytest.raises(ClockError, match=message):
        read_sidecar(sidecar, 4, None)


def test_a_missing_or_binary_sidecar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClockError, match="cannot be read"):
        read_sidecar(tmp_path / "none.csv", 4, None)
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ClockError, match="not UTF-8"):
        read_sidecar(tmp_path / "b.csv", 4, None)


# --- small parts


@pytest.mark.parametrize(
    ("name", "number"),
    [("frame_000100.PNG", 100), ("0728084c8da942d9_7.jpg", 7), ("12.bmp", 12), ("none.jpg", None), ("a3b.jpg", 3)],
)
def test_the_last_number_of_a_file_name_counts(name: str, number: int | None) -> None:
    assert frame_number(name) == number


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_times_read_back_as_they_are_shown(hours: int, minutes: int, secs: int) -> None:
    total = hours * 3600 + minutes * 60 + secs
    assert parse_time(hms(Fraction(total))) == total


@given(st.lists(st.decimals(0, 10**6, places=6).map(Fraction), min_size=4, max_size=4).map(sorted))
def test_clock_times_are_exact_whatever_they_are(times: list[Fraction]) -> None:
    from dice_ce.exam.clock import _clock

    assert seconds(_clock(times, "sidecar", "", "exam", None)) == times
