"""compose(): real frames and real timelines -> a dataset of whole exams, written as capsule software would export them.

Beside every video lie its clock and its truth. The video appears last, so an exam whose video is there is complete, and
a run that was interrupted goes on with the others.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import av
from av.video.stream import VideoStream

from dice_ce.csvfile import table_text
from dice_ce.datasets.folder import ExamRow, write_dataset
from dice_ce.datasets.galar import import_galar
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.tables import Annotation, Finding, LabelledFrame, Timeline
from dice_ce.errors import InputError, UsageError
from dice_ce.exam.clock import ClockOptions
from dice_ce.exam.field import Field
from dice_ce.features.extraction import cpu_count
from dice_ce.files import PARTIAL_PREFIX, atomic_file, write_atomically
from dice_ce.lab.compose.plan import SHARES, ExamPlan, plan_exams
from dice_ce.lab.compose.render import render_exam
from dice_ce.lab.compose.truth import relative, truth_text
from dice_ce.lab.compose.windows import find_windows, opencv
from dice_ce.types import Progress

RULES = 1
"""Raised whenever the same arguments give another dataset than before."""
MANIFEST = "composition.json"
EXAMS = "exams"
SMALLEST = 64
PLAYBACK_FPS = 25
KEYFRAME_EVERY = 125
ENCODER = {"preset": "ultrafast", "crf": "22", "x264-params": "no-deblock=0:deblock=1,0"}
"""Deblocking costs little and gives half a decibel; `superfast` takes twice the time for files a third smaller."""


@dataclass(frozen=True)
class Composition:
    """What was composed."""

    folder: Path
    plans: tuple[ExamPlan, ...]
    kept: int
    """Exams that were complete already."""


def compose(
    frames: Path,
    timelines: Path,
    out: Path,
    *,
    exams: int,
    frames_per_exam: int,
    seed: int,
    shares: Sequence[float] = SHARES,
    size: int = 336,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Composition:
    """Compose exams into the folder `out`; the same arguments give the same bytes, with any number of workers.

    Interrupt it at any time: the next call goes on where it stopped. `progress` hears of frames.
    """
    if size % 2 or size < SMALLEST:
        raise UsageError(f"--size must be even and at least {SMALLEST}, got {size}")
    opencv().setNumThreads(1)  # one exam per thread fills the cores; more threads would only get in their way
    frames, out = Path(frames), Path(out)
    pool = load_pool(frames).frames
    lines = import_galar(Path(timelines)).timelines
    plans = plan_exams(
        pool,
        lines,
        exams=exams,
        frames_per_exam=frames_per_exam,
        seed=seed,
        shares=shares,
        named=(str(frames), str(timelines)),
    )
    asked = {
        "rules": RULES,
        "exams": exams,
        "frames_per_exam": frames_per_exam,
        "shares": list(shares),
        "seed": seed,
        "size": size,
        "frames": _digest_of_frames(pool, frames),
        "timelines": _digest_of_timelines(lines),
    }
    _claim(out, asked)
    used = {frame.source for plan in plans for frame in plan.played.images}
    windows = find_windows(frame for frame in pool if frame.source in used)
    desk = _Desk(out, frames, windows, size)
    kept = _write_exams(plans, desk, workers or cpu_count(), progress or (lambda done, total: None))
    rows = [_row(plan, out) for plan in plans]
    write_dataset(out, rows, {plan.exam_id: _annotation(plan) for plan in plans})
    return Composition(out, plans, kept)


def _claim(out: Path, asked: dict[str, object]) -> None:
    """Note in the folder what is being composed there; refuse one that holds anything else."""
    manifest = out / MANIFEST
    content = (json.dumps(asked, indent=2) + "\n").encode()
    if manifest.is_file():
        if manifest.read_bytes() != content:
            raise InputError(
                f"{out}: holds exams composed from other arguments; give an empty folder, or delete this one"
            )
        return
    if out.exists() and (not out.is_dir() or any(not path.name.startswith(PARTIAL_PREFIX) for path in out.iterdir())):
        raise InputError(f"{out}: is there already and holds no composed exams; give an empty or new folder")
    write_atomically(manifest, content)


def _digest_of_frames(pool: Sequence[LabelledFrame], root: Path) -> str:
    digest = hashlib.sha256()
    for frame in sorted(pool, key=lambda frame: frame.path):
        digest.update(
            repr(
                (relative(frame.path, root), frame.source, frame.case, frame.number, frame.labels, frame.boxes)
            ).encode()
        )
    return digest.hexdigest()


def _digest_of_timelines(timelines: Sequence[Timeline]) -> str:
    return hashlib.sha256(repr(timelines).encode()).hexdigest()


class _Stopped(Exception):  # noqa: N818  not an error
    """Raised in a worker when another one failed or the user interrupted."""


@dataclass(frozen=True)
class _Desk:
    """What all exams of a composition are written with."""

    out: Path
    root: Path
    windows: Mapping[str, Field]
    size: int


def _write_exams(plans: Sequence[ExamPlan], desk: _Desk, workers: int, progress: Progress) -> int:
    """Write the exams that are missing, one per worker thread; return how many were there."""
    missing = [plan for plan in plans if not _video(plan, desk.out).is_file()]
    total = sum(len(plan) for plan in plans)
    done = total - sum(len(plan) for plan in missing)
    lock, stop = threading.Lock(), threading.Event()
    progress(done, total)

    def drawn() -> None:
        nonlocal done
        if stop.is_set():
            raise _Stopped
        with lock:
            done += 1
            progress(done, total)

    threads = ThreadPoolExecutor(workers)
    try:
        jobs = [threads.submit(_write_exam, plan, desk, drawn) for plan in missing]
        for job in as_completed(jobs):
            job.result()
    finally:
        stop.set()
        threads.shutdown(cancel_futures=True)
    return len(plans) - len(missing)


def _write_exam(plan: ExamPlan, desk: _Desk, drawn: Callable[[], None]) -> None:
    with atomic_file(_video(plan, desk.out)) as video:
        encode_exam(video, plan, desk.windows, desk.size, drawn)
        write_atomically(_clock(plan, desk.out), _clock_text(plan).encode())
        write_atomically(_truth(plan, desk.out), truth_text(plan, desk.root).encode())


def encode_exam(
    file: IO[bytes], plan: ExamPlan, windows: Mapping[str, Field], size: int, drawn: Callable[[], None]
) -> None:
    """Draw and encode one exam; `drawn` is called after every frame."""
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=PLAYBACK_FPS, options=ENCODER)
        assert isinstance(stream, VideoStream)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = KEYFRAME_EVERY
        stream.thread_count = 1  # the file must not depend on the number of cores
        for planes in render_exam(plan, windows, size):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
            drawn()
        container.mux(stream.encode())


def _video(plan: ExamPlan, out: Path) -> Path:
    return out / EXAMS / f"{plan.exam_id}.mp4"


def _clock(plan: ExamPlan, out: Path) -> Path:
    return out / EXAMS / f"{plan.exam_id}.clock.csv"


def _truth(plan: ExamPlan, out: Path) -> Path:
    return out / EXAMS / f"{plan.exam_id}.truth.csv"


def _row(plan: ExamPlan, out: Path) -> ExamRow:
    clock = ClockOptions(sidecar=_clock(plan, out))
    return ExamRow(plan.exam_id, plan.patient_id, plan.split, _video(plan, out), clock)


def _annotation(plan: ExamPlan) -> Annotation:
    return Annotation(plan.exam_id, tuple(Finding(one.id, one.seconds, one.label) for one in plan.reported))


def _clock_text(plan: ExamPlan) -> str:
    return table_text(("frame", "seconds"), [(i, f"{time:.3f}") for i, time in enumerate(plan.walk.seconds)])
