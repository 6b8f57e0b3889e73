"""A plot of one composed exam beside the real timeline it was composed on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dice_ce.datasets.galar import ORGANS
from dice_ce.datasets.tables import Timeline
from dice_ce.lab.compose.life import hidden
from dice_ce.lab.compose.plan import ExamPlan
from dice_ce.lab.compose.sightings import lesion_of, organs
from dice_ce.plotting import BLUE, ORANGE, plot
from dice_ce.taxonomy import VIDEOCAP_12

REAL, COMPOSED, OTHER = BLUE, ORANGE, "#8a8a8a"
ORGAN_COLOURS = dict(zip(ORGANS, ("#e8c4a0", "#f2d9b8", "#f3b8a8", "#fbe3c8", "#cdb79e"), strict=True))
LEAST_WIDTH = 0.0008
"""Narrowest bar that can be seen, as a share of the exam."""
DISTRACTOR_NAME = "distractor"
TITLE = {"loc": "left", "fontsize": 11}


def draw_plan(plan: ExamPlan, timeline: Timeline, target: Path) -> None:
    """Draw what was seen when, in the real exam and in the composed one, and what is reported."""
    labels = [label for label in VIDEOCAP_12 if any(one.label == label for one in plan.sightings)] + [DISTRACTOR_NAME]
    with plot(target, f"Composed exam {plan.exam_id} beside the real one", 11, 6.2) as figure:
        real, composed, life = figure.subplots(3, 1, height_ratios=[len(labels), len(labels), 2.4])
        events = [(event.first, event.frames, lesion) for event in timeline.events if (lesion := lesion_of(event))]
        _rows(real, labels, [(a / timeline.frames, n / timeline.frames, label) for a, n, label in events], REAL)
        real.set_title(
            f"Real exam {timeline.exam_id}: {timeline.frames:,} frames, {len(events):,} labelled events", **TITLE
        )
        seen = [(one.first / len(plan), one.frames / len(plan), one.label or DISTRACTOR_NAME) for one in plan.sightings]
        _rows(composed, labels, seen, COMPOSED)
        for finding in plan.reported:
            composed.plot(
                finding.frame / len(plan), labels.index(finding.label), marker="*", ms=13, mec="black", mfc="white"
            )
        hours = plan.walk.seconds[-1] / 3600
        composed.set_title(
            f"Composed exam {plan.exam_id}: {len(plan):,} frames, {hours:.1f} h, {len(seen):,} events; "
            f"stars: its {len(plan.reported)} reported findings",
            **TITLE,
        )
        _life(life, plan, organs(timeline, len(plan)))
        for axes in (real, composed, life):
            axes.set_xlim(0, 1)
        life.set_xlabel("share of the exam's frames")


def _rows(axes: Any, labels: Sequence[str], bars: Sequence[tuple[float, float, str]], colour: str) -> None:
    for height, label in enumerate(labels):
        own = [(first, max(LEAST_WIDTH, width)) for first, width, name in bars if name == label]
        axes.broken_barh(own, (height - 0.35, 0.7), color=OTHER if label == DISTRACTOR_NAME else colour)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(labelbottom=False)


def _life(axes: Any, plan: ExamPlan, organ: Sequence[str]) -> None:
    """Draw organs, rests and poor views as three strips."""
    axes.broken_barh(_runs(plan.walk.pace == 0), (0.65, 0.7), color="#54a24b", lw=0)
    axes.broken_barh(_runs(hidden(len(plan), plan.episodes) > 0), (1.65, 0.7), color="#b279a2", lw=0)
    for name, colour in ORGAN_COLOURS.items():
        runs = _runs(np.array([one == name for one in organ]))
        axes.broken_barh(runs, (-0.35, 0.7), color=colour, lw=0)
        for first, width in runs:
            if width > 0.06:
                axes.text(first + width / 2, 0, name, ha="center", va="center", fontsize=8)
    axes.set_yticks(range(3), ["organ", "at rest", "poor view"])
    axes.set_ylim(2.5, -0.5)


def _runs(which: np.typing.NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Find where something holds: starts and lengths, as shares of the whole."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], which, [False]]).astype(np.int8)))
    return [(a / len(which), (b - a) / len(which)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
