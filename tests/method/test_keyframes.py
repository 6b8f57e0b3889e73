"""Which frame stands for a context, and that time rules go by it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dice_ce.exam.frames import FrameTable
from dice_ce.method.beyond.listing import ListingSettings
from dice_ce.method.chain import Diagnosed, Woven
from dice_ce.method.converger import ConvergerSettings, converge
from dice_ce.method.keyframes import Keyframes, medoid
from dice_ce.method.pipeline import judge_contexts
from dice_ce.method.selector import Candidates
from dice_ce.method.settings import Settings
from dice_ce.method.weaver import Context
from dice_ce.taxonomy import Taxonomy

PRECISIONS = (np.float16, np.float32, np.float64)
LABELS = Taxonomy("three", ("ulcer", "polyp", "normal"))
ULCER, POLYP, NORMAL = np.eye(3, dtype=np.float32)


def test_the_medoid_is_the_most_typical_frame_and_the_earliest_of_equals() -> None:
    assert medoid(np.array([[1.0, 0], [1, 0.1], [1, 0.2]])) == 1
    assert medoid(np.array([[1.0, 0], [2, 0], [0, 1]])) == 0
    assert medoid(np.array([[0.0, 3]])) == 0


@given(hnp.arrays(np.float32, (7, 5), elements=st.floats(0.125, 1, width=32)))
def test_the_medoid_has_the_least_summed_cosine_distance(vectors: np.ndarray) -> None:
    units = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    total = (1 - units @ units.T).sum(axis=1)
    assert total[medoid(vectors)] == pytest.approx(total.min(), abs=2e-9)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("dim", [2, 48, 1280])
def test_of_two_frames_the_first_is_the_medoid(dim: int, scale: float, precision: type) -> None:
    """Both are equally far from each other, whatever rounding says."""
    rng = np.random.default_rng(dim)
    for _ in range(100):
        pair = (rng.normal(size=(2, dim)) * scale * rng.uniform(0.1, 1, (2, 1))).clip(-6e4, 6e4)
        assert medoid(pair.astype(precision)) == 0


def test_a_frame_of_which_nothing_is_known_is_as_far_from_the_other_as_the_other_from_it() -> None:
    assert medoid(np.array([[0.0, 0], [1, 2]])) == 0
    assert medoid(np.array([[1.0, 2], [0, 0]])) == 0
    assert medoid(np.zeros((3, 2))) == 0


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 40), st.sampled_from(PRECISIONS))
def test_of_frames_that_are_the_same_the_first_is_the_medoid(
    seed: int, different: int, copies: int, precision: type
) -> None:
    rng = np.random.default_rng(seed)
    kinds = (rng.normal(size=(different, 64)) * 10 ** rng.uniform(-2, 3)).astype(precision)
    which = rng.permutation(np.repeat(np.arange(different), copies))
    chosen = medoid(kinds[which])
    assert chosen == int(np.argmax(which == which[chosen]))


def test_contexts_are_near_each_other_if_their_keyframes_are() -> None:
    """The ulcer is seen at 0, 10 and 100 s, the last being the most typical; the polyp at 120 s."""
    vectors = np.array([[1, 0.4, 0], [1, -0.4, 0], [1, 0, 0], [0, 0, 1]], np.float32)
    index = np.arange(4)
    candidates = Candidates(
        FrameTable(index, index, Fraction(1)), np.array([0.0, 10, 100, 120]), vectors, np.ones(4, np.float32)
    )
    contexts = (Context(0, 0, np.arange(3)), Context(0, 1, np.array([3])))
    woven = Woven(candidates, contexts, Keyframes(candidates))
    diagnosed = Diagnosed(woven, np.array([ULCER, ULCER, ULCER, POLYP]), LABELS)

    def judged(apart_seconds: float) -> list[tuple[str, float]]:
        found = judge_contexts(diagnosed, Settings(listing=ListingSettings(apart_seconds=apart_seconds)))
        return [(one.verdict, candidates.seconds[found.keyframe(one)]) for one in found.judgments]

    assert judged(19.0) == [("kept", 100.0), ("kept", 120.0)]
    assert judged(20.0) == [("kept", 100.0), ("beside_surer", 120.0)]


def test_a_keyframe_is_a_supporting_frame_and_follows_what_was_retained() -> None:
    """The middle frame is the most typical of three; of the first two it is the first."""
    vectors = np.array([[1, 0.0], [1, 0.1], [1, 0.2]], np.float32)
    index = np.arange(3)
    some = Candidates(FrameTable(index, index, Fraction(1)), index * 10.0, vectors, np.ones(3, np.float32))
    keyframes, whole = Keyframes(some), [Context(0, 0, index)]
    agreeing = np.array([ULCER, ULCER, ULCER])
    (all_three,) = converge(whole, agreeing, 2, ConvergerSettings())
    (first_two,) = converge(whole, np.array([ULCER, ULCER, POLYP]), 2, ConvergerSettings())
    for _ in range(2):  # the second time they are remembered
        assert (keyframes.row(all_three), keyframes.seconds(all_three)) == (1, 10.0)
        assert (keyframes.row(first_two), keyframes.seconds(first_two)) == (0, 0.0)
