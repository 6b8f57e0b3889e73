"""Images of a benchmark: what stands in them, and that the same results give the same bytes."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

from dice_ce import DISCLAIMER
from dice_ce.benchmark.comparison import compare
from dice_ce.benchmark.evaluation import Protocol, evaluate
from dice_ce.benchmark.match import NO_FRAME, Selection, Selections
from dice_ce.benchmark.methods import METHODS, Method
from dice_ce.benchmark.plots import (
    choose_patient,
    draw_case_study,
    draw_figures,
    draw_inconsistency,
    draw_switches,
    draw_timeline,
)
from dice_ce.benchmark.plots.case import ordinal_at, spread_over
from dice_ce.benchmark.plots.exam import results_of, strongest
from dice_ce.benchmark.plots.style import Look, label_look, method_looks
from dice_ce.benchmark.plots.timeline import restless_finding
from dice_ce.benchmark.run import BUDGETS, Group, Outcome, Results, Row
from dice_ce.benchmark.truth import Span
from dice_ce.datasets.folder import Dataset, ExamRow
from dice_ce.datasets.tables import Annotation, Finding
from dice_ce.errors import UsageError
from dice_ce.exam.clock import ClockOptions, ExamClock
from dice_ce.exam.open import Exam, open_exam
from dice_ce.plotting import paler
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Image
from tests.material import numbered_video

LABELS = Taxonomy()
REPORTS = {
    "one": [(100, "ulcer"), (1000, "polyp"), (2000, "erosion")],
    "two": [(500, "ulcer"), (1500, "polyp"), (2500, "normal")],
    "three": [(700, "polyp")],
}
Shots = dict[str, list[tuple[float, str]]]
DICE: Shots = {
    "one": [(110, "ulcer"), (130, "ulcer"), (1010, "erosion")],
    "two": [(500, "ulcer"), (1490, "polyp")],
    "three": [],
}
AKS: Shots = {
    "one": [(90, "ulcer"), (960, "polyp"), (1040, "ulcer"), (1100, "polyp"), (3000, "normal")],
    "two": [(480, "polyp"), (510, "erosion"), (560, "ulcer")],
    "three": [(690, "polyp"), (695, "ulcer")],
}
UNIFORM: Shots = {name: [(time, "normal") for time in (0, 900, 1800)] for name in REPORTS}
RANDOM: Shots = {name: [(805, "polyp")] for name in REPORTS}


def selections(shots: Sequence[tuple[float, str]], frame: int = NO_FRAME) -> Selections:
    return Selections.of(Selection(round(1000 * time), frame, LABELS.index(label)) for time, label in shots)


def annotations() -> dict[str, Annotation]:
    return {
        exam: Annotation(exam, tuple(Finding(f"F{i}", time, label) for i, (time, label) in enumerate(found)))
        for exam, found in REPORTS.items()
    }


def outcome(key: str, name: str, group: Group, shots: Shots) -> Outcome:
    chosen = {exam: selections(frames) for exam, frames in shots.items()}
    scored = evaluate(chosen, annotations(), name=key, protocol=Protocol(resamples=100))
    base = key.removesuffix("-raw").removesuffix("-without-weaver")
    method = METHODS.get(base) or Method(base, name, "#123456", "*", (), lambda exam: Selections.of([]))
    return Outcome(Row(key, name, group, method, {}), chosen, scored)


def results(*outcomes: Outcome) -> Results:
    exams = tuple(ExamRow(name, name, "test", Path(f"{name}.mp4")) for name in REPORTS)
    scored = [one.evaluation for one in outcomes]
    comparison = compare(scored) if len(scored) > 1 else None
    return Results(
        Dataset(Path(), exams, annotations()),
        SimpleNamespace(),
        "default",
        "head",
        {},
        {},
        outcomes,
        comparison,
        None,
        {one.row.key: dict.fromkeys(BUDGETS, one.evaluation) for one in outcomes},
    )  # type: ignore[arg-type]


DICE_ROW = outcome("dice", "DiCE", "ours", DICE)
ROWS = (
    DICE_ROW,
    outcome("dice-without-weaver", "- Context Weaver", "ablation", DICE),
    outcome("uniform", "Uniform", "fixed budget", UNIFORM),
    outcome("random", "Random", "fixed budget", RANDOM),
    outcome("aks", "AKS", "fixed budget", AKS),
    outcome("aks-raw", "AKS", "raw video", AKS),
    outcome("newcomer", "Newcomer", "fixed budget", AKS),
)
ALL = results(*ROWS)
SHOWN = ("DiCE", "Uniform", "Random", "AKS", "Newcomer")
TRUTH = [Span(80, 140, "ulcer"), Span(990, 1005, "polyp")]


def timeline(found: Results, target: Path) -> None:
    draw_timeline(found, "one", TRUTH, target)


Draw = Callable[[Results, Path], None]
IMAGES: list[Draw] = [draw_figures, draw_inconsistency, draw_switches, timeline]


class Written(list[str]):
    """The lines that are written in an image; `has` finds some that follow each other."""

    @classmethod
    def of(cls, svg: Path) -> Written:
        """Read what matplotlib repeats in comments beside the outlines of the letters."""
        return cls(html.unescape(text).strip() for text in re.findall(r"<!--(.*?)-->", svg.read_text(), re.S))

    def has(self, text: str) -> bool:
        return f"\n{text}\n" in "\n".join(["", *self, ""])


# --- all images --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=IMAGES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Draw, Path]:
    """Each image of all results, drawn once."""
    target = tmp_path_factory.mktemp("drawn") / "image.svg"
    request.param(ALL, target)
    return request.param, target


def test_the_same_results_give_the_same_bytes_whatever_the_users_settings(
    drawn: tuple[Draw, Path], tmp_path: Path
) -> None:
    draw, first = drawn
    with mpl.rc_context({"font.size": 20, "lines.linewidth": 9, "svg.fonttype": "none"}):
        draw(ALL, tmp_path / "new folder" / "again.svg")
    assert first.read_bytes().startswith(b"<?xml")
    assert first.read_bytes() == (tmp_path / "new folder" / "again.svg").read_bytes()


def test_every_method_on_the_candidates_is_named_and_the_small_print_is_there(drawn: tuple[Draw, Path]) -> None:
    written = Written.of(drawn[1])
    for name in (*SHOWN, DISCLAIMER):
        assert name in written
    assert "- Context Weaver" not in written


@pytest.mark.parametrize(("suffix", "begin"), [(".png", b"\x89PNG"), (".PDF", b"%PDF")])
def test_the_ending_says_the_format(suffix: str, begin: bytes, tmp_path: Path) -> None:
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    draw_switches(ALL, one)
    draw_switches(ALL, two)
    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("draw", IMAGES)
def test_another_ending_is_refused_and_leaves_no_file(draw: Draw, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"image\.bmp: plots are written as \.png, \.svg, \.pdf"):
        draw(ALL, tmp_path / "image.bmp")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("draw", IMAGES)
def test_dice_alone_can_be_drawn(draw: Draw, tmp_path: Path) -> None:
    draw(results(DICE_ROW), tmp_path / "image.svg")
    assert any("DiCE" in text for text in Written.of(tmp_path / "image.svg"))


def test_a_method_looks_the_same_whatever_it_is_drawn_with() -> None:
    assert method_looks(ROWS)[4] == method_looks(ROWS[4:5])[0] == Look(METHODS["aks"].colour, METHODS["aks"].mark)
    assert method_looks(ROWS)[5] != method_looks(ROWS)[4], "another row of the same method"
    looks = method_looks([one for one in ROWS if one.row.group in ("ours", "fixed budget")])
    assert len({look.colour for look in looks}) == len({look.mark for look in looks}) == len(SHOWN)


def test_all_twelve_labels_have_a_colour_of_their_own() -> None:
    assert len({label_look(LABELS, label).colour for label in range(len(LABELS))}) == 12


def test_a_paler_colour_lies_between_the_colour_and_white() -> None:
    assert paler("#000000", 0.5) == "#808080"
    assert paler("#ffffff") == "#ffffff"


# --- all methods ---------------------------------------------------------------------------------------------------


def test_figures_are_written_beside_their_bars(tmp_path: Path) -> None:
    draw_figures(ALL, tmp_path / "image.svg")
    written = Written.of(tmp_path / "image.svg")
    for key in ("ldr", "sensitivity", "dy", "pdr"):
        assert f"{100 * DICE_ROW.evaluation.figures[key].value:.1f}" in written
    assert "% of 6 findings" in written  # "normal" is none
    assert "% of 3 exams with findings" in written


def test_what_is_not_defined_is_said_and_not_drawn(tmp_path: Path) -> None:
    bare = {name: Annotation(name, ()) for name in REPORTS}
    scored = evaluate(DICE_ROW.selections, bare, name="dice", protocol=Protocol(resamples=100))
    draw_figures(results(replace(DICE_ROW, evaluation=scored)), tmp_path / "image.svg")
    assert Written.of(tmp_path / "image.svg").count("not defined") == 4


def test_inconsistency_tells_over_how_many_exams_each_mean_is(tmp_path: Path) -> None:
    draw_inconsistency(results(DICE_ROW, ROWS[4]), tmp_path / "image.svg")
    _, *counts = [text for text in Written.of(tmp_path / "image.svg") if text.isdecimal() and int(text) < 20]
    # DiCE: 20 s and 880 s in the first exam, 990 s in the second. AKS: 60 s and more; 30 and 50 s; 5 s.
    assert counts == ["1", "1", "1", "1", "1", "2", "3", "3", "3", "3"]


@pytest.mark.parametrize(("p", "stars"), [(0.049, 1), (0.05, 0), (None, 0)])
def test_a_star_needs_an_adjusted_p_below_five_percent(p: float | None, stars: int, tmp_path: Path) -> None:
    both = results(DICE_ROW, ROWS[4])
    assert both.comparison is not None
    changed = [replace(test, p_holm=p if test.figure == "60" else 0.9) for test in both.comparison.inconsistency]
    both = replace(both, comparison=replace(both.comparison, inconsistency=tuple(changed)))
    draw_inconsistency(both, tmp_path / "image.svg")
    assert Written.of(tmp_path / "image.svg").count("*") == stars


def test_switches_are_counted_in_the_legend(tmp_path: Path) -> None:
    draw_switches(ALL, tmp_path / "image.svg")
    written = Written.of(tmp_path / "image.svg")
    # DiCE switches after 880 s and 990 s. AKS after 870, 80, 60, 1900 s; 30, 50 s; 5 s.
    assert written.has("DiCE\n2 switches, 0 % within 60 s")
    assert written.has("AKS\n7 switches, 57 % within 60 s")
    assert written.has("Random\nno switches")
    assert "60 s" in written


def test_a_switch_at_the_same_instant_can_be_drawn(tmp_path: Path) -> None:
    shots = {**DICE, "one": [(100, "ulcer")]}
    twice = outcome("dice", "DiCE", "ours", shots)
    chosen = Selections.of([Selection(5, 1, 0), Selection(5, 2, 1)])
    scored = evaluate({**twice.selections, "one": chosen}, annotations(), protocol=Protocol(resamples=100))
    draw_switches(results(replace(twice, evaluation=scored)), tmp_path / "image.svg")
    assert Written.of(tmp_path / "image.svg").has("DiCE\n2 switches, 50 % within 60 s")


# --- one exam ------------------------------------------------------------------------------------------------------


def test_the_patient_shown_has_most_findings_of_those_where_dice_found_any() -> None:
    assert choose_patient(ALL) == "one"
    missed_first = {**DICE, "one": [], "three": [(700, "polyp")]}
    assert choose_patient(results(outcome("dice", "DiCE", "ours", missed_first))) == "two"
    nothing: Shots = {name: [] for name in REPORTS}
    assert choose_patient(results(outcome("dice", "DiCE", "ours", nothing))) == "one"


def test_no_patient_is_shown_where_no_report_has_a_finding() -> None:
    bare = {name: Annotation(name, ()) for name in REPORTS}
    scored = evaluate(DICE_ROW.selections, bare, protocol=Protocol(resamples=100))
    assert choose_patient(results(replace(DICE_ROW, evaluation=scored))) is None


def test_frames_that_answer_a_finding_with_its_label_are_right_and_no_others() -> None:
    exam = results_of(ALL, "one")
    dice, aks = exam.methods[0], exam.methods[3]
    assert dice.is_right.tolist() == [True, False, False]  # 130 s is a duplicate, 1010 s has the wrong label
    assert aks.is_right.tolist() == [True, True, False, False, False]
    assert [finding.label for finding in results_of(ALL, "two").findings] == ["ulcer", "polyp"]


def test_right_frames_add_up_to_the_detection_rate() -> None:
    for place, row in enumerate(one for one in ROWS if one.row.group in ("ours", "fixed budget")):
        right = sum(results_of(ALL, exam).methods[place].right for exam in REPORTS)
        assert right == row.evaluation.figures["ldr"].top


def test_an_unknown_exam_is_named() -> None:
    with pytest.raises(UsageError, match="the exam 'four' is not in this benchmark; it has one, three, two"):
        results_of(ALL, "four")


def test_the_strongest_baselines_come_by_detection_rate() -> None:
    keys = [one.outcome.row.key for one in strongest(results_of(ALL, "one").methods, 3)]
    assert keys == ["aks", "newcomer", "random"]


@pytest.mark.parametrize(("truth", "is_shown"), [(TRUTH, True), ([], True), (None, False)])
def test_the_timeline_shows_truth_only_where_it_is_known(
    truth: Sequence[Span] | None, is_shown: bool, tmp_path: Path
) -> None:
    draw_timeline(results(DICE_ROW), "one", truth, tmp_path / "image.svg")
    assert ("In view" in Written.of(tmp_path / "image.svg")) is is_shown


def test_the_timeline_numbers_the_findings_and_explains_the_labels_that_occur(tmp_path: Path) -> None:
    draw_timeline(results(DICE_ROW, ROWS[4]), "one", [Span(0, 5, "hematocele")], tmp_path / "image.svg")
    written = Written.of(tmp_path / "image.svg")
    assert {"1", "2", "3", "ulcer", "polyp", "erosion", "normal", "hematocele"} <= set(written)
    assert "parasite" not in written
    assert written.has("DiCE\n1 of 3 right")


def test_the_close_view_is_around_the_finding_where_the_baselines_switch_most() -> None:
    # AKS switches 30, 50 and 60 s apart around the first finding of "two" and the second of "one".
    assert restless_finding(results_of(ALL, "one")) == 1
    assert restless_finding(results_of(ALL, "two")) == 0
    assert restless_finding(results_of(results(DICE_ROW, ROWS[2]), "one")) is None


def test_without_short_switches_the_timeline_has_no_close_view(tmp_path: Path) -> None:
    draw_timeline(results(DICE_ROW, ROWS[2]), "one", None, tmp_path / "image.svg")
    assert not any(text.startswith("Around finding") for text in Written.of(tmp_path / "image.svg"))


def test_an_exam_without_findings_and_keyframes_has_a_timeline(tmp_path: Path) -> None:
    bare = replace(ALL.dataset, annotations={**ALL.dataset.annotations, "three": Annotation("three", ())})
    draw_timeline(replace(results(DICE_ROW), dataset=bare), "three", None, tmp_path / "image.svg")
    assert Written.of(tmp_path / "image.svg").has("DiCE\n0 of 0 right")


# --- case study ----------------------------------------------------------------------------------------------------


@pytest.fixture
def exam(tmp_path: Path) -> Iterator[Exam]:
    """60 frames, one in 50 s."""
    video = numbered_video(tmp_path / "one.mp4", 60)
    with open_exam(video, clock=ClockOptions(exam_fps=Fraction(1, 50)), mask=False) as opened:
        yield opened


def test_a_case_study_shows_the_frame_of_each_finding_and_of_each_answer(
    exam: Exam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    read = Exam.images

    def images(self: Exam, ordinals: Iterable[int], *, size: int | None = None) -> Iterator[tuple[int, Image]]:
        wanted = list(ordinals)
        asked.extend(wanted)
        return read(self, wanted, size=size)

    monkeypatch.setattr(Exam, "images", images)
    draw_case_study(results(DICE_ROW, *ROWS[2:5]), "one", exam, tmp_path / "case.svg")
    # Per finding: the report, DiCE, AKS, Random. 110 s is nearest to the frame of 100 s.
    assert asked == [2, 2, 2, 20, 20, 19, 16, 40]
    written = Written.of(tmp_path / "case.svg")
    assert written.has("✓ ulcer\n+10 s")
    assert written.has("✗ erosion\n+10 s")
    assert written.has("✓ polyp\n−40 s")
    assert written.count("missed") == 4
    assert written.has("DiCE\n1 of 3 right\nin 3 frames")
    assert written.has("AKS\n2 of 3 right\nin 5 frames")
    assert "Uniform" not in " ".join(written)
    assert DISCLAIMER in written


def test_an_answer_whose_frame_is_known_is_shown_by_it_and_not_by_its_time(
    exam: Exam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {**DICE_ROW.selections, "one": selections([(110, "ulcer")], frame=33)}
    asked: list[int] = []
    monkeypatch.setattr(Exam, "images", lambda self, ordinals, *, size: asked.extend(ordinals) or iter(()))
    draw_case_study(results(replace(DICE_ROW, selections=chosen)), "one", exam, tmp_path / "case.svg")
    assert asked == [2, 33, 20, 40]


def test_a_finding_that_is_missed_because_labels_contradict_each_other_says_so(exam: Exam, tmp_path: Path) -> None:
    chosen = {**DICE_ROW.selections, "one": selections([(100, "ulcer"), (110, "polyp")])}
    draw_case_study(results(replace(DICE_ROW, selections=chosen)), "one", exam, tmp_path / "case.svg")
    written = Written.of(tmp_path / "case.svg")
    assert written.has("missed:\ncontradicting labels")
    assert written.count("missed") == 2


def test_a_case_study_gives_the_same_bytes_twice(exam: Exam, tmp_path: Path) -> None:
    for target in (tmp_path / "one.svg", tmp_path / "two.svg"):
        draw_case_study(results(DICE_ROW), "one", exam, target)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_case_study_of_a_report_without_findings_is_refused(exam: Exam, tmp_path: Path) -> None:
    bare = replace(ALL.dataset, annotations={**ALL.dataset.annotations, "one": Annotation("one", ())})
    with pytest.raises(UsageError, match="the report of exam 'one' has no findings"):
        draw_case_study(replace(ALL, dataset=bare), "one", exam, tmp_path / "case.png")


def test_of_many_findings_some_from_beginning_to_end_are_shown() -> None:
    assert spread_over(3, 6) == [0, 1, 2]
    assert spread_over(6, 6) == [0, 1, 2, 3, 4, 5]
    for count in range(7, 40):
        shown = spread_over(count, 6)
        assert len(shown) == 6
        assert (shown[0], shown[-1]) == (0, count - 1)


@pytest.mark.parametrize(
    ("seconds", "ordinal"), [(0, 0), (-5, 0), (1.4, 0), (1.5, 0), (1.6, 1), (3, 1), (6.5, 1), (6.6, 2), (99, 2)]
)
def test_the_frame_nearest_in_exam_time_is_taken(seconds: float, ordinal: int) -> None:
    clock = ExamClock(np.array([0, 6, 20]), Fraction(1, 2), "sidecar", "")
    assert ordinal_at(clock, seconds) == ordinal
