"""Encoders side by side on held-out folds: to try a recipe on one before it is trained for all of them.

    python benchmarks/folds.py DATA 'WORK/fold-{fold}.onnx' [...] --diagnoser 'WORK/diagnoser-{fold}.onnx' --folds 0 1

The encoder of a fold must know nothing of its cases (`tools/finetune_encoder.py --fold`), and the diagnoser's own
network neither. Heads are trained on all frames of the other folds. Figures are inside patients: ranked by the
Selector, then by 1 - p(normal) of the head; with a network also by a Selector that it taught, and by 1 - p(normal) of
head and network added, as in a bundle. A fold has few patients: compare several before you believe a difference.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dice_ce.benchmark.within import WithinFigures
from dice_ce.datasets.splits import FOLDS
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.folds import HeldOut, hold_out_fold
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases, taught
from dice_ce.method.diagnoser import softmax
from dice_ce.table import Table
from other_makes import TAXONOMY, watch


def judged(data: TrainingData, fold: int, encoder: OnnxEncoder, network: OnnxEncoder | None) -> list[HeldOut]:
    """Ask heads that never saw the fold about it: those that learnt from labels, then those that had a teacher."""
    config = TrainConfig(views=0)
    samples = samples_of_cases(data, encoder, TAXONOMY, config, watch)
    tables = [samples]
    if network:
        tables.append(taught(samples, network, data, TAXONOMY, watch(f"asking the diagnoser of fold {fold}")))
    return [hold_out_fold(table, fold_of(table, data), fold, config.head) for table in tables]


def rankings(alone: HeldOut, with_teacher: HeldOut | None) -> Iterator[tuple[str, dict[str, WithinFigures]]]:
    """Measure by everything that frames can be ranked by."""
    for name, held_out in (("head", alone), ("head and network", with_teacher)):
        if held_out is not None:
            yield "Selector" if held_out is alone else "Selector, taught", held_out.within(TAXONOMY)
            yield f"1 - p(normal), {name}", held_out.within(TAXONOMY, 1 - softmax(held_out.logits)[:, TAXONOMY.normal])


def opened(pattern: str, fold: int, size: int | None = None) -> OnnxEncoder:
    """Open the network of a fold; an encoder that leaves its side open can be shown frames of another size."""
    encoder = OnnxEncoder.open(Path(pattern.replace("{fold}", str(fold))))
    if size is None:
        return encoder
    digest = hashlib.sha256(f"{encoder.digest} {size}".encode()).hexdigest()
    return replace(encoder, input_size=size, digest=digest)


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
    rows = []
    for pattern in options.encoders:
        parts = []
        for fold in options.folds:
            network = opened(options.diagnoser, fold) if options.diagnoser else None
            parts.append(judged(data, fold, opened(pattern, fold, options.size), network))
        alone, *with_teacher = (HeldOut.join(several) for several in zip(*parts, strict=True))
        for ranked_by, figures in rankings(alone, with_teacher[0] if with_teacher else None):
            rows += [(Path(pattern).stem, ranked_by, source, *row.columns()) for source, row in figures.items()]
    print(Table.of(("encoder", "ranked by", "source", *WithinFigures.HEADER), rows).markdown())


if __name__ == "__main__":
    main()
