"""Fine-tune the encoder of the default bundle: EfficientNet-Lite0 from ImageNet to capsule endoscopy.

    python tools/finetune_encoder.py --teacher teacher.onnx --data FOLDER --out encoder.onnx
    python tools/finetune_encoder.py --teacher teacher-0.onnx --data FOLDER --out fold-0.onnx --fold 0

The first is trained on all cases and ships; the second on all but those of a fold. A teacher is the diagnoser's own
network of `tools/finetune_diagnoser.py`; that of a fold must not have seen the fold either. What is written computes in
8 bits and has lost the channels that say next to nothing; `--bits 32` keeps the network as it was trained. The encoders
of the folds are for `dice-ce train --fold-encoders`, which judges the recipe on every case once. All of it is
resumable: decoded images and the state of the training, at most a minute old, are kept in the work folder. Set
MALLOC_MMAP_MAX_=0 and MALLOC_TRIM_THRESHOLD_=100000000000 in the environment: glibc otherwise spends half of the time
on giving memory back.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from imagenet_encoder import imagenet_encoder

from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import FOLDS, fold_cases, some_cases
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.files import cache_root, write_atomically
from dice_ce.lab.training.examples import Examples, make_examples
from dice_ce.lab.training.finetune import Recipe, finetune
from dice_ce.lab.training.images import Images, kept, read_labelled_images
from dice_ce.lab.training.network import (
    CLASSES,
    SELECTOR,
    TEACHER,
    Network,
    export_network,
    pooled,
    read_network,
    with_open_size,
)
from dice_ce.lab.training.prune import pruned
from dice_ce.lab.training.quantize import quantised
from dice_ce.lab.training.teacher import Teacher
from dice_ce.progress import ProgressBar
from dice_ce.taxonomy import VIDEOCAP_12, Taxonomy

NAME = "dice-ce-encoder"
SIZE = 224
"""Side of the images that views are drawn from."""
INPUT = 160
"""Side of the frames that the encoder sees."""
LOST = 0.001
"""Share of the variance of a block's output that channels may take with them that are left out."""
FROZEN = 15
"""Convolutions that stay as ImageNet made them: the stem and the first five blocks."""


def training_examples(data: Path, work: Path, fold: int | None, share: float = 1.0) -> Examples:
    """Read the frames of all cases, or of all but one fold's, or of a share of these; a case has to be known."""
    frames = [frame for frame in load_pool(data).frames if frame.case]
    folds = fold_cases(frames)
    cases = some_cases([frame for frame in frames if folds[frame.case] != fold], share)
    in_training = np.array([frame.case in cases for frame in frames])
    return make_examples(_images(frames, work), frames, Taxonomy(), in_training)


def _images(frames: list[LabelledFrame], work: Path) -> Images:
    with ProgressBar("reading frames") as bar:
        key = ["real", SIZE, [(frame.case, str(frame.path)) for frame in frames]]
        return kept(work, key, lambda: read_labelled_images(frames, SIZE, bar))


def train(examples: Examples, recipe: Recipe, checkpoint: Path, teacher: Teacher | None = None) -> Network:
    """Fine-tune, then pool by the maximum, which small lesions need, instead of by the mean."""
    start = OnnxEncoder.from_bytes(imagenet_encoder(0), "efficientnet-lite0")
    assert isinstance(start, OnnxEncoder)
    heads = {SELECTOR: 1, CLASSES: len(VIDEOCAP_12)} | ({TEACHER: teacher.dim} if teacher else {})
    network = read_network(start.content, heads, frozen=FROZEN)
    with ProgressBar("fine-tuning", "steps") as bar:
        network, _ = finetune(network, examples, recipe, checkpoint=checkpoint, progress=bar, teacher=teacher)
    return pooled(network, "max")


def typical_images(examples: Examples, size: int, count: int = 256) -> npt.NDArray[np.uint8]:
    """Take images that were learnt from, evenly from all cases, to tell the ranges of values by."""
    rows = np.flatnonzero(examples.weight > 0)
    images = examples.images.masked(rows[np.linspace(0, len(rows) - 1, count).astype(int)])
    return np.stack([cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA) for image in images])


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, metavar="ONNX", help="a diagnoser's own network to learn from")
    parser.add_argument("--fold", type=int, choices=range(FOLDS), help="leave the cases of this fold out")
    parser.add_argument("--work", type=Path, default=cache_root() / "encoder-training", help="where all is kept")
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=INPUT, help="side of the frames that the encoder will see")
    parser.add_argument("--bits", type=int, choices=(8, 32), default=8)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    examples = training_examples(options.data, options.work, options.fold)
    recipe = replace(Recipe(), steps=options.steps, seed=options.seed)
    run = f"run-{options.steps}-{options.seed}-{'all' if options.fold is None else options.fold}"
    run += ".taught.pt" if options.teacher else ".pt"
    typical = typical_images(examples, recipe.sizes[-1][1])
    teacher = Teacher.load(options.teacher.read_bytes(), typical) if options.teacher else None
    network = train(examples, recipe, options.work / run, teacher)
    plain = options.work / f"{run}.onnx"
    export_network(network, plain, name=NAME, size=options.size)
    content = plain.read_bytes()
    if options.bits == 8:
        typical = typical_images(examples, options.size)
        content = quantised(pruned(content, typical, LOST), typical)
    write_atomically(options.out, with_open_size(content))


if __name__ == "__main__":
    main()
