"""The whole exam on one line: selector activity, contexts and findings.

Places along the exam are percentages of the width, so that the drawing fits any page while its text keeps its size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dice_ce.method.summary import Summary, SummaryItem
from dice_ce.outputs.report.markup import Material, anchor, percent, plural, title

TIP_HEIGHT = 22
"""Room above the marks for the one text that shows on hover, where it covers nothing."""
MARK_LANE = 20
MARK_ROOM = 2.6
"""Percent of the width that a mark needs on a narrow page; nearer ones are stacked."""
MOST_LANES = 6
SPAN_LANE, SPAN_HEIGHT = 16, 9
SCORE_HEIGHT, CANDIDATES_HEIGHT, GAP = 44, 26, 10
AXIS_HEIGHT = 24
TICKS = (10, 60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_TICKS = 14
SPANS = (
    ("kept", "Findings"),
    ("beside_likelier", "Beside a likelier one"),
    ("unlikely", "Unlikely to be reported"),
    ("low_confidence", "Too doubtful"),
    ("normal", "Normal"),
)
RARE = ("beside_likelier", "unlikely")
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


def timeline_section(summary: Summary, material: Material) -> str:
    """Draw the timeline with its legend."""
    axis = Axis(summary.activity.first_seconds, summary.activity.last_seconds)
    lanes = stack([axis.place(item.keyframe.seconds) for item in summary.items])
    parts: list[str] = []
    names: list[tuple[float, str]] = []
    spans_top = TIP_HEIGHT + MARK_LANE * (max(lanes, default=0) + 1) + GAP / 2
    there = {item.verdict for item in summary.dropped}
    spans = [span for span in SPANS if span[0] not in RARE or span[0] in there]
    for row, (verdict, name) in enumerate(spans):
        y = spans_top + SPAN_LANE * row
        names.append((y + SPAN_HEIGHT, name))
        parts += [_span(item, y, axis, material) for item in _all(summary) if item.verdict == verdict]
    for item, lane in zip(summary.items, lanes, strict=True):
        parts.append(_mark(item, spans_top - GAP / 2 - MARK_LANE * (lane + 0.5), axis, material))
    score_top = spans_top + SPAN_LANE * len(spans) + GAP
    score, candidates = summary.activity.mean_score, summary.activity.candidates
    candidates_top = score_top + SCORE_HEIGHT + GAP
    names += [(score_top + SCORE_HEIGHT, "Suspicion"), (candidates_top + CANDIDATES_HEIGHT, "Suspicious")]
    bottom = candidates_top + CANDIDATES_HEIGHT
    height = bottom + AXIS_HEIGHT
    drawing = (
        f'<svg class="plot" width="100%" height="{height:g}" role="group" aria-label="Timeline of the exam">\n'
        f"{_grid(axis, TIP_HEIGHT, bottom)}"
        f"{_steps(score, score_top, SCORE_HEIGHT, 'score')}"
        f"{_steps(candidates, candidates_top, CANDIDATES_HEIGHT, 'chosen')}"
        f"{''.join(parts)}</svg>"
    )
    texts = "".join(f'<text x="100%" y="{y:g}" text-anchor="end">{name}</text>\n' for y, name in names)
    return f"""<section class="timeline" aria-labelledby="timeline-title">
<h2 id="timeline-title">Timeline</h2>
<div class="lanes"><svg class="names" width="100%" height="{height:g}" aria-hidden="true">
{texts}</svg>
{drawing}</div>
{_legend(summary, material)}</section>"""


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


def _all(summary: Summary) -> tuple[SummaryItem, ...]:
    return summary.items + summary.dropped


def _tip(item: SummaryItem, axis: Axis, material: Material) -> str:
    place = axis.place(item.keyframe.seconds)
    side = "start" if place < 33 else "end" if place > 67 else "middle"
    return f'<text class="tip" x="{place}%" y="14" text-anchor="{side}">{_words(item, material)}</text>'


def _words(item: SummaryItem, material: Material) -> str:
    return f"{title(item.label)}, {percent(item.confidence)}, {material.time(item.keyframe.seconds)}"


def _mark(item: SummaryItem, y: float, axis: Axis, material: Material) -> str:
    place = axis.place(item.keyframe.seconds)
    return (
        f'<a class="mark {material.colour(item.label)}" href="#{anchor(item)}" aria-label="{_words(item, material)}">'
        f'<svg x="{place}%" y="{y:g}" overflow="visible"><circle class="reach" r="11"/>'
        f'<path d="{material.shape(item.label)}"/></svg>{_tip(item, axis, material)}</a>\n'
    )


def _span(item: SummaryItem, y: float, axis: Axis, material: Material) -> str:
    """Draw from when to when a context was seen. Only marks are tab stops: there may be hundreds of contexts."""
    begin, end = axis.place(item.first_seconds), axis.place(item.last_seconds)
    return (
        f'<a class="span {item.verdict} {material.colour(item.label)}" href="#{anchor(item)}" tabindex="-1" '
        f'aria-hidden="true"><rect x="{begin}%" y="{y:g}" width="{end - begin:.3f}%" height="{SPAN_HEIGHT}"/>'
        f"{_tip(item, axis, material)}</a>\n"
    )


def _grid(axis: Axis, top: float, bottom: float) -> str:
    lines = []
    for tick in axis.ticks():
        place = axis.place(tick)
        lines.append(
            f'<line class="tick" x1="{place}%" x2="{place}%" y1="{top:g}" y2="{bottom + 5:g}"/>'
            f'<text class="hour" x="{place}%" y="{bottom + 19:g}" text-anchor="middle">'
            f"{_tick_text(tick, axis)}</text>\n"
        )
    return "".join(lines) + f'<line class="axis" x1="0" x2="100%" y1="{bottom:g}" y2="{bottom:g}"/>\n'


def _tick_text(seconds: int, axis: Axis) -> str:
    if axis.last - axis.first < 60 * MOST_TICKS:
        return f"{seconds // 60}:{seconds % 60:02d}"
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}"


def _steps(values: Sequence[float], top: float, height: float, name: str) -> str:
    """Draw binned values as an area of steps, scaled to the largest."""
    most = max(values, default=0) or 1
    path = "".join(f"V{height * (1 - max(value, 0) / most):.2f}h1" for value in values)
    return (
        f'<svg class="{name}" y="{top:g}" width="100%" height="{height}" viewBox="0 0 {len(values) or 1} {height}" '
        f'preserveAspectRatio="none"><path d="M0 {height}{path}V{height}Z"/></svg>\n'
    )


def _legend(summary: Summary, material: Material) -> str:
    counts = Counter(item.label for item in summary.items)
    ordered = [label for label in summary.taxonomy.labels if label in counts]
    entries = "".join(f"<li>{material.glyph(label)} {escape(label)} <b>{counts[label]}</b></li>\n" for label in ordered)
    most = max(summary.activity.candidates, default=0)
    note = (
        "Each mark is a finding; the bars show from when to when it was in view. Suspicion is the mean score of all "
        "frames "
        f"per interval, at most {max(summary.activity.mean_score, default=0.0):.2f}; the most suspicious frames in one "
        f"interval are {most}, of {plural(summary.counts.candidates, 'suspicious frame')}."
    )
    clock = "" if material.is_exam_time else " All times are playback times."
    listed = f'<ul class="legend">\n{entries}</ul>\n' if entries else ""
    return f'{listed}<p class="note">{note}{clock}</p>\n'
