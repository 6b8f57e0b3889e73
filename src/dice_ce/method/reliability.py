"""How well a bundle recognises each label, measured on cases it was not trained on; told beside every finding.

A confidence says how much a model believes what it says; this says how often it was right to. A bundle keeps it as
`reliability.json`, a summary repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import msgspec

Grade = Literal[
    "well recognised",
    "fairly recognised",
    "poorly recognised",
    "hardly recognised",
    "too few cases to tell",
    "not measured",
]
Interval = tuple[float, float]
Count = Annotated[int, msgspec.Meta(ge=0)]

LEAST: Mapping[Grade, float] = {"well recognised": 0.7, "fairly recognised": 0.4, "poorly recognised": 0.2}
"""What both recall and precision must reach; a label below all of these is hardly recognised."""
LEAST_CASES = 3
"""With fewer, good figures may be those of one easy patient; bad ones are a warning all the same."""
DIGITS = 4


@dataclass(frozen=True)
class Reliability:
    """What happened to single frames of cases that nothing was trained on."""

    grade: Grade
    """The figures in two words, by the weaker of recall and precision."""
    frames: Count
    """Frames that show the label."""
    cases: Count
    """Cases that have such frames."""
    called: Count
    """Frames that the diagnoser gave the label."""
    right: Count
    """Frames among the called ones that show it."""
    recall: float | None
    """Share of the frames that show it that were called so."""
    recall_interval: Interval | None
    """95 % interval over cases, rounded; a single case gives none."""
    precision: float | None
    """Share of the frames called so that show it."""
    precision_interval: Interval | None

    def __post_init__(self) -> None:
        if self.right > min(self.frames, self.called):
            raise ValueError(f"{self.right} right of {self.called} called and {self.frames} shown")

    @classmethod
    def of_counts(
        cls,
        frames: int,
        cases: int,
        called: int,
        right: int,
        recall_interval: Interval | None = None,
        precision_interval: Interval | None = None,
    ) -> Self:
        """Work out from counts what follows from them."""
        recall = round(right / frames, DIGITS) if frames else None
        precision = round(right / called, DIGITS) if called else None
        grade = _grade(frames, cases, min(recall or 0.0, precision or 0.0))
        return cls(grade, frames, cases, called, right, recall, recall_interval, precision, precision_interval)

    def explain(self) -> str:
        """Say for people what the grade is made of."""
        if not self.frames:
            wrongly = f"; said of {_count(self.called, 'frame')}, each time wrongly" if self.called else ""
            return f"there was no frame to measure it on{wrongly}"
        found = f"found in {_percent(self.recall)} of {_count(self.frames, 'frame')} of {_count(self.cases, 'case')}"
        if not self.called:
            return f"{found}; never said"
        return f"{found}; when said, right in {_percent(self.precision)} of {_count(self.called, 'frame')}"


def _grade(frames: int, cases: int, weaker: float) -> Grade:
    if not frames:
        return "not measured"
    reached: Grade = next((grade for grade, least in LEAST.items() if weaker >= least), "hardly recognised")
    is_good = reached in ("well recognised", "fairly recognised")
    return "too few cases to tell" if is_good and cases < LEAST_CASES else reached


NOT_MEASURED = Reliability.of_counts(0, 0, 0, 0)


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.0f}\u00a0%"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
