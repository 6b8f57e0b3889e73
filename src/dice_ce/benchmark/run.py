"""`dice-ce benchmark`: every method on the same exams, and all tables and images of the paper."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.comparison import Comparison, compare
from dice_ce.benchmark.diagnosers import Diagnoser, Labeller
from dice_ce.benchmark.evaluation import Evaluation, Protocol, evaluate
from dice_ce.benchmark.frames import SelectorFigures, selector_figures
from dice_ce.benchmark.match import Selection, Selections
from dice_ce.benchmark.methods import (
    BASELINES,
    METHODS,
    Method,
    Oracle,
    ReadyExam,
    ablations,
    prepare,
    with_oracle,
)
from dice_ce.benchmark.networks import Networks
from dice_ce.benchmark.significance import RESAMPLES
from dice_ce.benchmark.truth import truth_beside
from dice_ce.csvfile import table_text
from dice_ce.datasets.folder import Dataset
from dice_ce.errors import UsageError
from dice_ce.files import write_atomically
from dice_ce.method.bundle import DEFAULT_PROFILE, Bundle, diagnoser_kind
from dice_ce.method.settings import Settings
from dice_ce.progress import Watch
from dice_ce.settings import Value, values_of
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Progress

Group = Literal["ours", "ablation", "oracle", "fixed budget", "fixed budget with our prior", "raw video"]


@dataclass(frozen=True, eq=False)
class Row:
    """One row of the tables: a method with its settings, on all exams."""

    key: str
    name: str
    group: Group
    method: Method
    values: Mapping[str, Value]
    oracles: tuple[Oracle, ...] = ()
    diagnoser: str = ""
    """Which other diagnoser labels what is chosen; empty for the bundle's own."""

    def run(self, exam: ReadyExam, budget: int | None = None) -> Selections:
        """Choose frames of one exam; a budget is how many, at most."""
        return self.method.run(with_oracle(exam, self.oracles) if self.oracles else exam, self.values, budget)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method selected in all exams, and its figures."""

    row: Row
    selections: Mapping[str, Selections]
    evaluation: Evaluation


@dataclass(frozen=True, eq=False)
class Results:
    """A whole benchmark."""

    dataset: Dataset
    bundle: Bundle
    profile: str
    diagnoser: str
    """The bundle's own."""
    parameters: Mapping[str, int | None]
    """Weights of the other diagnosers, by name."""
    seconds: Mapping[str, float]
    """Length of every exam."""
    outcomes: tuple[Outcome, ...]
    comparison: Comparison | None
    selector: SelectorFigures | None
    """On every frame, if the truth of every frame is known."""
    curves: Mapping[str, Mapping[int, Evaluation]]
    """By method and number of items shown, at most."""

    def of(self, *groups: Group) -> list[Outcome]:
        """Return the outcomes of some groups, in order."""
        return [outcome for outcome in self.outcomes if outcome.row.group in groups]


BOTH: tuple[Oracle, ...] = ("selector", "diagnoser")
BUDGETS = (2, 4, 8, 16, 24, 32)
"""Items shown for which curves are drawn: one point per method says little about methods of different length."""
CURVED: tuple[Group, ...] = ("ours", "ablation", "fixed budget")
CURVE_RESAMPLES = 500


def list_rows(bundle: Bundle, profile: str = DEFAULT_PROFILE, *, is_truth_known: bool = False) -> dict[str, Row]:
    """List every row: DiCE with the settings of a profile, the others as they were tuned beside it.

    Where the truth of every frame is known, methods are also run with stages that know it.
    """
    dice, settings = METHODS["dice"], bundle.settings(profile)
    values = values_of(settings)
    found = [Row("dice", dice.title, "ours", dice, values)]
    for key, (title, changed) in ablations(settings).items():
        found.append(Row(f"dice-without-{key}", f"- {title}", "ablation", dice, changed))
    for key, method in METHODS.items():
        if method.is_ours and key != "dice" and key in bundle.tuned:
            found.append(Row(key, f"{method.title}, tuned alone", "ablation", method, bundle.tuned[key]))
    if is_truth_known:
        found += [
            Row("dice-true-selector", "True candidates", "oracle", dice, values, ("selector",)),
            Row("dice-true-diagnoser", "True labels", "oracle", dice, values, ("diagnoser",)),
            Row("dice-true-both", "Both true", "oracle", dice, values, BOTH),
        ]
    for key in BASELINES:
        found += _baseline_rows(METHODS[key], _tuned(bundle, key, settings), settings)
        if is_truth_known:
            title, tuned = f"{METHODS[key].title}, both true", _tuned(bundle, key, settings)
            found.append(Row(f"{key}-true-both", title, "oracle", METHODS[key], tuned, BOTH))
    return {row.key: row for row in found}


