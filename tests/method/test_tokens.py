import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.method.tokens import TokenSettings, time_steps, token_halves, unit_length, weigh


def embed_times(steps: list[float], dim: int) -> np.ndarray:
    """The temporal halves of tokens."""
    return token_halves(np.ones((len(steps), dim)), np.array(steps), 1e4)[:, dim:].astype(np.float64)


def test_a_token_is_the_weighted_feature_beside_the_weighted_time() -> None:
    token = weigh(token_halves(np.array([[3.0, 4.0]]), np.array([0.0]), 1e4), 0.36)[0]
    # u = (0.6, 0.8), weighted by sqrt(0.36); e = (sin 0, cos 0) = (0, 1), weighted by sqrt(0.64)
    assert token == pytest.approx([0.36, 0.48, 0.0, 0.8], abs=1e-6)


def test_the_temporal_embedding_by_hand() -> None:
    # d = 4: two wavelengths, of frequency 1 and 1/100; scaled to unit length by 1/sqrt(2)
    e = embed_times([1.0], 4)[0]
    assert e == pytest.approx(np.array([np.sin(1), np.sin(0.01), np.cos(1), np.cos(0.01)]) / np.sqrt(2), abs=1e-6)


@given(st.floats(0, 1), st.floats(0, 40_000), st.floats(0, 40_000), st.integers(0, 10**6))
def test_the_product_of_two_tokens_is_the_weighted_sum_of_both_likenesses(
    alpha: float, t: float, s: float, seed: int
) -> None:
    u = np.random.default_rng(seed).normal(size=(2, 64))
    v = weigh(token_halves(u, np.array([t, s]), 1e4), alpha).astype(np.float64)
    cosine = u[0] @ u[1] / np.linalg.norm(u[0]) / np.linalg.norm(u[1])
    frequency = 1e4 ** -(np.arange(32) / 32)
    kernel = np.cos((t - s) * frequency).mean()
    assert v[0] @ v[1] == pytest.approx(alpha * cosine + (1 - alpha) * kernel, abs=1e-4)
    assert np.linalg.norm(v, axis=1) == pytest.approx([1, 1], abs=1e-5)


def test_times_are_exam_seconds_so_that_the_frame_rate_does_not_matter() -> None:
    seconds, index = np.array([0.0, 60.0]), np.array([0, 120])
    assert time_steps(seconds, index, TokenSettings()).tolist() == [0, 60]
    assert time_steps(seconds, index, TokenSettings(token_unit=30)).tolist() == [0, 2]
    assert time_steps(seconds, index, TokenSettings(token_time="frame_index")).tolist() == [0, 120]


def test_nearby_times_are_more_alike_than_distant_ones() -> None:
    e = embed_times([0, 1, 10, 100, 1000, 10_000], 1280)
    likeness = e[0] @ e.T
    assert np.all(np.diff(likeness) < 0)


def test_the_longest_wavelength_outlasts_an_exam() -> None:
    e = embed_times([0, 12 * 3600], 1280)
    assert e[0] @ e[1] < 0.5
    assert 2 * np.pi * 1e4 / 3600 == pytest.approx(17.45, abs=0.01)


def test_a_zero_feature_stays_zero() -> None:
    assert unit_length(np.zeros((1, 3))).tolist() == [[0, 0, 0]]
