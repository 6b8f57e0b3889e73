"""The tables of the paper, as Markdown, CSV and LaTeX, from the same cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dice_ce.benchmark.comparison import Comparison, PairedTest
from dice_ce.benchmark.metrics import RATIOS
from dice_ce.benchmark.promise import at_least, complete_patients, conformal_length, kept_promises, needed_lengths
from dice_ce.benchmark.run import BUDGETS, Group, Outcome, Results
from dice_ce.benchmark.significance import Estimate
from dice_ce.features.encoder import count_weights
from dice_ce.method.bundle import diagnoser_head
from dice_ce.method.diagnoser import NetworkDiagnoser
from dice_ce.table import Cell, Table

LOWER_IS_BETTER = ("time_error", "redundancy", "redundancy_window")
COLUMNS = {
    "ldr": "Detection rate (%)",
    "sensitivity": "Sensitivity (%)",
    "specificity": "Specificity (%)",
    "time_error": "Time error (s)",
    "redundancy": "Redundancy (%)",
    "redundancy_window": "Redundancy, window (%)",
    "dy": "DY (%)",
    "pdr": "PDR (%)",
}
"""Those of the paper's main table, and the window reading of redundancy beside the literal one."""


def main_table(results: Results) -> Table:
    """DiCE against every fixed budget on the Selector's candidates: all columns of the paper, with intervals."""
    outcomes = [*results.of("fixed budget"), *results.of("ours")]
    return _figures_table("Methods on the Selector's candidates", outcomes, results)


def raw_table(results: Results) -> Table:
    """The same budgets on the raw video, as in the paper's zero-shot table."""
    return _figures_table("Methods on the raw video", [*results.of("raw video"), *results.of("ours")], results)


def prior_table(results: Results) -> Table:
    """The same budgets, labelled by a diagnoser with our exam prior: how much of DiCE's lead that is."""
    outcomes = [*results.of("fixed budget with our prior"), *results.of("ours")]
    return _figures_table("Fixed budgets with our exam prior", outcomes, results)


def curves_table(results: Results, key: str) -> Table:
    """One figure against the items shown, for every method: at equal length they can be compared."""
    rows = [
        (outcome.row.name, *(figure_text(one.figures[key], key) for one in results.curves[outcome.row.key].values()))
        for outcome in results.outcomes
        if outcome.row.key in results.curves
    ]
    return Table.of(("Items shown, at most", *map(str, BUDGETS)), rows, f"{COLUMNS[key]} against items shown")


def promise_table(results: Results) -> Table:
    """How often a list of so many items had a frame of every finding of a patient, and what follows for a new one."""
    rows = []
    for outcome in results.of("ours", "fixed budget"):
        curve = results.curves.get(outcome.row.key, {})
        if not curve:
            continue
        cells = []
        for one in curve.values():
            complete = list(complete_patients(one).values())
            bound = at_least(sum(complete), len(complete)) if complete else 0.0
            cells.append(f"{sum(complete)} of {len(complete)} (≥ {100 * bound:.0f} %)")
        needs = needed_lengths(curve)
        length, (kept, tried) = conformal_length(list(needs.values())), kept_promises(needs)
        enough = f"{length:.0f}" if math.isfinite(length) else f"more than {max(curve)}"
        rows.append((outcome.row.name, *cells, enough, f"{kept} of {tried}" if tried else "–"))
    header = ("Items shown, at most", *map(str, BUDGETS), "Enough with 90 % confidence", "Kept, each patient left out")
    return Table.of(header, rows, "Patients whose list has a frame of every finding (new patient, 90 % confidence)")


def _figures_table(title: str, outcomes: Sequence[Outcome], results: Results) -> Table:
    several = bool(results.parameters)
    header = ("Method", *(("Diagnoser",) if several else ()), "Parameters", "Frames per exam", *COLUMNS.values())
    figures = {key: [outcome.evaluation.figures[key] for outcome in outcomes] for key in COLUMNS}
    ranks = {key: _ranks([figure.value for figure in column], key) for key, column in figures.items()}
    rows = tuple(
        (
            Cell(outcome.row.method.title if several else outcome.row.name),
            *((Cell(outcome.row.diagnoser or f"own {results.diagnoser}"),) if several else ()),
            Cell(parameters_text(results, outcome.row.diagnoser)),
            Cell(f"{outcome.evaluation.figures['frames'].value:.1f}"),
            *(Cell(figure_text(figures[key][i], key), ranks[key][i]) for key in COLUMNS),
        )
        for i, outcome in enumerate(outcomes)
    )
    return Table(header, rows, title)


def _ranks(values: Sequence[float], key: str) -> list[int]:
    """Mark the best and the second best; equals share a rank."""
    sign = -1 if key in LOWER_IS_BETTER else 1
    known = sorted({round(value, 6) for value in values if not math.isnan(value)}, key=lambda value: -sign * value)
    places = {value: place + 1 for place, value in enumerate(known[:2])}
    return [places.get(round(value, 6), 0) if not math.isnan(value) else 0 for value in values]


