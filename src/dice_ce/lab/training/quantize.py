"""An encoder in 8 bits: a quarter of the size and twice as fast on processors that have instructions for it.

Ranges come from real frames. Features move a little, so heads are trained on those of the small network. What it
computes are whole numbers, which no processor rounds differently.

Processors without instructions for 8 bits (x86 without VNNI) add up products two by two in 16 bits, which two large
weights beside each other overflow. ONNX Runtime knows a way around that, half again as slow; so weights are made such
that no two of them can (`without_overflow`), and the file says so.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import require
from dice_ce.features.backbones.hub import quiet
from dice_ce.features.runtime import NO_OVERFLOW, start_session
from dice_ce.lab.training.stem import remove_unused, two_columns_at_once

Weights = npt.NDArray[np.int8]
LARGEST_PAIR = 128
"""What two weights beside each other may add up to: 255 times that fits in 16 bits."""
COARSENESS = np.linspace(1, 2, 51)
"""Steps between weights that are tried, as multiples of those they have."""


def quantised(
    model: bytes, images: npt.NDArray[np.uint8], *, reduce_range: bool = False, may_overflow: bool = False
) -> bytes:
    """Quantise an ONNX encoder after training, by the ranges that its values have on some images.

    Without `reduce_range` weights have 8 bits, else 7. With `may_overflow` they stay as they are rounded.
    """
    onnx, quantization, shapes = (
        require(package, extra="train", purpose="quantising")
        for package in ("onnx", "onnxruntime.quantization", "onnxruntime.quantization.shape_inference")
    )

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._left = iter(images)

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._left, None)
            return None if image is None else {name: image[None]}

    name = start_session(model, 1).get_inputs()[0].name
    facts = {prop.key: prop.value for prop in onnx.load_from_string(model).metadata_props}
    with tempfile.TemporaryDirectory() as folder, quiet("root"):
        given, prepared, small = (Path(folder) / f"{step}.onnx" for step in ("given", "prepared", "small"))
        given.write_bytes(model)
        shapes.quant_pre_process(given, prepared)
        quantization.quantize_static(
            prepared,
            small,
            Reader(),
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        made = two_columns_at_once(taking_bytes(onnx.load(small)))
    onnx.helper.set_model_props(made, facts)
    content = bytes(made.SerializeToString(deterministic=True))
    return content if may_overflow else without_overflow(content, images)


def taking_bytes(model: Any) -> Any:
    """Leave out the normalisation of pixels where quantising what it gives yields the same bytes again."""
    onnx = require("onnx", extra="train", purpose="quantising")
    maker = {node.output[0]: node for node in model.graph.node}
    first = next(node for node in model.graph.node if node.op_type == "Conv")
    given = first.input[0]
    while given in maker and maker[given].op_type != "Cast":
        given = maker[given].input[0]
    if given not in maker or maker[first.input[0]].op_type != "DequantizeLinear":
        return model
    pixels, dequantised = maker[given].input[0], maker[first.input[0]]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    for name in (pixels, dequantised.input[0]):
        probe.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None))
    session = start_session(probe.SerializeToString(), 1)
    frames = session.get_inputs()[0]
    every = np.resize(np.arange(256, dtype=np.uint8).repeat(3), (1, *frames.shape[1:]))
    if np.array_equal(*session.run(None, {frames.name: every})):
        dequantised.input[0] = pixels
        remove_unused(model.graph)
    return model


def without_overflow(model: bytes, images: npt.NDArray[np.uint8]) -> bytes:
    """Let no two weights beside each other overflow 16 bits, at the least change; biases make up for its mean."""
    onnx = require("onnx", extra="train", purpose="quantising")
    made = onnx.load_from_string(model)
    values = {value.name: value for value in made.graph.initializer}
    maker = {node.output[0]: node for node in made.graph.node}
    convolutions = [node for node in made.graph.node if node.op_type == "Conv" and not _is_depthwise(node)]
    read = onnx.numpy_helper.to_array
    seen = _mean_inputs(made, convolutions, images)
    for node in convolutions:
        weight, bias = (maker[name] for name in node.input[1:3])
        before, step, grain = (read(values[name]) for name in (*weight.input[:2], bias.input[1]))
        after, factor = fitting(before)
        # What is taken from the weights is given to the bias, for an image whose parts look like the mean.
        lost = (before - after * factor[:, None, None, None]) * step[:, None, None, None]
        lacking = np.einsum("ochw,c->o", lost, seen[node.input[0]])
        bias_before = read(values[bias.input[0]]) * grain
        for name, value in (
            (weight.input[0], after),
            (weight.input[1], (step * factor).astype(step.dtype)),
            (bias.input[0], np.round((bias_before + lacking) / (grain * factor)).astype(np.int32)),
            (bias.input[1], (grain * factor).astype(grain.dtype)),
        ):
            values[name].CopyFrom(onnx.numpy_helper.from_array(value, name))
    facts = {prop.key: prop.value for prop in made.metadata_props}
    onnx.helper.set_model_props(made, facts | {NO_OVERFLOW: "1"})
    return bytes(made.SerializeToString(deterministic=True))


def _is_depthwise(node: Any) -> bool:
    """Whether each channel is computed by itself: that is done in 32 bits everywhere."""
    return any(part.name == "group" and part.i > 1 for part in node.attribute)


def _mean_inputs(model: Any, nodes: list[Any], images: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the mean of every channel that goes into some nodes, over images."""
    onnx = require("onnx", extra="train", purpose="quantising")
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    names = list(dict.fromkeys(node.input[0] for node in nodes))
    for name in names:
        probe.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = start_session(probe.SerializeToString(), 1)
    frames = session.get_inputs()[0].name
    means = [[value.mean(axis=(0, 2, 3)) for value in session.run(None, {frames: image[None]})] for image in images]
    return {name: np.mean(several, axis=0) for name, several in zip(names, zip(*means, strict=True), strict=True)}


def fitting(weights: Weights) -> tuple[Weights, npt.NDArray[np.float64]]:
    """Return weights [outputs, ...] of which no pair overflows, and how much coarser each output's steps are.

    For every output the coarseness is taken that moves its weights least in all: coarser steps move all of them a
    little, and where they do not suffice, the two of a pair that is still too large are moved towards each other.
    """
    # Beside each other lie channels of one place, then places row by row.
    flat = weights.transpose(0, 2, 3, 1).reshape(len(weights), -1).astype(np.float64)
    best, least, factor = flat.copy(), np.full(len(flat), np.inf), np.ones(len(flat))
    for coarseness in COARSENESS:
        tried = _clipped(np.round(flat / coarseness))
        moved = ((tried * coarseness - flat) ** 2).sum(axis=1)
        better = moved < least
        best[better], least[better], factor[better] = tried[better], moved[better], coarseness
    outputs, channels, high, wide = weights.shape
    return best.reshape(outputs, high, wide, channels).transpose(0, 3, 1, 2).astype(np.int8), factor


def _clipped(flat: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Take what two weights beside each other are together too large by, half from each."""
    even = flat.shape[1] // 2 * 2
    pairs = flat[:, :even].reshape(len(flat), -1, 2)
    total = pairs.sum(axis=2)
    excess = total - np.clip(total, -LARGEST_PAIR, LARGEST_PAIR)
    half = np.trunc(excess / 2)
    clipped = flat.copy()
    clipped[:, 0:even:2] -= half
    clipped[:, 1:even:2] -= excess - half
    return clipped
