"""How well networks judge frames *inside* one patient: the headline for Selector and diagnoser.

Frames pooled over patients mostly tell capsule makes and patients apart: one person's mucosa is redder than another's.
What a reader needs is that lesions of a patient stand out from the same patient's normal mucosa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.frames import RESAMPLES, balanced_accuracy, roc_auc
from dice_ce.benchmark.significance import Estimate, interval, resample
from dice_ce.types import Bools, Floats, Ints

SHARE = 0.1
"""Of a patient's frames, those with the highest scores: the candidates that a lesion event must reach."""
FEWEST = 10
"""Lesion and normal frames that a patient needs for an area under the curve."""


@dataclass(frozen=True)
class WithinFigures:
    """The Selector and the diagnoser inside patients, averaged over patients or cases."""

    patients: int
    """With enough lesion and normal frames."""
    auc: Estimate
    """Chance that a lesion frame scores higher than a normal frame of the same patient."""
    events: int
    event_recall: Estimate
    """Share of lesion events with a frame among the tenth of the patient's frames that score highest."""
    named: Estimate
    """Lesion frames called by their own name among the lesions, balanced over labels."""
    balanced: Estimate
    """Balanced accuracy over all labels, normal included."""
    normal_said: Estimate
    """Normal frames among that tenth which the diagnoser calls normal."""

    HEADER = ("patients", "AUC inside patients", "events", "event recall at 10 %", "lesions named right")
    HEADER_MORE = ("balanced accuracy", "normal said on false candidates")

    def columns(self) -> tuple[str, ...]:
        """Write the figures for a table, in the order of the headers."""
        first = (self.patients, self.auc, self.events, self.event_recall, self.named)
        return tuple(map(str, (*first, self.balanced, self.normal_said)))


def within_figures(
    score: Floats,
    distributions: Floats,
    labels: Bools,
    normal: int,
    cases: npt.NDArray[np.str_],
    events: Ints,
) -> WithinFigures:
    """Measure frames whose patients nothing was trained on.

    `labels` are [n, labels]; a frame without any shows nothing to report. `events` number the lesion events, from 0; -1
    is none.
    """
    lesion = np.delete(labels, normal, axis=1).any(axis=1)
    among = np.zeros(len(score), np.bool_)
    areas, of_areas = [], []
    for case in np.unique(cases):
        rows = np.flatnonzero(cases == case)
        among[top_share(score[rows], rows)] = True
        if min(np.count_nonzero(lesion[rows]), np.count_nonzero(~lesion[rows])) >= FEWEST:
            areas.append(roc_auc(score[rows], lesion[rows]))
            of_areas.append(str(case))
    found, of_events = _event_hits(among, events, cases)
    others = np.arange(labels.shape[1]) != normal
    named = distributions[lesion][:, others].argmax(axis=1)
    known = labels.any(axis=1)
    false = among & ~lesion
    said_normal = (distributions[false].argmax(axis=1) == normal).astype(np.float64)
    return WithinFigures(
        len(areas),
        mean_estimate(areas, of_areas),
        len(found),
        mean_estimate(found, of_events),
        balanced_accuracy(named, labels[lesion][:, others], cases[lesion]),
        balanced_accuracy(distributions[known].argmax(axis=1), labels[known], cases[known]),
        mean_estimate(said_normal, cases[false].tolist()),
    )


def top_share(score: Floats, rows: Ints) -> Ints:
    """Return the tenth of some rows with the highest scores, at least one."""
    most = max(1, round(SHARE * len(rows)))
    return rows[np.argsort(-score, kind="stable")[:most]]


def _event_hits(
    among: Bools, events: Ints, cases: npt.NDArray[np.str_]
) -> tuple[list[float], list[str]]:
    hits, owners = [], []
    for event in np.unique(events[events >= 0]):
        rows = events == event
        hits.append(float(among[rows].any()))
        owners.append(str(cases[rows][0]))
    return hits, owners


def mean_estimate(values: Sequence[float] | npt.NDArray[np.float64], cases: Sequence[str]) -> Estimate:
    """Average values with an interval over resampled cases; NaN where there are none."""
    if not len(values):
        return Estimate(float("nan"), float("nan"), float("nan"))
    table = np.asarray(values, np.float64)
    weights = resample(cases, RESAMPLES)
    drawn = weights @ table / np.maximum(weights.sum(axis=1), 1) if len(weights) else np.empty(0)
    return Estimate(float(table.mean()), *interval(drawn))


def number_events(
    cases: Sequence[str], numbers: Sequence[int | None], labels: Sequence[Sequence[str]], gap: int = 20
) -> Ints:
    """Number the lesion events: frames of a case with one set of lesions, each at most `gap` after the one before.

    `labels` are those of the lesions only. Frames without a number are in no event.
    """
    events = np.full(len(cases), -1, np.int64)
    order = sorted(
        (i for i in range(len(cases)) if numbers[i] is not None and labels[i]), key=lambda i: (cases[i], numbers[i])
    )
    count = -1
    before: int | None = None
    for i in order:
        goes_on = (
            before is not None
            and cases[before] == cases[i]
            and tuple(labels[before]) == tuple(labels[i])
            and (numbers[i] or 0) - (numbers[before] or 0) <= gap
        )
        count += not goes_on
        events[i], before = count, i
    return events
