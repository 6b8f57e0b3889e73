"""A convolutional encoder between ONNX and torch: read from its file, trained from some depth on, written back.

The first layers stay frozen and run in ONNX Runtime, which is several times faster than torch on a CPU; the others run
in torch. Every trained weight is `start + scale * change`, with the scale of its own output channel: steps are relative
to the weights they change, weight decay on the change pulls towards the pretrained network, and a share of the change
can be taken back afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dice_ce.errors import EncoderError, require
from dice_ce.features.runtime import start_session
from dice_ce.files import write_atomically
from dice_ce.types import Floats

torch = require("torch", extra="train", purpose="training")
onnx = require("onnx", extra="train", purpose="training")

Pixels = npt.NDArray[np.uint8]
Tensors = dict[str, Any]

CLASSES, SELECTOR, TEACHER = "classes", "selector", "teacher"
"""Names of linear heads: one output per label, one for abnormal or not, and a teacher's feature."""
POOLS = {"mean": "GlobalAveragePool", "max": "GlobalMaxPool"}
_KNOWN = {"Transpose", "Cast", "Sub", "Mul", "Conv", "Clip", "Add", *POOLS.values(), "Flatten"}


@dataclass(frozen=True, eq=False)
class Network:
    """An encoder with a frozen and a trained part, and linear heads on its features."""

    model: Any
    """The ONNX model as it was read, with plain float32 weights."""
    cut: int
    """Nodes before this one are frozen."""
    start: Tensors
    """Weights of the trained part as they were read."""
    scale: Tensors
    change: Tensors
    """What training adds, in units of `scale`."""
    heads: Tensors
    """`<head>.weight` and `<head>.bias`."""

    @property
    def dim(self) -> int:
        """Length of a feature."""
        return int(self.model.graph.output[0].type.tensor_type.shape.dim[1].dim_value)

    def parameters(self) -> Tensors:
        """Return everything that is trained, by name."""
        return {**{f"change.{name}": value for name, value in self.change.items()}, **self.heads}

    def with_parameters(self, values: Mapping[str, Any], *, share: float = 1.0) -> Network:
        """Put other values in; `share` below 1 takes part of the change back (WiSE-FT)."""
        change = {name: share * values[f"change.{name}"].detach() for name in self.change}
        return replace(self, change=change, heads={name: values[name].detach() for name in self.heads})


def read_network(content: bytes, outputs: Mapping[str, int], *, frozen: int, seed: int = 0) -> Network:
    """Take an encoder's ONNX file apart; its first `frozen` convolutions (or a few less) stay as they are.

    The cut is at the last place before the next convolution where one tensor is all that the rest needs.
    """
    model = unpacked(onnx.load_from_string(content))
    unknown = {node.op_type for node in model.graph.node} - _KNOWN
    if unknown:
        raise EncoderError(
            f"this encoder cannot be fine-tuned: it has {', '.join(sorted(unknown))} nodes; "
            "take a plain convolutional one, such as tools/imagenet_encoder.py writes"
        )
    cut = _cut(model, frozen)
    constants = {value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer}
    start, scale = Tensors(), Tensors()
    for node in list(model.graph.node)[cut:]:
        if node.op_type == "Conv":
            kernel, bias = (torch.from_numpy(constants[name].copy()) for name in node.input[1:3])
            start |= {node.input[1]: kernel.contiguous(memory_format=torch.channels_last), node.input[2]: bias}
            size = kernel.square().mean((1, 2, 3), keepdim=True).sqrt() + 1e-6
            scale |= {node.input[1]: size, node.input[2]: torch.ones_like(bias)}
    change = {name: torch.zeros_like(value) for name, value in start.items()}
    network = Network(model, cut, start, scale, change, {})
    generator = torch.Generator().manual_seed(seed)
    heads = Tensors()
    for name, count in outputs.items():
        heads[f"{name}.weight"] = torch.randn((count, network.dim), generator=generator) / math.sqrt(network.dim) / 4
        heads[f"{name}.bias"] = torch.zeros(count)
    return replace(network, heads=heads)


