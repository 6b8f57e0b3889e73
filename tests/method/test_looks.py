"""Which frames of a context the diagnoser looks at, and what becomes of the others."""

from fractions import Fraction

import numpy as np
import pytest

from dice_ce.exam.frames import FrameTable
from dice_ce.method.beyond.looks import LooksSettings, rows_to_look_at
from dice_ce.method.beyond.prior import PriorSettings
from dice_ce.method.chain import Judged, Woven
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.pipeline import diagnose_contexts, judge_contexts
from dice_ce.method.selector import Candidates, Screened
from dice_ce.method.settings import Settings
from dice_ce.method.weaver import Context
from dice_ce.taxonomy import Taxonomy

LABELS = Taxonomy("three", ("ulcer", "polyp", "normal"))
CONTEXTS = (Context(0, 0, np.array([0, 1, 4])), Context(0, 1, np.array([2, 3])), Context(1, 0, np.array([5])))
SCORE = np.float32([0.6, 0.9, 0.7, 0.7, 0.8, 0.5])


@pytest.mark.parametrize(
    ("looks", "rows"), [(None, [0, 1, 2, 3, 4, 5]), (3, [0, 1, 2, 3, 4, 5]), (2, [1, 2, 3, 4, 5]), (1, [1, 2, 5])]
)
def test_the_most_suspicious_frames_of_every_context_are_looked_at(looks: int | None, rows: list[int]) -> None:
    """Of equal scores the earlier frame; every context is looked at."""
    assert rows_to_look_at(CONTEXTS, SCORE, LooksSettings(looks)).tolist() == rows


@pytest.mark.parametrize(("most", "rows"), [(None, [1, 2, 5]), (3, [1, 2, 5]), (2, [1, 2]), (1, [1])])
def test_the_most_suspicious_contexts_are_looked_at(most: int | None, rows: list[int]) -> None:
    assert rows_to_look_at(CONTEXTS, SCORE, LooksSettings(1, most)).tolist() == rows


def test_a_context_that_nobody_looked_at_is_not_judged() -> None:
    asked: list[list[int]] = []
    found = judged(Settings(looks=LooksSettings(None, 1)), asked)
    assert asked == [[0, 1, 4]]
    assert [one.context.rows.tolist() for one in found.judgments] == [[0, 1, 4]]
    assert found.diagnosed.unseen == ()


def test_without_contexts_nothing_is_looked_at() -> None:
    assert len(rows_to_look_at((), SCORE[:0], LooksSettings(2))) == 0


def judged(settings: Settings, asked: list[list[int]]) -> Judged:
    index = np.arange(6)
    vectors = np.eye(6, dtype=np.float32)
    candidates = Candidates(FrameTable(index, index, Fraction(1)), index * 10.0, vectors, SCORE)
    p = np.float32([[0.9, 0.0, 0.1]] * 2 + [[0.1, 0.8, 0.1]] * 2 + [[0.2, 0.7, 0.1]] + [[0.0, 0.1, 0.9]])

    def look(frames: Screened) -> np.ndarray:
        asked.append(frames.frames.index.tolist())
        return p[frames.frames.index]

    woven = Woven(candidates, CONTEXTS, Keyframes(candidates))
    return judge_contexts(diagnose_contexts(woven, look, LABELS, settings), settings)


@pytest.mark.parametrize(("strength", "labels"), [(0.0, [0, 1, 2]), (0.5, [0, 0, 2])])
def test_only_frames_that_were_looked_at_are_evidence(strength: float, labels: list[int]) -> None:
    """Also for the prior, to which the one frame with a score of 0.9 speaks: an ulcer."""
    asked: list[list[int]] = []
    lenient = ConvergerSettings(tau_agree=0.1, tau_min=0.0)
    found = judged(Settings(looks=LooksSettings(1), prior=PriorSettings(strength), converger=lenient), asked)
    assert asked == [[1, 2, 5]]
    assert [one.retained.tolist() for one in found.judgments] == [[1], [2], [5]]
    assert [one.label for one in found.judgments] == labels
    assert [one.context.rows.tolist() for one in found.judgments] == [[0, 1, 4], [2, 3], [5]], "contexts stay whole"
    assert np.isnan(found.distributions[[0, 3, 4]]).all()
    assert found.diagnosed.unseen == (), "not looked at is not the same as could not be seen"


def test_with_enough_looks_nothing_changes() -> None:
    many, every = (judged(Settings(looks=LooksSettings(looks)), []) for looks in (3, None))
    np.testing.assert_array_equal(many.distributions, every.distributions)
    assert [one.retained.tolist() for one in many.judgments] == [one.retained.tolist() for one in every.judgments]
