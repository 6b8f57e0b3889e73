"""Tuning on validation exams, and the benchmark of all methods, on tiny exams with a random bundle."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dice_ce.baselines import build_baseline
from dice_ce.benchmark.methods import judgments, prepare, run_baseline, run_dice, select_keyframes
from dice_ce.benchmark.metrics import Counts
from dice_ce.benchmark.run import VARIANTS, choose, methods, run_benchmark, without_extensions
from dice_ce.bundle import Bundle, Settings, load_bundle, save_bundle
from dice_ce.cli import main
from dice_ce.condenser import CondenserConfig
from dice_ce.converger import ConvergerConfig
from dice_ce.datasets.folder import ExamRow, load_dataset
from dice_ce.diagnoser import NetworkDiagnoser
from dice_ce.encoder import OnnxEncoder
from dice_ce.errors import UsageError
from dice_ce.keyframes import Keyframes
from dice_ce.pipeline import Ablation, summarize
from dice_ce.prior import PriorConfig
from dice_ce.taxonomy import Taxonomy
from dice_ce.training.tuning import (
    BASELINE_SPACES,
    Scorer,
    Trial,
    describe,
    left_out,
    read_trials,
    tune_baseline,
    tune_dice,
    with_tuned,
)
from tests.material import moving_dots, tiny_head, write_tiny_encoder, write_video


@pytest.fixture
def bundle_folder(tmp_path: Path) -> Path:
    """A bundle with random heads that call about half of all frames abnormal."""
    encoder = OnnxEncoder.open(write_tiny_encoder(tmp_path / "tiny.onnx"))
    save_bundle(
        tmp_path / "bundle",
        name="tiny",
        taxonomy=Taxonomy(),
        encoder=encoder,
        selector=tiny_head(encoder.dim, 1),
        diagnoser=tiny_head(encoder.dim, 12, seed=1),
        temperature=1.0,
        settings=Settings(tau_s=0.4),
        card="# tiny\n",
    )
    return tmp_path / "bundle"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Four exams of eighty frames, one every ten seconds."""
    folder = tmp_path / "data"
    folder.mkdir()
    splits = {"a": "validation", "b": "validation", "c": "test", "d": "test"}
    for seed, name in enumerate(splits):
        write_video(folder / f"{name}.mp4", moving_dots(80, seed=seed))
    rows = "".join(f"{name},p{name},{split},{name}.mp4,1/10\n" for name, split in splits.items())
    (folder / "exams.csv").write_text("exam_id,patient_id,split,video,exam_fps\n" + rows)
    findings = "a,1,100,ulcer\na,2,600,polyp\nb,1,300,hematocele\nc,1,200,erosion\nd,1,700,polyp\nd,2,100,ulcer\n"
    (folder / "findings.csv").write_text("exam_id,finding_id,seconds,label\n" + findings)
    return folder


@pytest.fixture
def scorer(dataset: Path, bundle_folder: Path) -> Scorer:
    bundle = load_bundle(bundle_folder)
    data = load_dataset(dataset).of("validation")
    return Scorer([prepare(row, bundle) for row in data.exams], data.annotations, bundle.taxonomy)


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_dice_on_prepared_exams_is_the_pipeline(dataset: Path, bundle_folder: Path, share: float) -> None:
    bundle = load_bundle(bundle_folder)
    row = load_dataset(dataset).exams[0]
    settings = replace(bundle.settings, candidate_share=share)
    chosen = run_dice(prepare(row, bundle), bundle.taxonomy, settings)
    with row.open() as exam:
        summary = summarize(exam, bundle=bundle, settings=settings)
    assert share == 1.0 or summary.counts["candidates"] == share * 80
    assert [(item.keyframe.frame, item.label) for item in summary.items] == [
        (frame, bundle.taxonomy.labels[label]) for frame, label in zip(chosen.frames, chosen.labels, strict=True)
    ]


def test_a_baseline_labels_each_frame_on_its_own(scorer: Scorer) -> None:
    exam = scorer.exams[0]
    chosen = run_baseline(exam, lambda pool, budget: np.array([0, 3]), 0.0)
    assert chosen.frames.tolist() == [0, 3]
    np.testing.assert_array_equal(chosen.labels, exam.distributions[[0, 3]].argmax(axis=1))


