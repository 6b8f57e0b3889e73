"""Which real frames play which stretch of an exam: one source case for each, runs of consecutive frames in order."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.lab.compose.sightings import Sighting
from dice_ce.taxonomy import NORMAL

Reel = tuple[LabelledFrame, ...]
"""Frames of one case in their order."""
Cast = Mapping[str, Mapping[str, Reel]]
"""Source, case."""

DISTRACTOR = ""
LACKING, LACKING_EXAM = 0.5, 0.05
"""Shares of what is seen, and of the exam, that may have to come from another make than the exam's."""
SELDOM = 0.2
"""How often a make that lacks more of what is seen is drawn, so that every split knows normal mucosa of every make."""
NEXT = 2
"""Frames whose numbers differ by no more follow each other: one may have been left out of the pool."""
WINDOW = 8
"""Images that show one lesion, at least where the case has as many."""
STILL_FRAMES = 12
"""Frames of an exam for each such source frame; a longer group of events has more."""
STEP = 8.0
"""Frames of motion after which a lesion that comes back is seen from another source frame."""
FLANK = (20, 60)
"""Frames of normal mucosa beside a lesion that come from the lesion's own case."""
NORMAL_STRETCH = (90, 360)
"""Frames of normal mucosa from one case."""
MOST_SOURCES_PER_FRAME = 3
"""No rush plays more images than this for each frame."""


@dataclass(frozen=True)
class Stretch:
    """Frames of an exam that one source case plays."""

    first: int
    frames: int
    label: str
    """`normal`, a lesion, or empty for a distractor."""
    reel: Reel
    sighting: int | None = None
    """Which one it shows; none for normal mucosa."""

    @property
    def stop(self) -> int:
        """First frame after it."""
        return self.first + self.frames

    @property
    def source(self) -> str:
        """Source of its frames."""
        return self.reel[0].source

    @property
    def case(self) -> str:
        """Source case of its frames."""
        return self.reel[0].case


@dataclass(frozen=True)
class Stock:
    """The frames of one split, by what they show."""

    casts: Mapping[str, Cast]

    def __contains__(self, label: str) -> bool:
        return label in self.casts

    @property
    def makes(self) -> tuple[str, ...]:
        """Sources with normal mucosa: a capsule of such a make can fill an exam."""
        return tuple(sorted(self.casts.get(NORMAL, {})))


