"""One item per finding, and no more than somebody will look at."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.condenser import CondenserConfig, When, condense, join_repeats, keep_strongest, settle
from dice_ce.converger import ConvergerConfig, Judgment, converge
from dice_ce.weaver import Context

ULCER, POLYP, NORMAL = 0, 1, 2
SURE_ULCER, SURE_POLYP, SURE_NORMAL = [0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.05, 0.05, 0.9]


def judged(*contexts: list[list[float]]) -> list[Judgment]:
    """Judge contexts whose frames follow each other."""
    p = np.array([frame for context in contexts for frame in context], np.float32)
    ends = np.cumsum([len(context) for context in contexts])
    found = [Context(i, 0, np.arange(end - len(c), end)) for i, (c, end) in enumerate(zip(contexts, ends, strict=True))]
    return converge(found, p, NORMAL, ConvergerConfig(0.3, 0.4))


def at(seconds: npt.ArrayLike) -> When:
    """Contexts are seen where their first supporting frame is; the frames have these times."""
    return lambda one: float(np.asarray(seconds)[one.retained[0]])


def test_nothing_changes_unless_it_is_asked_for() -> None:
    before = judged([SURE_ULCER], [SURE_ULCER], [SURE_NORMAL])
    assert condense(before, at(np.arange(3.0)), CondenserConfig()) == before


def test_one_label_seen_again_soon_is_one_finding() -> None:
    before = judged([SURE_ULCER, SURE_ULCER], [[0.6, 0.2, 0.2], SURE_POLYP, SURE_ULCER], [SURE_POLYP], [SURE_ULCER])
    seconds = np.array([0.0, 1.0, 100.0, 101.0, 102.0, 103.0, 400.0])
    whole, polyp, later = join_repeats(before, at(seconds), 300.0)
    assert (whole.label, polyp.label, later.label) == (ULCER, POLYP, ULCER)
    assert whole.context.rows.tolist() == [0, 1, 2, 3, 4]
    assert whole.retained.tolist() == [0, 1, 2, 4]
    assert whole.dissent.tolist() == [3]
    # P_ref of the four frames: 0.8 + 0.8 + 0.6 + 0.8 of 4
    assert whole.confidence == pytest.approx(0.75)
    assert whole.margin == pytest.approx(0.75 - 0.125)
    assert [context.coarse for context in whole.joined] == [1]
    assert later.joined == ()


def test_a_group_does_not_grow_from_repeat_to_repeat() -> None:
    before = judged([SURE_ULCER], [SURE_ULCER], [SURE_ULCER])
    groups = join_repeats(before, at([0.0, 200.0, 400.0]), 300.0)
    assert [group.context.rows.tolist() for group in groups] == [[0, 1], [2]]


def test_what_was_dropped_is_never_joined() -> None:
    before = judged([SURE_NORMAL], [SURE_NORMAL], [[0.39, 0.31, 0.3]], [[0.39, 0.31, 0.3]])
    assert [one.verdict for one in before] == ["normal", "normal", "low_confidence", "low_confidence"]
    assert join_repeats(before, at(np.arange(4.0)), 300.0) == before


def test_of_two_labels_at_one_moment_the_better_supported_stands() -> None:
    """Evidence 0.8, 1.4, 2.4, 0.8 at 0, 50, 90 and 200 s: the polyp yields to the third."""
    before = judged([SURE_ULCER], [SURE_POLYP, SURE_POLYP], [SURE_ULCER] * 3, [SURE_ULCER])
    seconds = np.array([0.0, 50.0, 50.0, 90.0, 90.0, 90.0, 200.0])

    def verdicts(within: float) -> list[str]:
        return [one.verdict for one in settle(before, at(seconds), within)]

    assert verdicts(30) == ["kept"] * 4
    assert verdicts(40) == ["kept", "outranked", "kept", "kept"]
    weaker = settle(judged([SURE_ULCER], [SURE_POLYP, SURE_POLYP]), at([0.0, 50.0, 50.0]), 60)
    assert [one.verdict for one in weaker] == ["outranked", "kept"]


def test_those_with_most_evidence_stay() -> None:
    """P_ref[y]: 0.8, 1.4 and 2.4; one frame, however sure, is less than two."""
    before = judged([SURE_ULCER], [SURE_POLYP, SURE_POLYP], [SURE_NORMAL], [SURE_ULCER] * 3)
    verdicts = [one.verdict for one in keep_strongest(before, 2)]
    assert verdicts == ["outranked", "kept", "normal", "kept"]


frame = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda row: (np.array(row) / sum(row)).tolist())


@given(
    st.lists(st.lists(frame, min_size=1, max_size=4), min_size=1, max_size=8),
    st.floats(0, 50),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_condensing_loses_no_frame_and_no_label(contexts, within, most, chance) -> None:  # type: ignore[no-untyped-def]
    before = judged(*contexts)
    count = sum(len(context) for context in contexts)
    seconds = np.sort([chance.uniform(0, 100) for _ in range(count)])
    after = condense(before, at(seconds), CondenserConfig(within, within / 2, most))
    rows = np.concatenate([one.context.rows for one in after])
    assert sorted(rows.tolist()) == list(range(count))
    assert sum(one.verdict == "kept" for one in after) <= most
    assert {one.label for one in after} == {one.label for one in before}
    for one in after:
        parts = [part for part in before if part.context.rows[0] in one.context.rows]
        assert {part.label for part in parts} == {one.label}
        assert int(one.evidence.argmax()) == one.label or one.evidence.max() == pytest.approx(one.confidence)
        assert one.confidence >= min(part.confidence for part in parts) - 1e-9
        assert one.evidence.sum() == pytest.approx(1)
        assert sorted([*one.retained, *one.dissent]) == one.context.rows.tolist()
