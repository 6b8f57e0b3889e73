"""The timeline of one patient: what the report says, what was to be seen, and what each method shows (section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dice_ce.benchmark.consistency import SHORT_SWITCH
from dice_ce.benchmark.match import MATCH_WINDOW
from dice_ce.benchmark.plots.exam import Answers, ExamResults, results_of
from dice_ce.benchmark.plots.style import Look, is_ours, label_look, weight
from dice_ce.benchmark.run import Results
from dice_ce.benchmark.truth import Span
from dice_ce.exam.clock import hms
from dice_ce.plotting import FAINT, INK, SOFT, WRONG, plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOW = MATCH_WINDOW / 1000
LANES = 0.7
"""Share of a row's height that its labels take, each on a lane, so that a change of label is a step."""
REACH = 600.0
"""Seconds on each side of the finding that is drawn closer."""
TICKS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
"""Seconds between two ticks."""
ROW = 0.46
"""Inches."""


@dataclass(frozen=True, eq=False)
class _Scene:
    """What is drawn, and where."""

    exam: ExamResults
    truth: Sequence[Span] | None
    labels: tuple[int, ...]
    """All that occur, in the order of the taxonomy."""
    end: float

    @property
    def first_method(self) -> int:
        """Row of the first method."""
        return 1 if self.truth is None else 2

    @property
    def rows(self) -> int:
        return self.first_method + len(self.exam.methods)

    def lane(self, row: int, label: int | str) -> float:
        """Height of a label in a row."""
        index = self.exam.taxonomy.index(label) if isinstance(label, str) else label
        middle = (len(self.labels) - 1) / 2
        return row + LANES * (self.labels.index(index) - middle) / len(self.labels)

    def look(self, label: int | str) -> Look:
        taxonomy = self.exam.taxonomy
        return label_look(taxonomy, taxonomy.index(label) if isinstance(label, str) else label)


def draw_timeline(results: Results, exam_id: str, truth: Sequence[Span] | None, target: Path) -> None:
    """Draw one exam from its beginning to its end, and closer the part where the baselines contradict themselves most.

    `truth` are the stretches in which lesions are in view, where they are known.
    """
    scene = _scene(results_of(results, exam_id), truth)
    chosen = restless_finding(scene.exam)
    panels = 1 if chosen is None else 2
    title = f"Exam {exam_id}: the report, and the keyframes of each method"
    with plot(target, title, 12.4, 1.1 + panels * (0.75 + ROW * scene.rows)) as figure:
        heights = [ROW * scene.rows] * panels + [0.5]
        whole, *close, legend = figure.subplots(panels + 1, 1, height_ratios=heights).tolist()
        _draw_panel(whole, scene, -0.008 * scene.end, scene.end)
        _caption(whole, f"The whole exam. Shaded: {WINDOW:.0f} s before to {WINDOW:.0f} s after a finding")
        if chosen is not None:
            middle = scene.exam.findings[chosen].seconds
            _draw_panel(close[0], scene, middle - REACH, middle + REACH)
            _caption(
                close[0],
                f"Around finding {chosen + 1}, framed above: of all findings the one around which the labels of the "
                f"baselines switch most often within {SHORT_SWITCH} s",
            )
            whole.axvspan(middle - REACH, middle + REACH, fill=False, edgecolor=INK, linewidth=1.2, zorder=5)
        _draw_legend(legend, scene)


def _caption(axes: Axes, text: str) -> None:
    axes.set_title(text, color=SOFT, fontsize=9, pad=16)


def _scene(exam: ExamResults, truth: Sequence[Span] | None) -> _Scene:
    names = {finding.label for finding in exam.findings} | {span.label for span in truth or ()}
    labels = {exam.taxonomy.index(name) for name in names}
    ends = [finding.seconds for finding in exam.findings] + [span.last for span in truth or ()]
    for method in exam.methods:
        labels |= set(method.selections.labels.tolist())
        ends += (method.selections.times[-1:] / 1000).tolist()
    return _Scene(exam, truth, tuple(sorted(labels)), max(ends, default=0.0) + WINDOW)


def restless_finding(exam: ExamResults) -> int | None:
    """Find the finding around which the labels of the baselines switch most often at short intervals.

    The first of several; None if they never do around any.
    """
    switches = np.array([time for one in exam.methods if not is_ours(one.outcome.row) for time in _switches(one)])
    counts = [int((np.abs(switches - finding.seconds) <= REACH).sum()) for finding in exam.findings]
    return counts.index(max(counts)) if any(counts) else None


def _switches(method: Answers) -> list[float]:
    """Return when the label switches at short intervals."""
    times, labels = method.selections.times / 1000, method.selections.labels
    rows = np.flatnonzero((np.diff(labels) != 0) & (np.diff(times) <= SHORT_SWITCH))
    return [float(time) for time in (times[rows] + times[rows + 1]) / 2]


