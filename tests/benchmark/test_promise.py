"""What is promised about a list's length is what counting patients allows, and no more."""

import math

import pytest

from dice_ce.benchmark.evaluation import Evaluation, evaluate
from dice_ce.benchmark.match import Selection, Selections
from dice_ce.benchmark.promise import at_least, complete_patients, conformal_length, kept_promises, needed_lengths
from dice_ce.datasets.tables import Annotation, Finding


def scored(**shown: list[int]) -> Evaluation:
    """Score exams with a finding at 1,000 s and one at 9,000 s; `shown` are the seconds of what a list contains."""
    findings = (Finding("1", 1000.0, "ulcer"), Finding("2", 9000.0, "polyp"))
    return evaluate(
        {exam: Selections.of(Selection(1000 * t, t, 0) for t in times) for exam, times in shown.items()},
        {exam: Annotation(exam, findings if exam != "healthy" else ()) for exam in shown},
        patients={exam: exam[0] if exam != "healthy" else exam for exam in shown},
    )


def test_a_list_is_complete_when_every_finding_of_the_patient_has_a_frame() -> None:
    one = scored(a=[1100, 8800], b=[1100], c1=[1000, 9000], c2=[1000], healthy=[])
    assert complete_patients(one) == {"a": True, "b": False, "c": False}


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 5), (5, 5), (12, 40), (40, 40)])
def test_the_bound_is_where_so_many_successes_become_unlikely(successes: int, trials: int) -> None:
    p = at_least(successes, trials)
    tail = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))
    assert p == 0 if not successes else tail == pytest.approx(0.1, abs=1e-9)


def test_all_of_twelve_promise_no_more_than_four_of_five() -> None:
    assert at_least(12, 12) == pytest.approx(0.1 ** (1 / 12))


def test_a_length_is_promised_only_by_enough_patients() -> None:
    assert conformal_length([2.0] * 8) == math.inf  # nine patients are the fewest that allow 90 %
    assert conformal_length([2.0] * 9) == 2.0
    assert conformal_length([1, 2, 3, 4, 5, 6, 7, 8, 9]) == 9
    assert conformal_length([1.0] * 18 + [math.inf]) == 1.0
    assert conformal_length([1.0] * 17 + [math.inf, math.inf]) == math.inf


def test_a_longer_list_must_keep_what_a_shorter_one_had() -> None:
    curve = {
        2: scored(a=[1000, 9000], b=[], d=[]),
        4: scored(a=[1000], b=[1000, 9000], d=[]),
        8: scored(a=[1000, 9000], b=[1000, 9000], d=[]),
    }
    assert needed_lengths(curve) == {"a": 8, "b": 4, "d": math.inf}


def test_promises_are_tried_on_the_patient_left_out() -> None:
    needs = {f"p{i}": 4.0 for i in range(10)} | {"long": 16.0}
    # without the odd one 4 is promised and too short for it; without any other, 16 is the tenth of ten
    assert kept_promises(needs) == (10, 11)
    assert kept_promises({"a": 1.0, "b": 2.0}) == (0, 0)
