"""What `dice-ce evaluate` prints: tables in the order of the paper's, as text for people and as facts for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dice_ce import DISCLAIMER
from dice_ce.benchmark.comparison import Comparison, PairedTest, compare
from dice_ce.benchmark.consistency import THRESHOLDS, switch_quartiles
from dice_ce.benchmark.evaluation import Evaluation, Protocol, evaluate
from dice_ce.benchmark.match import MATCH_WINDOW, Targets, count_close
from dice_ce.benchmark.metrics import LEVELS, RATIOS
from dice_ce.benchmark.predictions import read_predictions
from dice_ce.benchmark.significance import Estimate
from dice_ce.datasets.folder import Dataset, load_dataset
from dice_ce.errors import UsageError
from dice_ce.exam.clock import hms
from dice_ce.table import aligned

SCHEMA = "dice-ce/evaluation/1"
"""Raise the number when a field changes its meaning or goes; adding one is no new version."""
HEADINGS = {"lesion": "Lesion level", "keyframe": "Keyframe level", "patient": "Patient level"}
HEADLINES = ("frames", "ldr", "sensitivity", "specificity", "time_error", "redundancy", "dy", "pdr")
"""Columns of the comparison, as in the paper's main table."""
SHORT = {
    "frames": "frames",
    "ldr": "LDR %",
    "sensitivity": "sens. %",
    "specificity": "spec. %",
    "time_error": "time error s",
    "redundancy": "redund. %",
    "dy": "DY %",
    "pdr": "PDR %",
}
Cells = Sequence[str]


@dataclass(frozen=True)
class Scorecard:
    """The result of `dice-ce evaluate`."""

    truth: str
    split: str | None
    evaluations: tuple[Evaluation, ...]
    comparison: Comparison | None
    warnings: tuple[str, ...] = ()
    """What makes these figures doubtful."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as facts for programs."""
        return {
            "schema": SCHEMA,
            "disclaimer": DISCLAIMER,
            "truth": self.truth,
            "split": self.split,
            "window_seconds": MATCH_WINDOW / 1000,
            "warnings": list(self.warnings),
            "methods": [evaluation.to_json() for evaluation in self.evaluations],
            "comparison": self.comparison.to_json() if self.comparison else None,
        }

    def text(self) -> str:
        """Write the tables for people."""
        if self.comparison:
            blocks = [comparison_text(self.comparison)]
        else:
            blocks = [evaluation_text(evaluation) for evaluation in self.evaluations]
        truth = self.truth + (f", split {self.split}" if self.split else "")
        window = f"Window: a frame answers a finding up to {MATCH_WINDOW // 1000} s before or after it"
        heading = "\n".join([f"Truth: {truth}", window, *(f"Warning: {warning}" for warning in self.warnings)])
        return "\n\n".join([heading, *blocks, DISCLAIMER])


def score(
    methods: Sequence[tuple[str, Path]],
    truth: Path,
    *,
    split: str | None = None,
    comparing: bool = False,
    missing_as_empty: bool = False,
    allow_playback: bool = False,
    protocol: Protocol = Protocol(),  # noqa: B008  frozen, so sharing it is safe
) -> Scorecard:
    """Score each method's output on a dataset, or on one split of it; with `comparing`, the first against the rest."""
    dataset = load_dataset(truth, protocol.taxonomy)
    chosen = dataset.of(split) if split else dataset
    patients = {row.exam_id: row.patient_id for row in chosen.exams}
    evaluations = []
    for name, path in methods:
        selections = read_predictions(path, protocol.taxonomy).for_exams(
            patients,
            {row.exam_id for row in dataset.exams},
            missing_as_empty=missing_as_empty,
            allow_playback=allow_playback,
        )
        evaluations.append(evaluate(selections, chosen.annotations, name=name, patients=patients, protocol=protocol))
    comparison = compare(evaluations) if comparing else None
    warnings = crowded_findings(chosen, protocol)
    return Scorecard(dataset.folder.resolve().name, split, tuple(evaluations), comparison, warnings)


