"""One exam as the pictures see it: its findings, what each method made of them, and what was truly to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dice_ce.clock import parse_time, read_sidecar
from dice_ce.datasets.csvfile import read_table
from dice_ce.datasets.tables import Finding
from dice_ce.errors import InputError, UsageError
from dice_ce.taxonomy import Taxonomy

from .match import NOTHING, Bools, Selections, Targets, Verdicts, judge, milliseconds
from .plots_style import compared
from .run import Outcome, Results


class Span(NamedTuple):
    """A stretch of an exam in which a lesion is in view."""

    first: float
    """Exam seconds of its first frame."""
    last: float
    """Of its last frame."""
    label: str


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
    verdicts = judge(targets, selections, taxonomy.normal)
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

    baselines = [answers for answers in methods if answers.outcome.method.group == "fixed budget"]
    return sorted(baselines, key=rank)[:count]


# --- truth ---------------------------------------------------------------------------------------------------------


def read_truth_spans(path: Path, taxonomy: Taxonomy = Taxonomy()) -> list[Span]:  # noqa: B008  frozen
    """Read when which lesion is in view from a `<video>.truth.csv`; consecutive frames of one label are one stretch.

    The simulator writes no times into it, so they are taken from the `<video>.clock.csv` beside it.
    """
    rows = read_table(path, ("frame", "label"))
    if not rows:
        return []
    numbers = [_frame(row["frame"], path, line) for line, row in rows]
    if "seconds" in rows[0][1]:
        seconds = [_seconds(row["seconds"], path, line) for line, row in rows]
    else:
        clock = path.with_name(f"{path.name.removesuffix('.truth.csv')}.clock.csv")
        times, _ = read_sidecar(clock, max(numbers) + 1, None)
        seconds = [float(times[number]) for number in numbers]
    spans: list[Span] = []
    before = None
    for (line, row), number, time in zip(rows, numbers, seconds, strict=True):
        label = _label(row["label"], taxonomy, path, line)
        if label == taxonomy.labels[taxonomy.normal]:
            before = None
            continue
        if before == (number - 1, label):
            spans[-1] = spans[-1]._replace(last=time)
        else:
            spans.append(Span(time, time, label))
        before = number, label
    return spans


def _frame(text: str, path: Path, line: int) -> int:
    if not text.isdecimal():
        raise InputError(f"{path}, line {line}: '{text}' is no frame number; count frames from 0")
    return int(text)


def _seconds(text: str, path: Path, line: int) -> float:
    try:
        return float(parse_time(text))
    except ValueError as error:
        raise InputError(f"{path}, line {line}: {error}; write exam time in seconds") from error


def _label(text: str, taxonomy: Taxonomy, path: Path, line: int) -> str:
    try:
        return taxonomy.labels[taxonomy.index(text)]
    except InputError as error:
        raise InputError(f"{path}, line {line}: {error}") from error
