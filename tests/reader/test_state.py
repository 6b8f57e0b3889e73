"""The state is what the events add up to, whatever people do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dice_ce.reader import actions as a
from dice_ce.reader.state import (
    Event,
    RefusedError,
    State,
    add_event,
    difference,
    fold,
    initial_state,
    redo_target,
    undo_target,
)
from dice_ce.reader.storage import project
from tests.reader.material import make_summary

START = initial_state(make_summary(), 100)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACTION: TypeAdapter[a.Action] = TypeAdapter(a.Action)


def act(events: list[Event], by: str = "anna", **action: object) -> State:
    """Add an action and return the state after it."""
    made = ACTION.validate_python(action)
    event, state = add_event(START, events, made, by, NOON + timedelta(seconds=len(events)))
    events.append(event)
    return state


def test_kept_contexts_wait_for_a_decision_and_the_others_are_set_aside() -> None:
    assert START.undecided == 3
    assert {name: one.set_aside for name, one in START.findings.items()} == {
        "1.1": False,
        "1.2": False,
        "2.1": False,
        "2.2": True,
        "3.1": True,
    }


def test_confirming_what_was_set_aside_brings_it_back() -> None:
    card = act([], kind="confirm", finding="2.2").findings["2.2"]
    assert (card.decision, card.set_aside, card.by) == ("confirmed", False, "anna")


def test_split_divides_the_frames_and_each_part_keeps_a_keyframe_of_its_own() -> None:
    state = act([], kind="split", finding="1.1", frame=21, label="ulcer")
    first, second = state.findings["1.1"], state.findings["1.1-s1"]
    assert (first.frames, first.keyframe, first.label) == ((18, 19, 20), 20, "polyp")
    assert (second.frames, second.keyframe, second.label) == ((21, 22), 22, "ulcer")


def test_merge_is_undone_as_a_whole() -> None:
    events: list[Event] = []
    merged = act(events, kind="merge", findings=["1.1", "2.2"])
    assert "2.2" not in merged.findings
    assert merged.findings["1.1"].contexts == ("1.1", "2.2")
    assert len(merged.findings["1.1"].frames) == 10
    assert act(events, kind="undo").findings == START.findings


def test_undo_takes_back_ones_own_last_action_and_nobody_elses() -> None:
    events: list[Event] = []
    act(events, "anna", kind="confirm", finding="1.1")
    act(events, "ben", kind="reject", finding="1.2")
    state = act(events, "anna", kind="undo")
    assert state.findings["1.1"].decision == "undecided"
    assert state.findings["1.2"].decision == "rejected"
    with pytest.raises(RefusedError, match="nothing to undo"):
        act(events, "anna", kind="undo")
    assert act(events, "anna", kind="redo").findings["1.1"].decision == "confirmed"
    assert redo_target(events, "anna") is None


def test_what_others_build_on_cannot_be_undone() -> None:
    events: list[Event] = []
    act(events, "anna", kind="add", frame=5, label="polyp")
    act(events, "ben", kind="reject", finding="own-1")
    with pytest.raises(RefusedError, match="later decisions build on it"):
        act(events, "anna", kind="undo")


def test_acting_anew_ends_redo() -> None:
    events: list[Event] = []
    act(events, kind="confirm", finding="1.1")
    act(events, kind="undo")
    act(events, kind="reject", finding="1.1")
    assert redo_target(events, "anna") is None
    assert undo_target(events, "anna") == 3


def test_a_signature_seals_everything_before_it() -> None:
    events: list[Event] = []
    act(events, kind="confirm", finding="1.1")
    with pytest.raises(RefusedError, match="2 findings have no decision yet"):
        act(events, kind="sign")
    act(events, kind="sign", despite_undecided=True)
    for action in ({"kind": "undo"}, {"kind": "reject", "finding": "1.1"}, {"kind": "sign"}):
        with pytest.raises(RefusedError):
            act(events, **action)
    act(events, kind="addendum", reason="more to say")
    assert undo_target(events, "anna") is None
    assert [one.version for one in act(events, kind="sign", despite_undecided=True).signatures] == [1, 2]


@pytest.mark.parametrize(
    "action",
    [
        {"kind": "confirm", "finding": "9.9"},
        {"kind": "move_keyframe", "finding": "1.1", "frame": 100},
        {"kind": "split", "finding": "1.1", "frame": 18},
        {"kind": "merge", "findings": ["1.1", "1.1"]},
        {"kind": "restore", "finding": "1.1"},
        {"kind": "addendum", "reason": "too early"},
        {"kind": "redo"},
    ],
    ids=lambda action: action["kind"],
)
def test_what_makes_no_sense_is_refused(action: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        act([], **action)


def test_no_report_has_more_images_than_fit() -> None:
    events: list[Event] = []
    act(events, kind="images", finding="1.1", frames=list(range(10)))
    with pytest.raises(RefusedError, match="at most 12 images"):
        act(events, kind="images", finding="1.2", frames=[1, 2, 3])


names = st.sampled_from(["1.1", "1.2", "2.1", "2.2", "own-1", "own-3", "1.1-s2"])
frames = st.integers(0, 105)
anything = st.one_of(
    st.builds(a.Confirm, kind=st.just("confirm"), finding=names),
    st.builds(a.Reject, kind=st.just("reject"), finding=names),
    st.builds(a.Restore, kind=st.just("restore"), finding=names),
    st.builds(a.Relabel, kind=st.just("relabel"), finding=names, label=st.sampled_from(["ulcer", "polyp"])),
    st.builds(a.MoveKeyframe, kind=st.just("move_keyframe"), finding=names, frame=frames),
    st.builds(a.Split, kind=st.just("split"), finding=names, frame=frames, label=st.none()),
    st.builds(a.Merge, kind=st.just("merge"), findings=st.tuples(names, names)),
    st.builds(a.Add, kind=st.just("add"), frame=frames, label=st.just("erosion")),
    st.builds(a.Note, kind=st.just("note"), finding=st.none() | names, text=st.text(max_size=5)),
    st.builds(
        a.SetLandmark,
        kind=st.just("landmark"),
        name=st.sampled_from(["first_gastric", "ileocaecal"]),
        frame=st.none() | frames,
    ),
    st.builds(a.Sign, kind=st.just("sign"), despite_undecided=st.booleans()),
    st.builds(a.Addendum, kind=st.just("addendum"), reason=st.just("why")),
    st.builds(a.Undo, kind=st.just("undo")),
    st.builds(a.Redo, kind=st.just("redo")),
)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(["anna", "ben"]), anything), max_size=25))
def test_any_history_adds_up(history: list[tuple[str, a.Action]]) -> None:
    events: list[Event] = []
    state = START
    for by, action in history:
        try:
            event, after = add_event(START, events, action, by, NOON)
        except RefusedError:
            continue
        before, state = state, after
        events.append(event)
        assert event.sequence == len(events)
        assert fold(START, events) == state, "adding up again gives the same"
        covered = {name for card in state.findings.values() for name in card.contexts}
        assert covered == set(START.findings), "no context of the software is ever lost"
        assert all(card.frames and card.keyframe in card.frames for card in state.findings.values())
        assert all(0 <= frame < 100 for card in state.findings.values() for frame in card.frames)
        assert before.signatures == state.signatures[: len(before.signatures)], "signatures stay"
        was, now = difference(before, state)
        assert was.keys() == now.keys()
        assert (was == {}) == (state == before), "the audit trail tells every change and no other"
        assert project(state, len(events))["undecided"] == (0 if state.is_signed else state.undecided)
        assert ACTION.validate_json(event.action.model_dump_json()) == event.action, "stored word for word"
        if not isinstance(action, (a.Undo, a.Redo, a.Sign, a.Addendum)):
            _, back = add_event(START, events, a.Undo(kind="undo"), by, NOON)
            assert back == before, "undo leads exactly back"
