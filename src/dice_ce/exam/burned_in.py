"""The exam clock that the recorder burned into the image.

A few whole frames tell where a running time stands. All frames are then decoded once for that small box, which gives
the moments at which its image changes; of these runs only some are read (`ticks.py`). At the end, frames that played no
part are read and compared: that is the stated residual, and a clock that does not fit is refused.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dice_ce.errors import ClockError
from dice_ce.exam.clock import ExamClock, hms, question_rate
from dice_ce.exam.field import FULL, dilated
from dice_ce.exam.ocr import Box, TextReader, text_reader
from dice_ce.exam.shown_time import DAY, ShownTime, parse_shown
from dice_ce.exam.ticks import Plan, Timeline, fit_timeline, place_jumps, times_of_frames
from dice_ce.files import cache_root, write_atomically
from dice_ce.types import Bools, Doubles, Floats, Image, Ints, Progress

if TYPE_CHECKING:
    from dice_ce.exam.open import Exam

FORMAT = 3
"""Raise when clocks would come out differently; stored ones are then made anew."""
LOOKS = 6
"""Whole frames in which the clock is looked for."""
FIRST_READS, MOST_READS, BATCH = 24, 600, 48
CHECKS, CHECK_ROUNDS = 32, 3
LEAST_READABLE, LEAST_FITTING = 0.6, 0.97
"""Share of readings that must be a time, and of check readings that must fit within a second."""
CHANGE = 0.25
"""Part of the text's contrast by which the fine detail of a spot must change to count as another digit. In simulated
exports (benchmarks/burned_in.py) ticks change it by 0.30 or more, and anything else by 0.21 at most; over the moving
bowel itself, 0.25 is right in 97 % of frames."""
LONG_JUMP = 3600
"""Seconds without an image from which a person is told of it."""
LEAST_STILL = 0.6
"""Share of the end of the line, where the seconds stand, behind which nothing may move."""
PLAYBACK_SLACK = 2.0
LUMA = np.array([0.299, 0.587, 0.114], np.float32)
UNIT = Fraction(1, 1000)
NO_CLOCK = "give the times with --clock FILE, --exam-fps or --exam-duration instead"


@dataclass(frozen=True)
class BurnedInClock:
    """What was found, small enough to be kept."""

    box: Box
    milliseconds: tuple[int, ...]
    """Exam time of every frame."""
    frames_read: int
    """Frames on which the text reader was used, the check included."""
    misread: int
    """Readings that contradict the others, or are no time."""
    checked: int
    """Frames that were read only to check the result."""
    within_a_second: int
    largest: float
    """Largest difference to a checked frame, in seconds."""

    def describe(self) -> str:
        """Say how it was made, for people and for the provenance."""
        return (
            f"time burned into the image at {','.join(map(str, self.box))}; {self.frames_read} of "
            f"{len(self.milliseconds)} frames read ({self.misread} misread), {self.within_a_second} of {self.checked} "
            f"check frames within 1 s, largest difference {self.largest:.1f} s"
        )


def read_clock(exam: Exam, *, start: Fraction | None = None, progress: Progress | None = None) -> ExamClock:
    """Read the exam's clock from its images, or refuse; `start` shifts it so that the first frame has that time."""
    found = _stored(exam)
    if found is None:
        found = find_clock(exam, progress)
        _store(exam, found)
    ticks = np.array(found.milliseconds, np.int64)
    if start is not None:
        ticks = ticks - ticks[0] + round(start / UNIT)
    return ExamClock(ticks, UNIT, "burned-in", found.describe(), _doubts(exam, ticks))


def _doubts(exam: Exam, ticks: Ints) -> tuple[str, ...]:
    length = int(ticks[-1] - ticks[0]) * UNIT
    played = (exam.frames.pts - exam.frames.pts[0]) * float(exam.frames.time_base)
    doubts = question_rate("the burned-in time", len(exam) / length) if length else ()
    steps = np.diff(ticks)
    if len(steps) and (longest := int(steps.max())) * UNIT >= LONG_JUMP:
        frame = int(steps.argmax()) + 1
        doubts += (
            f"the burned-in time jumps by {hms(longest * UNIT)} before frame {frame}: is that a pause, or misread?",
        )
    if len(exam) > 1 and float(np.abs((ticks - ticks[0]) / 1000 - played).max()) <= PLAYBACK_SLACK:
        doubts += ("the burned-in time runs exactly like the video: is it the player's, rather than the recorder's?",)
    return doubts


