import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dice_ce.method.converger import ConvergerSettings, converge, fuse, trust_best_frame
from dice_ce.method.weaver import Context

ULCER, POLYP, NORMAL = 0, 1, 2


def context(n: int, first: int = 0) -> Context:
    return Context(0, 0, np.arange(first, first + n))


def distributions(rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_fusion_refinement_and_confidence_by_hand() -> None:
    p = distributions([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.5, 0.1, 0.4]])
    judged = fuse(context(4), p, NORMAL, ConvergerSettings(tau_agree=0.5, tau_min=0.4))
    # P = (1.9, 1.4, 0.7): ulcer; frame 2 dissents; P_ref = (1.8, 0.6, 0.6)
    assert judged.evidence_before == pytest.approx([0.475, 0.35, 0.175])
    assert judged.provisional == ULCER
    assert judged.retained.tolist() == [0, 1, 3]
    assert judged.dissent.tolist() == [2]
    assert judged.evidence == pytest.approx([0.6, 0.2, 0.2])
    assert (judged.label, judged.confidence) == (ULCER, pytest.approx(0.6))
    assert (judged.runner_up, judged.margin) == (POLYP, pytest.approx(0.4))
    assert (judged.verdict, judged.fell_back) == ("kept", False)


def test_refinement_may_change_the_label() -> None:
    p = distributions([[0.4, 0.6, 0.0], [0.4, 0.6, 0.0], [0.8, 0.0, 0.2], [0.05, 0.0, 0.95]])
    judged = fuse(context(4), p, NORMAL, ConvergerSettings(tau_agree=0.3, tau_min=0.1))
    # P = (1.65, 1.2, 1.15): ulcer, supported by frames 0-2; P_ref = (1.6, 1.2, 0.2)
    assert judged.label == ULCER
    p = distributions([[0.45, 0.55, 0.0], [0.45, 0.55, 0.0], [0.3, 0.0, 0.7]])
    judged = fuse(context(3), p, NORMAL, ConvergerSettings(tau_agree=0.4, tau_min=0.1))
    # P = (1.2, 1.1, 0.7): provisionally ulcer, but its supporters alone prefer polyp: (0.9, 1.1, 0)
    assert (judged.provisional, judged.label) == (ULCER, POLYP)


def test_where_no_frame_agrees_all_are_kept() -> None:
    p = distributions([[0.4, 0.35, 0.25], [0.4, 0.35, 0.25]])
    judged = fuse(context(2), p, NORMAL, ConvergerSettings(tau_agree=0.5, tau_min=0.1))
    assert judged.fell_back
    assert judged.retained.tolist() == [0, 1]
    assert judged.verdict == "kept"


def test_normal_contexts_are_dropped_whatever_their_confidence() -> None:
    judged = fuse(context(1), distributions([[0.0, 0.01, 0.99]]), NORMAL, ConvergerSettings())
    assert judged.verdict == "normal"


def test_doubtful_contexts_are_dropped() -> None:
    p = distributions([[0.5, 0.25, 0.25]])
    assert fuse(context(1), p, NORMAL, ConvergerSettings(tau_agree=0.1, tau_min=0.51)).verdict == "low_confidence"
    assert fuse(context(1), p, NORMAL, ConvergerSettings(tau_agree=0.1, tau_min=0.5)).verdict == "kept"


def test_ties_go_to_the_lowest_label() -> None:
    lenient = ConvergerSettings(tau_agree=0.1, tau_min=0.1)
    assert fuse(context(1), distributions([[0.4, 0.4, 0.2]]), NORMAL, lenient).label == ULCER


def test_in_the_ablation_the_single_most_confident_frame_decides() -> None:
    p = distributions([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    anything, doubtful = ConvergerSettings(tau_min=0.0), distributions([[0.4, 0.3, 0.3]])
    judged = trust_best_frame(context(3), p, NORMAL, anything)
    assert (judged.label, judged.retained.tolist(), judged.dissent.tolist()) == (POLYP, [2], [0, 1])
    assert (judged.provisional, judged.verdict, judged.fell_back) == (ULCER, "kept", False)
    assert judged.confidence == pytest.approx(0.8)
    assert trust_best_frame(context(1), distributions([[0.1, 0.0, 0.9]]), NORMAL, anything).verdict == "normal"
    assert trust_best_frame(context(1), doubtful, NORMAL, anything).verdict == "kept"
    strict = ConvergerSettings(tau_min=0.5)
    assert trust_best_frame(context(1), doubtful, NORMAL, strict).verdict == "low_confidence"


def test_the_setting_says_whether_all_frames_speak_or_the_best_one() -> None:
    p = distributions([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    (fused,) = converge([context(3)], p, NORMAL, ConvergerSettings())
    (best,) = converge([context(3)], p, NORMAL, ConvergerSettings(evidence="best-frame"))
    assert (fused.label, best.label) == (ULCER, POLYP)


some_distributions = hnp.arrays(np.float32, (12, 4), elements=st.floats(1 / 64, 1, width=32)).map(
    lambda raw: raw / raw.sum(axis=1, keepdims=True)
)
contexts = [Context(0, 0, np.arange(0, 5)), Context(0, 1, np.arange(5, 6)), Context(1, 0, np.arange(6, 12))]


@settings(deadline=None)
@given(p=some_distributions, tau_agree=st.floats(0, 1), tau_min=st.floats(0, 1))
def test_refinement_is_never_empty_and_splits_the_context(p: np.ndarray, tau_agree: float, tau_min: float) -> None:
    for judged in converge(contexts, p, 3, ConvergerSettings(tau_agree=tau_agree, tau_min=tau_min)):
        assert len(judged.retained) > 0
        assert sorted([*judged.retained, *judged.dissent]) == judged.context.rows.tolist()
        assert judged.evidence.sum() == pytest.approx(1)
        assert judged.margin >= 0


@settings(deadline=None)
@given(p=some_distributions, tau_agree=st.floats(0, 1), low=st.floats(0, 1), high=st.floats(0, 1))
def test_raising_tau_min_never_adds_items(p: np.ndarray, tau_agree: float, low: float, high: float) -> None:
    low, high = sorted((low, high))

    def kept(tau_min: float) -> set[int]:
        judgments = converge(contexts, p, 3, ConvergerSettings(tau_agree=tau_agree, tau_min=tau_min))
        return {i for i, judged in enumerate(judgments) if judged.verdict == "kept"}

    assert kept(high) <= kept(low)


@settings(deadline=None)
@given(p=some_distributions, tau_agree=st.floats(0, 1))
def test_a_retained_context_reaches_tau_agree_unless_it_fell_back(p: np.ndarray, tau_agree: float) -> None:
    for judged in converge(contexts, p, 3, ConvergerSettings(tau_agree=tau_agree, tau_min=0)):
        assert judged.fell_back or judged.confidence >= tau_agree - 1e-6


@settings(deadline=None)
@given(p=some_distributions, tau_agree=st.floats(0.51, 1))
def test_above_one_half_the_refined_label_is_the_provisional_one(p: np.ndarray, tau_agree: float) -> None:
    for judged in converge(contexts, p, 3, ConvergerSettings(tau_agree=tau_agree, tau_min=0)):
        assert judged.label == judged.provisional
