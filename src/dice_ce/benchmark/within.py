"""How well networks judge frames *inside* one patient: the headline for Selector and diagnoser.

Frames pooled over patients mostly tell capsule makes and patients apart: one person's mucosa is redder than another's.
What a reader needs is that lesions of a patient stand out from the same patient's normal mucosa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.frames import RESAMPLES, balanced_accuracy, roc_auc
from dice_ce.benchmark.significance import Estimate, interval, resample
from dice_ce.types import Bools, Floats, Ints

SHARE = 0.1
"""Share of a patient's frames, those with the highest scores, that a lesion event must reach."""
FEWEST = 10
"""Lesion and normal frames that a patient needs for an area under the curve."""


@dataclass(frozen=True)
class WithinFigures:
    """The Selector and the diagnoser inside patients, averaged over patients or cases."""

    patients: int
    """Patients with enough lesion and normal frames."""
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

    HEADER: ClassVar = (
        "patients",
        "AUC inside patients",
        "events",
        "event recall at 10 %",
        "lesions named right",
        "balanced accuracy",
        "normal said on false candidates",
    )

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
    events: npt.NDArray[np.str_],
) -> WithinFigures:
    """Measure frames whose patients nothing was trained on.

    `labels` are [n, labels]; a frame without any shows nothing to report. `events` name the lesion events;
    empty is none.
    """
    lesion = np.asarray(np.delete(labels, normal, axis=1).any(axis=1))
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
    known = np.asarray(labels.any(axis=1))
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
    among: Bools, events: npt.NDArray[np.str_], cases: npt.NDArray[np.str_]
) -> tuple[list[float], list[str]]:
    hits, owners = [], []
    for event in np.unique(events[events != ""]):
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
    cases: Sequence[str], numbers: Sequence[int | None], lesions: Sequence[Sequence[str]], gap: int = 20
) -> npt.NDArray[np.str_]:
    """Name the lesion events: frames of a case that show the same lesions, each at most `gap` after the one before.

    An event has the name of its case and its first frame. Frames without a number or a lesion are in none.
    """
    events = np.full(len(cases), "", "U64")
    shown = [(cases[i], number, i) for i, number in enumerate(numbers) if number is not None and lesions[i]]
    before: tuple[str, int, int] | None = None
    for case, number, i in sorted(shown):
        goes_on = (
            before is not None
            and before[0] == case
            and number - before[1] <= gap
            and list(lesions[before[2]]) == list(lesions[i])
        )
        events[i] = events[before[2]] if goes_on and before else f"{case}:{number}"
        before = case, number, i
    return events