def crowded_findings(dataset: Dataset, protocol: Protocol) -> tuple[str, ...]:
    """Say how many findings lie so close together that one frame is in the windows of several."""
    crowded, total, exams = 0, 0, 0
    closest: tuple[int, str] | None = None
    for exam, annotation in sorted(dataset.annotations.items()):
        targets = Targets.of(annotation.findings, protocol.taxonomy, count_normal=protocol.count_normal_findings)
        close, least = count_close(targets)
        total, crowded, exams = total + len(targets), crowded + close, exams + (close > 0)
        if close and least is not None:
            closest = min(closest or (least, exam), (least, exam))
    if closest is None:
        return ()
    return (
        f"{crowded} of {_plural(total, 'finding')}, in {_plural(exams, 'exam')}, lie within the window of another one "
        f"(closest: {closest[0] / 1000:g} s apart in exam '{closest[1]}'): a frame there may be matched with a finding "
        "that it does not show",
    )


def parse_methods(texts: Iterable[str]) -> list[tuple[str, Path]]:
    """Read `NAME=DIR` or `DIR`, which is then called by the folder's name."""
    methods: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = Path(text).resolve().stem, text
        if not name or not path:
            raise UsageError(f"--pred '{text}': write NAME=DIR or DIR")
        if name in methods:
            raise UsageError(f"--pred '{text}': another method is called '{name}', too; write NAME={path}")
        methods[name] = Path(path)
    return list(methods.items())


# --- one method ----------------------------------------------------------------------------------------------------


def evaluation_text(evaluation: Evaluation) -> str:
    """Write the tables of one method."""
    total = evaluation.total
    lines = [
        f"{evaluation.name}: {_basis(evaluation)}; {_plural(total.selected, 'selected frame')}, "
        f"{total.conflicted:,} of them in conflict"
    ]
    rows: list[Cells] = []
    for level in LEVELS:
        rows.append((HEADINGS[level], "", "95 % interval", "counts"))
        for key, ratio in RATIOS.items():
            if ratio.level == level:
                figure = evaluation.figures[key]
                name = f"    {ratio.name}" if ratio.is_secondary else f"  {ratio.name}"
                rows.append((name, *_cells(figure, ratio.unit), _quotient(figure, ratio.is_mean)))
    lines += _table(rows)
    left_out = total.exams - total.exams_with_findings
    if left_out:
        lines.append(f"  {_plural(left_out, 'exam')} without findings: left out of LDR, sensitivity, DY and PDR")
    lines += ["Labels of consecutive keyframes that differ", *_table(_inconsistency_rows(evaluation))]
    lines.append(_switch_text(evaluation))
    return "\n".join(lines)


def _basis(evaluation: Evaluation) -> str:
    total = evaluation.total
    exams = _plural(total.exams, "exam")
    if evaluation.patient_count != total.exams:
        exams += f" of {_plural(evaluation.patient_count, 'patient')}"
    normal = " (normal ones count)" if evaluation.protocol.count_normal_findings else ""
    return f"{exams}, {_plural(total.findings, 'finding')}{normal}"


def _inconsistency_rows(evaluation: Evaluation) -> list[Cells]:
    rows: list[Cells] = [("  up to", "mean", "95 % interval", "SD", "exams", "pooled", "95 % interval", "pairs")]
    for threshold, rate in evaluation.inconsistency.items():
        rows.append(
            (
                f"  {_threshold(threshold)}",
                *_cells(rate.mean, "%"),
                _number(rate.spread, "%"),
                f"{rate.mean.bottom:.0f}",
                *_cells(rate.pooled, "%"),
                _quotient(rate.pooled, is_mean=False),
            )
        )
    return rows


def _switch_text(evaluation: Evaluation) -> str:
    number = len(evaluation.switches.switches)
    if not number:
        return "  no label switches"
    value, between = _cells(evaluation.short_switches, "%")
    quartiles = ", ".join(hms(seconds) for seconds in switch_quartiles(evaluation.switches))
    return (
        f"  {_plural(number, 'label switch', 'label switches')}; {value} {between} within 60 s; quartiles {quartiles}"
    )


