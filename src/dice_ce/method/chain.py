"""The values that flow through the method, each knowing the one before it.

    Exam -> Features -> Screened -> Candidates -> Woven -> Diagnosed -> Judged -> Summary

`pipeline.py` has the functions between them. Whoever needs only a part starts at the stage it has.
"""

from __future__ import annotations

from dataclasses import dataclass

from dice_ce.method.converger import Judgment
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.selector import Candidates
from dice_ce.method.weaver import Context
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats


@dataclass(frozen=True, eq=False)
class Woven:
    """Candidates in contexts."""

    candidates: Candidates
    contexts: tuple[Context, ...]
    keyframes: Keyframes
    """Finds keyframes, and remembers them while thresholds are tried."""


@dataclass(frozen=True, eq=False)
class Diagnosed:
    """Contexts with what their frames show."""

    woven: Woven
    distributions: Floats
    """p_t [n, labels] of every candidate; not a number where the diagnoser did not look, or could not."""
    taxonomy: Taxonomy
    unseen: tuple[int, ...] = ()
    """Ordinals of candidates that could not be decoded for the diagnoser."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Contexts with what their frames say together."""

    diagnosed: Diagnosed
    distributions: Floats
    """Those that were judged: after the exam prior, if there is one."""
    judgments: tuple[Judgment, ...]

    @property
    def candidates(self) -> Candidates:
        """The candidates whose rows the judgments name."""
        return self.diagnosed.woven.candidates

    @property
    def keyframes(self) -> Keyframes:
        """Finds keyframes."""
        return self.diagnosed.woven.keyframes

    @property
    def taxonomy(self) -> Taxonomy:
        """Labels, by the numbers in the judgments."""
        return self.diagnosed.taxonomy

    @property
    def kept(self) -> tuple[Judgment, ...]:
        """What the summary will show."""
        return tuple(one for one in self.judgments if one.verdict == "kept")

    def keyframe(self, judgment: Judgment) -> int:
        """Return the candidate's row that stands for a context (eq. 12)."""
        return self.keyframes.row(judgment)
