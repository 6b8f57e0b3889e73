"""Figures inside patients."""

from __future__ import annotations

import numpy as np
import pytest

from dice_ce.benchmark.within import number_events, within_figures

NORMAL, ULCER, POLYP = (True, False, False), (False, True, False), (False, False, True)


def test_a_patient_s_own_level_counts_for_nothing() -> None:
    """One patient scores high and the other low throughout: inside both, lesions stand out perfectly."""
    level = np.repeat([0.5, 0.0], 40)
    lesion = np.tile(np.arange(40) >= 30, 2)
    score = (level + 0.1 * lesion).astype(np.float32)
    labels = np.array([ULCER if shows else NORMAL for shows in lesion])
    figures = within_figures(
        score,
        np.eye(3, dtype=np.float32)[lesion.astype(int)],
        labels,
        0,
        np.repeat(["a", "b"], 40),
        np.where(lesion, np.repeat(["one", "two"], 40), ""),
    )
    assert (figures.patients, figures.auc.value, figures.events, figures.event_recall.value) == (2, 1.0, 2, 1.0)
    assert figures.named.value == figures.balanced.value == 1.0
    assert np.isnan(figures.normal_said.value)  # no normal frame is among the tenth with the highest scores


def test_an_event_counts_once_however_long_and_names_are_balanced() -> None:
    labels = np.array([ULCER] * 8 + [POLYP] * 2 + [NORMAL] * 10)
    score = np.linspace(1, 0, 20).astype(np.float32)
    said = np.array([1] * 10 + [0] * 10)
    events = np.array(["one"] * 8 + ["two"] * 2 + [""] * 10)
    figures = within_figures(score, np.eye(3, dtype=np.float32)[said], labels, 0, np.full(20, "a"), events)
    assert figures.event_recall.value == 0.5  # two frames are the tenth, both of the ulcer
    assert figures.named.value == 0.5  # all ulcers, no polyp
    assert figures.balanced.value == pytest.approx((1 + 0 + 1) / 3)


def test_lesions_are_named_among_lesions_even_where_normal_is_likelier() -> None:
    distributions = np.tile(np.array([0.6, 0.3, 0.1], np.float32), (4, 1))
    figures = within_figures(
        np.ones(4, np.float32), distributions, np.array([ULCER] * 4), 0, np.full(4, "a"), np.full(4, "one")
    )
    assert (figures.named.value, figures.balanced.value) == (1.0, 0.0)
    assert figures.patients == 0
    assert np.isnan(figures.auc.value)


def test_events_end_at_another_case_another_lesion_or_a_gap() -> None:
    cases = ["a", "a", "a", "a", "b", "b", "b"]
    numbers = [1, 2, 40, 41, 42, 43, None]
    labels = [("ulcer",), ("ulcer",), ("ulcer",), ("polyp",), ("polyp",), (), ("polyp",)]
    assert number_events(cases, numbers, labels).tolist() == ["a:1", "a:1", "a:40", "a:41", "b:42", "", ""]


def test_a_patient_of_lesions_only_shows_what_chance_and_perfection_reach() -> None:
    """Four events of five frames, no normal frame: a tenth is two frames, which show at most two events."""
    events = np.repeat(["one", "two", "three", "four"], 5)
    figures = within_figures(
        np.linspace(1, 0, 20).astype(np.float32),
        np.tile(np.array([0, 1, 0], np.float32), (20, 1)),
        np.array([ULCER] * 20),
        0,
        np.full(20, "a"),
        events,
    )
    assert figures.event_recall.value == 0.25
    assert figures.event_chance == figures.event_best == pytest.approx(1 - (15 * 14) / (20 * 19))
    assert figures.exam_events == 0
    assert np.isnan(figures.exam_event_recall.value)


def test_in_an_exam_an_event_has_to_come_before_a_tenth_of_the_normal_frames() -> None:
    """Twenty normal frames, so two may come first: one event comes second to one of them, the other to two."""
    score = np.array([0.95, 0.5, *np.linspace(1, 0, 20)], np.float32)
    score[2:4] = (1.0, 0.9)
    labels = np.array([ULCER, POLYP] + [NORMAL] * 20)
    said = np.array([1, 2, 1] + [0] * 19)
    figures = within_figures(
        score, np.eye(3, dtype=np.float32)[said], labels, 0, np.full(22, "a"), np.array(["one", "two"] + [""] * 20)
    )
    assert (figures.exam_events, figures.exam_event_recall.value) == (2, 0.5)
    assert figures.exam_event_chance == pytest.approx(1 - (20 * 19) / (21 * 20))
    assert figures.exam_normal_said.value == 0.5  # of the two that come first, one is called an ulcer
    assert len(figures.columns()) == len(figures.HEADER)


def test_chance_is_what_random_scores_reach() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([ULCER] * 30 + [NORMAL] * 70)
    events = np.array(["one"] * 4 + ["two"] * 26 + [""] * 70)
    said = np.zeros((100, 3), np.float32)
    figures = [
        within_figures(rng.random(100).astype(np.float32), said, labels, 0, np.full(100, "a"), events)
        for _ in range(400)
    ]
    for reached, chance in (("event_recall", "event_chance"), ("exam_event_recall", "exam_event_chance")):
        mean = np.mean([getattr(row, reached).value for row in figures])
        assert mean == pytest.approx(getattr(figures[0], chance), abs=0.05)
