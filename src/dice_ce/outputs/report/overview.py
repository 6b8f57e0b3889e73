"""The beginning and the end of the report: which exam this is, what reading costs, and how to get it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape

from dice_ce.method.reliability import LEAST, LEAST_CASES
from dice_ce.method.summary import ExamFacts, Summary
from dice_ce.outputs.report.markup import Material, duration, number, percent, plural, title

CLOCKS = {
    "sidecar": "from the clock file",
    "burned-in": "from the recorder, read in the images",
    "options": "as given",
    "file names": "from the file names",
    "DICOM": "from the DICOM object",
    "container": "from the video",
    "playback": "playback only",
}
"""Where the times come from, in the reader's words."""
SECONDS_PER_FINDING, SECONDS_PER_DROPPED = 6, 2
VIDEO_FRAMES_PER_SECOND = 10
"""What a careful reader lets pass, about."""
MOST_LISTED = 20
"""Undecodable frames that are named one by one."""


def exam_section(summary: Summary, material: Material) -> str:
    """Say what was read, how well, and what reading on will cost."""
    exam = summary.exam
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>\n" for name, value in _facts(summary, material))
    return f"""<header class="exam">
<p class="kicker">Capsule endoscopy, summary of one exam</p>
<h1>{escape(str(exam.id))}</h1>
{_playback_banner(summary)}<dl class="facts">
{facts}</dl>
{_troubles(exam)}{_reading(summary)}
</header>"""


def _facts(summary: Summary, material: Material) -> Iterator[tuple[str, str]]:
    exam, clock = summary.exam, summary.exam.clock
    length = duration(clock.last_seconds - clock.first_seconds)
    first, last = material.time(clock.first_seconds), material.time(clock.last_seconds)
    yield "Frames", number(summary.counts.frames)
    yield (
        ("Exam duration" if material.is_exam_time else "Playback duration"),
        f"{length}<small>{first} – {last}</small>",
    )
    yield "Time", f"{CLOCKS.get(clock.source, escape(clock.source))}<small>{escape(clock.detail)}</small>"
    size = f"{exam.width} × {exam.height} pixels"
    yield "Field of view", f"{escape(str(exam.field))}<small>{size}, black outside</small>"


def _playback_banner(summary: Summary) -> str:
    if summary.exam.clock.is_exam_time:
        return ""
    return (
        '<p class="banner" id="playback"><strong>Times are playback times, not exam times.</strong> '
        "The exam clock is not known: no time here tells how long the capsule had been in the patient.</p>\n"
    )


def _troubles(exam: ExamFacts) -> str:
    undecodable, doubtful = exam.undecodable, exam.doubtful
    lines = []
    if undecodable:
        named = ", ".join(str(frame) for frame in undecodable[:MOST_LISTED])
        more = f" and {number(len(undecodable) - MOST_LISTED)} more" if len(undecodable) > MOST_LISTED else ""
        lines.append(f"{plural(len(undecodable), 'frame')} could not be decoded and went unread: {named}{more}.")
    if doubtful:
        lines.append(f"{plural(doubtful, 'frame')} decoded after a damaged one may show its damage.")
    lines += [str(warning) for warning in exam.warnings]
    if not lines:
        return ""
    points = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return f'<div class="banner"><strong>Limits of this exam</strong><ul>\n{points}</ul></div>\n'


def _reading(summary: Summary) -> str:
    kept, dropped, frames = len(summary.items), len(summary.dropped), summary.counts.frames
    seconds = kept * SECONDS_PER_FINDING + dropped * SECONDS_PER_DROPPED
    video = frames / VIDEO_FRAMES_PER_SECOND
    steps = (
        (summary.counts.frames, "frames"),
        (summary.counts.candidates, "suspicious frames"),
        (summary.counts.contexts, "possible findings"),
        (kept, "finding" if kept == 1 else "findings"),
    )
    funnel = "".join(f"<li><b>{number(count)}</b> {name}</li>\n" for count, name in steps)
    return f"""<div class="reading">
<p><b>About {duration(seconds)} to read this report</b>
<small>{SECONDS_PER_FINDING} s for each of {plural(kept, "finding")} and {SECONDS_PER_DROPPED} s for each of
{plural(dropped, "possible finding")} set aside</small></p>
<p><b>About {duration(video)} to read the whole video</b>
<small>{number(frames)} frames at {VIDEO_FRAMES_PER_SECOND} frames per second</small></p>
<ol class="funnel" aria-label="From the exam to the findings">
{funnel}</ol>
</div>"""


def reliability_section(summary: Summary) -> str:
    """Tell for every label how well it is recognised: what is hardly recognised may be there without being found."""
    rows = "".join(
        f'<tr><th scope="row">{title(label)}</th><td>{row.grade}</td><td>{row.explain()}</td></tr>\n'
        for label, row in ((label, summary.reliability_of(label)) for label in summary.taxonomy.labels)
    )
    cuts = ", ".join(f"{percent(least)} {grade}" for grade, least in LEAST.items())
    return f"""<section class="reliabilities" aria-labelledby="reliabilities-title">
<h2 id="reliabilities-title">How well each label is recognised</h2>
<p class="lead">Single frames of real cases that the model was not trained on. A label that is hardly recognised may
well be in this exam without being among the findings.</p>
<table>
<thead><tr><th scope="col">Label</th><th scope="col">On unseen cases</th><th scope="col">Measured</th></tr></thead>
<tbody>
{rows}</tbody>
</table>
<p class="note">By the weaker of the two figures: from {cuts}; below, hardly recognised. A good grade takes
{LEAST_CASES} cases.</p>
</section>"""


def provenance_section(summary: Summary) -> str:
    """Tell everything that is needed to get the same summary again."""
    content = {
        "exam": {"digest": summary.exam.digest, "clock": summary.exam.clock.source},
        "taxonomy": {"name": summary.taxonomy.name, "labels": list(summary.taxonomy.labels)},
        "counts": asdict(summary.counts),
        **asdict(summary.provenance),
    }
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>\n' for name, value in _flat("", content)
    )
    return f"""<section class="provenance" aria-labelledby="provenance-title">
<h2 id="provenance-title">How this was made</h2>
<p class="lead">The same exam, weights and settings give the same summary.</p>
<table>
<tbody>
{rows}</tbody>
</table>
</section>"""


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    """Name every leaf of nested settings: `weaver.delta_fine`, 0.3."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, (list, tuple)) and all(isinstance(inner, str) for inner in value):
        yield prefix, ", ".join(value)
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
