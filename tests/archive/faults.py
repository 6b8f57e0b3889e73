"""Kill workers, nodes and drivers of a cluster at random, over and over: `python -m tests.archive.faults --kills 40`.

Exams, some of them corrupt, are read on a cluster of several nodes while something dies every few events: a worker, a
whole node, the driver, or the storage goes away for a moment. At the end nothing may be missing, nothing may have been
written twice, and the results must be those of the local engine, byte for byte.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from dice_ce.archive.manifest import Manifest
from tests.archive.cluster import SmallCluster, small_cluster
from tests.archive.material import contents, make_long, make_share, receipts, run, words
from tests.material import corrupt

WEIGHTS = {"worker": 6, "node": 2, "driver": 2, "storage": 1}
LONGEST_WAIT = 2.0
"""Seconds to wait at most for the next event before something dies, drawn at random."""


def hurt(kind: str, cluster: SmallCluster, driver: subprocess.Popen[bytes], archive: Path, dice: random.Random) -> bool:
    """Let something die; False if there was nothing of the kind."""
    if kind == "worker":
        workers = cluster.workers()
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(workers), 9)
    elif kind == "node":
        cluster.kill_node(dice.choice(cluster.nodes))
        cluster.add_node()
    elif kind == "driver":
        driver.kill()
        driver.wait()
    else:
        away = archive.with_name("away")
        archive.rename(away)
        time.sleep(dice.uniform(0.5, 3.0))
        come_back(away, archive)
    return True


def come_back(away: Path, archive: Path) -> None:
    """Put the storage back; what was written in its place meanwhile is out of sight, as under a mount."""
    while away.exists():
        shutil.rmtree(archive, ignore_errors=True)
        with contextlib.suppress(OSError):  # somebody has just written there again
            away.rename(archive)


def main() -> int:
    """Run until enough has died and all is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--exams", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dice, counts = random.Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary, small_cluster(options.nodes) as cluster:
        folder = Path(temporary)
        share, archive = make_share(folder, exams=options.exams), folder / "archive"
        for number in range(options.exams // 10):
            corrupt(make_long(share / f"long{number}.mp4", 700 + number), 0.4, 2000, seed=number)
            (share / f"bad{number}.mp4").write_bytes(os.urandom(1000))
        engine = ("--engine", "ray", "--ray-address", cluster.address, "--split-frames", 300, "--retries", 50)
        command = [sys.executable, "-m", "dice_ce.cli", *words(folder, *engine, "--patience", 600)]
        starts, ended = 0, None
        while ended is None:
            starts += 1
            with (folder / f"driver{starts}.log").open("w") as log:
                driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
            while driver.poll() is None:
                seen, until = receipts(archive), time.monotonic() + dice.uniform(0, LONGEST_WAIT)
                while driver.poll() is None and time.monotonic() < until and receipts(archive) == seen:
                    time.sleep(0.05)
                if driver.poll() is None and counts.total() < options.kills and (archive / "manifest.sqlite").exists():
                    kind = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
                    counts[kind] += hurt(kind, cluster, driver, archive, dice)
            ended = driver.returncode if driver.returncode >= 0 else None
        if counts.total() < options.kills:
            print(f"only {counts.total()} of {options.kills} deaths before all was done; give more --exams")
        manifest = Manifest(archive, read_only=True)
        states = manifest.counts()
        manifest.close()
        assert run(folder, "--workers", 2, out="fresh") == 1
        expected, found = contents(folder / "fresh" / "results"), contents(archive / "results")
        bad = options.exams // 10
        is_right = (
            states == {"waiting": 0, "done": options.exams + bad, "failed": bad, "skipped": 0}
            and receipts(archive) == options.exams + bad
            and found == expected
        )
        same = "all as the local engine writes them" if found == expected else "NOT as the local engine writes them"
        if not is_right:
            for number in range(1, starts + 1):
                print(f"--- driver {number} said:\n{(folder / f'driver{number}.log').read_text()}", flush=True)
            print(f"--- the last one ended with {ended}")
        print(f"killed {dict(counts)}, drivers started {starts}; {states}; {len(found)} files of results, {same}")
        return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
