"""Choosing settings on validation exams; every method of the benchmark gets the same number of trials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from dice_ce.benchmark.match import Selections, Targets
from dice_ce.benchmark.methods import METHODS, Method, ReadyExam, Values, prepare
from dice_ce.benchmark.metrics import RATIOS, Counts, count_exam
from dice_ce.csvfile import table_text
from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.tables import Annotation
from dice_ce.files import write_atomically
from dice_ce.method.bundle import Bundle, Profile
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.method.weaver import WeaverSettings
from dice_ce.progress import Watch
from dice_ce.settings import Value, declarations, values_of, with_values
from dice_ce.types import Progress

TRIAL_COLUMNS = ("method", "trial", "ldr", "sensitivity", "redundancy_window", "items", "settings")
TRIALS = 200
TRIALS_PER_WEAVING = 10
"""Trials that share candidates and contexts, which is what costs time."""
MOST_ITEMS = 32.0
"""Items per exam, on average, that a summary may have: the budget of the baselines."""
LONG, SHORT = 64.0, 8.0
"""The same for the profiles `sensitive` and `short`."""
DECIDES_CONTEXTS = declarations(SelectorSettings).keys() | declarations(WeaverSettings).keys()


@dataclass(frozen=True)
class Trial:
    """One try: what was set, and what came out on validation exams."""

    settings: Values
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


Rank = Callable[[Trial], tuple[float, ...]]
"""How good a trial is: the larger, the better."""


@dataclass(frozen=True)
class Tuned:
    """The best trial, and all of them."""

    best: Trial
    trials: tuple[Trial, ...]


class Scorer:
    """Scores selections of the validation exams; the truth is prepared once."""

    def __init__(
        self,
        exams: Sequence[ReadyExam],
        annotations: Mapping[str, Annotation],
        patients: Mapping[str, str] | None = None,
    ) -> None:
        self.exams = exams
        self._patients = [(patients or {}).get(exam.exam_id, exam.exam_id) for exam in exams]
        self._targets = [Targets.of(annotations[exam.exam_id].findings, exam.taxonomy) for exam in exams]

    def trial(self, settings: Values, selections: Sequence[Selections]) -> Trial:
        """Count what some settings found."""
        by_patient: dict[str, Counts] = {}
        for patient, exam, targets, chosen in zip(self._patients, self.exams, self._targets, selections, strict=True):
            by_patient[patient] = by_patient.get(patient, Counts()) + count_exam(targets, chosen, exam.taxonomy.normal)
        return _trial(settings, by_patient)


def _trial(settings: Values, by_patient: Mapping[str, Counts]) -> Trial:
    total = [reduce(add, by_patient.values(), Counts())]
    values = {name: RATIOS[name].of(total) for name in ("ldr", "sensitivity", "redundancy_window", "frames")}
    known = {name: 0.0 if np.isnan(value) else round(value, 6) for name, value in values.items()}
    return Trial(
        settings, known["ldr"], known["sensitivity"], known["redundancy_window"], known["frames"], by_patient=by_patient
    )


def left_out(trials: Sequence[Trial], rank: Rank = lambda trial: trial.rank) -> Trial:
    """Score every patient with what is best on all others: how well tuned settings do on a new patient.

    The best trial is the best by chance, too, so its own figures flatter it; these do not.
    """
    found = {}
    for patient in trials[0].by_patient:
        others = [rank(_trial({}, {p: own for p, own in one.by_patient.items() if p != patient})) for one in trials]
        best = max(range(len(trials)), key=lambda i: (others[i], -i))
        found[patient] = trials[best].by_patient[patient]
    return _trial({}, found)


def tune_method(
    scorer: Scorer,
    method: Method,
    start: Values,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuned:
    """Search at random, beginning with `start`; what was drawn before is not computed again."""
    seen: dict[str, Trial] = {}
    tried: list[Trial] = []
    for values in draw_settings(method, start, trials, np.random.default_rng(seed)):
        key = repr(sorted(values.items()))
        if key not in seen:
            seen[key] = scorer.trial(values, [method.run(exam, values) for exam in scorer.exams])
        tried.append(seen[key])
        if progress:
            progress(len(tried), trials)
    return Tuned(max(tried, key=lambda trial: trial.rank), tuple(tried))


def draw_settings(
    method: Method, start: Values, trials: int, chance: np.random.Generator
) -> Iterator[dict[str, Value]]:
    """Draw settings to try: first `start`, then at random; several in a row share candidates and contexts."""
    known = {name for group in method.groups for name in declarations(group)}
    values = {**{name: value for name, value in start.items() if name in known}, **method.fixed}
    for trial in range(trials):
        if trial:
            again = trial % TRIALS_PER_WEAVING == 0
            space = {name: tried for name, tried in method.space.items() if again or name not in DECIDES_CONTEXTS}
            values |= {name: tried[int(chance.integers(len(tried)))] for name, tried in space.items()}
        yield dict(values)


def tune_all(
    dataset: Dataset, bundle: Bundle, profile: str, *, trials: int = TRIALS, seed: int = 0, watch: Watch
) -> dict[str, Tuned]:
    """Tune every method on the exams of one split, from the settings of a profile on."""
    exams = [prepare(row, bundle, progress=watch(f"preparing {row.exam_id}")) for row in dataset.exams]
    scorer = Scorer(exams, dataset.annotations, {row.exam_id: row.patient_id for row in dataset.exams})
    start = values_of(bundle.settings(profile))
    return {
        key: tune_method(scorer, method, start, trials=trials, seed=seed, progress=watch(f"tuning {key}", "trials"))
        for key, method in METHODS.items()
    }


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


PROFILES: Mapping[str, tuple[str, str, Rank]] = {
    "default": ("dice", f"best within {MOST_ITEMS:g} items per exam", lambda trial: trial.rank),
    "paper": ("dice-paper", "the paper's rules only, tuned by themselves", lambda trial: trial.rank),
    "sensitive": (
        "dice",
        f"most sensitive within {LONG:g} items per exam",
        lambda trial: (trial.items <= LONG, trial.sensitivity, trial.ldr),
    ),
    "short": (
        "dice",
        f"best within {SHORT:g} items per exam",
        lambda trial: (trial.items <= SHORT, *trial.rank),
    ),
}
"""Profiles that tuning makes: of which method's trials, what it is for, and which trial is best."""