def figure_text(figure: Estimate, key: str) -> str:
    """Write a figure with its interval."""
    scale = 100 if RATIOS[key].unit == "%" else 1
    if math.isnan(figure.value):
        return "–"
    return f"{scale * figure.value:.1f} [{scale * figure.low:.1f}, {scale * figure.high:.1f}]"


def parameters_text(results: Results, diagnoser: str = "") -> str:
    """Count the weights of encoder, Selector and diagnoser, in millions or billions."""
    networks, heads = [results.bundle.encoder], [results.bundle.selector]
    counts: list[int | None] = []
    own = results.bundle.diagnoser
    if diagnoser:
        counts.append(results.parameters[diagnoser])
    elif (head := diagnoser_head(own)) is not None:
        heads.append(head)
    if not diagnoser and isinstance(own, NetworkDiagnoser):
        networks += [network for network in own.networks if network is not own.headed]
    counts += [count_weights(network) for network in networks]
    if None in counts:
        return "–"
    total = sum(filter(None, counts)) + sum(head.parameters for head in heads)
    return f"{total / 1e9:.1f} B" if total >= 1e9 else f"{total / 1e6:.1f} M"


def ablation_table(results: Results) -> Table:
    """DiCE without one of its stages, and what that costs."""
    return _variants_table("Ablations", results, "ablation")


def oracle_table(results: Results) -> Table:
    """DiCE with a Selector or a diagnoser that knows the truth, and what that gains: where the losses are.

    With both, the baselines beside it: what the ways of choosing frames are worth by themselves.
    """
    return _variants_table("What limits DiCE: stages that know the truth", results, "oracle")


def _variants_table(title: str, results: Results, group: Group) -> Table:
    (full,) = results.of("ours")
    header = ("Variant", "Frames per exam", *COLUMNS.values())
    rows = []
    for outcome in [full, *results.of(group)]:
        cells = [Cell(outcome.row.name), Cell(f"{outcome.evaluation.figures['frames'].value:.1f}")]
        for key in COLUMNS:
            figure, reference = outcome.evaluation.figures[key], full.evaluation.figures[key]
            delta = "" if outcome is full else f" ({_delta(figure.value - reference.value, key)})"
            cells.append(Cell(figure_text(figure, key) + delta))
        rows.append(tuple(cells))
    return Table(header, tuple(rows), title)


def _delta(difference: float, key: str) -> str:
    return f"{difference * (100 if RATIOS[key].unit == '%' else 1):+.1f}" if not math.isnan(difference) else "–"


def consistency_table(results: Results) -> Table:
    """How often neighbouring keyframes disagree, at five thresholds, and how soon labels switch."""
    outcomes = [*results.of("fixed budget"), *results.of("ours", "ablation")]
    thresholds = list(outcomes[0].evaluation.inconsistency)
    header = (
        "Method",
        *(f"≤ {threshold} s: mean ± SD over exams (n), %" for threshold in thresholds),
        "Switches",
        "within 60 s, %",
    )
    rows = []
    for outcome in outcomes:
        cells = [Cell(outcome.row.name)]
        for threshold in thresholds:
            rate = outcome.evaluation.inconsistency[threshold]
            spread = "" if math.isnan(rate.spread) else f" ± {100 * rate.spread:.1f}"  # of one exam there is none
            shown = f"{100 * rate.mean.value:.1f}{spread} ({rate.mean.bottom:.0f})"
            cells.append(Cell("–" if math.isnan(rate.mean.value) else shown))
        short = outcome.evaluation.short_switches.value
        cells.append(Cell(f"{len(outcome.evaluation.switches.switches):,}"))
        cells.append(Cell("–" if math.isnan(short) else f"{100 * short:.1f}"))
        rows.append(tuple(cells))
    return Table(header, tuple(rows), "Temporal consistency")


def tests_table(comparison: Comparison, names: Mapping[str, str]) -> Table:
    """DiCE against every other method on the same patients: differences, intervals, Wilcoxon, Holm."""
    header = ("DiCE against", "Figure", "Difference", "95 % interval", "Patients", "p", "p (Holm)")
    rows = []
    for test in (*comparison.metrics, *comparison.inconsistency):
        figure = f"inconsistency ≤ {test.figure} s" if test.figure.isdigit() else test.figure
        rows.append(
            (
                Cell(names[test.other]),
                Cell(figure),
                Cell(_percent(test.difference)),
                Cell(f"{_percent(test.low)} to {_percent(test.high)}"),
                Cell(f"{test.n} ({test.nonzero} differ)"),
                Cell(_chance(test, test.p)),
                Cell(_chance(test, test.p_holm)),
            )
        )
    return Table(header, tuple(rows), "Paired tests")


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:+.1f}"


def _chance(test: PairedTest, p: float | None) -> str:
    if p is None:
        return test.how
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
