"""How the stretches of an exam are played: which source frame when, and what happens where one case gives way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.lab.compose.casting import Reel, Stretch, follows
from dice_ce.lab.compose.life import Motion, Series, Walk
from dice_ce.taxonomy import NORMAL
from dice_ce.types import Ints

HOLD = (7, 18)
"""Frames for which a moving capsule sees one source frame."""
SLOWEST = 4.0
"""By how much a short reel may be slowed down before it starts again."""
RUN_REACH, LESION_REACH = 0.3, 0.5
"""How freely the camera moves on runs, which move by themselves, and on lesions, which must stay in sight."""
SAFE = 0.44
"""How far from the middle of the image a lesion may be, as a share of its side; fields of view reach further."""
TURN_AWAY = ((-2, 0.025, 0.03, 0.8), (-1, 0.06, 0.09, 0.5), (0, 0.06, -0.09, 0.5), (1, 0.025, -0.03, 0.8))
"""Around a change of case: frames from it, motion blur, shift, and light where it goes dark instead."""
DARK_CHANGES = 0.3
MIX = 1 / 3
"""How much the neighbouring source frame shines through at a change of frame."""


def move_at_changes(pace: Series, changes: Sequence[int]) -> Series:
    """Let the capsule move wherever the scene changes."""
    moving = pace.copy()
    for change in changes:
        around = slice(max(0, change - 2), change + 3)
        moving[around] = moving[around].clip(min=1.0)
    return moving


@dataclass(frozen=True, eq=False)
class Played:
    """Which image each frame shows, and how freely the camera may move on it."""

    images: tuple[LabelledFrame, ...]
    shown: Ints
    partner: Ints
    reach: Series
    advance: Series
    turn: Series


def play(stretches: Sequence[Stretch], way: Walk, rng: np.random.Generator) -> Played:
    frames = len(way.pace)
    numbers: dict[LabelledFrame, int] = {}
    rolls: dict[str, float] = {}  # a case lies the same way whenever it comes back, but differently in every exam
    shown, partner = np.zeros(frames, np.int64), np.full(frames, -1, np.int64)
    reach, advance, turn = np.empty(frames), np.empty(frames), np.empty(frames)
    for stretch in stretches:
        part = slice(stretch.first, stretch.stop)
        places, progress, in_run = play_reel(stretch.reel, way.pace[part], rng)
        local = {
            place: numbers.setdefault(stretch.reel[place], len(numbers)) for place in dict.fromkeys(places.tolist())
        }
        shown[part], advance[part] = [local[place] for place in places.tolist()], progress
        reach[part] = (RUN_REACH if in_run.mean() > 0.5 else 1.0) * (1.0 if stretch.label == NORMAL else LESION_REACH)
        turn[part] = rolls.setdefault(stretch.case, 45.0 * int(rng.integers(8)))
        for i in np.flatnonzero(np.diff(places)):
            if not follows(stretch.reel[places[i]], stretch.reel[places[i + 1]]):
                at = stretch.first + int(i)
                partner[at], partner[at + 1] = shown[at + 1], shown[at]
    return Played(tuple(numbers), shown, partner, reach, advance, turn)


def play_reel(reel: Reel, pace: Series, rng: np.random.Generator) -> tuple[Ints, Series, npt.NDArray[np.bool_]]:
    """Play a reel at the capsule's pace: places in it, how far each source frame has come, and whether it is in a run.

    A run plays frame by frame; a lone source frame is looked at for a while. A reel that is too short is slowed down,
    and then starts again.
    """
    running = np.array([follows(a, b) for a, b in itertools.pairwise(reel)] + [False])
    dwell = np.where(running, 1.0, rng.integers(*HOLD, len(reel)))
    passed = np.cumsum(pace) - pace[0]
    dwell *= min(max(1.0, float(passed[-1]) / dwell.sum()), SLOWEST)
    ends = np.cumsum(dwell)
    passed = passed % ends[-1]
    places = np.searchsorted(ends, passed, side="right").clip(max=len(reel) - 1)
    progress = np.where(running[places], 0.5, (passed - ends[places] + dwell[places]) / dwell[places])
    return places, progress, running[places]


def add_transition_blur(moved: Motion, stretches: Sequence[Stretch], rng: np.random.Generator) -> Motion:
    """Let the capsule turn away where the case changes, on the side of normal mucosa: by motion, or in the dark."""
    smear, right, down, light = (series.copy() for series in (moved.smear, moved.right, moved.down, moved.light))
    smear_turn = moved.smear_turn.copy()
    for before, after in itertools.pairwise(stretches):
        angle, dark = float(rng.uniform(0, 360)), bool(rng.random() < DARK_CHANGES)
        for offset, blur, shift, dimmed in TURN_AWAY:
            side = before if offset < 0 else after
            frame = after.first + offset
            if side.label != NORMAL or not side.first <= frame < side.stop:
                continue
            if dark:
                light[frame] *= dimmed
                continue
            smear[frame], smear_turn[frame] = blur, angle
            right[frame] += shift * np.cos(np.radians(angle))
            down[frame] += shift * np.sin(np.radians(angle))
    return replace(moved, smear=smear, smear_turn=smear_turn, right=right, down=down, light=light)


def keep_in_sight(moved: Motion, played: Played) -> Motion:
    """Move the camera back to a lesion that it would lose: the middle of its largest box stays clear of the rim.

    Where nobody drew a box, only the small reach of the camera on lesions keeps them in sight.
    """
    middles = np.array([_middle(image) for image in played.images])[played.shown]
    angle = np.radians(moved.turn)
    across = moved.zoom * (np.cos(angle) * middles[:, 0] + np.sin(angle) * middles[:, 1]) + moved.right
    along = moved.zoom * (np.cos(angle) * middles[:, 1] - np.sin(angle) * middles[:, 0]) + moved.down
    excess = 1 - SAFE / np.maximum(np.hypot(across, along), SAFE)
    return replace(moved, right=moved.right - excess * across, down=moved.down - excess * along)


def _middle(image: LabelledFrame) -> tuple[float, float]:
    """Find the middle of the largest box, from the middle of the image; that itself without a box."""
    if not image.boxes:
        return 0.0, 0.0
    box = max(image.boxes, key=lambda box: (box.right - box.left) * (box.bottom - box.top))
    return (box.left + box.right - 1) / 2, (box.top + box.bottom - 1) / 2
