"""Every metric by hand, against a second implementation written from the text, and the sums over exams."""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given

from dice_ce.benchmark.metrics import RATIOS, Counts, count_exam
from tests.benchmark.test_match import (
    EROSION,
    NORMAL,
    POLYP,
    REPORTS,
    SHOTS,
    ULCER,
    Report,
    Shot,
    brute_conflicts,
    brute_match,
    random_case,
    selections,
    targets,
)


def counts(reports: Sequence[Report], shots: Sequence[Shot], *, count_normal: bool = True) -> Counts:
    return count_exam(targets(reports, count_normal=count_normal), selections(shots), NORMAL)


def ratio(name: str, *exams: Counts) -> float:
    return RATIOS[name].of(exams)


def not_defined(name: str, *exams: Counts) -> bool:
    return math.isnan(ratio(name, *exams))


# --- points 3 to 8, one by one -------------------------------------------------------------------------------------


def test_ldr_asks_for_the_right_label_and_sensitivity_does_not() -> None:
    found = counts(
        [Report(1000, ULCER, "a"), Report(3000, ULCER, "b"), Report(5000, ULCER, "c")],
        [Shot(1010, ULCER), Shot(3010, POLYP)],
    )
    assert ratio("ldr", found) == pytest.approx(1 / 3)
    assert ratio("sensitivity", found) == pytest.approx(2 / 3)


def test_the_secondary_readings_take_any_valid_frame_in_the_window() -> None:
    shared = counts([Report(1000, ULCER, "a"), Report(1200, ULCER, "b")], [Shot(1100, ULCER)])
    assert (shared.matched, shared.covered, shared.covered_correct) == (1, 2, 2)
    wrong_nearest = counts([Report(1000, ULCER)], [Shot(1000, POLYP), Shot(1250, ULCER)])
    assert (ratio("ldr", wrong_nearest), ratio("ldr_any", wrong_nearest)) == (0, 1)


def test_conflicted_frames_cover_nothing() -> None:
    found = counts([Report(1000, ULCER)], [Shot(1000, ULCER), Shot(1020, POLYP)])
    assert (found.covered, found.covered_correct, found.matched, found.conflicted) == (0, 0, 0, 2)


def test_time_error_is_the_mean_over_matches_and_beside_it_over_those_with_the_right_label() -> None:
    found = counts([Report(1000, ULCER, "a"), Report(3000, ULCER, "b")], [Shot(1010, ULCER), Shot(2900.5, POLYP)])
    assert ratio("time_error", found) == pytest.approx((10 + 99.5) / 2)
    assert ratio("time_error_correct", found) == pytest.approx(10)


def test_time_error_is_not_defined_without_matches() -> None:
    missed = counts([Report(1000, ULCER)], [Shot(5000, ULCER)])
    assert not_defined("time_error", missed)
    wrong = counts([Report(1000, ULCER)], [Shot(1000, POLYP)])
    assert ratio("time_error", wrong) == 0
    assert not_defined("time_error_correct", wrong)


def test_redundancy_counts_every_selected_frame_conflicted_and_normal_ones_too() -> None:
    shots = [
        Shot(1000, ULCER),  # matched
        Shot(1200, ULCER),  # duplicate
        Shot(1250, POLYP),  # in conflict, inside the window
        Shot(1260, ULCER),  # in conflict, inside the window
        Shot(5000, NORMAL),  # outside
    ]
    found = counts([Report(1000, ULCER)], shots)
    assert (found.selected, found.matched, found.conflicted) == (5, 1, 2)
    assert ratio("redundancy", found) == pytest.approx(4 / 5)
    assert ratio("redundancy_window", found) == pytest.approx(3 / 5)


def test_redundancy_is_pooled_and_beside_it_the_mean_over_exams() -> None:
    one = counts([Report(1000, ULCER)], [Shot(1000, ULCER)])
    two = counts([Report(1000, ULCER)], [Shot(1000, ULCER), Shot(5000, ULCER), Shot(6000, ULCER)])
    assert ratio("redundancy", one, two) == pytest.approx(2 / 4)
    assert ratio("redundancy_mean", one, two) == pytest.approx((0 + 2 / 3) / 2)
    assert ratio("redundancy_window", one, two) == pytest.approx(2 / 4)
    assert ratio("redundancy_window_mean", one, two) == pytest.approx((0 + 2 / 3) / 2)


def test_an_exam_without_selections_is_left_out_of_the_mean_redundancy_and_its_findings_are_misses() -> None:
    empty = counts([Report(1000, ULCER)], [])
    full = counts([Report(1000, ULCER)], [Shot(1000, ULCER), Shot(5000, ULCER)])
    assert ratio("redundancy_mean", empty, full) == pytest.approx(1 / 2)
    assert ratio("ldr", empty, full) == pytest.approx(1 / 2)
    assert ratio("dy", empty, full) == pytest.approx(1 / 2)
    assert not_defined("redundancy", empty)


