"""Draw the example of docs/explanation/metrics.md; findings and selected frames are read from that page.

python tools/draw_metrics.py
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dice_ce.benchmark.consistency import THRESHOLDS, Pairs, count_pairs
from dice_ce.benchmark.match import (
    MATCH_WINDOW,
    NOTHING,
    Selection,
    Selections,
    Targets,
    Verdicts,
    match_selections,
    milliseconds,
)
from dice_ce.benchmark.metrics import RATIOS, Counts, count
from dice_ce.datasets.tables import Finding
from dice_ce.errors import require
from dice_ce.exam.clock import hms, parse_time
from dice_ce.taxonomy import Taxonomy

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "metrics.md"
IMAGES = ROOT / "docs" / "images"

INK, SOFT, LINE = "#1a2228", "#52606a", "#d8dee2"
GOOD, BAD, PALE = "#00745a", "#b3261e", "#8a949b"
LOOKS = {
    "ulcer": ("#d55e00", "o"),
    "erosion": ("#e09f00", "s"),
    "angioectasia": ("#b03a83", "^"),
    "polyp": ("#0072b2", "D"),
    "normal": ("#8a949b", "X"),
}
"""Colour and shape of each label, told apart by either."""
ROOM = 100.0
"""Seconds on the drawing that a frame's mark needs."""


@dataclass(frozen=True)
class Example:
    """The exam on the page."""

    findings: tuple[Finding, ...]
    selections: Selections
    targets: Targets
    verdicts: Verdicts
    counts: Counts
    taxonomy: Taxonomy

    def label(self, row: int) -> str:
        """Name of a selected frame's label."""
        return self.taxonomy.labels[int(self.selections.labels[row])]


def tables_of(page: str) -> dict[str, list[dict[str, str]]]:
    """Find the two tables of the page: findings, and selected frames."""
    tables = {}
    for block in re.findall(r"```csv\n(.*?)```", page, re.S):
        header, *rows = [line.split(",") for line in block.splitlines()]
        name = "findings" if "finding_id" in header else "selected"
        tables[name] = [dict(zip(header, row, strict=True)) for row in rows]
    return tables


def read_example(page: str) -> Example:
    """Score the exam on the page."""
    taxonomy, tables = Taxonomy(), tables_of(page)
    findings = tuple(
        Finding(row["finding_id"], float(parse_time(row["seconds"])), row["label"]) for row in tables["findings"]
    )
    chosen = Selections.of(
        Selection(milliseconds(parse_time(row["seconds"])), number, taxonomy.index(row["label"]))
        for number, row in enumerate(tables["selected"], start=1)
    )
    targets = Targets.of(findings, taxonomy)
    verdicts = match_selections(targets, chosen, taxonomy.normal)
    return Example(findings, chosen, targets, verdicts, count(verdicts, targets, chosen, taxonomy.normal), taxonomy)


def verdict(example: Example, row: int) -> tuple[str, str]:
    """Say in a few words what became of a frame, and in which colour."""
    verdicts = example.verdicts
    if row in verdicts.answers:
        i = int((verdicts.answers == row).argmax())
        right = example.selections.labels[row] == example.targets.labels[i]
        return f"match {example.findings[i].id}\n" + ("right label" if right else "wrong label"), GOOD if right else BAD
    if verdicts.conflicted[row]:
        return "conflict", BAD
    if verdicts.inside[row]:
        return "duplicate", PALE
    if verdicts.false_units[row] != NOTHING:
        return "", BAD
    return "normal:\nclaims nothing", PALE


def spread_out(places: Sequence[float], room: float) -> list[float]:
    """Move marks apart until none covers its neighbour, as little as possible."""
    moved = list(places)
    for _ in range(200):
        for k in range(len(moved) - 1):
            lack = room - (moved[k + 1] - moved[k])
            if lack > 0:
                moved[k] -= lack / 2
                moved[k + 1] += lack / 2
    return moved


def draw_timeline(example: Example, path: Path) -> None:
    """Draw findings with their windows, selected frames, and what becomes of them."""
    plt = require("matplotlib.pyplot", extra="plots", purpose="drawing")
    figure, axes = plt.subplots(figsize=(13, 7), dpi=150)
    figure.subplots_adjust(0.1, 0.235, 0.99, 0.99)
    times = [float(time) / 1000 for time in example.selections.times]
    places = spread_out(times, ROOM)
    _draw_findings(axes, example)
    for row, (time, place) in enumerate(zip(times, places, strict=True)):
        _draw_frame(axes, example, row, time, place)
    _draw_matches(axes, example, places)
    _draw_groups(axes, example, places)
    _dress(axes, min(times[0], example.findings[0].seconds - 300) - 100, example.findings[-1].seconds + 400)
    _draw_legend(axes)
    _draw_figures(figure, example.counts)
    figure.savefig(path)
    plt.close(figure)


REPORT_Y, FRAMES_Y, TICK_Y, VERDICT_Y, LOWER_Y = 8.6, 5.2, 4.3, 3.5, 2.35


