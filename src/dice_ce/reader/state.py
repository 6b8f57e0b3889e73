"""What events add up to: pure functions from a summary and a list of events to the state of a review.

An event is never changed. Undo and redo are events, too: they say which earlier one counts and which does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from dice_ce.method.summary import Summary, SummaryItem
from dice_ce.reader import actions as a

FirstOrigin = Literal["software", "set_aside", "reader"]
Decision = Literal["undecided", "confirmed", "rejected"]


class RefusedError(Exception):
    """An action that makes no sense in the state as it is; nothing was changed."""

    def __init__(self, message: str, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Finding:
    """One card of a review."""

    id: str
    origin: FirstOrigin
    contexts: tuple[str, ...]
    label: str
    keyframe: int
    frames: tuple[int, ...]
    decision: Decision = "undecided"
    set_aside: bool = False
    note: str = ""
    images: tuple[int, ...] | None = None
    confidence: float | None = None
    by: str | None = None
    at: datetime | None = None

    @property
    def shown_images(self) -> tuple[int, ...]:
        """Frames that the report shows."""
        return (self.keyframe,) if self.images is None else self.images


@dataclass(frozen=True)
class Mark:
    """A landmark and who set it."""

    frame: int
    by: str
    at: datetime


@dataclass(frozen=True)
class Signed:
    """A version of the report that is final."""

    version: int
    by: str
    at: datetime
    reason: str | None
    sequence: int


@dataclass(frozen=True)
class State:
    """A review."""

    frames: int
    """Of the exam."""
    findings: Mapping[str, Finding]
    landmarks: Mapping[a.Landmark, Mark] = field(default_factory=dict)
    cleanliness: a.Brotz | None = None
    lewis: a.Lewis | None = None
    cecdai: a.Cecdai | None = None
    note: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Texts that the reader wrote instead of the made ones."""
    signatures: tuple[Signed, ...] = ()
    is_signed: bool = False
    reason: str | None = None
    """Of the addendum that is being written."""

    @property
    def undecided(self) -> int:
        """Cards that wait for a decision."""
        return sum(one.decision == "undecided" and not one.set_aside for one in self.findings.values())

    @property
    def confirmed(self) -> tuple[Finding, ...]:
        """What the report tells, in order of time."""
        return tuple(
            sorted(
                (one for one in self.findings.values() if one.decision == "confirmed"),
                key=lambda one: (one.keyframe, one.id),
            )
        )


@dataclass(frozen=True)
class Event:
    """Something that a person did."""

    sequence: int
    """From 1, without gaps."""
    by: str
    at: datetime
    action: a.Action


def initial_state(summary: Summary | None, frames: int) -> State:
    """Return the state before the first event."""
    if summary is None:
        return State(frames, {})
    return State(frames, {item.id: _card(item) for item in (*summary.items, *summary.dropped)})


def _card(item: SummaryItem) -> Finding:
    is_kept = item.verdict == "kept"
    return Finding(
        id=item.id,
        origin="software" if is_kept else "set_aside",
        contexts=(item.id,),
        label=item.label,
        keyframe=item.keyframe.frame,
        frames=tuple(sorted({one.frame for one in (item.keyframe, *item.support, *item.dissent)})),
        set_aside=not is_kept,
        confidence=item.confidence,
    )


# --- undo and redo -------------------------------------------------------------------------------------------------


def undone_sequences(events: Iterable[Event]) -> frozenset[int]:
    """Name the events that do not count."""
    undone: set[int] = set()
    for event in events:
        if isinstance(event.action, a.Undo) and event.action.target is not None:
            undone.add(event.action.target)
        elif isinstance(event.action, a.Redo) and event.action.target is not None:
            undone.discard(event.action.target)
    return frozenset(undone)


def fold(initial: State, events: Sequence[Event]) -> State:
    """Add events up."""
    undone, state = undone_sequences(events), initial
    for event in events:
        if event.sequence not in undone and not isinstance(event.action, (a.Undo, a.Redo)):
            state = apply(state, event)
    return state


def undo_target(events: Sequence[Event], by: str) -> int | None:
    """Find what undo takes back: the same person's last action that counts and that no signature has sealed."""
    undone = undone_sequences(events)
    for event in reversed(events):
        if isinstance(event.action, (a.Sign, a.Addendum)):
            return None
        if event.by == by and event.sequence not in undone and not isinstance(event.action, (a.Undo, a.Redo)):
            return event.sequence
    return None


