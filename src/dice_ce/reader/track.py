"""The line of the exam in a signed report: where the confirmed findings lie between the landmarks."""

from __future__ import annotations

from dataclasses import dataclass

from dice_ce.exam.clock import hms
from dice_ce.reader.measures import Clock
from dice_ce.reader.state import State

NAMES = {"first_gastric": "stomach", "first_duodenal": "duodenum", "ileocaecal": "caecum", "last": "end"}
WIDTH = 1000
MARK_ROOM = 26
"""Marks nearer than this stand above each other."""


@dataclass(frozen=True)
class Track:
    """What is drawn, in units of a thousandth of the width."""

    marks: tuple[tuple[float, int, int], ...]
    """Place, row above the line, and number of each finding."""
    landmarks: tuple[tuple[float, str, str], ...]
    """Place, name and time."""
    small_bowel: tuple[float, float] | None
    first: str
    last: str
    rows: int


def draw_track(state: State, clock: Clock) -> Track | None:
    """Lay the line out; None without a finding or a landmark to show on it."""
    begin, end = clock.knots[0][1], clock.knots[-1][1]
    if end <= begin or not (state.confirmed or state.landmarks):
        return None

    def place(frame: int) -> float:
        return round(WIDTH * (clock.seconds(frame) - begin) / (end - begin), 1)

    marks: list[tuple[float, int, int]] = []
    for number, one in enumerate(state.confirmed, start=1):
        at = place(one.keyframe)
        taken = {row for other, row, _ in marks if abs(other - at) < MARK_ROOM}
        marks.append((at, next(row for row in range(len(marks) + 1) if row not in taken), number))
    places = {name: place(mark.frame) for name, mark in state.landmarks.items()}
    bowel = ("first_duodenal", "ileocaecal")
    return Track(
        marks=tuple(marks),
        landmarks=tuple(
            (places[name], words, hms(clock.seconds(state.landmarks[name].frame)))
            for name, words in NAMES.items()
            if name in places
        ),
        small_bowel=(places["first_duodenal"], places["ileocaecal"]) if all(name in places for name in bowel) else None,
        first=hms(begin),
        last=hms(end),
        rows=max((row for _, row, _ in marks), default=0) + 1,
    )
