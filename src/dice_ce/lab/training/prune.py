"""An encoder without channels that say next to nothing: the same features, nearly, in less time.

A block of the encoder widens what it gets, looks at each channel by itself, and adds the channels up to what it gives.
After fine-tuning many of them hardly ever say anything, or nothing that the others do not say. One is taken out at a
time, the one that is missed least when the weights of those that are left make up for it as well as they can (optimal
brain surgeon, which is exact for a sum), until more than a share of the variance of the block's output would be lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import require
from dice_ce.features.runtime import start_session
from dice_ce.lab.training.network import unpacked

Matrix = npt.NDArray[np.float64]
GRAIN = 16
"""Channels are taken out in such groups: processors multiply that many at once."""
RIDGE = 1e-4
"""Added to the variance of every channel, as a share of the mean: what hardly varies must not weigh much."""
PLACES = 64
"""Of an image, at most, that are looked at."""


@dataclass(frozen=True, eq=False)
class Block:
    """Three convolutions in a row: wider, each channel by itself, and added up; and what reads the result."""

    widen: Any
    each: Any
    add_up: Any
    result: str
    """Where what is added up arrives: behind the shortcut around the block, where there is one."""


def pruned(model: bytes, images: npt.NDArray[np.uint8], lost: float) -> bytes:
    """Take out channels of an encoder's blocks, as long as none loses more than a share of its output's variance."""
    onnx = require("onnx", extra="train", purpose="pruning")
    made = unpacked(onnx.load_from_string(model))
    values = {value.name: value for value in made.graph.initializer}
    blocks = find_blocks(made)
    inputs, results = _seen(made, blocks, images)

    def put(name: str, value: npt.NDArray[np.floating]) -> None:
        values[name].CopyFrom(onnx.numpy_helper.from_array(value.astype(np.float32), name))

    for block in blocks:
        weight, bias = (onnx.numpy_helper.to_array(values[name]) for name in block.add_up.input[1:3])
        mean, covariance = inputs[block.add_up.input[0]]
        variance = np.trace(results[block.result][1])
        kept, after = without_the_least(weight[:, :, 0, 0].astype(np.float64), covariance, lost * variance)
        before = weight[:, :, 0, 0]
        put(block.add_up.input[1], after[:, :, None, None])
        put(block.add_up.input[2], bias + before @ mean - after @ mean[kept])
        for node in (block.widen, block.each):
            for name in node.input[1:3]:
                put(name, onnx.numpy_helper.to_array(values[name])[kept])
        for fact in block.each.attribute:
            if fact.name == "group":
                fact.i = len(kept)
    del made.graph.value_info[:]
    return bytes(made.SerializeToString(deterministic=True))


def without_the_least(weight: Matrix, covariance: Matrix, lost: float) -> tuple[npt.NDArray[np.intp], Matrix]:
    """Choose which channels stay, and weights [outputs, those] that make up for the others.

    The variance of what is lost of all outputs together is at most `lost`.
    """
    weight, channels = weight.copy(), len(covariance)
    ridge = RIDGE * max(np.trace(covariance) / channels, np.finfo(float).tiny)
    inverse = np.linalg.inv(covariance + ridge * np.eye(channels))
    left, states, gone = np.ones(channels, bool), [], 0.0
    states.append((left.copy(), weight.copy()))
    while left.sum() > GRAIN:
        own = np.where(left, np.diagonal(inverse), 1.0)
        missed = np.where(left, (weight**2).sum(axis=0) / own, np.inf)
        least = int(missed.argmin())
        gone += missed[least]
        if gone > lost:
            break
        share = inverse[least] / inverse[least, least]
        weight -= np.outer(weight[:, least], share)
        inverse -= np.outer(inverse[:, least], share)
        left[least] = False
        weight[:, ~left] = 0
        if left.sum() % GRAIN == 0:
            states.append((left.copy(), weight.copy()))
    best, weight = states[-1]
    kept = np.flatnonzero(best)
    return kept, weight[:, kept]


def find_blocks(model: Any) -> list[Block]:
    """Find convolutions that widen, look at each channel by itself and add up, with nothing but limits between them."""
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def after(node: Any) -> Any:
        """Return the one node that reads a node's output, behind a limit; None if there is not exactly one."""
        while True:
            following = readers.get(node.output[0], [])
            if len(following) != 1:
                return None
            (node,) = following
            if node.op_type != "Clip":
                return node

    found = []
    for widen in model.graph.node:
        each = after(widen) if widen.op_type == "Conv" and _group(widen) == 1 else None
        add_up = after(each) if each is not None and each.op_type == "Conv" and _group(each) > 1 else None
        if add_up is not None and add_up.op_type == "Conv" and _group(add_up) == 1:
            following = after(add_up)
            added = following is not None and following.op_type == "Add"
            found.append(Block(widen, each, add_up, (following if added else add_up).output[0]))
    return found


def _group(node: Any) -> int:
    return next((int(fact.i) for fact in node.attribute if fact.name == "group"), 1)


def _seen(
    model: Any, blocks: list[Block], images: npt.NDArray[np.uint8]
) -> tuple[dict[str, tuple[Matrix, Matrix]], dict[str, tuple[Matrix, Matrix]]]:
    """Return mean and covariance of channels over places of images: what blocks add up, and what they give."""
    onnx = require("onnx", extra="train", purpose="pruning")
    names = [block.add_up.input[0] for block in blocks], [block.result for block in blocks]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:], probe.graph.value_info[:]
    wanted = list(dict.fromkeys((*names[0], *names[1])))
    for name in wanted:
        probe.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = start_session(probe.SerializeToString(), 1)
    frames = session.get_inputs()[0].name
    sums = [(0, 0.0, 0.0) for _ in wanted]
    chance = np.random.default_rng(0)
    for image in images:
        for i, value in enumerate(session.run(None, {frames: image[None]})):
            places = value[0].reshape(value.shape[1], -1).T.astype(np.float64)
            if len(places) > PLACES:
                places = places[chance.choice(len(places), PLACES, replace=False)]
            count, total, squares = sums[i]
            sums[i] = count + len(places), total + places.sum(axis=0), squares + places.T @ places
    moments = {}
    for name, (count, total, squares) in zip(wanted, sums, strict=True):
        mean = np.asarray(total) / count
        moments[name] = mean, np.asarray(squares) / count - np.outer(mean, mean)
    return {name: moments[name] for name in names[0]}, {name: moments[name] for name in names[1]}
