"""An encoder run in other ways and by other engines: how fast, and how far its features move.

    python benchmarks/engines.py FOLDER_OF_IMAGES --encoder ENCODER.onnx [--images 64]

The encoder is one in 32 bits, such as `tools/finetune_encoder.py --bits 32` writes; the one that ships is what becomes
of it in 8 bits. `pip install openvino` adds a row.

Milliseconds are those of the processor per image, on one thread, in batches as an extraction has them unless a row says
otherwise, the median of rounds in turn. The networks in 8 bits are quantised after training (static, per channel,
ranges from as many other images), with weights that never overflow, as ships; with such as may, which processors
without VNNI add up in a slower way; and with weights of 7 bits. The distance is the cosine distance to the feature of
ONNX Runtime in 32 bits.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.gate import BATCH
from dice_ce.features.images import find_images, read_images
from dice_ce.features.runtime import start_session
from dice_ce.lab.training.quantize import quantised
from dice_ce.table import Table

Images = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.float32]
Engine = Callable[[Images], Vectors]
Way = tuple[Engine, int]
"""An engine, and how many images it gets at once."""
ROUNDS = 3
BATCHES = (1, 2, 4, 16, 32)
EIGHT_BITS = {
    "no sum overflows, ships": {},
    "sums may overflow": {"may_overflow": True},
    "weights of 7": {"reduce_range": True},
}


def with_onnxruntime(model: bytes) -> Engine:
    """One thread of ONNX Runtime."""
    session = start_session(model, 1)
    name, output = session.get_inputs()[0].name, session.get_outputs()[0].name
    return lambda batch: np.asarray(session.run([output], {name: batch})[0], np.float32)


def plain_weights(model: bytes) -> bytes:
    """Weights as they are computed with, in 32 bits, instead of as they are stored, in 16."""
    from dice_ce.lab.training.network import read_network

    return bytes(read_network(model, {}, frozen=1).model.SerializeToString())


def without_map(model: bytes) -> bytes:
    """The feature as the only output."""
    import onnx

    loaded = onnx.load_from_string(model)
    del loaded.graph.output[1:]
    return bytes(loaded.SerializeToString())


def with_openvino(model: bytes) -> Engine:
    """One thread of OpenVINO, in 32 bits also where the processor has fewer to offer."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model, b""), "CPU", settings)
    request = compiled.create_infer_request()
    return lambda batch: np.array(request.infer([batch])[compiled.output(0)], np.float32)


def run(way: Way, images: Images) -> tuple[float, Vectors]:
    """Return the processor's seconds per image, of all threads, and unit features."""
    (engine, batch), began = way, time.process_time()
    features = np.concatenate([engine(images[i : i + batch]) for i in range(0, len(images), batch)])
    took = (time.process_time() - began) / len(images)
    return took, features / np.linalg.norm(features, axis=1, keepdims=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--images", type=int, default=64)
    options = parser.parse_args()
    encoder = OnnxEncoder.open(options.encoder)
    paths = find_images(options.folder)
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, 2 * options.images).astype(int)]
    images = np.stack([image for _, image in read_images(chosen, encoder.input_size, encoder.resize)])
    shipped = with_onnxruntime(encoder.content)
    engines: dict[str, Way] = {"ONNX Runtime, 32 bits": (shipped, BATCH)}
    engines |= {f"the same, {batch} at once": (shipped, batch) for batch in BATCHES}
    engines["the same, weights stored in 32 bits"] = with_onnxruntime(plain_weights(encoder.content)), BATCH
    engines["the same, without the map"] = with_onnxruntime(without_map(encoder.content)), BATCH
    if importlib.util.find_spec("openvino"):
        engines["OpenVINO, 32 bits"] = with_openvino(encoder.content), BATCH
    for name, kind in EIGHT_BITS.items():
        engines[f"ONNX Runtime, 8 bits, {name}"] = (
            with_onnxruntime(quantised(encoder.content, images[::2], **kind)),
            BATCH,
        )
    rounds = [{name: run(way, images[1::2]) for name, way in engines.items()} for _ in range(ROUNDS)]
    times = {name: statistics.median(one[name][0] for one in rounds) for name in engines}
    base = next(iter(engines))
    rows = []
    for name in engines:
        moved = 1 - (rounds[0][name][1] * rounds[0][base][1]).sum(axis=1)
        far = np.percentile(moved, 95)
        speed = times[base] / times[name]
        rows.append((name, f"{1000 * times[name]:.1f}", f"{speed:.2f}", f"{np.median(moved):.4f}", f"{far:.4f}"))
    headings = ("engine", "ms per image", "times as fast", "cosine distance: median", "95 %")
    print(f"{len(images[1::2])} images\n\n{Table.of(headings, rows).markdown()}")


if __name__ == "__main__":
    main()