def unpacked(model: Any) -> Any:
    """Turn weights that are stored as float16 and cast in the graph into plain float32 ones."""
    stored = {value.name: value for value in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type == "Cast" and node.input[0] in stored:
            plain = onnx.numpy_helper.to_array(stored.pop(node.input[0])).astype(np.float32)
            stored[node.output[0]] = onnx.numpy_helper.from_array(plain, node.output[0])
        else:
            kept.append(node)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(stored.values())
    return model


def _cut(model: Any, frozen: int) -> int:
    nodes = list(model.graph.node)
    convolutions = [i for i, node in enumerate(nodes) if node.op_type == "Conv"]
    if not 0 < frozen < len(convolutions):
        raise EncoderError(f"the encoder has {len(convolutions)} convolutions; freeze at least 1 and not all of them")
    made = {node.output[0]: i for i, node in enumerate(nodes)}
    for cut in range(convolutions[frozen], 0, -1):
        needed = {made[name] for node in nodes[cut:] for name in node.input if name in made}
        if all(i >= cut - 1 for i in needed):
            return cut
    raise AssertionError("the first node is always a possible cut")


def pooled(network: Network, pool: Literal["mean", "max"]) -> Network:
    """Choose how the last map becomes one vector. Heads that were trained with another choice do not fit any more."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    for node in model.graph.node:
        if node.op_type in POOLS.values():
            node.op_type = POOLS[pool]
    return replace(network, model=model)


def frozen_session(network: Network, size: int, threads: int = 0) -> Any:
    """Return an ONNX Runtime session of the frozen part for frames of another size than the encoder's own."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    _set_size(model, size)
    del model.graph.node[network.cut :]
    used = {name for node in model.graph.node for name in node.input}
    weights = [value for value in model.graph.initializer if value.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)
    output = model.graph.output[0]
    output.name = model.graph.node[-1].output[0]
    output.type.tensor_type.ClearField("shape")
    return start_session(model.SerializeToString(), threads)


def _set_size(model: Any, size: int) -> None:
    if size % 32:
        raise EncoderError(f"frames of {size} pixels do not fit; take a multiple of 32")
    for axis in (1, 2):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = size


def with_open_size(content: bytes) -> bytes:
    """Let an encoder take frames of any size, and note its own: larger ones show finer where it looks."""
    model = onnx.load_from_string(content)
    sides = [model.graph.input[0].type.tensor_type.shape.dim[axis] for axis in (1, 2)]
    facts = {prop.key: prop.value for prop in model.metadata_props} | {"dice_ce.size": str(sides[0].dim_value)}
    for side in sides:
        side.dim_param = "side"
    for shape in (output.type.tensor_type.shape for output in model.graph.output[1:]):
        shape.dim[2].dim_param, shape.dim[3].dim_param = "h", "w"
    del model.graph.value_info[:]  # shapes for the size that it had
    onnx.helper.set_model_props(model, facts)
    return bytes(model.SerializeToString(deterministic=True))


def features(network: Network, x: Any) -> Any:
    """Run the trained part on what the frozen part gave: features [n, d]."""
    nodes = list(network.model.graph.node)
    values = {nodes[network.cut].input[0]: x.contiguous(memory_format=torch.channels_last)}
    weights = {name: value + network.scale[name] * network.change[name] for name, value in network.start.items()}
    for node in nodes[network.cut :]:
        values[node.output[0]] = _run_node(node, values, weights)
    return values[network.model.graph.output[0].name]


def _run_node(node: Any, values: Tensors, weights: Tensors) -> Any:
    x = values[node.input[0]]
    functional = torch.nn.functional
    if node.op_type == "Conv":
        facts = {fact.name: onnx.helper.get_attribute_value(fact) for fact in node.attribute}
        top, left, bottom, right = facts["pads"]
        padding = (top, left)
        if (top, left) != (bottom, right):
            x, padding = functional.pad(x, (left, right, top, bottom)), (0, 0)
        kernel, bias = (weights[name] for name in node.input[1:3])
        return functional.conv2d(x, kernel, bias, facts["strides"], padding, groups=facts["group"])
    if node.op_type == "Clip":
        return functional.relu6(x, inplace=True)  # nothing else reads what a convolution gave
    if node.op_type == "Add":
        return x + values[node.input[1]]
    if node.op_type == "GlobalAveragePool":
        return x.mean((2, 3), keepdim=True)
    if node.op_type == "GlobalMaxPool":
        return x.amax((2, 3), keepdim=True)
    if node.op_type == "Flatten":
        return x.flatten(1)
    raise EncoderError(f"a {node.op_type} node stands behind the frozen part; freeze more layers")


def head(network: Network, name: str, vectors: Any) -> Any:
    """Return the logits of one head."""
    return vectors @ network.heads[f"{name}.weight"].T + network.heads[f"{name}.bias"]


def export_network(
    network: Network, path: Path, *, name: str, size: int | None = None, logits: str | None = None
) -> None:
    """Write an encoder's ONNX file, or with `logits` one whose outputs are the logits of that head.

    It takes frames of `size` pixels a side, or of as many as the network that training began with.

    Weights are stored as float16 and cast when the file is loaded: half the size, and computed in float32 as before.
    """
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    if size is not None:
        _set_size(model, size)
    changed = {
        key: (value + network.scale[key] * network.change[key]).detach().numpy() for key, value in network.start.items()
    }
    if logits is not None:
        changed |= _append_head(model, network, logits)
    else:
        append_map(model)
    _pack(model, changed)
    onnx.helper.set_model_props(model, {"dice_ce.name": name, "dice_ce.resize": "area"})
    onnx.checker.check_model(model)
    write_atomically(path, model.SerializeToString(deterministic=True))


def append_map(model: Any) -> None:
    """Give out what is pooled, too, if the maximum is: it tells where the evidence lies."""
    pooling = [node for node in model.graph.node if node.op_type == POOLS["max"]]
    if len(pooling) == 1 and len(model.graph.output) == 1:
        shape = ("n", model.graph.output[0].type.tensor_type.shape.dim[1].dim_value, "h", "w")
        model.graph.output.append(
            onnx.helper.make_tensor_value_info(pooling[0].input[0], onnx.TensorProto.FLOAT, shape)
        )


def _append_head(model: Any, network: Network, head: str) -> dict[str, Floats]:
    weight, bias = (network.heads[f"{head}.{part}"].detach().numpy() for part in ("weight", "bias"))
    names = [f"{head}.weight", f"{head}.bias"]
    for key, value in zip(names, (weight, bias), strict=True):
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, key))
    output = model.graph.output[0]
    model.graph.node.append(onnx.helper.make_node("Gemm", [output.name, *names], ["logits"], transB=1))
    output.name = "logits"
    output.type.tensor_type.shape.dim[1].dim_value = len(bias)
    return {}


def _pack(model: Any, changed: Mapping[str, Floats]) -> None:
    """Put new weights in, and store all that are large as float16 with a cast behind."""
    stored, casts = [], []
    for value in model.graph.initializer:
        array = changed.get(value.name, onnx.numpy_helper.to_array(value))
        if array.size > 1:
            casts.append(onnx.helper.make_node("Cast", [f"{value.name}.half"], [value.name], to=onnx.TensorProto.FLOAT))
            stored.append(onnx.numpy_helper.from_array(array.astype(np.float16), f"{value.name}.half"))
        else:
            stored.append(value)
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(stored)
