import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.exam.shown_time import DAY, parse_shown

pytest.importorskip("PIL")
from dice_ce.lab.simulator.overlays import STYLES


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("03:12:45", 11565),
        ("3h12m45s", 11565),
        ("1:05:09 PM", 47109),
        ("12:00:01 AM", 1),
        ("2021-03-14 03:12:45", 11565),
        ("Day 2 00:10:00", DAY + 600),
        ("Time 3:12:45 AM", 11565),
        ("12:34:56.7", 45296),
    ],
)
def test_the_formats_of_recorders_are_read(text: str, seconds: int) -> None:
    found = parse_shown(text)
    assert found is not None
    assert found.seconds == seconds


@pytest.mark.parametrize(
    "text",
    ["03:12;45", "O3:12:45", "03:l2:45", "03:1245", "0312:45", "03.12.45", "2021-03-1403:12:45", "Day103:12:45"],
)
def test_signs_that_readers_confuse_are_forgiven(text: str) -> None:
    found = parse_shown(text)
    assert found is not None
    assert found.seconds == 11565


@pytest.mark.parametrize(
    "text",
    ["", "031245", "2021-03-14", "14.03.2021", "00:12:75", "ID 4711-0815", "3:12", "00:12:34:05", "36.7 C", "DOE JANE"],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_shown(text) is None


@given(st.sampled_from(list(STYLES.values())), st.integers(0, DAY - 1))
def test_every_style_of_the_simulator_reads_back(style: object, second: int) -> None:
    found = parse_shown(style.write_time(second))  # type: ignore[attr-defined]
    assert found is not None
    assert found.seconds == second
