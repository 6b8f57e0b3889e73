"""Several methods on the same exams: paired tests of the first one against each of the others (point 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from dice_ce.benchmark.consistency import THRESHOLDS, pair_columns
from dice_ce.benchmark.evaluation import Columns, Evaluation
from dice_ce.benchmark.metrics import RATIOS, mean_columns, quotient
from dice_ce.benchmark.significance import (
    holm,
    interval,
    json_number,
    quotients,
    resample,
    resampled_quotients,
    signed_rank,
)
from dice_ce.errors import UsageError
from dice_ce.types import Doubles

COMPARED = ("ldr", "sensitivity", "redundancy")
"""Metrics with a value per patient that methods are tested on."""


@dataclass(frozen=True)
class PairedTest:
    """A figure of the reference against that of another method, on the same patients."""

    other: str
    figure: str
    """A metric, or the threshold of the inconsistency in seconds."""
    difference: float
    """Reference minus other."""
    low: float
    """Ends of its 95 % interval; both methods are scored on the same resampled patients."""
    high: float
    n: int
    """Patients for whom both methods have a value."""
    nonzero: int
    """Patients among them whose values differ."""
    p: float | None
    """Two-sided Wilcoxon signed-rank test."""
    how: Literal["exact", "normal approximation", "all equal", "insufficient"]
    p_holm: float | None = None
    """Adjusted over all other methods and all metrics, or over all other methods and all thresholds."""

    def to_json(self) -> dict[str, Any]:
        """Write it for programs; what is not defined is null."""
        numbers = {name: json_number(getattr(self, name)) for name in ("difference", "low", "high")}
        return {**asdict(self), **numbers}


@dataclass(frozen=True)
class Comparison:
    """The first method against the others."""

    evaluations: tuple[Evaluation, ...]
    metrics: tuple[PairedTest, ...]
    inconsistency: tuple[PairedTest, ...]

    def to_json(self) -> dict[str, Any]:
        """Write the tests for programs."""
        return {
            "reference": self.evaluations[0].name,
            "metrics": [test.to_json() for test in self.metrics],
            "inconsistency": [test.to_json() for test in self.inconsistency],
        }


def compare(evaluations: Sequence[Evaluation]) -> Comparison:
    """Test the first method against each of the others, all scored on the same exams."""
    if len(evaluations) < 2:
        raise UsageError("a comparison needs at least two methods: give --pred NAME=DIR twice or more")
    reference, *others = evaluations
    for other in others:
        if (other.exams, other.patients, other.protocol) != (reference.exams, reference.patients, reference.protocol):
            raise UsageError(f"{other.name} was not scored like {reference.name}: use the same exams and settings")
    weights = resample(reference.patients, reference.protocol.resamples, reference.protocol.seed)
    return Comparison(
        evaluations=tuple(evaluations),
        metrics=_test_family(reference, others, weights, _metric_columns),
        inconsistency=_test_family(reference, others, weights, _inconsistency_columns),
    )


def _metric_columns(evaluation: Evaluation) -> dict[str, tuple[Columns, Columns]]:
    """Return for each metric the columns of its figure and those of its value per patient: here the same."""
    columns = {key: RATIOS[key].columns(evaluation.counts) for key in COMPARED}
    return {key: (pooled, pooled) for key, pooled in columns.items()}


def _inconsistency_columns(evaluation: Evaluation) -> dict[str, tuple[Columns, Columns]]:
    """Do the same for inconsistency, whose figure is a mean over exams."""
    columns = {str(threshold): pair_columns(evaluation.pairs, threshold) for threshold in THRESHOLDS}
    return {key: (mean_columns(*pooled), pooled) for key, pooled in columns.items()}


def _test_family(
    reference: Evaluation,
    others: Sequence[Evaluation],
    weights: Doubles,
    columns: Callable[[Evaluation], dict[str, tuple[Columns, Columns]]],
) -> tuple[PairedTest, ...]:
    """Run tests that are adjusted together."""
    own, tests = columns(reference), []
    for other in others:
        for key, (figure, per_patient) in columns(other).items():
            resampled = resampled_quotients(weights, *own[key][0]) - resampled_quotients(weights, *figure)
            low, high = interval(resampled)
            result = signed_rank(
                patient_values(reference.patients, own[key][1]), patient_values(reference.patients, per_patient)
            )
            difference = _value(own[key][0]) - _value(figure)
            tests.append(PairedTest(other.name, key, difference, low, high, **asdict(result)))
    adjusted = holm([test.p for test in tests])
    return tuple(replace(test, p_holm=p) for test, p in zip(tests, adjusted, strict=True))


def _value(columns: Columns) -> float:
    return quotient(float(columns[0].sum()), float(columns[1].sum()))


def patient_values(patients: Sequence[str], columns: Columns) -> Doubles:
    """Compute the quotient per patient, the exams of one taken together; NaN where there is none."""
    names, patient = np.unique(np.asarray(patients, dtype=np.str_), return_inverse=True)
    top, bottom = (np.bincount(patient, column, len(names)).astype(np.float64) for column in columns)
    return quotients(top, bottom)
