"""The list: which of the contexts that the converger kept become items. Ours, not the paper's.

What is most surely a lesion comes first, whichever it is: the context with the least normal frame. How sure a name is
says nothing about that: ordered by it, the first items of long exams were worse than chance. What lies right beside a
surer one is set aside, because both would be read as one moment, and a list may have a limit: a reader's time has one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dice_ce.method.chain import Judged
from dice_ce.method.converger import Judgment
from dice_ce.settings import setting


@dataclass(frozen=True)
class ListingSettings:
    """How near to each other items may be, and how many there may be."""

    apart_seconds: float = setting(
        0.0,
        "time within which only the context with the least normal frame becomes an item",
        low=0,
        search=(0.0, 20.0, 60.0, 150.0, 300.0),
        rule="One item at a time",
        off=0.0,
    )
    most_items: int | None = setting(None, "most items of a summary: those with the least normal frames", low=0)


def list_items(judged: Judged, settings: ListingSettings) -> Judged:
    """Set aside what lies beside a surer context, or beyond the limit; ties go to the earlier context."""
    judgments = list(judged.judgments)
    kept: list[float] = []
    order = sorted(range(len(judgments)), key=lambda i: (-abnormality(judged, judgments[i]), i))
    for i in (i for i in order if judgments[i].verdict == "kept"):
        time = judged.keyframes.seconds(judgments[i])
        if settings.apart_seconds and any(abs(time - other) <= settings.apart_seconds for other in kept):
            judgments[i] = replace(judgments[i], verdict="beside_surer")
        elif settings.most_items is not None and len(kept) >= settings.most_items:
            judgments[i] = replace(judgments[i], verdict="beyond_limit")
        else:
            kept.append(time)
    return replace(judged, judgments=tuple(judgments))


def abnormality(judged: Judged, judgment: Judgment) -> float:
    """Return 1 - p_t(normal) of the least normal frame that the diagnoser has looked at."""
    normal = judged.distributions[judgment.context.rows, judged.taxonomy.normal]
    return float(1 - np.fmin.reduce(normal))
