"""`dice-ce benchmark`: every method on the same exams, and all tables and pictures of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dice_ce.baselines import BASELINES, BUDGET, build_baseline
from dice_ce.bundle import Bundle, Settings
from dice_ce.datasets.csvfile import table_text
from dice_ce.datasets.folder import Dataset, ExamRow
from dice_ce.errors import UsageError
from dice_ce.files import write_atomically
from dice_ce.pipeline import Ablation
from dice_ce.prior import PriorConfig
from dice_ce.progress import Watch
from dice_ce.taxonomy import Taxonomy

from .comparison import Comparison, compare
from .evaluation import Evaluation, Protocol, evaluate
from .frames import SelectorFigures, selector_figures
from .match import Selection, Selections
from .methods import Oracle, Prepared, knowing, prepare, run_baseline, run_dice
from .truth import truth_beside

Group = Literal["ours", "ablation", "oracle", "fixed budget", "fixed budget with our prior", "raw video"]
Labeller = Callable[[ExamRow, Sequence[int]], Mapping[int, int]]
"""Another diagnoser, such as a vision-language model: labels of those frames that can be decoded, by ordinal."""

VARIANTS: tuple[tuple[str, str, tuple[Ablation, ...]], ...] = (
    ("dice-paper", "The paper's rules", ()),
    ("dice-windows", "Windows of 300 s", ("weaver",)),
)
"""Variants of DiCE that `tune` gives thresholds of their own."""


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
    seconds: Mapping[str, float]
    """Length of every exam."""
    outcomes: tuple[Outcome, ...]
    comparison: Comparison | None
    selector: SelectorFigures | None
    """On every frame, if the truth of every frame is known."""

    def of(self, *groups: Group) -> list[Outcome]:
        """Return the outcomes of some groups, in order."""
        return [outcome for outcome in self.outcomes if outcome.method.group in groups]


def methods(bundle: Bundle, *, is_truth_known: bool = False) -> dict[str, Method]:
    """List every method with its settings: DiCE's from the bundle, the baselines' as they were tuned beside it.

    Where the truth of every frame is known, DiCE is also run with stages that know it.
    """
    found = [
        _dice("dice", "DiCE", "ours", bundle),
        _dice("dice-without-weaver", "- Context Weaver", "ablation", bundle, without=["weaver"]),
        _dice("dice-without-converger", "- Evidence Converger", "ablation", bundle, without=["converger"]),
        _dice("dice-without-fusion", "- Evidence Converger, tau_min kept", "ablation", bundle, without=["fusion"]),
        *(
            _dice(f"dice-without-{key}", f"- {name} (ours)", "ablation", replace(bundle, settings=settings))
            for key, (name, settings) in without_extensions(bundle.settings).items()
        ),
        *(
            _dice(key, f"{name}, tuned alone", "ablation", _with(bundle, bundle.baselines[key]), without=without)
            for key, name, without in VARIANTS
            if key in bundle.baselines
        ),
    ]
    if is_truth_known:
        found += [
            _dice("dice-true-selector", "True candidates", "oracle", bundle, oracles=["selector"]),
            _dice("dice-true-diagnoser", "True labels", "oracle", bundle, oracles=["diagnoser"]),
            _dice("dice-true-both", "Both true", "oracle", bundle, oracles=["selector", "diagnoser"]),
        ]
    for name in BASELINES:
        tuned = dict(bundle.baselines.get(name, {}))
        tau_s = float(tuned.pop("tau_s", bundle.settings.tau_s))
        candidates = _baseline(name, tau_s, tuned)
        found += [candidates, _baseline(name, 0.0, tuned)]
        if bundle.settings.prior.strength > 0:
            found.append(_baseline(name, tau_s, tuned, (bundle.settings.prior, bundle.taxonomy.normal)))
        if is_truth_known:
            found.append(_told(candidates, bundle.taxonomy))
    return {method.key: method for method in found}


def _with(bundle: Bundle, settings: Mapping[str, Any]) -> Bundle:
    return replace(bundle, settings=Settings.of(settings))


def without_extensions(settings: Settings) -> dict[str, tuple[str, Settings]]:
    """Take away, one at a time and then together, what we added to the paper's rules and these settings use."""
    converger, condenser = settings.converger, settings.condenser
    found: dict[str, tuple[str, Settings]] = {}
    if converger.least_support > 1:
        found["support"] = "Least support", replace(settings, converger=replace(converger, least_support=1))
    if settings.prior.strength > 0:
        found["prior"] = "Exam prior", replace(settings, prior=PriorConfig())
    if condenser.repeat_seconds > 0:
        found["repeats"] = "Joined repeats", replace(settings, condenser=replace(condenser, repeat_seconds=0.0))
    if condenser.rival_seconds > 0:
        found["rivals"] = "Settled rivals", replace(settings, condenser=replace(condenser, rival_seconds=0.0))
    if condenser.most_items is not None:
        found["limit"] = "Limit of items", replace(settings, condenser=replace(condenser, most_items=None))
    if len(found) > 1:
        found["extensions"] = "All of these", settings.by_the_paper()
    if settings.candidate_share < 1:
        found["share"] = "Share of candidates", replace(settings, candidate_share=1.0)
    return found