# --- several -------------------------------------------------------------------------------------------------------


def comparison_text(comparison: Comparison) -> str:
    """Write methods as rows, then the tests of the first against each of the others."""
    evaluations = comparison.evaluations
    lines = [f"{_basis(evaluations[0])}; under each figure its 95 % interval", ""]
    rows: list[Cells] = [("method", *(SHORT[key] for key in HEADLINES))]
    for evaluation in evaluations:
        cells = [_cells(evaluation.figures[key], RATIOS[key].unit, with_unit=False) for key in HEADLINES]
        rows += [(evaluation.name, *(value for value, _ in cells)), ("", *(between for _, between in cells))]
    lines += [*_table(rows), "", "Labels of consecutive keyframes that differ, mean over exams"]
    rows = [("method", *(f"{_threshold(threshold)}, %" for threshold in THRESHOLDS), "switches", "within 60 s, %")]
    for evaluation in evaluations:
        rates = [_cells(rate.mean, "%", with_unit=False) for rate in evaluation.inconsistency.values()]
        short, between = _cells(evaluation.short_switches, "%", with_unit=False)
        switches = f"{len(evaluation.switches.switches):,}"
        rows += [
            (evaluation.name, *(value for value, _ in rates), switches, short),
            ("", *(interval for _, interval in rates), "", between),
        ]
    lines += [*_table(rows), "", f"{evaluations[0].name} against the others: paired two-sided Wilcoxon signed-rank"]
    lines += _table([_TEST_HEADER, *(_test_row(test, SHORT[test.figure][:-2]) for test in comparison.metrics)])
    inconsistency = [_test_row(test, f"differ, {_threshold(int(test.figure))}") for test in comparison.inconsistency]
    lines += ["", *_table([_TEST_HEADER, *inconsistency])]
    lines.append("  p is adjusted by Holm's method over all rows of its table")
    return "\n".join(lines)


_TEST_HEADER = ("against", "figure", "difference", "95 % interval", "patients", "not equal", "p", "p (Holm)", "")


def _test_row(test: PairedTest, name: str) -> Cells:
    return (
        test.other,
        name,
        _number(test.difference, "%", with_unit=False, signed=True),
        _interval(test.low, test.high, "%", signed=True),
        str(test.n),
        str(test.nonzero),
        _chance(test.p),
        _chance(test.p_holm),
        test.how,
    )


# --- cells ---------------------------------------------------------------------------------------------------------


def _cells(figure: Estimate, unit: str, *, with_unit: bool = True) -> tuple[str, str]:
    return _number(figure.value, unit, with_unit=with_unit), _interval(figure.low, figure.high, unit)


def _number(value: float, unit: str, *, with_unit: bool = True, signed: bool = False) -> str:
    if math.isnan(value):
        return "-"
    shown = 100 * value if unit == "%" else value
    text = f"{shown:+.1f}" if signed else f"{shown:.1f}"
    return f"{text} {unit}".rstrip() if with_unit else text


def _interval(low: float, high: float, unit: str, *, signed: bool = False) -> str:
    if math.isnan(low):
        return ""
    ends = (_number(end, unit, with_unit=False, signed=signed) for end in (low, high))
    return f"[{', '.join(ends)}]"


def _quotient(figure: Estimate, is_mean: bool) -> str:
    if is_mean:
        return _plural(round(figure.bottom), "exam")
    return f"{figure.top:,.0f} / {figure.bottom:,.0f}"


def _chance(p: float | None) -> str:
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _threshold(seconds: int) -> str:
    return f"{seconds} s" if seconds <= 60 else f"{seconds // 60} min"


def _plural(number: int, word: str, words: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def _table(rows: Sequence[Cells]) -> list[str]:
    return aligned(rows, numbers=True).splitlines()
