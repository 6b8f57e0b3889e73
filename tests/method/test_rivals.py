"""Of two labels at one moment only the better supported is kept."""

from collections.abc import Callable
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.method.beyond.rivals import RivalSettings, drop_rivals
from dice_ce.method.converger import ConvergerSettings, Judgment, converge
from dice_ce.method.weaver import Context

ULCER, POLYP, NORMAL = 0, 1, 2
SURE_ULCER, SURE_POLYP, SURE_NORMAL = [0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.05, 0.05, 0.9]
DOUBTFUL = [0.31, 0.39, 0.3]


def judged(*contexts: list[list[float]]) -> list[Judgment]:
    """Judge contexts whose frames follow each other."""
    p = np.array([frame for context in contexts for frame in context], np.float32)
    ends = np.cumsum([len(context) for context in contexts])
    found = [Context(i, 0, np.arange(end - len(c), end)) for i, (c, end) in enumerate(zip(contexts, ends, strict=True))]
    return converge(found, p, NORMAL, ConvergerSettings(tau_agree=0.3, tau_min=0.4))


def at(seconds: npt.ArrayLike) -> Callable[[Judgment], float]:
    """Contexts are seen where their first supporting frame is; the frames have these times."""
    return lambda one: float(np.asarray(seconds)[one.retained[0]])


def verdicts(contexts: list[list[list[float]]], seconds: list[float], within: float) -> list[str]:
    return [one.verdict for one in drop_rivals(judged(*contexts), at(seconds), RivalSettings(within))]


def test_by_default_nothing_changes() -> None:
    before = judged([SURE_ULCER], [SURE_POLYP], [SURE_NORMAL])
    assert drop_rivals(before, at([0.0, 0.0, 0.0]), RivalSettings()) == before


def test_of_two_labels_at_one_moment_the_better_supported_is_kept() -> None:
    """Evidence 0.8, 1.4, 2.4, 0.8 at 0, 50, 90 and 200 s: the polyp yields to the third."""
    contexts = [[SURE_ULCER], [SURE_POLYP] * 2, [SURE_ULCER] * 3, [SURE_ULCER]]
    seconds = [0.0, 50.0, 50.0, 90.0, 90.0, 90.0, 200.0]
    assert verdicts(contexts, seconds, 39.9) == ["kept"] * 4
    assert verdicts(contexts, seconds, 40) == ["kept", "contradicted", "kept", "kept"]
    assert verdicts(contexts[:2], seconds[:3], 60) == ["contradicted", "kept"], "two frames outweigh a surer one"


def test_of_equals_the_first_is_kept() -> None:
    assert verdicts([[SURE_ULCER], [[0.1, 0.8, 0.1]]], [5.0, 0.0], 10) == ["kept", "contradicted"]


def test_one_label_seen_twice_is_no_contradiction() -> None:
    assert verdicts([[SURE_ULCER], [SURE_ULCER] * 2], [0.0, 1.0, 1.0], 10) == ["kept", "kept"]


def test_what_was_dropped_contradicts_nothing() -> None:
    normal_and_doubtful = [[SURE_NORMAL] * 5, [DOUBTFUL] * 5, [SURE_ULCER]]
    assert verdicts(normal_and_doubtful, [0.0] * 11, 10) == ["normal", "low_confidence", "kept"]
    # The polyp yields to the first ulcer; the last ulcer was near the polyp only.
    chain = [[SURE_ULCER] * 3, [SURE_POLYP] * 2, [SURE_ULCER], [SURE_POLYP]]
    seconds = [0.0, 0.0, 0.0, 50.0, 50.0, 100.0, 160.0]
    assert verdicts(chain, seconds, 50) == ["kept", "contradicted", "kept", "kept"]


frame = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda row: (np.array(row) / sum(row)).tolist())


@given(
    st.lists(st.lists(frame, min_size=1, max_size=4), min_size=1, max_size=8),
    st.floats(0, 50),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_nothing_is_lost_and_one_moment_has_one_label(
    contexts: list[list[list[float]]], within: float, chance: Random
) -> None:
    before = judged(*contexts)
    seconds_of = at([chance.uniform(0, 100) for context in contexts for _ in context])
    after = drop_rivals(before, seconds_of, RivalSettings(within))
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        assert all(vars(new)[name] is value for name, value in vars(old).items() if name != "verdict")
        assert new.verdict == old.verdict or (old.verdict, new.verdict) == ("kept", "contradicted")
    kept = [one for one in after if one.verdict == "kept"]
    assert bool(kept) == any(one.verdict == "kept" for one in before)

    def contradict(one: Judgment, other: Judgment) -> bool:
        return one.label != other.label and abs(seconds_of(one) - seconds_of(other)) <= within

    if within > 0:
        assert not any(contradict(one, other) for one in kept for other in kept)
    for one in after:
        if one.verdict == "contradicted":
            stronger = [other for other in kept if contradict(one, other)]
            own, best = (max(evidence_of(x) for x in some) for some in ([one], stronger))
            assert best >= own or best == pytest.approx(own)


def evidence_of(judgment: Judgment) -> float:
    """P_ref[y], before it was normalised."""
    return float(judgment.evidence[judgment.label] * len(judgment.retained))
