"""How time and memory grow with the length of the exam, by codec and size: one table, one exponent per row.

    python benchmarks/growth.py [--frames 3000 10000 30000 100000] [--sizes 336 576] [--codecs H.264 ...] [--way whole]

The default (3,000 and 10,000 frames of 336 pixels, H.264) takes some minutes; all of it takes hours. Every exam runs in
a process of its own, which opens and extracts it into an empty cache with every frame encoded (`--way gated`: features
of near-identical frames are reused; `--way whole`: all of `summarize`, down to the report). Finished ones are kept in
WORK/growth.csv and not measured again: interrupt whenever you like, ask for more later, or remove the file to start
anew. Exams are a simulated one of 500 frames, over and over again.

Time is that of the clock and that of the processor, over all cores; on a machine that does other work as well, only the
latter means something. The exponent is the slope of the logarithm of the processor's time, from the shortest to the
longest exam of a row.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from itertools import product
from pathlib import Path

from dice_ce.csvfile import table_text
from dice_ce.exam.open import open_exam
from dice_ce.features.extraction import extract
from dice_ce.features.gate import GateConfig
from dice_ce.files import CACHE_VARIABLE, cache_root, write_atomically
from dice_ce.method.bundle import load_bundle
from dice_ce.method.pipeline import summarize
from dice_ce.outputs import write_outputs
from dice_ce.table import Table
from exams import CODECS, make_exam, peak_megabytes, repeated

ONCE = 500
"""Frames of the exam that is repeated."""


@dataclass(frozen=True, order=True)
class Case:
    """One exam to measure."""

    size: int
    codec: str
    way: str
    frames: int


@dataclass(frozen=True)
class Measured:
    """What it took."""

    seconds: float
    processor: float
    megabytes: float


def measure(video: Path, way: str) -> Measured:
    """Extract, or summarise, in this process."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ[CACHE_VARIABLE] = empty
        bundle = load_bundle()
        began = time.perf_counter(), time.process_time()
        with open_exam(video, exam_fps=2) as exam:
            if way == "whole":
                write_outputs(summarize(exam, bundle=bundle, gate=None), exam, Path(empty) / "results")
            else:
                extract(exam, bundle.encoder, gate=GateConfig() if way == "gated" else None)
        took = time.perf_counter() - began[0], time.process_time() - began[1]
    return Measured(*took, peak_megabytes())


def in_a_fresh_process(video: Path, way: str) -> Measured:
    """Measure by itself, so that memory is that of one exam."""
    command = [sys.executable, __file__, "--measure", str(video), "--way", way]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Measured(*map(float, done.stdout.split()))


def read_log(path: Path) -> dict[Case, Measured]:
    """Read what was measured before."""
    if not path.exists():
        return {}
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return {Case(int(a), b, c, int(d)): Measured(*map(float, rest)) for a, b, c, d, *rest in rows}


def write_log(path: Path, log: dict[Case, Measured]) -> None:
    """Keep what was measured."""
    columns = ("size", "codec", "way", "frames", "seconds", "processor", "megabytes")
    write_atomically(path, table_text(columns, [(*astuple(case), *astuple(log[case])) for case in log]).encode())


def report(log: dict[Case, Measured]) -> str:
    """One row per codec and size."""
    lengths = sorted({case.frames for case in log})
    rows = []
    for size, codec, way in sorted({(case.size, case.codec, case.way) for case in log}):
        row = {n: log[case] for n in lengths if (case := Case(size, codec, way, n)) in log}
        first, last = min(row), max(row)
        slope = "-"
        if first < last:
            slope = f"{math.log(row[last].processor / row[first].processor) / math.log(last / first):.2f}"
        cells = (
            f"{one.seconds:.0f} / {one.processor:.0f} / {one.megabytes:.0f}" if (one := row.get(n)) else "-"
            for n in lengths
        )
        rows.append((f"{codec}, {size}, {way}", *cells, slope))
    headings = ("exam", *(f"{n:,} frames" for n in lengths), "exponent")
    return f"Seconds / seconds of the processor / peak MB\n\n{Table.of(headings, rows).markdown()}"


def main() -> None:
    """Measure what is not measured yet, shortest first, and print the table of everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, nargs="+", default=[3_000, 10_000])
    parser.add_argument("--sizes", type=int, nargs="+", default=[336])
    parser.add_argument("--codecs", nargs="+", choices=tuple(CODECS), default=["H.264"])
    parser.add_argument("--way", choices=("exact", "gated", "whole"), default="exact")
    parser.add_argument(
        "--work", type=Path, default=cache_root() / "benchmarks", help="where exams and figures are kept"
    )
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(*astuple(measure(options.measure, options.way)))
        return
    path = options.work / "growth.csv"
    log = read_log(path)
    for frames, size, codec in product(sorted(options.frames), options.sizes, options.codecs):
        case = Case(size, codec, options.way, frames)
        if case not in log:
            print(f"{codec}, {size} pixels, {frames:,} frames", file=sys.stderr)
            video = repeated(make_exam(options.work, ONCE, size, codec), frames // ONCE)
            log[case] = in_a_fresh_process(video, options.way)
            write_log(path, log)
    print(report(log))


if __name__ == "__main__":
    main()
