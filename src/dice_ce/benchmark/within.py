"""How well networks judge frames *inside* one patient: the headline for Selector and diagnoser.

Frames pooled over patients mostly tell capsule makes and patients apart: one person's mucosa is redder than another's.
What a reader needs is that lesions of a patient stand out from the same patient's normal mucosa.

Event recall and false candidates are told twice. A tenth of *all* labelled frames is what the words say, but labelled
frames are no exam: of some patients most or all show lesions, so that scores by chance reach many of their events there
and perfect ones not all. In an exam lesions are rare, and a tenth of it is a tenth of its *normal* frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.frames import RESAMPLES, balanced_accuracy, roc_auc
from dice_ce.benchmark.significance import Estimate, interval, resample
from dice_ce.types import Bools, Floats, Ints

SHARE = 0.1
"""Share of a patient's frames, those with the highest scores, that a lesion event must reach."""
FEWEST = 10
"""Lesion and normal frames that a patient needs for an area under the curve; normal ones, for a tenth of them."""


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
    event_chance: float
    """What scores by chance reach there on average."""
    event_best: float
    """What scores reach there on average that put every lesion frame before every normal one, in any order."""
    exam_events: int
    """Lesion events of patients with enough normal frames."""
    exam_event_recall: Estimate
    """Share of those with a frame that scores higher than nine tenths of the same patient's normal frames."""
    exam_event_chance: float
    named: Estimate
    """Lesion frames called by their own name among the lesions, balanced over labels."""
    balanced: Estimate
    """Balanced accuracy over all labels, normal included."""
    normal_said: Estimate
    """Normal frames among the tenth of the patient's frames that score highest which the diagnoser calls normal."""
    exam_normal_said: Estimate
    """The same of the tenth of the patient's normal frames that score highest."""

    HEADER: ClassVar = (
        "patients",
        "AUC inside patients",
        "events",
        "event recall at 10 % of all frames",
        "by chance, at best",
        "events beside normal frames",
        "event recall at 10 % of normal frames",
        "by chance",
        "lesions named right",
        "balanced accuracy",
        "normal said on false candidates among 10 % of all frames",
        "among 10 % of normal frames",
    )

    def columns(self) -> tuple[str, ...]:
        """Write the figures for a table, in the order of the headers."""
        bounds = "–" if math.isnan(self.event_chance) else f"{self.event_chance:.3f}, {self.event_best:.3f}"
        chance = "–" if math.isnan(self.exam_event_chance) else f"{self.exam_event_chance:.3f}"
        return tuple(
            map(
                str,
                (
                    self.patients,
                    self.auc,
                    self.events,
                    self.event_recall,
                    bounds,
                    self.exam_events,
                    self.exam_event_recall,
                    chance,
                    self.named,
                    self.balanced,
                    self.normal_said,
                    self.exam_normal_said,
                ),
            )
        )


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
    among_normal, before_normal = among.copy(), among.copy()
    areas, of_areas = [], []
    reached, exam_reached = _Reached(), _Reached()
    for case in np.unique(cases):
        rows = np.flatnonzero(cases == case)
        lesions, normals = rows[lesion[rows]], rows[~lesion[rows]]
        among[top := top_share(score[rows], rows)] = True
        if min(len(lesions), len(normals)) >= FEWEST:
            areas.append(roc_auc(score[rows], lesion[rows]))
            of_areas.append(str(case))
        if len(normals) >= FEWEST:
            among_normal[highest := top_share(score[normals], normals)] = True
            before_normal[rows] = score[rows] > score[highest].min()
        for event in np.unique(events[rows][events[rows] != ""]):
            shown = rows[events[rows] == event]
            chance = _chance(len(rows), len(shown), len(top))
            best = _chance(len(lesions), len(shown), min(len(top), len(lesions)))
            reached.add(str(case), among[shown].any(), chance, best)
            if len(normals) >= FEWEST:
                exam_reached.add(str(case), before_normal[shown].any(), _chance_before(len(normals), len(shown)), 1.0)
    others = np.arange(labels.shape[1]) != normal
    named = distributions[lesion][:, others].argmax(axis=1)
    known = np.asarray(labels.any(axis=1))
    said_normal = (distributions.argmax(axis=1) == normal).astype(np.float64)
    false = among & ~lesion
    return WithinFigures(
        len(areas),
        mean_estimate(areas, of_areas),
        len(reached.found),
        mean_estimate(reached.found, reached.cases),
        _mean(reached.chance),
        _mean(reached.best),
        len(exam_reached.found),
        mean_estimate(exam_reached.found, exam_reached.cases),
        _mean(exam_reached.chance),
        balanced_accuracy(named, labels[lesion][:, others], cases[lesion]),
        balanced_accuracy(distributions[known].argmax(axis=1), labels[known], cases[known]),
        mean_estimate(said_normal[false], cases[false].tolist()),
        mean_estimate(said_normal[among_normal], cases[among_normal].tolist()),
    )


@dataclass(frozen=True)
class _Reached:
    """Lesion events: of which case each is, whether it was found, and how likely that was."""

    cases: list[str] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)

    def add(self, case: str, found: bool, chance: float, best: float) -> None:
        for column, value in zip((self.found, self.chance, self.best), (float(found), chance, best), strict=True):
            column.append(value)
        self.cases.append(case)


def _chance(frames: int, shown: int, drawn: int) -> float:
    """Tell how likely one of `shown` frames is among `drawn` of all."""
    return 1 - math.comb(frames - shown, drawn) / math.comb(frames, drawn)


def _chance_before(normals: int, shown: int) -> float:
    """Tell how likely one of `shown` frames comes before so many normal frames as a tenth of them, in random order."""
    tenth = share_of(normals)
    return 1 - math.comb(normals, tenth) / math.comb(normals + shown, tenth)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def share_of(frames: int) -> int:
    """Return how many a tenth of some frames are, at least one."""
    return max(1, round(SHARE * frames))


def top_share(score: Floats, rows: Ints) -> Ints:
    """Return the tenth of some rows with the highest scores."""
    return rows[np.argsort(-score, kind="stable")[: share_of(len(rows))]]


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
