"""An exam that looks unlike anything that was learnt from is called unfamiliar."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dice_ce.exam.open import open_exam
from dice_ce.lab.training.familiar import FEWEST, Looks, fit_familiarity, held_out_distances
from dice_ce.method.beyond.familiar import SIDE, UNFAMILIAR, Familiarity, look_of, unfamiliar_text
from tests.material import numbered_video

SOURCES = {"first make": (0.0, 0.0), "second make": (4.0, 1.0)}


def looks(cases: int, seed: int, source: str, shift: float = 0.0) -> Looks:
    """Cases of one source: around its own place, alike in one direction and different in another."""
    chance = np.random.default_rng(seed)
    own = np.array(SOURCES.get(source, (0.0, 0.0)))
    found = (own + shift + chance.normal(size=(cases, 2)) * (0.1, 0.5)).astype(np.float32)
    return Looks(found, np.full(cases, source), np.arange(cases) % 5)


def both(*parts: Looks) -> Looks:
    return Looks(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("look", "source", "fold")))


@pytest.fixture
def learnt() -> Looks:
    return both(*(looks(30, seed, source) for seed, source in enumerate(SOURCES)))


@pytest.fixture
def known(learnt: Looks) -> Familiarity:
    found = fit_familiarity(learnt)
    assert found is not None
    return found


def images(seed: int, red: float = 1.0, grain: int = 8) -> np.ndarray:
    """Mottled images with black corners."""
    chance = np.random.default_rng(seed)
    spots = chance.integers(60, 200, (6, SIDE // grain, SIDE // grain, 1)).repeat(grain, axis=1).repeat(grain, axis=2)
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    window = (x**2 + y**2 < (SIDE / 2) ** 2)[None, :, :, None]
    return (np.clip(spots * np.array([red, 0.8, 0.6]), 0, 255) * window).astype(np.uint8)


def test_new_cases_of_every_source_are_familiar(known: Familiarity) -> None:
    for source in SOURCES:
        assert (known.distances(looks(200, 7, source).look) > known.limit).mean() < 0.12


def test_cases_of_another_source_are_not(known: Familiarity) -> None:
    assert (known.distances(looks(50, 8, "third make", shift=2.0).look) > known.limit).all()


def test_how_cases_of_a_source_differ_is_taken_into_account(known: Familiarity) -> None:
    """The same step is nothing along the direction in which cases differ, and far along the other."""
    along, across = known.distances(np.array([(0.0, 0.6), (0.6, 0.0)]))
    assert along < known.limit < across


def test_the_limit_leaves_out_few_held_out_cases(learnt: Looks, known: Familiarity) -> None:
    beyond = held_out_distances(learnt) > known.limit
    assert 0 < beyond.mean() <= 0.05


def test_a_few_cases_cannot_tell() -> None:
    assert fit_familiarity(looks(FEWEST - 1, 0, "first make")) is None
    assert fit_familiarity(looks(FEWEST + 2, 0, "first make")) is not None


def test_a_look_tells_colour_and_grain_apart_but_not_content() -> None:
    same, again, redder, finer = (look_of(images(*of)) for of in ((0,), (1,), (0, 1.3), (0, 1.0, 2)))
    for other in (redder, finer):
        assert np.abs(other - same).max() > 5 * np.abs(again - same).max()


def test_what_lies_outside_the_window_is_not_part_of_a_look() -> None:
    """A window half as large shows the same."""
    whole = images(3)
    inner = whole.copy()
    inner[:, :28], inner[:, -28:], inner[:, :, :28], inner[:, :, -28:] = 0, 0, 0, 0
    assert np.abs(look_of(inner) - look_of(whole)).max() < 0.3


def test_black_images_have_a_look() -> None:
    assert np.isfinite(look_of(np.zeros((2, SIDE, SIDE, 3), np.uint8))).all()


def test_an_exam_is_compared_as_a_whole(tmp_path: Path) -> None:
    video = numbered_video(tmp_path / "exam.mp4", 30)
    with open_exam(video) as exam:
        shown = np.stack([image for _, image in exam.images(exam.spread().tolist(), size=SIDE)])
        own = look_of(shown)
        at_home = Familiarity(own[None], np.eye(len(own), dtype=np.float32), 0.5)
        abroad = Familiarity(own[None] + 1, np.eye(len(own), dtype=np.float32), 0.5)
        assert at_home.strangeness(exam) == 0
        assert abroad.strangeness(exam) == pytest.approx(2)
        assert abroad.strangeness(exam) > UNFAMILIAR


def test_the_warning_says_how_far() -> None:
    assert "2.5 times as far" in unfamiliar_text(2.5)


def test_it_survives_storing(known: Familiarity) -> None:
    arrays = {name: values.astype(np.float16) for name, values in known.arrays().items()}
    back = Familiarity.from_arrays(arrays)
    assert back is not None
    some = looks(20, 9, "second make").look
    np.testing.assert_allclose(back.distances(some) / back.limit, known.distances(some) / known.limit, rtol=2e-3)
    assert Familiarity.from_arrays({}) is None
