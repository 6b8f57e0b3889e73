"""Which frame stands for a context, and that time rules go by it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dice_ce.bundle import Settings
from dice_ce.condenser import CondenserConfig
from dice_ce.converger import ConvergerConfig
from dice_ce.frames import FrameTable
from dice_ce.keyframes import Keyframes, medoid
from dice_ce.pipeline import judge_contexts
from dice_ce.selector import Candidates
from dice_ce.weaver import Context

PRECISIONS = (np.float16, np.float32, np.float64)
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
    contexts = [Context(0, 0, np.arange(3)), Context(0, 1, np.array([3]))]
    distributions = np.array([ULCER, ULCER, ULCER, POLYP])
    keyframes = Keyframes(candidates)

    def judged(**rules: float) -> list[tuple[str, float]]:
        chosen = Settings(converger=ConvergerConfig(), condenser=CondenserConfig(**rules))  # type: ignore[arg-type]
        found = judge_contexts(contexts, keyframes, distributions, 2, chosen)
        return [(one.verdict, keyframes.seconds(one)) for one in found]

    assert judged(rival_seconds=19.0) == [("kept", 100.0), ("kept", 120.0)]
    assert judged(rival_seconds=20.0) == [("kept", 100.0), ("outranked", 120.0)]

    distributions[3] = ULCER
    assert len(judged(repeat_seconds=19.0)) == 2
    assert judged(repeat_seconds=20.0) == [("kept", 100.0)]
