"""Label sets: the twelve categories of VideoCAP, and what other people call them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from dice_ce.errors import InputError

NORMAL = "normal"

VIDEOCAP_12 = (
    "ulcer",
    "erosion",
    "angioectasia",
    "mucosal erythema",
    "eminence lesion",
    "hematocele",
    "lymphangiectasia",
    "lymphoid follicular hyperplasia",
    "polyp",
    "parasite",
    "intestinal fluid accumulation",
    NORMAL,
)
"""In the order of the paper, section 3.1."""

ALIASES = {
    "angiectasia": "angioectasia",
    "angiodysplasia": "angioectasia",
    "erythema": "mucosal erythema",
    "erythematous": "mucosal erythema",
    "submucosal tumor": "eminence lesion",
    "smt": "eminence lesion",
    "bleeding": "hematocele",
    "active bleeding": "hematocele",
    "blood": "hematocele",
    "blood - fresh": "hematocele",
    "blood fresh": "hematocele",
    "blood - hematin": "hematocele",
    "blood hematin": "hematocele",
    "hematin": "hematocele",
    "lymphangioectasis": "lymphangiectasia",
    "lymph follicle": "lymphoid follicular hyperplasia",
    "polyp-like": "polyp",
    "polypoid": "polyp",
    "worms": "parasite",
    "worm": "parasite",
    "fluid accumulation": "intestinal fluid accumulation",
    "normal clean mucosa": NORMAL,
    "normal small intestinal mucosa": NORMAL,
}
"""Words of the public datasets and of the paper, lower case, for labels of VideoCAP."""


PALETTE = (
    ("#d55e00", "#f29a5b"),
    ("#0072b2", "#62b8ea"),
    ("#882255", "#e493b6"),
    ("#117733", "#6cc985"),
    ("#332288", "#aca1ee"),
    ("#8f7000", "#ddcc77"),
    ("#0e7f80", "#4fd0c4"),
    ("#aa4499", "#dc94d3"),
    ("#5f611c", "#c3c46b"),
    ("#c4314b", "#f59aa8"),
    ("#7a4a1e", "#cfa67b"),
)
"""On light and on dark ground, after the schemes of Okabe and Ito and of Tol for colour-blind readers."""
NEUTRAL = ("#66727c", "#9aa6b0")
"""The label that means nothing to report."""


@dataclass(frozen=True)
class Taxonomy:
    """An ordered set of labels, one of which means that there is nothing to report."""

    name: str = "videocap-12"
    labels: tuple[str, ...] = VIDEOCAP_12

    def __post_init__(self) -> None:
        if len(set(self.labels)) < len(self.labels):
            raise InputError(f"taxonomy '{self.name}': a label stands there twice; remove one")
        if NORMAL not in self.labels:
            raise InputError(f"taxonomy '{self.name}': the label '{NORMAL}' is missing; add it")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def normal(self) -> int:
        """Index of the label that means nothing to report."""
        return self.labels.index(NORMAL)

    def index(self, label: str) -> int:
        """Find a label by its name or by one of its aliases."""
        word = label.strip().casefold()
        word = ALIASES.get(word, word)
        if word in self.labels:
            return self.labels.index(word)
        close = difflib.get_close_matches(word, [*self.labels, *ALIASES], n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"one of {', '.join(self.labels)}"
        raise InputError(f"label '{label}' is not in the taxonomy '{self.name}'; {hint}")