def _tuned(bundle: Bundle, key: str, settings: Settings) -> Mapping[str, Value]:
    return bundle.tuned.get(key, {"tau_s": settings.selector.tau_s})


def _baseline_rows(method: Method, values: Mapping[str, Value], settings: Settings) -> list[Row]:
    """Run a baseline on the Selector's candidates, on the raw video, and labelled with our exam prior."""
    raw = {**values, "tau_s": 0.0, "candidate_share": 1.0}
    rows = [
        Row(method.key, method.title, "fixed budget", method, values),
        Row(f"{method.key}-raw", method.title, "raw video", method, raw),
    ]
    if settings.prior.prior_strength > 0:
        fixed = {"prior_strength": settings.prior.prior_strength}
        with_prior = replace(method, fixed=fixed)
        rows.append(Row(f"{method.key}-prior", method.title, "fixed budget with our prior", with_prior, values))
    return rows


def choose(known: Mapping[str, Row], wanted: Sequence[str] | None) -> list[Row]:
    """Take the methods that were asked for; DiCE always comes first, since the others are tested against it."""
    if unknown := [name for name in wanted or () if name not in known]:
        raise UsageError(f"--methods: no method '{unknown[0]}'; there are {', '.join(known)}")
    return [row for key, row in known.items() if not wanted or key in wanted or key == "dice"]


def run_benchmark(
    dataset: Dataset,
    networks: Networks,
    out: Path,
    *,
    profile: str = DEFAULT_PROFILE,
    wanted: Sequence[str] | None = None,
    diagnosers: Sequence[Diagnoser] = (),
    watch: Watch,
) -> Results:
    """Run the methods on exams whose features come from the cache, and score them; predictions are kept as CSV.

    Other diagnosers add rows: the frames that the baselines choose, labelled by each of them. DiCE is left as it is.
    """
    bundle = networks.bundle
    is_truth_known = all(truth_beside(row) for row in dataset.exams)
    rows = choose(list_rows(bundle, profile, is_truth_known=is_truth_known), wanted)
    run = run_on_exams(rows, dataset, networks, watch)
    selections, parameters = dict(run.selections), {}
    for diagnoser in diagnosers:
        with diagnoser.open(bundle.taxonomy) as model:
            progress = watch(diagnoser.name, "exams")
            relabelled = relabel_all(rows, selections, dataset, diagnoser.name, model.label, progress)
            parameters[diagnoser.name] = model.parameters
        selections |= {row.key: chosen for row, chosen in relabelled.items()}
        rows += list(relabelled)
    patients = {row.exam_id: row.patient_id for row in dataset.exams}

    def score(key: str, chosen: Mapping[str, Selections], resamples: int = RESAMPLES) -> Evaluation:
        protocol = Protocol(taxonomy=bundle.taxonomy, resamples=resamples)
        return evaluate(chosen, dataset.annotations, name=key, patients=patients, protocol=protocol)

    outcomes = []
    for row in rows:
        write_predictions(out / "predictions" / f"{row.key}.csv", selections[row.key], bundle.taxonomy)
        outcomes.append(Outcome(row, selections[row.key], score(row.key, selections[row.key])))
    rivals = [outcome.evaluation for outcome in outcomes if outcome.row.group != "oracle"]
    return Results(
        dataset,
        bundle,
        profile,
        diagnoser_kind(bundle.diagnoser),
        parameters,
        run.seconds,
        tuple(outcomes),
        compare(rivals) if len(rivals) > 1 else None,
        selector_on_exams(run.screened, bundle.settings(profile).selector.tau_s) if is_truth_known else None,
        {
            key: {budget: score(key, chosen, CURVE_RESAMPLES) for budget, chosen in curve.items()}
            for key, curve in run.curves.items()
        },
    )


