"""What follows from landmarks and entries: transit times, positions, cleanliness, Lewis score, CECDAI.

Lewis score: Gralnek IM, DeFranchis R, Seidman E, et al. Development of a capsule endoscopy scoring index for small
    bowel mucosal inflammatory change. Aliment Pharmacol Ther 2008;27:146-54. Reviews that reprint its table disagree
    about the ulcers' extent: 5, 10, 25 (Collins, World J Gastrointest Endosc 2016;8:477-88) or 8, 12, 20 (ibid.
    2011;3:23-9). 5, 10 and 15 are used here; the limit of 135 is then one small ulcer, 3 x 5 x 9.
CECDAI: Gal E, Geller A, Fraser G, et al. Assessment and validation of the new capsule endoscopy Crohn's disease
    activity index. Dig Dis Sci 2008;53:1933-7; Niv Y, Ilani S, Levi Z, et al. Endoscopy 2012;44:21-6.
Cleanliness: Brotz C, Nandi N, Conn M, et al. A validation study of 3 grading systems to evaluate small-bowel cleansing
    for wireless capsule endoscopy. Gastrointest Endosc 2009;69:262-70.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dice_ce.reader.actions import Brotz, Cecdai, Landmark, Lewis, Segment, Tertile
from dice_ce.reader.contract import Measures
from dice_ce.reader.state import State

VILLI = {"normal": 0, "oedematous": 1}
VILLI_EXTENT = {"short": 8, "long": 12, "whole": 20}
VILLI_DESCRIPTOR = {"single": 1, "patchy": 14, "diffuse": 17}
ULCERS = {"none": 0, "single": 3, "few": 5, "multiple": 10}
ULCER_EXTENT = {"short": 5, "long": 10, "whole": 15}
ULCER_SIZE = {"under_quarter": 9, "quarter_to_half": 12, "over_half": 18}
STENOSES = {"none": 0, "single": 14, "multiple": 20}
NO_INFLAMMATION, MODERATE = 135, 790
"""Below the first: normal or clinically insignificant; up to the second: mild; above: moderate to severe."""
KNOT_TOLERANCE = 0.05
"""Seconds by which times between two knots may differ from the clock."""


@dataclass(frozen=True)
class Clock:
    """Time of every frame, by the few frames between which it runs evenly."""

    knots: tuple[tuple[int, float], ...]

    def seconds(self, frame: int) -> float:
        """Return when a frame was taken."""
        frames, seconds = zip(*self.knots, strict=True)
        return round(float(np.interp(frame, frames, seconds)), 3)

    def frame(self, seconds: float) -> int:
        """Return the last frame at or before a time; the first one if there is none."""
        frames, times = zip(*self.knots, strict=True)
        return int(np.interp(seconds, times, frames) + 1e-9)


def find_knots(frames: Sequence[int], seconds: Sequence[float]) -> Clock:
    """Leave out the frames whose time follows from their neighbours, within the tolerance."""
    knots = [(int(frames[0]), float(seconds[0]))]
    lowest, highest = -np.inf, np.inf
    for i in range(1, len(frames)):
        at, start = int(frames[i]), knots[-1]
        slope = (seconds[i] - start[1]) / (at - start[0])
        if not lowest <= slope <= highest:
            knots.append((int(frames[i - 1]), float(seconds[i - 1])))
            start, lowest, highest = knots[-1], -np.inf, np.inf
        reach = at - start[0]
        lowest = max(lowest, (seconds[i] - KNOT_TOLERANCE - start[1]) / reach)
        highest = min(highest, (seconds[i] + KNOT_TOLERANCE - start[1]) / reach)
    if len(frames) > 1:
        knots.append((int(frames[-1]), float(seconds[-1])))
    return Clock(tuple((frame, round(time, 3)) for frame, time in knots))


def lewis_tertile(tertile: Tertile) -> int:
    """Score one tertile: villous appearance plus ulcers."""
    villi, ulcers = tertile.villi, tertile.ulcers
    return (
        VILLI[villi.appearance] * VILLI_EXTENT[villi.extent] * VILLI_DESCRIPTOR[villi.descriptor]
        + ULCERS[ulcers.number] * ULCER_EXTENT[ulcers.extent] * ULCER_SIZE[ulcers.size]
    )


def lewis_score(lewis: Lewis) -> int:
    """Score the worst tertile plus the stenoses of the whole small bowel."""
    stenosis = lewis.stenosis
    narrowing = STENOSES[stenosis.number] * (24 if stenosis.ulcerated else 2) * (7 if stenosis.traversed else 10)
    return max(map(lewis_tertile, lewis.tertiles)) + narrowing


def lewis_grade(score: int) -> str:
    """Name the degree of inflammation."""
    if score < NO_INFLAMMATION:
        return "normal or clinically insignificant"
    return "mild" if score <= MODERATE else "moderate to severe"


def cecdai_segment(segment: Segment) -> int:
    """Score one half: inflammation times extent plus stricture."""
    return segment.inflammation * segment.extent + segment.stricture


def cecdai_score(cecdai: Cecdai) -> int:
    """Score both halves together, 0 to 36."""
    return cecdai_segment(cecdai.proximal) + cecdai_segment(cecdai.distal)


def brotz_index(brotz: Brotz) -> int | None:
    """Add up the five parts, 0 to 10; None while one is missing."""
    parts = (brotz.mucosa_visible, brotz.fluid_and_debris, brotz.bubbles, brotz.bile_staining, brotz.brightness)
    return None if None in parts else sum(part for part in parts if part is not None)


def small_bowel_position(frame: int, marks: Mapping[Landmark, int], clock: Clock) -> float | None:
    """Return where in the small bowel a frame lies, by time: 0 at the first duodenal image, 1 at the valve."""
    begin, end = marks.get("first_duodenal"), marks.get("ileocaecal")
    if begin is None or end is None or not begin <= frame <= end:
        return None
    length = clock.seconds(end) - clock.seconds(begin)
    return round((clock.seconds(frame) - clock.seconds(begin)) / length, 4) if length > 0 else None


def work_out(state: State, clock: Clock) -> Measures:
    """Return everything that follows from what the reader entered."""
    marks = {name: mark.frame for name, mark in state.landmarks.items()}

    def between(first: Landmark, last: Landmark) -> float | None:
        if first not in marks or last not in marks or marks[last] < marks[first]:
            return None
        return round(clock.seconds(marks[last]) - clock.seconds(marks[first]), 3)

    score = lewis_score(state.lewis) if state.lewis else None
    return Measures(
        gastric_seconds=between("first_gastric", "first_duodenal"),
        small_bowel_seconds=between("first_duodenal", "ileocaecal"),
        is_complete="ileocaecal" in marks,
        brotz_index=brotz_index(state.cleanliness) if state.cleanliness else None,
        lewis_score=score,
        lewis_tertiles=None
        if state.lewis is None
        else (
            lewis_tertile(state.lewis.tertiles[0]),
            lewis_tertile(state.lewis.tertiles[1]),
            lewis_tertile(state.lewis.tertiles[2]),
        ),
        lewis_grade=None if score is None else lewis_grade(score),
        cecdai_score=cecdai_score(state.cecdai) if state.cecdai else None,
        cecdai_segments=None
        if state.cecdai is None
        else (cecdai_segment(state.cecdai.proximal), cecdai_segment(state.cecdai.distal)),
        remarks=tuple(_remarks(marks, state)),
    )


ORDER: tuple[Landmark, ...] = ("first_gastric", "first_duodenal", "ileocaecal", "last")
NAMES: dict[Landmark, str] = {
    "first_gastric": "first gastric image",
    "first_duodenal": "first duodenal image",
    "ileocaecal": "ileo-caecal valve",
    "last": "last image",
}


def _remarks(marks: Mapping[Landmark, int], state: State) -> list[str]:
    there = [name for name in ORDER if name in marks]
    remarks = [
        f"The {NAMES[second]} lies before the {NAMES[first]}."
        for first, second in itertools.pairwise(there)
        if marks[second] < marks[first]
    ]
    if state.cecdai:
        for name, segment in (("proximal", state.cecdai.proximal), ("distal", state.cecdai.distal)):
            if (segment.inflammation == 0) != (segment.extent == 0):
                remarks.append(f"CECDAI: inflammation and extent of the {name} segment contradict each other.")
    return remarks
