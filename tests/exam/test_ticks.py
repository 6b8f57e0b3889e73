"""From readings to times, with readings that are wrong now and then."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.exam.shown_time import DAY, ShownTime, parse_shown
from dice_ce.exam.ticks import Plan, Timeline, fit_timeline, place_jumps, times_of_frames

pytest.importorskip("PIL")
from dice_ce.lab.simulator.overlays import adaptive, steady, with_gaps


def shown(*times: int) -> dict[int, ShownTime]:
    return {10 * i: ShownTime(time) for i, time in enumerate(times)}


def test_a_misread_digit_is_left_out_wherever_it_is() -> None:
    right = [100 + 10 * i for i in range(12)]
    for place in range(12):
        for wrong in (right[place] + 36000, max(0, right[place] - 90)):
            times = [*right[:place], wrong, *right[place + 1 :]]
            timeline = fit_timeline(shown(*times))
            assert timeline is not None
            assert np.abs(timeline.at(np.arange(0, 120, 10)) - right).max() <= 1


def test_a_gap_is_believed_when_readings_after_it_agree() -> None:
    times = [100, 110, 120, 130, 2000, 2010, 2020, 2030]
    timeline = fit_timeline(shown(*times))
    assert timeline is not None
    assert timeline.seconds.tolist() == times


def test_midnight_is_no_step_back() -> None:
    timeline = fit_timeline(shown(DAY - 20, DAY - 10, 0, 10, 20))
    assert timeline is not None
    assert timeline.seconds.tolist() == [DAY - 20, DAY - 10, DAY, DAY + 10, DAY + 20]


def test_a_day_that_is_shown_counts() -> None:
    readings = {10 * i: ShownTime(DAY - 20 + 10 * i, has_day=True) for i in range(6)}
    timeline = fit_timeline(readings)
    assert timeline is not None
    assert timeline.seconds[-1] == DAY + 30


def test_a_day_that_only_some_readings_show_counts_for_all() -> None:
    readings = {10 * i: ShownTime(DAY * (i > 0) + 100 + 10 * i, has_day=i > 0) for i in range(8)}
    timeline = fit_timeline(readings)
    assert timeline is not None
    assert timeline.seconds.tolist() == [DAY + 100 + 10 * i for i in range(8)]


def test_readings_without_order_give_no_timeline_that_explains_them() -> None:
    chance = np.random.default_rng(0)
    timeline = fit_timeline(shown(*chance.integers(0, DAY, 40).tolist()))
    assert timeline is None or len(timeline.runs) < 24


def test_two_misread_hours_are_no_midnight() -> None:
    times = [72005, 72006, *range(7, 17)]  # 20:00:05 instead of 00:00:05
    timeline = fit_timeline({run: ShownTime(time) for run, time in enumerate(times)})
    assert timeline is not None
    assert timeline.at(np.arange(12)).tolist() == list(range(5, 17))


def test_of_two_readings_that_contradict_each_other_the_one_that_ticks_is_taken() -> None:
    """The last digits after a loss of signal are misread, as they are over the moving bowel."""
    times = [1500, 1501, 1502, 2094, 2098, 2093, 2097, 2098, 2099]
    readings = {run: ShownTime(time) for run, time in enumerate(times)}
    timeline = fit_timeline(readings)
    assert timeline is not None
    assert timeline.at(np.arange(9)).tolist() == [1500, 1501, 1502, 2094, 2095, 2096, 2097, 2098, 2099]


def test_a_reading_that_its_neighbours_contradict_is_left_out() -> None:
    timeline = fit_timeline({run: ShownTime(time) for run, time in enumerate([0, 1, 2, 4, 4, 5, 6])})
    assert timeline is not None
    assert timeline.at(np.arange(7)).tolist() == list(range(7))


@pytest.mark.parametrize(("misread", "expected"), [("12:00:58", 43255), (None, 3605), ("12:10:55", 43255)])
def test_misread_digits_still_tell_on_which_side_of_a_jump_they_are(misread: str | None, expected: int) -> None:
    timeline = Timeline(np.array([0, 1, 3, 4]), np.array([3603.0, 3604.0, 43256.0, 43257.0]), 1.0)
    readings = {2: parse_shown(misread) if misread else None}
    assert place_jumps(timeline, readings).at(np.arange(5)).tolist() == [3603, 3604, expected, 43256, 43257]


def test_what_ticks_every_run_needs_no_more_readings() -> None:
    plan = Plan.start(np.arange(1000))
    readings: dict[int, ShownTime | None] = {run: ShownTime(500 + run) for run in plan.first_runs(24)}
    timeline = fit_timeline({run: time for run, time in readings.items() if time})
    assert timeline is not None
    assert plan.next_runs(timeline, readings) == []


def test_runs_numbered_by_seconds_tick_in_thinned_out_exports_too() -> None:
    """One frame in 7 s: nothing more to read between readings that are as far apart as their numbers."""
    numbers = 7 * np.arange(300)
    plan = Plan.start(numbers)
    readings: dict[int, ShownTime | None] = {number: ShownTime(500 + number) for number in plan.first_runs(24)}
    timeline = fit_timeline({number: time for number, time in readings.items() if time}, are_seconds=True)
    assert timeline is not None
    assert plan.next_runs(timeline, readings) == []
    assert timeline.at(numbers).tolist() == (500 + numbers).tolist()


def test_numbered_by_seconds_a_minute_that_one_reading_adds_is_a_jump_and_not_believed() -> None:
    readings = {40 * i: ShownTime(time) for i, time in enumerate([60, 100, 140, 180, 280])}
    counted, numbered = (fit_timeline(readings, are_seconds=known) for known in (False, True))
    assert counted is not None
    assert counted.seconds[-1] == 280  # runs may last longer now and then
    assert numbered is not None
    assert numbered.seconds[-1] == 180


def read_out(seconds: np.ndarray, wrong: float, seed: int) -> tuple[Timeline, np.ndarray, int]:
    """Read an exam's clock as the program does, with a share of readings that are wrong or none."""
    second = np.floor(seconds).astype(int)
    starts = np.flatnonzero(np.diff(second, prepend=-1))
    chance = np.random.default_rng([seed, 99])

    def read(run: int) -> ShownTime | None:
        time = int(second[starts[run]])
        if chance.random() < wrong:
            return (
                None
                if chance.random() < 0.5
                else ShownTime(int(time + chance.choice([-36000, -600, 10, 1800, 7200])) % DAY)
            )
        return ShownTime(time % DAY)

    plan = Plan.start(np.arange(len(starts)))
    readings: dict[int, ShownTime | None] = {run: read(run) for run in plan.first_runs(24)}
    while True:
        timeline = fit_timeline({run: time for run, time in readings.items() if time})
        assert timeline is not None
        wanted = plan.next_runs(timeline, readings)
        if not wanted:
            return timeline, starts, len(readings)
        readings |= {run: read(run) for run in wanted}


