"""Images for outputs: what load_images gives is what the exam shows, whatever is asked for and in whatever order."""

from __future__ import annotations

from pathlib import Path

import pytest

from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import open_exam
from dice_ce.outputs.images import load_images
from tests.material import numbered_video

WANTED = [(39, None), (3, 64), (3, None), (17, 32), (18, 32), (3, 32), (17, 32)]


@pytest.mark.parametrize("workers", [1, 3])
def test_images_are_those_of_the_exam_in_every_size(tmp_path: Path, workers: int) -> None:
    with open_exam(numbered_video(tmp_path / "exam.mp4", 40, options={"g": "10"})) as exam:
        jpeg = load_images(exam, WANTED, workers)
        for frame, size in WANTED:
            assert jpeg(frame, size) == encode_image(exam.image(frame, size=size), ".jpg"), (frame, size)
        assert jpeg(4, 32) is None, "not asked for"


def test_no_image_is_asked_for(tmp_path: Path) -> None:
    with open_exam(numbered_video(tmp_path / "exam.mp4", 12)) as exam:
        assert load_images(exam, [])(0, None) is None
