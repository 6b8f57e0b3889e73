"""Would a cascade pay? A cheap look at every frame, the encoder only for what may become candidates.

    python benchmarks/screening.py DATA [--every 3] [--work FOLDER]

DATA holds labelled real frames. The cheap look is the shipped encoder itself at a half and a third of its resolution,
left at several depths, with a linear head that learnt the full Selector's logits from the cases of four folds and is
asked about those of the fifth. The encoder has seen all cases when it was trained, so this is the best that a cascade
can hope for, not what a network of its own would reach on a new patient.

Every case of at least 50 frames counts as an exam: the candidates are those of the shipped profile, and the cascade
hands the same share of each exam on to the encoder. The gain is encoder time over the time of looking and encoding, in
processor's time of one thread; decoding is the same either way, so the gain of the whole is less. Features are kept in
WORK.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import FOLDS, fold_cases
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.gate import BATCH
from dice_ce.features.images import read_images
from dice_ce.features.runtime import start_session
from dice_ce.files import cache_root
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.selector import candidate_rows, sigmoid
from dice_ce.progress import ProgressBar
from dice_ce.table import Table
from dice_ce.taxonomy import NORMAL
from dice_ce.types import Floats, Ints

Images = npt.NDArray[np.uint8]
EXITS = {"third": "_blocks.5.", "half": "_blocks.8.", "two thirds": "_blocks.11.", "all": ""}
"""How much of the network is run, by the block before which it is left."""
SHRINKS = (2, 3)
"""How many pixels are averaged each way."""
RECALLS = (0.9, 0.95, 0.99, 0.995)
SMALLEST_EXAM = 50
STRENGTH = 3000.0
"""Of the ridge that keeps the linear head small."""


def cheap_look(model: bytes, shrink: int, exits: Sequence[str]) -> Any:
    """The encoder at a lower resolution; what is there at each exit, averaged over the image and at its largest."""
    loaded = onnx.load_from_string(model)
    nodes = list(loaded.graph.node)
    stem = next(i for i, node in enumerate(nodes) if node.op_type == "Conv")
    side = [shrink, shrink]
    smaller = helper.make_node("AveragePool", [nodes[stem].input[0]], ["smaller"], kernel_shape=side, strides=side)
    nodes[stem].input[0] = "smaller"
    before = [next(n for n in nodes if n.op_type == "Conv" and EXITS[e] in n.input[1]) for e in exits if EXITS[e]]
    tensors = [node.input[0] for node in before] + [nodes[-2].input[0]] * ("all" in exits)
    last = max(i for i, node in enumerate(nodes) if node.output[0] in tensors)
    pools = [
        helper.make_node(f"Global{kind}Pool", [tensor], [f"{tensor}-{kind}"])
        for tensor in tensors
        for kind in ("Average", "Max")
    ]
    del loaded.graph.node[:], loaded.graph.output[:]
    loaded.graph.node.extend([*nodes[:stem], smaller, *nodes[stem : last + 1], *pools])
    loaded.graph.output.extend(helper.make_tensor_value_info(pool.output[0], 1, None) for pool in pools)
    return start_session(loaded.SerializeToString(), 1)


def look(session: Any, images: Images) -> list[Floats]:
    """One array per exit."""
    pooled = [value.reshape(len(images), -1) for value in session.run(None, {session.get_inputs()[0].name: images})]
    return [np.concatenate(pair, axis=1) for pair in zip(pooled[::2], pooled[1::2], strict=True)]


def collect(data: Path, every: int, bundle: Bundle, target: Path) -> dict[str, npt.NDArray[Any]]:
    """Score some frames of every case with the full Selector, and look at them cheaply."""
    if target.exists():
        return dict(np.load(target))
    encoder = bundle.encoder
    assert isinstance(encoder, OnnxEncoder)
    frames = [frame for frame in load_pool(data).frames if frame.case]
    folds = fold_cases(frames)
    frames = sorted(frames, key=lambda f: (f.source, f.case, f.number or 0, f.path.name))[::every]
    sessions = {shrink: cheap_look(encoder.content, shrink, [*EXITS]) for shrink in SHRINKS}
    found: dict[str, list[npt.NDArray[Any]]] = {}
    rows: list[int] = []
    images = read_images([frame.path for frame in frames], encoder.input_size, encoder.resize)
    with ProgressBar("looking") as bar:
        while some := list(itertools.islice(images, BATCH)):
            rows += [i for i, _ in some]
            batch = np.stack([image for _, image in some])
            found.setdefault("logit", []).append(bundle.selector(encoder.encode(batch))[:, 0])
            for shrink, session in sessions.items():
                for name, values in zip(EXITS, look(session, batch), strict=True):
                    found.setdefault(f"{shrink} {name}", []).append(values.astype(np.float16))
            bar(len(rows), len(frames))
    kept = {name: np.concatenate(parts) for name, parts in found.items()}
    kept["case"] = np.array([frames[i].case for i in rows])
    kept["lesion"] = np.array([any(label != NORMAL for label in frames[i].labels) for i in rows])
    kept["fold"] = np.array([folds[frames[i].case] for i in rows])
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez(target, allow_pickle=False, **kept)
    return kept


def distilled(features: Floats, logit: Floats, fold: Ints) -> Floats:
    """What a linear head says about each fold that learnt the logits of the others."""
    said = np.empty(len(logit), np.float32)
    for held_out in range(FOLDS):
        learnt = fold != held_out
        mean, spread = features[learnt].mean(axis=0), features[learnt].std(axis=0) + 1e-3
        x, y = (features - mean) / spread, logit - logit[learnt].mean()
        gram = x[learnt].T @ x[learnt] + STRENGTH * np.eye(x.shape[1], dtype=np.float32)
        said[~learnt] = x[~learnt] @ np.linalg.solve(gram, x[learnt].T @ y[learnt])
    return said


def needed_shares(said: Floats, found: dict[str, npt.NDArray[Any]], bundle: Bundle) -> npt.NDArray[np.float64]:
    """Shares of the frames that must be encoded for each recall: of all candidates, and of those that show a lesion."""
    shares = np.arange(0.01, 1.005, 0.01)
    kept = np.zeros((2, len(shares)))
    for case in np.unique(found["case"]):
        rows = np.flatnonzero(found["case"] == case)
        if len(rows) < SMALLEST_EXAM:
            continue
        wanted = np.zeros((2, len(rows)), np.bool_)
        wanted[:, candidate_rows(sigmoid(found["logit"][rows]), bundle.settings().selector)] = True
        wanted[1] &= found["lesion"][rows]
        reached = np.cumsum(wanted[:, np.argsort(-said[rows], kind="stable")], axis=1)
        kept += reached[:, np.rint(shares * len(rows)).astype(np.int64) - 1]
    return np.array([[shares[np.argmax(row >= recall * row[-1])] for recall in RECALLS] for row in kept])


def milliseconds(model: bytes, images: Images, rounds: int = 5) -> dict[str, float]:
    """Processor's time per frame of the encoder and of every cheap look, the median of rounds in turn."""
    sessions = {"encoder": start_session(model, 1)}
    sessions |= {f"{shrink} {name}": cheap_look(model, shrink, [name]) for shrink in SHRINKS for name in EXITS}
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(rounds):
        for name, session in sessions.items():
            began = time.process_time()
            session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: images})
            times[name].append(1000 * (time.process_time() - began) / len(images))
    return {name: float(np.median(values)) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=3, help="take one frame in so many")
    parser.add_argument("--work", type=Path, default=cache_root() / "benchmarks", help="where features are kept")
    options = parser.parse_args()
    bundle = load_bundle()
    found = collect(options.data, options.every, bundle, options.work / f"screening-{options.every}.npz")
    encoder = bundle.encoder
    assert isinstance(encoder, OnnxEncoder)
    sample = [frame.path for frame in load_pool(options.data).frames[:BATCH]]
    images = np.stack([image for _, image in read_images(sample, encoder.input_size, encoder.resize)])
    cost = milliseconds(encoder.content, images)
    rows = []
    for shrink in SHRINKS:
        for name in EXITS:
            features = found[f"{shrink} {name}"].astype(np.float32)
            shares = needed_shares(distilled(features, found["logit"], found["fold"]), found, bundle)
            gains = [cost["encoder"] / (cost[f"{shrink} {name}"] + one[-1] * cost["encoder"]) for one in shares]
            cells = [" / ".join(f"{100 * share:.0f}" for share in one) for one in shares]
            looks = f"{encoder.input_size // shrink} pixels, {name}"
            rows.append((looks, f"{cost[f'{shrink} {name}']:.2f}", *cells, " / ".join(f"{gain:.2f}" for gain in gains)))
    print(f"{len(found['case']):,} frames; the encoder takes {cost['encoder']:.1f} ms a frame")
    print(f"% of the frames that must be encoded for a recall of {' / '.join(map(str, RECALLS))}\n")
    headings = ("cheap look", "ms", "candidates", "with a lesion", f"gain at {RECALLS[-1]}")
    print(Table.of(headings, rows).markdown())


if __name__ == "__main__":
    main()
