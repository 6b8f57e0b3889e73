"""Figures of single frames, by hand."""

import numpy as np
import pytest

from dice_ce.benchmark.frames import (
    balanced_accuracy,
    calibration_error,
    confusion,
    measure_reliability,
    patient_spread,
    roc_auc,
    selector_figures,
)
from dice_ce.method.reliability import NOT_MEASURED, Reliability


def test_the_selector_s_figures_by_hand() -> None:
    score = np.array([0.9, 0.8, 0.7, 0.2, 0.6, 0.1])
    abnormal = np.array([1, 1, 0, 1, 0, 0], bool)
    figures = selector_figures(score, abnormal, np.array(list("aabbcc")), 0.5)
    assert figures.recall.value == pytest.approx(2 / 3)
    assert figures.precision.value == pytest.approx(2 / 4)
    assert figures.accuracy.value == pytest.approx(3 / 6)
    assert figures.f1.value == pytest.approx(4 / 7)
    assert figures.recall.low <= figures.recall.value <= figures.recall.high


def test_the_area_under_the_curve_counts_pairs_and_halves_ties() -> None:
    assert roc_auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1, 1, 0, 0], bool)) == pytest.approx(3.5 / 4)
    assert np.isnan(roc_auc(np.array([0.9]), np.array([True])))


def test_intervals_come_from_cases_and_not_from_frames() -> None:
    """A case of a hundred equal frames is one observation."""
    abnormal = np.ones(200, bool)
    score = np.repeat([0.9, 0.1], 100)
    figures = selector_figures(score, abnormal, np.repeat(["a", "b"], 100), 0.5)
    assert (figures.recall.low, figures.recall.high) == (0.0, 1.0)


def test_a_frame_with_several_labels_is_right_if_one_of_them_is_said() -> None:
    truth = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
    said = np.array([1, 2, 2])
    np.testing.assert_array_equal(confusion(said, truth, 3), [[0, 0, 1], [0, 1, 0], [0, 0, 1]])
    assert balanced_accuracy(said, truth, np.array(list("abc"))).value == pytest.approx((0 + 1 + 1) / 3)


def test_reliability_counts_every_label_that_a_frame_shows() -> None:
    truth = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]], bool)
    said = np.array([1, 0, 2, 2, 0])
    table = measure_reliability(said, truth, np.array(list("aabcc")), ("ulcer", "polyp", "normal", "parasite"))
    assert table == {
        "ulcer": Reliability.of_counts(3, 2, 2, 1, (0.0, 0.5), (0.0, 1.0)),  # found in 1 of 2 frames of a, in none of b
        "polyp": Reliability.of_counts(1, 1, 1, 1),  # of one case, which says nothing about others
        "normal": Reliability.of_counts(2, 1, 2, 1, None, (0.0, 1.0)),
        "parasite": NOT_MEASURED,
    }


def test_labels_that_do_not_occur_are_not_averaged() -> None:
    truth = np.array([[1, 0, 0], [1, 0, 0]], bool)
    assert balanced_accuracy(np.array([0, 1]), truth, np.array(["a", "b"])).value == pytest.approx(0.5)


def test_the_calibration_error_is_the_gap_between_sure_and_right() -> None:
    confidence = np.array([0.9] * 10 + [0.6] * 10)
    right = np.array([1] * 9 + [0] + [1] * 2 + [0] * 8, bool)
    assert calibration_error(confidence, right) == pytest.approx((0 * 10 + 0.4 * 10) / 20)


def test_every_case_is_measured_by_itself_and_few_frames_say_nothing() -> None:
    """Two people whose normal frames pass or not; the same threshold means something else on each."""
    cases = np.repeat(["calm", "busy", "short"], [20, 20, 5])
    abnormal = np.tile([True, False], 23)[:45]
    score = np.where(abnormal, 0.9, np.where(cases == "busy", 0.6, 0.1))
    normal = np.where(cases == "calm", 0.5, 0.9)
    spread = patient_spread(score, normal, abnormal, cases, 0.5)
    assert spread.lesions == (1.0, 1.0)
    assert spread.normals == (1.0, 0.0)
    assert spread.excess == pytest.approx((0.4, 0.0))
    assert spread.columns() == ("2", "1.00, 1.00, 1.00", "2", "0.00, 0.50, 1.00", "2", "0.00, 0.20, 0.40")
    nobody = patient_spread(score[:0], normal[:0], abnormal[:0], cases[:0], 0.5)
    assert nobody.columns() == ("0", "–", "0", "–", "0", "–")
