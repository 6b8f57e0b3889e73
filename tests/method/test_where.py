"""Where the evidence lies: the parts of a keyframe without which the diagnoser would say something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.beyond.where import evidence_map, mark_of
from dice_ce.method.diagnoser import softmax
from dice_ce.method.summary import Mark
from tests.material import tiny_head


def parts_with(place: tuple[int, int], size: int = 7, channels: int = 6) -> np.ndarray:
    """Every channel has its maximum in one part."""
    parts = np.random.default_rng(0).uniform(0, 0.1, (channels, size, size)).astype(np.float32)
    parts[:, place[0], place[1]] = np.arange(1, channels + 1)
    return parts


def most_said(parts: np.ndarray) -> int:
    """The label that the head gives the whole."""
    return int(tiny_head(6, 3, seed=1)(parts.max(axis=(1, 2))[None]).argmax())


def test_hiding_the_part_that_makes_the_feature_costs_most() -> None:
    parts = parts_with((5, 2))
    loss = evidence_map(parts, tiny_head(6, 3, seed=1), most_said(parts))
    near = np.zeros((7, 7), np.bool_)
    near[4:7, 1:4] = True
    assert loss[near].min() > 0
    assert np.abs(loss[~near]).max() < 1e-6, "what is hidden elsewhere changes nothing"


def test_the_loss_is_what_the_head_says_without_the_part() -> None:
    parts, head = parts_with((0, 0)), tiny_head(6, 3, seed=2)
    without = parts.copy()
    without[:, :2, :2] = 0
    p = softmax(head(np.stack([parts.max(axis=(1, 2)), without.max(axis=(1, 2))])))[:, 1]
    assert evidence_map(parts, head, 1)[0, 0] == pytest.approx(np.log(p[0] / p[1]), abs=1e-5)


def test_the_mark_frames_the_parts_that_matter_and_no_other_place() -> None:
    loss = np.zeros((4, 4))
    loss[1, 1:3], loss[3, 0] = 1.0, 0.9
    assert mark_of(loss, 400, 400) == Mark(0.25, 0.25, 0.75, 0.5)
    loss[1, 2] = 0.4
    assert mark_of(loss, 400, 400) == Mark(0.25, 0.25, 0.5, 0.5)


def test_where_nothing_matters_nothing_is_marked() -> None:
    assert mark_of(np.full((4, 4), 0.01), 400, 400) is None


def test_a_mark_is_in_the_image_and_not_in_its_padding() -> None:
    """A wide image fills the square's width and the middle half of its height."""
    loss = np.zeros((4, 4))
    loss[1, 0] = 1.0
    assert mark_of(loss, 400, 200) == Mark(0.0, 0.0, 0.25, 0.5)
    loss = np.zeros((4, 4))
    loss[0, 0] = 1.0
    assert mark_of(loss, 400, 200) is None, "black canvas is no place in the image"


@given(st.integers(0, 10**6), st.integers(20, 600), st.integers(20, 600))
@settings(deadline=None)
def test_a_mark_is_a_rectangle_inside_the_image(seed: int, width: int, height: int) -> None:
    mark = mark_of(np.random.default_rng(seed).normal(size=(7, 7)), width, height)
    if mark is not None:
        assert 0 <= mark.left < mark.right <= 1
        assert 0 <= mark.top < mark.bottom <= 1


def test_the_shipped_encoder_s_map_has_the_feature_as_its_maximum() -> None:
    folder = Path(__file__).parents[2] / "src" / "dice_ce" / "bundles" / "default"
    encoder = OnnxEncoder.open(folder / "encoder.onnx")
    side = encoder.input_size
    frames = np.random.default_rng(0).integers(0, 256, (2, side, side, 3), np.uint8)
    assert encoder.has_map
    parts = encoder.encode_map(frames)
    assert parts.shape == (2, encoder.dim, side // 32, side // 32)
    np.testing.assert_allclose(parts.max(axis=(2, 3)), encoder.encode(frames), rtol=1e-5, atol=1e-5)