def _dice(
    key: str,
    name: str,
    group: Group,
    bundle: Bundle,
    *,
    without: Sequence[Ablation] = (),
    oracles: Sequence[Oracle] = (),
) -> Method:
    def run(exam: Prepared) -> Selections:
        known = knowing(exam, bundle.taxonomy, oracles) if oracles else exam
        return run_dice(known, bundle.taxonomy, bundle.settings, without)

    return Method(key, name, group, run, {})


def _baseline(
    name: str, tau_s: float, tuned: Mapping[str, Any], prior: tuple[PriorConfig, int] | None = None
) -> Method:
    share = float(tuned.get("candidate_share", 1.0)) if tau_s else 1.0
    own = {key: value for key, value in tuned.items() if key != "candidate_share"}
    rule = build_baseline(name, own)
    shown = {"uniform": "Uniform", "random": "Random", "top-score": "Top score", "aks": "AKS", "vilamp": "ViLAMP"}[name]
    settings = {**({"tau_s": tau_s, "candidate_share": share} if tau_s else {}), **own, "budget": BUDGET}
    key = name if tau_s else f"{name}-raw"
    group: Group = "fixed budget" if tau_s else "raw video"
    if prior:
        key, group = f"{name}-prior", "fixed budget with our prior"
        settings["prior_strength"] = prior[0].strength
    return Method(key, shown, group, lambda exam: run_baseline(exam, rule, tau_s, share=share, prior=prior), settings)


def _told(method: Method, taxonomy: Taxonomy) -> Method:
    """Give a baseline candidates and labels that are true, as DiCE gets them."""
    return Method(
        f"{method.key}-true-both",
        f"{method.name}, both true",
        "oracle",
        lambda exam: method.run(knowing(exam, taxonomy, ["selector", "diagnoser"])),
        method.settings,
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
    is_truth_known = all(truth_beside(row) for row in dataset.exams)
    known = methods(bundle, is_truth_known=is_truth_known)
    if labeller:  # our prior needs distributions, and it gives labels
        known = {key: method for key, method in known.items() if method.group != "fixed budget with our prior"}
    chosen = choose(known, wanted)
    picked: dict[str, dict[str, Selections]] = {method.key: {} for method in chosen}
    screened: list[Screened] = []
    seconds: dict[str, float] = {}
    for row in dataset.exams:
        exam = prepare(row, bundle, progress=watch(row.exam_id))
        seconds[row.exam_id] = exam.seconds
        if exam.truth is not None:
            screened.append(Screened(exam.exam_id, exam.score, exam.truth != bundle.taxonomy.normal))
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
    rivals = [outcome.evaluation for outcome in outcomes if outcome.method.group != "oracle"]
    return Results(
        dataset,
        bundle,
        labeller[0] if labeller else "head" if bundle.looks_at_features else "network",
        seconds,
        tuple(outcomes),
        compare(rivals) if len(rivals) > 1 else None,
        selector_on_exams(screened, bundle.settings.tau_s) if is_truth_known else None,
    )


def relabelled(selections: Mapping[Method, Selections], row: ExamRow, labeller: Labeller) -> dict[Method, Selections]:
    """Let another diagnoser label what the baselines chose; each frame is judged once, however many chose it.

    Frames that it could not look at have no label and are not selected.
    """
    budgeted = {method for method in selections if method.group in ("fixed budget", "raw video")}
    frames = sorted({int(frame) for method in budgeted for frame in selections[method].frames})
    labels = labeller(row, frames)

    def relabel(chosen: Selections) -> Selections:
        shown = zip(chosen.times.tolist(), chosen.frames.tolist(), strict=True)
        return Selections.of(Selection(time, frame, labels[frame]) for time, frame in shown if frame in labels)

    return {method: relabel(chosen) if method in budgeted else chosen for method, chosen in selections.items()}


class Screened(NamedTuple):
    """What the Selector said about every frame of an exam, and what they show."""

    exam_id: str
    score: npt.NDArray[np.float32]
    is_lesion: npt.NDArray[np.bool_]


def selector_on_exams(exams: Sequence[Screened], tau_s: float) -> SelectorFigures:
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
