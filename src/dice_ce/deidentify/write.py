"""Writing the exam again: the same frames at the same times, less what is hidden, in a container that says nothing."""

from __future__ import annotations

import itertools
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Literal

import av
import numpy as np

from dice_ce.deidentify.blackout import Blackout
from dice_ce.exam.clock import frame_number
from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import Exam, to_rgb
from dice_ce.exam.video import CONTAINER_OPTIONS
from dice_ce.types import Image, Progress

Quality = Literal["high", "lossless"]
ENCODER = {"preset": "fast", "bf": "0", "mbtree": "0", "flags": "+bitexact"}
"""Frames in the order they are shown, so that their times need no table of their own."""
QUALITY: dict[Quality, dict[str, str]] = {"high": {"crf": "12"}, "lossless": {"qp": "0"}}
GOP, THREADS = 125, 4
"""A fixed number of threads: another one would give other bytes."""
LARGEST_NUMBER = 10**7
"""Numbers in names of frames that are longer may be dates or ids, and are not kept."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def write_video(
    exam: Exam, blackout: Blackout, file: IO[bytes], quality: Quality, progress: Progress | None = None
) -> tuple[int, ...]:
    """Write an MP4 of H.264 with the frames' exact times; returns which could not be decoded and are black."""
    times = exam.frames.pts - exam.frames.pts[0]
    missing: list[int] = []
    with av.open(file, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream: Any = None
        pixel_format, like = "", None
        waiting: list[int] = []
        for ordinal, frame in _all_frames(exam):
            if frame is None:
                missing.append(ordinal)
            if stream is None:
                if frame is None:  # the first ones cannot be decoded: wait for one that says what they look like
                    waiting.append(ordinal)
                    continue
                pixel_format, like = blackout.format_of(frame), frame
                stream = _add_stream(container, exam, frame, pixel_format, quality)
                for earlier in waiting:
                    _put(container, stream, blackout.empty(like, pixel_format), int(times[earlier]), exam)
            hidden = blackout.empty(like, pixel_format) if frame is None else blackout(frame, pixel_format)
            _put(container, stream, hidden, int(times[ordinal]), exam)
            if progress is not None:
                progress(ordinal + 1, len(exam))
        if stream is not None:
            container.mux(stream.encode(None))
    return tuple(missing)


def _all_frames(exam: Exam) -> Iterator[tuple[int, av.VideoFrame | None]]:
    """Yield every frame, also those that cannot be decoded."""
    done = 0
    with closing(exam.source.open()) as cursor:
        for ordinal, frame in cursor.read(0, len(exam)):
            yield from ((lost, None) for lost in range(done, ordinal))
            yield ordinal, frame
            done = ordinal + 1
    yield from ((lost, None) for lost in range(done, len(exam)))


def _add_stream(container: Any, exam: Exam, frame: av.VideoFrame, pixel_format: str, quality: Quality) -> Any:
    shown = max(1, int(exam.frames.pts[-1] - exam.frames.pts[0])) * exam.frames.time_base
    rate = Fraction(max(1, len(exam) - 1) / shown).limit_denominator(1000) if len(exam) > 1 else Fraction(25)
    stream = container.add_stream("libx264", rate=max(rate, Fraction(1, 1000)), options=ENCODER | QUALITY[quality])
    stream.width, stream.height = frame.width, frame.height
    stream.pix_fmt, stream.gop_size, stream.thread_count = pixel_format, GOP, THREADS
    stream.codec_context.time_base = stream.time_base = exam.frames.time_base
    stream.codec_context.color_range, stream.codec_context.colorspace = frame.color_range, frame.colorspace
    return stream


def _put(container: Any, stream: Any, frame: av.VideoFrame, pts: int, exam: Exam) -> None:
    frame.pts, frame.time_base = pts, exam.frames.time_base
    container.mux(stream.encode(frame))


# --- folders and zips -----------------------------------------------------------------------------------------------


def write_images(
    exam: Exam,
    hide: Callable[[Image], Image],
    put: Callable[[str, bytes], None],
    quality: Quality,
    progress: Progress | None = None,
) -> tuple[int, ...]:
    """Write frames as images under new names; returns which could not be decoded and are black."""
    names = plain_names(exam.source.names or ())
    missing = []
    render = _Whole(exam)
    for ordinal, frame in _all_frames(exam):
        suffix = ".jpg" if quality == "high" and Path((exam.source.names or ())[ordinal]).suffix.lower() in (
            ".jpg", ".jpeg") else ".png"  # fmt: skip
        if frame is None:
            missing.append(ordinal)
            image: Image = np.zeros((exam.image_size[1], exam.image_size[0], 3), np.uint8)
        else:
            image = hide(render(frame))
        put(names[ordinal] + suffix, encode_image(image, suffix))
        if progress is not None:
            progress(ordinal + 1, len(exam))
    return tuple(missing)


class _Whole:
    """Turns decoded frames into whole RGB images."""

    def __init__(self, exam: Exam) -> None:
        from av.video.reformatter import VideoReformatter

        self._reformatter, self._size = VideoReformatter(), exam.image_size

    def __call__(self, frame: av.VideoFrame) -> Image:
        return to_rgb(self._reformatter, frame, *self._size, "area")


def plain_names(names: tuple[str, ...]) -> list[str]:
    """Name frames by their numbers where these are plain and in order, so that gaps stay gaps; else by ordinal."""
    numbers = [frame_number(name) for name in names]
    known = [number for number in numbers if number is not None]
    is_plain = len(known) == len(names) and all(a < b for a, b in itertools.pairwise(known))
    if not is_plain or (known and known[-1] >= LARGEST_NUMBER):
        known = list(range(len(names)))
    return [f"frame_{number:07d}" for number in known]


def into_zip(archive: zipfile.ZipFile) -> Callable[[str, bytes], None]:
    """Put members into a zip without the time of day."""

    def put(name: str, content: bytes) -> None:
        archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content)

    return put


# --- what containers say --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContainerFacts:
    """What a video file says besides its images, by name; the values may say who the patient is."""

    metadata: tuple[str, ...]
    other_streams: tuple[str, ...]


def container_facts(path: Path) -> ContainerFacts:
    """List metadata and streams of a video file."""
    with av.open(str(path.absolute()), options=CONTAINER_OPTIONS) as container:
        keys = {*container.metadata, *(key for stream in container.streams for key in stream.metadata)}
        chosen = container.streams.video[0].index
        others = [stream.type for stream in container.streams if stream.index != chosen]
    usual = {"major_brand", "minor_version", "compatible_brands", "encoder", "handler_name", "vendor_id", "language"}
    return ContainerFacts(tuple(sorted(keys - usual)), tuple(others))


def is_patient_free(name: str, original: str) -> bool:
    """Whether the name of the output has nothing of that of the input but short words."""
    words = {word for word in re.split(r"[\W_]+", original.casefold()) if len(word) > 3 and word != "exam"}
    return not words & set(re.split(r"[\W_]+", name.casefold()))