def test_a_frame_that_the_diagnoser_cannot_see_is_neither_labelled_nor_selected(scorer: Scorer) -> None:
    exam = scorer.exams[0]
    distributions = exam.distributions[np.arange(80)].copy()
    distributions[3] = np.nan
    unseen = replace(exam, distributions=distributions)
    chosen = run_baseline(unseen, lambda pool, budget: np.array([0, 3, 7]), 0.0)
    assert chosen.frames.tolist() == [0, 7]
    everything = build_baseline("uniform")
    chosen = run_baseline(unseen, everything, 0.0, budget=80, prior=(PriorConfig(0.5), scorer.taxonomy.normal))
    assert chosen.frames.tolist() == [0, 1, 2, *range(4, 80)]
    candidates, judged = judgments(unseen, scorer.taxonomy, Settings(tau_s=0.0))
    assert 3 not in candidates.frames.index
    assert sum(len(one.context.rows) for one in judged) == 79


def test_a_network_diagnoses_the_frames_that_are_chosen_and_each_of_them_once(
    dataset: Path, bundle_folder: Path, tmp_path: Path
) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx", scale=0.02))
    seen: list[int] = []

    class Counting:
        name, digest, dim = network.name, network.digest, network.dim
        input_size, resize = network.input_size, network.resize

        def encode(self, batch: np.ndarray) -> np.ndarray:
            seen.append(len(batch))
            return network.encode(batch)

    cells = Taxonomy("cells", (*map(str, range(network.dim - 1)), "normal"))
    loaded = load_bundle(bundle_folder)
    stricter = replace(loaded.selector, bias2=loaded.selector.bias2 - 2)
    bundle = replace(loaded, selector=stricter, diagnoser=NetworkDiagnoser(Counting()), taxonomy=cells)
    row = load_dataset(dataset).exams[0]
    exam = prepare(row, bundle)
    assert sum(seen) == 0

    lowest = np.argsort(exam.score)[:5]
    assert exam.score[lowest].max() < 0.3
    chosen = run_baseline(exam, lambda pool, budget: np.sort(lowest), 0.0)
    with row.open() as opened:
        alone = [network.encode(opened.image(int(frame), size=32)[None]).argmax() for frame in chosen.frames]
    assert chosen.labels.tolist() == alone
    assert len(set(alone)) > 1
    assert sum(seen) == 5

    run_baseline(exam, lambda pool, budget: np.append(np.sort(lowest)[:3], 79), 0.0)
    assert sum(seen) == (5 if 79 in lowest else 6)
    run_dice(exam, cells, bundle.settings)
    run_dice(exam, cells, bundle.settings)
    assert sum(seen) == len(set(np.flatnonzero(exam.score >= 0.4)) | set(lowest) | {79})


def test_another_diagnoser_labels_what_the_baselines_chose_and_leaves_dice_alone(
    dataset: Path, bundle_folder: Path, tmp_path: Path
) -> None:
    asked: list[list[int]] = []

    def labeller(row: ExamRow, frames: Sequence[int]) -> dict[int, int]:
        asked.append(list(frames))
        return {frame: frame % 3 for frame in frames}

    data, bundle = load_dataset(dataset).of("test"), load_bundle(bundle_folder)
    bars = lambda label, unit="": lambda done, total: None  # noqa: E731
    plain = run_benchmark(data, bundle, tmp_path / "a", wanted=["aks", "uniform-raw"], watch=bars)
    other = run_benchmark(
        data, bundle, tmp_path / "b", wanted=["aks", "uniform-raw"], labeller=("thirds", labeller), watch=bars
    )
    assert other.diagnoser == "thirds"
    assert all(len(frames) == len(set(frames)) for frames in asked)
    for before, after in zip(plain.outcomes, other.outcomes, strict=True):
        for exam_id, chosen in after.selections.items():
            np.testing.assert_array_equal(chosen.frames, before.selections[exam_id].frames)
            is_dice = after.method.key == "dice"
            expected = before.selections[exam_id].labels if is_dice else chosen.frames % 3
            np.testing.assert_array_equal(chosen.labels, expected)


def test_trials_are_ranked_by_budget_then_detection_then_sensitivity_then_redundancy() -> None:
    def trial(ldr: float, sensitivity: float = 0.5, redundancy: float = 0.5, items: float = 10.0) -> Trial:
        return Trial({}, ldr, sensitivity, redundancy, items)

    worst_to_best = [
        trial(1.0, items=33.0),
        trial(0.2),
        trial(0.3, 0.5),
        trial(0.3, 0.8),
        trial(0.4, 0.7, 0.9),
        trial(0.4, 0.7, 0.8, items=32.0),
    ]
    assert all(worse.rank < better.rank for worse, better in itertools.pairwise(worst_to_best))


