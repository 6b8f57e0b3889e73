"""What happens with another make of capsule: heads trained without one source and asked about it.

    python benchmarks/other_makes.py DATA [--encoders 'fold-{fold}.onnx']

For every source the figures inside its patients: by heads of held-out folds that learnt from the other cases of the
same source, too, and by heads that never saw the source. Then whether its cases are noticed: how many have at least
half of their frames beyond the limit of what is familiar, fitted without the source, against held-out cases of the
others. Encoders of the folds knew the other cases of the source, so the true drop with a new make is larger.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dice_ce.datasets.splits import FOLDS
from dice_ce.features.encoder import Encoder, load_encoder
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.folds import HeldOut, hold_out
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases
from dice_ce.lab.training.samples import Samples
from dice_ce.method.beyond.familiar import UNFAMILIAR
from dice_ce.method.bundle import load_bundle
from dice_ce.progress import ProgressBar
from dice_ce.table import Table
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Ints, Progress

TAXONOMY = Taxonomy()


def watch(label: str, unit: str = "frames") -> Progress:
    """Show a bar."""
    return ProgressBar(label, unit)


def held_out(data: TrainingData, encoders: Sequence[Encoder], without: str | None) -> HeldOut:
    """Judge every case by heads that never saw it; with `without`, all of that source by heads that saw none of it."""
    config = TrainConfig(views=0)

    def samples_of(fold: int) -> tuple[Samples, Ints]:
        samples = samples_of_cases(data, encoders[fold % len(encoders)], TAXONOMY, config, watch)
        of = fold_of(samples, data)
        # Cases of the source that are not asked about now are not learnt from, either.
        return samples, np.where((samples.source == without) & (of != fold), -1, of)

    return hold_out(samples_of, data.folds, config.head)


def flagged(judged: HeldOut, limit: float) -> str:
    """Count the cases most of whose frames lie beyond the limit."""
    cases = np.unique(judged.samples.case)
    shares = [float(np.mean(judged.distance[judged.samples.case == case] > limit)) for case in cases]
    return f"{sum(share >= UNFAMILIAR for share in shares)} of {len(cases)} (mean share {np.mean(shares):.2f})"


def main() -> None:
    """Print one pair of rows per source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoders", help="one per fold, with {fold} in the name (default: the shipped one)")
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    encoders: list[Encoder] = [load_bundle().encoder]
    if options.encoders:
        encoders = [load_encoder(options.encoders.replace("{fold}", str(fold))) for fold in range(FOLDS)]
    with_all = held_out(data, encoders, None)
    rows = []
    for source in np.unique(with_all.samples.source).tolist():
        blind = held_out(data, encoders, source)
        is_own = blind.samples.source == source
        limit = blind[~is_own].limit()
        for name, judged, noticed in (
            ("learnt from it, other cases", with_all, "–"),
            ("never saw it", blind, f"{flagged(blind[is_own], limit)}; others {flagged(blind[~is_own], limit)}"),
        ):
            figures = judged.within(TAXONOMY)[source]
            rows.append((source, name, *figures.columns(), noticed))
    header = ("source", "heads", *type(figures).HEADER, "cases called unfamiliar")
    print(Table.of(header, rows).markdown())


if __name__ == "__main__":
    main()
