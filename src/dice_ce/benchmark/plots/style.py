"""How methods and labels look in the plots of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from dice_ce.benchmark.run import Outcome, Results, Row
from dice_ce.taxonomy import NEUTRAL, PALETTE, Taxonomy


@dataclass(frozen=True)
class Look:
    """How a method or a label is drawn; colour-blind readers go by the mark."""

    colour: str
    mark: str


OTHER_LOOKS = (Look("#8f7000", "X"), Look("#332288", "<"), Look("#7a4a1e", ">"), Look("#5f611c", "h"))
"""For rows that share a method's entry, in turn."""
LABEL_MARKS = ("o", "s", "D", "^")
"""The shapes of the report."""


def label_look(taxonomy: Taxonomy, label: int) -> Look:
    """Draw a label as the report does."""
    colour = NEUTRAL[0] if label == taxonomy.normal else PALETTE[label % len(PALETTE)][0]
    return Look(colour, LABEL_MARKS[label % len(LABEL_MARKS)])


def method_looks(outcomes: Sequence[Outcome]) -> list[Look]:
    """Give each method the same look in all plots: that of its entry, unless another row has it."""
    others = cycle(OTHER_LOOKS)
    return [
        Look(row.method.colour, row.method.mark) if row.key == row.method.key else next(others)
        for row in (outcome.row for outcome in outcomes)
    ]


def is_ours(row: Row) -> bool:
    """Whether a row is to stand out."""
    return row.group == "ours"


def weight(outcome: Outcome) -> str:
    """Weight of the letters that a method is written in."""
    return "bold" if is_ours(outcome.row) else "normal"


def compared(results: Results) -> list[Outcome]:
    """Take the methods that work on the same candidates: DiCE first, then every fixed budget."""
    return [*results.of("ours"), *results.of("fixed budget")]
