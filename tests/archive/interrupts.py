"""Interrupt a run on Ray over and over, at random moments: `python -m tests.archive.interrupts --times 20`.

Each run is a new one on an archive of its own, and is interrupted as by Ctrl-C in a terminal: its whole process group,
some time after it has come so far as is drawn. It must end with 130 and say nothing but that it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.archive.material import make_long, make_share, receipts, words

EXAMS = 6
LONGEST_WAIT = 1.5


def interrupted(folder: Path, number: int, dice: random.Random) -> tuple[int | None, str]:
    """Run until some exams are done, interrupt, and return exit code and words; None if it had ended before."""
    archive, log = folder / f"archive{number}", folder / f"log{number}"
    wanted, wait = dice.randrange(EXAMS), dice.choice([0.0, dice.uniform(0, LONGEST_WAIT)])
    command = [sys.executable, "-m", "dice_ce.cli", *words(folder, "--engine", "ray", "--workers", 2, out=archive.name)]
    with log.open("w") as file:
        driver = subprocess.Popen(
            [*command, "--split-frames", "500"], stdout=subprocess.DEVNULL, stderr=file, start_new_session=True
        )
    while driver.poll() is None and not ((archive / "exams.parquet").exists() and receipts(archive) >= wanted):
        time.sleep(0.01)
    time.sleep(wait)
    if driver.poll() is not None:
        return None, log.read_text()
    os.killpg(driver.pid, signal.SIGINT)
    return driver.wait(300), log.read_text()


def main() -> int:
    """Interrupt as often as asked for; 1 if a run ended in another way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored, and children inherit that
    dice, codes, wrong = random.Random(options.seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_long(make_share(folder, exams=EXAMS) / "long.mp4")
        for number in range(options.times):
            code, said = interrupted(folder, number, dice)
            codes["ended before" if code is None else str(code)] += 1
            if code not in (None, 130) or "Traceback" in said:
                wrong += 1
                print(f"--- run {number} ended with {code} and said:\n{said}", flush=True)
            print(dict(codes), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
