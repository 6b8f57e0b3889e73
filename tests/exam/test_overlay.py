"""Text inside the field of view is covered, everywhere, without a text reader."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dice_ce.exam.field import Field
from dice_ce.exam.open import open_exam
from dice_ce.exam.overlay import find_covers
from dice_ce.outputs.lettering import text_pixels, write_text
from tests.material import moving_dots, write_video

SIZE = 192
X, Y = 40, 40


def exam_with(text: str, *, still: range = range(0)) -> Iterator[np.ndarray]:
    for image in moving_dots(60, SIZE, still=still):
        shown = np.ascontiguousarray(image)
        if text:
            write_text(shown, text, X, Y)
        yield shown


@pytest.fixture
def named(tmp_path: Path) -> Path:
    return write_video(tmp_path / "e.mp4", exam_with("DOE JANE"), options={"crf": "12"})


def test_text_in_the_window_is_black_in_every_image(named: Path) -> None:
    height, width = text_pixels("DOE JANE").shape
    with open_exam(named) as exam:
        assert len(exam.covers) == 1
        for ordinal, image in exam.images([0, 17, 59]):
            assert not image[Y : Y + height, X : X + width].any(), ordinal
        small = exam.image(30, size=96)
        assert not small[Y // 2 : (Y + height) // 2, X // 2 : (X + width) // 2].any()
        assert any("is covered at" in warning for warning in exam.warnings)


def test_a_cover_hides_little_else(named: Path) -> None:
    with open_exam(named) as exam, open_exam(named, mask=False) as whole:
        (cover,) = exam.covers
        height, width = text_pixels("DOE JANE").shape
        assert cover.width * cover.height < 4 * height * width
        assert np.array_equal(exam.image(5)[100:150, 60:130], whole.image(5)[100:150, 60:130])


@pytest.mark.parametrize("x", range(24, 40, 2))
def test_nothing_is_left_of_text_across_the_rim(x: int) -> None:
    """Where the corner of an octagon cuts a letter in two, its inner half must not stay."""
    cut = 0.3
    octagon = ((cut, 0), (1 - cut, 0), (1, cut), (1, 1 - cut), (1 - cut, 1), (cut, 1), (0, 1 - cut), (0, cut))
    field = Field("octagon", octagon)
    window = field.mask(SIZE, SIZE)
    letters = np.zeros((SIZE, SIZE), np.bool_)
    height, width = text_pixels("DOE JANE", 2).shape
    letters[8 : 8 + height, x : x + width] = text_pixels("DOE JANE", 2)
    middle = slice(SIZE // 2, SIZE // 2 + SIZE)  # of images twice as large, so that their own rim is not seen
    seen = [image[middle, middle] * window[:, :, None] for image in moving_dots(24, 2 * SIZE)]
    images = [np.where(letters[:, :, None], np.uint8(255), image) for image in seen]
    for cover in find_covers(images, field):
        window[cover.slices] = False
    assert (letters & window).sum() == 0


def test_text_is_kept_when_asked_for(named: Path) -> None:
    with open_exam(named, mask=False) as exam:
        assert exam.covers == ()
        assert exam.image(9)[Y : Y + 7, X : X + 40].max() > 200


def test_without_text_nothing_is_covered(tmp_path: Path) -> None:
    path = write_video(tmp_path / "e.mp4", exam_with(""))
    with open_exam(path) as exam:
        assert exam.covers == ()
        assert exam.warnings == ()


def test_an_exam_too_short_to_tell_is_left_alone(tmp_path: Path) -> None:
    path = write_video(tmp_path / "e.mp4", list(exam_with("DOE JANE"))[:6])
    with open_exam(path) as exam:
        assert exam.covers == ()
