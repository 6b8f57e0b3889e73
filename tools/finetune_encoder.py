"""Fine-tune the encoder of the default bundle: EfficientNet-Lite0 from ImageNet to capsule endoscopy.

    python tools/finetune_encoder.py --data FOLDER [--out encoder.onnx] [--work FOLDER] [--steps N] [--test]
    python tools/finetune_encoder.py --data FOLDER --judge ENCODER      only report, on any encoder

Labelled real frames (split by case, see dice_ce.datasets.splits) and simulated exams train it; figures are given for
the validation cases, and with --test once for the test cases. It is resumable: rendered exams, decoded images and
the state of the training, at most a minute old, are kept in the work folder. Set MALLOC_MMAP_MAX_=0 and
MALLOC_TRIM_THRESHOLD_=100000000000 in the environment: glibc otherwise spends half of the time on giving memory back.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from imagenet_encoder import imagenet_encoder

from dice_ce.benchmark.frames import balanced_accuracy, confusion, selector_figures
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import split_cases
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.features.encoder import Encoder, OnnxEncoder, load_encoder
from dice_ce.files import cache_root
from dice_ce.lab.training.examples import Examples, joined_examples, make_examples
from dice_ce.lab.training.finetune import Recipe, finetune
from dice_ce.lab.training.images import Images, joined, kept, read_exam_images, read_labelled_images
from dice_ce.lab.training.network import CLASSES, SELECTOR, Network, export_network, pooled, read_network
from dice_ce.lab.training.simulated import SEEDS, SOURCE, STEP, training_exam
from dice_ce.progress import ProgressBar
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12, Taxonomy
from dice_ce.types import Floats

NAME = "dice-ce-encoder"
SIZE = 224
FROZEN = 15
"""Convolutions that stay as ImageNet made them: the stem and the first five blocks."""
SIMULATED_SHARE = 0.13
"""Of what is drawn, so that the demonstration works; more would be learning the simulator."""
WANTED_RECALL = 0.95
PROBE_IMAGES, PROBE_DECAY, PRIOR_SHARE = 3500, 0.03, 0.7
BATCH = 16


@dataclass(frozen=True, eq=False)
class Part:
    """One split: images and what is known about them."""

    images: Images
    frames: list[LabelledFrame]


def real_parts(data: Path, work: Path) -> dict[str, Part]:
    """Read the real frames, split by case; those whose case is not known are left out."""
    pool = load_pool(data).frames
    splits = split_cases(pool)
    parts = {}
    for split in SEEDS:
        frames = [frame for frame in pool if splits.get(frame.case) == split]
        with ProgressBar(f"reading {split} frames") as bar:
            read = _reader(frames, bar)
            key = ["real", SIZE, [(frame.case, str(frame.path)) for frame in frames]]
            parts[split] = Part(kept(work, key, read), frames)
    return parts


def _reader(frames: list[LabelledFrame], bar: ProgressBar) -> Callable[[], Images]:
    return lambda: read_labelled_images(frames, SIZE, bar)


def simulated_part(work: Path, seeds: Sequence[int]) -> Part:
    """Render (once) exams with two events of every class, and take every third frame."""
    images, frames = [], []
    for seed in seeds:
        path, labels = training_exam(work, seed)
        ordinals = range(0, len(labels), STEP)
        images.append(read_exam_images(path, ordinals, SIZE))
        frames += [LabelledFrame(path, SOURCE, f"simulated-{seed}", i, (labels[i],), (labels[i],)) for i in ordinals]
    return Part(joined(images), frames)


def training_examples(real: Part, simulated: Part) -> Examples:
    """Mix both kinds, each with its share."""
    taxonomy = Taxonomy()
    shares = ((real, 1 - SIMULATED_SHARE), (simulated, SIMULATED_SHARE))
    tables = [(make_examples(part.images, part.frames, taxonomy), share) for part, share in shares]
    return joined_examples(tables, joined([real.images, simulated.images]))


def train(examples: Examples, work: Path, steps: int) -> Network:
    """Fine-tune, then pool by the maximum, which small lesions need, instead of by the mean."""
    start = OnnxEncoder.from_bytes(imagenet_encoder(0), "efficientnet-lite0")
    assert isinstance(start, OnnxEncoder)
    network = read_network(start.content, {SELECTOR: 1, CLASSES: len(VIDEOCAP_12)}, frozen=FROZEN)
    with ProgressBar("fine-tuning", "steps") as bar:
        recipe, checkpoint = replace(Recipe(), steps=steps), work / f"run-{steps}.pt"
        network, _ = finetune(network, examples, recipe, checkpoint=checkpoint, progress=bar)
    return pooled(network, "max")


@dataclass(frozen=True, eq=False)
class Probe:
    """Linear heads on features: the first output is abnormal or not, the others are the labels."""

    mean: Floats
    deviation: Floats
    weight: Floats
    bias: Floats
    prior: Floats

    def __call__(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return Selector logits, and label logits from which most of the training's label shares are taken."""
        logits = np.asarray((vectors - self.mean) / self.deviation @ self.weight.T + self.bias, np.float32)
        return logits[:, 0], np.asarray(logits[:, 1:] - PRIOR_SHARE * self.prior, np.float32)


