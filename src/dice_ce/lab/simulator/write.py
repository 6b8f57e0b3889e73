"""Writes a simulated exam as capsule software would export it: a video, and the clock of its frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, TypeVar

import av
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray

from dice_ce.errors import UsageError
from dice_ce.exam.codec import encodable
from dice_ce.files import atomic_file
from dice_ce.lab.simulator.motion import CapsulePath, ExamScript, capsule_path
from dice_ce.lab.simulator.plan import plan_lesions, wanted_labels
from dice_ce.lab.simulator.scene import Field, Shot, build_scene, shoot
from dice_ce.lab.simulator.truth import (
    Finding,
    FrameTruth,
    collect_findings,
    findings_csv,
    frame_truth,
    shown_seconds,
    truth_csv,
)
from dice_ce.outputs.lettering import text_pixels
from dice_ce.types import Image

Made = TypeVar("Made")

SMALLEST = 80  # pixels: below, the burnt-in text would not even fit across the image
WORKERS = 2
MARGIN = 2
PIXEL_FORMAT = "yuv420p"
ENCODER = {"preset": "veryfast", "crf": "20", "mbtree": "0"}
"""Without macroblock trees: with AVX-512, x264 (mbtree_propagate_list) takes eight macroblocks at a time and goes past
the end of the last row, so wherever a width is no multiple of 128 pixels the file depends on memory nobody wrote."""


@dataclass(frozen=True)
class SimulatedExam:
    """What was written, and the truth behind it."""

    video: Path
    clock: Path
    script: ExamScript
    path: CapsulePath
    findings: tuple[Finding, ...]
    findings_file: Path
    truth_file: Path


def simulate(
    path: str | Path,
    *,
    frames: int = 3000,
    size: int = 336,
    seed: int = 0,
    playback_fps: int = 25,
    exam_fps: float | Fraction = 1,
    field: Field = "octagon",
    gop: int = 250,
    codec: str = "libx264",
    burn_in: bool = True,
    lesions: Sequence[str] | int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedExam:
    """Write the video to `path` and beside it its clock, `<stem>.clock.csv`, and the truth about its lesions.

    `lesions` are labels, one for each event, or the number of events; `None` makes about one in 250 frames.
    `<stem>.findings.csv` lists them and `<stem>.truth.csv` tells for every frame what it shows. `progress` is
    called with the frames written so far and in all. No file appears before all are complete.
    """
    if size % 2 or size < SMALLEST:
        raise ValueError(f"size must be even and at least {SMALLEST}, not {size}")
    video = Path(path)
    clock, findings_file, truth_file = (
        video.with_name(f"{video.stem}.{kind}.csv") for kind in ("clock", "findings", "truth")
    )
    _check_place(truth_file, (video, clock, findings_file))
    script = ExamScript(frames=frames, seed=seed, exam_fps=float(exam_fps))
    motion = capsule_path(script)
    chance = np.random.default_rng([seed, 7])
    labels = wanted_labels(lesions, frames, chance)
    truths: list[FrameTruth] = []
    with (
        atomic_file(video) as video_draft,  # published last, the truth first
        atomic_file(clock) as clock_draft,
        atomic_file(findings_file) as findings_draft,
        atomic_file(truth_file) as truth_draft,
    ):
        _write_clock(clock_draft, frames, exam_fps)
        scene = build_scene(size, seed, field)
        scene = replace(scene, lesions=plan_lesions(scene, motion, labels, chance))

        def export(frame: int) -> Shot:
            shot = shoot(scene, motion.at(frame), frame)
            if burn_in:
                burn(shot.image, scene.field, exam_seconds(frame, exam_fps))
            return shot

        def images() -> Iterator[Image]:
            for shot in _in_order(export, frames):
                truths.append(frame_truth(shot.glimpses))
                yield shot.image

        _write_video(video_draft, images(), frames, size, playback_fps, gop, codec, progress)
        findings = collect_findings(truths, lambda frame: exam_seconds(frame, exam_fps))
        findings_draft.write(findings_csv(findings).encode())
        truth_draft.write(truth_csv(truths, findings).encode())
    return SimulatedExam(video, clock, script, motion, findings, findings_file, truth_file)


def _check_place(truth: Path, others: Sequence[Path]) -> None:
    """Refuse to replace a real exam, or its clock or findings; a simulated one has its truth beside it."""
    existing = [path for path in others if path.is_file()]
    if existing and not truth.is_file():
        raise UsageError(f"{existing[0]}: is there already and was not simulated (no {truth.name}); give another name")


def exam_seconds(frame: int, exam_fps: float | Fraction) -> Fraction:
    return frame / Fraction(str(exam_fps))  # its text, since 0.1 means a tenth and not the nearest float


def burn(image: Image, field: NDArray[np.bool_], seconds: Fraction) -> None:
    """Draw the usual patient data in the corners; the field of view stays untouched."""
    minutes, second = divmod(int(seconds), 60)
    time = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    scale = max(1, len(image) // 336)
    for text, top, left in (("DEMO PATIENT", True, True), ("2000-01-01", True, False), (time, False, False)):
        pixels = text_pixels(text, scale)
        height, width = pixels.shape
        rows = slice(MARGIN, MARGIN + height) if top else slice(-MARGIN - height, -MARGIN)
        columns = slice(MARGIN, MARGIN + width) if left else slice(-MARGIN - width, -MARGIN)
        image[rows, columns][pixels & ~field[rows, columns]] = 255


def _write_clock(file: IO[bytes], frames: int, exam_fps: float | Fraction) -> None:
    file.write(b"frame,seconds\n")
    for frame in range(frames):
        file.write(f"{frame},{shown_seconds(exam_seconds(frame, exam_fps))}\n".encode())


def _in_order(make: Callable[[int], Made], frames: int) -> Iterator[Made]:
    """Things made a few ahead of their use, so that memory stays bounded and both cores busy."""
    with ThreadPoolExecutor(WORKERS) as pool:
        ahead: deque[Future[Made]] = deque()
        for frame in range(frames):
            ahead.append(pool.submit(make, frame))
            if len(ahead) > 2 * WORKERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _write_video(
    file: IO[bytes],
    images: Iterable[Image],
    frames: int,
    size: int,
    playback_fps: int,
    gop: int,
    codec: str,
    progress: Callable[[int, int], None] | None,
) -> None:
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=playback_fps, options=ENCODER)
        if not isinstance(stream, VideoStream):
            raise ValueError(f"{codec} is not a video codec")
        stream.width = stream.height = size
        stream.pix_fmt = PIXEL_FORMAT
        stream.gop_size = gop
        stream.thread_count = 1  # the file must not depend on the number of cores
        for done, image in enumerate(images, start=1):
            container.mux(stream.encode(encodable(image, PIXEL_FORMAT)))
            if progress is not None:
                progress(done, frames)
        container.mux(stream.encode())