def _draw_findings(axes: Any, example: Example) -> None:
    for finding, answer in zip(example.findings, example.verdicts.answers, strict=True):
        colour, shape = LOOKS[finding.label]
        begin, end = finding.seconds - MATCH_WINDOW / 1000, finding.seconds + MATCH_WINDOW / 1000
        axes.fill_between([begin, end], TICK_Y, REPORT_Y, color=colour, alpha=0.09, linewidth=0)
        axes.plot([begin, end], [REPORT_Y, REPORT_Y], color=colour, linewidth=2, solid_capstyle="butt")
        for edge in (begin, end):
            axes.plot([edge, edge], [REPORT_Y - 0.14, REPORT_Y + 0.14], color=colour, linewidth=2)
        axes.plot(finding.seconds, REPORT_Y, shape, color=colour, markersize=15, markeredgecolor="white", zorder=5)
        missed = "\nmissed: no frame in its window" if answer == NOTHING else ""
        axes.annotate(
            f"{finding.id}  {finding.label}\n{hms(finding.seconds)[1:]}{missed}",
            (finding.seconds, REPORT_Y + 0.38),
            ha="center",
            va="bottom",
            fontsize=11,
            color=BAD if missed else INK,
            linespacing=1.25,
        )


def _draw_frame(axes: Any, example: Example, row: int, time: float, place: float) -> None:
    colour, shape = LOOKS[example.label(row)]
    is_faint = example.verdicts.conflicted[row]
    axes.plot([time, place], [TICK_Y, FRAMES_Y - 0.3], color=SOFT, linewidth=0.9)
    axes.plot([time, time], [TICK_Y - 0.13, TICK_Y], color=SOFT, linewidth=0.9)
    axes.plot(place, FRAMES_Y, shape, color=colour, markersize=13, alpha=0.45 if is_faint else 1, zorder=5)
    if is_faint:
        axes.plot(place, FRAMES_Y, "x", color=BAD, markersize=19, markeredgewidth=2, zorder=6)
    leans_left = row in example.verdicts.answers and _finding_of(example, row).seconds < time
    aside = 45 if leans_left else -45  # beside the arrow, not on it
    axes.annotate(str(row + 1), (place + aside, FRAMES_Y + 0.3), ha="center", fontsize=10, color=SOFT)
    words, word_colour = verdict(example, row)
    if words not in ("", "conflict"):
        level = LOWER_Y if words == "duplicate" else VERDICT_Y
        axes.plot([place, place], [level + 0.08, TICK_Y - 0.25], color=LINE, linewidth=1)
        axes.annotate(words, (place, level), ha="center", va="top", fontsize=10, color=word_colour, linespacing=1.25)


def _finding_of(example: Example, row: int) -> Finding:
    return example.findings[int((example.verdicts.answers == row).argmax())]


