"""The exam clock: when, in the patient, a frame was taken. Playback time is something else.

An 8-12 h exam plays in minutes, so everything downstream asks this clock and nothing else. Times stay exact
(integers times a rational unit) until they are shown, and where no exam time is known the clock says `playback`.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, Self

import numpy as np

from dice_ce.errors import ClockError, UsageError
from dice_ce.exam.frames import FrameTable
from dice_ce.types import Ints

ClockSource = Literal["sidecar", "burned-in", "options", "file names", "DICOM", "container", "playback"]

MAX_SECONDS = 10**7
"""About 115 days: no capsule lasts that long, so a larger number is a wrong unit or a wrong column."""
SLOWEST_RATE, FASTEST_RATE = Fraction(1, 20), Fraction(40)
"""Frames per exam second beyond which a clock is questioned. Capsules take 0.5 to 35; exports may be thinned out."""

Number = str | int | float | Fraction
"""What people write for a rate or a time."""
BURNED_IN = "burned-in"
"""What is written instead of a clock file to have the time read from the images."""


@dataclass(frozen=True)
class ClockOptions:
    """What the user says about time; everything may be left out."""

    sidecar: Path | None = None
    """CSV with a row per frame: `frame,seconds` or `frame,HH:MM:SS`."""
    exam_fps: Fraction | None = None
    """Frames the capsule took per exam second."""
    exam_duration: Fraction | None = None
    """Exam seconds from the first frame to the end of the last."""
    exam_start: Fraction | None = None
    """Exam second of the first frame (of frame number 0, where file names carry numbers)."""
    container_is_exam_time: bool = False
    """The timestamps in the file are exam time already."""
    burned_in: bool = False
    """Read the time that the recorder burned into the images."""

    def __post_init__(self) -> None:
        for option, value in (("--exam-fps", self.exam_fps), ("--exam-duration", self.exam_duration)):
            if value is not None and value <= 0:
                raise UsageError(f"{option} must be positive, got {float(value):g}")
        for option, value in (("--exam-duration", self.exam_duration), ("--exam-start", self.exam_start)):
            if value is not None and value > MAX_SECONDS:
                raise UsageError(f"{option}: {float(value):g} seconds are longer than any exam")
        if self.exam_start is not None and self.exam_start < 0:
            raise UsageError(f"--exam-start must not be negative, got {float(self.exam_start):g}")
        if self.exam_fps is not None and self.exam_duration is not None:
            raise UsageError("--exam-fps and --exam-duration contradict each other: give one")
        if self.burned_in and self.sidecar is not None:
            raise UsageError("--clock burned-in and a clock file contradict each other: give one")
        has_rate = self.exam_fps is not None or self.exam_duration is not None or self.container_is_exam_time
        if self.exam_start is not None and not has_rate and not self.burned_in:
            raise UsageError(
                "--exam-start needs --exam-fps, --exam-duration, --container-clock or --clock burned-in beside it"
            )

    @property
    def said_about_rate(self) -> str:
        """What the user said about how fast the exam runs, which does not count where a clock file is found."""
        if self.exam_fps is not None:
            return f"--exam-fps {float(self.exam_fps):g}"
        if self.exam_duration is not None:
            return f"--exam-duration {hms(self.exam_duration)}"
        return "--container-clock" if self.container_is_exam_time else ""

    @classmethod
    def read(
        cls,
        *,
        clock: str | Path | None = None,
        exam_fps: Number | None = None,
        exam_duration: Number | None = None,
        exam_start: Number | None = None,
    ) -> Self:
        """Take rates and times as people write them: `exam_fps="1/3"`, `exam_duration="8:30:00"` or 30600.

        `clock` is a clock file, or "burned-in"; a file of that name is given as `./burned-in`.
        """
        is_burned_in = clock == BURNED_IN
        return cls(
            sidecar=None if clock is None or is_burned_in else Path(clock),
            burned_in=is_burned_in,
            exam_fps=_read_number("exam_fps", exam_fps, parse_rate),
            exam_duration=_read_number("exam_duration", exam_duration, parse_time),
            exam_start=_read_number("exam_start", exam_start, parse_time),
        )


def _read_number(name: str, value: Number | None, read: Callable[[str], Fraction]) -> Fraction | None:
    if value is None:
        return None
    try:
        # A float goes through its decimals, because 0.7 means seven tenths and not the nearest binary fraction.
        return read(value) if isinstance(value, str) else parse_rate(str(value))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


@dataclass(frozen=True)
class Recorded:
    """What an export itself says about when its frames were taken."""

    times: tuple[Fraction, ...] | None = None
    """Exam seconds of every frame; None if the export does not say."""
    detail: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ExamClock:
    """Exam time of every frame of an exam, by ordinal."""

    ticks: Ints
    unit: Fraction
    """Seconds per tick."""
    source: ClockSource
    detail: str
    """How the times came about, for people and for the provenance."""
    warnings: tuple[str, ...] = ()
    """What looks wrong about these times without being impossible."""

    @property
    def is_exam_time(self) -> bool:
        """Whether these are times in the patient rather than in the player."""
        return self.source != "playback"

    def seconds(self, ordinal: int) -> Fraction:
        """Exact time of a frame."""
        return int(self.ticks[ordinal]) * self.unit

    def show(self, ordinal: int) -> str:
        """Time of a frame for people, marked when it is only playback time."""
        return hms(self.seconds(ordinal)) + ("" if self.is_exam_time else " (playback)")


def hms(seconds: Fraction | float) -> str:
    """Write seconds as HH:MM:SS, rounded down."""
    whole = math.floor(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def parse_time(text: str) -> Fraction:
    """Read seconds (`12.5`) or `HH:MM:SS[.fff]` exactly; ValueError if it is neither."""
    clock = re.fullmatch(r"\s*(\d+):([0-5]?\d):([0-5]?\d(?:\.\d+)?)\s*", text)
    if clock:
        hours, minutes, seconds = clock.groups()
        value = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)
    elif re.fullmatch(r"\s*\d+(\.\d*)?\s*", text):
        value = Fraction(text.strip().rstrip("."))
    elif short := re.fullmatch(r"\s*(\d+):([0-5]?\d)\s*", text):
        first, second = map(int, short.groups())
        raise ValueError(
            f"'{text}' may be hours or minutes: write {first}:{second:02d}:00 for {first} h {second} min, "
            f"or {hms(60 * first + second)} for {first} min {second} s"
        )
    else:
        raise ValueError(f"'{text}' is neither seconds nor HH:MM:SS")
    if value > MAX_SECONDS:
        raise ValueError(f"'{text}' is longer than any exam")
    return value


def parse_rate(text: str) -> Fraction:
    """Read a number (`2`, `0.7`, `1/3`) exactly; ValueError if it is none."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"'{text}' is no number such as 2, 0.7 or 1/3") from error


