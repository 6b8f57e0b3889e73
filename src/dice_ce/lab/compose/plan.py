"""The plan of a composed exam: every frame's real image, motion, effects and truth, before a pixel is drawn."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dice_ce.datasets.splits import SPLITS, split_cases, split_patients
from dice_ce.datasets.tables import LabelledFrame, Timeline
from dice_ce.errors import InputError, UsageError
from dice_ce.lab.compose.casting import DISTRACTOR, Stock, Stretch, cast_frames, cast_lesions, draw_make, fill_gaps
from dice_ce.lab.compose.life import Episode, Motion, Series, Walk, episodes, hidden, motion, walk
from dice_ce.lab.compose.playing import Played, add_transition_blur, keep_in_sight, move_at_changes, play
from dice_ce.lab.compose.reported import Reported, best_views, gather, report
from dice_ce.lab.compose.sightings import FEWEST, Kind, Sighting, fit_sightings, inserted, lesions_of, organs
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12

SHARES = (32, 12, 24)
"""Shares of train, validation and test. Timelines are always dealt by these, so that none ever changes sides."""
FEWEST_FRAMES = 200
DISTRACTORS = 4.0
"""Mean number in an exam."""
DISTRACTOR_SHARE = (0.0012, 0.0068)
"""Shortest and longest, as shares of the exam. All take 1.6 % of frames, as foreign bodies in Kvasir-Capsule."""
EXTRA_EVERY = 6
"""Lesions that no timeline has, but of which there are frames, are seen once in every so many exams."""
EXTRA_SHARE = (0.0015, 0.0075)
"""Shortest and longest, as shares of the exam."""


@dataclass(frozen=True, eq=False)
class ExamPlan:
    """One exam, ready to be drawn."""

    exam_id: str
    patient_id: str
    split: str
    make: str
    """Source whose field of view the exam has."""
    sightings: tuple[Sighting, ...]
    stretches: tuple[Stretch, ...]
    organs: tuple[str, ...]
    """One for every frame."""
    played: Played
    walk: Walk
    motion: Motion
    episodes: tuple[Episode, ...]
    reported: tuple[Reported, ...]
    unfilled: int
    """Events of the timeline that had to be left out, because the split has no frames of them."""

    def __len__(self) -> int:
        return len(self.played.shown)

    def image(self, frame: int) -> LabelledFrame:
        """Name the real image that a frame shows."""
        return self.played.images[int(self.played.shown[frame])]


def plan_exams(
    frames: Sequence[LabelledFrame],
    timelines: Sequence[Timeline],
    *,
    exams: int,
    frames_per_exam: int,
    seed: int,
    shares: Sequence[float] = SHARES,
    named: tuple[str, str] = ("the frames", "the timelines"),
) -> tuple[ExamPlan, ...]:
    """Plan all exams of a dataset; no case and no timeline stands in two splits, with any seed.

    `named` is what errors call the frames and the timelines.
    """
    if exams < 1:
        raise UsageError(f"--exams must be at least 1, got {exams}")
    if frames_per_exam < FEWEST_FRAMES:
        raise UsageError(f"--frames-per-exam must be at least {FEWEST_FRAMES}, got {frames_per_exam}")
    cases = split_cases(frames)
    patients = split_patients((timeline.exam_id for timeline in timelines), SHARES)
    lesions = lesions_of(timelines)
    extras = [label for label in VIDEOCAP_12 if label != NORMAL and label not in lesions]
    plans = []
    for split, count in zip(SPLITS, _counts(exams, shares), strict=True):
        if not count:
            continue
        stock = _checked(cast_frames(frames, cases, split), split, lesions, named[0])
        own = [timeline for timeline in timelines if patients[timeline.exam_id] == split]
        if not own:
            raise InputError(
                f"{named[1]}: none is left for the split '{split}' ({len(timelines)} in all); give more timelines"
            )
        for number, timeline in enumerate(_dealt(own, count, seed)):
            rare = [label for i, label in enumerate(extras) if (number + 2 * i) % EXTRA_EVERY == 0]
            use = number // len(own) + 1
            plans.append(_plan_exam(timeline, use, split, stock, rare, frames_per_exam, seed))
    return tuple(plans)


def _counts(exams: int, shares: Sequence[float]) -> list[int]:
    """Divide exams over the splits; rounding errors do not add up."""
    ends = np.rint(np.cumsum([0.0, *shares]) / sum(shares) * exams)
    return [int(count) for count in np.diff(ends)]


def _checked(stock: Stock, split: str, lesions: Iterable[str], name: str) -> Stock:
    if NORMAL not in stock:
        raise InputError(
            f"{name}: no normal frame of a known case is left for the split '{split}'; give frames of more cases, or "
            "--shares without that split"
        )
    if not any(label in stock for label in lesions):
        raise InputError(
            f"{name}: the split '{split}' has no frame of any lesion in the timelines; give frames of more cases"
        )
    return stock


def _dealt(timelines: Sequence[Timeline], count: int, seed: int) -> list[Timeline]:
    """Use every timeline once, in a random order, before any is used again."""
    order = sorted(timelines, key=lambda timeline: draw_lot(f"{seed}:{timeline.exam_id}"))
    return [order[i % len(order)] for i in range(count)]


def draw_lot(text: str) -> int:
    """Draw a number that depends on nothing but the text, on any machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _streams(exam_id: str, seed: int) -> Callable[[str], np.random.Generator]:
    """Give every decision its own stream, so that a change in one does not shift the others."""
    return lambda purpose: np.random.default_rng(draw_lot(f"{seed}:{exam_id}:{purpose}"))


