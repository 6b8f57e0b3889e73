"""Which frames and which dropped contexts the report shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dice_ce.method.summary import Frame, Summary, SummaryItem

KEYFRAME_SIZE, THUMBNAIL_SIZE, DROPPED_SIZE = 420, 112, 160
MOST_SUPPORT, MOST_DISSENT = 12, 6
MOST_DROPPED_IMAGES = 60
GROUPS = (
    ("beside_surer", "Beside a surer one", "Convincing, but a surer finding lies next to it."),
    ("beyond_limit", "Beyond the limit", "Convincing by itself, but the list is full of surer ones."),
    ("low_confidence", "Too doubtful", "Not normal, but no label gathered enough evidence."),
    ("normal", "Normal", "Most of the evidence says normal."),
)


@dataclass(frozen=True)
class DroppedGroup:
    """What was dropped for one reason."""

    verdict: str
    name: str
    meaning: str
    contexts: tuple[tuple[SummaryItem, bool], ...]
    """Each with whether its image is shown."""


def spread(frames: Sequence[Frame], most: int, always: Frame | None = None) -> list[Frame]:
    """Choose at most so many frames evenly, with one that is never left out."""
    kept = {*frames} if always is None else {*frames, always}
    ordered = sorted(kept, key=lambda frame: (frame.seconds, frame.frame))
    last = len(ordered) - 1
    if last < most:
        return ordered
    chosen = [round(i * last / (most - 1)) for i in range(most)]
    if always is not None:
        place = ordered.index(always)
        chosen[min(range(most), key=lambda i: abs(chosen[i] - place))] = place
    return [ordered[i] for i in chosen]


def dropped_groups(summary: Summary) -> Iterator[DroppedGroup]:
    """Group what was dropped by reason, the doubtful before the normal."""
    imaged = set(map(id, most_worth_a_look(summary.dropped)[:MOST_DROPPED_IMAGES]))
    for verdict, name, meaning in GROUPS:
        contexts = tuple((item, id(item) in imaged) for item in summary.dropped if item.verdict == verdict)
        if contexts:
            yield DroppedGroup(verdict, name, meaning, contexts)


def most_worth_a_look(dropped: Sequence[SummaryItem]) -> list[SummaryItem]:
    """Order by how near each was to being kept: the least normal first, what was judged normal last."""
    return sorted(dropped, key=lambda item: (item.verdict == "normal", -item.abnormality))
