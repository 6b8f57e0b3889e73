"""One page about an archive, complete in itself: how far, how fast, what was found and when, what failed and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from dice_ce import DISCLAIMER
from dice_ce.archive.manifest import Manifest
from dice_ce.archive.status import Status, group_reasons, read_status
from dice_ce.files import write_atomically
from dice_ce.plotting import BLUE, FAINT, INK, SOFT, draw
from dice_ce.taxonomy import NEUTRAL, PALETTE, Taxonomy

MOST_LABELS, MOST_MONTHS, MOST_FAILURES = 12, 24, 200
STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f5f6f7; color: #1a2228; font: 16px/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
main { max-width: 1080px; margin: 0 auto; padding: 2.5rem 1.75rem 4rem; }
h1 { font-size: 1.9rem; margin: 0 0 .25rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; }
.note { color: #52606a; font-size: .875rem; margin: .25rem 0; }
.warning { background: #fff4d6; border-left: 4px solid #a86b00; padding: .6rem 1rem; margin: 1.25rem 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(13rem, 40%), 1fr)); gap: .75rem;
  margin: 1.5rem 0 0; }
dl div { background: #fff; border: 1px solid #d8dee2; border-radius: 8px; padding: .75rem 1rem; }
dt { color: #52606a; font-size: .875rem; } dd { margin: 0; font-size: 1.5rem; font-weight: 600; }
figure { margin: 0; background: #fff; border: 1px solid #d8dee2; border-radius: 8px; padding: .75rem;
  overflow-x: auto; }
figure svg { width: 100%; min-width: 40rem; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; background: #fff; border: 1px solid #d8dee2; font-size: .9375rem; }
th, td { text-align: left; padding: .45rem .75rem; border-bottom: 1px solid #e9edef; vertical-align: top; }
th { color: #52606a; font-weight: 600; background: #fafbfb; overflow-wrap: normal; }
td.number, th.number { text-align: right; }
"""


def write_report(archive: Path, target: Path) -> None:
    """Write the page."""
    status = read_status(archive)
    manifest = Manifest(archive, read_only=True)
    try:
        lengths = [
            value for batch in manifest.batches("select frames from exams where state = 'done'") for (value,) in batch
        ]
        finished = [
            value
            for batch in manifest.batches("select finished from exams where finished > 0 order by finished")
            for (value,) in batch
        ]
    finally:
        manifest.close()
    write_atomically(target, render(archive.resolve().name, status, lengths, finished).encode())


def render(name: str, status: Status, lengths: Sequence[int], finished: Sequence[float]) -> str:
    """Put the page together; the same archive gives the same bytes."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Archive {escape(name)}</title><style>{STYLE}</style></head><body><main>",
        f'<h1>Archive {escape(name)}</h1><p class="warning">{escape(DISCLAIMER)}</p>',
        _figures(status),
    ]
    if status.findings:
        parts += ["<h2>Findings by kind and month</h2>", _figure(_findings_plot(status))]
        note = "By the date of the exam where the table of exams has one (exam_date), otherwise by that of its file."
        parts += [f'<p class="note">{note}</p>']
    if lengths:
        parts += ["<h2>Length of the exams, and pace</h2>", _figure(_pace_plot(lengths, finished))]
    parts += [_failures(status), "</main></body></html>\n"]
    return "".join(parts)


def _figures(status: Status) -> str:
    counts = status.counts
    facts = {
        "exams": f"{sum(counts.values()):,}",
        "done": f"{counts['done']:,}",
        "failed": f"{counts['failed']:,}",
        "skipped": f"{counts['skipped']:,}",
        "waiting": f"{counts['waiting']:,}",
        "frames read": f"{status.frames:,}",
        "findings": f"{sum(sum(found.values()) for found in status.findings.values()):,}",
        "exams per hour": f"{status.per_hour:,.0f}" if status.per_hour else "–",
    }
    return "<dl>" + "".join(f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in facts.items()) + "</dl>"


def _failures(status: Status) -> str:
    if not status.failed:
        return ""
    kinds = "".join(
        f'<tr><td>{escape(reason)}</td><td class="number">{count:,}</td></tr>'
        for reason, count in group_reasons(status.failed)
    )
    rows = "".join(
        f"<tr><td>{escape(row.exam_id)}</td><td>{escape(row.reason)}</td></tr>" for row in status.failed[:MOST_FAILURES]
    )
    more = len(status.failed) - MOST_FAILURES
    rest = f'<p class="note">and {more:,} more</p>' if more > 0 else ""
    return (
        f'<h2>What failed, and why</h2><table><tr><th>reason</th><th class="number">exams</th></tr>{kinds}</table>'
        f"<h2>Each of them</h2><table><tr><th>exam</th><th>reason</th></tr>{rows}</table>{rest}"
    )


def _figure(svg: str) -> str:
    return f'<figure tabindex="0">{svg}</figure>'  # a narrow screen scrolls it, also by keyboard


def _svg(content: bytes) -> str:
    """Take the drawing out of an SVG file, to stand in a page."""
    text = content.decode()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)


def _colour(label: str) -> str:
    """Return the colour that a label has in every report."""
    known = Taxonomy()
    place = known.labels.index(label) if label in known.labels else len(known)
    return NEUTRAL[0] if place == known.normal else PALETTE[place % len(PALETTE)][0]


def _findings_plot(status: Status) -> str:
    """Stack findings by month, the most frequent kinds at the bottom."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    totals = sorted(status.findings, key=lambda label: (-sum(status.findings[label].values()), label))[:MOST_LABELS]
    months = sorted({month for found in status.findings.values() for month in found})[-MOST_MONTHS:]
    with draw(".svg", "", 10, 4.2) as (figure, content):
        axes = figure.add_subplot()
        base = np.zeros(len(months))
        for label in totals:
            heights = np.array([status.findings[label].get(month, 0) for month in months])
            width = 0.7 if len(months) > 3 else 0.25
            look: dict[str, Any] = {"color": _colour(label), "edgecolor": "white", "linewidth": 0.5, "label": label}
            axes.bar(months, heights, width, bottom=base, **look)
            base = base + heights
        axes.set_xlim(-0.75, max(len(months), 4) - 0.25)
        axes.set_ylabel("findings")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
        axes.tick_params(axis="x", rotation=45 if len(months) > 8 else 0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)
    return _svg(content.getvalue())


def _pace_plot(lengths: Sequence[int], finished: Sequence[float]) -> str:
    from matplotlib.ticker import MaxNLocator

    with draw(".svg", "", 10, 3.2) as (figure, content):
        left, right = figure.subplots(1, 2)
        left.hist(lengths, bins=30, color=BLUE, edgecolor="white", linewidth=0.5)
        left.set_xlabel("frames")
        left.set_ylabel("exams")
        left.yaxis.set_major_locator(MaxNLocator(integer=True))
        hours = [(one - finished[0]) / 3600 for one in finished]
        unit, name = (1, "hours") if hours[-1] > 2 else (60, "minutes")
        right.step([unit * hour for hour in hours], range(1, len(hours) + 1), where="post", color=INK)
        right.set_xlabel(f"{name} since the first exam ended")
        right.set_ylabel("exams ended")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.grid(axis="y", color=FAINT)
            axes.tick_params(colors=SOFT)
    return _svg(content.getvalue())
