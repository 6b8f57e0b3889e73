"""How well single frames are judged: the Selector's yes or no, and the diagnoser's label, with intervals by case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.significance import Estimate, doubled_ranks, interval, resample, resampled_quotients
from dice_ce.method.reliability import DIGITS, Reliability
from dice_ce.types import Bools, Ints

Floats = npt.NDArray[np.floating]
RESAMPLES = 1000
FEWEST = 10
"""Frames of a kind that a case needs to be counted by itself."""


@dataclass(frozen=True)
class SelectorFigures:
    """The Selector on labelled frames; the paper's columns, and the area under the ROC curve."""

    frames: int
    abnormal: int
    accuracy: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    auc: float

    def columns(self) -> tuple[str, ...]:
        """Write accuracy, precision, recall, F1 and AUC for a table."""
        auc = "–" if math.isnan(self.auc) else f"{self.auc:.3f}"
        return (*map(str, (self.accuracy, self.precision, self.recall, self.f1)), auc)


def selector_figures(score: Floats, abnormal: Bools, cases: npt.NDArray[np.str_], tau_s: float) -> SelectorFigures:
    """Count hits and misses per case, so that resampling cases only adds counts up."""
    said = score >= tau_s
    outcomes = np.stack([said & abnormal, said & ~abnormal, ~said & abnormal, ~said & ~abnormal]).astype(np.float64)
    names, of_case = np.unique(cases, return_inverse=True)
    counts = np.stack([np.bincount(of_case, weights=row, minlength=len(names)) for row in outcomes])
    drawn = resample(names.tolist(), RESAMPLES) @ counts.T
    point, spread = _binary(counts.sum(axis=1)[None]), _binary(drawn)
    accuracy, precision, recall, f1 = (
        Estimate(float(value[0]), *interval(np.asarray(values, np.float64)))
        for value, values in zip(point, spread, strict=True)
    )
    return SelectorFigures(len(score), int(abnormal.sum()), accuracy, precision, recall, f1, roc_auc(score, abnormal))


def _binary(counts: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    hit, false, missed, rejected = counts.T
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            (hit + rejected) / counts.sum(axis=1),
            hit / (hit + false),
            hit / (hit + missed),
            2 * hit / (2 * hit + false + missed),
        )


def roc_auc(score: Floats, abnormal: Bools) -> float:
    """Chance that an abnormal frame scores higher than a normal one; ties count half."""
    positive, negative = int(abnormal.sum()), int((~abnormal).sum())
    if not positive or not negative:
        return float("nan")
    ranks = doubled_ranks(score) / 2
    return float((ranks[abnormal].sum() - positive * (positive + 1) / 2) / (positive * negative))


def confusion(said: Ints, truth: Bools, labels: int) -> Ints:
    """Count [true label, said label]; a frame with several labels counts for the one that was said, else its first."""
    right = truth[np.arange(len(said)), said]
    shown = np.where(right, said, truth.argmax(axis=1))
    table = np.zeros((labels, labels), np.int64)
    np.add.at(table, (shown, said), 1)
    return table


def measure_reliability(
    said: Ints, truth: Bools, cases: npt.NDArray[np.str_], labels: Sequence[str]
) -> dict[str, Reliability]:
    """Count for every label what was found and what was called so; a frame that shows several counts for each."""
    table = {}
    for column, label in enumerate(labels):
        shows, called = truth[:, column], said == column
        table[label] = Reliability.of_counts(
            frames=int(shows.sum()),
            cases=len(np.unique(cases[shows])),
            called=int(called.sum()),
            right=int((shows & called).sum()),
            recall_interval=_interval_over_cases(called[shows], cases[shows]),
            precision_interval=_interval_over_cases(shows[called], cases[called]),
        )
    return table


def _interval_over_cases(hits: Bools, cases: npt.NDArray[np.str_]) -> tuple[float, float] | None:
    names, of_case, total = np.unique(cases, return_inverse=True, return_counts=True)
    right = np.bincount(of_case, weights=hits, minlength=len(names)).astype(np.float64)
    low, high = interval(resampled_quotients(resample(names.tolist(), RESAMPLES), right, total.astype(np.float64)))
    return None if math.isnan(low) else (round(low, DIGITS), round(high, DIGITS))


def balanced_accuracy(said: Ints, truth: Bools, cases: npt.NDArray[np.str_]) -> Estimate:
    """Average the recall over the labels that occur; a frame with several labels is right if one of them is said."""
    labels = truth.shape[1]
    names, of_case = np.unique(cases, return_inverse=True)
    right = truth[np.arange(len(said)), said]
    shown = np.where(right, said, truth.argmax(axis=1))
    total, hits = np.zeros((len(names), labels)), np.zeros((len(names), labels))
    np.add.at(total, (of_case, shown), 1)
    np.add.at(hits, (of_case, shown), right)
    weights = resample(names.tolist(), RESAMPLES)
    return Estimate(
        float(_balanced(hits.sum(axis=0), total.sum(axis=0))), *interval(_balanced(weights @ hits, weights @ total))
    )


def _balanced(hits: Floats, total: Floats) -> npt.NDArray[np.float64]:
    recall = np.divide(hits, total, out=np.full(np.shape(hits), np.nan), where=total > 0)
    present = total > 0
    return np.asarray(np.nansum(recall, axis=-1) / np.maximum(present.sum(axis=-1), 1))


def calibration_error(confidence: Floats, right: Bools, bins: int = 15) -> float:
    """Return the mean gap between how sure and how right, over bins of equal width."""
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    size = np.bincount(place, minlength=bins)
    sure = np.bincount(place, weights=confidence, minlength=bins)
    hits = np.bincount(place, weights=right, minlength=bins)
    return float(np.abs(sure - hits).sum() / max(1, size.sum()))


@dataclass(frozen=True)
class PatientSpread:
    """Whether a threshold and a probability mean the same on every person: lowest, median and highest of the cases."""

    HEADER: ClassVar = (
        "lesion frames above tau_s: cases",
        "lowest, median, highest",
        "normal frames above tau_s: cases",
        "lowest, median, highest",
        "p(normal) too high by: cases",
        "lowest, median, highest",
    )

    lesions: tuple[float, ...]
    """By case: share of the lesion frames that become candidates."""
    normals: tuple[float, ...]
    """By case: share of the normal frames that do."""
    excess: tuple[float, ...]
    """By case: mean p(normal), less the share of frames that are normal."""

    def columns(self) -> tuple[str, ...]:
        """Write numbers of cases and ranges for a table."""
        return tuple(cell for values in (self.lesions, self.normals, self.excess) for cell in _range(values))


def _range(values: tuple[float, ...]) -> tuple[str, str]:
    if not values:
        return "0", "–"
    return str(len(values)), ", ".join(f"{value:.2f}" for value in np.quantile(values, (0, 0.5, 1)))


def patient_spread(
    score: Floats, normal: Floats, abnormal: Bools, cases: npt.NDArray[np.str_], tau_s: float
) -> PatientSpread:
    """Measure every case by itself; those with few frames of a kind say nothing about it."""

    def by_case(values: Floats, rows: Bools) -> tuple[float, ...]:
        names, of_case, size = np.unique(cases[rows], return_inverse=True, return_counts=True)
        means = np.bincount(of_case, weights=values[rows], minlength=len(names)) / size
        return tuple(means[size >= FEWEST].tolist())

    passed = (score >= tau_s).astype(np.float64)
    gap = normal.astype(np.float64) - ~abnormal
    everything = np.ones(len(score), np.bool_)
    return PatientSpread(by_case(passed, abnormal), by_case(passed, ~abnormal), by_case(gap, everything))
