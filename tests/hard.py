"""The whole suite on a bad day: `python -m tests.hard` runs it several times in random order, beside busy processes.

Each run also has a time zone, a language, a terminal and drawn examples of its own; what follows `--` goes to pytest.
With `--at-once` the runs go on at the same time and keep the machine busy for each other, each writing to a log of its
own: what they share by mistake (ports, files, databases) shows, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.load import busy_machine

MOODS = (
    {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "COLUMNS": "40", "http_proxy": "http://127.0.0.1:9"},
    {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "COLUMNS": "200", "PYTHONHASHSEED": "1"},
    {"TZ": "UTC", "LANG": "de_DE.UTF-8", "NO_COLOR": "1", "PYTHONHASHSEED": "2"},
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--busy", type=int, default=4, help="processes that compute beside the suite")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each following one has the next")
    parser.add_argument("--at-once", type=Path, metavar="DIR", help="all runs at the same time; their logs go there")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest")
    options = parser.parse_args()
    failed = 0
    with busy_machine(options.busy):
        began = time.monotonic()
        runs = [start(run, options) for run in range(options.runs)] if options.at_once else []
        for run in range(options.runs):
            began = began if options.at_once else time.monotonic()
            code = (runs[run] if options.at_once else start(run, options)).wait()
            failed += code != 0
            told = " ".join(f"{name}={value}" for name, value in MOODS[run % len(MOODS)].items())
            beside = f"{options.runs - 1} other runs and " if options.at_once else ""
            print(
                f"run {run + 1} of {options.runs}: {'passed' if not code else 'FAILED'} in "
                f"{time.monotonic() - began:.0f} s beside {beside}{options.busy} busy processes, "
                f"seed {options.seed + run}, {told}",
                flush=True,
            )
    return min(failed, 1)


def start(run: int, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start the suite once more, in its own order and mood."""
    seed = options.seed + run
    order = ["--random-order", f"--random-order-seed={seed}", "-p", "no:cacheprovider"]
    drawn = ["--hypothesis-profile=drawn", f"--hypothesis-seed={seed}"]
    words = [sys.executable, "-m", "pytest", "-q", *order, *drawn, *options.pytest]
    environment = {**os.environ, **MOODS[run % len(MOODS)]}
    if not options.at_once:
        return subprocess.Popen(words, env=environment)
    options.at_once.mkdir(parents=True, exist_ok=True)
    with (options.at_once / f"run-{run + 1}.log").open("wb") as log:
        return subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main())
