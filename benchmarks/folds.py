"""Encoders side by side on held-out folds: to try a recipe on one before it is trained for all of them.

    python benchmarks/folds.py DATA 'WORK/fold-{fold}.onnx' [...] --diagnoser 'WORK/diagnoser-{fold}.onnx' --folds 0 1

The encoder of a fold must know nothing of its cases (`tools/finetune_encoder.py --fold`), and the diagnoser's own
network neither. Heads are trained on all frames of the other folds. Figures are inside patients: ranked by the
Selector, then by 1 - p(normal) of the head, and with a network by that of both added, as in a bundle. A second table
tells what it would cost to say *normal* more readily. A fold has few patients: compare several before you believe a
difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from dice_ce.benchmark.within import WithinFigures
from dice_ce.datasets.splits import FOLDS
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.folds import HeldOut, hold_out_fold
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases
from dice_ce.lab.training.second import logits_of
from dice_ce.method.diagnoser import softmax
from dice_ce.table import Table
from other_makes import TAXONOMY, watch

READINESS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
"""Added to the logit of *normal*."""


def judged(data: TrainingData, encoder: OnnxEncoder, fold: int) -> HeldOut:
    """Ask heads that never saw the fold about it."""
    config = TrainConfig(views=0)
    samples = samples_of_cases(data, encoder, TAXONOMY, config, watch)
    return hold_out_fold(samples, fold_of(samples, data), fold, config.head)


def with_network(asked: HeldOut, data: TrainingData, network: OnnxEncoder) -> HeldOut:
    """Add what the network says, as a bundle does."""
    said = logits_of(asked.samples, data.exams, network, watch("asking the network"))
    return replace(asked, logits=asked.logits + said)


def rankings(asked: HeldOut, added: HeldOut | None) -> Iterator[tuple[str, dict[str, WithinFigures]]]:
    """Measure by everything that frames can be ranked by."""
    yield "Selector", (added or asked).within(TAXONOMY)
    for name, held_out in (("head", asked), ("head and network", added)):
        if held_out is not None:
            suspicion = 1 - softmax(held_out.logits)[:, TAXONOMY.normal]
            yield f"1 - p(normal), {name}", held_out.within(TAXONOMY, suspicion)


def readier(asked: HeldOut) -> Iterator[tuple[str, ...]]:
    """Say *normal* more readily: on more false candidates, and on more lesions."""
    for more in READINESS:
        logits = asked.logits + more * (np.arange(len(TAXONOMY)) == TAXONOMY.normal)
        figures = replace(asked, logits=logits).within(TAXONOMY)
        said = logits.argmax(axis=1) == TAXONOMY.normal
        for source, row in figures.items():
            lesions = asked.samples.abnormal & (asked.samples.source == source)
            missed = f"{np.mean(said[lesions]):.3f}"
            yield f"{more:+g}", source, str(row.exam_normal_said), str(row.balanced), missed


def opened(pattern: str, fold: int, size: int | None = None) -> OnnxEncoder:
    """Open the network of a fold; an encoder that leaves its side open can be shown frames of another size."""
    encoder = OnnxEncoder.open(Path(pattern.replace("{fold}", str(fold))))
    return encoder.at(size or encoder.input_size)


def main() -> None:
    """Print a row for every encoder, ranking and source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", nargs="+", metavar="ENCODER", help="a path with {fold} in it")
    parser.add_argument("--folds", type=int, nargs="+", choices=range(FOLDS), default=list(range(FOLDS)))
    parser.add_argument("--diagnoser", metavar="NETWORK", help="a diagnoser's own network, a path with {fold} in it")
    parser.add_argument("--size", type=int, help="side of the frames that encoders are shown, if not their own")
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    rows, costs = [], []
    for pattern in options.encoders:
        parts = [judged(data, opened(pattern, fold, options.size), fold) for fold in options.folds]
        asked, added = HeldOut.join(parts), None
        if options.diagnoser:
            networks = [opened(options.diagnoser, fold) for fold in options.folds]
            added = HeldOut.join([with_network(part, data, one) for part, one in zip(parts, networks, strict=True)])
        name = Path(pattern).stem
        for ranked_by, figures in rankings(asked, added):
            rows += [(name, ranked_by, source, *row.columns()) for source, row in figures.items()]
        costs += [(name, *row) for row in readier(added or asked)]
    print(Table.of(("encoder", "ranked by", "source", *WithinFigures.HEADER), rows).markdown())
    header = ("more of normal", "source", "normal said among 10 % of normal frames", "balanced accuracy")
    print(f"\n{Table.of(('encoder', *header, 'lesions called normal'), costs).markdown()}")


if __name__ == "__main__":
    main()
