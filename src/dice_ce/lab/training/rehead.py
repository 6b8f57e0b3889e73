"""Another head for a diagnoser's own network.

While a network is fine-tuned, its linear head learns from changed views in passing. A head that is trained afterwards,
on the frames themselves and like the one on the encoder, names more lesions right; it is written into the same file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dice_ce.errors import EncoderError, require
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.runtime import start_session
from dice_ce.method.selector import EPSILON, Head

onnx = require("onnx", extra="train", purpose="training")

FRAMES, LOGITS = "frames", "logits"
"""What a diagnoser's own network takes and gives."""


def feature_of(model: Any) -> str:
    """Name the feature of a diagnoser's own network: what its last concatenation puts together."""
    together = [node.output[0] for node in model.graph.node if node.op_type == "Concat"]
    if not together:
        raise EncoderError("this network puts no feature together; give a diagnoser's own network")
    return str(together[-1])


def without_head(content: bytes, origin: str) -> OnnxEncoder:
    """Let a network give its feature instead of logits."""
    model = onnx.load_from_string(content)
    facts = {prop.key: prop.value for prop in model.metadata_props}
    feature = feature_of(model)
    headless = _with_output(model, feature, None)
    frames = headless.graph.input[0].type.tensor_type.shape.dim
    blank = np.zeros([dim.dim_value for dim in frames], np.uint8)
    (seen,) = start_session(headless.SerializeToString(), 1).run(None, {FRAMES: blank})
    headless = _with_output(model, feature, seen.shape)
    onnx.helper.set_model_props(headless, facts)
    return OnnxEncoder.from_bytes(headless.SerializeToString(deterministic=True), origin)


def with_head(network: OnnxEncoder, head: Head) -> bytes:
    """Put a head on a network that gives its feature: a file that gives logits."""
    model = onnx.load_from_string(network.content)
    graph, feature = model.graph, model.graph.output[0].name
    for name, weights in head.arrays("head").items():
        graph.initializer.append(onnx.numpy_helper.from_array(weights.astype(np.float16), f"{name}.half"))
        graph.node.append(onnx.helper.make_node("Cast", [f"{name}.half"], [name], to=onnx.TensorProto.FLOAT))
    graph.node.extend(
        (
            onnx.helper.make_node(
                "LayerNormalization", [feature, "head.scale", "head.shift"], ["head.normed"], epsilon=EPSILON
            ),
            onnx.helper.make_node("Gemm", ["head.normed", "head.weight1", "head.bias1"], ["head.first"]),
            onnx.helper.make_node("Gelu", ["head.first"], ["head.hidden"], approximate="tanh"),
            onnx.helper.make_node("Gemm", ["head.hidden", "head.weight2", "head.bias2"], [LOGITS]),
        )
    )
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info(LOGITS, onnx.TensorProto.FLOAT, (1, len(head.bias2))))
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _with_output(model: Any, name: str, shape: tuple[int, ...] | None) -> Any:
    """Cut a model behind one of its values, which becomes its output."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    needed, nodes = {name}, []
    for node in reversed(whole.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            nodes.append(node)
    weights = [value for value in whole.graph.initializer if value.name in needed]
    del whole.graph.node[:], whole.graph.initializer[:]
    whole.graph.node.extend(reversed(nodes))
    whole.graph.initializer.extend(weights)
    return whole
