"""How long it takes from judged contexts to summary, keyframes and report of a long exam with many findings.

    python benchmarks/outputs.py [--frames 100000] [--size 336] [--findings 32] [--work FOLDER]

The exam is a simulated one of 1,000 frames, over and over again, H.264 with a keyframe every 250 frames: reaching a
frame means decoding all since the keyframe. 15 % of the frames are candidates, in events of 20; so many events are
findings, and all others are normal.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from dice_ce.exam.frames import FrameTable
from dice_ce.exam.open import Exam, open_exam
from dice_ce.features.gate import GateConfig
from dice_ce.features.store import ExtractionReport, Features
from dice_ce.files import cache_root
from dice_ce.method.bundle import DEFAULT_PROFILE, load_bundle
from dice_ce.method.chain import Diagnosed, Judged, Woven
from dice_ce.method.converger import converge
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.pipeline import provenance
from dice_ce.method.selector import Candidates, Screened
from dice_ce.method.summary import Summary, assemble
from dice_ce.method.weaver import Context
from dice_ce.outputs import DEFAULT_OUTPUTS, OUTPUTS, write_outputs
from dice_ce.table import Table
from exams import make_exam, repeated

ONCE = 1000
"""Frames of the exam that is repeated."""
SHARE = 0.15
GLIMPSES = 20
DIM = 64
"""Of the features: they matter only for choosing keyframes."""


def judge(exam: Exam, findings: int, rng: np.random.Generator) -> tuple[Features, Screened, Judged]:
    """Make up what the method would have found."""
    bundle, count = load_bundle(), len(exam)
    vectors = rng.normal(size=(count, DIM)).astype(np.float16)
    report = ExtractionReport(count, count, 0, (), 0, 0.0)
    features = Features(exam.frames, vectors, np.ones(count, np.bool_), "made up", "0" * 64, report)
    seconds = np.asarray(exam.clock.ticks * float(exam.clock.unit), np.float64)
    screened = Screened(exam.frames, seconds, vectors, rng.uniform(size=count).astype(np.float32))
    rows = np.sort(rng.choice(count, int(SHARE * count) // GLIMPSES * GLIMPSES, replace=False))
    table = FrameTable(exam.frames.index[rows], exam.frames.pts[rows], exam.frames.time_base)
    candidates = Candidates(table, seconds[rows], vectors[rows], screened.score[rows])
    events = np.arange(len(rows)).reshape(-1, GLIMPSES)
    contexts = tuple(Context(i, 0, event) for i, event in enumerate(events))
    normal, labels = bundle.taxonomy.normal, len(bundle.taxonomy)
    said = np.full((len(rows), labels), 0.02, np.float32)
    said[:, normal] = 0.9
    for event in events[np.linspace(0, len(events) - 1, findings).astype(int)]:
        said[event[::4], normal], said[event[1::4], normal], said[event[2::4], normal] = 0.1, 0.1, 0.1
        said[event, (normal + 1) % labels] += 0.8
    said /= said.sum(axis=1, keepdims=True)
    judgments = converge(contexts, said, normal, bundle.settings().converger)
    woven = Woven(candidates, contexts, Keyframes(candidates))
    return features, screened, Judged(Diagnosed(woven, said, bundle.taxonomy), said, tuple(judgments))


def measure(exam: Exam, findings: int) -> tuple[Summary, list[tuple[str, float, float]]]:
    """Time each part, in seconds of the clock and of the processor."""
    parts: list[tuple[str, float, float]] = []
    features, screened, judged = judge(exam, findings, np.random.default_rng(0))
    bundle = load_bundle()
    made = provenance(exam, bundle, DEFAULT_PROFILE, bundle.settings(), GateConfig(), None)

    def timed(name: str, began: tuple[float, float]) -> None:
        parts.append((name, time.perf_counter() - began[0], time.process_time() - began[1]))

    began = time.perf_counter(), time.process_time()
    summary = assemble(exam, features, screened, judged, made)
    timed("assemble the summary", began)
    with tempfile.TemporaryDirectory() as folder:
        for kind in DEFAULT_OUTPUTS:
            began = time.perf_counter(), time.process_time()
            write_outputs(summary, exam, Path(folder) / kind, kinds=(kind,))
            timed(f"{OUTPUTS[kind].name} alone", began)
        began = time.perf_counter(), time.process_time()
        write_outputs(summary, exam, Path(folder) / "all")
        timed("all of them, as summarize writes them", began)
    return summary, parts


def shown(summary: Summary, exam: Exam) -> str:
    """Tell how many images are shown, and how many frames have to be decoded to reach them from their keyframes."""
    wanted = {image for kind in DEFAULT_OUTPUTS for image in OUTPUTS[kind].images(summary)}
    frames = np.unique([frame for frame, _ in wanted])
    keyframes = exam.source.keyframes[np.searchsorted(exam.source.keyframes, frames, side="right") - 1]
    steps = frames - np.maximum(keyframes, np.concatenate([[-1], frames[:-1] + 1]))
    return f"{len(wanted)} images of {len(frames)} frames; {(steps + 1).sum():,} frames to decode"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=336)
    parser.add_argument("--findings", type=int, default=32)
    parser.add_argument("--work", type=Path, default=cache_root() / "benchmarks", help="where the exam is kept")
    options = parser.parse_args()
    video = repeated(make_exam(options.work, ONCE, options.size), options.frames // ONCE)
    with open_exam(video, exam_fps=2) as exam:
        summary, parts = measure(exam, options.findings)
        print(f"{len(exam):,} frames, {len(summary.items)} findings, {len(summary.dropped):,} set aside")
        print(shown(summary, exam), end="\n\n")
    rows = [(name, f"{wall:.2f}", f"{work:.2f}") for name, wall, work in parts]
    print(Table.of(("what", "seconds", "of the processor"), rows).markdown())


if __name__ == "__main__":
    main()
