import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.exam.frames import FrameTable
from dice_ce.method import weaver
from dice_ce.method.selector import Candidates
from dice_ce.method.tokens import TokenSettings, token_halves, weigh
from dice_ce.method.weaver import (
    WeaverSettings,
    chain_ward,
    coarse_count,
    fixed_windows,
    make_atoms,
    weave,
    weave_fine,
)


def candidates(seconds: np.ndarray, vectors: np.ndarray) -> Candidates:
    n = len(seconds)
    table = FrameTable(np.arange(n), np.arange(n), Fraction(1, 25))
    return Candidates(table, np.asarray(seconds, np.float64), vectors.astype(np.float32), np.ones(n, np.float32))


def random_candidates(n: int, seed: int, d: int = 8) -> Candidates:
    rng = np.random.default_rng(seed)
    return candidates(np.sort(rng.uniform(0, 20_000, n)).round(1), rng.normal(size=(n, d)))


def rows_of(contexts: list[weaver.Context]) -> list[list[int]]:
    return [context.rows.tolist() for context in contexts]


def fine_rows(some: Candidates, config: WeaverSettings) -> list[list[int]]:
    """Lesion contexts if all candidates lie in one anatomical context."""
    return [rows.tolist() for rows in weave_fine(make_atoms(some, config), config)]


CONFIGS = [
    WeaverSettings(),
    WeaverSettings(contexts="windows"),
    WeaverSettings(max_span=300.0),
    WeaverSettings(delta_fine=0.9, coarse_minutes=60.0),
    WeaverSettings(tokens=TokenSettings(token_time="frame_index")),
]


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 60), seed=st.integers(0, 10**6), config=st.sampled_from(CONFIGS))
def test_contexts_partition_the_candidates(n: int, seed: int, config: WeaverSettings) -> None:
    contexts = weave(random_candidates(n, seed), config)
    assert sorted(row for rows in rows_of(contexts) for row in rows) == list(range(n))
    assert all(rows == sorted(rows) for rows in rows_of(contexts))
    if config.max_span is not None:
        for context in contexts:
            seconds = random_candidates(n, seed).seconds[context.rows]
            assert seconds[-1] - seconds[0] <= config.max_span


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_coarse_contexts_are_contiguous_and_as_many_as_asked(n: int, seed: int) -> None:
    some, config = random_candidates(n, seed), WeaverSettings(coarse_minutes=70.0)
    wanted = coarse_count(some.seconds, config)
    contexts = weave(some, config)
    groups: dict[int, list[int]] = {}
    for context in contexts:
        groups.setdefault(context.coarse, []).extend(context.rows.tolist())
    assert [sorted(rows) for rows in groups.values()] == [
        list(range(min(rows), max(rows) + 1)) for rows in groups.values()
    ]
    assert len(groups) <= wanted <= 5


@pytest.mark.parametrize("config", CONFIGS)
def test_a_rerun_is_identical(config: WeaverSettings) -> None:
    assert rows_of(weave(random_candidates(300, 1), config)) == rows_of(weave(random_candidates(300, 1), config))


def test_glimpses_of_one_lesion_are_one_context_although_something_else_came_between() -> None:
    lesion, other = np.array([1.0, 0, 0, 0]), np.array([0, 0, 1.0, 0])
    seconds = np.array([0, 1, 2, 10, 11, 20, 21])
    vectors = np.stack([lesion, lesion, lesion, other, other, lesion, lesion])
    assert fine_rows(candidates(seconds, vectors), WeaverSettings()) == [[0, 1, 2, 5, 6], [3, 4]]


def test_the_same_look_hours_apart_is_another_context() -> None:
    vectors = np.tile(np.eye(64)[0], (4, 1))
    some = candidates(np.array([0, 1, 20_000, 20_001]), vectors)
    assert fine_rows(some, WeaverSettings()) == [[0, 1], [2, 3]]


