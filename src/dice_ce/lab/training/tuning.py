"""Choosing settings on exams whose patients the networks never saw; every method gets the same number of trials."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from dice_ce.benchmark.baselines.pool import BUDGET
from dice_ce.benchmark.match import Selections, Targets
from dice_ce.benchmark.methods import METHODS, Method, ReadyExam, Values, prepare
from dice_ce.benchmark.metrics import RATIOS, Counts, count_exam
from dice_ce.benchmark.networks import Networks
from dice_ce.benchmark.significance import doubled_ranks
from dice_ce.csvfile import table_text
from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.tables import Annotation
from dice_ce.errors import InputError
from dice_ce.files import write_atomically
from dice_ce.method.beyond.looks import LooksSettings
from dice_ce.method.beyond.standing import StandingSettings
from dice_ce.method.bundle import Bundle, Profile
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.method.weaver import WeaverSettings
from dice_ce.processes import die_with
from dice_ce.progress import Watch
from dice_ce.settings import Value, declarations, values_of, with_values
from dice_ce.table import aligned
from dice_ce.types import Progress

TRIAL_COLUMNS = ("method", "trial", "ldr", "sensitivity", "redundancy_window", "items", "settings")
TRIALS = 200
TRIALS_PER_WEAVING = 10
"""Trials that share candidates and contexts, which is what costs time."""
MOST_ITEMS = float(BUDGET)
"""Items per exam, on average, that a summary may have: the budget of the baselines."""
LONG = 64.0
"""The same for the profile `sensitive`."""
DECIDES_CONTEXTS = {
    name
    for group in (StandingSettings, SelectorSettings, WeaverSettings, LooksSettings)
    for name in declarations(group)
}


Owner = tuple[int, str]
"""Place of the dataset, and patient."""


@dataclass(frozen=True)
class Trial:
    """One try: what was set, and what came out on exams whose patients the networks never saw."""

    settings: Values
    ldr: float
    sensitivity: float
    redundancy_window: float
    items: float
    """Per exam, on average. All four are averages over the datasets, by their weights."""
    by_patient: Mapping[Owner, Counts] = field(default_factory=dict, repr=False, compare=False, kw_only=True)

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
    weights: tuple[float, ...] = (1.0,)
    """Weight of each dataset."""
    groups: Mapping[Owner, str] = field(default_factory=dict, repr=False, compare=False)
    """What is left out together, see `Scorer`; a patient alone, unless it says otherwise."""


@dataclass(frozen=True, eq=False)
class Ground:
    """Exams to tune on, ready, with what their reports say."""

    exams: tuple[ReadyExam, ...]
    annotations: Mapping[str, Annotation]
    patients: Mapping[str, str]
    """By exam."""
    splits: Mapping[str, str] = field(default_factory=dict)
    """By exam, too: in cross-validation its fold."""
    weight: float = 1.0
    """How much its figures count beside those of other datasets."""


class Scorer:
    """Scores selections of the exams; the truth is prepared once.

    With several datasets, a fold is left out at a time rather than a patient: spliced exams show frames of several
    patients of their fold. `workers` are processes that share the exams, and each remembers the contexts of its own.
    """

    def __init__(self, grounds: Sequence[Ground], workers: int = 1) -> None:
        self.exams = [exam for ground in grounds for exam in ground.exams]
        names = Counter(exam.exam_id for exam in self.exams)
        if doubled := [name for name, count in names.items() if count > 1]:
            raise InputError(f"the exam '{doubled[0]}' stands in two datasets; call one of them something else")
        self.weights = tuple(ground.weight for ground in grounds)
        self._exams = [
            (
                exam.exam_id,
                (place, ground.patients[exam.exam_id]),
                Targets.of(ground.annotations[exam.exam_id].findings, exam.taxonomy),
                exam.taxonomy.normal,
            )
            for place, ground in enumerate(grounds)
            for exam in ground.exams
        ]
        self.groups = {
            (place, ground.patients[exam.exam_id]): ground.splits[exam.exam_id]
            for place, ground in enumerate(grounds)
            for exam in ground.exams
            if len(grounds) > 1 and exam.exam_id in ground.splits
        }
        # A spawned process knows nothing but what it is given: threads of networks do not survive a fork.
        self._pools = [
            ProcessPoolExecutor(
                1, get_context("spawn"), initializer=_own, initargs=(self.exams[place::workers], os.getpid())
            )
            for place in range(min(workers, len(self.exams)) if workers > 1 else 0)
        ]

    def run(self, method: Method, values: Values) -> Trial:
        """Run a method on all exams and count what it found."""
        if not self._pools:
            return self.trial(values, _choose(method.key, values, self.exams))
        parts = [pool.submit(_choose, method.key, values) for pool in self._pools]
        return self.trial(values, {name: chosen for part in parts for name, chosen in part.result().items()})

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def trial(self, settings: Values, selections: Mapping[str, Selections]) -> Trial:
        """Count what some settings found."""
        by_patient: dict[Owner, Counts] = {}
        for exam_id, owner, targets, normal in self._exams:
            by_patient[owner] = by_patient.get(owner, Counts()) + count_exam(targets, selections[exam_id], normal)
        return _trial(settings, by_patient, self.weights)


_owned: list[ReadyExam] = []
"""The exams of this process, if it is one of several."""


def _own(exams: Sequence[ReadyExam], driver: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked; it ends the others
    die_with(driver)
    _owned.extend(exams)


def _choose(key: str, values: Values, exams: Sequence[ReadyExam] = _owned) -> dict[str, Selections]:
    return {exam.exam_id: METHODS[key].run(exam, values) for exam in exams}


def _trial(settings: Values, by_patient: Mapping[Owner, Counts], weights: Sequence[float]) -> Trial:
    """Average the figures of the datasets by their weights; where one has no value, it has no say."""
    names = ("ldr", "sensitivity", "redundancy_window", "frames")
    found = []
    for place in range(len(weights)):
        total = [reduce(add, (own for owner, own in by_patient.items() if owner[0] == place), Counts())]
        found.append([RATIOS[name].of(total) for name in names])
    values, shares = np.array(found), np.array(weights)[:, None]
    known = np.isfinite(values)
    means = np.where(known, values, 0.0) * shares
    ldr, sensitivity, redundancy, items = (
        (means.sum(axis=0) / np.maximum((known * shares).sum(axis=0), 1e-12)).round(6).tolist()
    )
    return Trial(settings, ldr, sensitivity, redundancy, items, by_patient=by_patient)


def left_out(tuned: Tuned, rank: Rank = lambda trial: trial.rank) -> Trial:
    """Score every patient with what is best on all others: how well tuned settings do on a new patient.

    The best trial is the best by chance, too, so its own figures flatter it; these do not.
    """
    trials, found = tuned.trials, dict[Owner, Counts]()
    group_of = {owner: tuned.groups.get(owner, str(owner)) for owner in trials[0].by_patient}
    for group in dict.fromkeys(group_of.values()):
        others = [
            rank(_trial({}, {p: own for p, own in one.by_patient.items() if group_of[p] != group}, tuned.weights))
            for one in trials
        ]
        best = max(range(len(trials)), key=lambda i: (others[i], -i))
        found |= {p: own for p, own in trials[best].by_patient.items() if group_of[p] == group}
    return _trial({}, found, tuned.weights)


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
            seen[key] = scorer.run(method, values)
        tried.append(seen[key])
        if progress:
            progress(len(tried), trials)
    return Tuned(max(tried, key=lambda trial: trial.rank), tuple(tried), scorer.weights, scorer.groups)


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


def make_ground(dataset: Dataset, networks: Networks, weight: float, watch: Watch) -> Ground:
    """Prepare the exams of a dataset."""
    exams = [prepare(row, networks.of(row), progress=watch(f"preparing {row.exam_id}")) for row in dataset.exams]
    patients = {row.exam_id: row.patient_id for row in dataset.exams}
    splits = {row.exam_id: row.split for row in dataset.exams}
    return Ground(tuple(exams), dataset.annotations, patients, splits, weight)


def tune_all(
    grounds: Sequence[Ground],
    bundle: Bundle,
    profile: str,
    *,
    methods: Sequence[str] | None = None,
    trials: int = TRIALS,
    seed: int = 0,
    workers: int = 1,
    watch: Watch,
) -> dict[str, Tuned]:
    """Tune every method, or some, from the settings of a profile on."""
    start = values_of(bundle.settings(profile))
    with closing(Scorer(grounds, workers)) as scorer:
        return {
            key: tune_method(scorer, method, start, trials=trials, seed=seed, progress=watch(f"tuning {key}", "trials"))
            for key, method in METHODS.items()
            if methods is None or key in methods
        }


def agreement(tuned: Tuned) -> float:
    """Tell how far two datasets agree on which settings are good: Spearman's rank correlation over the trials.

    Of more than two, the mean over all pairs; not a number where there is one dataset, or nothing to rank.
    """
    places = range(len(tuned.weights))
    worth = np.array([[_worth(trial, place) for trial in tuned.trials] for place in places])
    if len(worth) < 2 or len(tuned.trials) < 2:
        return float("nan")
    ranks = np.array([doubled_ranks(np.round(row, 9)) for row in worth], np.float64)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1)
    pairs = [(i, j) for i in places for j in places if i < j]
    found = [centred[i] @ centred[j] / (lengths[i] * lengths[j]) for i, j in pairs if lengths[i] and lengths[j]]
    return float(np.mean(found)) if found else float("nan")


def _worth(trial: Trial, place: int) -> float:
    """Return what tuning maximises, on one dataset alone."""
    own = _trial(
        {}, {(0, patient): counts for (of, patient), counts in trial.by_patient.items() if of == place}, (1.0,)
    )
    return own.ldr + own.sensitivity / 2


def tuned_text(tuned: Mapping[str, Tuned], trials: int) -> str:
    """Write the best trial of every method as a table."""
    rows = [("method", "LDR", "sens.", "items", "new patient: LDR", "sens.", "items")]
    chosen = []
    for name, result in tuned.items():
        best, new = (
            (f"{one.ldr:.3f}", f"{one.sensitivity:.3f}", f"{one.items:.1f}") for one in (result.best, left_out(result))
        )
        rows.append((name, *best, *new))
        chosen.append((name, ", ".join(f"{key}={value}" for key, value in result.best.settings.items())))
    lines = [
        f"best of {trials} trials each; 'new patient': each patient scored with what was best on all others",
        aligned(rows, numbers=True),
        "",
        aligned(chosen),
    ]
    agreed = {name: agreement(result) for name, result in tuned.items()}
    if any(np.isfinite(value) for value in agreed.values()):
        listed = ", ".join(f"{name} {value:.2f}" for name, value in agreed.items() if np.isfinite(value))
        lines.append(f"agreement of the datasets on which settings are good (rank correlation): {listed}")
    return "\n".join(lines)


def trial_facts(tuned: Tuned) -> dict[str, Any]:
    """Tell the same to programs."""
    names = ("ldr", "sensitivity", "redundancy_window", "items")
    figures = [{name: getattr(one, name) for name in names} for one in (tuned.best, left_out(tuned))]
    return {"settings": tuned.best.settings, **figures[0], "new_patient": figures[1]}


PROFILES: Mapping[str, tuple[str, str, Rank, Values]] = {
    "default": ("dice", f"best within {MOST_ITEMS:g} items per exam", lambda trial: trial.rank, {}),
    "paper": ("dice-paper", "the paper's rules only, tuned by themselves", lambda trial: trial.rank, {}),
    "sensitive": (
        "dice",
        f"most sensitive of the same trials, with up to {LONG:g} items per exam",
        lambda trial: (trial.sensitivity, trial.ldr),
        {"most_items": int(LONG)},
    ),
}
"""Profiles that tuning makes: of which method's trials, what it is for, which trial is best, what else is set."""


