"""The truth about a simulated exam, from what was really painted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dice_ce.lab.simulator.lesions import Lesion
from dice_ce.lab.simulator.scene import LEAST_VISIBLE, Glimpse
from dice_ce.taxonomy import NORMAL

DECIMALS = 3  # of a share, as written


@dataclass(frozen=True)
class Finding:
    """One lesion, and when it was to be seen."""

    finding_id: str
    label: str
    frame: int  # in which it is seen best
    seconds: Fraction  # exam time of that frame
    first: int
    last: int
    frames: tuple[int, ...]  # all in which it is visible


@dataclass(frozen=True)
class FrameTruth:
    lesion: Lesion | None  # the one that shows most, if any shows enough
    visible: float  # share of the field of view it covers; below the least that counts, it may be without lesion


def frame_truth(glimpses: Sequence[Glimpse]) -> FrameTruth:
    """`glimpses` come with the largest first."""
    if not glimpses:
        return FrameTruth(None, 0.0)
    best = glimpses[0]
    counts = round(best.visible, DECIMALS) >= LEAST_VISIBLE  # as written, so that the file agrees with itself
    return FrameTruth(best.lesion if counts else None, best.visible)


def collect_findings(truths: Sequence[FrameTruth], seconds: Callable[[int], Fraction]) -> tuple[Finding, ...]:
    """In the order of their first frames. A lesion that never came into sight is no finding."""
    frames: dict[int, list[int]] = {}
    for frame, truth in enumerate(truths):
        if truth.lesion is not None:
            frames.setdefault(id(truth.lesion), []).append(frame)
    findings = []
    for number, seen in enumerate(frames.values(), start=1):
        best = max(seen, key=lambda frame: truths[frame].visible)
        lesion = truths[best].lesion
        assert lesion is not None
        findings.append(
            Finding(f"F{number:03d}", lesion.label, best, seconds(best), seen[0], seen[-1], tuple(seen)),
        )
    return tuple(findings)


def findings_csv(findings: Sequence[Finding]) -> str:
    rows = [
        f"{one.finding_id},{one.label},{shown_seconds(one.seconds)},{one.frame},{one.first},{one.last}"
        for one in findings
    ]
    return "\n".join(["finding_id,label,seconds,frame,first_frame,last_frame", *rows]) + "\n"


def truth_csv(truths: Sequence[FrameTruth], findings: Sequence[Finding]) -> str:
    finding = {frame: one for one in findings for frame in one.frames}
    rows = [
        f"{frame},{finding[frame].label},{finding[frame].finding_id},{truth.visible:.{DECIMALS}f}"
        if frame in finding
        else f"{frame},{NORMAL},,{truth.visible:.{DECIMALS}f}"
        for frame, truth in enumerate(truths)
    ]
    return "\n".join(["frame,label,finding_id,visible", *rows]) + "\n"


def shown_seconds(seconds: Fraction) -> str:
    return str(int(seconds)) if seconds.denominator == 1 else repr(float(seconds))
