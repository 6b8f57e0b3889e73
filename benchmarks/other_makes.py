"""What happens with another make of capsule: heads trained without one source and asked about it.

    python benchmarks/other_makes.py DATA [--encoders 'fold-{fold}.onnx']

For every source the figures inside its patients: by heads of held-out folds that learnt from the other cases of the
same source, too, and by heads that never saw the source. Encoders of the folds knew the other cases of the source, so
the true drop with a new make is larger. Before that, within seconds, for every choice of sources that are left out: how
many of their cases are called unfamiliar, and how many held-out cases of the others; no network has a say in that.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dice_ce.datasets.splits import FOLDS
from dice_ce.features.encoder import Encoder, load_encoder
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.familiar import Looks, fit_familiarity, held_out_distances, looks_of_cases
from dice_ce.lab.training.folds import HeldOut, hold_out
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases
from dice_ce.lab.training.samples import Samples
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


def noticed(looks: Looks) -> Iterator[tuple[str, ...]]:
    """Leave out sources, and count the cases of theirs and of the others that are called unfamiliar."""
    sources = np.unique(looks.source).tolist()
    for out in (out for count in range(1, len(sources)) for out in itertools.combinations(sources, count)):
        is_new = np.isin(looks.source, out)
        known = fit_familiarity(looks[~is_new])
        if known is not None:
            new, held_out = (
                distances > known.limit
                for distances in (known.distances(looks[is_new].look), held_out_distances(looks[~is_new]))
            )
            yield " and ".join(out), *(f"{np.sum(beyond)} of {len(beyond)}" for beyond in (new, held_out))


def main() -> None:
    """Print one pair of rows per source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoders", help="one per fold, with {fold} in the name (default: the shipped one)")
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    looks = looks_of_cases(data, watch("looking", "cases"))
    header = ("left out", "its cases called unfamiliar", "held-out cases of the others")
    print(f"{Table.of(header, list(noticed(looks))).markdown()}\n", flush=True)
    encoders: list[Encoder] = [load_bundle().encoder]
    if options.encoders:
        encoders = [load_encoder(options.encoders.replace("{fold}", str(fold))) for fold in range(FOLDS)]
    with_all = held_out(data, encoders, None)
    rows = []
    for source in np.unique(with_all.samples.source).tolist():
        blind = held_out(data, encoders, source)
        for name, judged in (("learnt from it, other cases", with_all), ("never saw it", blind)):
            figures = judged.within(TAXONOMY)[source]
            rows.append((source, name, *figures.columns()))
    print(Table.of(("source", "heads", *type(figures).HEADER), rows).markdown())


if __name__ == "__main__":
    main()
