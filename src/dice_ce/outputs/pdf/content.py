"""What the PDF says, in the words of whoever files it."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

from dice_ce import DISCLAIMER
from dice_ce.exam.clock import hms
from dice_ce.exam.dicom.identity import Identity
from dice_ce.method.summary import Summary, SummaryItem
from dice_ce.outputs.report.overview import CLOCKS
from dice_ce.outputs.report.theme import SHAPES
from dice_ce.outputs.report.timeline import Axis, stack
from dice_ce.outputs.report.words import duration, number, percent, plural
from dice_ce.outputs.results import Results
from dice_ce.taxonomy import NEUTRAL, PALETTE

MOST_PICTURED = 14
"""Findings with an image; more would not fit on three pages, so the least normal have one and the others a line."""
MOST_LISTED = 34
"""Findings with a line only."""
WIDTH = 178.0
"""Millimetres between the margins."""
LANE, CURVE, AXIS = 5.2, 11.0, 5.5
"""Millimetres: height of a row of marks, of the curve, of the times below."""


def content_of(results: Results) -> dict[str, Any]:
    """Collect everything that the template fills in."""
    summary = results.summary
    numbered = list(enumerate(summary.items, start=1))
    least_normal_first = sorted(numbered, key=lambda entry: (-entry[1].abnormality, entry[0]))
    pictured = {position for position, _ in least_normal_first[:MOST_PICTURED]}
    findings = [_finding(results, position) for position, _ in numbered]
    others = [finding for finding in findings if finding["number"] not in pictured]
    return {
        "disclaimer": DISCLAIMER,
        "exam": summary.exam.id,
        "patient": _patient(results.identity),
        "whose": _whose(results.identity),
        "facts": _facts(summary),
        "headline": _headline(summary),
        "is_exam_time": summary.exam.clock.is_exam_time,
        "timeline": _timeline(summary),
        "findings": [finding for finding in findings if finding["number"] in pictured],
        "others": others[:MOST_LISTED],
        "unlisted": max(0, len(others) - MOST_LISTED),
        "limits": limits(summary),
        "provenance": _provenance(results),
    }


def _patient(identity: Identity | None) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Say whose exam it is; what is not known is left as a line to write on."""
    known = identity or Identity()
    name = ", ".join(part for part in known.patient_name.split("^") if part)
    referrer = ", ".join(part for part in known.referring_physician.split("^") if part)
    return [
        (("Name", name), ("Patient ID", known.patient_id)),
        (("Date of birth", _date(known.birth_date)), ("Sex", known.sex)),
        (("Date of exam", _date(known.study_date)), ("Accession no.", known.accession_number)),
        (("Referred by", referrer), ("Indication", "")),
    ]


def _whose(identity: Identity | None) -> str:
    """Say in one line whose exam it is, for every further page: pages get separated."""
    known = identity or Identity()
    name = ", ".join(part for part in known.patient_name.split("^") if part)
    born, number = _date(known.birth_date), known.patient_id
    return " · ".join(filter(None, (name, born and f"born {born}", number and f"ID {number}")))


def _date(text: str) -> str:
    return f"{text[:4]}-{text[4:6]}-{text[6:]}" if text else ""


def _facts(summary: Summary) -> list[tuple[str, str]]:
    clock, counts = summary.exam.clock, summary.counts
    length = "Exam duration" if clock.is_exam_time else "Playback duration"
    return [
        ("Exam", summary.exam.id),
        ("Frames", f"{number(counts.frames)}, {number(counts.decoded)} read"),
        (length, duration(clock.last_seconds - clock.first_seconds)),
        ("Times", CLOCKS.get(clock.source, clock.source)),
    ]


def _headline(summary: Summary) -> str:
    if not summary.items:
        return "No finding proposed."
    counts = Counter(item.label for item in summary.items)
    named = ", ".join(f"{count} × {label}" for label, count in counts.most_common())
    return f"{plural(len(summary.items), 'finding')} proposed: {named}."


def _look(summary: Summary, label: str) -> tuple[str, str]:
    """Colour and shape of a label, as in the report."""
    index = summary.taxonomy.labels.index(label)
    colour = NEUTRAL[0] if index == summary.taxonomy.normal else PALETTE[index % len(PALETTE)][0]
    return colour, SHAPES[index % len(SHAPES)]


def _finding(results: Results, position: int) -> dict[str, Any]:
    summary = results.summary
    item = summary.items[position - 1]
    colour, shape = _look(summary, item.label)
    reliability = summary.reliability_of(item.label)
    return {
        "number": position,
        "label": item.label[:1].upper() + item.label[1:],
        "time": hms(item.keyframe.seconds),
        "seen": _seen(item),
        "frame": number(item.keyframe.frame),
        "certainty": percent(item.confidence),
        "share": round(100 * item.confidence),
        "next": f"{item.runner_up}, {100 * item.margin:.0f} points behind",
        "support": plural(len(item.support), "frame"),
        "grade": reliability.grade,
        "measured": reliability.explain(),
        "is_trusted": reliability.grade in ("well recognised", "fairly recognised"),
        "colour": colour,
        "shape": shape,
        "image": "data:image/jpeg;base64," + base64.b64encode(results.keyframes[position - 1]).decode(),
    }


