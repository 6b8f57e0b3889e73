"""DICOM files and folders -> a source of frames, as from any other export."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import av
import numpy as np

from dice_ce.errors import ExamError, require
from dice_ce.exam.clock import Recorded
from dice_ce.exam.dicom.detect import DIRECTORY, is_dicom
from dice_ce.exam.dicom.directory import listed_files
from dice_ce.exam.dicom.objects import DicomObject, Span, read_object, reading
from dice_ce.exam.dicom.pixels import check_decodable, decode_frame
from dice_ce.exam.dicom.times import times_of_frames, times_of_series
from dice_ce.exam.folders import name_some
from dice_ce.exam.frames import FrameTable
from dice_ce.exam.images import natural_order
from dice_ce.exam.source import NOMINAL_RATE, Cursor, Source
from dice_ce.exam.video import index_video
from dice_ce.exam.watched import Stamp, WatchedFile, open_watched
from dice_ce.types import Ints


def index_dicom(path: Path) -> Source:
    """Open a DICOM file, a DICOMDIR, or a folder with either."""
    require("pydicom", extra="hospital", purpose="reading DICOM")
    with reading(path):  # a value may be of another type than the standard says
        return _index(path)


def _index(path: Path) -> Source:
    objects, notes = dicom_objects(path)
    first = objects[0]
    if first.is_video:
        return _index_stream(path, first, notes)
    for one in objects:
        check_decodable(one)
    series = len(objects) > 1
    frames = [(one, spans) for one in objects for spans in one.spans]
    recorded = times_of_series(objects) if series else times_of_frames(first, len(frames))
    return DicomSource(path, tuple(objects), recorded, (*notes, *_gaps(objects), *recorded.warnings))


def dicom_objects(path: Path) -> tuple[list[DicomObject], tuple[str, ...]]:
    """Return the files that make one exam, in the order of their frames, and what was left out."""
    if path.is_file() and path.name != DIRECTORY:
        one = read_object(path)
        if not one.spans:
            raise ExamError(f"{path}: holds no images but a document ({one.kind}); give the video or image object")
        return [one], ()
    folder = path if path.is_dir() else path.parent
    everything = [read_object(file) for file in _files_of(folder)]
    images = [one for one in everything if one.spans]
    if not images:
        raise ExamError(f"{path}: none of its {len(everything)} DICOM objects holds images; give the exam's folder")
    exams = _by_exam(images)
    if len(exams) > 1:
        places = name_some([str(exam[0].path.relative_to(folder)) for exam in exams])
        raise ExamError(f"{path}: holds {len(exams)} recordings (beginning with {places}); give one of them")
    left_out = len(everything) - len(images)
    notes = [f"{left_out} DICOM objects without images were left out"] if left_out else []
    unique = {str(one.header.get("SOPInstanceUID", one.path)): one for one in reversed(exams[0])}
    if len(unique) < len(exams[0]):
        notes.append(f"{len(exams[0]) - len(unique)} DICOM objects are there twice and were read once")
    return sorted(unique.values(), key=_order), tuple(notes)


def _files_of(folder: Path) -> list[Path]:
    if (folder / DIRECTORY).is_file():
        return listed_files(folder / DIRECTORY)
    inside = [entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    return sorted((file for file in inside if is_dicom(file)), key=lambda file: natural_order(file.name))


def whole_exams(folder: Path) -> list[Path]:
    """List the files of a folder, if each of them is an exam by itself."""
    objects = [read_object(file) for file in _files_of(folder)]
    exams = _by_exam([one for one in objects if one.spans])
    return [exam[0].path for exam in exams] if all(_is_whole(exam[0]) for exam in exams) else []


def count_exams(files: Sequence[Path]) -> int:
    """Count the recordings that files hold."""
    return len(_by_exam([one for one in map(read_object, files) if one.spans]))


def _is_whole(one: DicomObject) -> bool:
    return one.is_video or len(one.spans) > 1


def _by_exam(images: Sequence[DicomObject]) -> list[list[DicomObject]]:
    """Take every multi-frame object for an exam, and the single images of a series together for one."""
    exams: dict[str, list[DicomObject]] = defaultdict(list)
    for one in images:
        exams[str(one.header.get("SOPInstanceUID" if _is_whole(one) else "SeriesInstanceUID", ""))].append(one)
    return list(exams.values())


def _order(one: DicomObject) -> tuple[bool, int, Any]:
    number = _number(one)
    return number is None, number or 0, natural_order(one.path.name)


def _number(one: DicomObject) -> int | None:
    try:
        return int(one.header.get("InstanceNumber"))
    except (TypeError, ValueError):
        return None


def _gaps(objects: Sequence[DicomObject]) -> tuple[str, ...]:
    """Say what the instance numbers tell about a series that arrived incomplete."""
    numbers = [_number(one) for one in objects]
    known = [number for number in numbers if number is not None]
    if len(objects) < 2:
        return ()
    if len(known) < len(objects):
        return (f"{len(objects) - len(known)} images have no Instance Number: these come last, by file name",)
    missing = max(known) - min(known) + 1 - len(set(known))
    return (f"{missing} Instance Numbers are missing: is the series complete?",) if missing else ()


# --- videos -------------------------------------------------------------------------------------------------------


class Stream(io.RawIOBase):
    """The fragments of a video object as one file."""

    def __init__(self, spans: tuple[Span, ...], path: Path, stamp: Stamp | None = None) -> None:
        self._spans = spans
        self._starts = np.cumsum([0, *(span.length for span in spans)])
        self._position = 0
        self._file = WatchedFile(path, stamp)

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Return the position in the stream."""
        return self._position

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position in the stream."""
        self._position = max(0, offset + (0, self._position, int(self._starts[-1]))[whence])
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes."""
        left = int(self._starts[-1]) - self._position
        wanted = left if size is None or size < 0 else min(size, left)
        parts = []
        while wanted > 0:
            rank = int(np.searchsorted(self._starts, self._position, side="right")) - 1
            inside = self._position - int(self._starts[rank])
            span = self._spans[rank]
            self._file.seek(span.offset + inside)
            part = self._file.read(min(wanted, span.length - inside))
            if not part:
                break
            parts.append(part)
            self._position += len(part)
            wanted -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Give the file handle back."""
        self._file.close()
        super().close()


def _index_stream(path: Path, one: DicomObject, notes: tuple[str, ...]) -> Source:
    source = index_video(one.path, functools.partial(Stream, one.spans[0]))
    frames, declared = source.frames, int(one.header.get("NumberOfFrames") or 0)
    spread = int(frames.pts[-1] - frames.pts[0])
    playback = spread * frames.time_base / (len(frames) - 1) if len(frames) > 1 and spread else None
    recorded = times_of_frames(one, len(frames), playback)
    if declared not in (0, len(frames)):
        notes = (*notes, f"the DICOM object declares {declared} frames, its video holds {len(frames)}")
    return dataclasses.replace(source, recorded=recorded, warnings=(*source.warnings, *notes, *recorded.warnings))


# --- images -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DicomSource:
    """One multi-frame object, or a series of single images."""

    path: Path
    objects: tuple[DicomObject, ...]
    recorded: Recorded
    warnings: tuple[str, ...]
    frames: FrameTable = field(init=False)
    keyframes: Ints = field(init=False)
    last_duration: int = 1
    names: None = None
    """File names of a PACS are UIDs as often as not, and lead to the patient."""

    def __post_init__(self) -> None:
        ordinals = np.arange(sum(len(one.spans) for one in self.objects))
        object.__setattr__(self, "frames", FrameTable(ordinals, ordinals, Fraction(1, NOMINAL_RATE)))
        object.__setattr__(self, "keyframes", ordinals)

    def open(self, *, threads: int = 0) -> Cursor:
        """Start reading."""
        return DicomCursor(self)

    def copied_to(self, path: Path) -> DicomSource:
        """Return the same source for a copy of the files."""
        objects = (
            dataclasses.replace(one, path=path / one.path.relative_to(self.path), stamp=None) for one in self.objects
        )
        return dataclasses.replace(self, path=path, objects=tuple(objects))

    def digest(self) -> str:
        """Hash the files, one by one."""
        total = hashlib.sha256()
        for one in self.objects:
            with open_watched(one.path, one.stamp) as file:
                single = hashlib.file_digest(file, "sha256")
            if len(self.objects) == 1:
                return single.hexdigest()
            total.update(single.digest())
        return total.hexdigest()


class DicomCursor:
    """Decodes frames one by one, with the decoders that pydicom finds."""

    def __init__(self, source: DicomSource) -> None:
        self._frames = [(one, spans) for one in source.objects for spans in one.spans]
        self._open: tuple[Path, IO[bytes]] | None = None

    def read(self, start: int, stop: int) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield (ordinal, image) of the decodable frames in [start, stop), in order."""
        for ordinal in range(start, min(stop, len(self._frames))):
            one, spans = self._frames[ordinal]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = decode_frame(one, self._content(one, spans))
            if image is not None:
                yield ordinal, av.VideoFrame.from_ndarray(image, format="rgb24")

    def close(self) -> None:
        """Give the file handle back."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _content(self, one: DicomObject, spans: tuple[Span, ...]) -> bytes:
        if self._open is None or self._open[0] != one.path:
            self.close()
            self._open = one.path, open_watched(one.path, one.stamp)
        file = self._open[1]
        parts = []
        for span in spans:
            file.seek(span.offset)
            parts.append(file.read(span.length))
        return b"".join(parts)
