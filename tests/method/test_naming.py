"""A context is found by its own frames, and named by those around it inside its anatomical context."""

from dataclasses import replace

import numpy as np
import pytest

from dice_ce.method.beyond.naming import NamingSettings, name_contexts
from dice_ce.method.chain import Judged
from dice_ce.method.converger import ConvergerSettings, converge
from tests.method.test_ranking import LESS_SURE, NORMAL, SURE, judge

ULCER, POLYP = 0, 1


def judge_in(coarse: list[int], frames: list[list[list[float]]], seconds: list[float]) -> Judged:
    """Judge contexts that lie in these anatomical contexts."""
    judged = judge(frames, seconds)
    contexts = tuple(replace(one, coarse=i) for one, i in zip(judged.woven.contexts, coarse, strict=True))
    judgments = converge(contexts, judged.distributions, judged.taxonomy.normal, ConvergerSettings())
    return Judged(replace(judged.woven, contexts=contexts), judged.distributions, tuple(judgments))


def labels(judged: Judged) -> list[int]:
    return [one.label for one in judged.judgments]


def test_off_means_that_nothing_changes() -> None:
    before = judge_in([0, 0], [[SURE], [LESS_SURE] * 3], [0.0, 10.0])
    assert name_contexts(before, NamingSettings()) is before


def test_a_lone_frame_takes_the_name_that_its_surroundings_give() -> None:
    before = judge_in([0, 0], [[SURE], [LESS_SURE] * 3], [0.0, 10.0])
    assert labels(before) == [ULCER, POLYP]
    assert labels(name_contexts(before, NamingSettings(9.9))) == [ULCER, POLYP], "too far away"
    assert labels(name_contexts(before, NamingSettings(10.0))) == [POLYP, POLYP]


def test_another_anatomical_context_has_no_say() -> None:
    before = judge_in([0, 1], [[SURE], [LESS_SURE] * 3], [0.0, 10.0])
    assert labels(name_contexts(before, NamingSettings(300.0))) == [ULCER, POLYP]


def test_whether_there_is_a_lesion_stays_as_the_context_says() -> None:
    before = judge_in([0, 0, 0], [[SURE], [NORMAL] * 9, [LESS_SURE] * 3], [0.0, 5.0, 10.0])
    after = name_contexts(before, NamingSettings(60.0))
    assert [one.verdict for one in after.judgments] == [one.verdict for one in before.judgments]
    normal = before.taxonomy.normal
    for old, new in zip(before.judgments, after.judgments, strict=True):
        assert new.evidence[normal] == pytest.approx(old.evidence[normal])
        assert new.evidence.sum() == pytest.approx(1)
        assert new.confidence == new.evidence[new.label]
        assert new.margin == pytest.approx(new.confidence - new.evidence[new.runner_up])
        np.testing.assert_array_equal(new.retained, old.retained)


def test_suspicious_frames_count_more() -> None:
    """Three frames that are nearly normal lean to a polyp; one that surely shows a lesion calls it an ulcer."""
    before = judge_in([0, 0], [[[0.9, 0.05, 0.05]], [[0.1, 0.3, 0.6]] * 3], [0.0, 10.0])
    assert labels(name_contexts(before, NamingSettings(60.0)))[0] == ULCER