def fit_probe(encoder: Encoder, examples: Examples) -> Probe:
    """Fit on a balanced draw of training images, as they are."""
    rows = np.random.default_rng(0).choice(len(examples.weight), PROBE_IMAGES, replace=False, p=examples.weight)
    vectors, targets = encode(encoder, examples.images, np.sort(rows)), examples.targets[np.sort(rows)]
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0) + 1e-3
    x, y = torch.from_numpy((vectors - mean) / deviation), torch.from_numpy(targets)
    torch.manual_seed(0)
    layer = torch.nn.Linear(x.shape[1], 1 + y.shape[1])
    optimiser = torch.optim.LBFGS(layer.parameters(), max_iter=40)

    def loss() -> Any:
        optimiser.zero_grad()
        logits, functional = layer(x), torch.nn.functional
        abnormal = functional.binary_cross_entropy_with_logits(logits[:, 0], 1 - y[:, examples.normal])
        total = abnormal + functional.cross_entropy(logits[:, 1:], y) + PROBE_DECAY * layer.weight.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    weight, bias = (part.detach().numpy() for part in (layer.weight, layer.bias))
    return Probe(mean, deviation, weight, bias, np.log(targets.mean(axis=0) + 0.003))


def encode(encoder: Encoder, images: Images, rows: npt.NDArray[np.int64]) -> Floats:
    """Encode images as `dice-ce predict` does, nothing blacked."""
    batches = (rows[i : i + BATCH] for i in range(0, len(rows), BATCH))
    return np.concatenate([encoder.encode(np.asarray(images.pixels[batch])) for batch in batches])


def report(encoder: Encoder, probe: Probe, part: Part, tau: float | None) -> float:
    """Print how well the probe judges a split; without `tau`, choose it for the wanted recall."""
    score, logits = probe(encode(encoder, part.images, np.arange(len(part.frames))))
    truth = np.array([[label in frame.labels for label in VIDEOCAP_12] for frame in part.frames])
    cases, sources = (np.array([getattr(frame, key) for frame in part.frames]) for key in ("case", "source"))
    abnormal = np.asarray(truth[:, [label != NORMAL for label in VIDEOCAP_12]].any(axis=1))
    if tau is None:
        tau = float(np.quantile(score[abnormal], 1 - WANTED_RECALL))
    said, known = logits.argmax(axis=1), truth.any(axis=1)
    for source in ("all", *np.unique(sources)):
        rows = np.asarray(sources == source) if source != "all" else np.ones(len(cases), np.bool_)
        figures = selector_figures(score[rows], abnormal[rows], cases[rows], tau)
        balanced = balanced_accuracy(said[rows & known], truth[rows & known], cases[rows & known])
        print(
            f"{source}: {figures.frames} frames, {figures.abnormal} abnormal, {len(np.unique(cases[rows]))} cases\n"
            f"  selector  AUC {figures.auc:.3f}  precision {figures.precision}  recall {figures.recall}"
            f"  F1 {figures.f1}\n"
            f"  labels    balanced accuracy {balanced}"
        )
    print("confusion, one row per true label, columns in the same order:")
    for label, row in zip(VIDEOCAP_12, confusion(said[known], truth[known], len(VIDEOCAP_12)), strict=True):
        print(f"  {label:32s}" + "".join(f"{count:6d}" for count in row))
    return tau


def main() -> None:
    """Train, export, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--out", type=Path, default=Path("encoder.onnx"))
    parser.add_argument("--work", type=Path, default=cache_root() / "encoder-training", help="where all is kept")
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--judge", metavar="ENCODER", help="train nothing; report on this encoder in the same way")
    parser.add_argument("--test", action="store_true", help="also report on the test cases; look at them once")
    options = parser.parse_args()
    real = real_parts(options.data, options.work)
    simulated = {split: simulated_part(options.work, seeds) for split, seeds in SEEDS.items()}
    examples = training_examples(real["train"], simulated["train"])
    if options.judge:
        encoder = load_encoder(options.judge)
    else:
        export_network(train(examples, options.work, options.steps), options.out, name=NAME)
        encoder = load_encoder(str(options.out))
    probe, tau = fit_probe(encoder, make_examples(real["train"].images, real["train"].frames, Taxonomy())), None
    for split in ("validation", "test") if options.test else ("validation",):
        print(f"\n{split}, real frames")
        tau = report(encoder, probe, real[split], tau)
        print(f"\n{split}, simulated frames")
        report(encoder, probe, simulated[split], tau)


if __name__ == "__main__":
    main()
