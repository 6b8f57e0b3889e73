"""What stands out: frames unlike the rest of their exam are more suspicious."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.exam.frames import FrameTable
from dice_ce.method.beyond import standing
from dice_ce.method.beyond.standing import StandingSettings, how_unlike, lifted
from dice_ce.method.selector import Screened, sigmoid


def exam(odd: int = 3, count: int = 600, seed: int = 0) -> np.ndarray:
    """Features of one patient's mucosa, and a few of something else at the end."""
    chance = np.random.default_rng(seed)
    mucosa = chance.normal(0, 1, 16) + chance.normal(0, 0.3, (count, 16))
    mucosa[count - odd :] = chance.normal(0, 1, (1, 16)) + chance.normal(0, 0.3, (odd, 16))
    return mucosa.astype(np.float16)


def screened(vectors: np.ndarray, score: float | np.ndarray = 0.5) -> Screened:
    """Frames that all have the same score, unless more are given."""
    index = np.arange(len(vectors))
    return Screened(
        FrameTable(index, index, Fraction(1)),
        index * 1.0,
        vectors,
        np.asarray(np.broadcast_to(score, len(vectors)), np.float32),
        "someone",
    )


def test_what_is_rare_stands_out_and_what_is_common_does_not() -> None:
    unlike = how_unlike(exam())
    assert unlike[-3:].min() > unlike[:-3].max()
    assert abs(unlike.mean()) < 1e-5
    assert unlike.std() == pytest.approx(1, abs=1e-5)
    common = how_unlike(exam(odd=500))
    assert common[-500:].mean() < common[:-500].mean()


def test_a_weight_adds_to_the_logit_and_none_changes_nothing() -> None:
    frames = screened(exam(), sigmoid(np.linspace(-4, 4, 600, dtype=np.float32)))
    assert lifted(frames, StandingSettings()) is frames
    raised = lifted(frames, StandingSettings(standing_out=0.5))
    wanted = sigmoid(np.linspace(-4, 4, 600) + 0.5 * np.clip(how_unlike(frames.vectors), -10, 10))
    np.testing.assert_allclose(raised.score, wanted, atol=1e-6)
    assert raised.seen_by == "someone"
    assert raised.vectors is frames.vectors


def test_scores_of_nothing_and_of_certainty_stay() -> None:
    frames = screened(exam(), np.tile(np.float32([0, 1]), 300))
    np.testing.assert_array_equal(lifted(frames, StandingSettings(standing_out=4.0)).score, frames.score)


@pytest.mark.parametrize("vectors", [np.zeros((0, 4)), np.ones((1, 4)), np.ones((9, 4)), np.zeros((9, 4))])
def test_where_all_frames_are_the_same_none_stands_out(vectors: np.ndarray) -> None:
    frames = screened(vectors.astype(np.float16))
    np.testing.assert_array_equal(lifted(frames, StandingSettings(standing_out=1.0)).score, frames.score)


def test_it_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = how_unlike(exam())
    monkeypatch.setattr(standing, "CHUNK", 7)
    np.testing.assert_allclose(how_unlike(exam()), whole, atol=1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.floats(0, 4))
def test_scores_stay_shares_whatever_the_features(seed: int, count: int, weight: float) -> None:
    chance = np.random.default_rng(seed)
    vectors = chance.normal(0, 10, (count, 3)) * chance.choice([0, 1, 1000], (count, 1))
    score = chance.random(count).astype(np.float32)
    found = lifted(screened(vectors.astype(np.float16), score), StandingSettings(standing_out=weight)).score
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()
