"""From labelled stretches, which may overlap or touch, to a timeline without overlaps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from dice_ce.datasets.tables import Event


def disjoint(events: Iterable[Event], order: Callable[[str], Any] = str) -> tuple[Event, ...]:
    """Cut events where they overlap, join neighbours of the same words, and sort; words are sorted by `order`.

    A frame that lies in several events carries the words of all of them.
    """
    changes: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for event in events:
        for word in event.words:
            changes[event.first].append((word, +1))
            changes[event.last + 1].append((word, -1))
    active = Counter[str]()
    cut: list[Event] = []
    for place, following in pairwise(sorted(changes)):
        for word, change in changes[place]:
            active[word] += change
        words = tuple(sorted((word for word, count in active.items() if count), key=order))
        if not words:
            continue
        if cut and cut[-1].words == words and cut[-1].last == place - 1:
            cut[-1] = Event(cut[-1].first, following - 1, words)
        else:
            cut.append(Event(place, following - 1, words))
    return tuple(cut)


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Find the first and last of every run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def overlaps(events: Sequence[Event]) -> int:
    """Count events that begin before an earlier one has ended."""
    count, reached = 0, -1
    for event in sorted(events, key=lambda event: (event.first, event.last)):
        count += event.first <= reached
        reached = max(reached, event.last)
    return count
