"""Choosing thresholds and the weaver's granularity on validation exams; every method gets the same number of trials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from dice_ce.baselines import BUDGET, build_baseline
from dice_ce.benchmark.match import Selections, Targets
from dice_ce.benchmark.methods import Prepared, prepare, run_baseline, select_keyframes
from dice_ce.benchmark.metrics import RATIOS, Counts, count_exam
from dice_ce.benchmark.run import VARIANTS
from dice_ce.bundle import Bundle, Settings
from dice_ce.datasets.csvfile import read_table, table_text
from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.tables import Annotation
from dice_ce.extraction import Progress
from dice_ce.files import write_atomically
from dice_ce.keyframes import Keyframes
from dice_ce.pipeline import judge_contexts
from dice_ce.prior import adapt
from dice_ce.progress import Watch
from dice_ce.selector import Candidates
from dice_ce.taxonomy import Taxonomy
from dice_ce.weaver import Context, Floats, fixed_windows, weave

TRIAL_COLUMNS = ("method", "trial", "ldr", "sensitivity", "redundancy_window", "items", "settings")
TRIALS = 200
PER_WEAVING = 10
"""Trials that share one weaving of the candidates, which is what costs time."""
MOST_ITEMS = 32.0
"""Items per exam, on average, that a summary may have: the budget of the baselines."""

SELECTOR_SPACE: Mapping[str, Sequence[Any]] = {"candidate_share": (1.0, 0.4, 0.2, 0.1, 0.05)}
"""For all methods: they share the Selector. Its threshold tau_s was calibrated for recall and stays."""
WEAVER_SPACE: Mapping[str, Sequence[Any]] = {
    "coarse_minutes": (10.0, 20.0, 30.0, 45.0),
    "alpha_coarse": (0.2, 0.35, 0.5),
    "alpha_fine": (0.4, 0.5, 0.6, 0.8),
    "delta_fine": (0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    "max_span": (None, 300.0, 900.0),
}
CONVERGER_SPACE: Mapping[str, Sequence[Any]] = {
    "tau_agree": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    "tau_min": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    "least_support": (1, 2, 3, 5, 8),
}
CONDENSER_SPACE: Mapping[str, Sequence[Any]] = {
    "repeat_seconds": (0.0, 120.0, 300.0),
    "rival_seconds": (0.0, 60.0, 150.0, 300.0),
    "most_items": (None, 24, 32, 48),
}
PRIOR_SPACE: Mapping[str, Sequence[Any]] = {"strength": (0.0, 0.25, 0.5, 0.75)}
BASELINE_SPACES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "uniform": {},
    "random": {},
    "top-score": {},
    "aks": {"peak_gap": tuple(np.round(np.arange(0.1, 0.95, 0.05), 2).tolist()), "depth": (2, 3, 4, 5)},
    "vilamp": {"alike": tuple(np.round(np.arange(0.5, 0.99, 0.02), 2).tolist()), "floor": (None, 0.5, 0.7)},
}


@dataclass(frozen=True)
class Trial:
    """One try: what was set, and what came out on validation exams."""

    settings: dict[str, Any]
    ldr: float
    sensitivity: float
    redundancy_window: float
    items: float
    """Per exam, on average."""
    by_patient: Mapping[str, Counts] = field(default_factory=dict, repr=False, compare=False, kw_only=True)

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The better, the larger: within the budget, then LDR and half the sensitivity, then little redundancy.

        LDR alone rests on few findings: settings that were best by it did worse on patients that were left out.
        """
        return self.items <= MOST_ITEMS, round(self.ldr + self.sensitivity / 2, 6), -self.redundancy_window


@dataclass(frozen=True)
class Tuned:
    """The best trial, and all of them."""

    best: Trial
    trials: tuple[Trial, ...]


