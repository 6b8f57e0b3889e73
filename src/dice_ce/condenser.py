"""The Condenser: one item per finding, and no more items than somebody will look at. Ours, not the paper's.

A lesion that comes back after a minute is a context of its own, with its own entry in the paper's summary. Here
contexts of one label that lie close in time can become one item; of two labels at one moment the better supported can
stand alone; and if there are more items than wanted, those with least evidence stand back. All of it is off by
default, so that the summary is the paper's (eq. 12).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dice_ce.converger import Judgment, judgment
from dice_ce.weaver import Context

When = Callable[[Judgment], float]
"""Says when a reader sees a context, in seconds: `Keyframes.seconds`."""


@dataclass(frozen=True)
class CondenserConfig:
    """How short a summary is to be."""

    repeat_seconds: float = 0.0
    """Kept contexts of one label within this time of the first of them are one finding. 0 joins none."""
    rival_seconds: float = 0.0
    """A kept context within this time of one with another label and more evidence stands back. 0 lets all stand."""
    most_items: int | None = None
    """Items in a summary; those with most evidence stay."""


def condense(judgments: Sequence[Judgment], when: When, config: CondenserConfig) -> list[Judgment]:
    """Join repeats, settle contradictions, then keep the strongest."""
    left = list(judgments)
    if config.repeat_seconds > 0:
        left = join_repeats(left, when, config.repeat_seconds)
    if config.rival_seconds > 0:
        left = settle(left, when, config.rival_seconds)
    return left if config.most_items is None else keep_strongest(left, config.most_items)


def mass(judgment: Judgment) -> float:
    """Return the evidence for the label, P_ref[y]."""
    return judgment.confidence * len(judgment.retained)


def join_repeats(judgments: Iterable[Judgment], when: When, within: float) -> list[Judgment]:
    """Make kept contexts of one label one, each group no longer than `within` from its first member to its last.

    Where each part prefers the label, so does the whole, and it is no less certain than its least certain part:
    nothing needs to be judged again.
    """
    groups: list[list[Judgment]] = []
    open_groups: dict[int, tuple[float, list[Judgment]]] = {}
    for time, one in sorted(
        ((when(one), one) for one in judgments),
        key=lambda pair: (pair[0], int(pair[1].context.rows[0])),
    ):
        first, group = open_groups.get(one.label, (-np.inf, []))
        if one.verdict != "kept":
            groups.append([one])
        elif time - first <= within:
            group.append(one)
        else:
            open_groups[one.label] = time, [one]
            groups.append(open_groups[one.label][1])
    return [_whole(group) for group in groups]


def _whole(parts: Sequence[Judgment]) -> Judgment:
    """Put the evidence of several contexts together, as if they had been woven into one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    rows = np.sort(np.concatenate([part.context.rows for part in parts]))
    is_retained = np.isin(rows, np.concatenate([part.retained for part in parts]))
    before = np.sum([len(part.context.rows) * part.evidence_before for part in parts], axis=0)
    evidence = np.sum([len(part.retained) * part.evidence for part in parts], axis=0)
    whole = judgment(
        Context(first.context.coarse, first.context.fine, rows),
        is_retained,
        before / len(rows),
        evidence / is_retained.sum(),
        provisional=int(before.argmax()),
        label=first.label,
        fell_back=all(part.fell_back for part in parts),
        verdict=first.verdict,
    )
    return replace(whole, joined=tuple(part.context for part in parts[1:]))


def settle(judgments: Sequence[Judgment], when: When, within: float) -> list[Judgment]:
    """Let of two labels at one moment the one with more evidence stand: a reader cannot use both."""
    standing: list[tuple[float, int]] = []
    behind: set[int] = set()
    for i in _strongest_first(judgments):
        time, label = when(judgments[i]), judgments[i].label
        if any(label != other and abs(time - moment) <= within for moment, other in standing):
            behind.add(i)
        else:
            standing.append((time, label))
    return _outranked(judgments, behind)


def keep_strongest(judgments: Sequence[Judgment], most: int) -> list[Judgment]:
    """Let all but the `most` kept contexts with the largest evidence for their label, P_ref[y], stand back."""
    return _outranked(judgments, set(_strongest_first(judgments)[most:]))


def _strongest_first(judgments: Sequence[Judgment]) -> list[int]:
    kept = [i for i, one in enumerate(judgments) if one.verdict == "kept"]
    return sorted(kept, key=lambda i: (-mass(judgments[i]), i))


def _outranked(judgments: Sequence[Judgment], behind: Container[int]) -> list[Judgment]:
    return [replace(one, verdict="outranked") if i in behind else one for i, one in enumerate(judgments)]
