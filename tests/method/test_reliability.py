"""The grades, by hand."""

from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from dice_ce.method.reliability import NOT_MEASURED, Reliability


@pytest.mark.parametrize(
    ("measured", "grade"),
    [
        (Reliability.of_counts(100, 3, 100, 70), "well recognised"),
        (Reliability.of_counts(100, 3, 100, 69), "fairly recognised"),
        (Reliability.of_counts(100, 3, 100, 40), "fairly recognised"),
        (Reliability.of_counts(100, 3, 100, 39), "poorly recognised"),
        (Reliability.of_counts(100, 3, 100, 20), "poorly recognised"),
        (Reliability.of_counts(100, 3, 100, 19), "hardly recognised"),
        (Reliability.of_counts(100, 3, 1000, 100), "hardly recognised"),  # found, but mostly said wrongly
        (Reliability.of_counts(1000, 3, 100, 100), "hardly recognised"),  # always right, and hardly ever said
        (Reliability.of_counts(100, 3, 0, 0), "hardly recognised"),
        (Reliability.of_counts(100, 2, 100, 100), "too few cases to tell"),
        (Reliability.of_counts(100, 2, 100, 30), "poorly recognised"),  # bad figures warn, of however few cases
        (Reliability.of_counts(0, 0, 40, 0), "not measured"),
        (NOT_MEASURED, "not measured"),
    ],
)
def test_a_grade_goes_by_the_weaker_figure_and_a_good_one_takes_several_cases(
    measured: Reliability, grade: str
) -> None:
    assert measured.grade == grade


def test_it_explains_itself_in_words() -> None:
    assert Reliability.of_counts(310, 4, 1200, 3).explain() == (
        "found in 1\u00a0% of 310 frames of 4 cases; when said, right in 0\u00a0% of 1,200 frames"
    )
    assert Reliability.of_counts(1, 1, 0, 0).explain() == "found in 0\u00a0% of 1 frame of 1 case; never said"
    assert (
        Reliability.of_counts(0, 0, 1, 0).explain()
        == "there was no frame to measure it on; said of 1 frame, each time wrongly"
    )
    assert NOT_MEASURED.explain() == "there was no frame to measure it on"


TABLE = dict[str, Reliability]


def test_a_table_reads_back_as_it_was_written() -> None:
    table = {"ulcer": Reliability.of_counts(310, 4, 12, 3, (0.0, 0.02), None), "polyp": NOT_MEASURED}
    assert msgspec.json.decode(msgspec.json.encode(table), type=TABLE) == table


@pytest.mark.parametrize(
    "change",
    [{"right": 13}, {"frames": 2}, {"cases": -1}, {"recall_interval": [0.5]}, {"cases": 1.5}, {"grade": "good"}],
)
def test_impossible_figures_are_refused(change: dict[str, object]) -> None:
    facts = asdict(Reliability.of_counts(310, 4, 12, 3)) | change
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"ulcer": facts}, TABLE)


@pytest.mark.parametrize("facts", [[1], {"ulcer": []}, {"ulcer": None}, "ulcer"])
def test_what_is_no_table_is_refused(facts: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(facts, TABLE)
