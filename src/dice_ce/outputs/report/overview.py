"""Beginning and end of the report: which exam this is, what reading costs, and how to get it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from dice_ce.method.summary import ExamFacts, Summary, unfinished_text
from dice_ce.outputs.report.pages import Material
from dice_ce.outputs.report.words import duration, number, plural

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


@dataclass(frozen=True)
class Reading:
    """What reading the report costs, and what reading the video would."""

    seconds: int
    video_seconds: float
    funnel: tuple[tuple[int, str], ...]
    per_finding: int = SECONDS_PER_FINDING
    per_dropped: int = SECONDS_PER_DROPPED
    video_rate: int = VIDEO_FRAMES_PER_SECOND


def facts(summary: Summary, material: Material) -> Iterator[tuple[str, str, str | None]]:
    """Say what was read: name, value, detail."""
    exam, clock = summary.exam, summary.exam.clock
    length = duration(clock.last_seconds - clock.first_seconds)
    first, last = material.time(clock.first_seconds), material.time(clock.last_seconds)
    yield "Frames", number(summary.counts.frames), None
    yield "Exam duration" if material.is_exam_time else "Playback duration", length, f"{first} – {last}"
    yield "Time", CLOCKS.get(clock.source, clock.source), clock.detail
    yield "Field of view", str(exam.field), f"{exam.width} × {exam.height} pixels, black outside"


def troubles(exam: ExamFacts) -> list[str]:
    """Say what limits this exam; that it is unfinished has a place of its own."""
    undecodable, doubtful = exam.undecodable, exam.doubtful
    lines = []
    if undecodable:
        named = ", ".join(str(frame) for frame in undecodable[:MOST_LISTED])
        more = f" and {number(len(undecodable) - MOST_LISTED)} more" if len(undecodable) > MOST_LISTED else ""
        lines.append(f"{plural(len(undecodable), 'frame')} could not be decoded and went unread: {named}{more}.")
    if doubtful:
        lines.append(f"{plural(doubtful, 'frame')} decoded after a damaged one may show its damage.")
    return [*lines, *(warning for warning in exam.warnings if warning != unfinished_text(exam.read))]


def reading(summary: Summary) -> Reading:
    """Estimate what reading costs."""
    kept, dropped, counts = len(summary.items), len(summary.dropped), summary.counts
    looked_at = ((counts.contexts, "looked at"),) if counts.not_looked_at else ()
    return Reading(
        seconds=kept * SECONDS_PER_FINDING + dropped * SECONDS_PER_DROPPED,
        video_seconds=counts.frames / VIDEO_FRAMES_PER_SECOND,
        funnel=(
            (counts.frames, "frames"),
            (counts.candidates, "suspicious frames"),
            (counts.contexts + counts.not_looked_at, "possible findings"),
            *looked_at,
            (kept, "finding" if kept == 1 else "findings"),
        ),
    )


def provenance(summary: Summary) -> list[tuple[str, str]]:
    """Tell everything that is needed to get the same summary again."""
    content = {
        "exam": {"digest": summary.exam.digest, "clock": summary.exam.clock.source},
        "taxonomy": {"name": summary.taxonomy.name, "labels": list(summary.taxonomy.labels)},
        "counts": asdict(summary.counts),
        **asdict(summary.provenance),
    }
    return list(_flat("", content))


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    """Name every leaf of nested settings: `weaver.delta_fine`, 0.3."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, (list, tuple)) and all(isinstance(inner, str) for inner in value):
        yield prefix, ", ".join(value)
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
