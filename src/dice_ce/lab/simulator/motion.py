"""Where the capsule is, and how it looks around, at every frame of a simulated exam.

Lengths are in radii of the bowel and angles in radians. Everything runs on the capsule's own clock, which
stops when the capsule stops: so standing still looks still without any special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Value = TypeVar("Value")

STEADY_PACE, RUSHING_PACE = 0.04, 0.45  # radii per second: 6 m of bowel take some three hours, rests included
SLOW_WAVE_SECONDS = 5.0  # the duodenum contracts about twelve times a minute
WOBBLE = 0.0012  # a fraction of a pixel: breathing and pulse, felt even at rest


@dataclass(frozen=True)
class ExamScript:
    """What is to happen in an exam, before chance fills in the details."""

    frames: int = 3000
    seed: int = 0
    exam_fps: float = 1.0
    still_share: float = 0.42
    rushing_share: float = 0.06
    episode_seconds: float = 50.0  # mean time from one rush to the next

    def __post_init__(self) -> None:
        if self.frames < 1 or self.exam_fps <= 0 or self.episode_seconds <= 0:
            raise ValueError("frames, exam_fps and episode_seconds must be positive")
        if min(self.still_share, self.rushing_share) < 0 or self.still_share + self.rushing_share > 1:
            raise ValueError("still_share and rushing_share must not be negative nor exceed 1 together")


@dataclass(frozen=True)
class Motion(Generic[Value]):
    """The capsule and the bowel around it."""

    depth: Value  # distance travelled along the bowel
    speed: Value  # depth gained since the frame before; exactly 0 while standing still
    roll: Value
    yaw: Value  # direction of view, away from the axis of the bowel
    pitch: Value
    drift_x: Value  # position of the capsule, away from the axis of the bowel
    drift_y: Value
    bend_x: Value  # curvature of the bowel ahead
    bend_y: Value
    horizon: Value  # how far ahead the bowel turns out of sight
    squeeze: Value  # 0: the lumen ahead is open, 1: a contraction closes it
    bile: Value  # 0: pink mucosa, 1: stained yellow
    haze: Value  # 0: clear fluid, 1: turbid
    defocus: Value  # 0: sharp, 1: blurred by a film on the dome


Pose = Motion[float]  # at one instant


class CapsulePath(Motion[Series]):
    """One value per frame."""

    def __len__(self) -> int:
        return len(self.depth)

    def at(self, frame: int) -> Pose:
        return Motion(**{name: float(values[frame]) for name, values in vars(self).items()})

    @property
    def still(self) -> NDArray[np.bool_]:
        return np.asarray(self.speed == 0.0)


def capsule_path(script: ExamScript) -> CapsulePath:
    rng = np.random.default_rng([script.seed, 1])
    pace = _pace(script, rng)
    clock = np.cumsum(np.sqrt(pace / STEADY_PACE)) / script.exam_fps
    peristalsis = 1.0 + 0.8 * np.sin(2 * np.pi * clock / SLOW_WAVE_SECONDS)
    speed = pace * peristalsis / script.exam_fps

    def wander(seconds: float, reach: float = 1.0, centre: float = 0.0) -> Series:
        return centre + reach * _wander(clock / seconds, rng)

    def wobbling(values: Series) -> Series:
        return values + rng.normal(0.0, WOBBLE, script.frames)

    return CapsulePath(
        depth=rng.uniform(0.0, 100.0) + np.cumsum(speed),
        speed=speed,
        roll=wander(70.0, 1.6),
        yaw=wobbling(wander(23.0, 0.75)),
        pitch=wobbling(wander(29.0, 0.75)),
        drift_x=wander(17.0, 0.2),
        drift_y=wander(19.0, 0.2),
        bend_x=wander(41.0, 0.8),
        bend_y=wander(47.0, 0.8),
        horizon=wander(53.0, 1.3, centre=3.4).clip(1.2),
        squeeze=_ramp(wander(31.0), -0.3, 1.2),
        bile=wander(240.0, 0.3, centre=0.36).clip(0.0, 1.0),
        haze=_ramp(wander(150.0), 0.7, 1.9),
        defocus=_ramp(wander(37.0), 0.9, 1.8),
    )


def _pace(script: ExamScript, rng: np.random.Generator) -> Series:
    """Radii per second at every frame: each episode rushes, then moves on steadily, then rests.

    Every episode holds the same shares of the three, so that even a short exam keeps them.
    """
    episodes = max(1, round(script.frames / script.exam_fps / script.episode_seconds))
    lengths = rng.exponential(size=episodes) + 0.25
    ends = script.frames * np.cumsum(lengths) / lengths.sum()
    starts = np.concatenate([[0.0], ends[:-1]])
    frame = np.arange(script.frames)
    episode = np.searchsorted(ends, frame, side="right").clip(max=episodes - 1)
    progress = (frame - starts[episode]) / (ends - starts)[episode]
    steady = STEADY_PACE * rng.uniform(0.4, 1.6, episodes)[episode]
    rushing = RUSHING_PACE * rng.uniform(0.5, 1.5, episodes)[episode]
    pace = np.where(progress < script.rushing_share, rushing, steady)
    return np.where(progress < 1.0 - script.still_share, pace, 0.0)


def _wander(turns: Series, rng: np.random.Generator) -> Series:
    """A smooth aimless curve of about unit size, made of sines that never fall into step."""
    quickening, sizes = np.array([1.0, 1.618, 2.618, 4.236]), np.array([0.8, 0.7, 0.5, 0.3])
    phases = rng.uniform(0.0, 2 * np.pi, 4)
    return np.asarray(np.sin(2 * np.pi * turns[:, None] * quickening + phases) @ sizes)


def _ramp(values: Series, low: float, high: float) -> Series:
    """0 below `low`, 1 above `high`, smooth between."""
    x = ((values - low) / (high - low)).clip(0.0, 1.0)
    return np.asarray(x * x * (3.0 - 2.0 * x))
