"""The grades, by hand."""

from typing import Any

import pytest

from dice_ce.reliability import NOT_MEASURED, Reliability, read_table, table_facts


@pytest.mark.parametrize(
    ("measured", "grade"),
    [
        (Reliability(100, 3, 100, 70), "well recognised"),
        (Reliability(100, 3, 100, 69), "fairly recognised"),
        (Reliability(100, 3, 100, 40), "fairly recognised"),
        (Reliability(100, 3, 100, 39), "poorly recognised"),
        (Reliability(100, 3, 100, 20), "poorly recognised"),
        (Reliability(100, 3, 100, 19), "hardly recognised"),
        (Reliability(100, 3, 1000, 100), "hardly recognised"),  # always found, and nine times in ten where it is not
        (Reliability(1000, 3, 100, 100), "hardly recognised"),  # always right, and hardly ever said
        (Reliability(100, 3, 0, 0), "hardly recognised"),
        (Reliability(100, 2, 100, 100), "too few cases to tell"),
        (Reliability(100, 2, 100, 30), "poorly recognised"),  # bad figures warn, of however few cases
        (Reliability(0, 0, 40, 0), "not measured"),
        (NOT_MEASURED, "not measured"),
    ],
)
def test_a_grade_goes_by_the_weaker_figure_and_a_good_one_takes_several_cases(
    measured: Reliability, grade: str
) -> None:
    assert measured.grade == grade


def test_it_explains_itself_in_words() -> None:
    assert Reliability(310, 4, 1200, 3).explain() == (
        "found in 1\u00a0% of 310 frames of 4 cases; when said, right in 0\u00a0% of 1,200 frames"
    )
    assert Reliability(1, 1).explain() == "found in 0\u00a0% of 1 frame of 1 case; never said"
    assert Reliability(called=1).explain() == "there was no frame to measure it on; said of 1 frame, each time wrongly"
    assert NOT_MEASURED.explain() == "there was no frame to measure it on"


def test_a_table_reads_back_as_it_was_written() -> None:
    table = {"ulcer": Reliability(310, 4, 12, 3, (0.0, 0.02), None), "polyp": NOT_MEASURED}
    assert read_table(table_facts(table)) == table


@pytest.mark.parametrize(
    "change", [{"right": 13}, {"frames": 2}, {"cases": -1}, {"recall_interval": [0.5]}, {"cases": float("inf")}]
)
def test_impossible_figures_are_refused(change: dict[str, object]) -> None:
    facts = Reliability(310, 4, 12, 3).facts() | change
    with pytest.raises((ValueError, TypeError)):
        Reliability.of(facts)


@pytest.mark.parametrize("facts", [[1], {"ulcer": []}, {"ulcer": None}, "ulcer"])
def test_what_is_no_table_is_refused(facts: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_table(facts)
