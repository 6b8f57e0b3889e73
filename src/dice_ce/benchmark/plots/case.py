"""The case study: each reported finding beside the keyframes that DiCE and the strongest baselines show for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dice_ce.benchmark.match import MATCH_WINDOW, NO_FRAME, NOTHING
from dice_ce.benchmark.plots.exam import Answers, ExamResults, results_of, strongest
from dice_ce.benchmark.plots.style import is_ours, weight
from dice_ce.benchmark.run import Results
from dice_ce.errors import UsageError
from dice_ce.exam.clock import ExamClock, hms
from dice_ce.exam.open import Exam
from dice_ce.plotting import FAINT, RIGHT, SOFT, WRONG, plot
from dice_ce.types import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FINDINGS = 6
RIVALS = 2
"""Baselines beside DiCE."""
SIDE = 256
"""Pixels of a plot."""
CELL = 1.75
"""Inches."""
LEAST_COLUMNS = 4
"""So that the title has room."""
BLANK = "#f4f6f7"
NOTE = "✓ right label, ✗ wrong label; seconds: later (+) or earlier (−) than the report says."


def draw_case_study(results: Results, exam_id: str, exam: Exam, target: Path) -> None:
    """Draw at most six findings of an exam; below each stands what the methods show for it."""
    case = results_of(results, exam_id)
    if not case.findings:
        raise UsageError(f"the report of exam '{exam_id}' has no findings; choose an exam that has some")
    methods = [*(one for one in case.methods if is_ours(one.outcome.row)), *strongest(case.methods, RIVALS)]
    shown, count = spread_over(len(case.findings), MOST_FINDINGS), len(case.findings)
    of = f"{len(shown)} of " if len(shown) < count else ""
    title = f"Exam {exam_id}: {of}{count} reported finding{'s' if count > 1 else ''}, and the keyframes for them"
    rows, columns = 1 + len(methods), max(len(shown), LEAST_COLUMNS)
    width, height = 1.25 + CELL * columns, 0.9 + (CELL + 0.36) * rows
    with plot(target, title, width, height, note=NOTE) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid[:, len(shown) :].flat:
            axes.set_axis_off()
        for number, column in zip(shown, grid.T, strict=False):
            _draw_finding(column[0], case, number, exam)
            for axes, method in zip(column[1:], methods, strict=True):
                _draw_answer(axes, case, number, method, exam)
        _name_row(grid[0, 0], "Report", "bold")
        for axes, method in zip(grid[1:, 0], methods, strict=True):
            name = method.outcome.row.name
            frames = len(method.selections)
            shown_in = f"in {frames} frame{'s' if frames != 1 else ''}"  # or a longer summary seems a better one
            _name_row(axes, f"{name}\n{method.right} of {count} right\n{shown_in}", weight(method.outcome))


def _name_row(axes: Axes, name: str, thick: str) -> None:
    axes.set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8, fontweight=thick)


def spread_over(count: int, most: int) -> list[int]:
    """Choose numbers below `count`: all, or some from beginning to end."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most)).tolist()})


def ordinal_at(clock: ExamClock, seconds: float) -> int:
    """Find the frame whose exam time is nearest, the earlier one if two are."""
    tick = seconds / float(clock.unit)
    after = min(int(np.searchsorted(clock.ticks, tick)), len(clock.ticks) - 1)
    before = max(after - 1, 0)
    return before if abs(clock.ticks[before] - tick) <= abs(clock.ticks[after] - tick) else after


def _draw_finding(axes: Axes, case: ExamResults, number: int, exam: Exam) -> None:
    finding = case.findings[number]
    _draw_plot(axes, _image(exam, ordinal_at(exam.clock, finding.seconds)), SOFT)
    axes.set_title(f"{number + 1}  {hms(finding.seconds)}", loc="center", fontsize=9, fontweight="bold", pad=8)
    axes.set_xlabel(_wrapped(finding.label), fontsize=9)


def _draw_answer(axes: Axes, case: ExamResults, number: int, method: Answers, exam: Exam) -> None:
    row = int(method.verdicts.answers[number])
    if row == NOTHING:
        _draw_plot(axes, None, FAINT)
        why = "missed:\ncontradicting labels" if _contradicts(case, number, method) else "missed"
        axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", fontsize=9, color=SOFT)
        return
    chosen = method.selections
    frame, time, label = int(chosen.frames[row]), int(chosen.times[row]), int(chosen.labels[row])
    ordinal = ordinal_at(exam.clock, time / 1000) if frame == NO_FRAME else frame
    colour = RIGHT if method.is_right[row] else WRONG
    _draw_plot(axes, _image(exam, ordinal), colour)
    difference = (time - int(case.targets.times[number])) / 1000
    name = _wrapped(case.taxonomy.labels[label])
    axes.set_xlabel(f"{'✓' if method.is_right[row] else '✗'} {name}\n{_signed(difference)}", fontsize=9, color=colour)


def _contradicts(case: ExamResults, number: int, method: Answers) -> bool:
    """Whether a finding is missed although frames are near it, because their labels contradict each other."""
    near = np.abs(method.selections.times - case.targets.times[number]) <= MATCH_WINDOW
    return bool((near & method.verdicts.conflicted).any())


def _draw_plot(axes: Axes, image: Image | None, colour: str) -> None:
    """Draw a plot in a frame, or the empty frame."""
    axes.set(xlim=(-0.5, SIDE - 0.5), ylim=(SIDE - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    if image is not None:
        axes.imshow(image, interpolation="antialiased")
    else:
        axes.set_facecolor(BLANK)
    axes.spines[:].set(visible=True, color=colour, linewidth=2.5 if image is not None else 1)


def _image(exam: Exam, ordinal: int) -> Image | None:
    """Read a plot; None if that frame is damaged."""
    return next((image for _, image in exam.images([ordinal], size=SIDE)), None)


def _signed(seconds: float) -> str:
    whole = round(seconds)
    return f"{'+' if whole > 0 else '−' if whole < 0 else '±'}{abs(whole)} s"


def _wrapped(label: str) -> str:
    """Break a long label between its words."""
    words = label.split(" ")
    return label if len(label) < 20 else f"{' '.join(words[:-1])}\n{words[-1]}"
