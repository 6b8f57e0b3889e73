"""Inconsistency and label switches by hand."""

import itertools
import math
import random

import pytest
from hypothesis import given

from dice_ce.benchmark.consistency import (
    THRESHOLDS,
    Pairs,
    count_pairs,
    pair_columns,
    spread,
    switch_distribution,
    switch_quartiles,
)
from tests.benchmark.test_match import NORMAL, POLYP, SHOTS, ULCER, Shot, selections


def pairs(*shots: Shot) -> Pairs:
    return count_pairs(selections(shots))


def test_pairs_are_consecutive_frames_up_to_an_inclusive_threshold() -> None:
    found = pairs(Shot(0, ULCER), Shot(30, POLYP), Shot(60.001, POLYP), Shot(180, ULCER), Shot(780.1, ULCER))
    # Gaps: 30 differ, 30.001 equal, 119.999 differ, 600.1 equal.
    assert dict(zip(THRESHOLDS, found.near, strict=True)) == {30: 1, 60: 2, 120: 3, 300: 3, 600: 3}
    assert dict(zip(THRESHOLDS, found.differing, strict=True)) == {30: 1, 60: 1, 120: 2, 300: 2, 600: 2}


def test_frames_that_are_not_neighbours_are_no_pair() -> None:
    assert pairs(Shot(0, ULCER), Shot(5, ULCER), Shot(10, ULCER)).near[0] == 2


def test_normal_is_a_label_and_conflicted_frames_count() -> None:
    assert pairs(Shot(0, ULCER), Shot(10, NORMAL)).differing[0] == 1


def test_label_switches_have_no_cut_off() -> None:
    found = pairs(Shot(0, ULCER), Shot(20_000, POLYP), Shot(20_001, ULCER), Shot(30_000, ULCER))
    assert found.switches == (1_000, 20_000_000)
    assert found.near == (1,) * 5


def test_fewer_than_two_frames_have_no_pairs() -> None:
    assert pairs() == pairs(Shot(0, ULCER)) == Pairs()


def test_the_mean_is_over_exams_with_a_pair_and_the_spread_is_theirs() -> None:
    half = pairs(Shot(0, ULCER), Shot(10, POLYP), Shot(20, POLYP))
    all_differ = pairs(Shot(0, ULCER), Shot(10, POLYP))
    none = pairs(Shot(0, ULCER))
    differing, near = pair_columns([half, all_differ, none], 30)
    assert (differing.tolist(), near.tolist()) == ([1, 1, 0], [2, 1, 0])
    assert spread([half, all_differ, none], 30) == pytest.approx(math.sqrt(2 * 0.25**2))
    assert math.isnan(spread([half, none], 30))
    assert math.isnan(spread([], 30))


def test_the_distribution_of_switches_by_hand() -> None:
    found = Pairs(switches=(10_000, 60_000, 60_000, 300_000))
    assert switch_distribution(found) == ([10, 60, 300], [0.25, 0.75, 1])
    assert switch_quartiles(found) == (47.5, 60, 120)


def test_without_switches_there_is_no_distribution() -> None:
    assert switch_distribution(Pairs()) == ([], [])
    assert all(math.isnan(quartile) for quartile in switch_quartiles(Pairs()))


@given(SHOTS, SHOTS)
def test_pairs_of_two_exams_add_up(shots: list[Shot], more: list[Shot]) -> None:
    one, two = pairs(*shots), pairs(*more)
    total = one + two
    assert total.near == tuple(a + b for a, b in zip(one.near, two.near, strict=True))
    assert total.differing == tuple(a + b for a, b in zip(one.differing, two.differing, strict=True))
    assert total.switches == tuple(sorted([*one.switches, *two.switches]))


@given(SHOTS)
def test_pairs_only_grow_with_the_threshold(shots: list[Shot]) -> None:
    found = pairs(*shots)
    assert list(found.near) == sorted(found.near)
    assert list(found.differing) == sorted(found.differing)
    assert found.near[-1] <= max(len(shots) - 1, 0)
    assert found.differing[-1] <= len(found.switches)


def test_a_plain_loop_counts_the_same() -> None:
    dice = random.Random(0)
    for _ in range(300):
        shots = [Shot(dice.randrange(0, 3000, 15), dice.randrange(3), frame) for frame in range(dice.randrange(12))]
        ordered = sorted(shots, key=lambda shot: (shot.seconds, shot.frame))
        found = pairs(*shots)
        for place, threshold in enumerate(THRESHOLDS):
            near = [(a, b) for a, b in itertools.pairwise(ordered) if b.seconds - a.seconds <= threshold]
            assert found.near[place] == len(near)
            assert found.differing[place] == sum(a.label != b.label for a, b in near)
