"""Which selected frame answers which finding, in one exam (points 0 to 2 and 6 of the protocol).

Times are whole milliseconds, so that an inclusive window of 300 s ends at the same place everywhere. Selections are
sorted by (time, frame) and findings by (time, id), so that comparing rows breaks ties as the protocol asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dice_ce.datasets.tables import Finding
from dice_ce.errors import InputError
from dice_ce.exam.clock import hms
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Bools, Ints

MATCH_WINDOW = 300_000
"""Milliseconds, inclusive, on each side of a finding. Also the longest stretch that counts as one false finding."""
CONFLICT_WINDOW = 20_000
"""Milliseconds, inclusive, within which two labels contradict each other."""
NO_FRAME = -1
"""Frame number where none is known."""
NOTHING = -1
"""Row of the answer to a finding that was missed; unit of a frame that is in none."""


def milliseconds(seconds: Fraction | float) -> int:
    """Round a time to the resolution of the protocol."""
    return round(seconds * 1000)


@dataclass(frozen=True)
class Selection:
    """One selected frame and the label it was given."""

    time: int
    """Milliseconds of exam time."""
    frame: int
    label: int


@dataclass(frozen=True, eq=False)
class Selections:
    """The frames a method selected in one exam, sorted, none twice."""

    times: Ints
    frames: Ints
    labels: Ints

    @classmethod
    def of(cls, chosen: Iterable[Selection]) -> Selections:
        """Sort them by time, then frame (point 0)."""
        rows = sorted(chosen, key=lambda row: (row.time, row.frame))
        for one, two in pairwise(rows):
            if (one.time, one.frame) == (two.time, two.frame):
                name = "a frame" if one.frame == NO_FRAME else f"frame {one.frame}"
                raise InputError(f"{name} at {hms(one.time / 1000)} is selected twice; remove one")
        columns = [(row.time, row.frame, row.label) for row in rows]
        return cls(*np.array(columns, np.int64).reshape(-1, 3).T)

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, eq=False)
class Targets:
    """The findings of one exam's report, sorted by time, then id."""

    times: Ints
    labels: Ints

    @classmethod
    def of(cls, findings: Iterable[Finding], taxonomy: Taxonomy, *, count_normal: bool = False) -> Targets:
        """Take the findings of a report; "normal" is no lesion and only counts if asked for."""
        rows = sorted(
            (milliseconds(finding.seconds), finding.id, taxonomy.index(finding.label)) for finding in findings
        )
        columns = [(time, label) for time, _, label in rows if count_normal or label != taxonomy.normal]
        return cls(*np.array(columns, np.int64).reshape(-1, 2).T)

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What became of every finding and of every selected frame of one exam."""

    answers: Ints
    """Per finding: row of the frame that was retained for it, or NOTHING."""
    covered: Bools
    """Per finding: whether any valid frame is in its window."""
    covered_correct: Bools
    """Per finding: whether any valid frame in its window has its label."""
    conflicted: Bools
    """Per frame: another label is too near for both to be believed."""
    inside: Bools
    """Per frame: it is in the window of at least one finding."""
    false_units: Ints
    """Per frame: number of the false finding it belongs to, or NOTHING."""


def match_selections(targets: Targets, selections: Selections, normal: int) -> Verdicts:
    """Apply the protocol to one exam."""
    conflicted = find_conflicts(selections)
    first, last = _windows(targets, selections)
    inside = np.zeros(len(selections), np.bool_)
    covered, covered_correct = np.zeros(len(targets), np.bool_), np.zeros(len(targets), np.bool_)
    for i, window in enumerate(map(slice, first, last)):
        inside[window] = True
        labels = selections.labels[window][~conflicted[window]]
        covered[i] = len(labels) > 0
        covered_correct[i] = (labels == targets.labels[i]).any()
    wrong = (selections.labels != normal) & (conflicted | ~inside)
    return Verdicts(
        answers=match(targets, selections, ~conflicted),
        covered=covered,
        covered_correct=covered_correct,
        conflicted=conflicted,
        inside=inside,
        false_units=group_into_units(selections, wrong),
    )


def find_conflicts(selections: Selections) -> Bools:
    """Mark both frames of every pair within 20 s whose labels differ; "normal" is a label, too (point 1).

    In order of time, a frame has a contradicting one in reach exactly if the label changes within its reach.
    """
    times = selections.times
    first = np.searchsorted(times, times - CONFLICT_WINDOW, side="left")
    last = np.searchsorted(times, times + CONFLICT_WINDOW, side="right") - 1
    changes = np.cumsum(np.diff(selections.labels, prepend=selections.labels[:1]) != 0)
    return np.asarray(changes[first] != changes[last], np.bool_)


def match(targets: Targets, selections: Selections, valid: Bools) -> Ints:
    """Give each finding at most one valid frame, the nearest pairs first, whatever their labels (point 2)."""
    first, last = _windows(targets, selections)
    pairs = sorted(
        (abs(int(selections.times[row] - targets.times[i])), i, row)
        for i in range(len(targets))
        for row in range(first[i], last[i])
        if valid[row]
    )
    answers = np.full(len(targets), NOTHING, np.int64)
    used: set[int] = set()
    for _, i, row in pairs:
        if answers[i] == NOTHING and row not in used:
            answers[i] = row
            used.add(row)
    return answers


def count_close(targets: Targets) -> tuple[int, int | None]:
    """Count the findings that lie in the window of another one; also return the least distance between two."""
    apart = np.diff(targets.times)
    close = apart <= MATCH_WINDOW
    crowded = np.append(close, False) | np.insert(close, 0, False)
    return int(crowded.sum()) if len(apart) else 0, int(apart.min()) if len(apart) else None


def group_into_units(selections: Selections, wrong: Bools) -> Ints:
    """Join wrong frames of one label into false findings; each lasts 300 s from its first frame (point 6)."""
    units = np.full(len(selections), NOTHING, np.int64)
    latest: dict[int, tuple[int, int]] = {}
    """When the latest unit of a label began, and its number."""
    count = 0
    for row in np.flatnonzero(wrong):
        time, label = int(selections.times[row]), int(selections.labels[row])
        if label not in latest or time - latest[label][0] > MATCH_WINDOW:
            latest[label] = time, count
            count += 1
        units[row] = latest[label][1]
    return units


def _windows(targets: Targets, selections: Selections) -> tuple[Ints, Ints]:
    """Find the rows of the frames around each finding: from the first up to, not including, the last."""
    first = np.searchsorted(selections.times, targets.times - MATCH_WINDOW, side="left")
    last = np.searchsorted(selections.times, targets.times + MATCH_WINDOW, side="right")
    return first, last
