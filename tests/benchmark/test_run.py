"""The benchmark of all methods, on tiny exams with a random bundle."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dice_ce.benchmark.diagnosers import OpenDiagnoser
from dice_ce.benchmark.methods import BASELINES, METHODS, ablations
from dice_ce.benchmark.networks import Networks
from dice_ce.benchmark.report import write_report
from dice_ce.benchmark.run import choose, list_rows, run_benchmark
from dice_ce.benchmark.tables import main_table
from dice_ce.cli import main
from dice_ce.datasets.folder import ExamRow, load_dataset
from dice_ce.errors import UsageError
from dice_ce.method.beyond.prior import PriorSettings
from dice_ce.method.bundle import Bundle, Profile, export_bundle, load_bundle
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.settings import values_of
from dice_ce.taxonomy import Taxonomy


@pytest.fixture
def bundle(bundle_folder: Path) -> Bundle:
    return load_bundle(bundle_folder)


def with_profile(bundle: Bundle, name: str, settings: Settings) -> Bundle:
    return replace(bundle, profiles={**bundle.profiles, name: Profile(settings, "")})


# --- rows ----------------------------------------------------------------------------------------------------------


def test_rows_are_chosen_by_name_and_dice_is_always_there(bundle: Bundle) -> None:
    known = list_rows(bundle)
    assert [row.key for row in choose(known, ["aks", "uniform-raw"])] == ["dice", "uniform-raw", "aks"]
    assert choose(known, None) == list(known.values())
    with pytest.raises(UsageError, match="no method 'akz'"):
        choose(known, ["akz"])


def test_every_registered_method_gets_its_rows(bundle: Bundle) -> None:
    """A baseline on the candidates and on the raw video, a variant of DiCE once it is tuned."""
    known = list_rows(bundle)
    assert {*BASELINES, *(f"{key}-raw" for key in BASELINES)} <= known.keys()
    assert {f"dice-without-{key}" for key in ablations(bundle.settings())} <= known.keys()
    variants = {key for key, method in METHODS.items() if method.is_ours} - {"dice"}
    assert variants.isdisjoint(known)
    tuned = replace(bundle, tuned={key: {"tau_s": 0.3} for key in variants})
    rows = list_rows(tuned)
    assert {(rows[key].group, rows[key].values["tau_s"]) for key in variants} == {("ablation", 0.3)}
    assert all(row.key == key for key, row in rows.items())


def test_tuned_settings_of_baselines_reach_the_benchmark(bundle: Bundle) -> None:
    values = {"tau_s": 0.7, "candidate_share": 0.2, "depth": 3}
    known = list_rows(replace(bundle, tuned={"aks": values}), is_truth_known=True)
    assert known["aks"].values == known["aks-true-both"].values == values
    assert known["aks-raw"].values == {"tau_s": 0.0, "candidate_share": 1.0, "depth": 3}, "all frames are there"
    assert known["vilamp"].values == {"tau_s": 0.4}, "not tuned: the threshold of DiCE"


def test_the_rows_are_those_of_the_profile(bundle: Bundle) -> None:
    short = Settings(SelectorSettings(0.6), prior=PriorSettings(0.5), converger=ConvergerSettings(tau_min=0.8))
    known = list_rows(with_profile(bundle, "short", short), "short")
    assert known["dice"].values == values_of(short)
    assert known["dice-without-exam-prior"].values == {**values_of(short), "prior_strength": 0.0}
    assert known["aks-prior"].method.fixed == {"prior_strength": 0.5}
    assert known["aks"].method is METHODS["aks"]
    plain = list_rows(bundle)
    assert {"aks-prior", "dice-without-exam-prior"}.isdisjoint(plain), "the default profile has no prior"
    with pytest.raises(UsageError, match="no profile 'odd'"):
        list_rows(bundle, "odd")


def test_oracles_are_asked_only_where_the_truth_is_known(bundle: Bundle) -> None:
    told = {row.key: row.oracles for row in list_rows(bundle, is_truth_known=True).values() if row.oracles}
    assert told["dice-true-selector"] == ("selector",)
    assert told["dice-true-diagnoser"] == ("diagnoser",)
    assert told["dice-true-both"] == told["aks-true-both"] == ("selector", "diagnoser")
    assert not any(row.oracles for row in list_rows(bundle).values())


# --- runs ----------------------------------------------------------------------------------------------------------


def silent(label: str, unit: str = "") -> object:
    """No progress bars."""
    return lambda done, total: None


@dataclass(frozen=True)
class Played:
    """A diagnoser that labels by the number of the frame, and notes when it is opened and closed."""

    name: str
    divisor: int
    log: list[str]
    asked: list[list[int]]

    @contextmanager
    def open(self, taxonomy: Taxonomy) -> Iterator[OpenDiagnoser]:
        def label(row: ExamRow, frames: Sequence[int]) -> dict[int, int]:
            self.asked.append(list(frames))
            return {frame: frame % self.divisor for frame in frames}

        self.log.append(f"open {self.name}")
        yield OpenDiagnoser(label, 8_000_000_000)
        self.log.append(f"close {self.name}")


def test_other_diagnosers_add_rows_for_what_the_baselines_chose_and_leave_the_rest_alone(
    dataset: Path, bundle: Bundle, tmp_path: Path
) -> None:
    log: list[str] = []
    players = [Played("thirds", 3, log, []), Played("Big/fifths", 5, log, [])]
    data = load_dataset(dataset).of("test")
    wanted = ["aks", "uniform-raw"]
    plain = run_benchmark(data, Networks(bundle), tmp_path / "a", wanted=wanted, watch=silent)  # type: ignore[arg-type]
    other = run_benchmark(
        data,
        Networks(bundle),
        tmp_path / "b",
        wanted=wanted,
        diagnosers=players,  # type: ignore[arg-type]
        watch=silent,  # type: ignore[arg-type]
    )
    assert log == ["open thirds", "close thirds", "open Big/fifths", "close Big/fifths"]
    assert all(len(frames) == len(set(frames)) for player in players for frames in player.asked)
    before = {outcome.row.key: outcome for outcome in plain.outcomes}
    after = {outcome.row.key: outcome for outcome in other.outcomes}
    added = ["uniform-raw@thirds", "aks@thirds", "uniform-raw@Big-fifths", "aks@Big-fifths"]
    assert list(after) == [*before, *added]
    for key, outcome in after.items():
        base = before[key.partition("@")[0]]
        for exam_id, chosen in outcome.selections.items():
            np.testing.assert_array_equal(chosen.frames, base.selections[exam_id].frames)
            divisor = {"thirds": 3, "Big/fifths": 5}.get(outcome.row.diagnoser)
            expected = base.selections[exam_id].labels if divisor is None else chosen.frames % divisor
            np.testing.assert_array_equal(chosen.labels, expected)
    assert (tmp_path / "b" / "predictions" / "aks@Big-fifths.csv").is_file()


def test_a_run_tells_how_many_methods_are_done_in_which_exam(dataset: Path, bundle: Bundle, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []

    def watch(label: str, unit: str = "frames") -> object:
        return lambda done, total: told.append((f"{label} {unit}", done, total))

    data = load_dataset(dataset).of("test")
    run_benchmark(data, Networks(bundle), tmp_path, wanted=["aks"], watch=watch)  # type: ignore[arg-type]
    last = data.exams[-1].exam_id
    of_last = [note[1:] for note in told if note[0] == f"{last}, exam {len(data.exams)} of {len(data.exams)} methods"]
    assert of_last == [(done, len(of_last)) for done in range(1, len(of_last) + 1)]
    assert len(of_last) > 1


def test_the_main_table_has_a_row_per_baseline_and_diagnoser(dataset: Path, bundle: Bundle, tmp_path: Path) -> None:
    results = run_benchmark(
        load_dataset(dataset).of("test"),
        Networks(bundle),
        tmp_path,
        wanted=["aks", "vilamp"],
        diagnosers=[Played("thirds", 3, [], [])],  # type: ignore[list-item]
        watch=silent,  # type: ignore[arg-type]
    )
    table = main_table(results)
    assert table.header[:3] == ("Method", "Diagnoser", "Parameters")
    assert [(row[0].text, row[1].text) for row in table.rows] == [
        ("AKS", "own head"),
        ("ViLAMP", "own head"),
        ("AKS", "thirds"),
        ("ViLAMP", "thirds"),
        ("DiCE", "own head"),
    ]
    assert table.rows[2][2].text == "8.0 B"
    write_report(results, tmp_path, command="x")
    assert "diagnoser: own head, thirds" in (tmp_path / "results.md").read_text()


def test_the_benchmark_writes_tables_and_what_evaluate_reads(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    arguments = ["benchmark", "--data", str(dataset), "--bundle", str(bundle_folder), "--out", str(out), "--json"]
    assert main(arguments) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert set(figures) == set(list_rows(load_bundle(bundle_folder)))
    for name in ("main", "raw-video", "ablation", "consistency", "tests"):
        for kind in ("md", "csv", "tex"):
            assert (out / "tables" / f"{name}.{kind}").stat().st_size > 50
    page = (out / "results.md").read_text()
    assert "nan" not in page
    for image in ("statistics.png", "figures.png", "inconsistency.png", "switches.png"):
        assert image in page
        assert (out / image).read_bytes().startswith(b"\x89PNG")
    for method in ("dice", "aks", "uniform-raw"):
        prediction = str(out / "predictions" / f"{method}.csv")
        assert main(["evaluate", "--pred", prediction, "--truth", str(dataset), "--split", "test", "--json"]) == 0
        scored = json.loads(capsys.readouterr().out)["methods"][0]["figures"]
        assert scored["ldr"] == figures[method]["ldr"]
        assert scored["redundancy"] == figures[method]["redundancy"]


def test_several_datasets_are_scored_as_one(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exams of a copy, called something else: the same figures, of twice as many exams."""
    copy = tmp_path / "copy"
    shutil.copytree(dataset, copy)
    for table in ("exams.csv", "findings.csv"):
        head, *lines = (copy / table).read_text().splitlines()
        (copy / table).write_text("\n".join([head, *(f"copy-{line}" for line in lines)]) + "\n")
    shared = ["--bundle", str(bundle_folder), "--methods", "aks", "--json"]
    figures = []
    for folders in ([dataset], [dataset, copy]):
        out = tmp_path / f"results-{len(folders)}"
        assert main(["benchmark", "--data", *map(str, folders), "--out", str(out), *shared]) == 0
        figures.append(json.loads(capsys.readouterr().out)["figures"]["aks"]["ldr"])
    assert figures[1]["value"] == figures[0]["value"]
    assert figures[1]["bottom"] == 2 * figures[0]["bottom"]
    assert (out / "results.md").read_text().startswith(f"# Benchmark on '{dataset.name}' and 'copy'")
    assert main(["benchmark", "--data", str(dataset), str(dataset), "--out", str(tmp_path / "no"), *shared]) == 1
    assert "stands in two datasets; call one of them something else" in capsys.readouterr().err


