"""Fine-tune the encoder of the default bundle: EfficientNet-Lite0 from ImageNet to capsule endoscopy.

    python tools/finetune_encoder.py --data FOLDER [--out encoder.onnx] [--work FOLDER] [--steps N] [--test]

Labelled real frames (split by case, see dice_ce.datasets.splits) and simulated exams train it; figures are given for
the validation cases, and with --test once for the test cases. It is resumable: rendered exams, decoded pictures and
the state of the training, at most a minute old, are kept in the work folder. Set MALLOC_MMAP_MAX_=0 and
MALLOC_TRIM_THRESHOLD_=100000000000 in the environment: glibc otherwise spends half of the time on giving memory back.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.frames import balanced_accuracy, confusion, selector_figures
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import split_cases
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.encoder import OnnxEncoder, load_encoder
from dice_ce.files import cache_root
from dice_ce.progress import ProgressBar
from dice_ce.simulator import simulate
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12, Taxonomy
from dice_ce.training.examples import Examples, joined_examples, make_examples
from dice_ce.training.finetune import Recipe, finetune
from dice_ce.training.network import CLASSES, SELECTOR, Network, export_network, read_network
from dice_ce.training.pictures import Pictures, joined, kept, read_exam_pictures, read_pictures

START, NAME = "efficientnet-lite0", "dice-ce-encoder"
SIZE = 224
FROZEN = 15
"""Convolutions that stay as ImageNet made them: the stem and the first five blocks."""
SIMULATED_SEEDS = {"train": range(100, 110), "validation": range(200, 203), "test": range(300, 303)}
SIMULATED_FRAMES, SIMULATED_STEP = 1200, 3
FIELDS: tuple[Literal["octagon"], Literal["round"]] = ("octagon", "round")
SIMULATED_SHARE = 0.13
"""Of what is drawn, so that the demonstration works; more would be learning the simulator."""
WANTED_RECALL = 0.95
BATCH = 16


@dataclass(frozen=True, eq=False)
class Part:
    """One split: pictures and what is known about them."""

    pictures: Pictures
    frames: list[LabelledFrame]


def real_parts(data: Path, work: Path) -> dict[str, Part]:
    """Read the real frames, split by case; those whose case is not known are left out."""
    pool = load_pool(data).frames
    splits = split_cases(pool)
    parts = {}
    for split in SIMULATED_SEEDS:
        frames = [frame for frame in pool if splits.get(frame.case) == split]
        with ProgressBar(f"reading {split} frames") as bar:
            read = _reader(frames, bar)
            key = ["real", SIZE, [(frame.case, str(frame.path)) for frame in frames]]
            parts[split] = Part(kept(work, key, read), frames)
    return parts


def _reader(frames: list[LabelledFrame], bar: ProgressBar) -> Callable[[], Pictures]:
    return lambda: read_pictures(frames, SIZE, bar)


def simulated_part(work: Path, seeds: Sequence[int]) -> Part:
    """Render (once) exams with two events of every class, and take every third frame."""
    pictures, frames = [], []
    for seed in seeds:
        path = work / f"train-{seed}.mp4"
        if not path.exists():
            lesions = [label for label in VIDEOCAP_12 if label != NORMAL] * 2
            with ProgressBar(f"rendering {path.name}") as bar:
                simulate(
                    path, frames=SIMULATED_FRAMES, seed=seed, lesions=lesions, field=FIELDS[seed % 2], progress=bar
                )
        with path.with_name(f"{path.stem}.truth.csv").open() as file:
            labels = [row["label"] for row in csv.DictReader(file)]
        ordinals = range(0, len(labels), SIMULATED_STEP)
        pictures.append(read_exam_pictures(path, ordinals, SIZE))
        frames += [
            LabelledFrame(path, "SIMULATED", f"simulated-{seed}", i, (labels[i],), (labels[i],)) for i in ordinals
        ]
    return Part(joined(pictures), frames)


def training_examples(real: Part, simulated: Part) -> Examples:
    """Mix both kinds, each with its share."""
    taxonomy = Taxonomy()
    shares = ((real, 1 - SIMULATED_SHARE), (simulated, SIMULATED_SHARE))
    tables = [(make_examples(part.pictures, part.frames, taxonomy), share) for part, share in shares]
    return joined_examples(tables, joined([real.pictures, simulated.pictures]))


def report(encoder: OnnxEncoder, network: Network, part: Part, tau: float | None) -> float:
    """Print how well the network's own heads judge a split; without `tau`, choose it for the wanted recall."""
    vectors = np.concatenate(
        [encoder.encode(np.asarray(part.pictures.pixels[i : i + BATCH])) for i in range(0, len(part.frames), BATCH)]
    )
    score, logits = (
        vectors @ network.heads[f"{name}.weight"].numpy().T + network.heads[f"{name}.bias"].numpy()
        for name in (SELECTOR, CLASSES)
    )
    truth = np.array([[label in frame.labels for label in VIDEOCAP_12] for frame in part.frames])
    cases, sources = (np.array([getattr(frame, key) for frame in part.frames]) for key in ("case", "source"))
    abnormal = np.asarray(truth[:, [label != NORMAL for label in VIDEOCAP_12]].any(axis=1))
    if tau is None:
        tau = float(np.quantile(score[abnormal, 0], 1 - WANTED_RECALL))
    for source in ("all", *np.unique(sources)):
        rows = np.asarray(sources == source) if source != "all" else np.ones(len(cases), np.bool_)
        _print_source(
            source, score[rows, 0], logits[rows].argmax(axis=1), abnormal[rows], truth[rows], cases[rows], tau
        )
    known = truth.any(axis=1)
    _print_confusion(confusion(logits[known].argmax(axis=1), truth[known], len(VIDEOCAP_12)))
    return tau


