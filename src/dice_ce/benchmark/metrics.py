"""Lesion-, keyframe- and patient-level metrics: integers that add up over exams, ratios last (points 3 to 8).

The paper's definitions come first; where its tables contradict its text, the other reading stands beside it.
`docs/explanation/metrics.md` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Literal

import numpy as np

from dice_ce.benchmark.match import NOTHING, Selections, Targets, Verdicts, match_selections
from dice_ce.types import Doubles

Level = Literal["lesion", "keyframe", "patient"]
LEVELS: tuple[Level, ...] = ("lesion", "keyframe", "patient")


@dataclass(frozen=True)
class Counts:
    """What is counted in one exam, or in many: `+` adds up."""

    exams: int = 0
    exams_with_findings: int = 0
    exams_all_correct: int = 0
    """Exams with a finding, in which all findings were found with the right label."""
    exams_any_correct: int = 0
    findings: int = 0
    """N"""
    matched: int = 0
    """Findings that got a frame, one to one, whatever its label."""
    correct: int = 0
    """Matched findings whose frame has the right label."""
    covered: int = 0
    """Findings with any valid frame in their window."""
    covered_correct: int = 0
    """Findings with any valid frame of the right label in their window."""
    error_ms: int = 0
    """Summed |dt| of matches."""
    error_correct_ms: int = 0
    selected: int = 0
    """S: every selected frame, conflicted and normal ones, too."""
    conflicted: int = 0
    selected_inside: int = 0
    """Valid frames in at least one window."""
    lesion_frames: int = 0
    """Selected frames with a lesion label."""
    lesion_frames_inside: int = 0
    """Lesion frames that are valid and in at least one window."""
    true_units: int = 0
    """T: matches whose frame has a lesion label."""
    false_units: int = 0
    """F: lesion-labelled frames that are conflicted or in no window, joined per label over 300 s."""

    def __add__(self, other: Counts) -> Counts:
        # Not `astuple`, which copies: tuning adds millions of these.
        return Counts(*map(add, vars(self).values(), vars(other).values()))

    @property
    def units(self) -> int:
        """Distinct lesions that are claimed, T + F."""
        return self.true_units + self.false_units

    @property
    def unmatched(self) -> int:
        """Selected frames that were not retained."""
        return self.selected - self.matched

    @property
    def selected_useless(self) -> int:
        """Selected frames that are conflicted or in no window."""
        return self.selected - self.selected_inside


@dataclass(frozen=True)
class Ratio:
    """One metric: a quotient of two counts."""

    level: Level
    name: str
    """For people."""
    top: str
    bottom: str
    unit: Literal["%", "s", ""] = "%"
    is_secondary: bool = False
    """Another reading of the metric before it."""
    is_mean: bool = False
    """The mean of the exams' own quotients, over exams where there is one, instead of the quotient of sums."""

    def columns(self, counts: Sequence[Counts]) -> tuple[Doubles, Doubles]:
        """Write the metric as a quotient of two sums over exams: what to add up above and below the line.

        A mean of quotients is one, too: the quotients above the line, ones below.
        """
        top = np.array([getattr(exam, self.top) for exam in counts], np.float64)
        bottom = np.array([getattr(exam, self.bottom) for exam in counts], np.float64)
        if self.unit == "s":
            top /= 1000
        return mean_columns(top, bottom) if self.is_mean else (top, bottom)

    def of(self, counts: Sequence[Counts]) -> float:
        """Compute the metric over exams; NaN if there is nothing to divide by."""
        top, bottom = self.columns(counts)
        return quotient(float(top.sum()), float(bottom.sum()))


RATIOS: dict[str, Ratio] = {
    "ldr": Ratio("lesion", "lesion detection rate (LDR)", "correct", "findings"),
    "ldr_any": Ratio("lesion", "ldr_any: any frame in the window", "covered_correct", "findings", is_secondary=True),
    "sensitivity": Ratio("lesion", "sensitivity", "matched", "findings"),
    "coverage": Ratio("lesion", "coverage: any frame in the window", "covered", "findings", is_secondary=True),
    "specificity": Ratio("lesion", "specificity (a precision)", "true_units", "units"),
    "precision_frame": Ratio(
        "lesion", "precision_frame: by frame", "lesion_frames_inside", "lesion_frames", is_secondary=True
    ),
    "time_error": Ratio("keyframe", "time error", "error_ms", "matched", "s"),
    "time_error_correct": Ratio("keyframe", "right label only", "error_correct_ms", "correct", "s", is_secondary=True),
    "redundancy": Ratio("keyframe", "redundancy", "unmatched", "selected"),
    "redundancy_mean": Ratio("keyframe", "mean over exams", "unmatched", "selected", is_secondary=True, is_mean=True),
    "redundancy_window": Ratio(
        "keyframe", "redundancy_window: in no window", "selected_useless", "selected", is_secondary=True
    ),
    "redundancy_window_mean": Ratio(
        "keyframe",
        "redundancy_window, mean over exams",
        "selected_useless",
        "selected",
        is_secondary=True,
        is_mean=True,
    ),
    "frames": Ratio("keyframe", "frames per exam", "selected", "exams", ""),
    "dy": Ratio("patient", "diagnostic yield (DY)", "exams_all_correct", "exams_with_findings"),
    "dy_all": Ratio("patient", "over all exams", "exams_all_correct", "exams", is_secondary=True),
    "pdr": Ratio("patient", "patient detection rate (PDR)", "exams_any_correct", "exams_with_findings"),
    "pdr_all": Ratio("patient", "over all exams", "exams_any_correct", "exams", is_secondary=True),
}
"""In the order of the paper's tables; a secondary reading follows what it is a reading of."""


def count_exam(targets: Targets, selections: Selections, normal: int) -> Counts:
    """Judge one exam and count."""
    return count(match_selections(targets, selections, normal), targets, selections, normal)


def count(verdicts: Verdicts, targets: Targets, selections: Selections, normal: int) -> Counts:
    """Count what the metrics need."""
    found = verdicts.answers != NOTHING
    rows = verdicts.answers[found]
    correct = selections.labels[rows] == targets.labels[found]
    errors = np.abs(selections.times[rows] - targets.times[found])
    is_lesion = selections.labels != normal
    useful = verdicts.inside & ~verdicts.conflicted
    number, right = len(targets), int(correct.sum())
    return Counts(
        exams=1,
        exams_with_findings=int(number > 0),
        exams_all_correct=int(0 < number == right),
        exams_any_correct=int(right > 0),
        findings=number,
        matched=len(rows),
        correct=right,
        covered=int(verdicts.covered.sum()),
        covered_correct=int(verdicts.covered_correct.sum()),
        error_ms=int(errors.sum()),
        error_correct_ms=int(errors[correct].sum()),
        selected=len(selections),
        conflicted=int(verdicts.conflicted.sum()),
        selected_inside=int(useful.sum()),
        lesion_frames=int(is_lesion.sum()),
        lesion_frames_inside=int((is_lesion & useful).sum()),
        true_units=int(is_lesion[rows].sum()),
        false_units=int(verdicts.false_units.max(initial=NOTHING)) + 1,
    )


def quotient(top: float, bottom: float) -> float:
    """Divide; NaN where the metric is not defined."""
    return top / bottom if bottom else float("nan")


def mean_columns(top: Doubles, bottom: Doubles) -> tuple[Doubles, Doubles]:
    """Turn a quotient of sums into the mean of the quotients, over exams where there is one."""
    defined = bottom > 0
    return np.divide(top, bottom, out=np.zeros_like(top), where=defined), defined.astype(np.float64)