def brute_force_linkage(tokens: np.ndarray, limit: float, seconds: np.ndarray, span: float) -> list[list[int]]:
    """Average linkage straight from its definition: the mean over all pairs, none of them further apart than `span`."""
    groups = [[i] for i in range(len(tokens))]
    distance = np.where(np.abs(np.subtract.outer(seconds, seconds)) > span, np.inf, 1 - tokens @ tokens.T)
    while len(groups) > 1:
        pairs = [
            (distance[np.ix_(a, b)].mean(), i, j + i + 1)
            for i, a in enumerate(groups)
            for j, b in enumerate(groups[i + 1 :])
        ]
        least, i, j = min(pairs)
        if least > limit:
            break
        groups[i] += groups.pop(j)
    return sorted(sorted(group) for group in groups)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 25),
    seed=st.integers(0, 10**6),
    limit=st.sampled_from([0.2, 0.4, 0.6]),
    span=st.sampled_from([None, 2000.0, 9000.0]),
)
def test_fine_contexts_are_those_of_average_linkage_by_definition(
    n: int, seed: int, limit: float, span: float | None
) -> None:
    some = random_candidates(n, seed)
    config = WeaverSettings(delta_fine=limit, max_span=span)
    halves = token_halves(some.vectors, some.seconds, config.tokens.token_base)
    tokens = weigh(halves, config.alpha_fine).astype(np.float64)
    assert sorted(fine_rows(some, config)) == brute_force_linkage(tokens, limit, some.seconds, span or np.inf)


def brute_force_ward(points: np.ndarray, count: int) -> list[list[int]]:
    """Ward's rule on a chain straight from its definition: the least growth of the squared error."""

    def error(group: list[int]) -> float:
        return float(((points[group] - points[group].mean(axis=0)) ** 2).sum())

    groups = [[i] for i in range(len(points))]
    while len(groups) > count:
        growth = [error(a + b) - error(a) - error(b) for a, b in itertools.pairwise(groups)]
        k = int(np.argmin(np.round(growth, 9)))
        groups[k : k + 2] = [groups[k] + groups[k + 1]]
    return groups


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 25), count=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_coarse_contexts_are_those_of_ward_on_a_chain_by_definition(n: int, count: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    label = chain_ward(points, np.ones(n), min(count, n), np.ones(5, np.float32))
    assert [np.flatnonzero(label == k).tolist() for k in range(label.max() + 1)] == brute_force_ward(
        points.astype(np.float64), min(count, n)
    )


def test_ward_breaks_ties_to_the_earliest() -> None:
    points = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    assert chain_ward(points, np.ones(4), 3, np.ones(points.shape[1], np.float32)).tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("hours", "n", "expected"), [(8, 1000, 24), (0.1, 1000, 4), (100, 1000, 64), (8, 3, 3), (0, 1, 1)]
)
def test_the_number_of_coarse_contexts_follows_the_length_of_the_exam(hours: float, n: int, expected: int) -> None:
    assert coarse_count(np.linspace(0, hours * 3600, n), WeaverSettings()) == expected


def test_fixed_windows_are_300_seconds_from_zero_and_leave_out_empty_ones() -> None:
    some = candidates(np.array([0, 299.9, 300, 1000, 1001]), np.ones((5, 2)))
    assert rows_of(fixed_windows(some)) == [[0, 1], [2], [3, 4]]
    assert rows_of(weave(some, WeaverSettings(contexts="windows"))) == [[0, 1], [2], [3, 4]]


def test_too_many_candidates_are_first_joined_with_their_most_alike_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weaver, "MOST_ATOMS", 40)
    monkeypatch.setattr(weaver, "MOST_FINE_ATOMS", 10)
    monkeypatch.setattr(weaver, "CHUNK", 7)
    rng = np.random.default_rng(0)
    events = np.repeat(rng.normal(size=(8, 16)), 25, axis=0) + 0.02 * rng.normal(size=(200, 16))
    some = candidates(np.arange(200.0) + np.repeat(np.arange(8) * 2000, 25), events)
    contexts = weave(some, WeaverSettings(coarse_minutes=90.0))
    assert len({context.coarse for context in contexts}) == 4
    assert sorted(row for rows in rows_of(contexts) for row in rows) == list(range(200))
    assert sorted(rows_of(contexts)) == [list(range(25 * k, 25 * k + 25)) for k in range(8)]
