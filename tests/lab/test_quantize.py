"""An encoder in 8 bits: smaller, close to what it was, and the same whatever stands beside a frame."""

import numpy as np
import pytest

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training import quantize
from dice_ce.lab.training.network import append_map, onnx
from dice_ce.lab.training.quantize import quantised
from tests.lab.test_finetune import random_pixels, tiny_lite


def encoder() -> bytes:
    """A network of the shipped one's layout that also gives out its map."""
    model = onnx.load_from_string(tiny_lite())
    for node in model.graph.node:
        if node.op_type == "GlobalAveragePool":
            node.op_type = "GlobalMaxPool"
    append_map(model)
    onnx.helper.set_model_props(model, {"dice_ce.name": "mine", "dice_ce.resize": "bicubic"})
    return bytes(model.SerializeToString())


def test_features_of_the_small_network_are_close_and_depend_on_the_frame_alone() -> None:
    given, frames = encoder(), random_pixels()
    plain = OnnxEncoder.from_bytes(given, "given")
    small = OnnxEncoder.from_bytes(quantised(given, frames), "small")
    assert (small.name, small.resize, small.dim) == ("mine", "bicubic", plain.dim)
    wanted, found = plain.encode(frames), small.encode(frames)
    cosine = (wanted * found).sum(axis=1) / np.linalg.norm(wanted, axis=1) / np.linalg.norm(found, axis=1)
    assert cosine.min() > 0.95
    assert not np.array_equal(wanted, found)
    alone = np.concatenate([small.encode(frames[i : i + 1]) for i in range(len(frames))])
    np.testing.assert_array_equal(found, alone)
    assert small.has_map
    np.testing.assert_allclose(small.encode_map(frames).max(axis=(2, 3)), found, atol=1e-6)


def test_pixels_go_in_as_they_are_where_normalising_them_changes_no_byte() -> None:
    """The tiny network takes 127 off and divides by 128, which 8 bits hold exactly, if the images use all of them."""
    frames = random_pixels()
    frames[0, 0, 0], frames[0, 0, 1] = 0, 255
    every, some = (onnx.load_from_string(quantised(encoder(), images)) for images in (frames, frames // 2))
    assert {node.op_type for node in every.graph.node} & {"Sub", "Cast"} == set()
    assert {node.op_type for node in some.graph.node} >= {"Sub", "Cast"}
    used = {name for node in every.graph.node for name in node.input}
    assert {value.name for value in every.graph.initializer} <= used


def test_leaving_the_normalisation_out_changes_no_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    given, frames = encoder(), random_pixels()
    frames[0, 0, 0], frames[0, 0, 1] = 0, 255
    lean = quantised(given, frames)
    monkeypatch.setattr(quantize, "taking_bytes", lambda model: model)
    full = quantised(given, frames)
    assert len(lean) < len(full)
    wanted, found = (OnnxEncoder.from_bytes(content, "x").encode(frames) for content in (full, lean))
    np.testing.assert_array_equal(found, wanted)


def test_the_same_images_give_the_same_file() -> None:
    given, frames = encoder(), random_pixels()
    assert quantised(given, frames) == quantised(given, frames)