def test_specificity_drops_duplicates_and_groups_false_alarms() -> None:
    shots = [
        Shot(1000, ULCER),  # T, although the label may be wrong elsewhere
        Shot(1200, POLYP),  # duplicate, whatever its label: drops out
        Shot(5000, ULCER),  # F, first unit
        Shot(5300, ULCER),  # the same unit
        Shot(5301, ULCER),  # F, second unit
        Shot(5400, POLYP),  # F, a unit of its own label
        Shot(9000, NORMAL),  # no lesion is claimed
    ]
    found = counts([Report(1000, ULCER)], shots)
    assert (found.true_units, found.false_units) == (1, 3)
    assert ratio("specificity", found) == pytest.approx(1 / 4)
    assert ratio("precision_frame", found) == pytest.approx(2 / 6)


def test_a_true_unit_needs_a_lesion_label_but_not_the_right_one() -> None:
    assert counts([Report(1000, ULCER)], [Shot(1000, POLYP)]).true_units == 1
    normal = counts([Report(1000, ULCER)], [Shot(1000, NORMAL)])
    assert (normal.matched, normal.true_units, normal.false_units) == (1, 0, 0)
    assert not_defined("specificity", normal)
    assert not_defined("precision_frame", normal)


def test_conflicted_lesion_frames_are_false_even_inside_a_window() -> None:
    found = counts([Report(1000, ULCER)], [Shot(1000, ULCER), Shot(1010, POLYP), Shot(1015, NORMAL)])
    assert (found.true_units, found.false_units) == (0, 2)
    assert ratio("precision_frame", found) == 0


def test_dy_asks_for_all_findings_and_pdr_for_one() -> None:
    two = [Report(1000, ULCER, "a"), Report(3000, POLYP, "b")]
    both = counts(two, [Shot(1000, ULCER), Shot(3000, POLYP)])
    one = counts(two, [Shot(1000, ULCER), Shot(3000, ULCER)])
    none = counts(two, [Shot(1000, POLYP)])
    assert ratio("dy", both, one, none) == pytest.approx(1 / 3)
    assert ratio("pdr", both, one, none) == pytest.approx(2 / 3)


def test_an_exam_without_findings_is_out_of_four_metrics_but_its_selections_count() -> None:
    healthy = counts([], [Shot(1000, ULCER), Shot(2000, NORMAL)])
    found = counts([Report(1000, ULCER)], [Shot(1000, ULCER)])
    for name in ("ldr", "sensitivity", "dy", "pdr"):
        assert ratio(name, healthy, found) == 1
        assert not_defined(name, healthy)
    assert ratio("dy_all", healthy, found) == ratio("pdr_all", healthy, found) == 1 / 2
    assert ratio("redundancy", healthy, found) == pytest.approx(2 / 3)
    assert ratio("specificity", healthy, found) == pytest.approx(1 / 2)
    total = healthy + found
    assert total.exams - total.exams_with_findings == 1


def test_a_flag_says_whether_findings_labelled_normal_count() -> None:
    reports, shots = [Report(1000, NORMAL, "a"), Report(3000, ULCER, "b")], [Shot(1000, NORMAL), Shot(3000, ULCER)]
    assert counts(reports, shots, count_normal=False).findings == 1
    with_normal = counts(reports, shots, count_normal=True)
    assert (with_normal.findings, with_normal.correct, with_normal.true_units) == (2, 2, 1)
    only_normal = counts([Report(1000, NORMAL)], shots, count_normal=False)
    assert only_normal.exams_with_findings == 0


def test_nothing_at_all_is_one_exam() -> None:
    assert counts([], []) == Counts(exams=1)


def test_one_exam_by_hand() -> None:
    """An exam with everything in it; compare the image in docs/explanation/metrics.md."""
    reports = [Report(1000, ULCER, "a"), Report(1400, EROSION, "b"), Report(8000, POLYP, "c")]
    shots = [
        Shot(940, ULCER),  # matched to a, 60 s
        Shot(1100, ULCER),  # duplicate
        Shot(1300, ULCER),  # matched to b, 100 s, wrong label
        Shot(1680, EROSION),  # duplicate
        Shot(4000, POLYP),  # conflict
        Shot(4010, NORMAL),  # conflict
        Shot(4200, POLYP),  # the same false unit as 4000
    ]
    assert counts(reports, shots) == Counts(
        exams=1,
        exams_with_findings=1,
        exams_all_correct=0,
        exams_any_correct=1,
        findings=3,
        matched=2,
        correct=1,
        covered=2,
        covered_correct=2,
        error_ms=160_000,
        error_correct_ms=60_000,
        selected=7,
        conflicted=2,
        selected_inside=4,
        lesion_frames=6,
        lesion_frames_inside=4,
        true_units=2,
        false_units=1,
    )


