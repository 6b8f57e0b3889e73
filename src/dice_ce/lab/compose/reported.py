"""What a report would say: nearby events of one lesion are one finding, timed at its best view; the rest go unsaid."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.lab.compose.sightings import FEWEST, IMPORTANCE, Sighting

Series = npt.NDArray[np.float64]

NEARBY = 600.0
"""Exam seconds: events of one lesion no further apart are one finding."""
GLIMPSE = 12.0
"""Exam seconds."""
THRESHOLD = 2.1
"""Score from which a finding is reported; chosen so that an exam has 3.4 on average, as in VideoCAP (136 in 40)."""
MOST = 8
"""Findings of one exam."""


@dataclass(frozen=True)
class Sight:
    """Events of one lesion that lie near each other: what a reader would take for one finding."""

    label: str
    events: tuple[int, ...]
    """Ordinals of its sightings."""


@dataclass(frozen=True)
class Reported:
    """A finding of the report."""

    id: str
    label: str
    frame: int
    seconds: float
    events: tuple[int, ...]
    score: float


def gather(sightings: Sequence[Sighting], seconds: Series) -> tuple[Sight, ...]:
    """Put events of one lesion together while the next begins soon enough; distractors are nobody's finding."""
    groups: dict[str, list[list[int]]] = defaultdict(list)
    for i, one in enumerate(sightings):
        if not one.label:
            continue
        known = groups[one.label]
        if known and seconds[one.first] - seconds[sightings[known[-1][-1]].stop - 1] <= NEARBY:
            known[-1].append(i)
        else:
            known.append([i])
    sights = [Sight(label, tuple(events)) for label, found in groups.items() for events in found]
    return tuple(sorted(sights, key=lambda sight: sight.events))


def best_views(frames: Sequence[LabelledFrame], clear: Series, resting: npt.NDArray[np.bool_]) -> Series:
    """Rate the view of every frame from 0 to 1: clear above all, then a large and central lesion, then at rest."""
    framed = np.array([framing(frame) for frame in frames])
    return np.asarray(clear * (0.6 + 0.3 * framed + 0.1 * resting))


def framing(frame: LabelledFrame) -> float:
    """Rate how large and how central the largest box is; half of it all where nobody drew one."""
    if not frame.boxes:
        return 0.5
    box = max(frame.boxes, key=lambda box: (box.right - box.left) * (box.bottom - box.top))
    size = math.sqrt(max(0.0, (box.right - box.left) * (box.bottom - box.top)))
    away = math.hypot(box.left + box.right - 1, box.top + box.bottom - 1)
    return min(1.0, 2.0 * size) * max(0.0, 1.0 - 0.5 * away)


def _seen(one: Sighting, seconds: Series) -> float:
    """Tell for how many seconds something is seen. What has the fewest frames was shorter than they are: a glimpse."""
    return GLIMPSE if one.frames == FEWEST else float(seconds[one.stop - 1] - seconds[one.first])


def report(
    sightings: Sequence[Sighting], sights: Sequence[Sight], seconds: Series, views: Mapping[int, Series]
) -> tuple[Reported, ...]:
    """Choose what is reported: what is important, long in view or well seen.

    `views` rates the frames of each sighting.
    """
    rated = []
    for sight in sights:
        view, frame = max(
            (
                (float(view), -(sightings[event].first + i))
                for event in sight.events
                for i, view in enumerate(views[event])
            )
        )
        minutes = sum(_seen(sightings[event], seconds) for event in sight.events) / 60
        rated.append((IMPORTANCE[sight.label] * math.log2(1 + minutes) * view, -frame, sight))
    return choose_reported(rated, seconds, THRESHOLD)


def choose_reported(
    rated: Iterable[tuple[float, int, Sight]], seconds: Series, threshold: float
) -> tuple[Reported, ...]:
    """Report what scores high enough, at most so many; the n-th of a kind counts for an n-th.

    Given are score, best frame and sight.
    """
    kinds: Counter[str] = Counter()
    chosen = []
    for score, frame, sight in sorted(rated, key=lambda one: (-one[0], one[1])):
        kinds[sight.label] += 1
        chosen.append((score / kinds[sight.label], frame, sight))
    chosen = sorted((one for one in chosen if one[0] >= threshold), key=lambda one: (-one[0], one[1]))[:MOST]
    return tuple(
        Reported(f"F{number:02d}", sight.label, frame, float(seconds[frame]), sight.events, round(score, 3))
        for number, (score, frame, sight) in enumerate(sorted(chosen, key=lambda one: one[1]), start=1)
    )
