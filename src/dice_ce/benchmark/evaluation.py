"""All figures of one method, each with its interval from resampled patients (point 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from dice_ce.benchmark.consistency import (
    SHORT_SWITCH,
    THRESHOLDS,
    Pairs,
    count_pairs,
    pair_columns,
    spread,
    switch_distribution,
    switch_quartiles,
)
from dice_ce.benchmark.match import Selections, Targets
from dice_ce.benchmark.metrics import RATIOS, Counts, count_exam, mean_columns, quotient
from dice_ce.benchmark.significance import RESAMPLES, Estimate, interval, json_number, resample, resampled_quotients
from dice_ce.datasets.tables import Annotation
from dice_ce.errors import InputError
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Doubles

Columns = tuple[Doubles, Doubles]
"""Per exam, what to add up above and below the line."""


@dataclass(frozen=True)
class Protocol:
    """What may be chosen about scoring."""

    taxonomy: Taxonomy = field(default_factory=Taxonomy)
    count_normal_findings: bool = False
    """Whether "normal" in a report is a finding to be found; a summary of lesions cannot find it."""
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True)
class Inconsistency:
    """How often neighbouring labels differ, up to one threshold."""

    mean: Estimate
    """Over exams with at least one pair; `bottom` is their number."""
    spread: float
    """Standard deviation over the same exams."""
    pooled: Estimate
    """Over pairs."""

    def to_json(self) -> dict[str, Any]:
        """Write it for programs."""
        return {"mean": self.mean.to_json(), "sd": json_number(self.spread), "pooled": self.pooled.to_json()}


@dataclass(frozen=True)
class Evaluation:
    """How one method did."""

    name: str
    exams: tuple[str, ...]
    patients: tuple[str, ...]
    """Patient of each exam."""
    counts: tuple[Counts, ...]
    """Per exam."""
    pairs: tuple[Pairs, ...]
    """Per exam."""
    figures: Mapping[str, Estimate]
    """By the names of RATIOS."""
    inconsistency: Mapping[int, Inconsistency]
    """By threshold in seconds."""
    switches: Pairs
    """All exams together."""
    short_switches: Estimate
    """Share of label switches within a minute."""
    protocol: Protocol

    @property
    def total(self) -> Counts:
        """Counts of all exams together."""
        return reduce(add, self.counts, Counts())

    @property
    def patient_count(self) -> int:
        """How many patients the exams are of."""
        return len(set(self.patients))

    def to_json(self) -> dict[str, Any]:
        """Write everything for programs: counts, figures, and the counts of every exam."""
        seconds, shares = switch_distribution(self.switches)
        return {
            "name": self.name,
            "exams": len(self.exams),
            "patients": self.patient_count,
            "exams_without_findings": self.total.exams - self.total.exams_with_findings,
            "count_normal_findings": self.protocol.count_normal_findings,
            "resamples": self.protocol.resamples,
            "seed": self.protocol.seed,
            "counts": asdict(self.total),
            "figures": {name: figure.to_json() for name, figure in self.figures.items()},
            "inconsistency": {str(threshold): rate.to_json() for threshold, rate in self.inconsistency.items()},
            "switches": {
                "count": len(self.switches.switches),
                "within_60_s": self.short_switches.to_json(),
                "quartiles_seconds": [json_number(value) for value in switch_quartiles(self.switches)],
                "cdf": {"seconds": seconds, "share": shares},
            },
            "per_exam": {
                exam: {"patient_id": patient, **asdict(counts)}
                for exam, patient, counts in zip(self.exams, self.patients, self.counts, strict=True)
            },
        }


def evaluate(
    selections: Mapping[str, Selections],
    annotations: Mapping[str, Annotation],
    *,
    name: str = "method",
    patients: Mapping[str, str] | None = None,
    protocol: Protocol = Protocol(),  # noqa: B008  frozen, so sharing it is safe
) -> Evaluation:
    """Score what a method selected in every annotated exam.

    Exams are what is counted; patients are what is resampled, so that several exams of one are not taken for more
    evidence than they are. Without `patients` every exam is a patient of its own.
    """
    if missing := sorted(set(annotations) - set(selections)):
        raise InputError(f"{name}: no selections for the exam '{missing[0]}'; give empty ones if nothing was selected")
    exams = tuple(sorted(annotations))
    owners = tuple(patients[exam] if patients else exam for exam in exams)
    normal, count_normal = protocol.taxonomy.normal, protocol.count_normal_findings
    counts, pairs = [], []
    for exam in exams:
        targets = Targets.of(annotations[exam].findings, protocol.taxonomy, count_normal=count_normal)
        counts.append(count_exam(targets, selections[exam], normal))
        pairs.append(count_pairs(selections[exam]))
    weights = resample(owners, protocol.resamples, protocol.seed)
    return Evaluation(
        name=name,
        exams=exams,
        patients=owners,
        counts=tuple(counts),
        pairs=tuple(pairs),
        figures={key: _figure(weights, *ratio.columns(counts)) for key, ratio in RATIOS.items()},
        inconsistency={threshold: _inconsistency(weights, pairs, threshold) for threshold in THRESHOLDS},
        switches=reduce(add, pairs, Pairs()),
        short_switches=_figure(weights, *_short_switches(pairs)),
        protocol=protocol,
    )


def _figure(weights: Doubles, top: Doubles, bottom: Doubles) -> Estimate:
    above, below = float(top.sum()), float(bottom.sum())
    low, high = interval(resampled_quotients(weights, top, bottom))
    return Estimate(quotient(above, below), low, high, above, below)


def _inconsistency(weights: Doubles, pairs: Sequence[Pairs], threshold: int) -> Inconsistency:
    columns = pair_columns(pairs, threshold)
    return Inconsistency(
        mean=_figure(weights, *mean_columns(*columns)),
        spread=spread(pairs, threshold),
        pooled=_figure(weights, *columns),
    )


def _short_switches(pairs: Sequence[Pairs]) -> Columns:
    short = [sum(gap <= 1000 * SHORT_SWITCH for gap in exam.switches) for exam in pairs]
    return np.array(short, np.float64), np.array([len(exam.switches) for exam in pairs], np.float64)