# --- where the clock stands ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sighting:
    """A running time that was seen in the image."""

    box: Box
    first: ShownTime
    last: ShownTime

    def describe(self) -> str:
        """Name the two times."""
        return f"{hms(self.first.seconds)} to {hms(self.last.seconds)}"


def spot_clock(exam: Exam, looks: int = LOOKS) -> Sighting | None:
    """Look for a running time on a few whole frames; None if there is none. Cheap: a second or so for each."""
    reader = text_reader()
    size = exam.image_size
    seen = [
        [(line.box, time) for line in reader.find(image) if (time := parse_shown(line.text)) is not None]
        for image in spread_images(exam, looks)
    ]
    best: Sighting | None = None
    most = 1
    for box, _ in (item for frame in seen for item in frame):
        times = [item for frame in seen if (item := _at_place(frame, box)) is not None]
        is_running = len({time.seconds for _, time in times}) > max(1, len(times) // 2)
        if len(times) > most and 2 * len(times) >= len(seen) and is_running:
            most = len(times)
            around = box
            for other, _ in times:
                around = around.joined(other)
            best = Sighting(around.padded(around.height // 2 + 4, 3, size), times[0][1], times[-1][1])
    return best


def _at_place(frame: Sequence[tuple[Box, ShownTime]], box: Box) -> tuple[Box, ShownTime] | None:
    return next((item for item in frame if item[0].meets(box)), None)


def spread_images(exam: Exam, count: int) -> list[Image]:
    """Decode whole images, text and all, from all over the exam; at keyframes where that is cheap."""
    from dice_ce.exam.open import Renderer

    whole = dataclasses.replace(exam, crop=None, field=FULL, covers=())
    ordinals = spread_ordinals(exam, count)
    render = Renderer(whole, None, "area")
    with closing(exam.source.open(threads=1)) as cursor:
        return [render(i, frame) for wanted in ordinals for i, frame in cursor.read(wanted, wanted + 1)]


def spread_ordinals(exam: Exam, count: int) -> list[int]:
    """Ordinals from all over the exam; keyframes where there are enough of them, since those are cheap to reach."""
    from dice_ce.exam.open import FIELD_REACH

    keys = exam.source.keyframes
    if len(keys) >= 2 * count:
        return sorted({int(keys[i]) for i in np.linspace(0, len(keys) - 1, count).round().astype(int)})
    reach = len(exam) if len(keys) > 1 else min(len(exam), 4 * FIELD_REACH)
    return sorted({int(i) for i in np.linspace(0, reach - 1, count).round()})


# --- reading it -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of frames whose clock looks the same."""

    starts: tuple[int, ...]
    """First frame of each."""
    first: tuple[bytes, ...]
    """The clock in the first frame of each, compressed."""
    last: tuple[bytes, ...]
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return len(self.starts)

    def image(self, run: int, *, is_first: bool = False) -> Image:
        """The clock as a run shows it; late in the run, digits have settled after compression."""
        packed = self.first[run] if is_first else self.last[run]
        return np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self.shape)


class _DoesNotFit(ClockError):  # noqa: N818  caught here
    """The readings do not agree with each other, or with the check."""


def find_clock(exam: Exam, progress: Progress | None = None) -> BurnedInClock:
    """Find, read and check the clock, or say why there is none."""
    sighting = spot_clock(exam)
    if sighting is None:
        raise ClockError(f"{exam.source.path}: no running time is burned into the image; {NO_CLOCK}")
    failure: ClockError | None = None
    # Ticks are seen best where nothing moves behind the text. If that hides some, all of the text is watched, with the
    # noise behind it; in the end every frame counts as another time, which takes the most readings.
    for still in (
        _still_pixels(exam, sighting.box),
        np.ones((sighting.box.height, sighting.box.width), np.bool_),
        None,
    ):
        try:
            return _try_clock(exam, sighting.box, still, progress)
        except _DoesNotFit as error:
            failure = failure or error
    assert failure is not None
    raise ClockError(str(failure))


def _try_clock(exam: Exam, box: Box, still: Bools | None, progress: Progress | None) -> BurnedInClock:
    name = str(exam.source.path)
    runs = collect_runs(exam, box, still, progress)
    reading = _Reading(runs, text_reader(), name)
    timeline = reading.read_timeline()
    checked, within, largest = 0, 0, 0.0
    for attempt in range(CHECK_ROUNDS):
        differences = reading.check(timeline, seed=attempt)
        checked, within = len(differences), int((differences <= 1).sum())
        largest = float(differences.max()) if checked else 0.0
        if within >= LEAST_FITTING * checked and checked:
            break
        timeline = reading.read_timeline()  # the check readings have become known, and what is around them is read
    if not checked or within < LEAST_FITTING * checked:
        fit = f"{within} of {checked} check frames are within 1 s"
        raise _DoesNotFit(f"{name}: the burned-in time does not fit: {fit}; {NO_CLOCK}")
    times = times_of_frames(timeline, runs.starts, np.arange(len(exam)))
    return BurnedInClock(
        box=box,
        milliseconds=tuple(np.floor(times * 1000).astype(int).tolist()),
        frames_read=reading.count + LOOKS,
        misread=reading.misread(timeline),
        checked=checked,
        within_a_second=within,
        largest=round(largest, 2),
    )


def collect_runs(exam: Exam, box: Box, still: Bools | None, progress: Progress | None = None) -> Runs:
    """Decode the box in every frame, and note where its image changes at these pixels; None begins a run each time."""
    from dice_ce.exam.open import Crop, Renderer

    render = Renderer(dataclasses.replace(exam, crop=Crop(*box), field=FULL, covers=()), None, "area")
    starts: list[int] = []
    first: list[bytes] = []
    last: list[bytes] = []
    before: Image | None = None
    with closing(exam.source.open()) as cursor:
        for ordinal, frame in cursor.read(0, len(exam)):
            image = render(ordinal, frame)
            if before is None or still is None or _has_changed(before, image, still):
                if before is not None:
                    last.append(zlib.compress(before.tobytes(), 1))
                starts.append(ordinal)
                first.append(zlib.compress(image.tobytes(), 1))
            before = image
            if progress is not None:
                progress(ordinal + 1, len(exam))
    if before is None:
        raise ClockError(f"{exam.source.path}: not one frame can be decoded; copy or export it again")
    last.append(zlib.compress(before.tobytes(), 1))
    return Runs((0, *starts[1:]), tuple(first), tuple(last), (box.height, box.width, 3))


def _still_pixels(exam: Exam, box: Box) -> Bools:
    """Pixels of the box behind which nothing moves: those outside the field of view, or all if hardly any are."""
    left, top = (exam.crop.x, exam.crop.y) if exam.crop else (0, 0)
    window = np.zeros((exam.image_size[1], exam.image_size[0]), np.bool_)
    window[top : top + exam.height, left : left + exam.width] = exam.field.mask(exam.width, exam.height)
    still = ~dilated(window, 2)[box.slices]
    seconds = still[:, 2 * box.width // 3 :]  # they stand at the end of the line
    return still if seconds.mean() > LEAST_STILL else np.ones_like(still)


def _has_changed(before: Image, image: Image, still: Bools) -> bool:
    """Whether the fine detail of a spot as large as a stroke has changed, measured by the contrast of the text.

    Digits are fine strokes and the bowel behind them is smooth, so that its moving hardly counts.
    """
    low, high = np.percentile(image.max(axis=2)[::2, ::2], (20, 99))
    contrast = max(30.0, float(high - low))
    change = np.abs(_fine_detail(image) - _fine_detail(before)) * still
    spot = change[:-1, :-1] + change[1:, :-1] + change[:-1, 1:] + change[1:, 1:]
    return float(spot.max()) / 4 > CHANGE * contrast


def _fine_detail(image: Image) -> Floats:
    """Brightness less its mean over 3 x 3 pixels."""
    grey = image @ LUMA
    wide = np.pad(grey, 1, mode="edge")
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    return np.asarray(grey - (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9, np.float32)


class _Reading:
    """Readings of one clock, as they come in."""

    def __init__(self, runs: Runs, reader: TextReader, name: str) -> None:
        self._runs, self._reader, self._name = runs, reader, name
        self._read: dict[int, ShownTime | None] = {}
        self._plan = Plan.start(len(runs))
        self.count = 0

    def read_timeline(self) -> Timeline:
        """Read until the readings tell the time of everything between them."""
        if not self._read:
            self._take(self._plan.first_runs(FIRST_READS))
            self._refuse_what_is_no_clock()
        while True:
            timeline = fit_timeline({run: shown for run, shown in self._read.items() if shown is not None})
            if timeline is None or len(timeline.runs) < LEAST_READABLE * len(self._read):
                raise _DoesNotFit(
                    f"{self._name}: the burned-in time cannot be followed: "
                    f"{0 if timeline is None else len(timeline.runs)} of {len(self._read)} readings agree; {NO_CLOCK}"
                )
            wanted = self._plan.next_runs(timeline, self._read)
            if not wanted or len(self._read) >= MOST_READS:
                return place_jumps(timeline, self._read)
            self._take(wanted[:: max(1, len(wanted) // BATCH)])

    def _take(self, runs: Sequence[int]) -> None:
        texts = self._reader.read([self._runs.image(run) for run in runs])
        self.count += len(runs)
        self._read |= {run: parse_shown(text) for run, (text, _) in zip(runs, texts, strict=True)}

    def _refuse_what_is_no_clock(self) -> None:
        shown = [one for one in self._read.values() if one is not None]
        if len(shown) < LEAST_READABLE * len(self._read):
            raise ClockError(
                f"{self._name}: the text burned into the image is no time: {len(shown)} of {len(self._read)} readings "
                f"look like one; {NO_CLOCK}"
            )
        if len({one.seconds for one in shown}) < 3:
            raise ClockError(f"{self._name}: the time burned into the image stands still; {NO_CLOCK}")

    def check(self, timeline: Timeline, seed: int) -> Doubles:
        """Read other frames, the first of their runs, and return how far each is from the timeline, in seconds."""
        starts = np.array(self._runs.starts)
        unread = np.setdiff1d(np.arange(len(starts)), np.array(sorted(self._read)))
        if not len(unread):  # all were read, so compare what was read
            unread = np.arange(len(starts))
        chosen = np.random.default_rng([seed, len(starts)]).choice(unread, min(CHECKS, len(unread)), replace=False)
        runs = sorted(int(run) for run in chosen)
        times = times_of_frames(timeline, self._runs.starts, starts)
        away = self._read_again(runs, times)
        # A digit may be misread here, too. If the timeline is wrong, it is so next to that frame as well.
        doubtful = [run for run, difference in away.items() if difference > 1]
        beside = {near for run in doubtful for near in (run - 1, run + 1) if 0 <= near < len(starts)}
        near_by = away | self._read_again(sorted(beside - set(away)), times)
        for run in doubtful:
            away[run] = float(np.median([near_by[near] for near in (run - 1, run, run + 1) if near in near_by]))
        return np.array(list(away.values()), np.float64)

    def _read_again(self, runs: Sequence[int], times: Doubles) -> dict[int, float]:
        """Read the first frames of runs, and return how far each that can be read is from its time, in seconds."""
        texts = self._reader.read([self._runs.image(run, is_first=True) for run in runs])
        self.count += len(runs)
        shown = {run: time for run, (text, _) in zip(runs, texts, strict=True) if (time := parse_shown(text))}
        self._read |= {run: time for run, time in shown.items() if run not in self._read}
        return {run: _difference(float(times[run]), time) for run, time in shown.items()}

    def misread(self, timeline: Timeline) -> int:
        """Count readings that are no time, or another one than the timeline says."""
        times = timeline.at(np.arange(len(self._runs)))
        shown = [(run, time) for run, time in self._read.items() if time is not None]
        right = sum(_difference(float(times[run]), time) <= 1 for run, time in shown)
        return len(self._read) - right


def _difference(time: float, shown: ShownTime) -> float:
    """How far a time is from the second that is shown; the day counts where it is shown."""
    days = (0,) if shown.has_day else range(-1, 4)
    away = min((time - shown.seconds - day * DAY for day in days), key=lambda value: abs(value - 0.5))
    return max(0.0, -away, away - 1.0)


# --- keeping it -----------------------------------------------------------------------------------------------------


def _place(exam: Exam) -> Path:
    return cache_root() / "clocks" / f"{exam.digest[:32]}-{FORMAT}.json"


def _stored(exam: Exam) -> BurnedInClock | None:
    try:
        facts = json.loads(_place(exam).read_text())
        clock = BurnedInClock(**{**facts, "box": Box(*facts["box"]), "milliseconds": tuple(facts["milliseconds"])})
        ticks: npt.NDArray[np.int64] = np.array(clock.milliseconds, np.int64)
        is_whole = len(ticks) == len(exam) and bool(np.all(np.diff(ticks) >= 0)) and int(ticks[0]) >= 0
        return clock if is_whole else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):  # missing, or changed on the disk
        return None


def _store(exam: Exam, clock: BurnedInClock) -> None:
    write_atomically(_place(exam), json.dumps(asdict(clock)).encode())