def test_the_benchmark_scores_what_summarize_writes_with_the_same_profile(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """We ship what we measure: the command with `--profile` finds what is in the predictions of that profile."""
    loose = Settings(SelectorSettings(0.3, 0.5), converger=ConvergerSettings(tau_min=0.1))
    export_bundle(bundle_folder, tmp_path / "both", profiles={"loose": Profile(loose, "")})
    shared = ["--bundle", str(tmp_path / "both"), "--profile", "loose"]
    out, summaries = tmp_path / "results", tmp_path / "summaries"
    assert main(["benchmark", "--data", str(dataset), "--out", str(out), "--methods", "dice", *shared]) == 0
    videos = [str(dataset / name) for name in ("c.mp4", "d.mp4")]
    assert main(["summarize", *videos, "--exam-fps", "1/10", "--out", str(summaries), *shared]) == 0
    capsys.readouterr()
    scored = []
    for prediction in (out / "predictions" / "dice.csv", summaries):
        words = ["evaluate", "--pred", str(prediction), "--truth", str(dataset), "--split", "test", "--json"]
        assert main(words) == 0
        scored.append(json.loads(capsys.readouterr().out)["methods"][0]["figures"])
    assert scored[0] == scored[1]
    assert scored[0]["frames"]["value"] > 0


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
