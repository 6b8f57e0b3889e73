import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.errors import InputError
from dice_ce.exam.clock import ExamClock
from dice_ce.exam.frames import FrameTable
from dice_ce.features.store import ExtractionReport, Features
from dice_ce.method.selector import (
    Candidates,
    Head,
    Screened,
    SelectorSettings,
    candidate_rows,
    gelu,
    score_vectors,
    screen,
    select,
    sigmoid,
)

REPORT = ExtractionReport(0, 0, 0, (), 0, 0.0)


def head(d: int = 4, hidden: int = 3, outputs: int = 1, seed: int = 0) -> Head:
    rng = np.random.default_rng(seed)
    shapes = [(d,), (d,), (d, hidden), (hidden,), (hidden, outputs), (outputs,)]
    return Head(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))


def features(vectors: np.ndarray, index: list[int] | None = None) -> Features:
    places = np.array(index if index is not None else range(len(vectors)), np.int64)
    table = FrameTable(places, places, Fraction(1, 25))
    return Features(table, vectors.astype(np.float16), np.ones(len(vectors), np.bool_), "e", "0" * 64, REPORT)


def test_a_head_is_layer_norm_linear_gelu_linear() -> None:
    torch = pytest.importorskip("torch")
    ours = head(d=6, hidden=5, outputs=3)
    norm, first, second = torch.nn.LayerNorm(6), torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)
    with torch.no_grad():
        for parameter, value in (
            (norm.weight, ours.scale),
            (norm.bias, ours.shift),
            (first.weight, ours.weight1.T),
            (first.bias, ours.bias1),
            (second.weight, ours.weight2.T),
            (second.bias, ours.bias2),
        ):
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))
        x = np.random.default_rng(1).normal(size=(7, 6)).astype(np.float32)
        network = torch.nn.Sequential(norm, first, torch.nn.GELU(approximate="tanh"), second)
        assert np.allclose(network(torch.from_numpy(x)).numpy(), ours(x), atol=1e-5)


def test_sigmoid_and_gelu_by_hand() -> None:
    assert sigmoid(np.float32([0, 100, -100])).tolist() == pytest.approx([0.5, 1, 0])
    assert gelu(np.float32([0, 10, -10])).tolist() == pytest.approx([0, 10, 0], abs=1e-5)


def test_scores_lie_between_0_and_1_for_every_frame() -> None:
    some = features(np.random.default_rng(0).normal(size=(5000, 4)) * 100)
    score = score_vectors(some.vectors, head())
    assert score.shape == (5000,)
    assert score.min() >= 0
    assert score.max() <= 1
    clock = ExamClock(np.arange(5000), Fraction(1), "options", "")
    np.testing.assert_array_equal(screen(some, head(), clock).score, score)


def screened(score: list[float]) -> Screened:
    """Four frames of ten, of which the others could not be decoded, with scores that are given."""
    clock = ExamClock(np.arange(10) * 3, Fraction(1, 2), "options", "")
    frames = screen(features(np.eye(4), index=[0, 2, 3, 7]), head(), clock)
    return dataclasses.replace(frames, score=np.float32(score))


def test_candidates_are_the_frames_at_or_above_the_threshold_with_their_exam_times() -> None:
    chosen = select(screened([0.4, 0.5, 0.6, 0.49]), SelectorSettings(tau_s=0.5))
    assert isinstance(chosen, Candidates)
    assert chosen.frames.index.tolist() == [2, 3]
    assert chosen.seconds.tolist() == [3.0, 4.5]
    assert chosen.score.tolist() == pytest.approx([0.5, 0.6])
    assert np.array_equal(chosen.vectors, np.eye(4)[1:3])


def test_no_candidate_is_no_error() -> None:
    assert len(select(screened([0.0] * 4), SelectorSettings())) == 0


