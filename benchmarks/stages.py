"""Where the time of an exam goes, stage by stage, and what the diagnoser's own network costs.

    python benchmarks/stages.py [EXAM] [--frames 6000] [--size 336] [--bundle default] [--shares 1 0.4 0.2 0.1]

Without an exam, a simulated one is made. All in one run, from an empty cache, on all cores: frames per second of the
encoder and of the diagnoser, and for several shares of candidates, whatever their scores, what the diagnoser adds to
the time of the features.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from dice_ce.exam.open import open_exam
from dice_ce.features.extraction import extract
from dice_ce.files import CACHE_VARIABLE, cache_root
from dice_ce.method.bundle import diagnoser_kind, load_bundle
from dice_ce.method.pipeline import summarize
from dice_ce.method.selector import screen
from dice_ce.outputs import write_outputs
from dice_ce.table import Table
from exams import make_exam

Given = TypeVar("Given")


def timed(work: Callable[[], Given]) -> tuple[Given, float]:
    """Return what the work gives, and its seconds."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exam", type=Path, nargs="?")
    parser.add_argument("--frames", type=int, default=6000)
    parser.add_argument("--size", type=int, default=336)
    parser.add_argument("--bundle", default="default")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.4, 0.2, 0.1])
    options = parser.parse_args()
    path = options.exam or make_exam(cache_root() / "benchmark", options.frames, options.size)
    bundle = load_bundle(options.bundle)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        exam, opening = timed(lambda: open_exam(path))
        with exam:
            features, reading = timed(lambda: extract(exam, bundle.encoder, gate=None))
            screened, screening = timed(lambda: screen(features, bundle.selector, exam.clock))
            rows = [("open", len(exam), opening), ("features", len(exam), reading), ("Selector", len(exam), screening)]
            for share in options.shares:
                chosen = np.linspace(0, len(screened) - 1, round(share * len(screened))).astype(np.int64)
                _, looking = timed(partial(bundle.diagnoser, exam, screened[chosen]))
                rows.append((f"diagnoser, {share:.0%} of the frames", len(chosen), looking))
            summary, whole = timed(lambda: summarize(exam, bundle=bundle, gate=None))
            rows.append((f"all from features on, profile default, {summary.counts.candidates} candidates", 0, whole))
            _, writing = timed(lambda: write_outputs(summary, exam, Path(folder) / "out"))
            rows.append((f"outputs, {len(summary.items)} items", len(summary.items), writing))
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{len(exam):,} frames; diagnoser: {diagnoser_kind(bundle.diagnoser)}; {load}\n")
    table = [
        (what, f"{seconds:.2f}", f"{count / seconds:,.0f}" if count else "–", f"{seconds / reading:.3f}")
        for what, count, seconds in rows
    ]
    print(Table.of(("stage", "seconds", "per second", "share of the features' time"), table).markdown())


if __name__ == "__main__":
    main()
