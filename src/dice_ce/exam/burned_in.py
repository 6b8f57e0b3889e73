"""The exam clock that the recorder burned into the image.

A few whole frames tell where a running time stands. All frames are then decoded once for that small box, which gives
the moments at which its image changes; of these runs only some are read (`ticks.py`). That tells what the digits of the
seconds look like in this exam, so that every frame tells its second (`seconds.py`), and what was missed or misread is
put right. At the end, frames that played no part are read and compared: that is the stated residual, and a clock that
does not fit is refused.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from dice_ce.errors import ClockError
from dice_ce.exam.clock import ExamClock, hms, question_rate
from dice_ce.exam.field import FULL, dilated
from dice_ce.exam.ocr import Box, TextReader, text_reader
from dice_ce.exam.seconds import MINUTE, read_seconds
from dice_ce.exam.shown_time import DAY, ShownTime, parse_shown
from dice_ce.exam.ticks import Plan, Timeline, fit_timeline, neighbours, place_jumps, times_of_frames
from dice_ce.files import cache_root, write_atomically
from dice_ce.types import Bools, Doubles, Floats, Image, Ints, Progress

if TYPE_CHECKING:
    from dice_ce.exam.open import Exam

FORMAT = 4
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
class Strip(Sequence[Image]):
    """The clock in every frame, and nothing else of it; compressed, since exams are long."""

    packed: tuple[bytes, ...]
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return len(self.packed)

    @overload
    def __getitem__(self, frame: int) -> Image: ...
    @overload
    def __getitem__(self, frame: slice) -> list[Image]: ...
    def __getitem__(self, frame: int | slice) -> Image | list[Image]:
        if isinstance(frame, slice):
            return [self[i] for i in range(*frame.indices(len(self)))]
        return np.frombuffer(zlib.decompress(self.packed[frame]), np.uint8).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of frames whose clock shows the same."""

    starts: Ints
    """First frame of each."""
    numbers: Ints
    """Counted one by one; or in seconds from the first, where it is known how many lie between."""
    seconds: Ints | None = None
    """The second within its minute that each shows, where it is known."""

    def last_frames(self, count: int) -> Ints:
        """Last frame of each, in an exam of that many."""
        return np.append(self.starts[1:], count) - 1


class _DoesNotFit(ClockError):  # noqa: N818  caught here
    """The readings do not agree with each other, or with the check."""


def find_clock(exam: Exam, progress: Progress | None = None) -> BurnedInClock:
    """Find, read and check the clock, or say why there is none."""
    sighting = spot_clock(exam)
    if sighting is None:
        raise ClockError(f"{exam.source.path}: no running time is burned into the image; {NO_CLOCK}")
    strip = cut_out(exam, sighting.box, progress)
    failure: ClockError | None = None
    # Ticks are seen best where nothing moves behind the text. If that hides some, all of the text is watched, with the
    # noise behind it; in the end every frame counts as another time, which takes the most readings.
    for still in (_still_pixels(exam, sighting.box), np.ones(strip.shape[:2], np.bool_), None):
        try:
            return _try_clock(str(exam.source.path), sighting.box, strip, still)
        except _DoesNotFit as error:
            failure = failure or error
    assert failure is not None
    raise ClockError(str(failure))


def _try_clock(name: str, box: Box, strip: Strip, still: Bools | None) -> BurnedInClock:
    reading = _Reading(strip, find_runs(strip, still), text_reader(), name)
    timeline = reading.read_timeline()
    if timeline.step < MINUTE / 2:  # seconds within a minute tell nothing where minutes lie between frames
        seconds = read_seconds(strip, np.floor(reading.times(timeline)).astype(np.int64))
        if seconds is not None and reading.confirms(seconds):
            reading = reading.by_seconds(seconds)
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
    return BurnedInClock(
        box=box,
        milliseconds=tuple(np.floor(reading.times(timeline) * 1000).astype(int).tolist()),
        frames_read=reading.count + LOOKS,
        misread=reading.misread(timeline),
        checked=checked,
        within_a_second=within,
        largest=round(largest, 2),
    )


def cut_out(exam: Exam, box: Box, progress: Progress | None = None) -> Strip:
    """Decode the box in every frame."""
    from dice_ce.exam.open import Crop, Renderer

    render = Renderer(dataclasses.replace(exam, crop=Crop(*box), field=FULL, covers=()), None, "area")
    packed: list[bytes] = []
    with closing(exam.source.open()) as cursor:
        for ordinal, frame in cursor.read(0, len(exam)):
            image = zlib.compress(render(ordinal, frame).tobytes(), 1)
            packed += [image] * (ordinal + 1 - len(packed))  # what cannot be decoded shows what comes next
            if progress is not None:
                progress(ordinal + 1, len(exam))
    if not packed:
        raise ClockError(f"{exam.source.path}: not one frame can be decoded; copy or export it again")
    packed += packed[-1:] * (len(exam) - len(packed))
    return Strip(tuple(packed), (box.height, box.width, 3))


