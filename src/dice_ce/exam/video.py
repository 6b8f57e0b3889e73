"""Video files: indexed by reading their packets once, decoded from the nearest keyframe."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from av.stream import Disposition

from dice_ce.errors import ExamError
from dice_ce.exam.clock import Recorded
from dice_ce.exam.frames import FrameTable
from dice_ce.exam.source import NOMINAL_RATE, Cursor, check_memory, check_size
from dice_ce.exam.watched import Stamp, WatchedFile, open_watched, stamp_of
from dice_ce.types import Ints

# Local files only: a playlist dressed up as a video must not make the program fetch anything.
CONTAINER_OPTIONS = {"protocol_whitelist": "file"}
# Text and images of text that FFmpeg is too willing to play as a video.
# Containers that store a timestamp with every image. In others (MPEG program streams above all) FFmpeg guesses, and
# guesses differently after a seek, so there a frame is only certain when decoding began at the first one.
EXACT_AFTER_SEEK = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "asf")
NOT_A_VIDEO = ("tty", "ansi", "xbin", "bintext", "idf", "adf")


Content = Callable[[Path, Stamp | None], io.RawIOBase]
"""Opens the stream of a file that is as it was."""


@dataclass(frozen=True, eq=False)
class VideoSource:
    """A video file, indexed by reading its packets once without decoding them."""

    path: Path
    frames: FrameTable
    last_duration: int
    keyframes: Ints
    ordinal_of: dict[int, int] | None
    """Ordinal by the timestamp a decoded image carries; None if images can only be counted from the start."""
    warnings: tuple[str, ...] = ()
    content: Content = WatchedFile
    """The file itself, or a stream inside it."""
    stamp: Stamp | None = None
    """Of the file when its frames were counted; None for a copy of it."""
    recorded: Recorded | None = None
    names: None = None

    def open(self, *, threads: int = 0) -> Cursor:
        """Start reading."""
        return VideoCursor(self, threads)

    def copied_to(self, path: Path) -> VideoSource:
        """Return the same source for a copy of the file."""
        return dataclasses.replace(self, path=path, stamp=None)

    def digest(self) -> str:
        """Hash the file."""
        with open_watched(self.path, self.stamp) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _open_container(path: Path, content: Content, stamp: Stamp | None) -> tuple[Any, Any]:
    """Open the file and its video stream, or say in one line what is wrong with it."""
    try:
        # Read by us, not by FFmpeg: many of its demuxers take an error of the disk for the end of the file.
        container = av.open(content(path, stamp), options=CONTAINER_OPTIONS)
    except (av.error.FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ExamError(
            f"{path}: not a readable video ({reason}); it is damaged, incomplete or of another type: "
            "play it to check, then copy or export it again"
        ) from error
    cover = Disposition.attached_pic  # of a sound file
    stream = next((s for s in container.streams.video if s.codec_context and not s.disposition & cover), None)
    if stream is None or stream.codec_context.name in NOT_A_VIDEO:
        has_audio = bool(container.streams.audio)
        container.close()
        found = "only sound" if has_audio else "no video stream"
        raise ExamError(f"{path}: has {found}; give the exam's video file")
    return container, stream


class _Packet(NamedTuple):
    pts: int | None
    is_keyframe: bool


@dataclass(frozen=True)
class _Scan:
    """What reading all packets of a file tells, without decoding them."""

    container: str
    time_base: Fraction
    frame_time: int
    """How long a frame is shown on average, in units of the time base."""
    reorders: bool
    """Whether images are stored in another order than they are shown."""
    declared: int
    """Frames the file says it has; 0 if it does not say."""
    stored: int
    """Packets found, also those that edit lists hide or that only fill time."""
    packets: list[_Packet]
    """Packets that become images."""


def _scan(path: Path, content: Content, stamp: Stamp) -> _Scan:
    container, stream = _open_container(path, content, stamp)
    with closing(container):
        check_size(path, stream.codec_context.width, stream.codec_context.height)
        time_base = Fraction(stream.time_base)
        rate = Fraction(stream.average_rate or stream.base_rate or NOMINAL_RATE)
        facts = (container.format.name, time_base, max(1, round(1 / rate / time_base)))
        reorders, declared = bool(stream.codec_context.has_b_frames), stream.frames
        stored, packets = 0, []
        for packet in _packets(container, stream):
            stored += packet.dts is not None
            if packet.size and not packet.is_discard:
                packets.append(_Packet(packet.pts, packet.is_keyframe))
    if not packets:
        raise ExamError(f"{path}: the video has no frames; copy or export it again")
    return _Scan(*facts, reorders, declared, stored, packets)


def index_video(path: Path, content: Content = WatchedFile) -> VideoSource:
    """Find every frame of a video, when it is shown, and where decoding can start."""
    stamp = stamp_of(path)
    scan = _scan(path, content, stamp)
    stamps = [packet.pts for packet in scan.packets if packet.pts is not None]
    warnings = _missing_frames(scan, stamps)
    # AVI has no presentation timestamps, and where images are reordered FFmpeg guesses them wrongly.
    is_guessed = scan.container == "avi" and scan.reorders
    if is_guessed or len(set(stamps)) < len(scan.packets):
        return _index_by_decoding(path, content, stamp, scan, warnings)
    pts = np.array(sorted(stamps), np.int64)
    ordinal_of = {shown: i for i, shown in enumerate(pts.tolist())}
    keys = {0}
    if scan.container in EXACT_AFTER_SEEK:
        keys |= {ordinal_of[shown] for shown, packet in zip(stamps, scan.packets, strict=True) if packet.is_keyframe}
    return VideoSource(
        path=path,
        frames=FrameTable(np.arange(len(pts)), pts, scan.time_base),
        last_duration=int(pts[-1] - pts[-2]) if len(pts) > 1 else scan.frame_time,
        keyframes=np.array(sorted(keys), np.int64),
        ordinal_of=ordinal_of,
        warnings=warnings,
        content=content,
        stamp=stamp,
    )


def _missing_frames(scan: _Scan, stamps: list[int]) -> tuple[str, ...]:
    """Compare what the file says it has with what is there."""
    declared, found = scan.declared, len(scan.packets)
    if scan.container == "avi" and len(stamps) > 1:
        declared //= max(1, int(np.median(np.diff(np.sort(stamps)))))  # AVI counts slots of time, also empty ones
    if declared <= max(scan.stored, found):
        return ()
    return (f"the file declares {declared} frames but holds {found}: it is incomplete or damaged",)


def _index_by_decoding(
    path: Path, content: Content, stamp: Stamp, scan: _Scan, warnings: tuple[str, ...]
) -> VideoSource:
    """Count the images that really come out, where the packets' timestamps are missing, doubled or guessed."""
    container, stream = _open_container(path, content, stamp)
    with closing(container):
        shown = [(frame.pts, bool(frame.key_frame)) for frame in _images(container, stream)]
    if not shown:
        raise ExamError(f"{path}: not one frame can be decoded; copy or export it again")
    stamps = [pts for pts, _ in shown if pts is not None]
    if len(set(stamps)) < len(shown):
        ordinals = np.arange(len(shown))
        zero = np.zeros(1, np.int64)
        table = FrameTable(ordinals, ordinals * scan.frame_time, scan.time_base)
        return VideoSource(path, table, scan.frame_time, zero, None, warnings, content, stamp)
    keys = sorted({0, *(i for i, (_, is_key) in enumerate(shown) if is_key)})
    return VideoSource(
        path=path,
        frames=FrameTable(np.arange(len(shown)), np.array(sorted(stamps), np.int64), scan.time_base),
        last_duration=scan.frame_time,
        keyframes=np.array(keys, np.int64),
        ordinal_of={pts: i for i, pts in enumerate(stamps)},
        warnings=warnings,
        content=content,
        stamp=stamp,
    )