def _seen(item: SummaryItem) -> str:
    first, last = hms(item.first_seconds), hms(item.last_seconds)
    return first if first == last else f"{first} – {last}"


# --- the timeline -------------------------------------------------------------------------------------------------


def _timeline(summary: Summary) -> dict[str, Any]:
    axis = Axis(summary.activity.first_seconds, summary.activity.last_seconds)

    def place(seconds: float) -> float:
        return round(axis.place(seconds) * WIDTH / 100, 2)

    lanes = stack([axis.place(item.keyframe.seconds) for item in summary.items])
    rows = max(lanes, default=0) + 1
    marks_height = rows * LANE + 1
    bottom = marks_height + CURVE
    marks = []
    for position, (item, lane) in enumerate(zip(summary.items, lanes, strict=True), start=1):
        colour, shape = _look(summary, item.label)
        x = min(max(place(item.keyframe.seconds), 2.4), WIDTH - 2.4)
        y = round(marks_height - (lane + 0.5) * LANE, 2)
        marks.append({"x": x, "y": y, "colour": colour, "shape": shape, "number": position})
    spans = [
        {"x": place(item.first_seconds), "width": max(0.4, place(item.last_seconds) - place(item.first_seconds))}
        for item in summary.items
    ]
    return {
        "width": WIDTH,
        "height": round(bottom + AXIS, 2),
        "marks_height": marks_height,
        "bottom": bottom,
        "marks": marks,
        "spans": spans,
        "curve": _curve(summary, bottom),
        "ticks": [{"x": place(tick), "text": _tick(tick, axis)} for tick in axis.ticks()],
        "legend": _legend(summary),
    }


def _curve(summary: Summary, bottom: float) -> str:
    """Draw the suspicion over the exam as steps, scaled to the largest."""
    values = summary.activity.mean_score
    most, step = max(values, default=0) or 1, WIDTH / max(1, len(values))
    path = "".join(f"V{bottom - CURVE * value / most:.2f}h{step:.4f}" for value in values)
    return f"M0 {bottom:g}{path}V{bottom:g}Z"


def _tick(seconds: int, axis: Axis) -> str:
    if axis.last - axis.first < 900:
        return f"{seconds // 60}:{seconds % 60:02d} min"
    return f"{seconds // 3600}:{seconds // 60 % 60:02d} h"


def _legend(summary: Summary) -> list[dict[str, Any]]:
    counts = Counter(item.label for item in summary.items)
    return [
        {"label": label, "count": counts[label], "colour": _look(summary, label)[0], "shape": _look(summary, label)[1]}
        for label in summary.taxonomy.labels
        if label in counts
    ]


# --- what was not examined, and where this comes from -------------------------------------------------------------


def limits(summary: Summary) -> list[str]:
    """Say what was not examined, or not well."""
    exam, counts, labels = summary.exam, summary.counts, summary.taxonomy.labels
    abnormal = [label for label in labels if label != labels[summary.taxonomy.normal]]
    weak = [
        label
        for label in abnormal
        if summary.reliability_of(label).grade not in ("well recognised", "fairly recognised")
    ]
    lines = [
        "Not assessed: whether the capsule reached the caecum, how clean and how completely visible the bowel was, "
        "and in which segment a finding lies.",
        f"Only these were looked for: {', '.join(abnormal)}. Anything else, such as a stenosis, a diverticulum or "
        "retained material, may be in the exam and is not mentioned here.",
    ]
    if weak:
        which = ", ".join(label for label in abnormal if label not in weak) or "none of these"
        lines.append(f"Reliably recognised: {which}. Anything else may be there without being listed.")
    missed = counts.frames - counts.decoded
    if missed:
        lines.append(f"{plural(missed, 'frame')} could not be decoded and went unread.")
    if exam.doubtful:
        lines.append(f"{plural(exam.doubtful, 'frame')} decoded after a damaged one may show its damage.")
    if not exam.clock.is_exam_time:
        lines.append("The exam clock is not known: all times are playback times, not times since the capsule's start.")
    aside = counts.contexts - counts.kept
    if aside:
        verb = "is" if aside == 1 else "are"
        lines.append(f"{plural(aside, 'possible finding')} set aside by the program {verb} not shown; see report.html.")
    return [*lines, *(f"{warning[:1].upper()}{warning[1:]}." for warning in exam.warnings)]


def _provenance(results: Results) -> list[tuple[str, str]]:
    made, exam = results.summary.provenance, results.summary.exam
    return [
        ("Software", f"{made.software} {made.version}, profile {made.profile}"),
        ("Model", f"{made.bundle.name}, SHA-256 {made.bundle.digest[:16]}…"),
        ("Encoder", f"{made.encoder.name}, SHA-256 {made.encoder.digest[:16]}…"),
        ("Exam", f"SHA-256 {exam.digest}"),
        ("Times", exam.clock.detail),
        ("This report", f"content {results.digest[:32]}; all settings are in summary.json"),
    ]