def test_tuning_dice_never_ends_below_where_it_started_and_repeats_itself(scorer: Scorer) -> None:
    start = Settings(tau_s=0.4)
    results = tune_dice(scorer, start, trials=25)
    assert tune_dice(scorer, start, trials=25) == results
    assert results["dice"][1].trials[0].settings == describe(start)
    for name, (settings, tuned) in results.items():
        assert len(tuned.trials) == 25
        assert tuned.best.rank >= tuned.trials[0].rank
        assert tuned.best.rank == max(trial.rank for trial in tuned.trials)
        without: list[Ablation] = ["weaver"] if name == "dice-windows" else []
        chosen = [run_dice(exam, scorer.taxonomy, settings, without) for exam in scorer.exams]
        assert scorer.trial(tuned.best.settings, chosen) == tuned.best
    plain = results["dice-paper"][0]
    assert plain == plain.by_the_paper()


def test_a_patient_who_is_left_out_is_scored_with_what_is_best_on_the_others() -> None:
    def trial(**correct: int) -> Trial:
        counts = {p: Counts(exams=1, findings=2, matched=n, correct=n, selected=2) for p, n in correct.items()}
        return Trial({}, 0, 0, 0, 1.0, by_patient=counts)

    trials = [trial(a=2, b=0, c=0), trial(a=0, b=2, c=1), trial(a=1, b=1, c=0)]
    # without a: the second is best, and finds nothing in a; without b: first and second tie; without c: all tie
    new = left_out(trials)
    assert new.ldr == pytest.approx((0 + 0 + 0) / 6)
    assert left_out([trials[1]]).ldr == pytest.approx(3 / 6)


@pytest.mark.parametrize("name", BASELINE_SPACES)
def test_every_baseline_gets_as_many_trials(scorer: Scorer, name: str) -> None:
    tuned = tune_baseline(scorer, name, tau_s=0.4, trials=7)
    assert len(tuned.trials) == 7
    assert tuned.best.rank == max(trial.rank for trial in tuned.trials)


