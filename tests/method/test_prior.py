"""What an exam shows often is likelier to be what a doubtful frame shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dice_ce.method.beyond.prior import PriorSettings, adapt

NORMAL = 2
SURE = np.ones(4, np.float32)


def rows(*frames: list[float]) -> np.ndarray:
    return np.array(frames, np.float32)


def test_without_strength_nothing_changes() -> None:
    p = rows([0.5, 0.3, 0.2])
    assert adapt(p, SURE[:1], NORMAL, PriorSettings()) is p


def test_a_doubtful_frame_follows_the_sure_ones_and_normal_stays() -> None:
    p = rows([0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.42, 0.38, 0.2])
    adapted = adapt(p, SURE, NORMAL, PriorSettings(1.0))
    assert p[3].argmax() == 0
    assert adapted[3].argmax() == 1
    np.testing.assert_allclose(adapted[:, NORMAL], p[:, NORMAL], atol=1e-6)
    np.testing.assert_allclose(adapted.sum(axis=1), 1, atol=1e-6)


def test_only_suspicious_frames_say_what_the_exam_shows() -> None:
    p = rows([0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.4, 0.42, 0.18])
    score = np.array([0.5, 0.5, 0.95, 0.5], np.float32)
    assert adapt(p, score, NORMAL, PriorSettings(1.0))[3].argmax() == 0
    assert adapt(p, np.full(4, 0.5, np.float32), NORMAL, PriorSettings(1.0))[3].argmax() == 1


def test_frequencies_by_hand() -> None:
    """One frame, two lesions in the ratio 3 : 1. Fully believed, each round multiplies the ratio by 3 anew."""
    p = rows([0.6, 0.2, 0.2])
    weight = np.array([0.75, 0.25])
    prior = np.ones(2)
    for _ in range(5):
        said = weight * prior / (weight * prior).sum()
        prior = said + 1e-3
    expected = 0.8 * weight * prior / (weight * prior).sum()
    np.testing.assert_allclose(adapt(p, SURE[:1], NORMAL, PriorSettings(1.0))[0, :2], expected, rtol=1e-5)


@pytest.mark.parametrize("p", [rows([0.0, 0.0, 1.0]), np.empty((0, 3), np.float32)])
def test_exams_without_any_lesion_are_left_alone(p: np.ndarray) -> None:
    np.testing.assert_array_equal(adapt(p, SURE[: len(p)], NORMAL, PriorSettings(0.5)), p)


@given(
    hnp.arrays(np.float32, (6, 4), elements=st.floats(0.0078125, 1, width=32)),
    hnp.arrays(np.float32, 6, elements=st.floats(0, 1, width=32)),
    st.floats(0, 1),
)
@settings(deadline=None)
def test_distributions_stay_distributions(p: np.ndarray, score: np.ndarray, strength: float) -> None:
    p = p / p.sum(axis=1, keepdims=True)
    adapted = adapt(p, score, 3, PriorSettings(strength))
    assert (adapted >= 0).all()
    np.testing.assert_allclose(adapted.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(adapted[:, 3], p[:, 3], atol=1e-6)
