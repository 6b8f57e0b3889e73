"""Encoders side by side on one fold: to try a recipe before it is trained for all of them.

    python benchmarks/one_fold.py DATA --fold 0 ENCODER.onnx [ENCODER.onnx ...] [--diagnoser NETWORK.onnx]

Each encoder must know nothing of the fold's cases (`tools/finetune_encoder.py --fold`), and the diagnoser's own network
neither. Heads are trained on all frames of the other folds. Figures are inside patients: ranked by the Selector, then
by 1 - p(normal) of the head, and with a network by that of both added, as in a bundle. A fold has few patients: compare
several folds before you believe a difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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


def judged(data: TrainingData, encoder: OnnxEncoder, fold: int) -> HeldOut:
    """Ask heads that never saw the fold about it."""
    config = TrainConfig(views=0)
    samples = samples_of_cases(data, encoder, TAXONOMY, config, watch)
    return hold_out_fold(samples, fold_of(samples, data), fold, config.head)


def rankings(asked: HeldOut, added: HeldOut | None) -> Iterator[tuple[str, dict[str, WithinFigures]]]:
    """Measure by everything that frames can be ranked by."""
    yield "Selector", asked.within(TAXONOMY)
    for name, held_out in (("head", asked), ("head and network", added)):
        if held_out is not None:
            suspicion = 1 - softmax(held_out.logits)[:, TAXONOMY.normal]
            yield f"1 - p(normal), {name}", held_out.within(TAXONOMY, suspicion)


def main() -> None:
    """Print a row for every encoder, ranking and source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", type=Path, nargs="+", metavar="ENCODER")
    parser.add_argument("--fold", type=int, choices=range(FOLDS), required=True)
    parser.add_argument("--diagnoser", type=Path, metavar="NETWORK", help="a diagnoser's own network")
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    network = OnnxEncoder.open(options.diagnoser) if options.diagnoser else None
    rows = []
    for path in options.encoders:
        asked = judged(data, OnnxEncoder.open(path), options.fold)
        said = logits_of(asked.samples, data.exams, network, watch("asking the network")) if network else None
        added = None if said is None else replace(asked, logits=asked.logits + said)
        for ranked_by, figures in rankings(asked, added):
            rows += [(path.stem, ranked_by, source, *row.columns()) for source, row in figures.items()]
    print(Table.of(("encoder", "ranked by", "source", *WithinFigures.HEADER), rows).markdown())


if __name__ == "__main__":
    main()
