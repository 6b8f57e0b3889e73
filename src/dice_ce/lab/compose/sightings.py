"""What is seen when: the events of a real exam, fitted to an exam of another number of frames.

An event keeps its place (its middle stays at the same share of the exam, moved only as far as its neighbours force it),
its order, and its comings-back. Its length is kept within limits: it is seen for a few frames at least, and neither one
event nor all together may fill the exam, as blood does in some.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dice_ce.datasets.galar import organ_of
from dice_ce.datasets.tables import Event, Timeline
from dice_ce.datasets.words import label_of
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12

FEWEST = 4
"""Frames for which even the shortest event is seen."""
LONGEST_SHARE = 0.03
"""Longest event, as a share of the exam."""
LESION_SHARE = 0.2
"""Most that all events take together, as a share of the exam."""
APART = 2
"""Frames at least between two events."""

IMPORTANCE = {
    "ulcer": 5.0,
    "eminence lesion": 5.0,
    "polyp": 5.0,
    "parasite": 5.0,
    "angioectasia": 4.0,
    "erosion": 3.0,
    "hematocele": 2.0,
    "lymphangiectasia": 2.0,
    "lymphoid follicular hyperplasia": 2.0,
    "mucosal erythema": 2.0,
    "intestinal fluid accumulation": 2.0,
}
"""How much a reader cares: decides what an event with several lesions is called, and what is reported."""

Kind = Literal["timeline", "extra", "distractor"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Sighting:
    """Something other than normal mucosa, seen in a stretch of frames."""

    label: str
    """Empty for a distractor."""
    first: int
    frames: int
    kind: Kind = "timeline"

    @property
    def stop(self) -> int:
        """First frame after it."""
        return self.first + self.frames


def lesion_of(event: Event) -> str | None:
    """Name the most important lesion of an event; none if it only tells the organ."""
    labels = {label for word in event.words if (label := label_of(word)) and label != NORMAL}
    return min(labels, key=lambda label: (-IMPORTANCE[label], VIDEOCAP_12.index(label)), default=None)


def lesions_of(timelines: Iterable[Timeline]) -> frozenset[str]:
    """Name all lesions that occur in timelines."""
    return frozenset(label for timeline in timelines for event in timeline.events if (label := lesion_of(event)))


def fit_sightings(timeline: Timeline, frames: int) -> tuple[Sighting, ...]:
    """Fit the lesion events of a timeline to an exam of so many frames."""
    spans: dict[str, list[Span]] = defaultdict(list)
    for event in timeline.events:
        if label := lesion_of(event):
            spans[label].append((event.first, event.last))
    if not spans:
        return ()
    scale = frames / timeline.frames
    # What is nearer than a frame of the composed exam cannot be told apart in it.
    joined = _joined(spans, max(1.0, 1 / scale), most=int(LESION_SHARE * frames / 2 / FEWEST))
    longest = max(FEWEST, round(LONGEST_SHARE * frames))
    lengths = _lengths([seen * scale for _, _, _, seen in joined], longest, LESION_SHARE * frames)
    middles = [(first + last + 1) / 2 * scale for _, first, last, _ in joined]
    order = sorted(range(len(joined)), key=lambda i: (middles[i], joined[i]))
    starts = _placed([middles[i] for i in order], [lengths[i] for i in order], frames)
    return tuple(Sighting(joined[i][0], start, lengths[i]) for i, start in zip(order, starts, strict=True))


def _joined(spans: dict[str, list[Span]], gap: float, most: int) -> list[tuple[str, int, int, int]]:
    """Join events of one lesion across gaps no longer than this, and if they are still too many, across the next ones.

    Gives lesion, first, last, and in how many frames it was seen.
    """
    gaps = sorted(
        (after[0] - before[1] - 1, label, after)
        for label, events in spans.items()
        for before, after in itertools.pairwise(sorted(events))
    )
    closing = sum(length <= gap for length, _, _ in gaps)
    too_many = sum(map(len, spans.values())) - most
    closed = {(label, after) for _, label, after in gaps[: max(closing, too_many)]}
    joined: list[tuple[str, int, int, int]] = []
    for label, events in sorted(spans.items()):
        for first, last in sorted(events):
            if (label, (first, last)) in closed:
                _, start, _, seen = joined.pop()
                joined.append((label, start, last, seen + last - first + 1))
            else:
                joined.append((label, first, last, last - first + 1))
    return joined


def _lengths(natural: Sequence[float], longest: int, budget: float) -> list[int]:
    """Shorten all events alike until they fit the budget, each within its limits."""
    wanted = np.asarray(natural)

    def shortened(factor: float) -> list[int]:
        return [int(length) for length in np.rint(wanted * factor).clip(FEWEST, longest)]

    if sum(shortened(1.0)) <= budget:
        return shortened(1.0)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(shortened(middle)) <= budget else (low, middle)
    return shortened(low)


def _placed(middles: Sequence[float], lengths: Sequence[int], frames: int) -> list[int]:
    """Place events in order around their middles, moving them as little as possible so that none touch.

    With the room of all earlier events taken off, starts need only not decrease: the nearest such series is found by
    pooling neighbours that are out of order (isotonic regression).
    """
    before = np.concatenate([[0], np.cumsum([length + APART for length in lengths])])
    pools: list[tuple[float, int]] = []
    for middle, length, taken in zip(middles, lengths, before, strict=False):
        mean, count = middle - length / 2 - float(taken), 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    room = frames - int(before[-1])
    starts = [min(max(round(mean), APART), room) for mean, count in pools for _ in range(count)]
    return [start + int(taken) for start, taken in zip(starts, before, strict=False)]


def inserted(sightings: Sequence[Sighting], new: Sighting, frames: int, rng: np.random.Generator) -> list[Sighting]:
    """Add one more at a random place where nothing else is seen; as they were, if there is no room."""
    edges = [0, *(edge for one in sightings for edge in (one.first, one.stop)), frames]
    places = [
        (first + APART, count)
        for first, stop in zip(edges[::2], edges[1::2], strict=True)
        if (count := stop - first - new.frames - 2 * APART + 1) > 0
    ]
    if not places:
        return list(sightings)
    counts = np.array([count for _, count in places])
    gap = int(rng.choice(len(places), p=counts / counts.sum()))
    first = places[gap][0] + int(rng.integers(counts[gap]))
    return sorted([*sightings, replace(new, first=first)], key=lambda one: one.first)


def organs(timeline: Timeline, frames: int) -> tuple[str, ...]:
    """Name the organ at every frame: the last one entered, for labelled events have gaps."""
    known = [(event.first, organ) for event in timeline.events if (organ := organ_of(event))]
    starts = [first for first, _ in known]
    scale = timeline.frames / frames
    places = (bisect_right(starts, frame * scale) - 1 for frame in range(frames))
    return tuple(known[place][1] if place >= 0 else "" for place in places)