class Scorer:
    """Scores selections of the validation exams; the truth is prepared once."""

    def __init__(
        self,
        exams: Sequence[Prepared],
        annotations: Mapping[str, Annotation],
        taxonomy: Taxonomy,
        patients: Mapping[str, str] | None = None,
    ) -> None:
        self.exams, self.taxonomy = exams, taxonomy
        self._patients = [(patients or {}).get(exam.exam_id, exam.exam_id) for exam in exams]
        self._targets = [Targets.of(annotations[exam.exam_id].findings, taxonomy) for exam in exams]

    def trial(self, settings: dict[str, Any], selections: Sequence[Selections]) -> Trial:
        """Count what some settings found."""
        counts = [
            count_exam(targets, chosen, self.taxonomy.normal)
            for targets, chosen in zip(self._targets, selections, strict=True)
        ]
        by_patient: dict[str, Counts] = {}
        for patient, own in zip(self._patients, counts, strict=True):
            by_patient[patient] = by_patient.get(patient, Counts()) + own
        return _trial(settings, by_patient)


def _trial(settings: dict[str, Any], by_patient: Mapping[str, Counts]) -> Trial:
    total = [reduce(add, by_patient.values(), Counts())]
    values = {name: RATIOS[name].of(total) for name in ("ldr", "sensitivity", "redundancy_window", "frames")}
    known = {name: 0.0 if np.isnan(value) else round(value, 6) for name, value in values.items()}
    return Trial(
        settings, known["ldr"], known["sensitivity"], known["redundancy_window"], known["frames"], by_patient=by_patient
    )


def left_out(trials: Sequence[Trial]) -> Trial:
    """Score every patient with what is best on all others: how well tuned settings do on a new patient.

    The best trial is the best by chance, too, so its own figures flatter it; these do not.
    """
    found = {}
    for patient in trials[0].by_patient:
        others = [_trial({}, {p: own for p, own in one.by_patient.items() if p != patient}).rank for one in trials]
        best = max(range(len(trials)), key=lambda i: (others[i], -i))
        found[patient] = trials[best].by_patient[patient]
    return _trial({}, found)


@dataclass(frozen=True, eq=False)
class Woven:
    """An exam whose contexts are woven; what comes after them is tried again and again."""

    candidates: Candidates
    distributions: Floats
    contexts: Sequence[Context]
    keyframes: Keyframes
    """Shared by all trials, since most contexts come back unchanged."""

    def selected(self, settings: Settings, normal: int) -> Selections:
        """Do what the pipeline does from here on."""
        adapted = adapt(self.distributions, self.candidates.score, normal, settings.prior)
        judgments = judge_contexts(self.contexts, self.keyframes, adapted, normal, settings)
        return select_keyframes(self.candidates, judgments, self.keyframes)


def draw(space: Mapping[str, Sequence[Any]], chance: np.random.Generator) -> dict[str, Any]:
    """Draw one value of everything."""
    return {name: values[int(chance.integers(len(values)))] for name, values in space.items()}


def tune_dice(
    scorer: Scorer,
    start: Settings,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, tuple[Settings, Tuned]]:
    """Search at random, starting with what the bundle has; return the best settings of DiCE and of two variants.

    The variants get the same trials: one without what we added to the paper, one with windows instead of the weaver.
    """
    chance = np.random.default_rng(seed)
    tried: dict[str, list[tuple[Settings, Trial]]] = {name: [] for name in ("dice", *(key for key, _, _ in VARIANTS))}

    def note(name: str, settings: Settings, exams: Sequence[Woven]) -> None:
        chosen = [exam.selected(settings, scorer.taxonomy.normal) for exam in exams]
        tried[name].append((settings, scorer.trial(describe(settings), chosen)))

    for group in _grouped(start, trials, chance):
        shared = group[0]
        candidates = [exam.diagnosed(shared.tau_s, shared.candidate_share) for exam in scorer.exams]
        woven = [Woven(*parts, weave(parts[0], shared.weaver), Keyframes(parts[0])) for parts in candidates]
        windows = [Woven(*parts, fixed_windows(parts[0]), Keyframes(parts[0])) for parts in candidates]
        for settings in group:
            note("dice", settings, woven)
            note("dice-paper", settings.by_the_paper(), woven)
            note("dice-windows", settings, windows)
            if progress:
                progress(len(tried["dice"]), trials)
    return {name: _best(results) for name, results in tried.items()}