def test_tuning_writes_a_bundle_with_settings_of_all_methods(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = tmp_path / "tuned", tmp_path / "trials.csv"
    arguments = ["tune", "--data", str(dataset), "--bundle", str(bundle_folder), "--trials", "6"]
    assert main([*arguments, "--out", str(out), "--log", str(log)]) == 0
    printed = capsys.readouterr().out
    assert "best of 6 trials each" in printed
    tuned = load_bundle(out)
    assert set(tuned.baselines) == {*BASELINE_SPACES, "dice-paper", "dice-windows"}
    assert {"dice-paper", "dice-windows"} <= set(methods(tuned))
    assert "## Settings\n\nChosen in 6 trials on 2 exams of 'data'" in tuned.card
    assert len(log.read_text().splitlines()) == 1 + 6 * (1 + len(VARIANTS) + len(BASELINE_SPACES))
    trials = read_trials(log, "dice")
    assert [trial.rank for trial in trials] == sorted((trial.rank for trial in trials), reverse=True)
    assert with_tuned(Settings(), trials[0].settings) == tuned.settings
    assert main([*arguments, "--out", str(out)]) == 0
    assert load_bundle(out).card.count("## Settings") == 1


def test_thresholds_are_never_chosen_on_test_exams(
    dataset: Path, bundle_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--data", str(dataset), "--bundle", str(bundle_folder), "--split", "test"]) == 2
    assert "never chosen on test exams" in capsys.readouterr().err


def test_the_benchmark_writes_tables_and_what_evaluate_reads(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    arguments = ["benchmark", "--data", str(dataset), "--bundle", str(bundle_folder), "--out", str(out), "--json"]
    assert main(arguments) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert set(figures) == set(methods(load_bundle(bundle_folder)))
    for name in ("main", "raw-video", "ablation", "consistency", "tests"):
        for kind in ("md", "csv", "tex"):
            assert (out / "tables" / f"{name}.{kind}").stat().st_size > 50
    page = (out / "results.md").read_text()
    assert "nan" not in page
    for picture in ("statistics.png", "figures.png", "inconsistency.png", "switches.png"):
        assert picture in page
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    for method in ("dice", "aks", "uniform-raw"):
        prediction = str(out / "predictions" / f"{method}.csv")
        assert main(["evaluate", "--pred", prediction, "--truth", str(dataset), "--split", "test", "--json"]) == 0
        scored = json.loads(capsys.readouterr().out)["methods"][0]["figures"]
        assert scored["ldr"] == figures[method]["ldr"]
        assert scored["redundancy"] == figures[method]["redundancy"]


def test_where_the_truth_is_known_stages_that_know_it_show_what_limits_dice(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Report and truth agree, so with both stages true every finding must be found, at its own time."""
    lesions = {"c": (("erosion", 20),), "d": (("polyp", 70), ("ulcer", 10))}
    for exam, found in lesions.items():
        shown = ["normal"] * 80
        for label, frame in found:
            shown[frame - 2 : frame + 3] = [label] * 5
        rows = "".join(f"{frame},{label}\n" for frame, label in enumerate(shown))
        (dataset / f"{exam}.truth.csv").write_text("frame,label\n" + rows)
        (dataset / f"{exam}.clock.csv").write_text("frame,seconds\n0,0\n79,790\n")
    out = tmp_path / "results"
    arguments = ["benchmark", "--data", str(dataset), "--bundle", str(bundle_folder), "--out", str(out), "--json"]
    assert main(arguments) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["dice-true-both"]["ldr"]["value"] == 1
    assert figures["dice-true-both"]["time_error"]["value"] <= 20
    assert figures["dice-true-both"]["specificity"]["value"] == 1
    assert "stages that know the truth" in (out / "results.md").read_text()
    assert "| 160 | 15 |" in (out / "tables" / "selector.md").read_text()
    assert "Both true" not in (out / "tables" / "tests.md").read_text()


def test_methods_are_chosen_by_name_and_dice_is_always_there(bundle_folder: Path) -> None:
    known = methods(load_bundle(bundle_folder))
    assert [method.key for method in choose(known, ["aks", "uniform-raw"])] == ["dice", "uniform-raw", "aks"]
    with pytest.raises(UsageError, match="no method 'akz'"):
        choose(known, ["akz"])


def test_tuned_settings_of_baselines_reach_the_benchmark(bundle_folder: Path) -> None:
    bundle: Bundle = replace(
        load_bundle(bundle_folder), baselines={"aks": {"tau_s": 0.7, "candidate_share": 0.2, "depth": 3}}
    )
    known = methods(bundle)
    assert {"dice-without-weaver", "dice-without-converger", "dice-without-fusion"} <= set(known)
    assert known["aks"].settings == {"tau_s": 0.7, "candidate_share": 0.2, "depth": 3, "budget": 32}
    assert known["aks-raw"].settings == {"depth": 3, "budget": 32}


def test_every_extension_that_is_used_gets_a_row_of_its_own(bundle_folder: Path) -> None:
    bundle = load_bundle(bundle_folder)
    assert without_extensions(bundle.settings) == {}
    used = Settings(
        0.4,
        converger=ConvergerConfig(least_support=3),
        condenser=CondenserConfig(300.0, 60.0, 32),
        prior=PriorConfig(0.5),
    )
    rows = without_extensions(replace(used, candidate_share=0.1))
    assert list(rows) == ["support", "prior", "repeats", "rivals", "limit", "extensions", "share"]
    assert rows["support"][1] == replace(used, converger=ConvergerConfig(), candidate_share=0.1)
    assert rows["repeats"][1].condenser == CondenserConfig(0.0, 60.0, 32)
    assert rows["limit"][1].condenser == CondenserConfig(300.0, 60.0, None)
    assert rows["extensions"][1] == Settings(0.4, candidate_share=0.1)
    assert rows["share"][1] == used
    assert {"dice-without-limit", "aks-prior"} <= set(methods(replace(bundle, settings=used)))


def test_keyframes_of_dropped_contexts_are_not_selected(scorer: Scorer) -> None:
    for tau_min in (0.0, 1.0):
        settings = Settings(tau_s=0.4, converger=ConvergerConfig(0.3, tau_min))
        candidates, judged = judgments(scorer.exams[0], scorer.taxonomy, settings)
        kept = sum(judgment.verdict == "kept" for judgment in judged)
        assert len(select_keyframes(candidates, judged, Keyframes(candidates))) == kept
        assert (kept == 0) == (tau_min == 1.0)