@dataclass(frozen=True, eq=False)
class Run:
    """What the methods chose in all exams, not scored yet."""

    selections: dict[str, dict[str, Selections]]
    """By method and exam."""
    curves: dict[str, dict[int, dict[str, Selections]]]
    """By method, number of items shown at most, and exam."""
    screened: list[ScreenedExam]
    """Exams whose truth is known."""
    seconds: dict[str, float]


def run_on_exams(rows: Sequence[Row], dataset: Dataset, networks: Networks, watch: Watch) -> Run:
    """Run all methods on one exam after the other, so that only one has to be in memory."""
    run = Run({row.key: {} for row in rows}, {}, [], {})
    for place, exam_row in enumerate(dataset.exams, 1):
        exam = prepare(exam_row, networks.of(exam_row), progress=watch(exam_row.exam_id))
        progress = watch(f"{exam_row.exam_id}, exam {place} of {len(dataset.exams)}", "methods")
        run.seconds[exam.exam_id] = exam.seconds
        if exam.truth is not None:
            is_lesion = exam.truth != exam.taxonomy.normal
            run.screened.append(ScreenedExam(exam.exam_id, exam.screened.score, is_lesion))
        own_budget: int | None = None
        for done, row in enumerate(rows, 1):
            # Ablations may show as many items as DiCE itself does in this exam, and no more.
            chosen = row.run(exam, own_budget if row.group == "ablation" else None)
            own_budget = len(chosen.frames) if row.group == "ours" else own_budget
            run.selections[row.key][exam.exam_id] = chosen
            if row.group in CURVED:  # right away: an exam remembers the contexts of the last settings only
                curve = run.curves.setdefault(row.key, {budget: {} for budget in BUDGETS})
                for budget, by_exam in curve.items():
                    by_exam[exam.exam_id] = row.run(exam, budget)
            progress(done, len(rows))
    return run


def relabel_all(
    rows: Sequence[Row],
    picked: Mapping[str, Mapping[str, Selections]],
    dataset: Dataset,
    name: str,
    labeller: Labeller,
    progress: Progress,
) -> dict[Row, dict[str, Selections]]:
    """Let another diagnoser label what the baselines chose; each frame is labelled once, however many chose it.

    Frames that it could not look at have no label and are not selected.
    """
    budgeted = [row for row in rows if row.group in ("fixed budget", "raw video") and not row.diagnoser]
    copies = {
        row.key: replace(row, key=f"{row.key}@{printable_key(name)}", name=f"{row.name}, {name}", diagnoser=name)
        for row in budgeted
    }
    found: dict[Row, dict[str, Selections]] = {copy: {} for copy in copies.values()}
    for done, exam in enumerate(dataset.exams):
        frames = sorted({int(frame) for row in budgeted for frame in picked[row.key][exam.exam_id].frames})
        labels = labeller(exam, frames)
        for row in budgeted:
            chosen = picked[row.key][exam.exam_id]
            shown = zip(chosen.times.tolist(), chosen.frames.tolist(), strict=True)
            found[copies[row.key]][exam.exam_id] = Selections.of(
                Selection(time, frame, labels[frame]) for time, frame in shown if frame in labels
            )
        progress(done + 1, len(dataset.exams))
    return found


def printable_key(name: str) -> str:
    """Write a diagnoser's name so that it can stand in a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")


class ScreenedExam(NamedTuple):
    """What the Selector said about every frame of an exam, and what they show."""

    exam_id: str
    score: npt.NDArray[np.float32]
    is_lesion: npt.NDArray[np.bool_]


def selector_on_exams(exams: Sequence[ScreenedExam], tau_s: float) -> SelectorFigures:
    """Score the Selector on every frame of whole exams."""
    cases = [np.full(len(exam.score), exam.exam_id) for exam in exams]
    scores, shows = ([exam.score for exam in exams], [exam.is_lesion for exam in exams])
    return selector_figures(np.concatenate(scores), np.concatenate(shows), np.concatenate(cases), tau_s)


def write_predictions(target: Path, selections: Mapping[str, Selections], taxonomy: Taxonomy) -> None:
    """Write what `dice-ce evaluate --pred` reads."""
    rows = [
        (exam_id, f"{time / 1000:.3f}", taxonomy.labels[label], frame)
        for exam_id, chosen in selections.items()
        for time, frame, label in zip(
            chosen.times.tolist(), chosen.frames.tolist(), chosen.labels.tolist(), strict=True
        )
    ]
    write_atomically(target, table_text(("exam_id", "seconds", "label", "frame"), rows).encode())
