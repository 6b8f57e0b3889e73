"""What more patients would bring: heads that learnt from some of the cases, asked about cases that they never saw.

    python benchmarks/cases.py DATA 'WORK/fold-{fold}.onnx' [--draws 4]

Heads of every fold learn from an eighth, a quarter, half and all of the cases of the other folds, drawn several times
(every source keeps its share, and at least one case of every label that it has), and are asked about the fold. The
encoders are those of the folds, which knew all other cases, or one that knew none (ImageNet's, from
`tools/imagenet_encoder.py`). In the last rows single frames are held out instead of cases, which must not be done: that
tells what is missing between patients, and what inside them. Figures are means over the draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dice_ce.datasets.splits import FOLDS
from dice_ce.features.encoder import load_encoder
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.folds import HeldOut, hold_out_fold
from dice_ce.lab.training.heads import HeadConfig
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases
from dice_ce.lab.training.samples import Samples
from dice_ce.progress import ProgressBar
from dice_ce.table import Table
from dice_ce.types import Ints
from other_makes import TAXONOMY, watch

SHARES = (0.125, 0.25, 0.5, 1.0)
COLUMNS = ("AUC inside patients", "event recall at 10 % of normal frames", "lesions named right", "balanced accuracy")


def drawn_cases(samples: Samples, rows: Ints, share: float, seed: int) -> set[str]:
    """Draw cases of every source: first one of every label that it has, then any, until there are enough."""
    chance, chosen = np.random.default_rng(seed), set[str]()
    for source in np.unique(samples.source[rows]):
        own = rows[samples.source[rows] == source]
        order = chance.permutation(np.unique(samples.case[own])).tolist()
        wanted = max(1, round(share * len(order)))
        has = {case: samples.labels[own[samples.case[own] == case]].any(axis=0) for case in order}
        first = [next(case for case in order if has[case][label]) for label in np.flatnonzero(sum(has.values()))]
        chosen |= set(list(dict.fromkeys([*first, *order]))[: max(wanted, len(set(first)))])
    return chosen


def with_cases(seen: Sequence[Samples], data: TrainingData, share: float, seed: int) -> tuple[HeldOut, float]:
    """Judge every case by heads that learnt from a share of the others; return also how many cases these were."""
    parts, counts = [], []
    for fold, samples in enumerate(seen):
        of = fold_of(samples, data)
        chosen = drawn_cases(samples, np.flatnonzero((of >= 0) & (of != fold)), share, seed)
        learnt = np.isin(samples.case, list(chosen))
        of = np.where(learnt | (of == fold), of, -1)
        parts.append(hold_out_fold(samples, of, fold, replace(HeadConfig(), seed=seed)))
        counts.append(len(chosen))
    return HeldOut.join(parts), float(np.mean(counts))


def split_by_frames(samples: Samples, seed: int) -> HeldOut:
    """Judge every frame by heads that saw its neighbours: what must not be done."""
    of = np.random.default_rng(seed).integers(FOLDS, size=len(samples))
    return HeldOut.join([hold_out_fold(samples, of, fold, replace(HeadConfig(), seed=seed)) for fold in range(FOLDS)])


def rows_of(name: str, cases: str, judged: Sequence[HeldOut]) -> Iterator[tuple[str, ...]]:
    """Average the figures over the draws, source by source."""
    tables = [held_out.within(TAXONOMY) for held_out in judged]
    for source in tables[0]:
        own = [table[source] for table in tables]
        figures = [(one.auc, one.exam_event_recall, one.named, one.balanced) for one in own]
        means = np.mean([[estimate.value for estimate in row] for row in figures], axis=0)
        yield name, cases, source, *("–" if np.isnan(mean) else f"{mean:.3f}" for mean in means)


def main() -> None:
    """Print rows for every share of the cases and source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", help="one per fold, with {fold} in the name, or one that knew no case")
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    encoders = [load_encoder(options.encoders.replace("{fold}", str(fold))) for fold in range(FOLDS)]
    seen = [samples_of_cases(data, encoder, TAXONOMY, TrainConfig(views=0), watch) for encoder in encoders]
    rows: list[tuple[str, ...]] = []
    with ProgressBar("training heads", "rounds") as bar:
        rounds = [(share, seed) for share in SHARES for seed in range(options.draws if share < 1 else 1)]
        for share in SHARES:
            judged = []
            for seed in range(options.draws if share < 1 else 1):
                held_out, cases = with_cases(seen, data, share, seed)
                judged.append(held_out)
                bar(rounds.index((share, seed)) + 1, len(rounds) + 1)
            rows += rows_of(f"{share:g}", f"{cases:.0f}", judged)
        rows += rows_of("split by frames", "all", [split_by_frames(seen[0], 0)])
        bar(len(rounds) + 1, len(rounds) + 1)
    print(Table.of(("share of the cases", "cases", "source", *COLUMNS), rows).markdown())


if __name__ == "__main__":
    main()
