"""The whole exam on one line: selector activity, contexts and findings.

Places along the exam are percentages of the width, so that the drawing fits any page while its text keeps its size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dice_ce.method.summary import Summary, SummaryItem
from dice_ce.outputs.report.pages import Material
from dice_ce.outputs.report.words import anchor, heading, percent

TIP_HEIGHT = 22
"""Room above the marks for the one text that shows on hover, where it covers nothing."""
MARK_LANE = 20
MARK_ROOM = 2.6
"""Percent of the width that a mark needs on a narrow page; nearer ones are stacked."""
MOST_LANES = 6
SPAN_LANE, SPAN_HEIGHT = 16, 9
LEAST_SPAN = 0.25
"""Percent of the width: what was seen in a single frame has no length, and browsers draw nothing without a width."""
SCORE_HEIGHT, CANDIDATES_HEIGHT, GAP = 44, 26, 10
AXIS_HEIGHT = 24
TICKS = (10, 60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_TICKS = 14
SPANS = (
    ("kept", "Findings"),
    ("beside_surer", "Same moment"),
    ("beyond_limit", "Less sure"),
    ("low_confidence", "Too doubtful"),
    ("normal", "Normal"),
)
RARE = ("beside_surer", "beyond_limit")
"""Get a lane only if there is one."""


@dataclass(frozen=True)
class Axis:
    """Maps exam time to the width of the drawing."""

    first: float
    last: float

    def place(self, seconds: float) -> float:
        """Percent of the width."""
        share = (seconds - self.first) / max(self.last - self.first, 1e-9)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def ticks(self) -> list[int]:
        """Round times, by the hour for an exam of usual length."""
        length = self.last - self.first
        step = next((step for step in TICKS if length / step <= MOST_TICKS), TICKS[-1])
        begin = -int(-self.first // step) * step
        return list(range(begin, int(self.last) + 1, step))


@dataclass(frozen=True)
class Drawn:
    """A context on the timeline: a mark at its keyframe, or a bar while it was in view."""

    anchor: str
    verdict: str
    colour: str
    shape: str
    y: float
    begin: float
    end: float
    place: float
    words: str

    @property
    def side(self) -> str:
        """Where its text is anchored, so that it stays inside the drawing."""
        return "start" if self.place < 33 else "end" if self.place > 67 else "middle"


@dataclass(frozen=True)
class Lane:
    """Binned values as an area of steps, scaled to the largest."""

    name: str
    top: float
    height: int
    count: int
    path: str


@dataclass(frozen=True)
class Timeline:
    """Everything that is drawn, in percent of the width and pixels of the height."""

    height: float
    top: int
    bottom: float
    names: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]
    activity: tuple[Lane, ...]
    spans: tuple[Drawn, ...]
    marks: tuple[Drawn, ...]
    span_height: int = SPAN_HEIGHT


def draw_timeline(summary: Summary, material: Material) -> Timeline:
    """Lay out the timeline."""
    axis = Axis(summary.activity.first_seconds, summary.activity.last_seconds)
    lanes = stack([axis.place(item.keyframe.seconds) for item in summary.items])
    spans_top = TIP_HEIGHT + MARK_LANE * (max(lanes, default=0) + 1) + GAP / 2
    there = {item.verdict for item in summary.dropped}
    rows = [(verdict, name) for verdict, name in SPANS if verdict not in RARE or verdict in there]
    tops = [spans_top + SPAN_LANE * row for row in range(len(rows))]
    score_top = spans_top + SPAN_LANE * len(rows) + GAP
    candidates_top = score_top + SCORE_HEIGHT + GAP
    bottom = candidates_top + CANDIDATES_HEIGHT
    return Timeline(
        height=bottom + AXIS_HEIGHT,
        top=TIP_HEIGHT,
        bottom=bottom,
        names=(
            *((y + SPAN_HEIGHT, name) for y, (_, name) in zip(tops, rows, strict=True)),
            (score_top + SCORE_HEIGHT, "Suspicion"),
            (bottom, "Suspicious"),
        ),
        ticks=tuple((axis.place(tick), _tick_text(tick, axis)) for tick in axis.ticks()),
        activity=(
            _steps(summary.activity.mean_score, score_top, SCORE_HEIGHT, "score"),
            _steps(summary.activity.candidates, candidates_top, CANDIDATES_HEIGHT, "chosen"),
        ),
        spans=tuple(
            _drawn(item, y, axis, material)
            for y, (verdict, _) in zip(tops, rows, strict=True)
            for item in summary.items + summary.dropped
            if item.verdict == verdict
        ),
        marks=tuple(
            _drawn(item, spans_top - GAP / 2 - MARK_LANE * (lane + 0.5), axis, material)
            for item, lane in zip(summary.items, lanes, strict=True)
        ),
    )


def legend(summary: Summary) -> list[tuple[str, int]]:
    """Count the findings by label."""
    counts = Counter(item.label for item in summary.items)
    return [(label, counts[label]) for label in summary.taxonomy.labels if label in counts]


def stack(places: Sequence[float]) -> list[int]:
    """Choose for each mark the lowest lane where it covers no other; `places` ascend."""
    ends = [-100.0] * MOST_LANES
    lanes = []
    for place in places:
        free = [lane for lane, end in enumerate(ends) if place - end >= MARK_ROOM]
        lane = free[0] if free else min(range(MOST_LANES), key=ends.__getitem__)
        ends[lane] = place
        lanes.append(lane)
    return lanes


def _drawn(item: SummaryItem, y: float, axis: Axis, material: Material) -> Drawn:
    begin = min(axis.place(item.first_seconds), 100 - LEAST_SPAN)
    return Drawn(
        anchor=anchor(item),
        verdict=item.verdict,
        colour=material.colour(item.label),
        shape=material.shape(item.label),
        y=y,
        begin=begin,
        end=max(axis.place(item.last_seconds), begin + LEAST_SPAN),
        place=axis.place(item.keyframe.seconds),
        words=f"{heading(item.label)}, {percent(item.confidence)}, {material.time(item.keyframe.seconds)}",
    )


def _tick_text(seconds: int, axis: Axis) -> str:
    if axis.last - axis.first < 60 * MOST_TICKS:
        return f"{seconds // 60}:{seconds % 60:02d}"
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}"


def _steps(values: Sequence[float], top: float, height: int, name: str) -> Lane:
    most = max(values, default=0) or 1
    path = "".join(f"V{height * (1 - max(value, 0) / most):.2f}h1" for value in values)
    return Lane(name, top, height, len(values) or 1, f"M0 {height}{path}V{height}Z")
