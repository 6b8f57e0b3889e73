"""Tuning on validation exams: every method in the same number of trials, on tiny exams with a random bundle."""

import csv
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dice_ce.benchmark.methods import METHODS
from dice_ce.benchmark.metrics import Counts
from dice_ce.benchmark.networks import Networks
from dice_ce.benchmark.run import list_rows
from dice_ce.cli import main
from dice_ce.datasets.folder import load_dataset
from dice_ce.errors import InputError
from dice_ce.lab.training.tuning import (
    DECIDES_CONTEXTS,
    PROFILES,
    TRIALS,
    TRIALS_PER_WEAVING,
    Scorer,
    Trial,
    Tuned,
    agreement,
    draw_settings,
    left_out,
    make_ground,
    tune_all,
    tune_method,
)
from dice_ce.method.bundle import load_bundle
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.settings import values_of, with_values, without_rules
from dice_ce.types import Progress

START = values_of(Settings(SelectorSettings(tau_s=0.4)))


def silent(label: str, unit: str = "frames") -> Progress:
    return lambda done, total: None


@pytest.fixture
def scorer(dataset: Path, bundle_folder: Path) -> Scorer:
    bundle = load_bundle(bundle_folder)
    return Scorer([make_ground(load_dataset(dataset).of("validation"), Networks(bundle), 1.0, silent)])


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


def test_datasets_agree_when_they_rank_settings_alike() -> None:
    def trial(first: int, second: int) -> Trial:
        counts = {
            (place, "p"): Counts(exams=1, findings=9, matched=found, correct=found, selected=9)
            for place, found in enumerate((first, second))
        }
        return Trial({}, 0, 0, 0, 9.0, by_patient=counts)

    def agreed(*found: tuple[int, int]) -> float:
        trials = tuple(trial(*one) for one in found)
        return agreement(Tuned(trials[0], trials, (1.0, 1.0)))

    assert agreed((1, 2), (3, 5), (4, 9)) == pytest.approx(1)
    assert agreed((1, 9), (3, 5), (4, 2)) == pytest.approx(-1)
    assert agreed((1, 1), (1, 2), (2, 1), (2, 2)) == pytest.approx(0)
    assert np.isnan(agreed((1, 2), (1, 3)))  # the first dataset finds all alike
    assert np.isnan(agreement(Tuned(trial(1, 1), (trial(1, 1), trial(2, 2)))))  # one dataset only


def test_a_patient_who_is_left_out_is_scored_with_what_is_best_on_the_others() -> None:
    def trial(**correct: int) -> Trial:
        counts = {(0, p): Counts(exams=1, findings=2, matched=n, correct=n, selected=2) for p, n in correct.items()}
        return Trial({}, 0, 0, 0, 1.0, by_patient=counts)

    trials = [trial(a=2, b=0, c=0), trial(a=0, b=2, c=1), trial(a=1, b=1, c=0)]
    # without a: the second is best, and finds nothing in a; without b: first and second tie; without c: all tie
    new = left_out(Tuned(trials[0], tuple(trials)))
    assert new.ldr == pytest.approx((0 + 0 + 0) / 6)
    assert left_out(Tuned(trials[1], (trials[1],))).ldr == pytest.approx(3 / 6)


# --- drawing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", METHODS)
def test_settings_are_drawn_from_the_method_s_own_space(key: str) -> None:
    method = METHODS[key]
    drawn = list(draw_settings(method, START, TRIALS, np.random.default_rng(0)))
    assert len(drawn) == TRIALS
    begin = drawn[0]
    assert begin.items() >= method.fixed.items()
    assert all(begin[name] == START[name] for name in begin if name not in method.fixed)
    for values in drawn:
        method.build(values)
        assert values.items() >= method.fixed.items(), "what makes it this method stays"
        changed = {name: value for name, value in values.items() if name not in begin or value != begin[name]}
        assert all(value in method.space[name] for name, value in changed.items())
    for name, worth_trying in method.space.items():
        tried = {values[name] for values in drawn if name in values}
        assert tried <= {*worth_trying, begin.get(name)}
        assert len(tried) > 1, "everything is searched"