def resolve_clock(
    frames: FrameTable,
    last_duration: int,
    names: Sequence[str] | None,
    options: ClockOptions,
    exam: str,
    recorded: Recorded | None = None,
) -> ExamClock:
    """Find the exam time of every frame: sidecar, options, file names, the DICOM object, container, else playback.

    `last_duration` is how long the last frame is shown, in units of the time base.
    """
    start = options.exam_start or Fraction(0)
    playback = [Fraction(int(pts - frames.pts[0])) * frames.time_base for pts in frames.pts]
    if options.sidecar is not None:
        times, detail = read_sidecar(options.sidecar, len(frames), names)
        unused = f" (not from {options.said_about_rate})" if options.said_about_rate else ""
        return _clock(times, "sidecar", detail + unused, exam, names)
    if options.exam_fps is not None:
        numbers = [frame_number(name) for name in names] if names else []
        rate = f"{float(options.exam_fps):g} frames per exam second"
        if numbers and None not in numbers:
            times = [start + Fraction(number or 0) / options.exam_fps for number in numbers]
            clock = _clock(times, "file names", f"numbers in file names at {rate}", exam, names)
        else:
            times = [start + i / options.exam_fps for i in range(len(frames))]
            clock = _clock(times, "options", rate, exam, names)
        return replace(clock, warnings=question_rate(options.said_about_rate, options.exam_fps))
    shown = playback[-1] + last_duration * frames.time_base
    if options.exam_duration is not None:
        times = [start + t * options.exam_duration / shown for t in playback]
        clock = _clock(times, "options", f"playback stretched over {hms(options.exam_duration)}", exam, names)
        doubts = question_rate(options.said_about_rate, len(frames) / options.exam_duration)
        return replace(clock, warnings=doubts)
    if recorded is not None and recorded.times is not None:
        return _clock([start + time for time in recorded.times], "DICOM", recorded.detail, exam, names)
    if options.container_is_exam_time:
        if names is not None:
            raise ClockError(f"{exam}: images carry no timestamps; give --exam-fps or --clock instead")
        times = [start + t for t in playback]
        clock = _clock(times, "container", "timestamps of the file, as the user said", exam, names)
        return replace(clock, warnings=question_rate(options.said_about_rate, len(frames) / shown))
    return _clock(playback, "playback", "playback time; the exam time is not known", exam, names)