def _draw_panel(axes: Axes, scene: _Scene, first: float, last: float) -> None:
    for finding in scene.exam.findings:
        colour = scene.look(finding.label).colour
        axes.axvspan(finding.seconds - WINDOW, finding.seconds + WINDOW, color=colour, alpha=0.1, linewidth=0)
    _draw_report(axes, scene, first, last)
    if scene.truth is not None:
        _draw_truth(axes, scene, last - first)
    for number, method in enumerate(scene.exam.methods):
        _draw_method(axes, scene, scene.first_method + number, method)
    axes.hlines(np.arange(1, scene.rows) - 0.5, first, last, color=FAINT, linewidth=0.8, zorder=0.5)
    axes.set_yticks(range(scene.rows), _row_names(scene), fontsize=9)
    for text, method in zip(axes.get_yticklabels()[scene.first_method :], scene.exam.methods, strict=True):
        text.set_fontweight(weight(method.outcome))
    axes.set_xlim(first, last)
    axes.set_ylim(scene.rows - 0.5, -0.5)
    step = next((step for step in TICKS if (last - first) / step <= 14), TICKS[-1])
    ticks = np.arange(step * np.ceil(max(first, 0) / step), last, step)
    axes.set_xticks(ticks, [hms(tick)[:5] for tick in ticks], fontsize=9)
    axes.set_xlabel("exam time (hours:minutes)", fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _row_names(scene: _Scene) -> list[str]:
    count = len(scene.exam.findings)
    methods = [f"{one.outcome.row.name}\n{one.right} of {count} right" for one in scene.exam.methods]
    return ["Report", *([] if scene.truth is None else ["In view"]), *methods]


def _draw_report(axes: Axes, scene: _Scene, first: float, last: float) -> None:
    """Draw the findings with their windows; their numbers are those of the case study."""
    beside = first  # so that numbers of neighbouring findings do not cover each other
    for number, finding in enumerate(scene.exam.findings, start=1):
        look, height = scene.look(finding.label), scene.lane(0, finding.label)
        window = [finding.seconds - WINDOW, finding.seconds + WINDOW]
        axes.plot(window, [height, height], color=look.colour, linewidth=2, alpha=0.5, solid_capstyle="butt")
        axes.plot(finding.seconds, height, look.mark, color=look.colour, markersize=7, markeredgecolor="white")
        if first <= finding.seconds <= last:
            place = max(finding.seconds, beside)
            beside = place + (last - first) / 90
            axes.text(
                place, -0.54, str(number), ha="center", va="bottom", fontsize=9, fontweight="bold", color=look.colour
            )


def _draw_truth(axes: Axes, scene: _Scene, length: float) -> None:
    least = length / 500  # what is narrower could hardly be seen
    thick = max(0.12, LANES / len(scene.labels))
    for span in scene.truth or ():
        width = max(least, span.last - span.first)
        bottom = scene.lane(1, span.label) - thick / 2
        axes.broken_barh([(span.first, width)], (bottom, thick), color=scene.look(span.label).colour, linewidth=0)


def _draw_method(axes: Axes, scene: _Scene, row: int, method: Answers) -> None:
    """Draw the keyframes of a method: filled if they answer a finding with the right label."""
    times, labels = method.selections.times / 1000, method.selections.labels
    heights = np.array([scene.lane(row, int(label)) for label in labels])
    for i in range(len(times) - 1):
        if times[i + 1] - times[i] <= SHORT_SWITCH and labels[i] != labels[i + 1]:
            axes.plot(times[i : i + 2], heights[i : i + 2], color=WRONG, linewidth=1.3, zorder=1)
    for label in np.unique(labels).tolist():
        look = scene.look(label)
        for right in (False, True):
            which = (labels == label) & (method.is_right == right)
            axes.plot(
                times[which],
                heights[which],
                look.mark,
                markersize=8 if right else 5,
                markerfacecolor=look.colour if right else "white",
                markeredgecolor=INK if right else look.colour,
                markeredgewidth=1.1,
                zorder=4 if right else 3,
            )


def _draw_legend(axes: Axes, scene: _Scene) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for label in scene.labels:
        look, name = scene.look(label), scene.exam.taxonomy.labels[label]
        handles.append(Line2D([], [], marker=look.mark, color=look.colour, linestyle="", markersize=7, label=name))
    filled = {"marker": "o", "linestyle": "", "markersize": 8, "color": INK}
    hollow = {"marker": "o", "linestyle": "", "markersize": 5, "markerfacecolor": "white", "markeredgecolor": INK}
    handles += [
        Line2D([], [], label="large, filled: answers a finding with its label", **filled),  # type: ignore[arg-type]
        Line2D([], [], label="small, hollow: any other keyframe", **hollow),  # type: ignore[arg-type]
        Line2D([], [], label=f"label switches within {SHORT_SWITCH} s", color=WRONG, linewidth=1.3),
    ]
    axes.set_axis_off()
    dense = {"borderaxespad": 0, "columnspacing": 1.2, "handlelength": 1.4}
    axes.legend(handles=handles, loc="upper left", ncols=5, fontsize=8.5, **dense)
