"""Signed ranks against enumeration and published values, Holm by hand, intervals against a plain loop."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.benchmark.significance import (
    MOST_EXACT,
    doubled_ranks,
    exact_p,
    holm,
    interval,
    normal_p,
    quotients,
    resample,
    resampled_quotients,
    signed_rank,
)

NAN = float("nan")


def enumerated_p(differences: list[float]) -> float:
    """Try all signs of the ranks; ranks of equal sizes are averaged."""
    sizes = [abs(d) for d in differences if d]
    ranks = [sum(other < size for other in sizes) + (sizes.count(size) + 1) / 2 for size in sizes]
    observed = sum(rank for rank, d in zip(ranks, (d for d in differences if d), strict=True) if d > 0)
    distance = abs(observed - sum(ranks) / 2)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    return sum(abs(total - sum(ranks) / 2) >= distance - 1e-9 for total in sums) / len(sums)


def p_of(differences: list[float]) -> float:
    result = signed_rank(np.array(differences, np.float64), np.zeros(len(differences)))
    assert result.p is not None
    return result.p


# --- Wilcoxon ------------------------------------------------------------------------------------------------------


def test_six_differences_of_one_sign_have_two_chances_in_64() -> None:
    assert p_of([1, 2, 3, 4, 5, 6]) == pytest.approx(2 / 64)
    assert p_of([-1, -2, -3, -4, -5, -6]) == pytest.approx(2 / 64)


def test_the_rank_sum_1_has_four_chances_in_64() -> None:
    # Sums 0 and 1 can each be made in one way, on either side.
    assert p_of([-1, 2, 3, 4, 5, 6]) == pytest.approx(4 / 64)


def test_darwins_maize_has_the_published_p() -> None:
    # Cross- and self-fertilised plants (Darwin 1876), differences in eighths of an inch: T = 24, n = 15.
    differences = [49.0, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert p_of(differences) == pytest.approx(0.04126, abs=5e-6)
    assert p_of(differences) == pytest.approx(enumerated_p(differences))


@given(st.lists(st.integers(-5, 5), min_size=6, max_size=9))
def test_the_exact_p_is_that_of_enumeration_with_ties_and_zeros(differences: list[int]) -> None:
    result = signed_rank(np.array(differences, np.float64), np.zeros(len(differences)))
    assert result.n == len(differences)
    assert result.nonzero == sum(d != 0 for d in differences)
    if result.nonzero:
        assert result.how == "exact"
        assert result.p == pytest.approx(enumerated_p([float(d) for d in differences]))


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=30))
def test_the_test_is_two_sided(differences: list[float]) -> None:
    values, zero = np.array(differences), np.zeros(len(differences))
    assert signed_rank(values, zero) == signed_rank(zero, values)


def test_all_equal_has_p_1() -> None:
    result = signed_rank(np.full(6, 0.25), np.full(6, 0.25))
    assert (result.n, result.nonzero, result.p, result.how) == (6, 0, 1.0, "all equal")


def test_fewer_than_six_patients_are_insufficient_even_if_all_are_equal() -> None:
    for values in (np.arange(5.0) + 1, np.zeros(5)):
        result = signed_rank(values, np.zeros(5))
        assert (result.n, result.p, result.how) == (5, None, "insufficient")


def test_only_patients_with_both_values_are_paired() -> None:
    one = np.array([1.0, 2, 3, 4, 5, 6, 7, NAN])
    two = np.array([0.0, 0, 0, 0, 0, 0, NAN, 0])
    result = signed_rank(one, two)
    assert result.n == 6
    assert result.p == pytest.approx(2 / 64)


def test_differences_that_are_equal_but_for_rounding_are_ties() -> None:
    one, two = np.array([1 / 2, 1 / 3, 0.3, 0.1 + 0.2, 1, 1]), np.array([1 / 3, 1 / 6, 0.3, 0.3, 1, 1])
    assert 1 / 2 - 1 / 3 != 1 / 3 - 1 / 6
    result = signed_rank(one, two)
    assert result.nonzero == 2
    assert result.p == pytest.approx(0.5)


def test_ranks_are_shared_by_equal_values() -> None:
    assert doubled_ranks(np.array([3.0, 1, 3, 2, 3])).tolist() == [8, 2, 8, 4, 8]


def test_many_differences_use_the_normal_approximation_and_say_so() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.1, 1, MOST_EXACT + 1)
    result = signed_rank(values, np.zeros(len(values)))
    assert result.how == "normal approximation"
    ranks = doubled_ranks(np.abs(values))
    positive = int(ranks[values > 0].sum())
    assert result.p == normal_p(ranks, positive)
    assert result.p == pytest.approx(exact_p(ranks, positive), rel=0.01)


def test_the_normal_approximation_by_hand() -> None:
    # n = 10, W+ = 5: z = (|5 - 27.5| - 0.5) / sqrt(10 * 11 * 21 / 24).
    ranks = 2 * np.arange(1, 11)
    z = 22 / math.sqrt(96.25)
    assert normal_p(ranks, 10) == pytest.approx(math.erfc(z / math.sqrt(2)))
    # Ties: the variance is less by (t^3 - t) / 48 for each group of t.
    tied = doubled_ranks(np.array([1.0, 2, 2, 2, 5, 6, 7, 8, 9, 10]))
    z = 22 / math.sqrt(96.25 - (3**3 - 3) / 48)
    assert normal_p(tied, 10) == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_a_rank_sum_in_the_middle_has_p_1() -> None:
    assert exact_p(np.array([2, 4, 6]), 6) == 1
    assert normal_p(np.array([2, 4, 6]), 6) == 1


# --- Holm ----------------------------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_holm_leaves_out_tests_that_were_not_made() -> None:
    adjusted = holm([None, 0.01, None, 0.04])
    assert adjusted[0] is adjusted[2] is None
    assert adjusted[1::2] == pytest.approx([0.02, 0.04])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_never_lowers_a_p(chances: list[float]) -> None:
    adjusted = [p for p in holm(chances) if p is not None]
    assert len(adjusted) == len(chances)
    for (p, a), (q, b) in itertools.product(zip(chances, adjusted, strict=True), repeat=2):
        assert p <= a <= 1
        assert p > q or a <= b


# --- intervals -----------------------------------------------------------------------------------------------------


def test_every_resample_draws_as_many_patients_as_there_are() -> None:
    weights = resample(["a", "b", "c"], 500, seed=1)
    assert weights.shape == (500, 3)
    assert (weights.sum(axis=1) == 3).all()
    assert weights.mean(axis=0) == pytest.approx([1, 1, 1], abs=0.15)


def test_exams_of_one_patient_are_drawn_together() -> None:
    weights = resample(["b", "a", "a", "b"], 200)
    assert (weights[:, 0] == weights[:, 3]).all()
    assert (weights[:, 1] == weights[:, 2]).all()
    assert (weights[:, 0] + weights[:, 1] == 2).all()
    assert set(weights[:, 1]) == {0, 1, 2}


def test_the_same_seed_draws_the_same() -> None:
    assert np.array_equal(resample(list("abcd"), 50, 7), resample(list("abcd"), 50, 7))
    assert not np.array_equal(resample(list("abcd"), 50, 7), resample(list("abcd"), 50, 8))


def test_resampling_is_adding_up_what_was_drawn() -> None:
    top, bottom = np.array([1.0, 0, 3]), np.array([2.0, 0, 4])
    weights = resample(list("abc"), 100)
    values = resampled_quotients(weights, top, bottom)
    for row, value in zip(weights.astype(int), values, strict=True):
        above = sum(top[k] for k in range(3) for _ in range(row[k]))
        below = sum(bottom[k] for k in range(3) for _ in range(row[k]))
        assert value == pytest.approx(above / below) if below else math.isnan(value)


def test_an_interval_is_made_of_the_resamples_where_the_figure_is_defined() -> None:
    assert interval(np.append(np.arange(101.0), [NAN] * 50)) == pytest.approx((2.5, 97.5))
    assert all(math.isnan(end) for end in interval(np.array([NAN, NAN])))
    assert all(math.isnan(end) for end in interval(np.array([])))


def test_the_interval_of_a_proportion_is_about_what_the_binomial_says() -> None:
    hits = np.array([1.0] * 30 + [0.0] * 70)
    low, high = interval(resampled_quotients(resample([str(k) for k in range(100)]), hits, np.ones(100)))
    error = 1.96 * math.sqrt(0.3 * 0.7 / 100)
    assert (low, high) == pytest.approx((0.3 - error, 0.3 + error), abs=0.02)


@pytest.mark.parametrize("patients", [[], ["a"], ["a", "a", "a"]])
def test_fewer_than_two_patients_give_no_interval(patients: list[str]) -> None:
    ones = np.ones(len(patients))
    assert all(math.isnan(end) for end in interval(resampled_quotients(resample(patients), ones, ones)))


def test_quotients_are_not_defined_over_zero() -> None:
    assert quotients(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist() == pytest.approx([0.5, NAN], nan_ok=True)
