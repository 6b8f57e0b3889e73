"""From a few readings of a burned-in clock to the time of every frame.

The image of the clock changes when the clock ticks, so an exam falls into *runs* of frames that show the same text.
Between two readings that are as many seconds apart as there are runs, every run is one second, and nothing more needs
to be read. Elsewhere (gaps, thinned-out exports, noise taken for a tick) the run in the middle is read, and so on.
Where every frame tells its second (`seconds.py`), runs are numbered by seconds instead of being counted: then all tick.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dice_ce.exam.shown_time import DAY, ShownTime
from dice_ce.types import Bools, Doubles, Ints

JUMP_COST = 1.5
"""Readings by which a jump in time must be outdone before it is believed: two that agree are, one never is."""
MIDNIGHT_COST = 3.0
"""The same for a jump past midnight, in addition: a misread hour looks like one, and puts what follows a day off."""
UNEVEN_COST, UNEVEN = 0.05, 5.0
"""For each second off an even pace, up to so many: decides between chains of equally many readings, nothing else."""
TOLERANCE = 0.75
"""Seconds by which a reading may differ from what its neighbours say."""
SLOWER = 3.0
"""How many times longer than usual runs may last before that is a jump; numbered by seconds, they last no longer."""
LONGEST_GAP = DAY / 2
"""Seconds: a longer jump is a step back that was taken for midnight."""
AROUND = 3
"""Runs before and after one by which it is judged how long runs usually are there."""
DAYS = 3
"""Midnights that an exam may pass, plus one."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Times of runs: those that were read and agree with each other, and straight lines between them."""

    runs: Ints
    """Runs that were read."""
    seconds: Doubles
    """What they show, going on past midnight."""
    step: float
    """Seconds from one run to the next, usually."""
    slower: float = SLOWER

    def at(self, run: Ints | Doubles) -> Doubles:
        """Time of runs; beyond the first and the last reading the clock is taken to run on."""
        inside = np.interp(run, self.runs, self.seconds)
        before = np.minimum(0, np.asarray(run) - self.runs[0]) * self.step
        after = np.maximum(0, np.asarray(run) - self.runs[-1]) * self.step
        return np.asarray(np.maximum(0, inside + before + after))