def _print_source(
    source: str,
    score: npt.NDArray[np.float32],
    said: npt.NDArray[np.int64],
    abnormal: npt.NDArray[np.bool_],
    truth: npt.NDArray[np.bool_],
    cases: npt.NDArray[np.str_],
    tau: float,
) -> None:
    figures, known = selector_figures(score, abnormal, cases, tau), truth.any(axis=1)
    print(
        f"{source}: {figures.frames} frames, {figures.abnormal} abnormal, {len(np.unique(cases))} cases\n"
        f"  selector  AUC {figures.auc:.3f}  precision {figures.precision}  recall {figures.recall}  F1 {figures.f1}\n"
        f"  labels    balanced accuracy {balanced_accuracy(said[known], truth[known], cases[known])}"
        f" over {int(truth.any(axis=0).sum())} labels"
    )


def _print_confusion(table: npt.NDArray[np.int64]) -> None:
    print("confusion, one row per true label, columns in the same order:")
    for label, row in zip(VIDEOCAP_12, table, strict=True):
        print(f"  {label:32s}" + "".join(f"{count:6d}" for count in row))


def main() -> None:
    """Train, export, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--out", type=Path, default=Path("encoder.onnx"))
    parser.add_argument("--work", type=Path, default=cache_root() / "encoder-training", help="where all is kept")
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--test", action="store_true", help="also report on the test cases; look at them once")
    options = parser.parse_args()
    real = real_parts(options.data, options.work)
    simulated = {split: simulated_part(options.work, seeds) for split, seeds in SIMULATED_SEEDS.items()}
    start = load_encoder(START)
    assert isinstance(start, OnnxEncoder)
    network = read_network(start.content, {SELECTOR: 1, CLASSES: len(VIDEOCAP_12)}, frozen=FROZEN)
    with ProgressBar("fine-tuning", "steps") as bar:
        network, _ = finetune(
            network,
            training_examples(real["train"], simulated["train"]),
            replace(Recipe(), steps=options.steps),
            checkpoint=options.work / f"run-{options.steps}.pt",
            progress=bar,
        )
    export_network(network, options.out, name=NAME)
    encoder, tau = OnnxEncoder.open(options.out, threads=2), None
    for split in ("validation", "test") if options.test else ("validation",):
        print(f"\n{split}, real frames")
        tau = report(encoder, network, real[split], tau)
        print(f"\n{split}, simulated frames")
        report(encoder, network, simulated[split], tau)


if __name__ == "__main__":
    main()
