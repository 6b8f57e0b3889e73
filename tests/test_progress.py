import io

import pytest

from dice_ce import progress
from dice_ce.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_another_total_is_other_work_with_a_rate_of_its_own(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar("exam", stream=log) as bar:
        for second, done, total in ((0, 0, 3000), (10, 3000, 3000), (11, 64, 640), (21, 164, 640)):
            clock[0] = float(second)
            bar(done, total)
    assert log.getvalue().splitlines() == [
        "exam  100 %  3,000/3,000 frames  300/s  0:10",
        "exam   26 %  164/640 frames  10/s  0:48 left",
    ]


def test_a_log_gets_a_plain_line_now_and_then(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar("exam", stream=log) as bar:
        for second in range(0, 31):
            clock[0] = float(second)
            bar(100 * second, 3000)
    assert log.getvalue().splitlines() == [
        "exam   33 %  1,000/3,000 frames  100/s  0:20 left",
        "exam   67 %  2,000/3,000 frames  100/s  0:10 left",
        "exam  100 %  3,000/3,000 frames  100/s  0:30",
    ]


def test_a_terminal_gets_a_bar_that_is_redrawn_in_place(clock: list[float]) -> None:
    terminal = Terminal()
    with ProgressBar("exam", stream=terminal) as bar:
        bar(0, 100)
        clock[0] = 1.0
        bar(50, 100)
    text = terminal.getvalue()
    assert "\r\x1b[2Kexam  [############............]  50 %  50/100 frames  50/s  0:01 left" in text
    assert text.endswith("\n")
    assert text.count("\n") == 1


def test_what_an_earlier_run_did_does_not_count_for_the_rate(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar("exam", stream=log) as bar:
        bar(5000, 10000)
        clock[0] = 10.0
        bar(6000, 10000)
    assert "6,000/10,000 frames  100/s  0:40 left" in log.getvalue()


def test_the_rate_counts_from_when_work_begins(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar("exam", stream=log) as bar:
        clock[0] = 30.0  # listing files, loading a model
        bar(0, 1000)
        clock[0] = 40.0
        bar(500, 1000)
    assert log.getvalue().splitlines()[-1] == "exam   50 %  500/1,000 frames  50/s  0:10 left"


def test_slow_work_is_not_shown_as_standing_still(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar("tuning", "trials", stream=log) as bar:
        bar(0, 20)
        clock[0] = 10.0
        bar(4, 20)
        clock[0] = 500.0
        bar(10, 20)
    assert "4/20 trials  0.4/s  0:40 left" in log.getvalue()
    assert "10/20 trials  72/h  8:20 left" in log.getvalue()


def test_nothing_is_printed_where_nothing_was_done() -> None:
    log = io.StringIO()
    with ProgressBar("exam", stream=log):
        pass
    assert log.getvalue() == ""


def test_hours_are_shown_as_hours(clock: list[float]) -> None:
    log = io.StringIO()
    with ProgressBar("exam", stream=log) as bar:
        bar(0, 100_000)
        clock[0] = 10.0
        bar(100, 100_000)
    assert "2:46:30 left" in log.getvalue()