def _grouped(start: Settings, trials: int, chance: np.random.Generator) -> Iterator[list[Settings]]:
    """Draw all settings to try, in groups that share one weaving; the first are those to start from."""
    for first in range(0, trials, PER_WEAVING):
        woven = start
        if first:
            weaver = replace(start.weaver, **draw(WEAVER_SPACE, chance))
            woven = replace(start, **draw(SELECTOR_SPACE, chance), weaver=weaver)
        group = [_rejudged(woven, chance) for _ in range(min(PER_WEAVING, trials - first))]
        yield group if first else [start, *group[1:]]


def _rejudged(settings: Settings, chance: np.random.Generator) -> Settings:
    """Draw what comes after the weaver."""
    return replace(
        settings,
        converger=replace(settings.converger, **draw(CONVERGER_SPACE, chance)),
        condenser=replace(settings.condenser, **draw(CONDENSER_SPACE, chance)),
        prior=replace(settings.prior, **draw(PRIOR_SPACE, chance)),
    )


def _best(results: Sequence[tuple[Settings, Trial]]) -> tuple[Settings, Tuned]:
    """Take the best trial, the earliest of equals."""
    settings, best = max(results, key=lambda result: result[1].rank)
    return settings, Tuned(best, tuple(trial for _, trial in results))


def describe(settings: Settings) -> dict[str, Any]:
    """Name the tuned values of some settings."""
    return {
        "tau_s": settings.tau_s,
        "candidate_share": settings.candidate_share,
        **{name: getattr(settings.weaver, name) for name in WEAVER_SPACE},
        **{name: getattr(settings.converger, name) for name in CONVERGER_SPACE},
        **{name: getattr(settings.condenser, name) for name in CONDENSER_SPACE},
        "prior_strength": settings.prior.strength,
    }


