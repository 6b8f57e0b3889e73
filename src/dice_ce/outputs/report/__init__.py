"""The report: a summary as one HTML file that needs nothing else, neither a network nor a script, to be read."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from dice_ce import DISCLAIMER
from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import Exam
from dice_ce.files import write_atomically
from dice_ce.method.summary import Summary
from dice_ce.outputs.report.contexts import dropped_section, findings_section
from dice_ce.outputs.report.markup import FrameImage, Material, palette_css
from dice_ce.outputs.report.overview import exam_section, provenance_section, reliability_section
from dice_ce.outputs.report.timeline import timeline_section

__all__ = ["FrameImage", "images_needed", "render_report", "write"]

_HERE = Path(__file__).parent

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{exam}: summary by DiCE-CE</title>
<style>
{css}</style>
</head>
<body>
<div class="bar" id="bar">
<p class="disclaimer">{disclaimer}</p>
<p class="state needs-js" aria-live="polite"><span id="restored">0</span> restored</p>
<button type="button" class="needs-js" id="show-keys" aria-keyshortcuts="?">Keys <kbd>?</kbd></button>
</div>
<main>
{sections}
</main>
{dialogs}
<script>
{js}</script>
</body>
</html>
"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The browser itself then sees to it that the report loads nothing from elsewhere."""

_DIALOGS = """<dialog id="lightbox" aria-label="Enlarged keyframe">
<div class="shown"></div>
<p class="caption"></p>
<button type="button" data-close>Close <kbd>Esc</kbd></button>
</dialog>
<dialog id="keys" aria-labelledby="keys-title">
<h2 id="keys-title">Keys</h2>
<dl>
<div><dt><kbd>j</kbd> or <kbd>↓</kbd></dt><dd>next finding</dd></div>
<div><dt><kbd>k</kbd> or <kbd>↑</kbd></dt><dd>previous finding</dd></div>
<div><dt><kbd>Enter</kbd></dt><dd>enlarge the keyframe</dd></div>
<div><dt><kbd>Esc</kbd></dt><dd>close</dd></div>
<div><dt><kbd>?</kbd></dt><dd>these keys</dd></div>
</dl>
<button type="button" data-close>Close <kbd>Esc</kbd></button>
</dialog>"""


def render_report(summary: Summary, jpeg: FrameImage) -> str:
    """Write the report; `jpeg(frame, size)` gives masked JPEG bytes, or None for what cannot be decoded.

    The same summary and images give the same bytes.
    """
    material = Material(summary.taxonomy, jpeg, bool(summary.exam.clock.is_exam_time))
    sections = (
        exam_section(summary, material),
        timeline_section(summary, material),
        findings_section(summary, material),
        dropped_section(summary, material),
        reliability_section(summary),
        provenance_section(summary),
    )
    return _PAGE.format(
        policy=_POLICY,
        exam=escape(str(summary.exam.id)),
        css=_read("report.css") + palette_css() + _page_footer(str(summary.exam.id)),
        disclaimer=escape(DISCLAIMER),
        sections="\n".join(sections),
        dialogs=_DIALOGS,
        js=_read("report.js"),
    )


def write(summary: Summary, exam: Exam, path: Path) -> None:
    """Write the report, with the images that it shows inside it."""
    # In the order of the frames, because going forward in a video is cheap and going back is not.
    images = {
        (frame, size): encode_image(image, ".jpg")
        for frame, size in images_needed(summary)
        for _, image in exam.images([frame], size=size)
    }
    write_atomically(path, render_report(summary, lambda frame, size: images.get((frame, size))).encode())


def images_needed(summary: Summary) -> list[tuple[int, int]]:
    """List the (frame, size) pairs that the report asks for, by frame, so that they can be decoded in one pass."""
    needed: set[tuple[int, int]] = set()

    def note(frame: int, size: int) -> None:
        needed.add((frame, size))

    render_report(summary, note)
    return sorted(needed)


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


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
