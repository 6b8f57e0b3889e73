"""The seconds that every frame shows, by what the digits of this exam look like.

A text reader does not know this font, over this bowel, after this compression. The exam itself shows every digit of the
seconds over and over: their mean images tell them apart where the reader guesses, and in every frame instead of some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.types import Doubles, Floats, Image, Ints

MINUTE = 60
DIGITS = ((1, 10), (10, 6))
"""The last digit of the seconds and the one before: what it counts, and how many forms it has."""
LEAST_FRAMES = 8
"""Frames in which every digit must be seen to be learned."""
SAMPLE = 1000
"""Frames that are learned from, at most."""
PIXELS = 120
"""Values of the image by which a digit is told, those that tell most."""
NOISE = 9.0
"""Variance of a value that is the same in all frames."""
ALIKE = 30.0
"""Neighbouring pixels say the same; so many count as one."""
ROUNDS = 2
"""The first learns from times that are wrong now and then, the second from what the first has read."""


@dataclass(frozen=True, eq=False)
class Digit:
    """What a digit looks like: the values of the image that tell it, and their mean for each of its forms."""

    telling: Ints
    means: Floats
    """[form, value]"""
    spread: Floats
    """Variance of each value."""

    @classmethod
    def learn(cls, images: Floats, shown: Ints, forms: int) -> Digit:
        """Learn it from images of which it is mostly known what they show."""
        means = np.stack([images[shown == form].mean(axis=0) for form in range(forms)])
        spread = ((images - means[shown]) ** 2).mean(axis=0) + NOISE
        telling = np.argsort(means.var(axis=0) / spread)[-PIXELS:]
        return cls(telling, means[:, telling], spread[telling])

    def likely(self, image: Floats) -> Floats:
        """How likely each form is in an image, as a logarithm."""
        away = (image[self.telling] - self.means) ** 2 / self.spread
        return np.asarray(-away.sum(axis=1) / (2 * ALIKE), np.float32)


def read_seconds(images: Sequence[Image], rough: Ints) -> Ints | None:
    """Return the second within its minute that every frame shows, given times that are mostly right.

    None if the exam is too short, or too regular, to show every digit.
    """
    sample = np.unique(np.linspace(0, len(images) - 1, SAMPLE).round().astype(int))
    learned = np.stack([_fine_detail(images[i]) for i in sample])
    seconds = rough % MINUTE
    steps = _usual_steps(seconds)
    shows = [np.arange(MINUTE) // unit % forms for unit, forms in DIGITS]
    for _ in range(ROUNDS):
        known = [seconds[sample] // unit % forms for unit, forms in DIGITS]
        if any(
            np.bincount(shown, minlength=n).min() < LEAST_FRAMES for shown, (_, n) in zip(known, DIGITS, strict=True)
        ):
            return None
        digits = [Digit.learn(learned, shown, forms) for shown, (_, forms) in zip(known, DIGITS, strict=True)]
        details = map(_fine_detail, images)
        likely = [
            sum(digit.likely(detail)[show] for digit, show in zip(digits, shows, strict=True)) for detail in details
        ]
        seconds = _most_likely(np.array(likely, np.float64), steps)
    return seconds


def _fine_detail(image: Image) -> Floats:
    """Every value less the mean of the 3 x 3 around it, flat: the bowel behind the digits is smooth."""
    wide = np.pad(image.astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    around = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    return np.asarray((wide[1:-1, 1:-1] - around).ravel(), np.float32)


def _usual_steps(seconds: Ints) -> Doubles:
    """How likely it is, as a logarithm, that the next frame shows a second so many later; none is impossible."""
    counts = np.bincount(np.diff(seconds) % MINUTE, minlength=MINUTE) + 1 / MINUTE
    return np.asarray(np.log(counts / counts.sum()), np.float64)


def _most_likely(likely: Doubles, steps: Doubles) -> Ints:
    """Find the most likely sequence of seconds, by dynamic programming (Viterbi)."""
    step = steps[(np.arange(MINUTE) - np.arange(MINUTE)[:, None]) % MINUTE]  # from, to
    best, came_from = likely[0], np.zeros(likely.shape, np.int8)
    for frame in range(1, len(likely)):
        ways = best[:, None] + step
        came_from[frame] = ways.argmax(axis=0)
        best = ways.max(axis=0) + likely[frame]
    path: npt.NDArray[np.int64] = np.empty(len(likely), np.int64)
    path[-1] = int(best.argmax())
    for frame in range(len(likely) - 1, 0, -1):
        path[frame - 1] = came_from[frame, path[frame]]
    return path
