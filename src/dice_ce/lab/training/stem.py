"""The first convolution of an encoder in 8 bits, laid out for speed.

Three colours are too few numbers beside each other to be multiplied fast. So four columns of pixels become one of
twelve numbers, which are the same bytes in the same order, and the convolution gives two columns of its output at once;
weights of 0 stand for what a column of output does not see. The sums are the same, so no feature changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import require

COLUMNS = 2
"""Columns of output at once; four are slower again: seven of twelve weights would be 0."""
PREFIX = "two_columns."
FITTING = {"kernel_shape": [3, 3], "strides": [2, 2], "group": 1}


def two_columns_at_once(model: Any) -> Any:
    """Rewrite a quantised model whose first convolution takes pixels as they are, 3x3 of them and every other one."""
    onnx = require("onnx", extra="train", purpose="quantising")
    graph, read = model.graph, onnx.numpy_helper.to_array
    maker = {node.output[0]: node for node in graph.node}
    values = {value.name: value for value in graph.initializer}
    conv = next(node for node in graph.node if node.op_type == "Conv")
    if not _fits(onnx, graph, maker, conv):
        return model
    pixels, constants = maker[maker[conv.input[0]].input[0]], [maker[name] for name in conv.input[1:3]]
    (rounded,) = (node for node in graph.node if conv.output[0] in node.input)
    weight = constants[0].input[0]
    outputs, colours = read(values[weight]).shape[:2]
    # Under new names: layers may share a constant.
    for place, node in enumerate(constants, start=1):
        wide = onnx.NodeProto()
        wide.CopyFrom(node)
        wide.name = f"{PREFIX}{node.name}"
        for i, name in enumerate(node.input):
            value = read(values[name])
            wider = widened(value) if name == weight else np.tile(value, COLUMNS) if value.ndim else value
            wide.input[i] = f"{PREFIX}{name}"
            graph.initializer.append(onnx.numpy_helper.from_array(wider, wide.input[i]))
        wide.output[0] = conv.input[place] = f"{PREFIX}{node.output[0]}"
        graph.node.insert(0, wide)
    for fact in conv.attribute:
        if fact.name in ("kernel_shape", "strides"):
            fact.ints[1] = 2 if fact.name == "kernel_shape" else 1
    _reshape(onnx, graph, before=pixels, channels=2 * COLUMNS * colours)
    _reshape(onnx, graph, after=rounded, channels=outputs)
    remove_unused(graph)
    return model


def _fits(onnx: Any, graph: Any, maker: dict[str, Any], conv: Any) -> bool:
    """Whether it is such a convolution, and nothing but an order of axes stands between it and the pixels."""
    facts = {fact.name: onnx.helper.get_attribute_value(fact) for fact in conv.attribute}
    dequantised = maker.get(conv.input[0])
    turned = maker.get(dequantised.input[0]) if dequantised is not None else None
    return (
        turned is not None
        and turned.op_type == "Transpose"
        and turned.input[0] == graph.input[0].name
        and facts["pads"][1::2] == [0, 1]
        and all(facts.get(name, wanted) == wanted for name, wanted in FITTING.items())
    )


def widened(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Lay weights [outputs, colours, 3, 3] out for groups of four columns: [2 outputs, 4 colours, 3, 2]."""
    outputs, colours, high, wide = weights.shape
    group = 2 * COLUMNS
    wider = np.zeros((COLUMNS, outputs, group, colours, high, 2), weights.dtype)
    for column in range(COLUMNS):
        for place in range(wide):
            further, inside = divmod(2 * column + place, group)
            wider[column, :, inside, :, :, further] = weights[:, :, :, place]
    return wider.reshape(COLUMNS * outputs, group * colours, high, 2)


def _reshape(onnx: Any, graph: Any, *, channels: int, before: Any = None, after: Any = None) -> None:
    """Let every place have so many channels and a row as many places as that takes, before or after a node.

    What stands before the pixels are turned has its channels last; what comes later has to be turned for it and back.
    """
    make, name = onnx.helper.make_node, f"places_of_{channels}"
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0, -1, channels], np.int64), name))
    nodes = list(graph.node)
    if before is not None:
        place = nodes.index(before)
        added = [make("Reshape", [before.input[0], name], [f"{name}.pixels"])]
        before.input[0] = added[0].output[0]
    else:
        place = nodes.index(after) + 1
        last, parted, turned = (f"{name}.{step}" for step in ("last", "parted", "turned"))
        for node in nodes:
            node.input[:] = [turned if value == after.output[0] else value for value in node.input]
        added = [
            make("Transpose", [after.output[0]], [last], perm=[0, 2, 3, 1]),
            make("Reshape", [last, name], [parted]),
            make("Transpose", [parted], [turned], perm=[0, 3, 1, 2]),
        ]
    nodes[place:place] = added
    del graph.node[:]
    graph.node.extend(nodes)


def remove_unused(graph: Any) -> None:
    """Drop what no output needs any more."""
    needed, kept = {output.name for output in graph.output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    values = [value for value in graph.initializer if value.name in needed]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(values)