def build_stock(frames: Iterable[LabelledFrame]) -> Stock:
    """Sort frames by label, source and case.

    A frame that shows two lesions plays one of them only where no frame shows that one alone.
    """
    pure: dict[str, dict[str, dict[str, list[LabelledFrame]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    mixed: dict[str, dict[str, dict[str, list[LabelledFrame]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for frame in frames:
        for label in frame.labels or (DISTRACTOR,):
            (mixed if len(frame.labels) > 1 else pure)[label][frame.source][frame.case].append(frame)
    return Stock(
        {
            label: {
                source: {case: tuple(sorted(reel, key=_order)) for case, reel in sorted(cases.items())}
                for source, cases in sorted((pure[label] if label in pure else mixed[label]).items())
            }
            for label in sorted({*pure, *mixed})
        }
    )


def _order(frame: LabelledFrame) -> tuple[int, str]:
    return (-1 if frame.number is None else frame.number, frame.path.name)


def follows(before: LabelledFrame, after: LabelledFrame) -> bool:
    """Tell whether two frames of a case were neighbours in time."""
    if before.number is None or after.number is None:
        return False
    return 0 < after.number - before.number <= NEXT


def draw_make(sightings: Sequence[Sighting], frames: int, stock: Stock, rng: np.random.Generator) -> str:
    """Draw the make of the capsule; one that lacks frames of most that is seen comes seldom, and of a lot never."""
    shown = [one for one in sightings if one.label in stock]
    total = sum(one.frames for one in shown)
    lacks = {make: sum(one.frames for one in shown if make not in stock.casts[one.label]) for make in stock.makes}
    weights = [
        1.0 if lacks[make] <= LACKING * total else SELDOM if lacks[make] <= LACKING_EXAM * frames else 0.0
        for make in stock.makes
    ]
    if not any(weights):
        return min(stock.makes, key=lambda make: lacks[make])
    return str(rng.choice(stock.makes, p=np.array(weights) / sum(weights)))


def draw_case(cast: Cast, make: str, rng: np.random.Generator, avoid: str = "") -> Reel:
    """Draw a case of the exam's make, or of another where it has none; large cases come more often."""
    cases = cast.get(make) or {case: reel for source in sorted(cast) for case, reel in cast[source].items()}
    names = [name for name in cases if name != avoid] or list(cases)
    weights = np.sqrt([len(cases[name]) for name in names])
    return cases[str(rng.choice(names, p=weights / weights.sum()))]


def draw_window(reel: Reel, frames: int, rng: np.random.Generator) -> Reel:
    """Choose the neighbouring images that show one lesion: from the start of a run, until there are enough."""
    wanted = max(WINDOW, frames // STILL_FRAMES)
    starts = [i for i in range(len(reel)) if i == 0 or not follows(reel[i - 1], reel[i])]
    start = min(int(rng.choice(starts)), max(0, len(reel) - wanted))
    while start and follows(reel[start - 1], reel[start]):
        start -= 1
    stop = min(len(reel), start + wanted)
    while stop < len(reel) and follows(reel[stop - 1], reel[stop]):
        stop += 1
    return reel[start:stop]


def cast_lesions(
    sightings: Sequence[Sighting],
    groups: Iterable[Sequence[int]],
    pace: npt.NDArray[np.float64],
    stock: Stock,
    make: str,
    rng: np.random.Generator,
) -> list[Stretch]:
    """Give each group of events to neighbouring images of one case; every event goes on where the one before ended.

    `groups` hold what a reader would take for one finding; distractors stand alone.
    """
    alone = [(i,) for i, one in enumerate(sightings) if one.label == DISTRACTOR]
    stretches = []
    for events in sorted([*map(tuple, groups), *alone]):
        label = sightings[events[0]].label
        length = sum(sightings[event].frames for event in events)
        reel = draw_window(draw_case(stock.casts[label], make, rng), length, rng)
        at = 0
        for event in events:
            one = sightings[event]
            stretches.append(Stretch(one.first, one.frames, label, turned(reel, at), event))
            at += 1 + int(pace[one.first : one.stop].sum() / STEP)
    return sorted(stretches, key=lambda stretch: stretch.first)


def turned(reel: Reel, by: int) -> Reel:
    """Begin a reel later; what is left out comes at its end."""
    by %= len(reel)
    return reel[by:] + reel[:by]


def fill_gaps(
    lesions: Sequence[Stretch], frames: int, stock: Stock, make: str, rng: np.random.Generator
) -> list[Stretch]:
    """Put normal mucosa between lesions: beside a lesion that of its own case, elsewhere that of the exam's make."""
    normal = stock.casts[NORMAL]
    stretches: list[Stretch] = []
    at, before = 0, ""
    for lesion in (*lesions, None):
        stop = lesion.first if lesion else frames
        own = [_beside(stretch, normal) for stretch in (stretches[-1] if stretches else None, lesion)]
        for length, reel in _pieces(stop - at, own, rng):
            if reel is None:
                cast = draw_case(normal, make, rng, avoid=before)
                reel = turned(cast, int(rng.integers(len(cast))))
            before = reel[0].case
            stretches.append(Stretch(at, length, NORMAL, reel[: MOST_SOURCES_PER_FRAME * length]))
            at += length
        if lesion:
            stretches.append(lesion)
            at = lesion.stop
    return stretches


def _beside(lesion: Stretch | None, normal: Cast) -> Reel | None:
    """Find normal mucosa of a lesion's own case, from the place in it that is nearest to the lesion."""
    reel = normal.get(lesion.source, {}).get(lesion.case) if lesion else None
    if lesion is None or reel is None:
        return None
    return turned(reel, bisect_left(reel, _order(lesion.reel[0]), key=_order))


def _pieces(frames: int, own: Sequence[Reel | None], rng: np.random.Generator) -> list[tuple[int, Reel | None]]:
    """Cut a gap: a flank of the lesion before it, stretches of any case, a flank of the lesion after it."""
    if frames < 1:
        return []
    if frames < 2 * FLANK[0]:
        return [(frames, own[0] or own[1])]
    flanks = [min(int(rng.integers(*FLANK)), frames // 3) if reel else 0 for reel in own]
    pieces: list[tuple[int, Reel | None]] = [(flanks[0], own[0])]
    rest = frames - sum(flanks)
    while rest > 0:
        length = int(rng.integers(*NORMAL_STRETCH))
        if rest - length < NORMAL_STRETCH[0]:
            length = rest
        pieces.append((length, None))
        rest -= length
    return [piece for piece in (*pieces, (flanks[1], own[1])) if piece[0]]


def cast_frames(frames: Iterable[LabelledFrame], splits: Mapping[str, str], split: str) -> Stock:
    """Take the frames of the cases of one split; frames of unknown case belong to none."""
    return build_stock(frame for frame in frames if splits.get(frame.case) == split)
