"""Compare ways of training the heads on validation cases, on the features of one encoder: what docs/results.md shows.

    python tools/compare_heads.py --data DATA --simulated FOLDER --encoder encoder.onnx

FOLDER is the folder `simulated` that tools/train_default_bundle.py leaves in its work folder. Test cases are not read.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from dice_ce.benchmark.frames import balanced_accuracy, roc_auc
from dice_ce.features.encoder import load_encoder
from dice_ce.lab.training.data import gather
from dice_ce.lab.training.heads import HeadConfig, train_diagnoser, train_selector
from dice_ce.lab.training.run import TrainConfig, samples_of_split
from dice_ce.lab.training.samples import Samples
from dice_ce.lab.training.simulated import SOURCE
from dice_ce.progress import ProgressBar
from dice_ce.taxonomy import Taxonomy

SHIPPED = HeadConfig()
WEAK = replace(SHIPPED, dropout=0.1, weight_decay=0.05)
VARIANTS = {
    "dropout 0.1, weight decay 0.05": (replace(WEAK, prior_removed=0.0), 1.0),
    "the same, 0.7 of the labels' frequencies taken out of the logits": (replace(WEAK, prior_removed=0.7), 1.0),
    "dropout 0.5, weight decay 0.3, 0.5 of the frequencies taken out (shipped)": (SHIPPED, 1.0),
    "the same, simulated frames weighing 0.3": (SHIPPED, 0.3),
    "the same, simulated frames weighing 0.1": (SHIPPED, 0.1),
}
"""Settings, and the weight of simulated frames."""


def weighed(samples: Samples, weight: float) -> Samples:
    """Let simulated frames count for less."""
    return replace(samples, weight=np.where(samples.source == SOURCE, weight, 1.0).astype(np.float32))


def main() -> None:
    """Train every variant and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    options = parser.parse_args()
    taxonomy, encoder = Taxonomy(), load_encoder(options.encoder)
    data = gather([options.data, options.simulated], taxonomy.labels)
    train, validation = (
        samples_of_split(data, split, encoder, taxonomy, TrainConfig(views=0), ProgressBar)
        for split in ("train", "validation")
    )
    known = validation.labelled()
    real, known_real = validation.source != SOURCE, known.source != SOURCE
    print("| heads of 256 hidden units | AUC | balanced accuracy |\n|---|---|---|")
    for name, (config, weight) in VARIANTS.items():
        parts = weighed(train, weight), weighed(validation, weight)
        score = train_selector(*parts, config).head(validation.vectors)[:, 0]
        said = train_diagnoser(*parts, config).head(known.vectors).argmax(axis=1)
        balanced = balanced_accuracy(said[known_real], known.labels[known_real], known.case[known_real])
        print(f"| {name} | {roc_auc(score[real], validation.abnormal[real]):.3f} | {balanced.value:.3f} |", flush=True)


if __name__ == "__main__":
    main()
