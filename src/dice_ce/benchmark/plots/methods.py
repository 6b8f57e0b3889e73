"""Plots of all methods on all exams: what they find, and whether neighbouring keyframes agree (section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dice_ce.benchmark.consistency import SHORT_SWITCH, THRESHOLDS, switch_distribution
from dice_ce.benchmark.evaluation import Evaluation
from dice_ce.benchmark.plots.style import Look, compared, is_ours, method_looks, weight
from dice_ce.benchmark.run import BUDGETS, Outcome, Results
from dice_ce.benchmark.significance import Estimate
from dice_ce.plotting import INK, SOFT, paler, plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.05
"""Adjusted p below which a test earns a star."""
DODGE = 1.035
"""Factor between neighbouring methods on the axis of thresholds, so that error bars do not cover each other."""
THRESHOLD_NAMES = {30: "30 s", 60: "60 s", 120: "2 min", 300: "5 min", 600: "10 min"}
INTERVALS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36000: "10 h"}
SUMMARY = {
    "ldr": ("Detection rate (LDR)", "found, with the right label", "findings"),
    "sensitivity": ("Sensitivity", "found, whatever the label", "findings"),
    "dy": ("Diagnostic yield (DY)", "every finding right", "exams with findings"),
    "pdr": ("Patient detection rate (PDR)", "at least one finding right", "exams with findings"),
}
"""Name of each figure, what it means, and of what it is the share."""


# --- figures -------------------------------------------------------------------------------------------------------


def draw_figures(results: Results, target: Path) -> None:
    """Draw detection rate, sensitivity, diagnostic yield and patient detection rate with their intervals."""
    outcomes = compared(results)
    evaluation = outcomes[0].evaluation
    title = f"What the methods find in {len(evaluation.exams)} exams"
    note = f"Lines: 95 % intervals from {evaluation.patient_count} patients, resampled."
    with plot(target, title, 12.4, 1.8 + 0.36 * len(outcomes), note=note) as figure:
        panels = figure.subplots(1, len(SUMMARY), sharey=True)
        for axes, key in zip(panels, SUMMARY, strict=True):
            _draw_bars(axes, outcomes, key)
        panels[0].set_yticks(range(len(outcomes)), [outcome.row.name for outcome in outcomes])
        panels[0].set_ylim(len(outcomes) - 0.5, -0.5)
        _embolden(panels[0], outcomes)


def draw_curves(results: Results, target: Path) -> None:
    """Draw detection rate and sensitivity against the number of items shown."""
    outcomes = [outcome for outcome in results.outcomes if outcome.row.key in results.curves]
    outcomes = [outcome for outcome in outcomes if outcome.row.group != "ablation"]
    with plot(target, "What is found, by the number of items shown", 11.0, 4.6) as figure:
        for axes, key in zip(figure.subplots(1, 2, sharey=True), ("ldr", "sensitivity"), strict=True):
            for outcome, look in zip(outcomes, method_looks(outcomes), strict=True):
                curve = results.curves[outcome.row.key]
                values = [100 * one.figures[key].value for one in curve.values()]
                width = 2.4 if is_ours(outcome.row) else 1.2
                axes.plot(
                    list(curve), values, color=look.colour, marker=look.mark, linewidth=width, label=outcome.row.name
                )
            axes.set_title(SUMMARY[key][0], fontweight="bold")
            axes.set(xlabel="items shown per exam, at most", xscale="log", ylim=(0, 100))
            axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
            axes.minorticks_off()
            axes.grid(axis="y")
        figure.axes[0].set_ylabel("% of findings")
        figure.axes[0].legend(fontsize=9, loc="upper left")


def _draw_bars(axes: Axes, outcomes: Sequence[Outcome], key: str) -> None:
    name, meaning, whole = SUMMARY[key]
    for row, (outcome, look) in enumerate(zip(outcomes, method_looks(outcomes), strict=True)):
        estimate = outcome.evaluation.figures[key]
        if math.isnan(estimate.value):
            axes.text(1, row, "not defined", va="center", fontsize=9, color=SOFT)
            continue
        value, (low, high) = 100 * estimate.value, _interval(estimate)
        colour = look.colour if is_ours(outcome.row) else paler(look.colour)
        axes.barh(row, value, height=0.66, color=colour)
        axes.errorbar(value, row, xerr=[[value - low], [high - value]], color=INK, elinewidth=1.1, capsize=2.5)
        axes.text(max(value, high) + 2.5, row, f"{value:.1f}", va="center", fontsize=9, fontweight=weight(outcome))
    axes.set_title(name, fontweight="bold", pad=16)
    axes.text(0, 1, meaning, transform=axes.transAxes, va="bottom", fontsize=9, color=SOFT)
    axes.set(xlim=(0, 119), xticks=range(0, 101, 25))
    axes.set_xlabel(f"% of {outcomes[0].evaluation.figures[key].bottom:.0f} {whole}", fontsize=9)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _interval(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of the interval in percent, or the figure itself where it has none."""
    low = estimate.value if math.isnan(estimate.low) else min(estimate.low, estimate.value)
    high = estimate.value if math.isnan(estimate.high) else max(estimate.high, estimate.value)
    return 100 * low, 100 * high


