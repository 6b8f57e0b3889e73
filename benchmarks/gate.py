"""What the near-duplicate gate saves and what it costs, against exact features of the same frames.

    python benchmarks/gate.py [--frames 3000] [--work FOLDER]        DICE_CE_DATA=FOLDER adds real capsule frames

Three tables: what small disturbances of one and the same image do to its feature (the yardstick for the bound), a
simulated exam that stands still about 40 % of the time, and runs of consecutive labelled frames of real exams.
The error is the cosine distance between the feature a frame was given and its own exact one.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dice_ce.exam.images import ImageSource
from dice_ce.exam.open import open_exam
from dice_ce.features.encoder import Encoder
from dice_ce.features.extraction import BLOCK_LENGTH
from dice_ce.features.gate import GateConfig, cell_means, encode_block, find_runs
from dice_ce.files import cache_root
from dice_ce.lab.simulator import simulate
from dice_ce.method.bundle import load_bundle
from dice_ce.progress import ProgressBar

Images = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.float32]

SETTINGS = [
    GateConfig(4.0, 0.01),
    GateConfig(8.0, 0.01),
    GateConfig(8.0, 0.02),
    GateConfig(16.0, 0.02),
    GateConfig(16.0, 0.05),
    GateConfig(16.0, 0.05, shortest=3),
]
REAL_RUNS = 100


def distances(a: Vectors, b: Vectors) -> npt.NDArray[np.float64]:
    """Cosine distance row by row."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray(1 - (a.astype(np.float64) * b).sum(axis=1) / lengths)


def exact_features(images: Images, encoder: Encoder) -> Vectors:
    """Encode every frame."""
    return encode_block(images, encoder.encode, None).vectors


def yardstick(images: Images, encoder: Encoder) -> Iterable[str]:
    """Disturb images a little and say how far their features move."""
    yield "| disturbance of one image | largest change of a cell | cosine distance: median | 95 % |"
    yield "|---|---|---|---|"
    rng = np.random.default_rng(0)
    exact = exact_features(images, encoder)
    halfway = ((images.astype(np.uint16) + np.roll(images, 1, axis=2)) // 2).astype(np.uint8)
    disturbed = {
        "half a pixel to the side": halfway,
        "one pixel to the side": np.roll(images, 1, axis=2),
        "light 3 % brighter": np.clip(images * 1.03, 0, 255).astype(np.uint8),
        "sensor noise of 1 level": np.clip(np.rint(images + rng.normal(0, 1, images.shape)), 0, 255).astype(np.uint8),
    }
    for name, changed in disturbed.items():
        moved = distances(exact, exact_features(changed, encoder))
        cells = np.abs(cell_means(changed) - cell_means(images)).max(axis=(1, 2, 3))
        yield f"| {name} | {np.median(cells):.1f} | {np.median(moved):.4f} | {np.percentile(moved, 95):.4f} |"


def table(blocks: list[Images], encoder: Encoder) -> Iterable[str]:
    """Compare every setting with exact features."""
    yield "| pixel | feature | shortest | reused | error: mean of reused | 99 % | largest |"
    yield "|---|---|---|---|---|---|---|"
    exact = [exact_features(block, encoder) for block in blocks]
    total = sum(map(len, blocks))
    for gate in SETTINGS:
        errors = []
        for images, true in zip(blocks, exact, strict=True):
            gated = encode_block(images, encoder.encode, gate)
            errors.append(distances(gated.vectors, true)[~gated.exact])
        all_errors = np.concatenate(errors)
        figures = "- | - | -"
        if len(all_errors):
            figures = f"{all_errors.mean():.4f} | {np.percentile(all_errors, 99):.4f} | {all_errors.max():.4f}"
        mark = " (default)" if gate == GateConfig() else ""
        reused = 100 * len(all_errors) / total
        yield f"| {gate.pixel:g} | {gate.feature:g} | {gate.shortest}{mark} | {reused:.1f} % | {figures} |"


def cost(images: Images, encoder: Encoder) -> str:
    """Compare the time it takes to look for runs with the time it takes to encode."""
    began = time.perf_counter()
    find_runs(cell_means(images), GateConfig())
    between = time.perf_counter()
    exact_features(images, encoder)
    share = (between - began) / (time.perf_counter() - between)
    return f"Looking for runs takes {100 * share:.1f} % of the time of encoding, on one thread."


def simulated_blocks(work: Path, frames: int, encoder: Encoder) -> list[Images]:
    """Images of a simulated exam as the encoder sees them."""
    video = work / f"simulated-336-{frames}.mp4"
    if not video.exists():
        with ProgressBar(f"rendering {video.name}") as bar:
            simulate(video, frames=frames, lesions=0, progress=bar)
    with open_exam(video) as exam:
        images = (image for _, image in exam.read(size=encoder.input_size))
        blocks = iter(lambda: list(itertools.islice(images, BLOCK_LENGTH)), [])
        return [np.stack(block) for block in blocks]


def real_blocks(data: Path) -> list[Images]:
    """Runs of at least eight consecutive frames of real videos, as far as they are labelled."""
    videos: dict[str, dict[int, str]] = defaultdict(dict)
    with (data / "frames.csv").open() as file:
        for row in csv.DictReader(file):
            if row["source"] == "KVASIR":
                videos[row["case"]][int(row["frame_number"])] = row["path"]
    runs: list[list[str]] = []
    for numbered in videos.values():
        last = None
        for number in sorted(numbered):
            if last is None or number != last + 1 or len(runs[-1]) == BLOCK_LENGTH:
                runs.append([])
            runs[-1].append(numbered[number])
            last = number
    runs = [run for run in runs if len(run) >= 8]
    chosen = np.random.default_rng(0).permutation(len(runs))[:REAL_RUNS]
    return [read_images(data, runs[i]) for i in chosen]


def read_images(data: Path, names: list[str]) -> Images:
    """Decode image files; these are 224 pixels wide already."""
    source = ImageSource(data, tuple(names), ())
    with closing(source.open()) as cursor:
        return np.stack([frame.to_ndarray(format="rgb24") for _, frame in cursor.read(0, len(names))]).astype(np.uint8)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--work", type=Path, default=cache_root() / "benchmarks", help="where the exam is kept")
    options = parser.parse_args()
    encoder = load_bundle().encoder
    blocks = simulated_blocks(options.work, options.frames, encoder)
    data = Path(os.environ.get("DICE_CE_DATA") or "/nowhere")
    real = real_blocks(data) if (data / "frames.csv").is_file() else []
    sample = np.concatenate([block[:1] for block in real or blocks])[:64]
    print(
        f"\nYardstick, {len(sample)} {'real' if real else 'simulated'} images\n",
        *yardstick(sample, encoder),
        sep="\n",
    )
    print(f"\n{cost(blocks[0], encoder)}")
    print(f"\nSimulated exam, {options.frames:,} frames\n", *table(blocks, encoder), sep="\n")
    if real:
        frames = sum(map(len, real))
        print(f"\nReal labelled frames, {len(real)} runs, {frames:,} frames\n", *table(real, encoder), sep="\n")


if __name__ == "__main__":
    main()