def make_profiles(where: str, tuned: Mapping[str, Tuned]) -> dict[str, Profile]:
    """Choose the best trial for every profile whose method was tuned, and say what was measured with it.

    `where` names the exams.
    """
    return {
        name: _profile(where, tuned[method], about, rank, more)
        for name, (method, about, rank, more) in PROFILES.items()
        if method in tuned
    }


def _profile(where: str, tuned: Tuned, about: str, rank: Rank, more: Values) -> Profile:
    best, new = max(tuned.trials, key=rank), left_out(tuned, rank)
    figures = (f"{one.ldr:.3f}, {one.sensitivity:.3f}, {one.items:.1f}" for one in (best, new))
    return Profile(
        with_values(Settings(), {**best.settings, **more}),
        f"{about}; of {len(tuned.trials)} trials on {where} (detection rate, sensitivity, items per exam: "
        f"{next(figures)}; each patient with what is best on the others: {next(figures)})",
    )


def write_trials(target: Path, tuned: Mapping[str, Tuned]) -> None:
    """Write all trials of all methods as a CSV."""
    rows = [
        (name, i, trial.ldr, trial.sensitivity, trial.redundancy_window, trial.items, json.dumps(trial.settings))
        for name, result in tuned.items()
        for i, trial in enumerate(result.trials)
    ]
    write_atomically(target, table_text(TRIAL_COLUMNS, rows).encode())
