"""Conflicts and greedy matching: by hand, and against a matcher that was written from the text alone."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.benchmark.match import (
    CONFLICT_WINDOW,
    MATCH_WINDOW,
    NO_FRAME,
    NOTHING,
    Selection,
    Selections,
    Targets,
    find_conflicts,
    group_into_units,
    match,
    match_selections,
    milliseconds,
)
from dice_ce.datasets.tables import Finding
from dice_ce.errors import InputError
from dice_ce.taxonomy import Taxonomy

LABELS = Taxonomy("four", ("ulcer", "polyp", "erosion", "normal"))
ULCER, POLYP, EROSION, NORMAL = range(4)


class Shot(NamedTuple):
    """A selected frame, times in seconds."""

    seconds: float
    label: int
    frame: int = NO_FRAME


class Report(NamedTuple):
    """A finding, times in seconds."""

    seconds: float
    label: int
    id: str = "1"


def selections(shots: Sequence[Shot]) -> Selections:
    return Selections.of(Selection(milliseconds(shot.seconds), shot.frame, shot.label) for shot in shots)


def targets(reports: Sequence[Report], *, count_normal: bool = True) -> Targets:
    findings = [Finding(report.id, report.seconds, LABELS.labels[report.label]) for report in reports]
    return Targets.of(findings, LABELS, count_normal=count_normal)


def conflicts(*shots: Shot) -> list[bool]:
    found: list[bool] = find_conflicts(selections(shots)).tolist()
    return found


def answers(reports: Sequence[Report], shots: Sequence[Shot]) -> list[int]:
    chosen = selections(shots)
    found: list[int] = match(targets(reports), chosen, np.ones(len(chosen), np.bool_)).tolist()
    return found


# --- point 0: order, duplicates, inclusive windows -----------------------------------------------------------------


def test_selections_are_sorted_by_time_then_frame() -> None:
    chosen = selections([Shot(9, ULCER, 4), Shot(5, POLYP, 7), Shot(5, ULCER, 2)])
    assert chosen.times.tolist() == [5000, 5000, 9000]
    assert chosen.frames.tolist() == [2, 7, 4]
    assert chosen.labels.tolist() == [ULCER, POLYP, ULCER]


@pytest.mark.parametrize("label", [ULCER, POLYP])
def test_an_exact_duplicate_frame_is_an_error_whatever_its_label(label: int) -> None:
    with pytest.raises(InputError, match=r"frame 7 at 00:01:05 is selected twice; remove one"):
        selections([Shot(65, ULCER, 7), Shot(3, ULCER, 7), Shot(65, label, 7)])


def test_two_frames_of_one_instant_are_no_duplicate() -> None:
    assert len(selections([Shot(65, ULCER, 7), Shot(65, ULCER, 8)])) == 2


@pytest.mark.parametrize("seconds", [0.0, 212.003, 212.017, 35999.999])
def test_windows_end_at_the_same_place_wherever_they_are(seconds: float) -> None:
    # In floats 512.003 - 212.003 is more than 300.
    assert answers([Report(round(seconds + 300, 3), ULCER)], [Shot(seconds, ULCER)]) == [0]
    assert answers([Report(round(seconds + 300.001, 3), ULCER)], [Shot(seconds, ULCER)]) == [NOTHING]


# --- point 1: conflicts --------------------------------------------------------------------------------------------


def test_two_labels_within_20_seconds_make_both_invalid_and_the_window_is_inclusive() -> None:
    assert conflicts(Shot(100, ULCER), Shot(120, POLYP)) == [True, True]
    assert conflicts(Shot(100, ULCER), Shot(120.001, POLYP)) == [False, False]


def test_equal_labels_never_conflict() -> None:
    assert conflicts(Shot(100, ULCER), Shot(101, ULCER), Shot(102, ULCER)) == [False] * 3


def test_normal_is_a_label_and_conflicts() -> None:
    assert conflicts(Shot(100, ULCER), Shot(110, NORMAL)) == [True, True]


def test_conflicts_are_between_any_two_frames_not_only_neighbours() -> None:
    # The last conflicts with all three, although its neighbour is of the same label as the first.
    assert conflicts(Shot(100, ULCER), Shot(105, ULCER), Shot(110, ULCER), Shot(118, POLYP)) == [True] * 4
    # Here the first is out of reach of the polyp.
    assert conflicts(Shot(90, ULCER), Shot(105, ULCER), Shot(118, POLYP)) == [False, True, True]


def test_conflicts_do_not_cascade() -> None:
    # 130 conflicts with 115 although 115 is itself invalid through 100; 150 is untouched.
    assert conflicts(Shot(100, ULCER), Shot(115, POLYP), Shot(130, ULCER), Shot(150.5, ULCER)) == [
        True,
        True,
        True,
        False,
    ]


def test_frames_of_one_instant_conflict() -> None:
    assert conflicts(Shot(100, ULCER, 1), Shot(100, POLYP, 2)) == [True, True]


def test_no_selections_have_no_conflicts() -> None:
    assert conflicts() == []


# --- point 2: matching ---------------------------------------------------------------------------------------------


def test_a_finding_takes_the_nearest_frame() -> None:
    assert answers([Report(1000, ULCER)], [Shot(800, ULCER), Shot(1050, ULCER), Shot(1200, ULCER)]) == [1]


def test_matching_does_not_look_at_labels() -> None:
    assert answers([Report(1000, ULCER)], [Shot(990, POLYP), Shot(1050, ULCER)]) == [0]


def test_the_window_of_300_seconds_is_inclusive_on_both_sides() -> None:
    assert answers([Report(1000, ULCER)], [Shot(700, ULCER)]) == [0]
    assert answers([Report(1000, ULCER)], [Shot(1300, ULCER)]) == [0]
    assert answers([Report(1000, ULCER)], [Shot(699.999, ULCER), Shot(1300.001, ULCER)]) == [NOTHING]


def test_a_frame_answers_one_finding_only() -> None:
    # The frame is nearer to the second finding; the first goes empty.
    assert answers([Report(1000, ULCER, "a"), Report(1200, ULCER, "b")], [Shot(1150, ULCER)]) == [NOTHING, 0]


def test_matching_is_greedy_not_optimal() -> None:
    # 800 with 1100 and 1150 with 1400 would serve both findings, but the nearest pair goes first.
    reports = [Report(800, ULCER, "a"), Report(1150, ULCER, "b")]
    assert answers(reports, [Shot(1100, ULCER), Shot(1400, ULCER)]) == [NOTHING, 0]


def test_a_loser_takes_the_next_best_frame() -> None:
    reports = [Report(1000, ULCER, "a"), Report(1040, ULCER, "b")]
    assert answers(reports, [Shot(900, ULCER), Shot(1030, ULCER)]) == [0, 1]


def test_ties_go_to_the_earlier_finding() -> None:
    assert answers([Report(1200, ULCER, "a"), Report(1000, ULCER, "b")], [Shot(1100, ULCER)]) == [0, NOTHING]


def test_ties_at_one_time_go_to_the_lower_finding_id() -> None:
    reports = [Report(1000, POLYP, "b"), Report(1000, ULCER, "a")]
    assert targets(reports).labels.tolist() == [ULCER, POLYP]
    assert answers(reports, [Shot(1100, ULCER)]) == [0, NOTHING]


def test_ties_go_to_the_earlier_frame_then_to_the_lower_frame_number() -> None:
    assert answers([Report(1000, ULCER)], [Shot(1100, ULCER), Shot(900, ULCER)]) == [0]
    chosen = selections([Shot(900, ULCER, 8), Shot(900, POLYP, 3)])
    (row,) = match(targets([Report(1000, ULCER)]), chosen, np.ones(2, np.bool_))
    assert chosen.frames[row] == 3


def test_conflicted_frames_are_not_matched() -> None:
    verdicts = match_selections(
        targets([Report(1000, ULCER)]), selections([Shot(999, ULCER), Shot(1010, POLYP)]), NORMAL
    )
    assert verdicts.answers.tolist() == [NOTHING]
    assert verdicts.inside.tolist() == [True, True]
    assert verdicts.covered.tolist() == [False]


def test_findings_labelled_normal_count_only_if_asked_for() -> None:
    reports = [Report(1000, NORMAL, "a"), Report(2000, ULCER, "b")]
    assert targets(reports, count_normal=False).times.tolist() == [2_000_000]
    assert targets(reports, count_normal=True).times.tolist() == [1_000_000, 2_000_000]


# --- point 6: false units ------------------------------------------------------------------------------------------


def units(*shots: Shot) -> list[int]:
    chosen = selections(shots)
    found: list[int] = group_into_units(chosen, np.ones(len(chosen), np.bool_)).tolist()
    return found


def test_a_unit_lasts_300_seconds_from_its_first_frame_and_not_from_its_last() -> None:
    assert units(Shot(0, ULCER), Shot(200, ULCER), Shot(300, ULCER), Shot(300.001, ULCER), Shot(500, ULCER)) == [
        0,
        0,
        0,
        1,
        1,
    ]


def test_each_label_has_units_of_its_own() -> None:
    assert units(Shot(0, ULCER), Shot(100, POLYP), Shot(250, ULCER), Shot(350, POLYP), Shot(401, POLYP)) == [
        0,
        1,
        0,
        1,
        2,
    ]


def test_only_wrong_frames_are_in_units() -> None:
    chosen = selections([Shot(0, ULCER), Shot(100, ULCER), Shot(250, ULCER)])
    assert group_into_units(chosen, np.array([True, False, True])).tolist() == [0, NOTHING, 0]


# --- the independent matcher ---------------------------------------------------------------------------------------


def brute_conflicts(shots: Sequence[Shot]) -> set[Shot]:
    """Any pair, |dt| <= 20 s, different labels: both invalid."""
    return {
        shot
        for shot in shots
        for other in shots
        if abs(shot.seconds - other.seconds) <= 20 and shot.label != other.label
    }


def brute_match(reports: Sequence[Report], shots: Sequence[Shot]) -> list[tuple[Report, Shot]]:
    """Again and again, scan everything that is left for the best pair and take it."""
    invalid = brute_conflicts(shots)
    open_reports, open_shots = list(reports), [shot for shot in shots if shot not in invalid]
    matches = []
    while True:
        best: tuple[tuple[float, float, str, float, int], Report, Shot] | None = None
        for report in open_reports:
            for shot in open_shots:
                distance = abs(report.seconds - shot.seconds)
                if distance <= 300:
                    key = (distance, report.seconds, report.id, shot.seconds, shot.frame)
                    if best is None or key < best[0]:
                        best = key, report, shot
        if best is None:
            return matches
        matches.append((best[1], best[2]))
        open_reports.remove(best[1])
        open_shots.remove(best[2])


def random_case(dice: random.Random) -> tuple[list[Report], list[Shot]]:
    """A short exam with whole tens of seconds, so that ties and the edges of windows are everywhere."""
    length = dice.choice((20, 60, 200))
    reports = [Report(10 * dice.randrange(length), dice.randrange(4), str(i)) for i in range(dice.randrange(5))]
    frames = dice.sample(range(20), dice.randrange(10))
    shots = [Shot(10 * dice.randrange(length), dice.choice((ULCER, ULCER, POLYP, NORMAL)), frame) for frame in frames]
    return reports, shots


def test_an_independent_matcher_agrees_on_10_000_random_exams() -> None:
    dice = random.Random(0)
    for _ in range(10_000):
        reports, shots = random_case(dice)
        chosen, wanted = selections(shots), targets(reports)
        verdicts = match_selections(wanted, chosen, NORMAL)
        found = {
            (wanted.times[i] / 1000, wanted.labels[i], chosen.times[row] / 1000, chosen.frames[row])
            for i, row in enumerate(verdicts.answers)
            if row != NOTHING
        }
        expected = brute_match(reports, shots)
        assert found == {(report.seconds, report.label, shot.seconds, shot.frame) for report, shot in expected}
        assert len(expected) == (verdicts.answers != NOTHING).sum()
        assert set(chosen.frames[verdicts.conflicted]) == {shot.frame for shot in brute_conflicts(shots)}


# --- properties ----------------------------------------------------------------------------------------------------

TENS = st.integers(0, 100).map(lambda ten: 10.0 * ten)
SHOTS = st.lists(st.builds(Shot, TENS, st.integers(0, 3), st.integers(0, 50)), max_size=12, unique_by=lambda s: s.frame)
REPORTS = st.lists(st.builds(Report, TENS, st.integers(0, 3), st.text("abc", max_size=2)), max_size=5, unique=True)


@given(REPORTS, SHOTS, st.randoms())
def test_the_order_of_selections_and_findings_does_not_matter(
    reports: list[Report], shots: list[Shot], dice: random.Random
) -> None:
    before = match_selections(targets(reports), selections(shots), NORMAL)
    after = match_selections(
        targets(dice.sample(reports, len(reports))), selections(dice.sample(shots, len(shots))), NORMAL
    )
    for name in ("answers", "covered", "covered_correct", "conflicted", "inside", "false_units"):
        assert np.array_equal(getattr(before, name), getattr(after, name)), name


@given(REPORTS, SHOTS, st.integers(0, 3))
def test_a_far_away_frame_changes_no_match(reports: list[Report], shots: list[Shot], label: int) -> None:
    before = match_selections(targets(reports), selections(shots), NORMAL)
    far = Shot(1000 + 300.001, label, 99)
    after = match_selections(targets(reports), selections([*shots, far]), NORMAL)
    assert np.array_equal(before.answers, after.answers)
    assert not after.inside[-1]
    assert not after.conflicted[-1]


@given(REPORTS, SHOTS)
def test_matches_are_one_to_one_valid_and_inside_the_window(reports: list[Report], shots: list[Shot]) -> None:
    wanted, chosen = targets(reports), selections(shots)
    verdicts = match_selections(wanted, chosen, NORMAL)
    found = verdicts.answers != NOTHING
    rows = verdicts.answers[found]
    assert len(set(rows.tolist())) == len(rows)
    assert not verdicts.conflicted[rows].any()
    assert (np.abs(chosen.times[rows] - wanted.times[found]) <= MATCH_WINDOW).all()
    assert (verdicts.covered >= found).all()
    assert (verdicts.covered >= verdicts.covered_correct).all()


@given(REPORTS, SHOTS)
def test_greedy_matching_leaves_no_pair_that_could_still_be_made(reports: list[Report], shots: list[Shot]) -> None:
    wanted, chosen = targets(reports), selections(shots)
    verdicts = match_selections(wanted, chosen, NORMAL)
    free = ~verdicts.conflicted
    free[verdicts.answers[verdicts.answers != NOTHING]] = False
    for time in wanted.times[verdicts.answers == NOTHING]:
        assert not (np.abs(chosen.times[free] - time) <= MATCH_WINDOW).any()


@given(SHOTS)
def test_a_conflicted_frame_has_a_conflicted_partner(shots: list[Shot]) -> None:
    chosen = selections(shots)
    bad = find_conflicts(chosen)
    for row in np.flatnonzero(bad):
        near = np.abs(chosen.times - chosen.times[row]) <= CONFLICT_WINDOW
        assert (near & bad & (chosen.labels != chosen.labels[row])).any()
