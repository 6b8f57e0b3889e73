"""What it brings that frames stand out in their exam, on held-out cases.

    python benchmarks/standing.py DATA 'WORK/fold-{fold}.onnx' [--folds 0 1]

The encoder of a fold must know nothing of its cases. Heads are trained on all frames of the other folds. Frames of a
case are taken for an exam; that is fair only where lesions are as rare as in one, so the last columns leave at most one
frame of twenty with a lesion, drawn ten times.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from dice_ce.benchmark.frames import roc_auc
from dice_ce.benchmark.significance import Estimate
from dice_ce.benchmark.within import FEWEST, mean_estimate
from dice_ce.datasets.splits import FOLDS
from dice_ce.lab.training.data import gather
from dice_ce.lab.training.folds import HeldOut
from dice_ce.method.beyond.standing import how_unlike
from dice_ce.table import Table
from dice_ce.types import Floats
from folds import judged, opened
from other_makes import TAXONOMY

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
RARE = 0.05
"""Share of lesion frames that is left."""
DRAWS = 10


def unlike_in_case(asked: HeldOut) -> Floats:
    """Compare every frame with those of its case."""
    found = np.zeros(len(asked.samples), np.float32)
    for case in np.unique(asked.samples.case):
        rows = asked.samples.case == case
        found[rows] = how_unlike(asked.samples.vectors[rows])
    return found


def area_where_rare(asked: HeldOut, logit: Floats, source: str) -> dict[float, Estimate]:
    """Measure inside cases of whose lesion frames only a few are left; those few are compared, too."""
    samples, chance = asked.samples, np.random.default_rng(0)
    areas: dict[float, list[float]] = {weight: [] for weight in WEIGHTS}
    cases = []
    for case in np.unique(samples.case[samples.source == source]):
        rows = np.flatnonzero(samples.case == case)
        lesions, normals = rows[samples.abnormal[rows]], rows[~samples.abnormal[rows]]
        left = min(len(lesions), round(RARE / (1 - RARE) * len(normals)))
        if len(normals) < FEWEST or left < 1:
            continue
        drawn = [np.concatenate([chance.choice(lesions, left, replace=False), normals]) for _ in range(DRAWS)]
        unlike = [how_unlike(samples.vectors[some]) for some in drawn]
        for weight in WEIGHTS:
            scores = [logit[some] + weight * much for some, much in zip(drawn, unlike, strict=True)]
            found = [roc_auc(score, samples.abnormal[some]) for score, some in zip(scores, drawn, strict=True)]
            areas[weight].append(float(np.mean(found)))
        cases.append(str(case))
    return {weight: mean_estimate(found, cases) for weight, found in areas.items()}


def main() -> None:
    """Print a row for every source and weight."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("encoder", help="a path with {fold} in it")
    parser.add_argument("--folds", type=int, nargs="+", choices=range(FOLDS), default=list(range(FOLDS)))
    options = parser.parse_args()
    data = gather([options.data], TAXONOMY.labels)
    asked = HeldOut.join([judged(data, opened(options.encoder, fold), fold) for fold in options.folds])
    calibration = asked.calibration()
    logit = np.asarray((asked.suspicion - calibration.threshold) * calibration.slope, np.float32)
    unlike = unlike_in_case(asked)
    within = {weight: replace(asked, suspicion=logit + weight * unlike).within(TAXONOMY) for weight in WEIGHTS}
    rows = []
    for source in within[0.0]:
        rare = area_where_rare(asked, logit, source)
        for weight in WEIGHTS:
            found = within[weight][source]
            columns = (found.auc, found.event_recall, found.exam_event_recall, rare[weight])
            rows.append((source, f"{weight:g}", *map(str, columns)))
    header = (
        "AUC inside patients",
        "event recall at 10 % of all frames",
        "at 10 % of normal frames",
        "AUC, lesions rare",
    )
    print(Table.of(("source", "weight", *header), rows).markdown())


if __name__ == "__main__":
    main()
