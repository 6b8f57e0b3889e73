"""The context score orders contexts, and decides which of those that the converger kept become items."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.exam.frames import FrameTable
from dice_ce.method.beyond.ranking import FEATURES, Ranker, RankingSettings, describe_contexts, rank_contexts
from dice_ce.method.chain import Diagnosed, Judged, Woven
from dice_ce.method.converger import ConvergerSettings, converge
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.selector import Candidates
from dice_ce.method.weaver import Context
from dice_ce.taxonomy import Taxonomy

LABELS = Taxonomy("three", ("ulcer", "polyp", "normal"))
SURE, LESS_SURE, NORMAL, DOUBTFUL = [0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.05, 0.9], [0.31, 0.39, 0.3]


CHANGED = ("verdict", "likelihood")


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
    diagnosed = Diagnosed(candidates, distributions, LABELS)
    found = tuple(
        Context(i, 0, np.arange(end - size, end)) for i, (end, size) in enumerate(zip(ends, sizes, strict=True))
    )
    woven = Woven(diagnosed, found, Keyframes(candidates))
    return Judged(woven, distributions, tuple(converge(found, distributions, 2, ConvergerSettings(tau_min=0.4))))


def verdicts(judged: Judged) -> list[str]:
    return [one.verdict for one in judged.judgments]


def ranker_of(name: str, slope: float = 1.0) -> Ranker:
    """A context score that looks at one feature only."""
    weight = np.where(np.array(FEATURES) == name, slope, 0.0).astype(np.float32)
    return Ranker(np.zeros(len(FEATURES), np.float32), np.ones(len(FEATURES), np.float32), weight, 0.0)


def test_by_default_nothing_is_set_aside() -> None:
    before = judge([[SURE], [LESS_SURE], [NORMAL], [DOUBTFUL]], [0.0, 0.0, 0.0, 0.0])
    after = rank_contexts(before, ranker_of("confidence"), RankingSettings())
    assert verdicts(after) == verdicts(before) == ["kept", "kept", "normal", "low_confidence"]


def test_without_a_score_the_confidence_orders() -> None:
    after = rank_contexts(judge([[LESS_SURE], [SURE]], [0.0, 9.0]), None, RankingSettings(most_items=1))
    assert verdicts(after) == ["unlikely", "kept"]
    assert [one.likelihood for one in after.judgments] == pytest.approx([0.7, 0.8])


def test_where_confidence_gives_the_order_the_score_has_no_say() -> None:
    judged = judge([[LESS_SURE] * 4, [SURE]], [0.0, 9.0])
    after = rank_contexts(judged, ranker_of("frames"), RankingSettings("confidence", most_items=1))
    assert verdicts(after) == ["unlikely", "kept"]


def test_the_score_overrules_the_confidence() -> None:
    judged = judge([[LESS_SURE] * 4, [SURE]], [0.0, 9.0])
    after = rank_contexts(judged, ranker_of("frames"), RankingSettings("likelihood", most_items=1))
    assert verdicts(after) == ["kept", "unlikely"]
    assert [one.likelihood for one in after.judgments] == pytest.approx([4 / 5, 1 / 2])  # sigmoid of log 4 and log 1


def test_what_would_hardly_be_reported_is_set_aside() -> None:
    judged = judge([[SURE] * 3, [SURE]], [0.0, 900.0])
    at = [
        verdicts(rank_contexts(judged, ranker_of("frames"), RankingSettings("likelihood", tau)))
        for tau in (0.5, 0.501, 0.76)
    ]
    assert at == [["kept", "kept"], ["kept", "unlikely"], ["unlikely", "unlikely"]]


def test_of_contexts_close_together_the_likeliest_is_kept() -> None:
    """At 0, 50, 90 and 200 s with 1, 2, 3 and 1 frames; what was set aside sets nothing aside."""
    judged = judge([[SURE], [LESS_SURE] * 2, [SURE] * 3, [SURE]], [0.0, 50.0, 90.0, 200.0])

    def apart(seconds: float) -> list[str]:
        return verdicts(
            rank_contexts(judged, ranker_of("frames"), RankingSettings("likelihood", apart_seconds=seconds))
        )

    assert apart(39.9) == ["kept"] * 4
    assert apart(50.0) == ["kept", "beside_likelier", "kept", "kept"]
    assert apart(110.0) == ["beside_likelier", "beside_likelier", "kept", "beside_likelier"]


def test_what_the_converger_dropped_is_in_nobody_s_way() -> None:
    judged = judge([[NORMAL] * 5, [DOUBTFUL] * 5, [SURE]], [0.0, 0.0, 0.0])
    after = rank_contexts(judged, ranker_of("frames"), RankingSettings("likelihood", apart_seconds=10, most_items=1))
    assert verdicts(after) == ["normal", "low_confidence", "kept"]
    assert all(one.likelihood > 0 for one in after.judgments), "a reader may ask for more of them, the likeliest first"


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
    after = rank_contexts(before, ranker_of("evidence"), RankingSettings("likelihood", 0.0, apart, most))
    for old, new in zip(before.judgments, after.judgments, strict=True):
        assert all(vars(new)[name] is value for name, value in vars(old).items() if name not in CHANGED)
        assert new.verdict == old.verdict or old.verdict == "kept"
    kept = [after.woven.keyframes.seconds(one) for one in after.kept]
    assert len(kept) == len(before.kept) if not apart and most is None else len(kept) <= (most or len(before.kept))
    assert apart == 0 or all(abs(a - b) > apart for i, a in enumerate(kept) for b in kept[:i])
    least = min((one.likelihood for one in after.kept), default=0.0)
    passed_over = [one.likelihood for one in after.judgments if one.verdict == "unlikely"]
    assert not kept or max(passed_over, default=0.0) <= least or apart


def test_every_feature_has_its_column_and_is_a_number() -> None:
    found = describe_contexts(judge([[SURE] * 3, [NORMAL], [LESS_SURE, DOUBTFUL]], [0.0, 10.0, 400.0]))
    assert found.shape == (3, len(FEATURES))
    assert np.isfinite(found).all()
    columns = dict(zip(FEATURES, found.T, strict=True))
    assert columns["frames"] == pytest.approx(np.log([3, 1, 2]))
    assert columns["neighbours"] == pytest.approx(np.log([2, 2, 1])), "within 300 s, itself counted"
    assert columns["share of the candidates"] == pytest.approx([0.5, 1 / 6, 1 / 3])
    assert columns["contexts of its label"] == pytest.approx(np.log([1, 1, 1]))
    assert columns["distance to the ends"] == pytest.approx([0, 10 / 400, 0])
    assert columns["rank of confidence"] == pytest.approx([0.5, 1.0, 0.0])


def test_a_score_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="a ranker has"):
        Ranker(np.zeros(3, np.float32), np.ones(3, np.float32), np.zeros(3, np.float32), 0.0)


def test_weights_survive_storing() -> None:
    before = ranker_of("frames", 0.3)
    after = Ranker.from_arrays(before.arrays())
    assert after is not None
    np.testing.assert_array_equal(after.weight, before.weight)
    assert Ranker.from_arrays({}) is None
