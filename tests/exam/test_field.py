import csv
from pathlib import Path

import numpy as np
import pytest

from dice_ce.exam.field import FULL, find_field, largest_piece, percentile, sorted_pixels
from dice_ce.exam.open import open_exam
from tests.material import moving_dots, write_video

H = W = 192


def window(kind: str) -> np.ndarray:
    y, x = (np.mgrid[:H, :W] - (H - 1) / 2) / (H / 2)
    shapes = {
        "round": x**2 + y**2 <= 0.95**2,
        "octagon": (np.abs(x) <= 0.97) & (np.abs(y) <= 0.97) & (np.abs(x) + np.abs(y) <= 1.5),
    }
    return shapes[kind]


def exam_images(kind: str, count: int = 40, *, seed: int = 0, text: bool = True) -> np.ndarray:
    """Moving texture with a dark lumen in a window, and changing text in the corners."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(20, 200, (count, H // 16, W // 16))
    images = np.kron(blocks, np.ones((16, 16))).astype(np.uint8)
    images[:, H // 2 - 25 : H // 2 + 25, W // 2 - 25 : W // 2 + 25] = 6
    images[:, ~window(kind)] = rng.integers(0, 4)
    if text:
        for image in images:
            for left in range(4, 40, 6):
                image[4:11, left : left + 4] = np.kron(rng.integers(0, 2, (7, 4)) * 255, np.ones((1, 1)))
    return images


@pytest.mark.parametrize("kind", ["round", "octagon"])
def test_the_window_is_found_and_named_despite_text_and_a_dark_lumen(kind: str) -> None:
    field = find_field(exam_images(kind))
    mask = field.mask(W, H)
    assert field.kind == kind
    agreement = (mask & window(kind)).sum() / (mask | window(kind)).sum()
    assert agreement > 0.97
    assert not mask[4:11, 4:20].any(), "burned-in text lies outside"


def test_the_mask_scales_with_the_image() -> None:
    field = find_field(exam_images("round"))
    assert abs(field.mask(576, 576).mean() - field.mask(100, 100).mean()) < 0.01


def test_a_few_black_or_white_frames_do_not_matter() -> None:
    images = exam_images("octagon")
    images[3:9] = 0
    images[20] = 255
    mask = find_field(images).mask(W, H)
    assert (mask & window("octagon")).sum() / (mask | window("octagon")).sum() > 0.96


def test_a_still_exam_falls_back_on_what_is_lit() -> None:
    images = np.repeat(exam_images("round", 1, text=False), 20, axis=0)
    mask = find_field(images).mask(W, H)
    assert (mask & window("round")).sum() / (mask | window("round")).sum() > 0.9


def test_images_without_a_frame_are_full() -> None:
    images = np.random.default_rng(0).integers(0, 255, (20, 96, 96), dtype=np.uint8)
    assert find_field(images) == FULL


@pytest.mark.parametrize("images", [np.zeros((10, 96, 96), np.uint8), np.zeros((0, 96, 96), np.uint8)])
def test_where_nothing_can_be_told_nothing_is_blacked(images: np.ndarray) -> None:
    assert find_field(images) == FULL


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 48])
def test_percentiles_over_the_images_are_those_of_numpy(count: int) -> None:
    images = np.random.default_rng(count).integers(0, 256, (count, 5, 6), dtype=np.uint8)
    ordered = sorted_pixels(images)
    assert np.array_equal(ordered, np.sort(images, axis=0))
    for percent in (0, 15, 50, 85, 90, 100):
        assert np.array_equal(percentile(ordered, percent), np.percentile(images, percent, axis=0)), percent


def test_the_largest_piece_is_followed_around_every_corner() -> None:
    drawn = ["#####.##", "....#..#", "###.#.##", "#...#...", "#####.#."]
    mask = np.array([[pixel == "#" for pixel in row] for row in drawn])
    piece = mask.copy()
    piece[:, 6:] = False
    assert np.array_equal(largest_piece(mask), piece)


def test_what_leaves_the_reader_is_black_outside_unless_asked_otherwise(tmp_path: Path) -> None:
    def with_text() -> list[np.ndarray]:
        images = list(moving_dots(60, 192))
        for i, image in enumerate(images):
            image[2:9, 2 : 2 + 5 * (1 + i % 4) : 2] = 255
        return images

    path = write_video(tmp_path / "e.mp4", with_text(), options={"crf": "5", "g": "5"})
    with open_exam(path) as exam:
        assert exam.field.kind == "round"
        outside = ~exam.field.mask(192, 192)
        assert outside[2:9, 2:20].all()
        assert all(not image[outside].any() for _, image in exam.read())
        assert not exam.image(7, size=96)[1:5, 1:10].any()
    with open_exam(path, mask=False) as exam:
        assert exam.field == FULL
        assert exam.image(7)[2:9, 2:7].max() > 200


def test_windows_of_real_capsules_are_found(real_data: Path) -> None:
    with (real_data / "frames.csv").open() as file:
        rows = list(csv.DictReader(file))
    for source, least, most in (("KVASIR", 0.93, 0.97), ("AIIMS", 0.92, 0.96)):
        case = next(row["case"] for row in rows if row["source"] == source)
        names = [row["path"] for row in rows if row["case"] == case][:48]
        images = []
        for name in names:
            with open_exam(real_data / name, mask=False) as exam:
                images.append(exam.image(0).max(axis=2))
        share = find_field(np.stack(images)).mask(224, 224).mean()
        assert least < share < most, source
