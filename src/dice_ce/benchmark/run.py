"""`dice-ce benchmark`: every method on the same exams, and all tables and pictures of the paper."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dice_ce.baselines import BASELINES, BUDGET, build_baseline
from dice_ce.bundle import Bundle
from dice_ce.datasets.csvfile import table_text
from dice_ce.datasets.folder import Dataset, ExamRow
from dice_ce.errors import UsageError
from dice_ce.files import write_atomically
from dice_ce.progress import Watch
from dice_ce.taxonomy import NORMAL, Taxonomy

from .comparison import Comparison, compare
from .evaluation import Evaluation, Protocol, evaluate
from .frames import SelectorFigures, selector_figures
from .match import Selections
from .methods import Prepared, prepare, run_baseline, run_dice

Group = Literal["ours", "ablation", "fixed budget", "raw video"]
Labeller = Callable[[ExamRow, Sequence[int]], Mapping[int, int]]
"""Another diagnoser, such as a vision-language model: labels of some frames of an exam, by ordinal."""


@dataclass(frozen=True, eq=False)
class Method:
    """One row of the tables."""

    key: str
    name: str
    group: Group
    run: Callable[[Prepared], Selections]
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method selected in all exams, and its figures."""

    method: Method
    selections: Mapping[str, Selections]
    evaluation: Evaluation


@dataclass(frozen=True, eq=False)
class Results:
    """A whole benchmark."""

    dataset: Dataset
    bundle: Bundle
    diagnoser: str
    outcomes: tuple[Outcome, ...]
    comparison: Comparison | None
    selector: SelectorFigures | None
    """On every frame, if the truth of every frame is known."""

    def of(self, *groups: Group) -> list[Outcome]:
        """Return the outcomes of some groups, in order."""
        return [outcome for outcome in self.outcomes if outcome.method.group in groups]


def methods(bundle: Bundle) -> dict[str, Method]:
    """List every method with its settings: DiCE's from the bundle, the baselines' as they were tuned beside it."""
    found = [
        Method("dice", "DiCE", "ours", lambda exam: run_dice(exam, bundle.taxonomy, bundle.settings), {}),
        Method(
            "dice-without-weaver",
            "- Context Weaver",
            "ablation",
            lambda exam: run_dice(exam, bundle.taxonomy, bundle.settings, ["weaver"]),
            {},
        ),
        Method(
            "dice-without-converger",
            "- Evidence Converger",
            "ablation",
            lambda exam: run_dice(exam, bundle.taxonomy, bundle.settings, ["converger"]),
            {},
        ),
    ]
    for name in BASELINES:
        tuned = dict(bundle.baselines.get(name, {}))
        tau_s = float(tuned.pop("tau_s", bundle.settings.tau_s))
        found.append(_baseline(name, tau_s, tuned))
        found.append(_baseline(name, 0.0, tuned))
    return {method.key: method for method in found}


def _baseline(name: str, tau_s: float, tuned: Mapping[str, Any]) -> Method:
    rule = build_baseline(name, tuned)
    is_raw = tau_s == 0
    shown = {"uniform": "Uniform", "random": "Random", "top-score": "Top score", "aks": "AKS", "vilamp": "ViLAMP"}[name]
    return Method(
        f"{name}-raw" if is_raw else name,
        shown,
        "raw video" if is_raw else "fixed budget",
        lambda exam: run_baseline(exam, rule, tau_s),
        {**({} if is_raw else {"tau_s": tau_s}), **tuned, "budget": BUDGET},
    )


def choose(known: Mapping[str, Method], wanted: Sequence[str] | None) -> list[Method]:
    """Take the methods that were asked for; DiCE always comes first, since the others are tested against it."""
    if unknown := [name for name in wanted or () if name not in known]:
        raise UsageError(f"--methods: no method '{unknown[0]}'; there are {', '.join(known)}")
    return [method for key, method in known.items() if not wanted or key in wanted or key == "dice"]


def run_benchmark(
    dataset: Dataset,
    bundle: Bundle,
    out: Path,
    *,
    wanted: Sequence[str] | None = None,
    labeller: tuple[str, Labeller] | None = None,
    watch: Watch,
) -> Results:
    """Run the methods on exams whose features come from the cache, and score them; predictions are kept as CSV.

    With a labeller and its name, the frames that the baselines choose are labelled by it; DiCE is left as it is.
    """
    chosen = choose(methods(bundle), wanted)
    picked: dict[str, dict[str, Selections]] = {method.key: {} for method in chosen}
    seen: list[tuple[Prepared, Path | None]] = []
    for row in dataset.exams:
        exam = prepare(row, bundle, progress=watch(row.exam_id))
        seen.append((exam, truth_beside(row)))
        of_exam = {method: method.run(exam) for method in chosen}
        if labeller:
            of_exam = relabelled(of_exam, row, labeller[1])
        for method, selected in of_exam.items():
            picked[method.key][row.exam_id] = selected
    patients = {row.exam_id: row.patient_id for row in dataset.exams}
    protocol = Protocol(taxonomy=bundle.taxonomy)
    outcomes = []
    for method in chosen:
        selections = picked[method.key]
        write_predictions(out / "predictions" / f"{method.key}.csv", selections, bundle.taxonomy)
        scored = evaluate(selections, dataset.annotations, name=method.key, patients=patients, protocol=protocol)
        outcomes.append(Outcome(method, selections, scored))
    comparison = compare([outcome.evaluation for outcome in outcomes]) if len(outcomes) > 1 else None
    return Results(
        dataset,
        bundle,
        labeller[0] if labeller else "head" if bundle.looks_at_features else "network",
        tuple(outcomes),
        comparison,
        selector_on_exams(seen, bundle.settings.tau_s),
    )


def relabelled(selections: Mapping[Method, Selections], row: ExamRow, labeller: Labeller) -> dict[Method, Selections]:
    """Let another diagnoser label what the baselines chose; each frame is judged once, however many chose it."""
    budgeted = {method for method in selections if method.group in ("fixed budget", "raw video")}
    frames = sorted({int(frame) for method in budgeted for frame in selections[method].frames})
    labels = labeller(row, frames)
    return {
        method: replace(chosen, labels=np.array([labels[int(frame)] for frame in chosen.frames], np.int64))
        if method in budgeted
        else chosen
        for method, chosen in selections.items()
    }


def selector_on_exams(exams: Sequence[tuple[Prepared, Path | None]], tau_s: float) -> SelectorFigures | None:
    """Score the Selector on every frame of whole exams, if the truth of every frame lies beside each of them."""
    shows, scores, cases = [], [], []
    for exam, truth in exams:
        if truth is None:
            return None
        with truth.open(newline="") as file:
            lesion = np.array([row["label"] != NORMAL for row in csv.DictReader(file)], np.bool_)
        shows.append(lesion[exam.features.frames.index])
        scores.append(exam.score)
        cases.append(np.full(len(exam.score), exam.exam_id))
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


def truth_beside(row: ExamRow) -> Path | None:
    """Find the per-frame truth that simulated and composed exams have beside their video."""
    path = row.video.with_name(f"{row.video.stem}.truth.csv")
    return path if path.is_file() else None
