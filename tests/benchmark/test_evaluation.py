"""Reading predictions, all figures together, comparisons, what is printed, and the example of the documentation."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.evaluate import synthetic_truth, write_predictions
from tools.draw_metrics import PAGE, draw_consistency, draw_timeline, read_example, tables_of

from dice_ce import DISCLAIMER
from dice_ce.benchmark.comparison import compare, patient_values
from dice_ce.benchmark.consistency import THRESHOLDS
from dice_ce.benchmark.evaluation import Evaluation, Protocol, evaluate
from dice_ce.benchmark.match import NO_FRAME, Selections
from dice_ce.benchmark.metrics import RATIOS, Counts
from dice_ce.benchmark.predictions import read_predictions
from dice_ce.benchmark.scorecard import evaluation_text, parse_methods, score
from dice_ce.datasets.tables import Annotation, Finding
from dice_ce.errors import InputError, UsageError
from dice_ce.taxonomy import Taxonomy
from tests.benchmark.test_match import EROSION, LABELS, NORMAL, POLYP, ULCER, Report, Shot, selections

PROTOCOL = Protocol(LABELS, resamples=200)
TRUTH = {
    "one": [Report(1000, ULCER, "a"), Report(3000, POLYP, "b")],
    "two": [Report(1000, EROSION, "a")],
    "three": [],
}
SHOTS = {
    "one": [Shot(1010, ULCER), Shot(1100, POLYP), Shot(5000, ULCER)],
    "two": [Shot(1000, ULCER), Shot(1060, EROSION)],
    "three": [Shot(1000, POLYP)],
}


def annotations(truth: Mapping[str, Sequence[Report]]) -> dict[str, Annotation]:
    return {
        exam: Annotation(exam, tuple(Finding(r.id, r.seconds, LABELS.labels[r.label]) for r in reports))
        for exam, reports in truth.items()
    }


def evaluated(shots: Mapping[str, Sequence[Shot]] = SHOTS, **options: Any) -> Evaluation:
    chosen = {exam: selections(frames) for exam, frames in shots.items()}
    return evaluate(chosen, annotations(TRUTH), **{"protocol": PROTOCOL, **options})


# --- figures -------------------------------------------------------------------------------------------------------


def test_figures_are_quotients_of_sums_over_exams() -> None:
    figures = evaluated().figures
    values = {key: (figure.top, figure.bottom) for key, figure in figures.items()}
    assert values["ldr"] == (1, 3)
    assert values["ldr_any"] == (2, 3)
    assert values["sensitivity"] == (2, 3)
    assert values["time_error"] == (10, 2)
    assert values["redundancy"] == (4, 6)
    assert values["redundancy_mean"] == pytest.approx((2 / 3 + 1 / 2 + 1, 3))
    assert values["specificity"] == (2, 4)
    assert values["dy"] == (0, 2)
    assert values["pdr"] == (1, 2)
    assert values["pdr_all"] == (1, 3)
    assert set(values) == set(RATIOS)
    assert figures["ldr"].value == pytest.approx(1 / 3)


def test_every_figure_has_an_interval_around_it() -> None:
    result = evaluated()
    for key, figure in result.figures.items():
        assert figure.low <= figure.value + 1e-12, key
        assert figure.value <= figure.high + 1e-12, key
    for threshold in (60, 120, 300, 600):
        rate = result.inconsistency[threshold]
        assert rate.mean.low <= rate.mean.value <= rate.mean.high
        assert rate.pooled.low <= rate.pooled.value <= rate.pooled.high


def test_inconsistency_and_switches_of_all_exams() -> None:
    result = evaluated()
    assert {t: (rate.pooled.top, rate.pooled.bottom) for t, rate in result.inconsistency.items()} == {
        30: (0, 0),
        60: (1, 1),
        120: (2, 2),
        300: (2, 2),
        600: (2, 2),
    }
    assert result.inconsistency[120].mean.bottom == 2
    assert math.isnan(result.inconsistency[30].mean.value)
    assert result.switches.switches == (60_000, 90_000, 3_900_000)
    assert (result.short_switches.top, result.short_switches.bottom) == (1, 3)


def test_counts_of_the_exams_add_up_to_the_total() -> None:
    result = evaluated()
    total = Counts()
    for exam in result.counts:
        total += exam
    assert result.total == total
    assert total.selected == 6


def test_the_same_seed_gives_the_same_intervals_and_the_order_of_exams_does_not_matter() -> None:
    backwards = dict(reversed(SHOTS.items()))
    assert evaluated().to_json() == evaluated(backwards).to_json()
    other = evaluated(protocol=replace(PROTOCOL, seed=1))
    assert evaluated().figures["time_error"].value == other.figures["time_error"].value
    assert evaluated().figures["redundancy"] != other.figures["redundancy"]


def test_exams_are_counted_and_patients_are_resampled() -> None:
    apart, together = evaluated(), evaluated(patients={"one": "p", "two": "p", "three": "q"})
    assert (apart.patient_count, together.patient_count) == (3, 2)
    for key in RATIOS:
        assert together.figures[key].value == pytest.approx(apart.figures[key].value)
    # Three, two and one frames: alone, the first exam can be drawn for all; with the second, at most both twice.
    assert apart.figures["frames"].high == 3
    assert together.figures["frames"].high == 2.5


def test_a_single_patient_gives_figures_without_intervals() -> None:
    result = evaluated(patients=dict.fromkeys(TRUTH, "p"))
    assert result.figures["ldr"].value == pytest.approx(1 / 3)
    assert math.isnan(result.figures["ldr"].low)
    assert re.search(r"lesion detection rate \(LDR\) +33\.3 % +1 / 3$", evaluation_text(result), re.M)


def test_a_method_without_selections_can_be_scored() -> None:
    result = evaluated(dict.fromkeys(TRUTH, ()))
    assert result.figures["ldr"].value == 0
    assert math.isnan(result.figures["redundancy"].value)
    json.dumps(result.to_json(), allow_nan=False)


def test_an_exam_without_selections_must_be_given_as_such() -> None:
    with pytest.raises(InputError, match="no selections for the exam 'three'"):
        evaluated({"one": [], "two": []})


def test_the_facts_hold_every_exam_and_no_nan() -> None:
    facts = json.loads(json.dumps(evaluated().to_json(), allow_nan=False))
    assert facts["exams_without_findings"] == 1
    assert facts["figures"]["ldr"] == pytest.approx({"value": 1 / 3, "low": 0, "high": 0.5, "top": 1, "bottom": 3})
    assert facts["inconsistency"]["30"]["mean"]["value"] is None
    assert facts["switches"]["cdf"] == {"seconds": [60, 90, 3900], "share": pytest.approx([1 / 3, 2 / 3, 1])}
    assert facts["per_exam"]["two"]["matched"] == 1
    assert set(facts["per_exam"]) == set(TRUTH)


def test_findings_labelled_normal_count_if_the_protocol_says_so() -> None:
    truth = annotations({"one": [Report(1000, NORMAL, "a"), Report(3000, ULCER, "b")]})
    chosen = {"one": selections([Shot(1000, NORMAL)])}
    assert evaluate(chosen, truth, protocol=PROTOCOL).figures["sensitivity"].bottom == 1
    counting = replace(PROTOCOL, count_normal_findings=True)
    assert evaluate(chosen, truth, protocol=counting).figures["ldr"].value == 0.5


def test_a_benchmark_of_240_exams_is_scored_whole(tmp_path: Path) -> None:
    truth = synthetic_truth(240, np.random.default_rng(0))
    write_predictions(tmp_path / "p.csv", truth, frames=30, skill=0.5, seed=0)
    result = evaluate(read_predictions(tmp_path / "p.csv").for_exams(truth), truth)
    assert result.total.selected == 240 * 30
    assert result.total.findings == sum(len(annotation.findings) for annotation in truth.values())
    assert 0.5 < result.figures["sensitivity"].low < result.figures["sensitivity"].high < 1
    assert result.protocol.resamples == 2000


# --- comparison ----------------------------------------------------------------------------------------------------


def many(hits: Sequence[bool], name: str) -> Evaluation:
    """One exam per entry, with one finding and two frames; it is found or not, and frames agree or not."""
    truth = {f"{k:02d}": [Report(1000, ULCER)] for k in range(len(hits))}
    shots = {f"{k:02d}": [Shot(1000 if hit else 9000, ULCER), Shot(9020, ULCER)] for k, hit in enumerate(hits)}
    chosen = {exam: selections(frames) for exam, frames in shots.items()}
    return evaluate(chosen, annotations(truth), name=name, protocol=PROTOCOL)


def test_the_first_method_is_tested_against_each_of_the_others() -> None:
    good, bad, same = many([True] * 8, "good"), many([False] * 8, "bad"), many([True] * 8, "same")
    result = compare([good, bad, same])
    tests = {(test.other, test.figure): test for test in result.metrics}
    assert set(tests) == {(o, f) for o in ("bad", "same") for f in ("ldr", "sensitivity", "redundancy")}
    ldr = tests["bad", "ldr"]
    assert (ldr.difference, ldr.low, ldr.high, ldr.n, ldr.nonzero) == (1, 1, 1, 8, 8)
    assert ldr.p == pytest.approx(2 / 2**8)
    assert ldr.p_holm == pytest.approx(6 * 2 / 2**8)
    assert tests["bad", "redundancy"].difference == pytest.approx(-0.5)
    assert (tests["same", "ldr"].p, tests["same", "ldr"].how) == (1.0, "all equal")
    assert len(result.inconsistency) == 2 * len(THRESHOLDS)


def test_inconsistency_is_compared_on_patients_with_a_pair_in_both() -> None:
    result = compare([many([False] * 8, "a"), many([False] * 3 + [True] * 5, "b")])
    (at_30,) = [test for test in result.inconsistency if test.figure == "30"]
    assert (at_30.n, at_30.how, at_30.p, at_30.p_holm) == (3, "insufficient", None, None)


def test_differences_are_those_of_the_printed_figures() -> None:
    busy = {**SHOTS, "one": [Shot(1000, ULCER), Shot(1010, ULCER), Shot(1020, ULCER), Shot(1030, POLYP)]}
    one, two = evaluated(busy, name="busy"), evaluated()
    result = compare([one, two])
    for test in result.metrics:
        assert test.difference == pytest.approx(one.figures[test.figure].value - two.figures[test.figure].value)
    at = {int(test.figure): test for test in result.inconsistency}
    assert one.inconsistency[60].mean.value != one.inconsistency[60].pooled.value
    assert at[60].difference == pytest.approx((1 / 3 + 1) / 2 - 1)
    assert math.isnan(at[30].difference)
    assert at[60].low <= at[60].difference <= at[60].high


def test_exams_of_one_patient_are_taken_together_in_tests() -> None:
    columns = np.array([1.0, 0, 0, 0]), np.array([1.0, 3, 2, 0])
    assert patient_values(["p", "p", "q", "r"], columns).tolist() == pytest.approx([0.25, 0, math.nan], nan_ok=True)


def test_a_comparison_needs_two_methods_on_the_same_exams() -> None:
    with pytest.raises(UsageError, match="at least two methods"):
        compare([many([True] * 8, "a")])
    with pytest.raises(UsageError, match="b was not scored like a"):
        compare([many([True] * 8, "a"), many([True] * 7, "b")])


# --- predictions: CSV ----------------------------------------------------------------------------------------------


def rows_of(chosen: Selections) -> list[tuple[int, int, str]]:
    labels = Taxonomy().labels
    return [
        (int(time), int(frame), labels[label])
        for time, frame, label in zip(chosen.times, chosen.frames, chosen.labels, strict=True)
    ]


def csv_file(path: Path, *lines: str, header: str = "exam_id,seconds,label") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_csv_may_have_clock_times_aliases_more_columns_and_semicolons(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path / "p.csv",
        "x;Angiectasia;00:10:00.5;3;hello",
        "",
        "x; ulcer ;12;;",
        "y;bleeding;7;0;",
        header="Exam_ID;label;seconds;frame;remark",
    )
    exams = read_predictions(path).for_exams(["x", "y", "z"])
    assert rows_of(exams["x"]) == [(12_000, NO_FRAME, "ulcer"), (600_500, 3, "angioectasia")]
    assert rows_of(exams["y"]) == [(7_000, 0, "hematocele")]
    assert len(exams["z"]) == 0  # not mentioned, so nothing was selected


def test_csv_files_are_found_in_subfolders(tmp_path: Path) -> None:
    csv_file(tmp_path / "a" / "one.csv", "one,5,ulcer")
    csv_file(tmp_path / "b" / "two.CSV", "two,6,ulcer")
    csv_file(tmp_path / ".part-1" / "one.csv", "one,7,ulcer")  # unfinished work is not looked at
    exams = read_predictions(tmp_path).for_exams(["one", "two"])
    assert [rows_of(chosen)[0][0] for chosen in exams.values()] == [5_000, 6_000]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["one,5,ulcer", "one,soon,ulcer"], r"p\.csv, line 3: 'soon' is neither seconds nor HH:MM:SS"),
        (["one,-5,ulcer"], r"p\.csv, line 2: '-5' is neither"),
        (["one,5,ulcre"], r"p\.csv, line 2: label 'ulcre' .* did you mean 'ulcer'\?"),
        ([",5,ulcer"], r"p\.csv, line 2: no exam_id"),
        (["one,5"], r"p\.csv, line 2: 2 cells"),
        (
            ["one,5,ulcer", "two,5,ulcer", "one,00:00:05,polyp"],
            r"line 4: the frame at 00:00:05 of exam 'one' .* line 2",
        ),
    ],
)
def test_errors_in_a_csv_name_file_and_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_predictions(csv_file(tmp_path / "p.csv", *lines))


def test_a_frame_column_tells_frames_of_one_instant_apart(tmp_path: Path) -> None:
    header = "exam_id,seconds,label,frame"
    path = csv_file(tmp_path / "p.csv", "one,5,ulcer,7", "one,5,ulcer,8", header=header)
    assert len(read_predictions(path).exams["one"].selections) == 2
    with pytest.raises(InputError, match=r"line 3: .* stands in line 2, too; remove one$"):
        read_predictions(csv_file(path, "one,5,ulcer,7", "one,5.0,polyp,7", header=header))
    with pytest.raises(InputError, match=r"line 2: frame 'seven' is no frame number"):
        read_predictions(csv_file(path, "one,5,ulcer,seven", header=header))


def test_a_csv_without_the_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"p\.csv: the column 'label' is missing"):
        read_predictions(csv_file(tmp_path / "p.csv", "one,5", header="exam_id,seconds"))


def test_a_csv_with_only_a_header_selected_nothing(tmp_path: Path) -> None:
    assert len(read_predictions(csv_file(tmp_path / "p.csv")).for_exams(["one"])["one"]) == 0


def test_an_exam_in_two_files_is_refused(tmp_path: Path) -> None:
    csv_file(tmp_path / "a.csv", "one,5,ulcer")
    csv_file(tmp_path / "b.csv", "one,6,ulcer")
    with pytest.raises(InputError, match=r"b\.csv: exam 'one' is in .*a\.csv, too"):
        read_predictions(tmp_path)


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_no_predictions_at_all_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        read_predictions(tmp_path / name)


# --- predictions: summaries ----------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[1] / "golden" / "summary.json"


def summary_file(folder: Path, exam: str, **changes: Any) -> Path:
    content = json.loads(GOLDEN.read_text())
    content["exam"]["id"] = exam
    model = {"name": "model", "digest": "0" * 64}
    content["provenance"] |= {"packages": {}, "version": "0", "bundle": model, "encoder": model}
    content["exam"]["clock"].update(changes.pop("clock", {}))
    content.update(changes)
    path = folder / exam / "summary.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    return path


def test_keyframes_of_summaries_are_selections(tmp_path: Path) -> None:
    summary_file(tmp_path, "one")
    csv_file(tmp_path / "one" / "findings.csv", "one,5,ulcer")  # as `summarize` leaves it: says the same
    (tmp_path / "run.json").write_text("[]")
    items = json.loads(GOLDEN.read_text())["items"]
    expected = [(round(1000 * i["keyframe"]["seconds"]), i["keyframe"]["frame"], i["label"]) for i in items]
    assert rows_of(read_predictions(tmp_path).for_exams(["one"])["one"]) == sorted(expected)
    assert len(expected) == 4


def test_an_exam_without_a_summary_is_an_error_unless_it_counts_as_empty(tmp_path: Path) -> None:
    summary_file(tmp_path, "one")
    predictions = read_predictions(tmp_path)
    with pytest.raises(InputError, match=r"exam 'two' is without a summary"):
        predictions.for_exams(["one", "two"])
    with pytest.raises(InputError, match=r"exams 'a', 'b', 'c', 'd', 'e' and 1 more are without a summary"):
        predictions.for_exams(["one", *"fedcba"])
    assert len(predictions.for_exams(["one", "two"], missing_as_empty=True)["two"]) == 0


def test_an_exam_that_the_dataset_does_not_know_is_an_error_and_one_of_another_split_is_left_out(
    tmp_path: Path,
) -> None:
    summary_file(tmp_path, "one")
    summary_file(tmp_path, "two")
    predictions = read_predictions(tmp_path)
    with pytest.raises(InputError, match=r"two/summary\.json: exam 'two' is not in the dataset"):
        predictions.for_exams(["one"])
    assert set(predictions.for_exams(["one"], known=["one", "two"])) == {"one"}
    with pytest.raises(InputError, match="exam 'two' is not in the dataset"):
        predictions.for_exams(["one"], known=["one", "three"])


def test_playback_times_are_refused_unless_the_caller_insists(tmp_path: Path) -> None:
    summary_file(tmp_path, "one", clock={"source": "playback", "is_exam_time": False})
    summary_file(tmp_path, "two")
    predictions = read_predictions(tmp_path)
    with pytest.raises(InputError, match=r"exam 'one' has playback times, .*--exam-fps.* --allow-playback$"):
        predictions.for_exams(["one", "two"])
    assert len(predictions.for_exams(["one", "two"], allow_playback=True)["one"]) == 4
    assert set(predictions.for_exams(["two"], known=["one", "two"])) == {"two"}


def test_a_csv_that_says_playback_is_refused_too(tmp_path: Path) -> None:
    header = "exam_id,seconds,label,clock"
    path = csv_file(tmp_path / "p.csv", "one,5,ulcer,playback", "two,5,ulcer,sidecar", header=header)
    with pytest.raises(InputError, match="exam 'one' has playback times"):
        read_predictions(path).for_exams(["one", "two"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "dice-ce/summary/99"}, r"summary\.json: summary: not a file of .*'dice-ce/summary/99'"),
        ({"items": [{}]}, r"summary\.json: summary: not a file of .*missing required field `id` - at `\$\.items"),
        ({"exam": {"id": "one"}}, r"summary\.json: summary: not a file of .*missing required field `digest`"),
    ],
)
def test_a_damaged_summary_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = summary_file(tmp_path, "one")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(InputError, match=message):
        read_predictions(tmp_path)


@pytest.mark.parametrize("seconds", [-1, "5", math.nan, math.inf, None, 1e12])
def test_a_keyframe_without_a_time_is_refused(tmp_path: Path, seconds: object) -> None:
    items = json.loads(GOLDEN.read_text())["items"]
    items[0]["keyframe"]["seconds"] = seconds
    summary_file(tmp_path, "one", items=items)
    with pytest.raises(InputError, match=r"summary\.json: (item .* is no frame of an exam|summary: not a file of)"):
        read_predictions(tmp_path)


def test_a_keyframe_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    items = json.loads(GOLDEN.read_text())["items"]
    summary_file(tmp_path, "one", items=[*items, items[0]])
    with pytest.raises(InputError, match=r"summary\.json: frame \d+ at .* is selected twice"):
        read_predictions(tmp_path)


def test_a_broken_json_file_is_refused(tmp_path: Path) -> None:
    summary_file(tmp_path, "one").write_text("{")
    with pytest.raises(InputError, match=r"summary\.json: not a JSON file"):
        read_predictions(tmp_path)


# --- the scorecard -------------------------------------------------------------------------------------------------


def dataset(folder: Path) -> Path:
    """Ten exams of nine patients in two splits."""
    exams = [f"e{k},p{max(k, 1)},{'test' if k < 8 else 'train'},e{k}.mp4" for k in range(10)]
    csv_file(folder / "exams.csv", *exams, header="exam_id,patient_id,split,video")
    findings = [f"e{k},a,{1000 + k},ulcer" for k in range(1, 10)]
    csv_file(folder / "findings.csv", *findings, header="exam_id,finding_id,seconds,label")
    return folder


def good_and_bad(folder: Path) -> list[tuple[str, Path]]:
    good = csv_file(folder / "good.csv", *(f"e{k},1000,ulcer" for k in range(10)))
    bad = csv_file(folder / "bad.csv", *(f"e{k},{t},polyp" for k in range(10) for t in (1000, 5000)))
    return [("good", good), ("bad", bad)]


def test_a_method_is_scored_on_one_split(tmp_path: Path) -> None:
    card = score(good_and_bad(tmp_path)[:1], dataset(tmp_path / "set"), split="test")
    (result,) = card.evaluations
    assert (result.total.exams, result.patient_count, result.total.findings) == (8, 7, 7)
    text = card.text()
    assert "Truth: set, split test" in text
    assert "good: 8 exams of 7 patients, 7 findings; 8 selected frames" in text
    assert re.search(r"lesion detection rate \(LDR\) +100\.0 % +\[100\.0, 100\.0\] +7 / 7", text)
    assert re.search(r"time error +4\.0 s +\[\d\.\d, \d\.\d\] +28 / 7", text)
    assert "1 exam without findings: left out" in text
    assert text.endswith(DISCLAIMER)


def test_the_window_is_printed_and_findings_closer_together_than_it_are_counted(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "set")
    clean = score(good_and_bad(tmp_path)[:1], folder)
    assert "\nWindow: a frame answers a finding up to 300 s before or after it\n\n" in clean.text()
    assert (clean.to_json()["window_seconds"], clean.to_json()["warnings"]) == (300, [])
    with (folder / "findings.csv").open("a") as file:
        file.write("e3,b,1303,polyp\n")  # 300 s after its neighbour: still in the window
        file.write("e4,b,1305,polyp\n")  # 301 s
        file.write("e5,b,1017.5,polyp\ne5,c,1018,polyp\ne5,d,9000,polyp\n")
        file.write("e6,b,1007,normal\n")  # no lesion
    warning = (
        "5 of 14 findings, in 2 exams, lie within the window of another one (closest: 0.5 s apart in exam 'e5'): "
        "a frame there may be matched with a finding that it does not show"
    )
    card = score(good_and_bad(tmp_path)[:1], folder)
    assert f"Warning: {warning}\n" in card.text()
    assert card.to_json()["warnings"] == [warning]
    counting = score(good_and_bad(tmp_path)[:1], folder, protocol=Protocol(count_normal_findings=True))
    assert counting.warnings[0].startswith("7 of 15 findings, in 3 exams")


def test_every_figure_is_printed_with_its_interval_under_its_level(tmp_path: Path) -> None:
    text = score(good_and_bad(tmp_path)[:1], dataset(tmp_path / "set")).text()
    places = [text.index(heading) for heading in ("Lesion level", "Keyframe level", "Patient level", "Labels of")]
    assert places == sorted(places)
    for ratio in RATIOS.values():
        assert re.search(rf"^ +{re.escape(ratio.name)} +-?[\d.]+( %| s)? +\[", text, re.M), ratio.name
    assert re.search(r"10 min +- +", text)  # no two frames are so near each other
    assert "no label switches" in text


def test_a_comparison_has_methods_as_rows_and_says_how_p_was_found(tmp_path: Path) -> None:
    card = score(good_and_bad(tmp_path), dataset(tmp_path / "set"), split="test", comparing=True)
    text = card.text()
    assert re.search(r"^good +1\.0 +100\.0 +100\.0", text, re.M)
    assert re.search(r"^bad +2\.0 +0\.0 +100\.0", text, re.M)
    assert re.search(r"^bad +LDR +\+100\.0 +\[\+100\.0, \+100\.0\] +7 +7 +0\.016 +0\.047 +exact", text, re.M)
    assert re.search(r"^bad +differ, 10 min .* - +- +insufficient", text, re.M)
    assert text.endswith(DISCLAIMER)


def test_the_facts_are_json_and_carry_the_disclaimer(tmp_path: Path) -> None:
    card = score(good_and_bad(tmp_path), dataset(tmp_path / "set"), comparing=True)
    facts = json.loads(json.dumps(card.to_json(), allow_nan=False))
    assert facts["disclaimer"] == DISCLAIMER
    assert [method["name"] for method in facts["methods"]] == ["good", "bad"]
    assert facts["comparison"]["reference"] == "good"
    assert facts["comparison"]["metrics"][0]["p_holm"] <= 1


def test_methods_are_named_or_take_the_name_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    texts = ["mine=some/where", str(tmp_path / "aks"), str(tmp_path / "x.csv"), str(tmp_path / "a=b")]
    names = [("mine", Path("some/where")), ("aks", tmp_path / "aks"), ("x", tmp_path / "x.csv")]
    assert parse_methods(texts) == [*names, ("a=b", tmp_path / "a=b")]


@pytest.mark.parametrize("texts", [["=x"], ["a="], ["a=x", "a=y"], ["x/m", "y/m"]])
def test_methods_without_a_name_of_their_own_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--pred"):
        parse_methods(texts)


# --- the example of the documentation ------------------------------------------------------------------------------


def test_the_table_in_the_documentation_is_what_the_code_computes(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    findings, chosen = re.findall(r"```csv\n(.*?)```", page, re.S)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "findings.csv").write_text(findings)
    csv_file(tmp_path / "set" / "exams.csv", "example,p,test,e.mp4", header="exam_id,patient_id,split,video")
    (tmp_path / "chosen.csv").write_text(chosen)
    (result,) = score([("example", tmp_path / "chosen.csv")], tmp_path / "set").evaluations
    printed = re.findall(r"^\| `(\w+)` \| ([\d.]+) / (\d+) \| ([\d.]+) (%|s) \|$", page, re.M)
    assert len(printed) == 12
    for key, top, bottom, value, unit in printed:
        figure = result.figures[key]
        assert (figure.top, figure.bottom) == (float(top), float(bottom)), key
        assert f"{figure.value * (100 if unit == '%' else 1):.1f}" == value, key
    rates = re.findall(r"^\| \d+ (?:s|min) \| (\d+) / (\d+) \|$", page, re.M)
    assert [(rate.pooled.top, rate.pooled.bottom) for rate in result.inconsistency.values()] == [
        (int(differing), int(near)) for differing, near in rates
    ]
    assert "6 in the example, one of them within 60 s" in " ".join(page.split())
    assert (result.short_switches.top, result.short_switches.bottom) == (1, 6)


def test_the_image_is_drawn_from_the_lists_in_the_documentation() -> None:
    page = PAGE.read_text(encoding="utf-8")
    example = read_example(page)
    assert {name: len(rows) for name, rows in tables_of(page).items()} == {"findings": 4, "selected": 11}
    assert example.verdicts.answers.tolist() == [0, 2, 9, -1]
    assert np.flatnonzero(example.verdicts.conflicted).tolist() == [7, 8]
    assert example.verdicts.false_units.tolist() == [-1, -1, -1, -1, 0, 0, 1, 2, -1, -1, -1]


def test_the_arithmetic_about_the_paper_is_right() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    shares = re.findall(r"(\d+)/(\d+) = ([\d.]+) %", page)
    assert len(shares) == 4
    for top, bottom, value in shares:
        assert f"{100 * int(top) / int(bottom):.2f}" == value
    products = re.findall(r"([\d.]+)(?: frames)? × 40(?: patients)? × \(1 − (\.\d+)\) = (\d+)", page)
    assert len(products) == 2
    for frames, redundancy, matched in products:
        assert round(float(frames) * 40 * (1 - float(redundancy))) == int(matched)

    def fits(total: int, value: str) -> bool:
        return any(f"{100 * k / total:.2f}" == value for k in range(total + 1))

    assert [total for total in range(90, 141) if fits(total, "21.36") and fits(total, "38.83")] == [103]


def test_the_images_of_the_documentation_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    example = read_example(PAGE.read_text(encoding="utf-8"))
    for draw in (draw_timeline, draw_consistency):
        draw(example, tmp_path / "image.png")
        assert (tmp_path / "image.png").read_bytes().startswith(b"\x89PNG")
        (tmp_path / "image.png").unlink()