def _embolden(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    for text, outcome in zip(axes.get_yticklabels(), outcomes, strict=True):
        text.set_fontweight(weight(outcome))


# --- consistency ---------------------------------------------------------------------------------------------------


def draw_inconsistency(results: Results, target: Path) -> None:
    """Draw how often neighbouring keyframes disagree, by how near they are: mean and deviation over exams."""
    outcomes = compared(results)
    title = "How often neighbouring keyframes carry different labels"
    with plot(target, title, 8.6, 4.4 + 0.22 * len(outcomes)) as figure:
        axes, table = figure.subplots(2, 1, sharex=True, height_ratios=[3.6, 0.22 * len(outcomes)])
        middle = (len(outcomes) - 1) / 2
        for place, (outcome, look) in enumerate(zip(outcomes, method_looks(outcomes), strict=True)):
            _draw_curve(axes, outcome, look, DODGE ** (place - middle))
        axes.set_xscale("log")
        axes.set_xlim(THRESHOLDS[0] / 1.25, THRESHOLDS[-1] * 1.25)
        axes.set(ylim=(0, 101), yticks=range(0, 101, 20), ylabel="pairs with different labels (%)")
        axes.grid(axis="y")
        note = "Mean over exams; bars: one standard deviation, cut at 0 and 100 %. Lower is better."
        axes.set_title(note, color=SOFT, fontsize=9)
        axes.tick_params(axis="x", length=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1.02), labelspacing=0.7)
        _draw_numbers(table, outcomes, results)


def _draw_curve(axes: Axes, outcome: Outcome, look: Look, shift: float) -> None:
    rates = [outcome.evaluation.inconsistency[threshold] for threshold in THRESHOLDS]
    means = np.array([100 * rate.mean.value for rate in rates])
    spreads, known = np.nan_to_num([100 * rate.spread for rate in rates]), np.nan_to_num(means)
    ours = is_ours(outcome.row)
    axes.errorbar(
        np.array(THRESHOLDS) * shift,
        means,
        yerr=[np.minimum(spreads, known), np.minimum(spreads, 100 - known)],
        color=look.colour,
        marker=look.mark,
        markersize=8 if ours else 6,
        linewidth=2.8 if ours else 1.4,
        elinewidth=1.8 if ours else 0.9,
        capsize=3,
        label=outcome.row.name,
        zorder=3 if ours else 2,
        clip_on=False,
    )