def tune_baseline(
    scorer: Scorer,
    name: str,
    *,
    tau_s: float,
    budget: int = BUDGET,
    trials: int = TRIALS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuned:
    """Search a baseline's settings in as many trials as DiCE had; what was drawn before is not computed again."""
    space = {"tau_s": (tau_s,), **SELECTOR_SPACE, **BASELINE_SPACES[name]}
    chance = np.random.default_rng(seed)
    seen: dict[str, Trial] = {}
    tried: list[Trial] = []
    for turn in range(trials):
        settings = {"tau_s": tau_s, "candidate_share": 1.0} if turn == 0 else draw(space, chance)
        key = repr(settings)
        if key not in seen:
            seen[key] = scorer.trial(settings, _run(scorer, name, settings, budget))
        tried.append(seen[key])
        if progress:
            progress(turn + 1, trials)
    return Tuned(max(tried, key=lambda trial: trial.rank), tuple(tried))


def _run(scorer: Scorer, name: str, settings: Mapping[str, Any], budget: int) -> list[Selections]:
    tau_s, share = settings["tau_s"], settings["candidate_share"]
    rule = build_baseline(name, {key: settings[key] for key in settings if key not in ("tau_s", "candidate_share")})
    return [run_baseline(exam, rule, tau_s, share=share, budget=budget) for exam in scorer.exams]


def tune_all(
    dataset: Dataset,
    bundle: Bundle,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    watch: Watch,
) -> tuple[dict[str, Settings], dict[str, Tuned]]:
    """Tune DiCE and every baseline on the exams of one split; return settings of DiCE's kind, and all results."""
    exams = [prepare(row, bundle, progress=watch(f"preparing {row.exam_id}")) for row in dataset.exams]
    patients = {row.exam_id: row.patient_id for row in dataset.exams}
    scorer = Scorer(exams, dataset.annotations, bundle.taxonomy, patients)
    how: dict[str, Any] = {"trials": trials, "seed": seed}
    ours = tune_dice(scorer, bundle.settings, progress=watch("tuning dice", "trials"), **how)
    tuned = {name: result for name, (_, result) in ours.items()}
    for name in BASELINE_SPACES:
        bar = watch(f"tuning {name}", "trials")
        tuned[name] = tune_baseline(scorer, name, tau_s=bundle.settings.tau_s, progress=bar, **how)
    return {name: settings for name, (settings, _) in ours.items()}, tuned


def tuned_text(tuned: Mapping[str, Tuned], trials: int) -> str:
    """Write the best trial of every method as a table."""
    lines = [
        f"best of {trials} trials each; 'new patient': each patient scored with what was best on all others",
        f"{'method':<14}{'LDR':>6}{'sens.':>7}{'items':>7}   {'new patient  LDR':>16}{'sens.':>7}{'items':>7}  with",
    ]
    for name, result in tuned.items():
        shown = ", ".join(f"{key}={value}" for key, value in result.best.settings.items())
        new = left_out(result.trials)
        figures = (f"{one.ldr:.3f}{one.sensitivity:>7.3f}{one.items:>7.1f}" for one in (result.best, new))
        lines.append(f"{name:<14}{next(figures):>20}   {next(figures):>30}  {shown}")
    return "\n".join(lines)


def trial_facts(tuned: Tuned) -> dict[str, Any]:
    """Tell the same to programs."""
    names = ("ldr", "sensitivity", "redundancy_window", "items")
    figures = [{name: getattr(one, name) for name in names} for one in (tuned.best, left_out(tuned.trials))]
    return {"settings": tuned.best.settings, **figures[0], "new_patient": figures[1]}


def tuned_note(dataset: Dataset, tuned: Mapping[str, Tuned], trials: int) -> str:
    """Write for the model card how the settings came about."""
    best = tuned["dice"].best
    shown = ", ".join(f"{key} {value}" for key, value in best.settings.items())
    return (
        f"Chosen in {trials} trials on {len(dataset.exams)} exams of '{dataset.folder.name}': LDR "
        f"{best.ldr:.3f}, sensitivity {best.sensitivity:.3f}, {best.items:.1f} items per exam there. {shown}."
    )


def write_trials(target: Path, tuned: Mapping[str, Tuned]) -> None:
    """Write all trials of all methods as a CSV."""
    rows = [
        (name, i, trial.ldr, trial.sensitivity, trial.redundancy_window, trial.items, json.dumps(trial.settings))
        for name, result in tuned.items()
        for i, trial in enumerate(result.trials)
    ]
    write_atomically(target, table_text(TRIAL_COLUMNS, rows).encode())


def read_trials(path: Path, method: str) -> list[Trial]:
    """Read the trials of one method back, the best first."""
    rows = [row for _, row in read_table(path, TRIAL_COLUMNS) if row["method"] == method]
    trials = [
        Trial(
            json.loads(row["settings"]),
            *(float(row[name]) for name in ("ldr", "sensitivity", "redundancy_window", "items")),
        )
        for row in rows
    ]
    return sorted(trials, key=lambda trial: trial.rank, reverse=True)


def with_tuned(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Put tuned values, as `describe` names them, into settings."""
    return Settings(
        values["tau_s"],
        replace(settings.weaver, **{name: values[name] for name in WEAVER_SPACE}),
        replace(settings.converger, **{name: values[name] for name in CONVERGER_SPACE}),
        replace(settings.condenser, **{name: values[name] for name in CONDENSER_SPACE}),
        replace(settings.prior, strength=values["prior_strength"]),
        values["candidate_share"],
    )