def redo_target(events: Sequence[Event], by: str) -> int | None:
    """Find what redo does again: what the same person undid last, unless they have acted since."""
    waiting: list[int] = []
    for event in events:
        if isinstance(event.action, (a.Sign, a.Addendum)):
            waiting = []
        elif event.by != by:
            continue
        elif isinstance(event.action, a.Undo) and event.action.target is not None:
            waiting.append(event.action.target)
        elif isinstance(event.action, a.Redo) and waiting:
            waiting.pop()
        else:
            waiting = []
    return waiting[-1] if waiting else None


def resolve(events: Sequence[Event], action: a.Action, by: str) -> a.Action:
    """Say which event an undo or redo means; every other action stays as it is."""
    if isinstance(action, (a.Undo, a.Redo)):
        is_undo = isinstance(action, a.Undo)
        target = (undo_target if is_undo else redo_target)(events, by)
        if target is None:
            raise RefusedError(f"there is nothing to {action.kind}")
        if action.target not in (None, target):
            raise RefusedError(f"only your own last action can be {'undone' if is_undo else 'done again'}")
        return action.model_copy(update={"target": target})
    return action


def add_event(initial: State, events: Sequence[Event], action: a.Action, by: str, at: datetime) -> tuple[Event, State]:
    """Return the event that an action becomes and the state after it, or refuse it."""
    event = Event(len(events) + 1, by, at, resolve(events, action, by))
    try:
        return event, fold(initial, (*events, event))
    except RefusedError as error:
        if isinstance(event.action, (a.Undo, a.Redo)):
            raise RefusedError(f"later decisions build on it ({error})") from error
        raise


# --- what each action does -----------------------------------------------------------------------------------------


def apply(state: State, event: Event) -> State:
    """Return the state after one event that counts."""
    action = event.action
    if state.is_signed and not isinstance(action, a.Addendum):
        raise RefusedError("the report is signed; begin an addendum to change anything", "signed")
    return _APPLY[type(action)](state, event, action)


def _find(state: State, name: str) -> Finding:
    if name not in state.findings:
        raise RefusedError(f"there is no finding {name} any more")
    return state.findings[name]


def _frame(state: State, frame: int) -> int:
    if frame >= state.frames:
        raise RefusedError(f"there is no frame {frame}; the exam has frames 0 to {state.frames - 1}")
    return frame


def _with(state: State, event: Event, *changed: Finding, gone: Iterable[str] = ()) -> State:
    out = set(gone)
    kept = {name: one for name, one in state.findings.items() if name not in out}
    kept |= {one.id: replace(one, by=event.by, at=event.at) for one in changed}
    return replace(state, findings=kept)


def _confirm(state: State, event: Event, action: a.Confirm) -> State:
    return _with(state, event, replace(_find(state, action.finding), decision="confirmed", set_aside=False))


def _reject(state: State, event: Event, action: a.Reject) -> State:
    return _with(state, event, replace(_find(state, action.finding), decision="rejected"))


def _reconsider(state: State, event: Event, action: a.Reconsider) -> State:
    return _with(state, event, replace(_find(state, action.finding), decision="undecided"))


def _restore(state: State, event: Event, action: a.Restore) -> State:
    found = _find(state, action.finding)
    if not found.set_aside:
        raise RefusedError(f"finding {found.id} was not set aside")
    return _with(state, event, replace(found, set_aside=False, decision="undecided"))


def _relabel(state: State, event: Event, action: a.Relabel) -> State:
    return _with(state, event, replace(_find(state, action.finding), label=action.label))


def _move_keyframe(state: State, event: Event, action: a.MoveKeyframe) -> State:
    found, frame = _find(state, action.finding), _frame(state, action.frame)
    return _with(state, event, replace(found, keyframe=frame, frames=tuple(sorted({*found.frames, frame}))))


