"""Two bundles on the same labelled frames: do they see, rank and name alike?

    python benchmarks/bundles.py DATA BUNDLE OTHER [--every 3]

For a bundle whose networks were converted, not trained anew: both knew these cases, so this tells how alike they are,
not how good. By source, inside patients as everywhere: how far features move (cosine distance), in which order the
Selector puts a patient's frames (rank correlation), how many frames pass tau_s in one bundle only, how many are called
by another label, and the area under the curve of each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dice_ce.benchmark.frames import roc_auc
from dice_ce.benchmark.significance import doubled_ranks
from dice_ce.benchmark.within import FEWEST
from dice_ce.datasets.pool import load_pool
from dice_ce.features.images import encode_images
from dice_ce.lab.training.calibration import TAU_S
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.predict import FrameScores, predict_images
from dice_ce.progress import ProgressBar
from dice_ce.table import Table
from dice_ce.types import Bools, Floats


def seen(paths: list[Path], bundle: Bundle) -> tuple[Floats, FrameScores]:
    """Return unit features and scores."""
    with ProgressBar("features", "frames") as bar:
        vectors = encode_images(paths, bundle.encoder, progress=bar)
    with ProgressBar("scores", "frames") as bar:
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), predict_images(paths, bundle, progress=bar)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's: 1 is the same order."""
    return float(np.corrcoef(doubled_ranks(one), doubled_ranks(other))[0, 1])


def area(score: Floats, lesion: Bools) -> float:
    """Chance that a lesion frame scores higher than a normal one; NaN if there are too few of either."""
    return roc_auc(score, lesion) if min(lesion.sum(), (~lesion).sum()) >= FEWEST else float("nan")


def main() -> None:
    """Print a row for every source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("bundles", nargs=2, metavar="BUNDLE")
    parser.add_argument("--every", type=int, default=3, help="ask about every so many frames")
    options = parser.parse_args()
    one, other = (load_bundle(spec) for spec in options.bundles)
    normal = one.taxonomy.labels[one.taxonomy.normal]
    frames = [frame for frame in load_pool(options.data).frames if frame.case][:: options.every]
    paths = [frame.path for frame in frames]
    (vectors, before), (moved, after) = (seen(paths, bundle) for bundle in (one, other))
    source, case = (np.array([getattr(frame, key) for frame in frames]) for key in ("source", "case"))
    lesion = np.array([set(frame.labels) != {normal} and len(frame.labels) > 0 for frame in frames])
    away = 1 - (vectors * moved).sum(axis=1)
    passes = (before.score >= TAU_S) != (after.score >= TAU_S)
    renamed = before.distributions.argmax(axis=1) != after.distributions.argmax(axis=1)
    rows = []
    for name in np.unique(source):
        of = source == name
        inside = [np.flatnonzero(of & (case == each)) for each in np.unique(case[of])]
        alike = [rank_correlation(before.score[i], after.score[i]) for i in inside if len(i) >= FEWEST]
        areas = np.array([[area(scores.score[i], lesion[i]) for scores in (before, after)] for i in inside])
        known = ~np.isnan(areas[:, 0])
        means = areas[known].mean(axis=0) if known.any() else (float("nan"),) * 2
        rows.append(
            (
                str(name),
                str(int(of.sum())),
                f"{np.median(away[of]):.4f}, {np.quantile(away[of], 0.95):.4f}",
                f"{np.mean(alike):.3f}, {np.min(alike):.3f}",
                f"{100 * passes[of].mean():.1f} %",
                f"{100 * renamed[of].mean():.1f} %",
                " / ".join("–" if np.isnan(value) else f"{value:.3f}" for value in means),
            )
        )
    header = (
        "source",
        "frames",
        "cosine distance: median, 95 %",
        "rank correlation inside patients: mean, lowest",
        "pass tau_s in one only",
        "called otherwise",
        "AUC inside patients",
    )
    print(Table.of(header, rows).markdown())


if __name__ == "__main__":
    main()