def make_profiles(dataset: Dataset, tuned: Mapping[str, Tuned]) -> dict[str, Profile]:
    """Choose the best trial for every profile, and say what was measured with it."""
    return {
        name: _profile(dataset, tuned[method].trials, about, rank) for name, (method, about, rank) in PROFILES.items()
    }


def _profile(dataset: Dataset, trials: Sequence[Trial], about: str, rank: Rank) -> Profile:
    best, new = max(trials, key=rank), left_out(trials, rank)
    figures = (f"{one.ldr:.3f}, {one.sensitivity:.3f}, {one.items:.1f}" for one in (best, new))
    return Profile(
        with_values(Settings(), best.settings),
        f"{about}; of {len(trials)} trials on {len(dataset.exams)} exams of '{dataset.folder.name}' (detection rate, "
        f"sensitivity, items per exam: {next(figures)}; each patient with what is best on the others: {next(figures)})",
    )


def write_trials(target: Path, tuned: Mapping[str, Tuned]) -> None:
    """Write all trials of all methods as a CSV."""
    rows = [
        (name, i, trial.ldr, trial.sensitivity, trial.redundancy_window, trial.items, json.dumps(trial.settings))
        for name, result in tuned.items()
        for i, trial in enumerate(result.trials)
    ]
    write_atomically(target, table_text(TRIAL_COLUMNS, rows).encode())
