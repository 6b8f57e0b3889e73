"""Where along an exam the lesions are, so that each makes a short event of several glimpses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dice_ce.lab.simulator.lesions import GIRTH, LESIONS, Lesion, check_labels, make_lesion
from dice_ce.lab.simulator.motion import CapsulePath, Series
from dice_ce.lab.simulator.scene import LEAST_VISIBLE, Scene
from dice_ce.lab.simulator.view import Optics, View, look

FRAMES_PER_EVENT = 250
SCOUT_SIZE = 32  # pixels: enough to foresee when a place is in sight
WINDOW = 90  # frames before and after, in which an event takes place
STRIDE = 3  # frames between two scouted ones
TRIES, PLACES = 5, 24
BRIGHT, DIM = 0.55, 0.25  # light at the place itself, and at which it can still be made out
NEAREST, FARTHEST = -0.3, 1.2  # radii ahead: where a place is seen well
FEWEST, MOST, LONGEST = 7, 32, 110  # frames in sight, and from the first to the last
CLEAR = 0.03  # share of the field a lesion must fill at its best


@dataclass(frozen=True)
class Glance:
    """What a coarse view shows, pixel by pixel."""

    angle: Series  # fixed to the wall
    place: Series
    lit: NDArray[np.bool_]
    well_seen: NDArray[np.bool_]


@dataclass(frozen=True)
class Spot:
    """A place of the wall, and how good an event a lesion there would make."""

    angle: float
    place: float
    merit: float


def wanted_labels(lesions: Sequence[str] | int | None, frames: int, rng: Generator) -> list[str]:
    """`None` stands for an event now and then, a number for so many with all classes equally often."""
    if isinstance(lesions, str):
        raise ValueError(f"lesions must be a list of labels or a number, not {lesions!r}")
    if lesions is not None and not isinstance(lesions, int):
        check_labels(tuple(lesions))
        return [str(label) for label in rng.permutation(np.array(lesions, dtype=object))]
    count = round(frames / FRAMES_PER_EVENT) if lesions is None else lesions
    if count < 0:
        raise ValueError(f"lesions must not be negative, not {count}")
    rounds = [rng.permutation(len(LESIONS)) for _ in range(count // len(LESIONS) + 1)]
    return [LESIONS[i] for i in np.concatenate(rounds)[:count]]


def plan_lesions(scene: Scene, path: CapsulePath, labels: Sequence[str], rng: Generator) -> tuple[Lesion, ...]:
    """One lesion for each label, in that order, each in a stretch of the exam of its own."""
    bounds = np.linspace(0, len(path), len(labels) + 1).astype(np.intp)
    optics = Optics.of_size(SCOUT_SIZE)

    @lru_cache(2 * WINDOW)
    def glance(frame: int) -> Glance:
        return _glance(look(scene.mucosa, optics, path.at(frame)))

    return tuple(
        _placed(make_lesion(label, rng), path.still, np.arange(start, max(start + 1, end)), glance, rng)
        for label, start, end in zip(labels, bounds[:-1], bounds[1:], strict=True)
    )


def _placed(
    lesion: Lesion,
    still: NDArray[np.bool_],
    stretch: NDArray[np.intp],
    glance: Callable[[int], Glance],
    rng: Generator,
) -> Lesion:
    """Moved to the best of some places that come into sight in a stretch of frames."""
    middle = stretch[len(stretch) // 5 : len(stretch) - len(stretch) // 5]  # keeps events apart
    passing = middle[~still[middle]]
    best = Spot(0.0, 0.0, -np.inf)
    for frame in rng.choice(passing if len(passing) else middle, TRIES):
        best = max(best, _best_spot(int(frame), still, lesion.footprint, glance, rng), key=lambda spot: spot.merit)
        if best.merit >= 0.0:
            break
    return lesion.moved(best.angle, best.place)


def _best_spot(
    frame: int,
    still: NDArray[np.bool_],
    footprint: tuple[float, float],
    glance: Callable[[int], Glance],
    rng: Generator,
) -> Spot:
    """Try some places in sight at that frame; return the one that comes and goes as a lesion should."""
    frames = np.arange(max(0, frame - WINDOW), min(len(still), frame + WINDOW))
    scouted = frames[(~still[frames] & (frames % STRIDE == 0)) | (frames == frame)]
    nearest = np.searchsorted(scouted, frames, side="right").clip(1) - 1  # at rest, the view stays
    glances = [glance(int(i)) for i in scouted]
    angle, place, lit = (np.stack([getattr(one, name) for one in glances]) for name in ("angle", "place", "lit"))
    now = glance(frame)
    choices = np.flatnonzero(now.well_seen if now.well_seen.any() else now.lit)
    spots = []
    for pixel in rng.choice(choices, PLACES):
        around = (angle - now.angle[pixel] + np.pi) % (2 * np.pi) - np.pi
        inside = (around * GIRTH / footprint[0]) ** 2 + ((place - now.place[pixel]) / footprint[1]) ** 2 < 1.0
        visible = (inside & lit).mean(axis=1)[nearest]
        spots.append(Spot(float(now.angle[pixel]), float(now.place[pixel]), _merit(visible)))
    return max(spots, key=lambda spot: spot.merit)


def _merit(visible: Series) -> float:
    """0 for a fit event, less for one too short, too long or never clear."""
    seen = np.flatnonzero(visible >= LEAST_VISIBLE)
    if not len(seen):
        return -1000.0
    hinted = np.flatnonzero(visible >= LEAST_VISIBLE / 2)  # the estimate is coarse: these may be seen as well
    span = int(hinted[-1] - hinted[0])
    excess = 4 * max(0, FEWEST - len(seen)) + max(0, len(hinted) - MOST) + max(0, span - LONGEST) / 4
    return -excess - 400.0 * max(0.0, CLEAR - float(visible.max()))


def _glance(view: View) -> Glance:
    place = (np.arange(view.optics.size) + 0.5) / view.optics.size * 2.0 - 1.0
    central = np.hypot(place[None], place[:, None]) < 0.75
    well_seen = central & (view.light > BRIGHT) & (view.ahead > NEAREST) & (view.ahead < FARTHEST)
    return Glance(
        angle=view.angle.ravel().astype(np.float64) + view.pose.roll,
        place=view.ahead.ravel().astype(np.float64) + view.pose.depth,
        lit=(view.light > DIM).ravel(),
        well_seen=well_seen.ravel(),
    )


def in_sight(view: View, rng: Generator) -> tuple[float, float] | None:
    """Angle and place of a random point of the wall that is seen well, if there is one."""
    glance = _glance(view)
    choices = np.flatnonzero(glance.well_seen)
    if not len(choices):
        return None
    pixel = int(rng.choice(choices))
    return float(glance.angle[pixel]), float(glance.place[pixel])
