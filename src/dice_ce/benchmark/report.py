"""Everything a benchmark leaves behind: tables in three formats, plots, and one page that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dice_ce import DISCLAIMER
from dice_ce.benchmark.frames import SelectorFigures
from dice_ce.benchmark.plots import (
    choose_patient,
    draw_case_study,
    draw_curves,
    draw_figures,
    draw_inconsistency,
    draw_switches,
    draw_timeline,
)
from dice_ce.benchmark.run import Results
from dice_ce.benchmark.tables import (
    ablation_table,
    consistency_table,
    curves_table,
    main_table,
    oracle_table,
    prior_table,
    promise_table,
    raw_table,
    tests_table,
)
from dice_ce.benchmark.truth import read_truth_spans, truth_beside
from dice_ce.datasets.spliced import is_spliced
from dice_ce.datasets.statistics import draw_statistics
from dice_ce.files import write_atomically
from dice_ce.table import Table

SUFFIXES = {"raw video": " (raw video)", "fixed budget with our prior": " (our prior)"}


def selector_table(figures: SelectorFigures, name: str) -> Table:
    """The Selector on all frames of the exams, where every frame's truth is known: the paper's columns."""
    header = ("Backbone", "Frames", "Lesion frames", "Accuracy", "Precision", "Recall", "F1", "AUC")
    row = (
        *(name, f"{figures.frames:,}", f"{figures.abnormal:,}"),
        *figures.columns(),
    )
    return Table.of(header, [row], "Selector")


def write_report(results: Results, out: Path, *, command: str) -> Path:
    """Write tables and plots; return the page that shows them all."""
    tables = {"main": main_table(results)}
    if results.of("raw video"):
        tables["raw-video"] = raw_table(results)
    if results.of("fixed budget with our prior"):
        tables["prior"] = prior_table(results)
    if results.of("ablation"):
        tables["ablation"] = ablation_table(results)
    if results.of("oracle"):
        tables["oracles"] = oracle_table(results)
    for key in ("ldr", "sensitivity"):
        tables[f"curves-{key}"] = curves_table(results, key)
    tables["promise"] = promise_table(results)
    tables["consistency"] = consistency_table(results)
    if results.comparison:
        rows = [outcome.row for outcome in results.outcomes]
        names = {row.key: row.name + SUFFIXES.get(row.group, "") for row in rows}
        tables["tests"] = tests_table(results.comparison, names)
    if results.selector:
        tables["selector"] = selector_table(results.selector, results.bundle.encoder.name)
    for name, table in tables.items():
        write_atomically(out / "tables" / f"{name}.md", (table.markdown() + "\n").encode())
        write_atomically(out / "tables" / f"{name}.csv", table.csv().encode())
        write_atomically(out / "tables" / f"{name}.tex", table.latex().encode())
    plots = _draw(results, out)
    page = out / "results.md"
    write_atomically(page, _page(results, tables, plots, command).encode())
    return page


def _draw(results: Results, out: Path) -> dict[str, str]:
    """Draw what can be drawn; return titles by file name."""
    draw_statistics(results.dataset, results.seconds, out / "statistics.png")
    plots = {"statistics.png": "The exams"}
    for name, draw, title in (
        ("figures.png", draw_figures, "Main figures with 95 % intervals"),
        ("curves.png", draw_curves, "What is found, by the number of items shown"),
        ("inconsistency.png", draw_inconsistency, "Labels of neighbouring keyframes that differ"),
        ("switches.png", draw_switches, "How soon labels switch"),
    ):
        draw(results, out / name)
        plots[name] = title
    exam_id = choose_patient(results)
    if exam_id is not None:
        row = next(row for row in results.dataset.exams if row.exam_id == exam_id)
        truth = truth_beside(row)
        draw_timeline(results, exam_id, read_truth_spans(truth) if truth else None, out / "timeline.png")
        plots["timeline.png"] = f"One patient: {exam_id}"
        if not is_spliced(row.video):
            with row.open() as exam:
                draw_case_study(results, exam_id, exam, out / "case-study.png")
            plots["case-study.png"] = f"Case study: {exam_id}"
    return plots


def _page(results: Results, tables: dict[str, Table], plots: dict[str, str], command: str) -> str:
    exams = len(results.dataset.exams)
    findings = sum(len(annotation.findings) for annotation in results.dataset.annotations.values())
    diagnosers = ", ".join((f"own {results.diagnoser}", *results.parameters))
    lines = [
        f"# Benchmark on {results.dataset.title}",
        "",
        f"**{DISCLAIMER}** {exams} exams, {findings} reported findings. Bundle `{results.bundle.name}` "
        f"({results.bundle.digest[:12]}), diagnoser: {diagnosers}. Made by `{command}`. Intervals: 95 %, from "
        "resampled patients. Best in bold, second best underlined.",
    ]
    for table in tables.values():
        lines += ["", f"## {table.title}", "", table.markdown()]
    for name, title in plots.items():
        lines += ["", f"## {title}", "", f"![{title}]({name})"]
    lines += ["", "The patient shown is the one with most findings among those where DiCE got at least one right."]
    rows = [outcome.row for outcome in results.outcomes]
    lines += ["", "## Settings", "", *(f"- {row.name} ({row.group}): {_settings(row.values)}" for row in rows)]
    return "\n".join(lines) + "\n"


def _settings(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items()) or "those of the bundle"