def _packets(container: Any, stream: Any) -> Iterator[Any]:
    """Yield packets up to the end, or to where the container becomes unreadable."""
    try:
        yield from container.demux(stream)
    except (av.error.FFmpegError, EOFError):
        return


def _images(container: Any, stream: Any) -> Iterator[av.VideoFrame]:
    """Decode on past damaged packets; images the decoder itself calls corrupt are left out."""
    for packet in _packets(container, stream):
        try:
            decoded = packet.decode()
        except (av.error.FFmpegError, EOFError) as error:
            check_memory(error)
            continue
        yield from (frame for frame in decoded if not frame.is_corrupt)


class VideoCursor:
    """A position in a video file."""

    def __init__(self, source: VideoSource, threads: int) -> None:
        self._source, self._threads = source, threads
        self._container: Any = None
        self._position = -1
        """Ordinal of the image that was delivered last; -1 before the first."""
        self._held: tuple[int, av.VideoFrame] | None = None
        self._decoded: Iterator[tuple[int, av.VideoFrame]] = iter(())
        self._reopen()

    def read(self, start: int, stop: int) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield (ordinal, image) of the decodable frames in [start, stop), in order."""
        self._go_to(start)
        while (item := self._next()) is not None:
            if item[0] >= stop:
                self._held = item
                return
            self._position = item[0]
            if item[0] >= start:
                yield item
            if item[0] == stop - 1:
                return  # the next one need not be decoded to know that it is beyond

    def close(self) -> None:
        """Give the file handle back."""
        self._decoded, self._held = iter(()), None
        if self._container is not None:
            self._container.close()
            self._container = None

    def _next(self) -> tuple[int, av.VideoFrame] | None:
        item, self._held = self._held, None
        return item if item is not None else next(self._decoded, None)

    def _go_to(self, start: int) -> None:
        """Seek to the last keyframe at or before `start`, unless reading on from here gets there as soon.

        A stretch that begins at a keyframe is always decoded from there, never on from what came before, so that
        even in damaged files its images do not depend on what was read earlier.
        """
        keyframes = self._source.keyframes
        rank = int(np.searchsorted(keyframes, start, side="right")) - 1
        if rank > 0 and not keyframes[rank] <= self._position < start:
            while rank > 0 and not self._seek(rank):
                rank -= 1
        if rank <= 0 and not -1 <= self._position < start:
            self._reopen()

    def _seek(self, rank: int) -> bool:
        """Seek; False if decoding resumed only after that keyframe, as in formats with imprecise indexes.

        By the time at which it is shown: by that at which it is decoded, containers go back one keyframe too far.
        """
        keyframe = self._source.keyframes[rank]
        try:
            self._container.seek(int(self._source.frames.pts[keyframe]), stream=self._stream, backward=True)
        except av.error.FFmpegError:  # damaged index
            return False
        self._start_decoding()
        self._position = -1
        self._held = next(self._decoded, None)
        return self._held is not None and self._held[0] <= keyframe

    def _reopen(self) -> None:
        self.close()
        self._container, self._stream = _open_container(self._source.path, self._source.content, self._source.stamp)
        codec = self._stream.codec_context
        codec.thread_count = self._threads
        codec.thread_type = "NONE" if self._threads == 1 else "AUTO"
        self._position = -1
        self._start_decoding()

    def _start_decoding(self) -> None:
        self._decoded = self._numbered(_images(self._container, self._stream))

    def _numbered(self, images: Iterator[av.VideoFrame]) -> Iterator[tuple[int, av.VideoFrame]]:
        """Pair images with their ordinals; what is out of order after damage is left out."""
        last = -1
        for count, frame in enumerate(images):
            known = self._source.ordinal_of
            ordinal = count if known is None else known.get(frame.pts) if frame.pts is not None else None
            if ordinal is not None and ordinal > last:
                last = ordinal
                yield ordinal, frame
