"""How images come to life: the pace of the capsule, its clock, small camera motion, and what passes before the lens.

All of this is invented, within limits that leave the real pixels recognisable. One value per frame; the capsule's own
clock stops when the capsule stops, so that standing still looks still without any special case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

RESTS = ((0.8, 24.0), (0.2, 120.0))
"""Shares and mean frames of short and long rests."""
WALK = 65.0
"""Mean frames from one rest to the next."""
RUSH_SHARE, RUSH_PACE = 0.05, 2.5
"""Share of the walks that are rushes, and how many times faster these are."""
REST_INTERVAL = 2.0
"""A resting capsule takes its images so much further apart, as capsules of adaptive frame rate do."""
HOURS = (8.0, 12.0)

ZOOM, ZOOM_REACH = 0.06, 0.06
DRIFT = 0.035
"""Share of the image."""
TURN = 13.0
"""Degrees."""
LIGHT, LIGHT_REACH = 0.98, 0.07
ADVANCE = 0.1
"""By how much a source frame grows while the capsule moves towards what it shows."""
WOBBLE = 0.0008
"""Breathing and pulse, felt even at rest: a fraction of a pixel."""

Effect = Literal["blur", "bubbles", "debris", "darkness", "compression"]


@dataclass(frozen=True)
class Habit:
    """How often something passes before the lens, and for how long."""

    share: float
    """Share of all frames."""
    frames: float
    """Mean length."""


HABITS: dict[Effect, Habit] = {
    "blur": Habit(0.03, 4.0),
    "bubbles": Habit(0.03, 22.0),
    "debris": Habit(0.03, 22.0),
    "darkness": Habit(0.015, 5.0),
    "compression": Habit(0.01, 2.0),
}
"""Bubbles and debris together as often as Kvasir-Capsule calls the view of the mucosa reduced: 6.2 % of its frames."""


@dataclass(frozen=True)
class Episode:
    """One time that something passes before the lens."""

    effect: Effect
    first: int
    frames: int
    strength: float
    lot: int
    """Decides its shape and place."""

    @property
    def stop(self) -> int:
        """First frame after it."""
        return self.first + self.frames

    def at(self, frame: int) -> float:
        """Tell how strong it is: it comes and goes smoothly."""
        return self.strength * min(1.0, 1.6 * math.sin(math.pi * (frame - self.first + 0.5) / self.frames))

    def envelope(self) -> Series:
        """Strength from its first to its last frame."""
        return np.array([self.at(frame) for frame in range(self.first, self.stop)])


@dataclass(frozen=True, eq=False)
class Walk:
    """The capsule's progress."""

    pace: Series
    """Exactly 0 at rest, 1 on an ordinary walk."""
    seconds: Series
    """Exam time, to the millisecond."""

    @property
    def clock(self) -> Series:
        """The capsule's own time, which stops when it rests."""
        return np.cumsum(self.pace)


def walk(frames: int, rng: np.random.Generator) -> Walk:
    """Draw rests, walks and rushes, and the exam time they take."""
    pace = np.empty(0)
    while len(pace) < frames:
        length = 1 + int(rng.exponential(WALK))
        speed = RUSH_PACE if rng.random() < RUSH_SHARE else float(rng.uniform(0.6, 1.4))
        mean = RESTS[int(rng.random() < RESTS[1][0])][1]
        pace = np.concatenate([pace, np.full(length, speed), np.zeros(1 + int(rng.exponential(mean)))])
    pace = pace[:frames]
    intervals = np.where(pace[1:] == 0, REST_INTERVAL, 1.0)
    duration = float(rng.uniform(*HOURS)) * 3600
    passed = np.concatenate([[0.0], np.cumsum(intervals)])
    return Walk(pace, np.round(passed / max(passed[-1], 1.0) * duration, 3))


@dataclass(frozen=True, eq=False)
class Motion:
    """How the camera looks at the source frame, and how it is lit."""

    zoom: Series
    turn: Series
    """Degrees."""
    right: Series
    down: Series
    """Shares of the image."""
    light: Series
    smear: Series
    """Length of motion blur, as a share of the image."""
    smear_turn: Series
    """Its direction in degrees."""


def motion(way: Walk, reach: Series, advance: Series, turn: Series, rng: np.random.Generator) -> Motion:
    """Move the camera smoothly; `reach` tells how freely, `advance` how far a frame has come, `turn` how it lies."""
    clock, frames = way.clock, len(way.pace)

    def wander(period: float, size: float) -> Series:
        return size * _wander(clock / period, rng)

    def wobble() -> Series:
        return rng.normal(0.0, WOBBLE, frames)

    return Motion(
        zoom=(1.0 + reach * (ZOOM + wander(31.0, ZOOM_REACH) + ADVANCE * (advance - 0.5))) * (1.0 + wobble()),
        turn=turn + reach * wander(41.0, TURN),
        right=reach * wander(23.0, DRIFT) + wobble(),
        down=reach * wander(27.0, DRIFT) + wobble(),
        light=np.asarray((LIGHT + wander(43.0, LIGHT_REACH)).clip(0.6, 1.15)),
        smear=np.where(way.pace >= RUSH_PACE, 0.015, 0.0),
        smear_turn=180.0 * _wander(clock / 91.0, rng),
    )


def _wander(turns: Series, rng: np.random.Generator) -> Series:
    """Draw a smooth aimless curve of about unit size, of sines that never fall into step."""
    quickening, sizes = np.array([1.0, 1.618, 2.618]), np.array([0.6, 0.4, 0.25])
    phases = rng.uniform(0.0, 2 * np.pi, 3)
    return np.asarray(np.sin(2 * np.pi * turns[:, None] * quickening + phases) @ sizes)


def episodes(frames: int, rng: np.random.Generator) -> tuple[Episode, ...]:
    """Draw what passes before the lens in the whole exam, each kind at its own rate."""
    drawn = []
    for effect, habit in HABITS.items():
        for _ in range(int(rng.poisson(habit.share * frames / habit.frames))):
            length = 1 + int(rng.exponential(habit.frames - 0.5))
            first = int(rng.integers(frames))
            strength = float(rng.uniform(0.45, 1.0))
            drawn.append(Episode(effect, first, min(length, frames - first), strength, int(rng.integers(2**31))))
    return tuple(sorted(drawn, key=lambda episode: (episode.first, episode.effect, episode.lot)))


def hidden(frames: int, passing: Iterable[Episode]) -> Series:
    """Tell how much the view of each frame suffers: 0 is clear."""
    total = np.zeros(frames)
    for episode in passing:
        total[episode.first : episode.stop] += episode.envelope()
    return total
