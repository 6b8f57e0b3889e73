"""From what is stored to what the browser is told; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dice_ce import DISCLAIMER
from dice_ce.method.reliability import NOT_MEASURED
from dice_ce.method.summary import Summary, SummaryItem
from dice_ce.reader import contract as c
from dice_ce.reader.actions import SECTIONS, Redo, Undo
from dice_ce.reader.audit import Deed, describe_deed
from dice_ce.reader.frames import VideoFacts
from dice_ce.reader.measures import Clock, small_bowel_position, work_out
from dice_ce.reader.state import Event, Finding, State, fold, redo_target, undo_target, undone_sequences
from dice_ce.reader.storage import Loaded, Reading, StoredEvent
from dice_ce.reader.wording import TITLES, describe, made_texts
from dice_ce.taxonomy import NEUTRAL, PALETTE, Taxonomy

ASSUMED_PACE = 15.0
"""Seconds to read one finding, until enough decisions have been timed."""
LEAST_DECISIONS = 30
"""Decisions after which the pace is measured rather than assumed."""


def review_view(loaded: Loaded, clock: Clock, digests: Mapping[int, str], user: str) -> c.Review:
    """Show a review to a person."""
    state, reading = loaded.state, loaded.reading
    measures = work_out(state, clock)
    version = len(loaded.events)
    return c.Review(
        exam=reading.id,
        version=version,
        state="signed" if state.is_signed else "in_work" if version else "new",
        findings=tuple(
            _finding(one, state, clock) for one in sorted(state.findings.values(), key=lambda x: (x.keyframe, x.id))
        ),
        landmarks={
            name: c.LandmarkView(frame=mark.frame, seconds=clock.seconds(mark.frame), by=mark.by, at=mark.at)
            for name, mark in state.landmarks.items()
        },
        cleanliness=state.cleanliness,
        lewis=state.lewis,
        cecdai=state.cecdai,
        measures=measures,
        note=state.note,
        report=section_views(loaded, clock),
        draft=None if state.is_signed else len(state.signatures) + 1,
        signatures=tuple(
            c.Signature(
                version=one.version, by=one.by, at=one.at, digest=digests.get(one.version, ""), reason=one.reason
            )
            for one in state.signatures
        ),
        undecided=state.undecided,
        undo=_in_words(loaded, undo_target(loaded.events, user), clock),
        redo=_in_words(loaded, redo_target(loaded.events, user), clock),
    )


def section_views(loaded: Loaded, clock: Clock) -> tuple[c.SectionView, ...]:
    """Show the sections of the report, made or written."""
    state, reading = loaded.state, loaded.reading
    made = made_texts(
        state,
        work_out(state, clock),
        clock,
        frames=reading.frames,
        seconds=reading.duration,
        is_exam_time=reading.is_exam_time,
    )
    return tuple(
        c.SectionView(
            name=name,
            title=TITLES[name],
            text=state.sections.get(name, made[name]),
            made=made[name],
            is_edited=name in state.sections,
        )
        for name in SECTIONS
    )


def _finding(one: Finding, state: State, clock: Clock) -> c.FindingView:
    marks = {name: mark.frame for name, mark in state.landmarks.items()}
    facts = {name: getattr(one, name) for name in c.FindingView.model_fields if hasattr(one, name)}
    return c.FindingView(
        **facts, seconds=clock.seconds(one.keyframe), position=small_bowel_position(one.keyframe, marks, clock)
    )


def _in_words(loaded: Loaded, target: int | None, clock: Clock) -> str | None:
    if target is None:
        return None
    event = loaded.events[target - 1]
    return describe(event, state_before(loaded.initial, loaded.events, target), clock)


def state_before(initial: State, events: Sequence[Event], sequence: int) -> State:
    """Return the state that an event met."""
    return fold(initial, events[: sequence - 1])


def deed_view(deed: Deed) -> c.DeedView:
    """Show what somebody did around a reading, or with an account."""
    facts = {name: getattr(deed, name) for name in ("by", "at", "kind", "before", "after", "software")}
    return c.DeedView(about=describe_deed(deed), **facts)


def history_view(loaded: Loaded, trail: Sequence[StoredEvent], deeds: Sequence[Deed], clock: Clock) -> c.History:
    """Show the audit trail."""
    undone = undone_sequences(loaded.events)
    return c.History(
        events=tuple(
            c.EventView(
                sequence=one.event.sequence,
                by=one.event.by,
                at=one.event.at,
                kind=one.event.action.kind,
                about=_about(loaded, one.event, clock),
                is_undone=one.event.sequence in undone,
                before=one.before,
                after=one.after,
                software=one.software,
                bundle=one.bundle,
            )
            for one in trail
        ),
        deeds=tuple(map(deed_view, deeds)),
    )


def _about(loaded: Loaded, event: Event, clock: Clock) -> str:
    if isinstance(event.action, (Undo, Redo)) and event.action.target is not None:
        return f"{event.action.kind}: {_in_words(loaded, event.action.target, clock)}"
    return describe(event, state_before(loaded.initial, loaded.events, event.sequence), clock)


def label_facts(taxonomy: Taxonomy, summary: Summary | None) -> tuple[c.LabelFacts, ...]:
    """Show labels with their colours and how well they are recognised."""
    abnormal = [label for label in taxonomy.labels if label != taxonomy.labels[taxonomy.normal]]
    colours = dict(zip(abnormal, PALETTE, strict=False))
    found = []
    for label in taxonomy.labels:
        reliability = summary.reliability_of(label) if summary else NOT_MEASURED
        light, dark = colours.get(label, NEUTRAL)
        is_normal = label not in abnormal
        found.append(
            c.LabelFacts(
                name=label,
                light=light,
                dark=dark,
                grade=reliability.grade,
                explanation=reliability.explain(),
                is_normal=is_normal,
            )
        )
    return tuple(found)


def exam_view(loaded: Loaded, clock: Clock, video: VideoFacts, review: c.Review, pace: float | None) -> c.ExamDetails:
    """Show an exam."""
    reading, summary = loaded.reading, loaded.summary
    items = [] if summary is None else sorted((*summary.items, *summary.dropped), key=lambda one: one.keyframe.frame)
    per_finding = pace or ASSUMED_PACE
    return c.ExamDetails(
        id=reading.id,
        name=reading.name,
        disclaimer=DISCLAIMER,
        reader=reading.reader,
        second_of=reading.second_of,
        is_summarised=summary is not None,
        has_newer_results=reading.newer_summary is not None,
        frames=reading.frames,
        width=summary.exam.width if summary else video.video.exam.width if video.video else 0,
        height=summary.exam.height if summary else video.video.exam.height if video.video else 0,
        is_exam_time=reading.is_exam_time,
        clock=summary.exam.clock.detail if summary else video.video.exam.clock.detail if video.video else "",
        knots=clock.knots,
        undecodable=summary.exam.undecodable if summary else (),
        warnings=summary.exam.warnings if summary else video.video.exam.warnings if video.video else (),
        labels=label_facts(summary.taxonomy if summary else Taxonomy(), summary),
        contexts=tuple(_context(item) for item in items),
        slider=slider(items, per_finding),
        slider_start=len(summary.items) if summary else 0,
        seconds_per_finding=per_finding,
        is_pace_measured=pace is not None,
        video=c.Video(state=video.state, message=video.message),
        provenance=_provenance(summary),
        review=review,
    )


def slider(items: Sequence[SummaryItem], pace: float) -> tuple[c.Rung, ...]:
    """Order all contexts as the list was: the least normal first, what was kept before what was set aside."""
    ranked = sorted(items, key=lambda one: (one.verdict != "kept", -one.abnormality, one.keyframe.frame, one.id))
    return tuple(
        c.Rung(count=count, context=item.id, abnormality=item.abnormality, seconds=round(count * pace, 1))
        for count, item in enumerate(ranked, start=1)
    )


def _context(item: SummaryItem) -> c.Context:
    simple = "id label verdict reason confidence runner_up margin provisional fell_back evidence_before evidence"

    def frames(name: str) -> tuple[c.EvidenceFrame, ...]:
        return tuple(
            c.EvidenceFrame(frame=one.frame, seconds=one.seconds, score=one.score, probability=one.probability)
            for one in getattr(item, name)
        )

    facts = {name: getattr(item, name) for name in simple.split()}
    return c.Context(**facts, keyframe=item.keyframe.frame, support=frames("support"), dissent=frames("dissent"))


def _provenance(summary: Summary | None) -> c.Provenance | None:
    if summary is None:
        return None
    made = summary.provenance
    return c.Provenance(
        software=f"{made.software} {made.version}",
        bundle=made.bundle.name,
        bundle_digest=made.bundle.digest,
        profile=made.profile,
        command=made.command,
    )


def row_view(reading: Reading, kinds: dict[str, int], pace: float | None) -> c.WorklistRow:
    """Show one row of the worklist."""
    return c.WorklistRow(
        id=reading.id,
        name=reading.name,
        state=reading.state,
        reader=reading.reader,
        second_of=reading.second_of,
        is_summarised=reading.summary is not None,
        frames=reading.frames,
        duration_seconds=reading.duration,
        is_exam_time=reading.is_exam_time,
        kinds=kinds,
        findings=reading.findings,
        undecided=reading.undecided,
        predicted_seconds=round(reading.undecided * (pace or ASSUMED_PACE), 1),
        changed_at=reading.changed_at,
        changed_by=reading.changed_by,
        signed_version=reading.signed_version,
    )
