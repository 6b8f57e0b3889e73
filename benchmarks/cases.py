"""What more patients would bring: networks that learnt from some of the cases, asked about cases that they never saw.

    python benchmarks/cases.py DATA 'WORK/fold-{fold}.onnx' [--draws 4] [--folds 0 1]
    python benchmarks/cases.py DATA lite0.onnx --networks 'WORK/quarter-{fold}.onnx' 'WORK/diagnoser-{fold}.onnx'

Heads learn from an eighth, a quarter, half and all of the cases of the other folds, drawn several times (every source
keeps its share, and at least one case of every label that it has), and are asked about the fold. The encoders are those
of the folds, which knew all other cases, or one that knew none (ImageNet's, from `tools/imagenet_encoder.py`). In the
last rows single frames are held out instead of cases, which must not be done: neighbours are nearly the same frame, so
that is an upper bound. Figures are means over the draws.

With `--networks` the diagnoser's own networks are asked instead, from whatever share of the cases they learnt
(`tools/finetune_diagnoser.py --fold FOLD --share 0.25`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dice_ce.datasets.splits import FOLDS, some_cases
from dice_ce.features.encoder import Encoder, OnnxEncoder, load_encoder
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.folds import HeldOut, hold_out_fold
from dice_ce.lab.training.heads import HeadConfig
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases
from dice_ce.lab.training.samples import Samples
from dice_ce.lab.training.second import logits_of
from dice_ce.method.diagnoser import softmax
from dice_ce.progress import ProgressBar
from dice_ce.table import Table
from other_makes import TAXONOMY, watch

SHARES = (0.125, 0.25, 0.5, 1.0)
COLUMNS = ("AUC inside patients", "event recall at 10 % of normal frames", "lesions named right", "balanced accuracy")


def samples_of(data: TrainingData, encoder: Encoder) -> Samples:
    """See all frames once."""
    return samples_of_cases(data, encoder, TAXONOMY, TrainConfig(views=0), watch)


def with_cases(seen: dict[int, Samples], data: TrainingData, share: float, seed: int) -> tuple[HeldOut, float]:
    """Judge every case by heads that learnt from a share of the others; return also how many cases these were."""
    parts, counts = [], []
    for fold, samples in seen.items():
        others = [frame for frame in data.frames if data.fold[frame.case] != fold]
        chosen = some_cases(others, share, seed)
        of = fold_of(samples, data)
        of = np.where(np.isin(samples.case, list(chosen)) | (of == fold), of, -1)
        parts.append(hold_out_fold(samples, of, fold, HeadConfig(seed=seed)))
        counts.append(len(chosen))
    return HeldOut.join(parts), float(np.mean(counts))


def split_by_frames(samples: Samples) -> HeldOut:
    """Judge every frame by heads that saw its neighbours: what must not be done."""
    of = np.random.default_rng(0).integers(FOLDS, size=len(samples))
    return HeldOut.join([hold_out_fold(samples, of, fold, HeadConfig()) for fold in range(FOLDS)])


def by_network(samples: Samples, data: TrainingData, pattern: str, folds: Sequence[int]) -> HeldOut:
    """Judge every case by a network that never saw it."""
    parts = []
    for fold in folds:
        asked = samples[fold_of(samples, data) == fold].once()
        network = OnnxEncoder.open(Path(pattern.replace("{fold}", str(fold))))
        logits = logits_of(asked, data.exams, network, watch(f"fold {fold}"))
        normal = np.clip(softmax(logits)[:, TAXONOMY.normal], 1e-9, 1 - 1e-9)
        suspicion = (np.log1p(-normal) - np.log(normal)).astype(np.float32)
        parts.append(HeldOut(asked, np.full(len(asked), fold), suspicion, logits, ()))
    return HeldOut.join(parts)


def rows_of(name: str, cases: str, judged: Sequence[HeldOut]) -> Iterator[tuple[str, ...]]:
    """Average the figures over the draws, source by source."""
    tables = [held_out.within(TAXONOMY) for held_out in judged]
    for source in tables[0]:
        own = [table[source] for table in tables]
        figures = [(one.auc, one.exam_event_recall, one.named, one.balanced) for one in own]
        means = np.mean([[estimate.value for estimate in row] for row in figures], axis=0)
        yield name, cases, source, *("–" if np.isnan(mean) else f"{mean:.3f}" for mean in means)


def rows_of_heads(data: TrainingData, pattern: str, folds: Sequence[int], draws: int) -> Iterator[tuple[str, ...]]:
    """Train heads on every share of the cases."""
    seen = {fold: samples_of(data, load_encoder(pattern.replace("{fold}", str(fold)))) for fold in folds}
    with ProgressBar("training heads", "rounds") as bar:
        rounds = [(share, seed) for share in SHARES for seed in range(draws if share < 1 else 1)]
        judged: dict[float, list[HeldOut]] = {share: [] for share in SHARES}
        cases: dict[float, float] = {}
        for done, (share, seed) in enumerate(rounds):
            held_out, cases[share] = with_cases(seen, data, share, seed)
            judged[share].append(held_out)
            bar(done + 1, len(rounds) + 1)
        for share in SHARES:
            yield from rows_of(f"{share:g}", f"{cases[share]:.0f}", judged[share])
        yield from rows_of("split by frames", "all", [split_by_frames(seen[folds[0]])])
        bar(len(rounds) + 1, len(rounds) + 1)


def main() -> None:
    """Print rows for every share of the cases, or every network, and source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("encoders", help="one per fold, with {fold} in the name, or one that knew no case")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--folds", type=int, nargs="+", choices=range(FOLDS), default=list(range(FOLDS)))
    parser.add_argument("--networks", nargs="+", metavar="NETWORK", help="ask these instead; paths with {fold} in them")
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    if options.networks:
        samples = samples_of(data, load_encoder(options.encoders.replace("{fold}", "0")))
        asked = [(Path(name).stem, by_network(samples, data, name, options.folds)) for name in options.networks]
        rows = [row for name, held_out in asked for row in rows_of(name, "–", [held_out])]
    else:
        rows = list(rows_of_heads(data, options.encoders, options.folds, options.draws))
    print(Table.of(("share of the cases", "cases", "source", *COLUMNS), rows).markdown())


if __name__ == "__main__":
    main()
