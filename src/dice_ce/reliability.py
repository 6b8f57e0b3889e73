"""How well a bundle recognises each label, measured on cases it was not trained on; told beside every finding.

A confidence says how much a model believes what it says; this says how often it was right to. A bundle keeps it as
`reliability.json`, a summary repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, Self

Grade = Literal[
    "well recognised",
    "fairly recognised",
    "poorly recognised",
    "hardly recognised",
    "too few cases to tell",
    "not measured",
]
Interval = tuple[float, float]

LEAST: Mapping[Grade, float] = {"well recognised": 0.7, "fairly recognised": 0.4, "poorly recognised": 0.2}
"""What both recall and precision must reach; a label below all of these is hardly recognised."""
LEAST_CASES = 3
"""With fewer, good figures may be those of one easy patient; bad ones are a warning all the same."""
DIGITS = 4


@dataclass(frozen=True)
class Reliability:
    """What happened to single frames of cases that nothing was trained on."""

    frames: int = 0
    """That show the label."""
    cases: int = 0
    """That those frames are of."""
    called: int = 0
    """Frames that the diagnoser gave the label."""
    right: int = 0
    """Of these, how many show it."""
    recall_interval: Interval | None = None
    """95 % interval over cases, rounded; a single case gives none."""
    precision_interval: Interval | None = None

    @property
    def recall(self) -> float | None:
        """Share of the frames that show it that were called so."""
        return self.right / self.frames if self.frames else None

    @property
    def precision(self) -> float | None:
        """Share of the frames called so that show it."""
        return self.right / self.called if self.called else None

    @property
    def grade(self) -> Grade:
        """The figures in two words, by the weaker of recall and precision."""
        if not self.frames:
            return "not measured"
        weaker = min(self.recall or 0.0, self.precision or 0.0)
        reached: Grade = next((grade for grade, least in LEAST.items() if weaker >= least), "hardly recognised")
        is_good = reached in ("well recognised", "fairly recognised")
        return "too few cases to tell" if is_good and self.cases < LEAST_CASES else reached

    def explain(self) -> str:
        """Say for people what the grade is made of."""
        if not self.frames:
            wrongly = f"; said of {_count(self.called, 'frame')}, each time wrongly" if self.called else ""
            return f"there was no frame to measure it on{wrongly}"
        found = f"found in {_percent(self.recall)} of {_count(self.frames, 'frame')} of {_count(self.cases, 'case')}"
        if not self.called:
            return f"{found}; never said"
        return f"{found}; when said, right in {_percent(self.precision)} of {_count(self.called, 'frame')}"

    def facts(self) -> dict[str, Any]:
        """Write it for JSON."""
        return {
            "grade": self.grade,
            "frames": self.frames,
            "cases": self.cases,
            "called": self.called,
            "right": self.right,
            "recall": None if self.recall is None else round(self.recall, DIGITS),
            "recall_interval": self.recall_interval,
            "precision": None if self.precision is None else round(self.precision, DIGITS),
            "precision_interval": self.precision_interval,
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Read what `facts` wrote; whatever follows from the counts is computed again."""
        frames, cases, called, right = (index(facts[name]) for name in ("frames", "cases", "called", "right"))
        if min(cases, right) < 0 or right > min(frames, called):
            raise ValueError(f"{right} right of {called} called and {frames} shown")
        return cls(
            frames, cases, called, right, _interval(facts["recall_interval"]), _interval(facts["precision_interval"])
        )


NOT_MEASURED = Reliability()

Table = Mapping[str, Reliability]
"""By label."""


def table_facts(table: Table) -> dict[str, Any]:
    """Write a table for JSON."""
    return {label: row.facts() for label, row in table.items()}


def read_table(facts: Mapping[str, Any]) -> dict[str, Reliability]:
    """Read a table from JSON."""
    return {str(label): Reliability.of(row) for label, row in dict(facts).items()}


def _interval(listed: list[float] | None) -> Interval | None:
    if listed is None:
        return None
    low, high = listed
    return float(low), float(high)


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.0f}\u00a0%"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