def _draw_matches(axes: Any, example: Example, places: Sequence[float]) -> None:
    for finding, row in zip(example.findings, example.verdicts.answers.tolist(), strict=True):
        if row == NOTHING:
            continue
        _, colour = verdict(example, row)
        begin, end = (places[row], FRAMES_Y + 0.3), (finding.seconds, REPORT_Y - 0.35)
        axes.annotate("", end, begin, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
        distance = abs(example.selections.times[row] / 1000 - finding.seconds)
        middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
        axes.annotate(
            f"{distance:.0f} s",
            middle,
            ha="center",
            va="center",
            fontsize=10.5,
            color=colour,
            bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none"},
        )


def _draw_groups(axes: Any, example: Example, places: Sequence[float]) -> None:
    """Put brackets under conflicts and under false findings."""
    verdicts, times = example.verdicts, example.selections.times
    in_conflict = [row for row in range(len(times)) if verdicts.conflicted[row]]
    gap = (times[in_conflict[-1]] - times[in_conflict[0]]) / 1000
    _bracket(axes, [places[row] for row in in_conflict], f"conflict,\n{gap:.0f} s apart", VERDICT_Y)
    for unit in range(int(verdicts.false_units.max()) + 1):
        members = [row for row in range(len(times)) if verdicts.false_units[row] == unit]
        text = f"false\nfinding {unit + 1}"
        if len(members) > 1:
            length = (times[members[-1]] - times[members[0]]) / 1000
            text = f"false finding {unit + 1}\n{len(members)} frames, {length:.0f} s"
        is_conflict = verdicts.conflicted[members].all()
        if is_conflict:
            text = f"frame {members[0] + 1} still claims a lesion:\nfalse finding {unit + 1}"
        _bracket(axes, [places[row] for row in members], text, LOWER_Y - 0.3 if is_conflict else VERDICT_Y)


def _bracket(axes: Any, places: Sequence[float], text: str, y: float) -> None:
    begin, end = min(places) - 30, max(places) + 30
    axes.plot([begin, begin, end, end], [y + 0.1, y - 0.08, y - 0.08, y + 0.1], color=BAD, linewidth=1.4)
    axes.annotate(text, ((begin + end) / 2, y - 0.25), ha="center", va="top", fontsize=10, color=BAD, linespacing=1.25)


def _dress(axes: Any, begin: float, end: float) -> None:
    """Draw the time axis and name the lanes."""
    axes.axhline(TICK_Y, color=SOFT, linewidth=1)
    axes.set_xlim(begin, end)
    axes.set_ylim(0.7, 10.5)
    axes.set_xlabel("exam time, h:mm", color=SOFT, fontsize=10.5, loc="right", labelpad=3)
    ticks = range(int(begin // 600 + 1) * 600, int(end), 600)
    axes.set_xticks(ticks, [f"{tick // 3600}:{tick // 60 % 60:02d}" for tick in ticks])
    axes.tick_params(axis="x", colors=SOFT, length=4, labelsize=10.5)
    axes.set_yticks(
        [REPORT_Y, FRAMES_Y, VERDICT_Y - 0.35],
        ["report,\nwindows of\n±300 s", "selected\nframes", "what becomes\nof them"],
    )
    axes.tick_params(axis="y", length=0, labelsize=11, labelcolor=INK)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)


def _draw_legend(axes: Any) -> None:
    lines = require("matplotlib.lines", extra="plots", purpose="drawing")
    marks = [
        lines.Line2D([], [], marker=shape, color=colour, linestyle="", markersize=9, label=label)
        for label, (colour, shape) in LOOKS.items()
    ]
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(0, -0.055), ncols=5, frameon=False, fontsize=10)


def _draw_figures(figure: Any, counts: Counts) -> None:
    """Write the headline figures of this one exam below the drawing."""
    cards = (
        ("LDR", "ldr", "right label / findings"),
        ("sensitivity", "sensitivity", "matches / findings"),
        ("specificity", "specificity", "T / (T + F)"),
        ("time error", "time_error", "seconds / matches"),
        ("redundancy", "redundancy", "not matched / selected"),
    )
    for place, (name, key, meaning) in enumerate(cards):
        ratio = RATIOS[key]
        top, bottom = (float(column[0]) for column in ratio.columns([counts]))
        value = f"{top / bottom:.1f} s" if ratio.unit == "s" else f"{100 * top / bottom:.1f} %"
        x = 0.045 + (place + 0.5) * 0.945 / len(cards)
        figure.text(x, 0.075, f"{name}  {value}", ha="center", fontsize=13.5, color=INK, weight="bold")
        figure.text(x, 0.035, f"{top:.0f} / {bottom:.0f}   {meaning}", ha="center", fontsize=9.5, color=SOFT)


def draw_consistency(example: Example, path: Path) -> None:
    """Draw an arc over each frame and the next: whether their labels differ, and how far apart they are."""
    plt = require("matplotlib.pyplot", extra="plots", purpose="drawing")
    patches = require("matplotlib.patches", extra="plots", purpose="drawing")
    figure, axes = plt.subplots(figsize=(13, 3.5), dpi=150)
    figure.subplots_adjust(0.02, 0.27, 0.98, 0.98)
    times = [float(time) / 1000 for time in example.selections.times]
    places = spread_out(times, ROOM)
    for row, place in enumerate(places):
        colour, shape = LOOKS[example.label(row)]
        axes.plot(place, 0, shape, color=colour, markersize=13, zorder=5)
        axes.annotate(str(row + 1), (place, -0.3), ha="center", va="top", fontsize=10, color=SOFT)
    for row, (begin, end) in enumerate(pairwise(places)):
        differ = example.selections.labels[row] != example.selections.labels[row + 1]
        colour = BAD if differ else PALE
        arc = patches.Arc(((begin + end) / 2, 0.28), end - begin, 1.75, theta1=0, theta2=180, color=colour)
        arc.set_linewidth(2.2 if differ else 1.4)
        axes.add_patch(arc)
        gap = times[row + 1] - times[row]
        axes.annotate(f"{gap:.0f} s", ((begin + end) / 2, 1.25), ha="center", fontsize=10.5, color=colour)
    axes.set_xlim(places[0] - 120, places[-1] + 120)
    axes.set_ylim(-0.65, 1.6)
    axes.axis("off")
    _draw_rates(figure, count_pairs(example.selections))
    figure.savefig(path)
    plt.close(figure)


def _draw_rates(figure: Any, pairs: Pairs) -> None:
    figure.text(0.03, 0.12, "pairs that differ,\nup to", fontsize=11, color=INK, va="center", linespacing=1.3)
    for place, (threshold, differing, near) in enumerate(zip(THRESHOLDS, pairs.differing, pairs.near, strict=True)):
        x = 0.22 + place * 0.165
        name = f"{threshold} s" if threshold <= 60 else f"{threshold // 60} min"
        figure.text(x, 0.145, f"{name}   {100 * differing / near:.1f} %", ha="center", fontsize=13, weight="bold")
        figure.text(x, 0.055, f"{differing} / {near} pairs", ha="center", fontsize=9.5, color=SOFT)


def main() -> None:
    """Draw all plots of the page."""
    example = read_example(PAGE.read_text(encoding="utf-8"))
    draw_timeline(example, IMAGES / "metrics-timeline.png")
    draw_consistency(example, IMAGES / "metrics-consistency.png")


if __name__ == "__main__":
    main()
