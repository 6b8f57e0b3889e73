"""The report: a summary as one HTML file that needs nothing else, neither a network nor a script, to be read."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import Markup

from dice_ce import DISCLAIMER
from dice_ce.files import write_atomically
from dice_ce.method.reliability import LEAST, LEAST_CASES
from dice_ce.method.summary import Summary
from dice_ce.outputs.images import FrameImage, Wanted
from dice_ce.outputs.report import contexts, overview
from dice_ce.outputs.report.pages import Material, asset, environment
from dice_ce.outputs.report.theme import theme_css
from dice_ce.outputs.report.timeline import draw_timeline, legend

__all__ = ["images_needed", "render_report", "write"]


def render_report(summary: Summary, jpeg: FrameImage) -> str:
    """Write the report; `jpeg(frame, size)` gives masked JPEG bytes, or None for what cannot be decoded.

    The same summary and images give the same bytes.
    """
    material = Material(summary.taxonomy, jpeg, bool(summary.exam.clock.is_exam_time))
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            summary=summary,
            material=material,
            disclaimer=DISCLAIMER,
            css=Markup(theme_css()) + asset("report.css") + Markup(_page_footer(str(summary.exam.id))),
            js=asset("report.js"),
            facts=overview.facts(summary, material),
            troubles=overview.troubles(summary.exam),
            reading=overview.reading(summary),
            timeline=draw_timeline(summary, material),
            legend=legend(summary),
            dropped_groups=list(contexts.dropped_groups(summary)),
            sizes={
                "keyframe": contexts.KEYFRAME_SIZE,
                "thumbnail": contexts.THUMBNAIL_SIZE,
                "dropped": contexts.DROPPED_SIZE,
            },
            most={"support": contexts.MOST_SUPPORT, "dissent": contexts.MOST_DISSENT},
            grades=LEAST,
            least_cases=LEAST_CASES,
            provenance=overview.provenance(summary),
        )
        + "\n"
    )


def write(summary: Summary, jpeg: FrameImage, path: Path) -> None:
    """Write the report, with the images that it shows inside it."""
    write_atomically(path, render_report(summary, jpeg).encode())


def images_needed(summary: Summary) -> list[Wanted]:
    """List the images that the report asks for, by frame."""
    needed: set[Wanted] = set()

    def note(frame: int, size: int | None) -> None:
        needed.add((frame, size))

    render_report(summary, note)
    return sorted(needed)


def _page_footer(exam: str) -> str:
    """Repeat disclaimer and exam on every printed page: sheets of paper get separated."""
    return (
        "@page {\n"
        f"  @bottom-left {{ content: {_css_string(DISCLAIMER)}; }}\n"
        f'  @bottom-right {{ content: {_css_string(exam[:60])} "  \\b7  " counter(page) "/" counter(pages); }}\n'
        "}\n"
    )


def _css_string(text: str) -> str:
    """Quote any text for CSS; whatever could end the string or the style element is written as a code point."""
    return '"' + re.sub(r"[^A-Za-z0-9 .,:_-]", lambda found: f"\\{ord(found.group()):x} ", text) + '"'
