"""An encoder in 8 bits: smaller, close to what it was, and the same whatever stands beside a frame."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.runtime import NO_OVERFLOW
from dice_ce.lab.training import quantize
from dice_ce.lab.training.network import append_map, onnx
from dice_ce.lab.training.quantize import LARGEST_PAIR, fitting, quantised
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
    # Random layers of 8 channels blow up what keeping sums small moves; how little that is, see below.
    small = OnnxEncoder.from_bytes(quantised(given, frames, may_overflow=True), "small")
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
    # Sums kept small would differ: which weights lie beside each other depends on how the first layer is laid out.
    lean = quantised(given, frames, may_overflow=True)
    monkeypatch.setattr(quantize, "taking_bytes", lambda model: model)
    full = quantised(given, frames, may_overflow=True)
    assert len(lean) < len(full)
    wanted, found = (OnnxEncoder.from_bytes(content, "x").encode(frames) for content in (full, lean))
    np.testing.assert_array_equal(found, wanted)


def test_two_columns_at_once_change_no_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    given, frames = encoder(), random_pixels()
    frames[0, 0, 0], frames[0, 0, 1] = 0, 255
    wide = quantised(given, frames, may_overflow=True)
    monkeypatch.setattr(quantize, "two_columns_at_once", lambda model: model)
    narrow = quantised(given, frames, may_overflow=True)
    assert first_weights(wide).shape == (2 * len(first_weights(narrow)), 12, 3, 2)
    wanted, found = (OnnxEncoder.from_bytes(content, "x") for content in (narrow, wide))
    np.testing.assert_array_equal(found.encode(frames), wanted.encode(frames))
    np.testing.assert_array_equal(found.encode_map(frames), wanted.encode_map(frames))


def test_a_first_layer_of_another_kind_stays_as_it_is() -> None:
    """Images of few bytes need their normalisation, so the first layer does not see pixels as they are."""
    frames = random_pixels() // 2
    assert first_weights(quantised(encoder(), frames)).shape[1:] == (3, 3, 3)


def first_weights(content: bytes) -> np.ndarray:
    """Read the weights of the first convolution of a network in 8 bits."""
    graph = onnx.load_from_string(content).graph
    name = next(node for node in graph.node if node.op_type == "Conv").input[1]
    stored = next(node for node in graph.node if node.output[0] == name).input[0]
    return np.asarray(onnx.numpy_helper.to_array(next(one for one in graph.initializer if one.name == stored)))


def test_the_same_images_give_the_same_file() -> None:
    given, frames = encoder(), random_pixels()
    assert quantised(given, frames) == quantised(given, frames)


def computed(content: bytes, frames: np.ndarray, *, careful: bool) -> np.ndarray:
    """Run a network; without care, processors without VNNI add up in 16 bits."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", str(int(careful)))
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {session.get_inputs()[0].name: frame[None]})[0] for frame in frames])


def test_no_sum_overflows_on_any_processor() -> None:
    frames = np.concatenate([random_pixels(), np.full_like(random_pixels()[:1], 255)])
    frames[0, 0, 0], frames[0, 0, 1] = 0, 255
    content = quantised(encoder(), frames)
    assert NO_OVERFLOW.encode() in content
    assert NO_OVERFLOW.encode() not in quantised(encoder(), frames, may_overflow=True)
    fast, careful = (computed(content, frames, careful=careful) for careful in (False, True))
    np.testing.assert_array_equal(fast, careful)


def test_a_layer_computes_nearly_the_same() -> None:
    chance = np.random.default_rng(0)
    weights, values = chance.normal(0, 1, (32, 96, 1, 1)), np.abs(chance.normal(0, 1, (96, 200)))
    rounded = np.round(127 * weights / np.abs(weights).max(axis=1, keepdims=True)).astype(np.int8)
    fit, factor = fitting(rounded)
    ours, free = (part[:, :, 0, 0] @ values for part in (fit * factor[:, None, None, None], rounded))
    assert not np.array_equal(fit, rounded)
    assert np.linalg.norm(ours - free) < 0.05 * np.linalg.norm(free)


@examples(
    arrays.arrays(
        np.int8,
        st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3)),
        elements=st.integers(-127, 127),
    )
)
@settings(deadline=None)
def test_no_two_weights_beside_each_other_are_too_large_together(weights: np.ndarray) -> None:
    fit, factor = fitting(weights)
    flat = fit.transpose(0, 2, 3, 1).reshape(len(fit), -1).astype(int)
    assert np.abs(flat[:, : flat.shape[1] // 2 * 2].reshape(len(fit), -1, 2).sum(axis=2)).max(initial=0) <= LARGEST_PAIR
    assert ((factor >= 1) & (factor <= 2)).all()
    # Never further off than twice as coarse steps would be, which always fit.
    moved = np.square(fit * factor[:, None, None, None] - weights).sum()
    assert moved <= np.square(2 * np.round(weights / 2) - weights).sum() + 1e-6 or moved == 0


def test_weights_that_fit_stay_as_they_are() -> None:
    weights = np.array([[[[64]], [[64]], [[-127]], [[127]], [[127]]]], np.int8)
    fit, factor = fitting(weights)
    np.testing.assert_array_equal(fit, weights)
    assert factor.tolist() == [1]
