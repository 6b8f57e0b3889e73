"""Kill `dice-ce summarize` at random moments, over and over: `python -m tests.soak --kills 1000`.

After every kill, what is in the cache and in the output folder must be absent or right. Half of the killed runs are
resumed by the next one, the others are cleared away, as is what got through.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median

import numpy as np

from dice_ce.cli import main as dice_ce
from tests.material import write_video
from tests.method.test_pipeline import colour_frames, save_colour_bundle

FRAMES = 600
"""As few as make two segments."""
LATEST = 1.1
"""The latest moment of a kill, in durations of an uninterrupted run."""


def summarise(folder: Path) -> None:
    """What gets killed: its cache and its results are both below `folder`."""
    os.environ["DICE_CE_CACHE"] = str(folder / "cache")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        material = folder.parent
        options = ["--out", str(folder / "out"), "--bundle", str(material / "bundle"), "--exam-fps", "1"]
        code = dice_ce(["summarize", str(material / "exam.mp4"), *options])
    sys.exit(code)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def complaints(folder: Path, whole: dict[str, bytes]) -> list[str]:
    """What stands in the folder and is wrong; drafts are never read, so they may look as they like."""
    found = {name: content for name, content in contents(folder).items() if ".part-" not in name}
    results = {name for name in found if name.startswith("out/")}
    wrong = [name for name in sorted(found) if name in whole and found[name] != whole[name]]
    wrong += [name for name in sorted(results) if name not in whole]
    if results and results != {name for name in whole if name.startswith("out/")}:
        wrong.append("out: incomplete")
    complete = {name for name in whole if name.startswith("cache/") and not name.endswith(".lock")}
    if any(name.endswith("manifest.json") for name in found) and not complete <= set(found):
        wrong.append("cache: a manifest, but not all of its files")
    return wrong + [name for name in sorted(found) if "/segments/" in name and not _fits(folder / name, folder, whole)]


def _fits(segment: Path, folder: Path, whole: dict[str, bytes]) -> bool:
    """Whether a finished segment holds the rows that the complete features hold."""
    place = segment.relative_to(folder).parent.parent
    index, vectors = (np.load(io.BytesIO(whole[str(place / f"{name}.npy")])) for name in ("index", "vectors"))
    with np.load(segment) as stored:
        return bool(np.array_equal(stored["vectors"], vectors[np.searchsorted(index, stored["index"])]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    # One process imports everything and is forked for each run, so that kills hit work and not start-up.
    context = multiprocessing.get_context("forkserver")
    modules = ["tests.method.test_pipeline", "dice_ce.method.pipeline", "dice_ce.outputs", "onnxruntime"]
    context.set_forkserver_preload(modules)

    def start(folder: Path) -> BaseProcess:
        process = context.Process(target=summarise, args=(folder,))
        process.start()
        return process

    with tempfile.TemporaryDirectory() as temporary:
        material = Path(temporary)
        frames = [frame[::2, ::2] for frame in (colour_frames() * 3)[:FRAMES]]
        write_video(material / "exam.mp4", frames, options={"g": "50"})
        save_colour_bundle(material / "bundle")
        durations = []
        for attempt in range(4):
            began = time.monotonic()
            process = start(material / f"whole{attempt}")
            process.join()
            assert process.exitcode == 0
            durations.append(time.monotonic() - began)
        whole = contents(material / "whole0")
        assert all(contents(material / f"whole{attempt}") == whole for attempt in range(4))
        longest = LATEST * median(durations[1:])  # the first also starts the process that is forked
        print(f"an uninterrupted run takes {median(durations[1:]):.2f} s", flush=True)

        folder, counts, kills, began = material / "killed", Counter[str](), 0, time.monotonic()
        while kills < options.kills:
            process = start(folder)
            process.join(dice.uniform(0.0, longest))
            process.kill()
            process.join()
            killed = process.exitcode == -9
            kills += killed
            state = _state(folder) if killed else "not killed: done before"
            wrong = complaints(folder, whole)
            for name in wrong:
                print(f"WRONG after kill {kills} ({state}): {name}", flush=True)
            if process.exitcode not in (0, -9):
                wrong.append("exit")
                print(f"WRONG: the run after kill {kills} ended with {process.exitcode}", flush=True)
            counts["wrong"] += bool(wrong)
            counts[state] += 1
            if (folder / "out" / "exam").is_dir() or dice.random() < 0.5:
                shutil.rmtree(folder, ignore_errors=True)
            if killed and kills % 50 == 0:
                print(f"{kills} of {options.kills} kills, {counts['wrong']} wrong results", flush=True)
        last = start(folder)
        last.join()
        counts["wrong"] += last.exitcode != 0 or bool(complaints(folder, whole))
        print(f"{kills} kills in {time.monotonic() - began:.0f} s (seed {options.seed}):")
        for state, count in sorted(counts.items()):
            if state != "wrong":
                print(f"  {count:5d} {state}")
        print(f"{counts['wrong']} wrong results")
    return min(counts["wrong"], 1)


def _state(folder: Path) -> str:
    """What a killed run had got to."""
    if (folder / "out" / "exam").is_dir():
        return "killed: all results there"
    if any(folder.rglob("manifest.json")):
        return "killed: features complete, results not"
    segments = len(list(folder.rglob("segments/*.npz")))
    return f"killed: {segments} segments done"


if __name__ == "__main__":
    sys.exit(main())