def test_several_trials_share_their_contexts_and_then_others_are_woven() -> None:
    drawn = list(draw_settings(METHODS["dice"], START, 6 * TRIALS_PER_WEAVING, np.random.default_rng(0)))
    contexts = [tuple(values[name] for name in sorted(DECIDES_CONTEXTS)) for values in drawn]
    stretches = [set(contexts[i : i + TRIALS_PER_WEAVING]) for i in range(0, len(drawn), TRIALS_PER_WEAVING)]
    assert all(len(stretch) == 1 for stretch in stretches)
    assert len(set.union(*stretches)) > 3
    assert stretches[0] == {contexts[0]}
    thresholds = [(values["tau_min"], values["tau_agree"]) for values in drawn]
    assert len(set(thresholds[:TRIALS_PER_WEAVING])) > 2


# --- searching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", METHODS)
def test_tuning_never_ends_below_where_it_started_and_repeats_itself(scorer: Scorer, key: str) -> None:
    """Every method gets as many trials, and the figures of the best are those of a run with its settings."""
    method = METHODS[key]
    tuned = tune_method(scorer, method, START, trials=13)
    assert tune_method(scorer, method, START, trials=13) == tuned
    assert len(tuned.trials) == 13
    assert tuned.trials[0].settings == next(draw_settings(method, START, 1, np.random.default_rng(0)))
    assert tuned.best.rank == max(trial.rank for trial in tuned.trials) >= tuned.trials[0].rank
    assert scorer.run(method, tuned.best.settings) == tuned.best


def test_the_paper_s_variant_never_uses_a_rule_of_ours(scorer: Scorer) -> None:
    for trial in tune_method(scorer, METHODS["dice-paper"], START, trials=13).trials:
        settings = with_values(Settings(), trial.settings)
        assert settings == without_rules(settings)


def test_another_seed_draws_others_and_progress_counts_every_trial(scorer: Scorer) -> None:
    seen: list[tuple[int, int]] = []
    one = tune_method(scorer, METHODS["dice"], START, trials=5, progress=lambda *state: seen.append(state))
    two = tune_method(scorer, METHODS["dice"], START, trials=5, seed=1)
    assert seen == [(done, 5) for done in range(1, 6)]
    assert [trial.settings for trial in one.trials] != [trial.settings for trial in two.trials]


def test_datasets_count_by_their_weights(dataset: Path, bundle_folder: Path) -> None:
    networks, data = Networks(load_bundle(bundle_folder)), load_dataset(dataset)
    parts = [
        make_ground(data.of(split), networks, weight, silent) for split, weight in (("validation", 3), ("test", 1))
    ]
    alone = [Scorer([part]).run(METHODS["uniform"], {}) for part in parts]
    both = Scorer(parts).run(METHODS["uniform"], {})
    for name in ("ldr", "sensitivity", "redundancy_window", "items"):
        first, second = (getattr(one, name) for one in alone)
        assert getattr(both, name) == pytest.approx((3 * first + second) / 4, abs=1e-5)
    with pytest.raises(InputError, match="exam 'a' stands in two datasets"):
        Scorer([parts[0], parts[0]])


# --- networks of folds ---------------------------------------------------------------------------------------------


def test_exams_of_a_fold_are_judged_by_its_own_networks(tmp_path: Path, dataset: Path, bundle_folder: Path) -> None:
    for name in ("fold-0", "fold-1"):
        shutil.copytree(bundle_folder, tmp_path / "folds" / name)
    networks = Networks.load(bundle_folder, tmp_path / "folds")
    data = load_dataset(dataset)
    with pytest.raises(InputError, match="no exam stands in a fold"):
        networks.exams(data, "validation")
    table = (dataset / "exams.csv").read_text()
    (dataset / "exams.csv").write_text(table.replace("validation", "fold-1").replace("d,pd,test", "d,pd,fold-2"))
    dealt = networks.exams(load_dataset(dataset), "validation")
    assert [row.exam_id for row in dealt.exams] == ["a", "b", "d"]
    assert networks.of(dealt.exams[0]) is networks.folds["fold-1"]
    with pytest.raises(InputError, match="no bundle of 'fold-2'"):
        networks.of(dealt.exams[2])
    with pytest.raises(InputError, match="no bundles of folds"):
        Networks.load(bundle_folder, dataset)


# --- the command ---------------------------------------------------------------------------------------------------


