"""How the Context Weaver scales: seconds, memory and the growth exponent from 1,000 to 100,000 candidates.

    python benchmarks/weave.py [--dim 1280] [--sizes 10000 100000]

Candidates are synthetic: events of about 20 glimpses with a look of their own and noise on every frame, spread over
10 h, which is harder than an exam, where neighbours are more alike. Their features lie in a file, as in the cache. Each
size runs in a fresh process, so that the peak memory is its own. Time is that of the clock and that of the processor,
over all cores; where the machine does other work as well, only the latter means something, and OPENBLAS_NUM_THREADS=1
keeps threads that wait from counting as work.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from dice_ce.exam.frames import FrameTable
from dice_ce.features.rows import Rows
from dice_ce.method.selector import Screened, SelectorSettings, select
from dice_ce.method.weaver import WeaverSettings, weave
from exams import peak_megabytes

SIZES = (1_000, 10_000, 30_000, 100_000)
GLIMPSES = 20


def write_features(file: Path, count: int, dim: int) -> None:
    """Make features, in pieces of whole events, so that making them takes little memory."""
    rng = np.random.default_rng(0)
    vectors = np.lib.format.open_memmap(file, "w+", np.float16, (count, dim))
    for start in range(0, count, 200 * GLIMPSES):
        rows = np.arange(start, min(start + 200 * GLIMPSES, count))
        looks = rng.normal(size=(200, dim)).astype(np.float32)[(rows - start) // GLIMPSES]
        vectors[rows] = looks + 0.5 * rng.normal(size=(len(rows), dim)).astype(np.float32)


def measure(file: Path) -> str:
    """Weave once and describe it in one line."""
    vectors = Rows(np.load(file, mmap_mode="r"))
    count = len(vectors)
    seconds = np.sort(np.random.default_rng(0).uniform(0, 36_000, count))
    frames = FrameTable(np.arange(count), np.arange(count), Fraction(1, 25))
    screened = Screened(frames, seconds, vectors, np.ones(count, np.float32))
    began = time.perf_counter(), time.process_time()
    contexts = weave(select(screened, SelectorSettings()), WeaverSettings())
    elapsed, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    digest = hashlib.sha256()
    for context in contexts:
        digest.update(len(context.rows).to_bytes(8))  # else two contexts look like one
        digest.update(context.rows.tobytes())
    peak = peak_megabytes()
    return f"{count} {elapsed} {processor} {peak} {len(contexts)} {digest.hexdigest()[:12]}"


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=1280)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--features", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.features:
        print(measure(options.features))
        return
    print(f"dimension {options.dim}\n")
    print("| candidates | seconds | of the processor | peak MB | contexts | digest of the contexts |")
    print("|---|---|---|---|---|---|")
    times = {}
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_features(file := Path(folder) / "vectors.npy", size, options.dim)
            command = [sys.executable, __file__, "--features", str(file)]
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        count, seconds, processor, peak, contexts, digest = int(line[0]), *map(float, line[1:4]), int(line[4]), line[5]
        times[size] = processor
        print(f"| {count:,} | {seconds:.2f} | {processor:.2f} | {peak:.0f} | {contexts:,} | {digest} |", flush=True)
    first, last = min(size for size in times if size >= SIZES[1] or size == max(times)), max(times)
    if first < last:
        exponent = math.log(times[last] / times[first]) / math.log(last / first)
        print(f"\nFrom {first:,} to {last:,} candidates the processor's time grows with the power {exponent:.2f}.")


if __name__ == "__main__":
    main()
