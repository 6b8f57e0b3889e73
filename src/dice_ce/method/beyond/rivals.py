"""Rivals: of two labels at one moment the better supported is kept. Ours, not the paper's.

A reader cannot use two labels for one moment, and the protocol counts both as wrong if their keyframes lie within 20 s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dice_ce.method.converger import Judgment
from dice_ce.settings import setting


@dataclass(frozen=True)
class RivalSettings:
    """How near two labels may be."""

    rival_seconds: float = setting(
        0.0,
        "time within which only one of two labels is kept, that with more evidence",
        low=0,
        search=(0.0, 20.0, 60.0, 150.0),
        rule="One label at a time",
        off=0.0,
    )


def drop_rivals(
    judgments: Sequence[Judgment], seconds_of: Callable[[Judgment], float], settings: RivalSettings
) -> list[Judgment]:
    """Drop kept contexts near one with another label and more evidence P_ref[y]; `seconds_of` the keyframe."""
    if settings.rival_seconds <= 0:
        return list(judgments)
    kept: list[tuple[float, int]] = []
    dropped: set[int] = set()
    strongest_first = sorted(
        (i for i, one in enumerate(judgments) if one.verdict == "kept"), key=lambda i: (-_mass(judgments[i]), i)
    )
    for i in strongest_first:
        time, label = seconds_of(judgments[i]), judgments[i].label
        if any(label != other and abs(time - moment) <= settings.rival_seconds for moment, other in kept):
            dropped.add(i)
        else:
            kept.append((time, label))
    return [replace(one, verdict="contradicted") if i in dropped else one for i, one in enumerate(judgments)]


def _mass(judgment: Judgment) -> float:
    """Return the evidence for the label, P_ref[y]."""
    return judgment.confidence * len(judgment.retained)