def test_tuning_writes_a_bundle_with_settings_of_all_methods(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, log = tmp_path / "tuned", tmp_path / "trials.csv"
    arguments = ["tune", "--data", str(dataset), "--bundle", str(bundle_folder), "--trials", "6"]
    assert main([*arguments, "--out", str(out), "--log", str(log)]) == 0
    assert "best of 6 trials each" in capsys.readouterr().out
    tuned = load_bundle(out)
    assert set(tuned.tuned) == METHODS.keys() - {"dice"}, "a method is tuned because it is registered"
    assert {"dice-paper", "dice-windows"} <= set(list_rows(tuned))
    assert set(tuned.profiles) == set(PROFILES)
    for name, profile in tuned.profiles.items():
        assert profile.about.startswith(f"{PROFILES[name][1]}; of 6 trials on 2 exams of 'data' (detection rate, ")
    assert tuned.settings("paper") == without_rules(tuned.settings("paper"))
    with log.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * len(METHODS)
    trials = [
        Trial(*(json.loads(row[name]) for name in ("settings", "ldr", "sensitivity", "redundancy_window", "items")))
        for row in rows
        if row["method"] == "dice"
    ]
    assert values_of(tuned.settings()) == max(trials, key=lambda trial: trial.rank).settings
    assert trials[0].settings == values_of(load_bundle(bundle_folder).settings())


def test_tuning_starts_from_a_profile_and_tells_programs_what_it_found(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["tune", "--data", str(dataset), "--trials", "3", "--json"]
    assert main([*arguments, "--bundle", str(bundle_folder), "--out", str(tmp_path / "tuned")]) == 0
    best = json.loads(capsys.readouterr().out)
    tuned = load_bundle(tmp_path / "tuned")
    assert best["profiles"]["default"] == values_of(tuned.settings()) == best["best"]["dice"]["settings"]
    assert set(best["best"]) == METHODS.keys()
    assert {"ldr", "sensitivity", "items"} <= best["best"]["aks"]["new_patient"].keys()
    assert main([*arguments, "--bundle", str(bundle_folder), "--profile", "odd"]) == 2
    assert "has no profile 'odd'" in capsys.readouterr().err


def test_thresholds_are_never_chosen_on_test_exams(
    dataset: Path, bundle_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--data", str(dataset), "--bundle", str(bundle_folder), "--split", "test"]) == 2
    assert "never chosen on test exams" in capsys.readouterr().err


def test_processes_that_share_the_exams_find_the_same(dataset: Path, bundle_folder: Path) -> None:
    bundle = load_bundle(bundle_folder)
    ground = make_ground(load_dataset(dataset).of("validation"), Networks(bundle), 1.0, silent)
    found = [
        tune_all([ground], bundle, "default", trials=3, workers=workers, watch=silent)["dice"] for workers in (1, 2)
    ]
    assert found[0] == found[1]


def test_methods_that_are_not_tuned_keep_their_settings(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "--data", str(dataset), "--bundle", str(bundle_folder), "--trials", "2"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert main([*words, "--workers", "1", "--out", str(first)]) == 0
    words[4] = str(first)
    assert main([*words, "--workers", "1", "--seed", "3", "--methods", "aks", "dice", "--out", str(second)]) == 0
    before, after = load_bundle(first), load_bundle(second)
    assert after.tuned.keys() == before.tuned.keys()
    assert {key: after.tuned[key] for key in before.tuned if key != "aks"} == {
        key: value for key, value in before.tuned.items() if key != "aks"
    }
    assert after.profiles["paper"] == before.profiles["paper"]
    assert main([*words, "--methods", "magic"]) == 2
    assert "--methods magic: no such method; there are dice, " in capsys.readouterr().err


def test_with_several_datasets_a_fold_is_left_out_at_a_time() -> None:
    """One trial is right about fold 0, the other about patient c, who is fold 1: the first is best on all others of
    fold 0 as long as some of them stay.
    """
    fold_of = {(0, "a"): "fold-0", (0, "b"): "fold-0", (0, "c"): "fold-1", (1, "s"): "fold-0"}

    def trial(right_about: str) -> Trial:
        counts = {p: Counts(findings=1, correct=int(fold == right_about)) for p, fold in fold_of.items()}
        return Trial({"right": right_about}, 0.5, 0.5, 0.0, 1.0, by_patient=counts)

    trials = (trial("fold-0"), trial("fold-1"))
    for groups, correct in (({}, [1, 1, 0, 1]), (fold_of, [0, 0, 0, 0])):
        found = left_out(Tuned(trials[0], trials, (1.0, 1.0), groups)).by_patient
        assert [found[p].correct for p in fold_of] == correct