def question_rate(said: str, rate: Fraction) -> tuple[str, ...]:
    """Ask back where what the user said means that the capsule took absurdly few or many frames."""
    if SLOWEST_RATE <= rate <= FASTEST_RATE:
        return ()
    return (f"{float(rate):.3g} frames per exam second, where capsules take 0.5 to 35: is {said} right?",)


def _clock(
    times: list[Fraction], source: ClockSource, detail: str, exam: str, names: Sequence[str] | None
) -> ExamClock:
    for i, (before, now) in enumerate(itertools.pairwise(times), start=1):
        if now < before:
            name = f" ({names[i]})" if names else ""
            raise ClockError(
                f"{exam}: the exam clock ({source}) runs backwards at frame {i}{name}: {hms(now)} comes after "
                f"{hms(before)}; correct that frame's time (past midnight, go on with 24:00:00)"
            )
    if max(times) > 2**62 / Fraction(10**9):
        raise ClockError(
            f"{exam}: the exam clock ({source}) reaches {float(max(times)):g} seconds, longer than any exam; "
            "correct the clock, or the numbers in the names of the frames"
        )
    unit = Fraction(1, math.lcm(*{time.denominator for time in times}))
    if max(times) / unit >= 2**62:  # sidecars with absurdly many decimals
        unit = Fraction(1, 10**9)
    return ExamClock(np.array([round(time / unit) for time in times], np.int64), unit, source, detail)


def frame_number(name: str) -> int | None:
    """Return the last number in a file name: 100 in `frame_000100.PNG`, 7 in `<video id>_7.jpg`."""
    found = re.search(r"(\d+)\D*$", Path(name).stem)
    return int(found.group(1)) if found else None


def read_sidecar(path: Path, frame_count: int, names: Sequence[str] | None) -> tuple[list[Fraction], str]:
    """Read `frame,time` rows; frames between two rows are interpolated, the first and last frame must be there."""
    ordinals = {name: i for i, name in enumerate(names or ())}
    anchors: dict[int, Fraction] = {}
    for line, cells in _sidecar_rows(path):
        where = f"{path}, line {line}"
        ordinal = _ordinal(cells[0], ordinals, where)
        if not 0 <= ordinal < frame_count:
            raise ClockError(f"{where}: frame {ordinal} does not exist; the exam has frames 0 to {frame_count - 1}")
        if ordinal in anchors:
            raise ClockError(f"{where}: frame {ordinal} stands there twice; remove one row")
        try:
            anchors[ordinal] = parse_time(cells[1])
        except ValueError as error:
            raise ClockError(f"{where}: {error}; write for instance 754.5 or 00:12:34.5") from error
    for needed in (0, frame_count - 1):
        if needed not in anchors:
            raise ClockError(f"{path}: no time for frame {needed}; give at least the first and the last frame")
    detail = f"{len(anchors)} times from {path.name}"
    if len(anchors) < frame_count:
        detail += f", {frame_count - len(anchors)} interpolated"
    return _interpolate(anchors, frame_count), detail


def _sidecar_rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ClockError(f"{path}: the clock file cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise ClockError(f"{path}: the clock file is not UTF-8 text; save it as CSV in UTF-8") from error
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    try:
        rows = [
            (number, [cell.strip() for cell in cells])
            for number, cells in enumerate(csv.reader(text.splitlines(), delimiter=delimiter), start=1)
            if any(cell.strip() for cell in cells)
        ]
    except csv.Error as error:
        raise ClockError(f"{path}: the clock file is not a table ({error}); save it as CSV in UTF-8") from error
    if rows and rows[0][1][0].casefold() == "frame":
        rows = rows[1:]
    if not rows:
        raise ClockError(f"{path}: the clock file has no rows; expected 'frame,seconds' or 'frame,HH:MM:SS'")
    for number, cells in rows:
        if len(cells) != 2:
            raise ClockError(f"{path}, line {number}: expected two columns (frame, time), got {len(cells)}")
    return rows


def _ordinal(cell: str, ordinals: Mapping[str, int], where: str) -> int:
    if cell in ordinals:
        return ordinals[cell]
    if re.fullmatch(r"\d+", cell):
        return int(cell)
    raise ClockError(f"{where}: '{cell}' is neither a frame ordinal nor the name of a frame; count frames from 0")


def _interpolate(anchors: Mapping[int, Fraction], frame_count: int) -> list[Fraction]:
    times = [Fraction(0)] * frame_count
    known = sorted(anchors)
    for left, right in itertools.pairwise(known):
        step = (anchors[right] - anchors[left]) / (right - left)
        for i in range(left, right):
            times[i] = anchors[left] + step * (i - left)
    times[known[-1]] = anchors[known[-1]]
    return times