def find_runs(strip: Strip, still: Bools | None) -> Runs:
    """Note where the image of the clock changes at these pixels; None begins a run with every frame."""
    if still is None:
        starts = np.arange(len(strip))
    else:
        changes = (_has_changed(a, b, still) for a, b in itertools.pairwise(strip))
        starts = np.flatnonzero([True, *changes])
    return Runs(starts, np.arange(len(starts)))


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
    """Readings of one clock, as they come in; runs go by their numbers."""

    def __init__(
        self, strip: Strip, runs: Runs, reader: TextReader, name: str, known: Mapping[int, ShownTime | None] = {}
    ) -> None:
        self._strip, self._runs, self._reader, self._name = strip, runs, reader, name
        self._place = {number: place for place, number in enumerate(runs.numbers.tolist())}
        self._last = runs.last_frames(len(strip))
        self._read = dict(known)
        self._plan = Plan.start(runs.numbers)
        self.count = 0

    def by_seconds(self, seconds: Ints) -> _Reading:
        """Go on with what was read, now that it is known which second within its minute every frame shows."""
        starts = np.flatnonzero(np.diff(seconds, prepend=seconds[0] - 1))
        passed = np.cumsum(np.diff(seconds[starts], prepend=seconds[0]) % MINUTE)
        runs = Runs(starts, passed, seconds[starts])
        frames = [int(self._last[self._place[number]]) for number in self._read]
        numbers = passed[np.searchsorted(starts, frames, side="right") - 1].tolist()
        known = dict(zip(numbers, self._read.values(), strict=True))
        again = _Reading(self._strip, runs, self._reader, self._name, known)
        again.count = self.count
        return again

    def confirms(self, seconds: Ints) -> bool:
        """Whether most readings show these seconds."""
        shown = [(self._last[self._place[number]], time) for number, time in self._read.items() if time is not None]
        agree = sum(abs(_to_second(time.seconds, int(seconds[frame]))) <= 1 for frame, time in shown)
        return agree >= LEAST_READABLE * len(shown)

    def times(self, timeline: Timeline) -> Doubles:
        """Time of every frame."""
        return times_of_frames(timeline, self._runs.starts, self._runs.numbers, np.arange(len(self._strip)))

    def read_timeline(self) -> Timeline:
        """Read until the readings tell the time of everything between them."""
        if not self._read:
            self._take(self._plan.first_runs(FIRST_READS))
            self._refuse_what_is_no_clock()
        while True:
            readings = {number: self._right(number, shown) for number, shown in self._read.items()}
            timeline = fit_timeline(
                {number: shown for number, shown in readings.items() if shown is not None},
                are_seconds=self._runs.seconds is not None,
            )
            if timeline is None or len(timeline.runs) < LEAST_READABLE * len(self._read):
                raise _DoesNotFit(
                    f"{self._name}: the burned-in time cannot be followed: "
                    f"{0 if timeline is None else len(timeline.runs)} of {len(self._read)} readings agree; {NO_CLOCK}"
                )
            wanted = self._plan.next_runs(timeline, readings)
            if not wanted or len(self._read) >= MOST_READS:
                return place_jumps(timeline, readings)
            self._take(wanted[:: max(1, len(wanted) // BATCH)])

    def _right(self, number: int, shown: ShownTime | None) -> ShownTime | None:
        """Put the seconds of a reading right where they are known: of a reading, hours and minutes count then."""
        if shown is None or self._runs.seconds is None:
            return shown
        second = int(self._runs.seconds[self._place[number]])
        away = _to_second(shown.seconds, second)
        # One second off is an image between two ticks, and may be in another minute; more is a misread digit.
        right = shown.seconds + away if abs(away) <= 1 else shown.seconds // MINUTE * MINUTE + second
        return dataclasses.replace(shown, seconds=max(0, right))

    def _take(self, numbers: Sequence[int]) -> None:
        """Read runs late, when digits have settled after compression."""
        self._read |= self._texts(numbers, [int(self._last[self._place[number]]) for number in numbers])

    def _texts(self, numbers: Sequence[int], frames: Sequence[int]) -> dict[int, ShownTime | None]:
        texts = self._reader.read([self._strip[frame] for frame in frames])
        self.count += len(numbers)
        return {number: parse_shown(text) for number, (text, _) in zip(numbers, texts, strict=True)}

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
        numbers = self._runs.numbers
        unread = np.setdiff1d(numbers, np.array(sorted(self._read)))
        if not len(unread):  # all were read, so compare what was read
            unread = numbers
        chosen = np.random.default_rng([seed, len(numbers)]).choice(unread, min(CHECKS, len(unread)), replace=False)
        times = dict(zip(numbers.tolist(), self.times(timeline)[self._runs.starts].tolist(), strict=True))
        away = self._read_again(sorted(chosen.tolist()), times)
        # A digit may be misread here, too. If the timeline is wrong, it is so next to that frame as well.
        doubtful = [number for number, difference in away.items() if difference > 1]
        beside = {number: neighbours(number, numbers) for number in doubtful}
        missing = {near for around in beside.values() for near in around} - set(away)
        near_by = away | self._read_again(sorted(missing), times)
        for number, around in beside.items():
            away[number] = float(np.median([near_by[near] for near in (number, *around) if near in near_by]))
        return np.array(list(away.values()), np.float64)

    def _read_again(self, numbers: Sequence[int], times: Mapping[int, float]) -> dict[int, float]:
        """Read the first frames of runs, and return how far each that can be read is from its time, in seconds."""
        texts = self._texts(numbers, [int(self._runs.starts[self._place[number]]) for number in numbers])
        shown = {number: time for number, time in texts.items() if time is not None}
        self._read = {**shown, **self._read}
        return {number: _difference(times[number], time) for number, time in shown.items()}

    def misread(self, timeline: Timeline) -> int:
        """Count readings that are no time, or another one than the timeline says."""
        shown = [(number, time) for number, time in self._read.items() if time is not None]
        times = timeline.at(np.array([number for number, _ in shown], np.int64))
        right = sum(_difference(float(at), time) <= 1 for at, (_, time) in zip(times, shown, strict=True))
        return len(self._read) - right


def _to_second(seconds: int, second: int) -> int:
    """How far it is to the nearest time that shows this second within its minute."""
    return (second - seconds + MINUTE // 2) % MINUTE - MINUTE // 2


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
