"""Transit times, positions and scores.

No publication with a worked example of the Lewis score or of the CECDAI was found. So every cell of the published
tables is tested, as printed in Collins PD, World J Gastrointest Endosc 2016;8:477-88, tables 1 and 2 (doi
10.4253/wjge.v8.i14.477), and every combination of cells against the published formulas. One cell differs on purpose:
that table gives ulcers along a whole tertile 25; see `dice_ce.reader.measures`.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.reader.actions import Brotz, Cecdai, Lewis, Segment, Stenosis, Tertile, Ulcers, Villi
from dice_ce.reader.measures import (
    KNOT_TOLERANCE,
    brotz_index,
    cecdai_score,
    find_knots,
    lewis_grade,
    lewis_score,
    small_bowel_position,
    work_out,
)
from dice_ce.reader.state import Mark, State

NORMAL = Tertile()
NOON = datetime(2026, 1, 1, tzinfo=UTC)


def lewis(*tertiles: Tertile, stenosis: Stenosis = Stenosis()) -> int:  # noqa: B008  frozen
    """Score one to three tertiles; the others are normal."""
    padded = (*tertiles, NORMAL, NORMAL)
    return lewis_score(Lewis(tertiles=(padded[0], padded[1], padded[2]), stenosis=stenosis))


VILLI = {
    "appearance": {"normal": 0, "oedematous": 1},
    "extent": {"short": 8, "long": 12, "whole": 20},
    "descriptor": {"single": 1, "patchy": 14, "diffuse": 17},
}
ULCERS = {
    "number": {"none": 0, "single": 3, "few": 5, "multiple": 10},
    "extent": {"short": 5, "long": 10, "whole": 15},
    "size": {"under_quarter": 9, "quarter_to_half": 12, "over_half": 18},
}
STENOSIS: dict[str, dict[Any, int]] = {
    "number": {"none": 0, "single": 14, "multiple": 20},
    "ulcerated": {True: 24, False: 2},
    "traversed": {True: 7, False: 10},
}


def combinations(table: dict[str, dict[Any, int]]) -> list[tuple[dict[str, Any], int]]:
    """Every row of choices, and the product of its weights."""
    found = []
    for chosen in itertools.product(*(cells.items() for cells in table.values())):
        (first, a), (second, b), (third, c) = chosen
        found.append((dict(zip(table, (first, second, third), strict=True)), a * b * c))
    return found


def test_every_cell_of_the_table_of_the_lewis_score() -> None:
    for words, product in combinations(VILLI):
        assert lewis(Tertile(villi=Villi.model_validate(words))) == product, words
    for words, product in combinations(ULCERS):
        assert lewis(Tertile(ulcers=Ulcers.model_validate(words))) == product, words
    for words, product in combinations(STENOSIS):
        assert lewis(NORMAL, stenosis=Stenosis.model_validate(words)) == product, words


@given(*(st.sampled_from(combinations(table)) for table in (VILLI, ULCERS, VILLI, ULCERS, STENOSIS)))
def test_the_lewis_score_is_the_worst_tertile_plus_the_stenoses(
    villi: Any, ulcers: Any, others: Any, sores: Any, stenosis: Any
) -> None:
    first = Tertile(villi=Villi.model_validate(villi[0]), ulcers=Ulcers.model_validate(ulcers[0]))
    third = Tertile(villi=Villi.model_validate(others[0]), ulcers=Ulcers.model_validate(sores[0]))
    score = lewis(first, NORMAL, third, stenosis=Stenosis.model_validate(stenosis[0]))
    assert score == max(villi[1] + ulcers[1], others[1] + sores[1]) + stenosis[1]


@pytest.mark.parametrize("segment", ["proximal", "distal"])
def test_every_cell_of_the_table_of_the_cecdai(segment: str) -> None:
    # Gal et al.: A x B + C of each segment, A 0 to 5, B and C 0 to 3, and both added.
    for a, b, c in itertools.product(range(6), range(4), range(4)):
        entered = Cecdai.model_validate({segment: {"inflammation": a, "extent": b, "stricture": c}})
        assert cecdai_score(entered) == a * b + c


def test_one_small_ulcer_is_just_enough_for_mild_inflammation() -> None:
    # A single ulcer, short segment, under a quarter of the circumference: 3 x 5 x 9, the published limit.
    score = lewis(Tertile(ulcers=Ulcers(number="single")))
    assert score == 135
    assert lewis_grade(score) == "mild"
    assert lewis_grade(134) == "normal or clinically insignificant"


def test_the_highest_lewis_score_is_7840() -> None:
    # 1 x 20 x 17 + 10 x 15 x 18 in the worst tertile, 20 x 24 x 10 for stenoses: 340 + 2700 + 4800.
    worst = Tertile(
        villi=Villi(appearance="oedematous", extent="whole", descriptor="diffuse"),
        ulcers=Ulcers(number="multiple", extent="whole", size="over_half"),
    )
    score = lewis(worst, worst, worst, stenosis=Stenosis(number="multiple", ulcerated=True, traversed=False))
    assert score == 7840
    assert lewis_grade(score) == "moderate to severe"


def test_the_worst_tertile_counts_and_not_the_sum() -> None:
    villi = Tertile(villi=Villi(appearance="oedematous", extent="long", descriptor="patchy"))  # 1 x 12 x 14 = 168
    ulcers = Tertile(ulcers=Ulcers(number="few", extent="short", size="quarter_to_half"))  # 5 x 5 x 12 = 300
    assert lewis(villi, ulcers) == 300
    single = Stenosis(number="single", ulcerated=False, traversed=True)  # 14 x 2 x 7 = 196
    assert lewis(villi, ulcers, stenosis=single) == 496
    assert lewis_grade(790) == "mild"
    assert lewis_grade(791) == "moderate to severe"


def test_cecdai_is_inflammation_times_extent_plus_stricture_of_both_halves() -> None:
    halves = Cecdai(
        proximal=Segment(inflammation=3, extent=2, stricture=1), distal=Segment(inflammation=4, extent=3, stricture=0)
    )
    assert cecdai_score(halves) == 3 * 2 + 1 + 4 * 3
    worst = Segment(inflammation=5, extent=3, stricture=3)
    assert cecdai_score(Cecdai(proximal=worst, distal=worst)) == 36


def test_the_index_of_cleanliness_needs_all_five_parts() -> None:
    parts = {"mucosa_visible": 2, "fluid_and_debris": 1, "bubbles": 2, "bile_staining": 0, "brightness": 2}
    assert brotz_index(Brotz.model_validate(parts)) == 7
    assert brotz_index(Brotz.model_validate({**parts, "bubbles": None})) is None


def test_transit_times_and_positions_follow_the_landmarks() -> None:
    clock = find_knots((0, 50, 100), (0.0, 100.0, 300.0))
    marks = {"first_gastric": Mark(10, "a", NOON), "first_duodenal": Mark(25, "a", NOON)}
    state = State(101, {}, landmarks={**marks, "ileocaecal": Mark(75, "a", NOON)})  # type: ignore[arg-type, dict-item]
    measures = work_out(state, clock)
    assert (measures.gastric_seconds, measures.small_bowel_seconds, measures.is_complete) == (30.0, 150.0, True)
    places = {"first_duodenal": 25, "ileocaecal": 75}
    assert small_bowel_position(50, places, clock) == pytest.approx(1 / 3, abs=1e-4)  # type: ignore[arg-type]
    assert small_bowel_position(80, places, clock) is None  # type: ignore[arg-type]
    assert small_bowel_position(50, {"first_duodenal": 25}, clock) is None


def test_landmarks_in_the_wrong_order_are_remarked_and_give_no_time() -> None:
    state = State(
        100,
        {},
        landmarks={"first_duodenal": Mark(50, "a", NOON), "ileocaecal": Mark(20, "a", NOON)},
        cecdai=Cecdai(distal=Segment(inflammation=2)),
    )
    measures = work_out(state, find_knots((0, 99), (0.0, 99.0)))
    assert measures.small_bowel_seconds is None
    assert len(measures.remarks) == 2


@given(st.lists(st.floats(0, 100), min_size=2, max_size=60), st.floats(0.1, 5))
def test_knots_tell_every_time_within_the_tolerance(gaps: list[float], scale: float) -> None:
    seconds = [0.0]
    for gap in gaps:
        seconds.append(seconds[-1] + round(gap * scale, 1))
    clock = find_knots(range(len(seconds)), seconds)
    assert clock.knots[0][0] == 0
    assert clock.knots[-1][0] == len(seconds) - 1
    for frame, time in enumerate(seconds):
        assert abs(clock.seconds(frame) - time) <= KNOT_TOLERANCE + 0.002


def test_an_even_clock_needs_two_knots() -> None:
    assert find_knots(range(1000), [i / 3 for i in range(1000)]).knots == ((0, 0.0), (999, 333.0))
