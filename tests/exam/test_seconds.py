"""The seconds of every frame, by what the digits of the exam itself look like."""

import numpy as np
import pytest

from dice_ce.exam.seconds import read_seconds
from dice_ce.types import Image

pytest.importorskip("PIL")
from dice_ce.lab.simulator.overlays import STYLES, adaptive, overlay, time_of_day, with_gaps

OVER_THE_BOWEL = STYLES["omom-like"]
BOX = (slice(0, 24), slice(0, 140))


def frames(seconds: np.ndarray, seed: int = 0) -> list[Image]:
    """The corner of the clock, with a bright bowel that moves behind it, and noise."""
    chance = np.random.default_rng(seed)
    y, x = np.mgrid[: OVER_THE_BOWEL.canvas[1], : OVER_THE_BOWEL.canvas[0]]
    images = []
    for number, second in enumerate(seconds.tolist()):
        wave = np.sin((x + 7 * number) / 9) + np.cos((y - 3 * number) / 11)
        bowel = np.stack([150 + 30 * wave, 110 + 25 * wave, 80 + 20 * wave], axis=2).astype(np.uint8)
        shown = overlay(bowel, OVER_THE_BOWEL, second)[BOX]
        images.append((shown + chance.normal(0, 12, shown.shape)).clip(0, 255).astype(np.uint8))
    return images


@pytest.fixture(scope="module")
def exam() -> tuple[np.ndarray, list[Image]]:
    seconds = with_gaps(adaptive(500, 3, 86000), 3)
    return seconds, frames(seconds)


def test_times_that_are_wrong_now_and_then_are_put_right_by_the_digits(exam: tuple[np.ndarray, list[Image]]) -> None:
    seconds, images = exam
    assert time_of_day(seconds[0]) == "23:53:20"
    truth = np.floor(seconds).astype(np.int64)
    chance = np.random.default_rng(1)
    rough = truth + np.where(chance.random(len(truth)) < 0.2, chance.integers(-4, 5, len(truth)), 0)
    found = read_seconds(images, rough)
    assert found is not None
    assert (found == truth % 60).mean() > 0.99
    assert (rough == truth).mean() < 0.9


def test_an_exam_that_does_not_show_every_digit_teaches_nothing(exam: tuple[np.ndarray, list[Image]]) -> None:
    seconds, images = exam
    assert read_seconds(images[:60], np.floor(seconds[:60]).astype(np.int64)) is None
    assert read_seconds(images[:40], np.full(40, 12)) is None