def fit_timeline(readings: Mapping[int, ShownTime], *, are_seconds: bool = False) -> Timeline | None:
    """Take the largest set of readings in which time never runs back and hardly jumps; None if there is none.

    `are_seconds`: the numbers of runs are seconds, so that whatever lasts longer is a jump.
    """
    runs = np.array(sorted(readings), np.int64)
    if len(runs) < 3:
        return None
    shown = [readings[int(run)] for run in runs]
    step = 1.0 if are_seconds else _usual_step(runs, np.array([one.seconds for one in shown], np.float64))
    if step is None:
        return None
    slower = 1.0 if are_seconds else SLOWER
    # Each reading stands for itself on the same day, the next and the one after, unless the day is shown.
    days = np.arange(DAYS)
    place = np.repeat(np.arange(len(runs)), DAYS)
    time = np.concatenate([one.seconds + days * DAY for one in shown]).astype(np.float64)
    allowed = np.concatenate([(days == 0) | (not one.has_day) for one in shown])
    chosen = _best_chain(runs[place], time, allowed, place, step, slower)
    kept, seconds = place[chosen], time[chosen]
    if len(kept) < 3:
        return None
    if not any(shown[place].has_day for place in kept):  # then the first day is the first
        seconds = seconds - DAY * (seconds[0] // DAY)
    is_right = _agrees_with_neighbours(runs[kept], seconds)
    return Timeline(runs[kept][is_right], seconds[is_right], step, slower)


def _agrees_with_neighbours(runs: Ints, seconds: Doubles) -> Bools:
    """Tell for each reading whether it fits between two neighbours that tick once in every run."""
    late = seconds - runs
    before, here, after = late[:-2], late[1:-1], late[2:]
    is_wrong = (np.abs(before - after) < 0.5) & (np.abs(here - before) > TOLERANCE)
    return np.concatenate([[True], ~is_wrong, [True]])


def _usual_step(runs: Ints, seconds: Doubles) -> float | None:
    steps = np.diff(seconds) / np.diff(runs)
    running = steps[(steps > 0) & (steps < 3600)]
    return float(np.median(running)) if len(running) else None


def _best_chain(runs: Ints, time: Doubles, allowed: np.ndarray, place: Ints, step: float, slower: float) -> Ints:
    """Find the chain of nodes with the most readings, less what its jumps cost, by dynamic programming."""
    score = np.where(allowed, 1.0 - 1e-6 * time / DAY, -np.inf)  # of equal chains, that of the earliest day
    came_from = np.full(len(time), -1)
    for j in np.flatnonzero(allowed):
        gap, passed = time[j] - time[:j], runs[j] - runs[:j]
        uneven = np.minimum(np.abs(gap - step * passed), UNEVEN) * UNEVEN_COST
        past_midnight = time[j] // DAY > time[:j] // DAY
        cost = np.where(_is_jump(gap, passed, step, slower), JUMP_COST + MIDNIGHT_COST * past_midnight, uneven)
        usable = allowed[:j] & (place[:j] < place[j]) & (gap >= 0) & (gap < LONGEST_GAP)
        candidates = np.where(usable, score[:j] - cost, -np.inf)
        if len(candidates) and (best := int(np.argmax(candidates))) >= 0 and candidates[best] > 0:
            score[j] += candidates[best]
            came_from[j] = best
    chain = [int(np.argmax(score))]
    while came_from[chain[-1]] >= 0:
        chain.append(int(came_from[chain[-1]]))
    return np.array(chain[::-1], np.int64)


def _is_jump(gap: Doubles, passed: Ints, step: float, slower: float) -> Bools:
    """Whether more time went by than that many runs take."""
    return np.asarray(gap > slower * step * passed + 5)


def place_jumps(timeline: Timeline, readings: Mapping[int, ShownTime | None]) -> Timeline:
    """Say for the runs between two readings around a jump on which side of it they lie.

    A straight line across a jump is wrong everywhere. A reading that was left out as misread still tells the side by
    the digits that are right; what was not read at all is taken to lie before the jump.
    """
    gap, passed = np.diff(timeline.seconds), np.diff(timeline.runs)
    added: dict[int, float] = {}
    for i in np.flatnonzero(_is_jump(gap, passed, timeline.step, timeline.slower) & (passed > 1)):
        left, right = int(timeline.runs[i]), int(timeline.runs[i + 1])
        side = "before"
        for run in range(left + 1, right):
            before = float(timeline.seconds[i]) + timeline.step * (run - left)
            after = float(timeline.seconds[i + 1]) - timeline.step * (right - run)
            shown = readings.get(run)
            if side == "before" and shown is not None and _alike(shown, after) > _alike(shown, before):
                side = "after"
            added[run] = before if side == "before" else after
    if not added:
        return timeline
    runs = np.concatenate([timeline.runs, np.array(list(added), np.int64)])
    seconds = np.concatenate([timeline.seconds, np.array(list(added.values()))])
    order = np.argsort(runs)
    return Timeline(runs[order], np.maximum.accumulate(seconds[order]), timeline.step, timeline.slower)


def _alike(shown: ShownTime, seconds: float) -> int:
    """Count the digits in which a reading is like a time, the last one left out."""
    return sum(a == b for a, b in zip(_digits(shown.seconds), _digits(int(seconds)), strict=True))


def _digits(seconds: int) -> tuple[int, ...]:
    hours, minutes = seconds // 3600 % 24, seconds // 60 % 60
    return hours // 10, hours % 10, minutes // 10, minutes % 10, seconds % 60 // 10


@dataclass
class Plan:
    """Which runs to read next: what is between readings that do not yet tell the time of all runs between them."""

    numbers: Ints
    """The runs that there are."""
    confirmed: set[tuple[int, int]]
    asked: dict[int, tuple[int, int, float]]
    """Runs that were asked for, with the two readings around and the time that they predict."""

    @classmethod
    def start(cls, numbers: Ints) -> Plan:
        """Nothing is known yet."""
        return cls(numbers, set(), {})

    def first_runs(self, count: int) -> list[int]:
        """Spread over the exam, denser at its ends."""
        spread = self.numbers[np.linspace(0, len(self.numbers) - 1, count).round().astype(int)]
        return sorted({*self.numbers[:3].tolist(), *spread.tolist(), *self.numbers[-3:].tolist()})

    def next_runs(self, timeline: Timeline, readings: Mapping[int, ShownTime | None]) -> list[int]:
        """Return what to read next; empty when everything between the readings is accounted for."""
        time_of = dict(zip(timeline.runs.tolist(), timeline.seconds.tolist(), strict=True))
        for run, (left, right, predicted) in self.asked.items():
            if run in time_of and abs(time_of[run] - predicted) <= TOLERANCE:
                self.confirmed |= {(left, run), (run, right)}
        wanted: list[int] = []
        anchors = timeline.runs.tolist()
        for left, right in itertools.pairwise(anchors):
            passed = right - left
            is_ticking = abs(time_of[right] - time_of[left] - passed) < 0.5
            if passed < 2 or is_ticking or (left, right) in self.confirmed:
                continue
            middle = self._nearest_unread(left, right, readings)
            if middle is not None:
                self.asked[middle] = (left, right, float(timeline.at(np.array([middle]))[0]))
                wanted.append(middle)
        kept = set(anchors)
        for run, shown in readings.items():  # what disagrees is looked at once more, by its neighbours
            if shown is not None and run not in kept:
                wanted += [near for near in neighbours(run, self.numbers) if near not in readings]
        return sorted(set(wanted))

    def _nearest_unread(self, left: int, right: int, readings: Mapping[int, ShownTime | None]) -> int | None:
        """The run nearest to the middle of two that was not read yet."""
        first, last = np.searchsorted(self.numbers, [left, right])
        unread = [run for run in self.numbers[first + 1 : last].tolist() if run not in readings]
        return min(unread, key=lambda run: abs(2 * run - left - right), default=None)


def neighbours(run: int, numbers: Ints) -> list[int]:
    """Numbers of the runs before and after one."""
    place = int(np.searchsorted(numbers, run))
    return [int(numbers[near]) for near in (place - 1, place + 1) if 0 <= near < len(numbers)]


def _usual_lengths(length: Ints) -> Doubles:
    """Median number of frames in the runs around each."""
    around = np.pad(length, AROUND, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(around, 2 * AROUND + 1), axis=1))


def times_of_frames(timeline: Timeline, starts: Ints, numbers: Ints, frames: Ints) -> Doubles:
    """Seconds of frames, given at which frame each run begins, and its number; within a run time goes on evenly.

    Where runs are a single frame, as in thinned-out exports, nothing tells which part of its second that frame is: the
    middle is taken.
    """
    time = timeline.at(numbers)
    run = (np.searchsorted(starts, frames, side="right") - 1).clip(0)
    length = np.append(np.diff(starts), max(1, int(np.median(np.diff(starts))) if len(starts) > 1 else 1))
    # A run as long as several of those around it hides ticks, and lasts as many seconds.
    ticks = np.maximum(1, np.round(length / _usual_lengths(length)))
    lasts = np.append(np.diff(time), timeline.step).clip(0, max(timeline.step, 1.0) * ticks)
    share = ((frames - starts[run]) / length[run]).clip(0, 0.999)
    half = 0.5 if float(np.mean(length)) < 1.5 else 0.0
    return np.maximum.accumulate(time[run] + lasts[run] * share + half)