def _plan_exam(
    timeline: Timeline, use: int, split: str, stock: Stock, extras: Iterable[str], frames: int, seed: int
) -> ExamPlan:
    patient = "galar-" + re.sub(r"[^\w.-]", "_", timeline.exam_id)  # it names files
    exam_id = f"{patient}-{use}"
    chance = _streams(exam_id, seed)
    fitted = fit_sightings(timeline, frames)
    known = [one for one in fitted if one.label in stock]
    sightings = _with_rarities(known, extras, stock, frames, chance("rarities"))
    way = walk(frames, chance("walk"))
    sights = gather(sightings, way.seconds)
    make = draw_make(sightings, frames, stock, chance("make"))
    groups = [sight.events for sight in sights]
    lesions = cast_lesions(sightings, groups, way.pace, stock, make, chance("cast"))
    stretches = fill_gaps(lesions, frames, stock, make, chance("normal"))
    way = replace(way, pace=move_at_changes(way.pace, [stretch.first for stretch in stretches[1:]]))
    played = play(stretches, way, chance("play"))
    moved = motion(way, played.reach, played.advance, played.turn, chance("motion"))
    moved = keep_in_sight(add_transition_blur(moved, stretches, chance("changes")), played)
    passing = episodes(frames, chance("effects"))
    views = _views(stretches, played, way, moved, passing)
    return ExamPlan(
        exam_id=exam_id,
        patient_id=patient,
        split=split,
        make=make,
        sightings=tuple(sightings),
        stretches=tuple(stretches),
        organs=organs(timeline, frames),
        played=played,
        walk=way,
        motion=moved,
        episodes=passing,
        reported=report(sightings, sights, way.seconds, views),
        unfilled=len(fitted) - len(known),
    )


def _with_rarities(
    sightings: Sequence[Sighting], extras: Iterable[str], stock: Stock, frames: int, rng: np.random.Generator
) -> list[Sighting]:
    """Add distractors, and lesions that no timeline has."""

    def one(label: str, shares: tuple[float, float], kind: Kind) -> Sighting:
        return Sighting(label, 0, max(FEWEST, round(float(rng.uniform(*shares)) * frames)), kind)

    found = list(sightings)
    for label in extras:
        if label in stock:
            found = inserted(found, one(label, EXTRA_SHARE, "extra"), frames, rng)
    if DISTRACTOR in stock:
        for _ in range(int(rng.poisson(DISTRACTORS))):
            found = inserted(found, one(DISTRACTOR, DISTRACTOR_SHARE, "distractor"), frames, rng)
    return found


def _views(
    stretches: Iterable[Stretch], played: Played, way: Walk, moved: Motion, passing: Sequence[Episode]
) -> dict[int, Series]:
    """Rate the view of every frame of every sighting."""
    clear = (1 - hidden(len(way.pace), passing)).clip(0)
    clear *= np.where(played.partner >= 0, 0.5, 1.0) * (1 - 8 * moved.smear)
    views = {}
    for stretch in stretches:
        if stretch.sighting is not None:
            part = slice(stretch.first, stretch.stop)
            images = [played.images[i] for i in played.shown[part]]
            views[stretch.sighting] = best_views(images, clear[part], way.pace[part] == 0)
    return views
