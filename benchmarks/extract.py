"""How fast frames become features, beside what bounds it and beside what a user would write instead.

    python benchmarks/extract.py [--frames 6000] [--rounds 2] [--work FOLDER] [--json FILE]

All in one run, because only ratios within a run mean anything on a shared machine:
  decode   the same workers decode, crop, scale and mask, and throw the images away
  encode   the same workers encode images that are in memory already
  ideal    1 / (1/decode + 1/encode): what is left when nothing but these two costs anything
  exact    dice_ce.extract(gate=None), end to end, into an empty cache
  gated    dice_ce.extract() as users run it
  fast     the same as exact with the bundle default@fast, which sees all frames smaller
  naive    cv2.VideoCapture, cv2.resize, torch eager in batches of 32; `tuned` with glibc told to keep its memory
Peak memory is that of a fresh process that extracts 6,000 and then 30,000 frames. What a faster way costs stands
beside its speed: the share of the candidates of `exact` that it finds too, with the settings that ship.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from dice_ce.exam.open import Exam, Renderer, open_exam
from dice_ce.features.encoder import Encoder
from dice_ce.features.extraction import BLOCK_LENGTH, cpu_count, extract, plan_segments
from dice_ce.features.gate import BATCH, GateConfig
from dice_ce.features.store import Features
from dice_ce.files import CACHE_VARIABLE, cache_root
from dice_ce.method.beyond.standing import lifted
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.selector import screen, select
from exams import make_exam, peak_megabytes, repeated

NETWORK = "efficientnet-lite0"
"""Of the shipped encoder; which weights it has makes no difference to its speed."""
SIZE = 576
NAIVE_FRAMES = 480
COMPARED = (("decode", 2), ("ideal", 2), ("naive", 1), ("tuned", 1))
"""What speeds are divided by, and digits."""
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}


def frames_per_second(frames: int, work: Callable[[], object]) -> float:
    """Time one piece of work."""
    began = time.perf_counter()
    work()
    return frames / (time.perf_counter() - began)


def on_all_cores(work: Callable[[], None]) -> None:
    """Run the same thing in as many threads as an extraction has workers."""
    threads = [threading.Thread(target=work) for _ in range(cpu_count())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def decode_only(exam: Exam, encoder: Encoder) -> None:
    """Do all that an extraction does to a frame before encoding it."""
    lock, segments = threading.Lock(), iter(plan_segments(len(exam), exam.source.keyframes))

    def work() -> None:
        render = Renderer(exam, encoder.input_size, encoder.resize)
        with closing(exam.source.open(threads=1)) as cursor:
            while True:
                with lock:
                    segment = next(segments, None)
                if segment is None:
                    return
                for ordinal, frame in cursor.read(*segment):
                    render(ordinal, frame)

    on_all_cores(work)


def encode_only(exam: Exam, encoder: Encoder, frames: int) -> None:
    """Encode images that are decoded already, in the batches an extraction uses."""
    images = np.stack([image for _, image in exam.read(0, BLOCK_LENGTH, size=encoder.input_size)])
    share = frames // cpu_count()

    def work() -> None:
        for i in range(0, share, BATCH):
            encoder.encode(images[i % BLOCK_LENGTH : i % BLOCK_LENGTH + BATCH])

    on_all_cores(work)


def end_to_end(exam: Exam, bundle: Bundle, gate: GateConfig | None, work: Path) -> Features:
    """Extract into an empty cache."""
    with tempfile.TemporaryDirectory(dir=work) as empty:
        was = os.environ.get(CACHE_VARIABLE)
        os.environ[CACHE_VARIABLE] = empty
        try:
            return extract(exam, bundle.encoder, gate=gate)
        finally:
            if was is None:
                del os.environ[CACHE_VARIABLE]
            else:
                os.environ[CACHE_VARIABLE] = was


def candidates(exam: Exam, features: Features, bundle: Bundle) -> set[int]:
    """Tell which frames may matter, with the settings that ship."""
    settings = bundle.settings()
    screened = lifted(screen(features, bundle.selector, exam.clock), settings.standing)
    return set(select(screened, settings.selector).frames.index.tolist())


def naive(video: Path, frames: int) -> float:
    """What one would write in ten lines, without this package."""
    import cv2
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name(NETWORK).eval()
    began = time.perf_counter()
    capture, batch, features = cv2.VideoCapture(str(video)), [], []
    with torch.no_grad():
        for _ in range(frames):
            _, image = capture.read()
            image = cv2.cvtColor(cv2.resize(image, (224, 224)), cv2.COLOR_BGR2RGB)
            batch.append(torch.from_numpy(image).permute(2, 0, 1))
            if len(batch) == 32:
                pixels = (torch.stack(batch).float() - 127) / 128
                features.append(network.extract_features(pixels).mean((2, 3)))
                batch = []
    return frames / (time.perf_counter() - began)


def in_a_fresh_process(*arguments: object, environment: dict[str, str] | None = None) -> float:
    """Run one part of this file by itself and return the number it prints."""
    command = [sys.executable, __file__, *(str(argument) for argument in arguments)]
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout.split()[-1])


def peak_of_extraction(video: Path) -> float:
    """Extract in this process and return how much memory that took at most."""
    with open_exam(video) as exam, tempfile.TemporaryDirectory() as empty:
        os.environ[CACHE_VARIABLE], encoder = empty, load_bundle().encoder
        extract(exam, encoder)
    return peak_megabytes()


def measure(video: Path, rounds: int, work: Path) -> dict[str, float]:
    """All the speeds, in turns, so that a slow minute hits all of them."""
    bundle, small = load_bundle(), load_bundle("default@fast")
    ways = {"exact": (bundle, None), "gated": (bundle, GateConfig()), "fast": (small, None)}
    speeds: dict[str, list[float]] = {}
    found: dict[str, set[int]] = {}
    result: dict[str, float] = {}
    with open_exam(video) as exam:
        count, encoder = len(exam), bundle.encoder
        for turn in range(rounds):
            print(f"round {turn + 1} of {rounds}", file=sys.stderr)
            speeds.setdefault("decode", []).append(frames_per_second(count, lambda: decode_only(exam, encoder)))
            speeds.setdefault("encode", []).append(
                frames_per_second(count // 2, lambda: encode_only(exam, encoder, count // 2))
            )
            for name, (model, gate) in ways.items():
                began = time.perf_counter()
                features = end_to_end(exam, model, gate, work)
                speeds.setdefault(name, []).append(count / (time.perf_counter() - began))
                found[name] = candidates(exam, features, model)
                if gate is not None:
                    result["reused_share"] = features.report.reused / count
            speeds.setdefault("naive", []).append(in_a_fresh_process("--naive", video))
            speeds.setdefault("tuned", []).append(in_a_fresh_process("--naive", video, environment=TUNED))
    result |= {name: statistics.median(values) for name, values in speeds.items()}
    result["ideal"] = 1 / (1 / result["decode"] + 1 / result["encode"])
    for name, chosen in found.items():
        result[f"candidates_{name}"] = len(chosen & found["exact"]) / len(found["exact"])
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--work", type=Path, default=cache_root() / "benchmarks", help="where the exam is kept")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--naive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.naive:
        print(naive(options.naive, NAIVE_FRAMES))
        return
    if options.memory:
        print(peak_of_extraction(options.memory))
        return
    video = make_exam(options.work, options.frames, SIZE)
    figures = measure(video, options.rounds, options.work)
    for times in (1, 5):
        figures[f"peak_megabytes_{times * options.frames}"] = in_a_fresh_process("--memory", repeated(video, times))
    print(report(figures, options.frames))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def report(figures: dict[str, float], frames: int) -> str:
    """Write the figures as the table that stands in docs/benchmarks.md."""
    lines = [f"{frames:,} frames of {SIZE}x{SIZE}, H.264, {NETWORK}, {cpu_count()} threads", ""]
    lines += ["| what | frames/s | of decode | of ideal | x naive | x tuned naive | candidates found |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for name in ("decode", "encode", "ideal", "exact", "gated", "fast", "naive", "tuned"):
        speed = figures[name]
        ratios = [f"{speed / figures[other]:.{digits}f}" for other, digits in COMPARED]
        found = f"{figures[key]:.3f}" if (key := f"candidates_{name}") in figures else "-"
        lines.append(f"| {name} | {speed:.0f} | {' | '.join(ratios)} | {found} |")
    lines += ["", f"The gate reused {100 * figures['reused_share']:.0f} % of the frames."]
    lines += [
        f"Peak memory: {figures[key]:.0f} MB for {key.split('_')[-1]} frames." for key in figures if "peak" in key
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