def test_within_a_run_that_hides_ticks_time_goes_on() -> None:
    """The text over the bowel did not seem to change for three seconds; a loss of signal is no such run."""
    seconds = np.arange(40) / 2
    begins = np.array([i for i in range(0, 40, 2) if i not in (22, 24)])
    numbers = np.arange(len(begins))
    timeline = Timeline(numbers, seconds[begins], 1.0)
    times = times_of_frames(timeline, begins, numbers, np.arange(40))
    assert np.abs(times - seconds).max() < 1
    lost = np.where(seconds >= 8, seconds + 3, seconds)
    timeline = Timeline(np.arange(20), lost[::2], 1.0)
    times = times_of_frames(timeline, np.arange(0, 40, 2), np.arange(20), np.arange(40))
    assert np.abs(times - lost).max() < 1


@given(st.integers(0, 40), st.sampled_from([0.0, 0.05]), st.sampled_from(["adaptive", "gaps", "thin", "night"]))
def test_nearly_all_frames_are_within_a_second_in_spite_of_misread_digits(seed: int, wrong: float, kind: str) -> None:
    seconds = {
        "adaptive": adaptive(3000, seed, 500),
        "gaps": with_gaps(adaptive(3000, seed), seed),
        "thin": with_gaps(steady(400, 1 / 5), seed),
        "night": with_gaps(adaptive(3000, seed, DAY - 400), seed),
    }[kind]
    timeline, starts, count = read_out(seconds, wrong, seed)
    times = times_of_frames(timeline, starts, np.arange(len(starts)), np.arange(len(seconds)))
    assert (np.abs(times - seconds) < 1).mean() >= 0.99
    assert (np.diff(times) >= 0).all()
    assert count < len(starts) or count < 60