# --- a second implementation, from the text ------------------------------------------------------------------------


def brute_counts(reports: Sequence[Report], shots: Sequence[Shot]) -> dict[str, Any]:
    invalid, matches = brute_conflicts(shots), brute_match(reports, shots)
    correct = [(report, shot) for report, shot in matches if report.label == shot.label]

    def in_window(shot: Shot) -> bool:
        return any(abs(shot.seconds - report.seconds) <= 300 for report in reports)

    valid = [shot for shot in shots if shot not in invalid]
    wrong = [shot for shot in shots if shot.label != NORMAL and (shot in invalid or not in_window(shot))]
    units = 0
    for label in {shot.label for shot in wrong}:
        left = sorted(shot.seconds for shot in wrong if shot.label == label)
        while left:
            units += 1
            left = [seconds for seconds in left if seconds > left[0] + 300]
    hits = {
        report.id: [shot.label for shot in valid if abs(shot.seconds - report.seconds) <= 300] for report in reports
    }
    return {
        "exams": 1,
        "exams_with_findings": int(bool(reports)),
        "exams_all_correct": int(bool(reports) and len(correct) == len(reports)),
        "exams_any_correct": int(bool(correct)),
        "findings": len(reports),
        "matched": len(matches),
        "correct": len(correct),
        "covered": sum(bool(hits[report.id]) for report in reports),
        "covered_correct": sum(report.label in hits[report.id] for report in reports),
        "error_ms": 1000 * sum(abs(report.seconds - shot.seconds) for report, shot in matches),
        "error_correct_ms": 1000 * sum(abs(report.seconds - shot.seconds) for report, shot in correct),
        "selected": len(shots),
        "conflicted": len(invalid),
        "selected_inside": sum(in_window(shot) for shot in valid),
        "lesion_frames": sum(shot.label != NORMAL for shot in shots),
        "lesion_frames_inside": sum(in_window(shot) and shot.label != NORMAL for shot in valid),
        "true_units": sum(shot.label != NORMAL for _, shot in matches),
        "false_units": units,
    }


def test_a_second_implementation_counts_the_same_on_10_000_random_exams() -> None:
    dice = random.Random(1)
    for _ in range(10_000):
        reports, shots = random_case(dice)
        assert asdict(counts(reports, shots)) == brute_counts(reports, shots)


# --- sums and bounds -----------------------------------------------------------------------------------------------


@given(REPORTS, SHOTS, REPORTS, SHOTS)
def test_counts_of_two_exams_add_up_to_those_of_both(
    reports: list[Report], shots: list[Shot], more_reports: list[Report], more_shots: list[Shot]
) -> None:
    one, two = counts(reports, shots), counts(more_reports, more_shots)
    total = one + two
    for field in fields(Counts):
        assert getattr(total, field.name) == getattr(one, field.name) + getattr(two, field.name)
    for name, metric in RATIOS.items():
        if not metric.is_mean:
            assert ratio(name, one, two) == pytest.approx(ratio(name, total), nan_ok=True)


@given(REPORTS, SHOTS)
def test_far_apart_halves_of_one_exam_count_like_two_exams(reports: list[Report], shots: list[Shot]) -> None:
    later = [Report(report.seconds + 10_000, report.label, f"{report.id}+") for report in reports]
    later_shots = [Shot(shot.seconds + 10_000, shot.label, shot.frame + 100) for shot in shots]
    together, apart = counts(reports + later, shots + later_shots), counts(reports, shots)
    for field in fields(Counts):
        if not field.name.startswith("exams"):
            assert getattr(together, field.name) == 2 * getattr(apart, field.name)


@given(REPORTS, SHOTS)
def test_readings_are_ordered_as_their_definitions_are(reports: list[Report], shots: list[Shot]) -> None:
    found = counts(reports, shots)
    assert found.correct <= found.matched <= found.covered <= found.findings
    assert found.correct <= found.covered_correct <= found.covered
    assert found.matched <= found.selected_inside <= found.selected - found.conflicted
    assert found.true_units <= found.lesion_frames_inside <= found.lesion_frames
    assert found.exams_all_correct <= found.exams_any_correct <= found.exams_with_findings
    assert found.error_ms <= 300_000 * found.matched


@pytest.mark.parametrize("name", RATIOS)
def test_every_metric_is_made_of_counts_that_exist(name: str) -> None:
    assert not_defined(name)
    assert RATIOS[name].columns([Counts()])[0].tolist() == [0]
