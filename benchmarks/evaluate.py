"""How long it takes to score a benchmark: reading, judging, intervals, tests.

python benchmarks/evaluate.py [--exams 240] [--frames 30]

The loop it is compared with does what one would write instead of the bootstrap: draw patients, add up their counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path
from typing import TypeVar

import numpy as np

from dice_ce.benchmark.comparison import compare
from dice_ce.benchmark.evaluation import Evaluation, evaluate
from dice_ce.benchmark.metrics import RATIOS
from dice_ce.benchmark.predictions import read_predictions
from dice_ce.benchmark.significance import RESAMPLES, interval, resample, resampled_quotients
from dice_ce.datasets.tables import Annotation, Finding
from dice_ce.taxonomy import VIDEOCAP_12

T = TypeVar("T")

EXAM_SECONDS = 36_000


def synthetic_truth(exams: int, rng: np.random.Generator) -> dict[str, Annotation]:
    """Make reports with 3.4 findings on average, as in VideoCAP."""
    return {
        f"exam{k:04d}": Annotation(
            f"exam{k:04d}",
            tuple(
                Finding(str(i), float(rng.uniform(0, EXAM_SECONDS)), str(rng.choice(VIDEOCAP_12[:-1])))
                for i in range(rng.poisson(3.4))
            ),
        )
        for k in range(exams)
    }


def write_predictions(path: Path, truth: dict[str, Annotation], frames: int, skill: float, seed: int) -> None:
    """Write a CSV in which some findings are met and the other frames lie anywhere."""
    rng = np.random.default_rng(seed)
    lines = ["exam_id,seconds,label,frame"]
    for exam, annotation in truth.items():
        met = [finding for finding in annotation.findings if rng.random() < skill]
        seconds = [float(np.clip(finding.seconds + rng.normal(0, 60), 0, EXAM_SECONDS)) for finding in met]
        seconds += rng.uniform(0, EXAM_SECONDS, frames - len(met)).tolist()
        labels = [finding.label for finding in met] + rng.choice(VIDEOCAP_12, frames - len(met)).tolist()
        lines += [f"{exam},{time:.3f},{label},{k}" for k, (time, label) in enumerate(zip(seconds, labels, strict=True))]
    path.write_text("\n".join(lines) + "\n")


def naive_interval(evaluation: Evaluation, key: str, resamples: int) -> tuple[float, float]:
    """Compute an interval by adding up the counts of drawn exams, again and again."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(resamples):
        drawn = rng.integers(len(evaluation.counts), size=len(evaluation.counts))
        values.append(RATIOS[key].of([reduce(add, (evaluation.counts[k] for k in drawn))]))
    return interval(np.array(values))


def measure(name: str, work: Callable[[], T]) -> tuple[T, float]:
    """Do it once and print how long it took."""
    began = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    print(f"| {name} | {seconds:.3f} |", flush=True)
    return result, seconds


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exams", type=int, default=240)
    parser.add_argument("--frames", type=int, default=30)
    options = parser.parse_args()
    truth = synthetic_truth(options.exams, np.random.default_rng(0))
    print(f"{options.exams} exams, {options.frames} frames each\n\n| what | seconds |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"method{k}.csv" for k in range(2)]
        for k, file in enumerate(files):
            write_predictions(file, truth, options.frames, 0.4 + 0.4 * k, seed=k)
        read, _ = measure("read two CSV files", lambda: [read_predictions(file).for_exams(truth) for file in files])
    evaluations, _ = measure(
        f"score both: counts, {len(RATIOS) + 11} figures, intervals of {RESAMPLES:,} resamples",
        lambda: [evaluate(method, truth, name=f"method {k}") for k, method in enumerate(read)],
    )
    measure("compare them: 8 paired tests", lambda: compare(evaluations))
    one = evaluations[0]
    columns = RATIOS["ldr"].columns(one.counts)
    _, ours = measure(
        "one interval", lambda: interval(resampled_quotients(resample(one.patients, RESAMPLES, 0), *columns))
    )
    few = RESAMPLES // 50
    _, naive = measure(f"one interval by a loop, {few} resamples only", lambda: naive_interval(one, "ldr", few))
    print(f"\nThe loop would take {naive * RESAMPLES / few / ours:,.0f} times as long for all resamples.")


if __name__ == "__main__":
    main()
