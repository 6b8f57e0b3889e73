"""What is left of the candidates when the diagnoser has looked at all of them."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dice_ce.exam.codec import write_image
from dice_ce.exam.frames import FrameTable
from dice_ce.method.beyond.second_look import SecondLookSettings, look_again, second_score
from dice_ce.method.bundle import Profile, load_bundle
from dice_ce.method.pipeline import weave_contexts
from dice_ce.method.predict import predict_images
from dice_ce.method.selector import Candidates, Screened, SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.settings import with_values
from dice_ce.taxonomy import Taxonomy
from tests.material import moving_dots

LABELS = Taxonomy("two", ("ulcer", "normal"))
INDEX = np.arange(10)
SCORE = np.float32([0.1, 0.9, 0.8, 0.7, 0.6, 0.95, 0.2, 0.3, 0.4, 0.5])
NORMAL = np.float32([0.1, 0.9, 0.2, 0.1, 0.9, 0.05, 0.1, 0.1, 0.1, 0.1])
SCREENED = Screened(FrameTable(INDEX, INDEX, Fraction(1)), INDEX * 10.0, np.eye(10, dtype=np.float32), SCORE)


def look(frames: Screened) -> np.ndarray:
    normal = NORMAL[frames.frames.index]
    return np.stack([1 - normal, normal], axis=1)


def left(share: float, first: float = 0.5) -> Candidates:
    settings = Settings(SelectorSettings(0.5, first), SecondLookSettings(share))
    return weave_contexts(SCREENED, look, LABELS, settings).candidates


@pytest.mark.parametrize(("share", "frames"), [(0.1, [5]), (0.2, [3, 5]), (0.3, [2, 3, 5]), (0.9, [1, 2, 3, 4, 5])])
def test_what_the_diagnoser_finds_least_normal_is_left(share: float, frames: list[int]) -> None:
    """Frame 1 has the second highest score, and is called normal: it comes after 2 and 3."""
    assert left(share).frames.index.tolist() == frames


def test_frames_that_the_selector_left_out_stay_out_although_the_diagnoser_would_want_them() -> None:
    assert left(0.5, first=0.2).frames.index.tolist() == [1, 5]


def test_what_is_left_is_weighed_by_the_second_look() -> None:
    assert left(0.3).score == pytest.approx(1 - NORMAL[[2, 3, 5]])


def test_without_the_rule_nobody_looks_and_scores_stay() -> None:
    def refuse(frames: Screened) -> np.ndarray:
        raise AssertionError("the diagnoser was asked")

    candidates = weave_contexts(SCREENED, refuse, LABELS, Settings(SelectorSettings(0.5))).candidates
    assert candidates.score.tolist() == SCORE[SCORE >= 0.5].tolist()


def test_an_exam_without_candidates_is_not_looked_at_in_vain() -> None:
    nothing = Candidates(*vars(SCREENED[np.empty(0, np.int64)]).values())
    assert len(look_again(nothing, 10, look, LABELS.normal, SecondLookSettings(0.1))) == 0


def test_what_cannot_be_looked_at_again_keeps_its_first_score() -> None:
    assert second_score(np.float32([0.7]), np.float32([np.nan])).tolist() == [np.float32(0.7)]


def test_predicted_scores_are_those_by_which_a_summary_would_choose(bundle_folder: Path, tmp_path: Path) -> None:
    bundle, paths = load_bundle(bundle_folder), [tmp_path / f"{number}.png" for number in range(3)]
    for path, image in zip(paths, moving_dots(3, seed=5), strict=True):
        write_image(path, image)
    plain = predict_images(paths, bundle)
    looked = with_values(bundle.settings(), {"second_share": 0.5})
    second = predict_images(paths, replace(bundle, profiles={"default": Profile(looked, "made for tests")}))
    np.testing.assert_array_equal(second.distributions, plain.distributions)
    wanted = second_score(plain.score, plain.distributions[:, bundle.taxonomy.normal])
    np.testing.assert_array_equal(second.score, wanted)
    assert not np.array_equal(second.score, plain.score)
