"""The selection rules of the baselines, by hand and by property."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.benchmark.baselines.aks import AksSettings, Segment, choose_aks, quotas, split
from dice_ce.benchmark.baselines.pool import Pool
from dice_ce.benchmark.baselines.simple import RandomSettings, choose_random, choose_top, choose_uniform
from dice_ce.benchmark.baselines.vilamp import VilampSettings, choose_different, choose_vilamp, pad, unselected_runs
from dice_ce.types import Ints

RULES = (choose_uniform, choose_random, choose_top, choose_aks, choose_vilamp)


def pool(scores: list[float], vectors: np.ndarray | None = None) -> Pool:
    return Pool(np.array(scores, np.float32), np.eye(len(scores)) if vectors is None else vectors)


pools = st.integers(0, 200).flatmap(
    lambda n: st.builds(
        lambda seed, levels: Pool(
            (np.random.default_rng(seed).integers(0, levels, n) / levels).astype(np.float32),
            np.random.default_rng(seed + 1).normal(size=(n, 4)),
        ),
        st.integers(0, 10**6),
        st.integers(1, 50),
    )
)


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None, max_examples=60)
@given(frames=pools, budget=st.integers(1, 40))
def test_every_rule_chooses_different_frames_in_time_order_and_uses_its_budget(
    rule: Callable[..., Ints], frames: Pool, budget: int
) -> None:
    chosen = rule(frames, budget)
    assert (np.diff(chosen) > 0).all()
    assert len(chosen) == min(budget, len(frames))
    assert not len(chosen) or (chosen[0] >= 0 and chosen[-1] < len(frames))
    np.testing.assert_array_equal(chosen, rule(frames, budget))


def test_uniform_takes_the_middle_of_equal_stretches() -> None:
    assert choose_uniform(pool([0.0] * 12), 3).tolist() == [2, 6, 10]


def test_top_score_breaks_ties_to_the_earlier_frame() -> None:
    assert choose_top(pool([0.5, 0.9, 0.5, 0.5]), 2).tolist() == [0, 1]


def test_random_depends_on_its_seed_alone() -> None:
    frames = pool([0.0] * 50)
    one, two = (choose_random(frames, 5, settings=RandomSettings(seed)).tolist() for seed in (1, 2))
    assert one != two
    assert one == choose_random(pool([0.9] * 50), 5, settings=RandomSettings(1)).tolist()


def test_aks_keeps_a_sequence_with_a_clear_peak_whole() -> None:
    scores = [0.0] * 60 + [1.0] * 4
    assert choose_aks(pool(scores), 4, settings=AksSettings(peak_gap=0.8)).tolist() == [60, 61, 62, 63]


def test_aks_splits_flat_scores_evenly_down_to_its_depth() -> None:
    assert choose_aks(pool([0.5] * 16), 4, settings=AksSettings(depth=2)).tolist() == [0, 4, 8, 12]


def test_aks_splits_at_the_floor_of_the_middle() -> None:
    segments = split(np.zeros(7), 2, AksSettings(depth=1))
    assert segments == [Segment(0, 3, 1), Segment(3, 7, 1)]


def test_aks_that_never_splits_is_top_and_that_always_splits_is_binned() -> None:
    scores = [i / 64 for i in range(64)]
    assert choose_aks(pool(scores), 8, settings=AksSettings(depth=0)).tolist() == list(range(56, 64))
    binned = choose_aks(pool(scores), 8, settings=AksSettings(peak_gap=2.0, depth=3))
    assert binned.tolist() == [7, 15, 23, 31, 39, 47, 55, 63]


def test_aks_gives_what_rounding_loses_to_the_largest_remainders() -> None:
    segments = [Segment(0, 50, 2), Segment(50, 100, 2), Segment(100, 200, 1)]
    assert quotas(segments, 7) == [2, 2, 3]  # shares 1.75, 1.75, 3.5
    assert sum(quotas(segments, 10)) == 10


def test_aks_uses_each_video_s_own_range_of_scores() -> None:
    low = [0.01 * (i % 7) for i in range(64)]
    high = [0.5 + value for value in low]
    assert choose_aks(pool(low), 8).tolist() == choose_aks(pool(high), 8).tolist()


def test_vilamp_passes_over_frames_that_look_like_a_chosen_one() -> None:
    vectors = np.array([[1, 0], [0.99, 0.01], [0, 1], [-1, 0]], float)
    different = choose_different(pool([0.9, 0.8, 0.7, 0.6], vectors), 3, VilampSettings(alike=0.85))
    assert different.tolist() == [0, 2, 3]


def test_vilamp_stops_at_its_floor() -> None:
    assert choose_different(pool([0.9, 0.2, 0.8]), 3, VilampSettings(floor=0.5)).tolist() == [0, 2]


@given(frames=pools, alike=st.floats(0.0, 0.99))
def test_vilamp_s_relevant_frames_never_look_alike(frames: Pool, alike: float) -> None:
    chosen = choose_different(frames, 32, VilampSettings(alike=alike))
    unit = frames.vectors[chosen] / np.linalg.norm(frames.vectors[chosen], axis=1, keepdims=True)
    cosine = unit @ unit.T - 2 * np.eye(len(chosen))
    assert (cosine <= alike + 1e-5).all()


def test_gaps_are_the_maximal_runs_that_were_not_chosen() -> None:
    assert unselected_runs(np.array([0, 3, 4, 9]), 10) == [(1, 3), (5, 9)]
    assert unselected_runs(np.array([], np.int64), 3) == [(0, 3)]


def test_padding_by_hand() -> None:
    # Gaps of 4 and 9 frames, 3 missing: D = 3 gives ceil(4/3)-1 + ceil(9/3)-1 = 1 + 2 = 3. Steps 2 and 3.
    assert pad(np.array([4]), 14, 4).tolist() == [2, 4, 8, 11]


def test_what_is_still_missing_after_padding_comes_from_the_end() -> None:
    # One gap of 6. Two missing: D = 2 gives 2, at 1 + 2 and 1 + 4. Three missing: one more from the end.
    assert pad(np.array([0]), 7, 3).tolist() == [0, 3, 5]
    assert pad(np.array([0]), 7, 4).tolist() == [0, 3, 5, 6]


def test_vilamp_returns_everything_when_there_is_no_more_than_the_budget() -> None:
    assert choose_vilamp(pool([0.1, 0.2, 0.3]), 3).tolist() == [0, 1, 2]
