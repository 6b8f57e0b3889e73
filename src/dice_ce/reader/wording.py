"""Words for people: what an event was, and the text that confirmed findings make by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dice_ce.exam.clock import hms
from dice_ce.outputs.report import words
from dice_ce.reader import actions as a
from dice_ce.reader.contract import Measures
from dice_ce.reader.measures import NAMES, Clock, small_bowel_position
from dice_ce.reader.state import Event, Finding, State

TITLES: dict[a.Section, str] = {
    "patient": "Patient",
    "indication": "Indication",
    "procedure": "Procedure",
    "findings": "Findings",
    "impression": "Impression",
    "recommendation": "Recommendation",
}
_VERBS = {
    "confirm": "confirm",
    "reject": "reject",
    "reconsider": "leave open again",
    "restore": "restore",
    "move_keyframe": "move the keyframe of",
    "split": "split",
}

_FIXED = {"cleanliness": "cleanliness", "lewis": "Lewis score", "cecdai": "CECDAI", "sign": "sign the report"}


def describe(event: Event, before: State, clock: Clock) -> str:
    """Say in a few words what an event did."""
    action = event.action

    def name(finding: str) -> str:
        card = before.findings.get(finding)
        return f"{card.label} at {hms(clock.seconds(card.keyframe))}" if card else finding

    if isinstance(action, a.Relabel):
        return f"call {name(action.finding)} {action.label}"
    if isinstance(action, a.Merge):
        return f"merge {' and '.join(name(one) for one in action.findings)}"
    if isinstance(action, a.Add):
        return f"add {action.label} at {hms(clock.seconds(action.frame))}"
    if isinstance(action, a.Note):
        return f"note on {name(action.finding) if action.finding else 'the exam'}"
    if isinstance(action, a.Images):
        return f"choose images of {name(action.finding)}"
    if isinstance(action, a.SetLandmark):
        where = f"at {hms(clock.seconds(action.frame))}" if action.frame is not None else "removed"
        return f"{NAMES[action.name]} {where}"
    if isinstance(action, a.WriteReport):
        return f"write {TITLES[action.section].lower()}"
    if isinstance(action, (a.Undo, a.Redo)):
        return f"{action.kind} event {action.target}"
    if isinstance(action, (a.SetCleanliness, a.SetLewis, a.SetCecdai, a.Sign)):
        return _FIXED[action.kind]
    if isinstance(action, a.Addendum):
        return f"begin an addendum: {action.reason}"
    return f"{_VERBS[action.kind]} {name(action.finding)}"


def duration(seconds: float) -> str:
    """Write a time span as the pages do, in plain text."""
    return words.duration(seconds).replace("\u00a0", " ")


def finding_line(finding: Finding, state: State, clock: Clock, *, is_exam_time: bool) -> str:
    """Write one finding as a sentence."""
    where = _place(finding.keyframe, state, clock)
    unit = "" if is_exam_time else " of the video"
    label = finding.label[:1].upper() + finding.label[1:]
    note = f" {finding.note.strip()}" if finding.note.strip() else ""
    return f"{label} at {hms(clock.seconds(finding.keyframe))}{unit}{where}.{note}"


def _place(frame: int, state: State, clock: Clock) -> str:
    """Say where a frame lies, as far as the landmarks tell."""
    marks = {name: mark.frame for name, mark in state.landmarks.items()}
    if (position := small_bowel_position(frame, marks, clock)) is not None:
        return f", at {100 * position:.0f} % of small-bowel transit"
    begin, end = marks.get("first_duodenal", 0), marks.get("ileocaecal", state.frames)
    if frame < begin <= end:
        return ", before the small bowel"
    return ", beyond the ileo-caecal valve" if begin <= end < frame else ""


def made_texts(
    state: State, measures: Measures, clock: Clock, *, frames: int, seconds: float, is_exam_time: bool
) -> dict[a.Section, str]:
    """Write every section as the findings and measures make it by themselves."""
    confirmed = state.confirmed
    lines = [finding_line(one, state, clock, is_exam_time=is_exam_time) for one in confirmed]
    span = f" over {duration(seconds)}" if is_exam_time else ""
    unmarked = " The ileo-caecal valve was not marked." if state.landmarks and not measures.is_complete else ""
    return {
        "patient": "",
        "indication": "",
        "procedure": f"Capsule endoscopy, {frames:,} images{span}.{unmarked}",
        "findings": "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))
        or "No finding was confirmed.",
        "impression": " ".join([_impression(confirmed), *_scores(measures)]),
        "recommendation": "",
    }


def cleanliness_words(brotz: a.Brotz | None, measures: Measures) -> str:
    """Say how clean the small bowel was; empty if nobody did."""
    if brotz is None:
        return ""
    parts = [
        brotz.overall or "",
        f"quality {brotz.quality}" if brotz.quality else "",
        f"quantitative index {measures.brotz_index} of 10" if measures.brotz_index is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _impression(confirmed: Sequence[Finding]) -> str:
    if not confirmed:
        return "No finding was confirmed."
    counts = Counter(one.label for one in confirmed)
    said = ", ".join(f"{label} ({count})" if count > 1 else label for label, count in counts.items())
    return f"{said[:1].upper()}{said[1:]}."


def _scores(measures: Measures) -> list[str]:
    found = []
    if measures.lewis_score is not None:
        found.append(f"Lewis score {measures.lewis_score} ({measures.lewis_grade}).")
    if measures.cecdai_score is not None:
        found.append(f"CECDAI {measures.cecdai_score} of 36.")
    return found