def test_screened_frames_can_be_sliced_and_stay_what_they_are() -> None:
    whole = screened([0.1, 0.2, 0.3, 0.4])
    for frames in (whole, select(whole, SelectorSettings(tau_s=0.0))):
        some = frames[np.array([1, 3])]
        assert type(some) is type(frames)
        assert some.frames.index.tolist() == [2, 7]
        assert some.seconds.tolist() == [3.0, 10.5]
        assert some.score.tolist() == pytest.approx([0.2, 0.4])
        assert np.array_equal(some.vectors, np.eye(4)[[1, 3]])
        assert len(frames[np.empty(0, np.int64)]) == 0


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"equal length, got \[3, 4\]"):
        screened([0.1, 0.2, 0.3])


def test_features_of_another_encoder_are_refused() -> None:
    with pytest.raises(InputError, match="expected features of 4 numbers, got 5"):
        head()(np.zeros((1, 5), np.float32))


def test_weights_that_do_not_fit_or_are_not_finite_are_refused() -> None:
    good = head()
    with pytest.raises(InputError, match="expected bias1 of shape"):
        Head(good.scale, good.shift, good.weight1, good.bias1[:1], good.weight2, good.bias2)
    with pytest.raises(InputError, match="not finite"):
        Head(good.scale * np.nan, good.shift, good.weight1, good.bias1, good.weight2, good.bias2)


def test_weights_read_back_as_they_were_stored() -> None:
    good = head()
    again = Head.from_arrays(good.arrays("x"), "x")
    assert all(np.array_equal(a, b) for a, b in zip(good.arrays("x").values(), again.arrays("x").values(), strict=True))
    with pytest.raises(InputError, match=r"the weights have no 'y\.scale'"):
        Head.from_arrays(good.arrays("x"), "y")


def chosen_rows(score: np.ndarray, tau_s: float, share: float = 1.0) -> np.ndarray:
    return candidate_rows(score, SelectorSettings(tau_s, share))


def test_a_share_of_the_frames_keeps_the_highest_scores() -> None:
    score = np.linspace(0, 1, 101, dtype=np.float32)
    assert chosen_rows(score, 0.5).tolist() == list(range(50, 101))
    assert chosen_rows(score, 0.5, 0.8).tolist() == list(range(50, 101))
    assert chosen_rows(score, 0.5, 0.1).tolist() == list(range(90, 101))
    assert len(chosen_rows(score, 0.0, 0.25)) == 26
    assert chosen_rows(score[::-1], 0.5, 0.02).tolist() == [0, 1, 2]
    assert len(chosen_rows(np.empty(0, np.float32), 0.5, 0.1)) == 0
    assert len(chosen_rows(score, 0.5, 0.0)) == 0


def test_ties_at_the_border_are_cut_evenly_over_the_exam() -> None:
    """Ninety of a hundred scores are saturated: a tenth of them are candidates, from all parts of the exam."""
    score = np.full(100, 1.0, np.float32)
    score[::10] = 0.2
    chosen = chosen_rows(score, 0.5, 0.1)
    assert len(chosen) == 10
    assert {row // 10 for row in chosen.tolist()} == set(range(10))
    score[[3, 4]] = 0.7
    assert chosen_rows(score, 0.5, 0.9).tolist() == np.flatnonzero(score >= 0.5).tolist()
    tied = np.float32([0.9, 0.6, 0.6, 0.8, 0.6, 0.6, 0.6])
    assert chosen_rows(tied, 0.5, 3 / 7).tolist() == [0, 3, 4]


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, float("nan")]), max_size=300),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_share_is_a_share(scores: list[float], tau_s: float, share: float) -> None:
    score = np.array(scores, np.float32)
    enough, chosen = np.flatnonzero(score >= tau_s), chosen_rows(score, tau_s, share)
    assert (np.diff(chosen) > 0).all()
    assert set(chosen) <= set(enough)
    assert len(chosen) == min(len(enough), math.ceil(round(share * len(score), 6)))
    left_out = np.setdiff1d(enough, chosen)
    if len(chosen) and len(left_out):
        assert score[chosen].min() >= score[left_out].max()


@pytest.mark.parametrize(("share", "count", "most"), [(0.07, 100, 7), (0.29, 100, 29), (0.1, 8000, 800), (0.1, 5, 1)])
def test_a_share_is_rounded_up_but_not_by_rounding_errors(share: float, count: int, most: int) -> None:
    assert len(chosen_rows(np.ones(count, np.float32), 0.5, share)) == most