def _draw_numbers(axes: Axes, outcomes: Sequence[Outcome], results: Results) -> None:
    """Write below the curves how many exams each mean is over, as survival curves do with patients at risk."""
    for row, outcome in enumerate(outcomes):
        starred = _starred(results, outcome.row.key)
        for threshold in THRESHOLDS:
            count = f"{outcome.evaluation.inconsistency[threshold].mean.bottom:.0f}"
            axes.text(threshold, row, count, ha="center", va="center", fontsize=9, fontweight=weight(outcome))
            if threshold in starred:
                axes.annotate("*", (threshold, row), (8, -2), textcoords="offset points", va="center", fontsize=11)
    axes.set_ylim(len(outcomes) - 0.4, -0.6)
    axes.set_yticks(range(len(outcomes)), [outcome.row.name for outcome in outcomes], fontsize=9)
    _embolden(axes, outcomes)
    tests = f"    * differs from DiCE, p < {LEVEL:g} (paired Wilcoxon test over patients, Holm-adjusted)"
    axes.set_title(f"Exams with such a pair{tests if results.comparison else ''}", fontsize=9, color=SOFT)
    axes.set_xticks(THRESHOLDS, [THRESHOLD_NAMES[threshold] for threshold in THRESHOLDS])
    axes.set_xlabel("consecutive keyframes at most this far apart")
    axes.minorticks_off()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _starred(results: Results, key: str) -> list[int]:
    """Find the thresholds at which a method differs from DiCE after adjustment."""
    tests = results.comparison.inconsistency if results.comparison else ()
    return [int(test.figure) for test in tests if test.other == key and test.p_holm is not None and test.p_holm < LEVEL]


def draw_switches(results: Results, target: Path) -> None:
    """Draw the cumulative distribution of the intervals in which labels switch."""
    outcomes = compared(results)
    with plot(target, "How soon labels switch from one keyframe to the next", 9.4, 4.8) as figure:
        axes = figure.subplots()
        longest = max([gap / 1000 for o in outcomes for gap in o.evaluation.switches.switches], default=0.0)
        end = max(3600.0, longest) * 1.3
        for outcome, look in zip(outcomes, method_looks(outcomes), strict=True):
            _draw_distribution(axes, outcome, look, end)
        axes.axvline(SHORT_SWITCH, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.text(SHORT_SWITCH, 101, f"{SHORT_SWITCH} s", ha="center", va="bottom", fontsize=9)
        axes.set_xscale("log")
        ticks = {seconds: name for seconds, name in INTERVALS.items() if seconds < end}
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
        axes.set(xlim=(min(INTERVALS), end), ylim=(0, 101))
        axes.set(xlabel="time between two consecutive keyframes with different labels", ylabel="label switches (%)")
        axes.grid()
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1.02), labelspacing=0.9, fontsize=9)


def _draw_distribution(axes: Axes, outcome: Outcome, look: Look, end: float) -> None:
    seconds, shares = switch_distribution(outcome.evaluation.switches)
    ours = is_ours(outcome.row)
    # Two frames of the same instant have no place on a logarithmic axis: they stand at its beginning.
    at = np.maximum([0, *seconds, end], min(INTERVALS)) if seconds else []
    axes.step(
        at,
        100 * np.array([0, *shares, 1]) if seconds else [],
        where="post",
        color=look.colour,
        linewidth=2.8 if ours else 1.4,
        marker=look.mark,
        markevery=slice(1, -1, max(1, len(seconds) // 6)),
        markersize=7 if ours else 5,
        label=_switches_name(outcome.row.name, outcome.evaluation),
        zorder=3 if ours else 2,
    )


def _switches_name(name: str, evaluation: Evaluation) -> str:
    count = len(evaluation.switches.switches)
    if not count:
        return f"{name}\nno switches"
    within = f"{100 * evaluation.short_switches.value:.0f} % within {SHORT_SWITCH} s"
    return f"{name}\n{count:,} switch{'es' if count > 1 else ''}, {within}"
