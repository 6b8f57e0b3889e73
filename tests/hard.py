"""The whole suite on a bad day: `python -m tests.hard` runs it several times in random order, beside busy processes.

Each run also has a time zone, a language, a terminal and drawn examples of its own; what follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tests.load import busy_machine

MOODS = (
    {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "COLUMNS": "40"},
    {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "COLUMNS": "200", "PYTHONHASHSEED": "1"},
    {"TZ": "UTC", "LANG": "de_DE.UTF-8", "NO_COLOR": "1", "PYTHONHASHSEED": "2"},
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--busy", type=int, default=4, help="processes that compute beside the suite")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each following one has the next")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest")
    options = parser.parse_args()
    failed = 0
    with busy_machine(options.busy):
        for run in range(options.runs):
            mood = MOODS[run % len(MOODS)]
            seed = options.seed + run
            order = ["--random-order", f"--random-order-seed={seed}"]
            drawn = ["--hypothesis-profile=drawn", f"--hypothesis-seed={seed}"]
            began = time.monotonic()
            code = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", *order, *drawn, *options.pytest], env={**os.environ, **mood}
            ).returncode
            failed += code != 0
            told = " ".join(f"{name}={value}" for name, value in mood.items())
            print(
                f"run {run + 1} of {options.runs}: {'passed' if not code else 'FAILED'} in "
                f"{time.monotonic() - began:.0f} s, {options.busy} busy processes, seed {seed}, {told}",
                flush=True,
            )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