def _split(state: State, event: Event, action: a.Split) -> State:
    found = _find(state, action.finding)
    before = tuple(frame for frame in found.frames if frame < action.frame)
    after = tuple(frame for frame in found.frames if frame >= action.frame)
    if not before or not after:
        raise RefusedError(f"frame {action.frame} does not divide the frames of finding {found.id}")

    def part(frames: tuple[int, ...]) -> Finding:
        keyframe = found.keyframe if found.keyframe in frames else frames[len(frames) // 2]
        chosen = None if found.images is None else tuple(frame for frame in found.images if frame in frames)
        return replace(found, frames=frames, keyframe=keyframe, images=chosen)

    second = replace(part(after), id=f"{found.id.partition('-s')[0]}-s{event.sequence}")
    return _with(state, event, part(before), replace(second, label=action.label or found.label))


def _merge(state: State, event: Event, action: a.Merge) -> State:
    parts = [_find(state, name) for name in dict.fromkeys(action.findings)]
    if len(parts) < 2:
        raise RefusedError("a finding cannot be merged with itself")
    first = parts[0]
    chosen = [frame for one in parts if one.images for frame in one.images]
    whole = replace(
        first,
        contexts=tuple(dict.fromkeys(name for one in parts for name in one.contexts)),
        frames=tuple(sorted({frame for one in parts for frame in one.frames})),
        set_aside=all(one.set_aside for one in parts),
        note="\n".join(one.note for one in parts if one.note),
        images=tuple(dict.fromkeys(chosen)) or first.images,
    )
    return _with(state, event, whole, gone=[one.id for one in parts])


def _add(state: State, event: Event, action: a.Add) -> State:
    frame = _frame(state, action.frame)
    own = Finding(f"own-{event.sequence}", "reader", (), action.label, frame, (frame,), "confirmed", note=action.note)
    return _with(state, event, own)


def _note(state: State, event: Event, action: a.Note) -> State:
    if action.finding is None:
        return replace(state, note=action.text)
    return _with(state, event, replace(_find(state, action.finding), note=action.text))


def _images(state: State, event: Event, action: a.Images) -> State:
    found = _find(state, action.finding)
    chosen = None if action.frames is None else tuple(dict.fromkeys(_frame(state, one) for one in action.frames))
    others = sum(len(one.images or ()) for one in state.findings.values() if one.id != found.id)
    if chosen and others + len(chosen) > a.MOST_IMAGES:
        raise RefusedError(f"a report shows at most {a.MOST_IMAGES} images; take others out first")
    return _with(state, event, replace(found, images=chosen))


def _landmark(state: State, event: Event, action: a.SetLandmark) -> State:
    marks = {name: mark for name, mark in state.landmarks.items() if name != action.name}
    if action.frame is not None:
        marks[action.name] = Mark(_frame(state, action.frame), event.by, event.at)
    return replace(state, landmarks=marks)


def _report(state: State, event: Event, action: a.WriteReport) -> State:
    texts = {name: text for name, text in state.sections.items() if name != action.section}
    return replace(state, sections=texts if action.text is None else {**texts, action.section: action.text})


def _sign(state: State, event: Event, action: a.Sign) -> State:
    if state.undecided and not action.despite_undecided:
        count = state.undecided
        raise RefusedError(f"{count} finding{'s have' if count > 1 else ' has'} no decision yet", "undecided")
    signed = Signed(len(state.signatures) + 1, event.by, event.at, state.reason, event.sequence)
    return replace(state, signatures=(*state.signatures, signed), is_signed=True, reason=None)


def _addendum(state: State, event: Event, action: a.Addendum) -> State:
    if not state.is_signed:
        raise RefusedError("the report is not signed yet; simply change it")
    return replace(state, is_signed=False, reason=action.reason)


_APPLY: dict[type, Callable[[State, Event, Any], State]] = {
    a.Confirm: _confirm,
    a.Reject: _reject,
    a.Reconsider: _reconsider,
    a.Restore: _restore,
    a.Relabel: _relabel,
    a.MoveKeyframe: _move_keyframe,
    a.Split: _split,
    a.Merge: _merge,
    a.Add: _add,
    a.Note: _note,
    a.Images: _images,
    a.SetLandmark: _landmark,
    a.SetCleanliness: lambda state, event, action: replace(state, cleanliness=action.value),
    a.SetLewis: lambda state, event, action: replace(state, lewis=action.value),
    a.SetCecdai: lambda state, event, action: replace(state, cecdai=action.value),
    a.WriteReport: _report,
    a.Sign: _sign,
    a.Addendum: _addendum,
}


# --- before and after, for the audit trail -------------------------------------------------------------------------


def difference(before: State, after: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what an event changed, as it was and as it is, fit for JSON."""
    old, new = _plain(before), _plain(after)
    was: dict[str, Any] = {}
    now: dict[str, Any] = {}
    for part, value in new.items():
        if isinstance(value, dict) and isinstance(old[part], dict):
            changed = sorted({*value, *old[part]}, key=str)
            changed = [name for name in changed if value.get(name) != old[part].get(name)]
            if changed:
                was[part] = {name: old[part].get(name) for name in changed}
                now[part] = {name: value.get(name) for name in changed}
        elif value != old[part]:
            was[part], now[part] = old[part], value
    return was, now


def _plain(state: State) -> dict[str, Any]:
    return {
        "findings": {name: asdict(one) for name, one in state.findings.items()},
        "landmarks": {name: asdict(mark) for name, mark in state.landmarks.items()},
        "cleanliness": state.cleanliness.model_dump() if state.cleanliness else None,
        "lewis": state.lewis.model_dump() if state.lewis else None,
        "cecdai": state.cecdai.model_dump() if state.cecdai else None,
        "note": state.note,
        "sections": dict(state.sections),
        "signatures": [asdict(one) for one in state.signatures],
        "reason": state.reason,
    }
