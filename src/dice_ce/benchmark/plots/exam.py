"""One exam as the plots see it: its findings and what each method made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dice_ce.benchmark.match import NOTHING, Selections, Targets, Verdicts, match_selections, milliseconds
from dice_ce.benchmark.plots.style import compared
from dice_ce.benchmark.run import Outcome, Results
from dice_ce.datasets.tables import Finding
from dice_ce.errors import UsageError
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Bools


@dataclass(frozen=True, eq=False)
class Answers:
    """What one method selected in an exam, and which findings that answers."""

    outcome: Outcome
    selections: Selections
    verdicts: Verdicts
    is_right: Bools
    """Per frame: it answers a finding, with the right label."""

    @property
    def found(self) -> int:
        """Findings with an answer, whatever its label."""
        return int((self.verdicts.answers != NOTHING).sum())

    @property
    def right(self) -> int:
        """Findings whose answer has the right label."""
        return int(self.is_right.sum())


@dataclass(frozen=True, eq=False)
class ExamResults:
    """One exam of a benchmark."""

    exam_id: str
    taxonomy: Taxonomy
    findings: tuple[Finding, ...]
    """Those that count, in the order of the protocol."""
    targets: Targets
    methods: tuple[Answers, ...]
    """DiCE first."""


def results_of(results: Results, exam_id: str) -> ExamResults:
    """Judge the frames that each method selected in one exam, as the figures do."""
    if exam_id not in results.dataset.annotations:
        known = ", ".join(sorted(results.dataset.annotations)[:5])
        raise UsageError(f"the exam '{exam_id}' is not in this benchmark; it has {known}, …")
    outcomes = compared(results)
    protocol = outcomes[0].evaluation.protocol
    taxonomy, count_normal = protocol.taxonomy, protocol.count_normal_findings
    everything = results.dataset.annotations[exam_id].findings
    findings = sorted(
        (one for one in everything if count_normal or taxonomy.index(one.label) != taxonomy.normal),
        key=lambda one: (milliseconds(one.seconds), one.id),
    )
    targets = Targets.of(everything, taxonomy, count_normal=count_normal)
    methods = tuple(_answers(outcome, outcome.selections[exam_id], targets, taxonomy) for outcome in outcomes)
    return ExamResults(exam_id, taxonomy, tuple(findings), targets, methods)


def _answers(outcome: Outcome, selections: Selections, targets: Targets, taxonomy: Taxonomy) -> Answers:
    verdicts = match_selections(targets, selections, taxonomy.normal)
    found = verdicts.answers != NOTHING
    rows = verdicts.answers[found]
    is_right = np.zeros(len(selections), np.bool_)
    is_right[rows] = selections.labels[rows] == targets.labels[found]
    return Answers(outcome, selections, verdicts, is_right)


def choose_patient(results: Results) -> str | None:
    """Choose the exam to show: the one with most findings of those where DiCE found any, else of all.

    The first of several in the order of their names. None if no report has a finding.
    """
    evaluation = compared(results)[0].evaluation
    numbers = [
        (counts.correct > 0, counts.findings, exam_id)
        for exam_id, counts in zip(evaluation.exams, evaluation.counts, strict=True)
        if counts.findings
    ]
    return min(numbers, key=lambda one: (-one[0], -one[1], one[2]))[2] if numbers else None


def strongest(methods: Sequence[Answers], count: int) -> list[Answers]:
    """Take the baselines with the highest detection rate in the whole benchmark; sensitivity decides between equals."""

    def rank(answers: Answers) -> tuple[float, float]:
        figures = answers.outcome.evaluation.figures
        return -np.nan_to_num(figures["ldr"].value), -np.nan_to_num(figures["sensitivity"].value)

    baselines = [answers for answers in methods if answers.outcome.row.group == "fixed budget"]
    return sorted(baselines, key=rank)[:count]
