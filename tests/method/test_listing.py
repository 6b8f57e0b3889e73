"""The list: the surest of what the converger kept, apart from each other, and not too many."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.exam.frames import FrameTable
from dice_ce.method.beyond.listing import ListingSettings, abnormality, list_items
from dice_ce.method.chain import Diagnosed, Judged, Woven
from dice_ce.method.converger import ConvergerSettings, converge
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.selector import Candidates
from dice_ce.method.weaver import Context
from dice_ce.taxonomy import Taxonomy

LABELS = Taxonomy("three", ("ulcer", "polyp", "normal"))
SURE, LESS_SURE, NORMAL, DOUBTFUL = [0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9], [0.31, 0.39, 0.3]


def judge(contexts: list[list[list[float]]], seconds: list[float]) -> Judged:
    """Judge contexts that follow each other; all frames of one have its time."""
    sizes = [len(context) for context in contexts]
    ends = np.cumsum(sizes)
    index = np.arange(ends[-1])
    vectors = np.eye(8, dtype=np.float32)[index % 8]
    candidates = Candidates(
        FrameTable(index, index, Fraction(1)), np.repeat(seconds, sizes), vectors, np.linspace(0.5, 1, len(index))
    )
    distributions = np.array([frame for context in contexts for frame in context], np.float32)
    found = tuple(
        Context(i, 0, np.arange(end - size, end)) for i, (end, size) in enumerate(zip(ends, sizes, strict=True))
    )
    diagnosed = Diagnosed(Woven(candidates, found, Keyframes(candidates)), distributions, LABELS)
    return Judged(diagnosed, distributions, tuple(converge(found, distributions, 2, ConvergerSettings(tau_min=0.4))))


def verdicts(judged: Judged) -> list[str]:
    return [one.verdict for one in judged.judgments]


def test_by_default_nothing_is_set_aside() -> None:
    before = judge([[SURE], [LESS_SURE], [NORMAL], [DOUBTFUL]], [0.0, 0.0, 0.0, 0.0])
    after = list_items(before, ListingSettings())
    assert verdicts(after) == verdicts(before) == ["kept", "kept", "normal", "low_confidence"]


def test_a_limit_keeps_what_is_most_surely_a_lesion_whichever_it_is() -> None:
    """One frame that is 0.95 no normal one, though nobody knows what it is, comes before four of 0.9."""
    judged = judge([[SURE] * 4, [[0.4, 0.55, 0.05]]], [0.0, 9.0])
    assert verdicts(list_items(judged, ListingSettings(most_items=1))) == ["beyond_limit", "kept"]
    assert verdicts(list_items(judged, ListingSettings(most_items=0))) == ["beyond_limit", "beyond_limit"]


def test_of_contexts_equally_sure_the_earlier_is_kept() -> None:
    judged = judge([[SURE], [SURE]], [0.0, 900.0])
    assert verdicts(list_items(judged, ListingSettings(most_items=1))) == ["kept", "beyond_limit"]


def test_of_contexts_close_together_the_surest_is_kept() -> None:
    """At 0, 50, 90 and 200 s, the third the least normal, then the second; what was set aside sets nothing aside."""
    frames = [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.8, 0.15, 0.05], [0.55, 0.25, 0.2]]
    judged = judge([[frame] for frame in frames], [0.0, 50.0, 90.0, 200.0])

    def apart(seconds: float) -> list[str]:
        return verdicts(list_items(judged, ListingSettings(apart_seconds=seconds)))

    assert apart(39.9) == ["kept"] * 4
    assert apart(50.0) == ["kept", "beside_surer", "kept", "kept"]
    assert apart(110.0) == ["beside_surer", "beside_surer", "kept", "beside_surer"]


def test_frames_that_were_not_looked_at_have_no_say() -> None:
    judged = judge([[SURE, SURE], [SURE]], [0.0, 9.0])
    judged.distributions[0] = np.nan
    assert abnormality(judged, judged.judgments[0]) == abnormality(judged, judged.judgments[1])


def test_what_the_converger_dropped_is_in_nobody_s_way() -> None:
    judged = judge([[NORMAL] * 5, [DOUBTFUL] * 5, [SURE]], [0.0, 0.0, 0.0])
    after = list_items(judged, ListingSettings(apart_seconds=10, most_items=1))
    assert verdicts(after) == ["normal", "low_confidence", "kept"]


frame = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda row: (np.array(row) / sum(row)).tolist())


@given(
    st.lists(st.lists(frame, min_size=1, max_size=4), min_size=1, max_size=8),
    st.lists(st.floats(0, 200), min_size=8, max_size=8),
    st.sampled_from([0.0, 30.0]),
    st.sampled_from([None, 0, 1, 3]),
)
@settings(deadline=None)
def test_nothing_is_lost_and_items_lie_apart(
    contexts: list[list[list[float]]], seconds: list[float], apart: float, most: int | None
) -> None:
    before = judge(contexts, sorted(seconds[: len(contexts)]))
    after = list_items(before, ListingSettings(apart, most))
    for old, new in zip(before.judgments, after.judgments, strict=True):
        assert all(vars(new)[name] is value for name, value in vars(old).items() if name != "verdict")
        assert new.verdict == old.verdict or old.verdict == "kept"
    kept = [after.keyframes.seconds(one) for one in after.kept]
    assert len(kept) == len(before.kept) if not apart and most is None else len(kept) <= (most or len(before.kept))
    assert apart == 0 or all(abs(a - b) > apart for i, a in enumerate(kept) for b in kept[:i])
    least = min((abnormality(after, one) for one in after.kept), default=0.0)
    passed_over = [abnormality(after, one) for one in after.judgments if one.verdict == "beyond_limit"]
    assert not kept or max(passed_over, default=0.0) <= least
