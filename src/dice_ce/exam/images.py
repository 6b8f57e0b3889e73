"""Folders and zips of frames."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from dice_ce.errors import ExamError
from dice_ce.exam.frames import FrameTable
from dice_ce.exam.source import LARGEST_SIDE, NOMINAL_RATE, Cursor, check_memory
from dice_ce.exam.watched import Stamp, WatchedFile, changed_meanwhile, open_watched, stamp_of, unreadable
from dice_ce.files import DAMAGED_ZIP
from dice_ce.types import Ints

ENCRYPTED = 1
"""Flag of a member of a zip."""
LARGEST_FILE = 256 * 2**20
"""Bytes; a larger "frame" is something else, or made to exhaust the memory."""
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
DECODER_BY_MAGIC = ((b"\xff\xd8\xff", "mjpeg"), (b"\x89PNG", "png"), (b"BM", "bmp"))
"""The content decides, not the ending: exports name JPEGs .PNG and the other way round."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """A folder or zip whose image files, in natural order, are the frames."""

    path: Path
    names: tuple[str, ...]
    warnings: tuple[str, ...]
    frames: FrameTable = field(init=False)
    keyframes: Ints = field(init=False)
    last_duration: int = 1
    recorded: None = None
    stamp: Stamp | None = None
    """Of the zip, or of the newest frame, when the frames were counted; None for a copy."""

    def __post_init__(self) -> None:
        ordinals = np.arange(len(self.names))
        object.__setattr__(self, "frames", FrameTable(ordinals, ordinals, Fraction(1, NOMINAL_RATE)))
        object.__setattr__(self, "keyframes", ordinals)

    def open(self, *, threads: int = 0) -> Cursor:
        """Start reading."""
        return ImageCursor(self)

    def copied_to(self, path: Path) -> ImageSource:
        """Return the same source for a copy of the files."""
        return dataclasses.replace(self, path=path, stamp=None)

    def digest(self) -> str:
        """Hash names and contents, so that renaming or reordering frames counts as another exam."""
        total = hashlib.sha256()
        with closing(ImageCursor(self)) as cursor:
            for name in self.names:
                total.update(
                    name.encode(errors="surrogateescape") + b"\0" + hashlib.sha256(cursor.content(name)).digest()
                )
        return total.hexdigest()


def index_folder(path: Path) -> ImageSource:
    """List the frames directly in a folder."""
    files = {entry.name: entry.stat() for entry in os.scandir(path) if entry.is_file()}
    frames = [facts for name, facts in files.items() if is_frame_name(name)]
    newest = max(((facts.st_mtime_ns, facts.st_size) for facts in frames), default=(0, 0))
    return _index_images(path, sorted(files), Stamp(newest[1], newest[0]))


def _index_images(path: Path, names: Sequence[str], stamp: Stamp) -> ImageSource:
    images = [name for name in names if is_frame_name(name)]
    if not images:
        raise ExamError(
            f"{path}: holds no frames; expected files ending in {', '.join(SUFFIXES)}"
            + (" directly in the folder" if path.is_dir() else "")
        )
    warnings = []
    stems = {re.sub(r"\d+\D*$", "", Path(name).stem) for name in images}
    if len(stems) > 1:
        warnings.append(f"the frame names have {len(stems)} different beginnings: is this really one exam?")
    return ImageSource(path, tuple(sorted(images, key=natural_order)), tuple(warnings), stamp=stamp)


def is_frame_name(name: str) -> bool:
    """Whether a file of that name is meant as a frame, and is not what a file manager left behind."""
    return name.lower().endswith(SUFFIXES) and not Path(name).name.startswith(".") and "__MACOSX" not in name


def index_zip(path: Path) -> ImageSource:
    """List the frames in a zip; what is damaged in it besides its directory shows when they are read."""
    stamp = stamp_of(path)
    try:
        with open_watched(path, stamp) as file, zipfile.ZipFile(file) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
    except DAMAGED_ZIP as error:
        raise ExamError(f"{path}: the zip is damaged or incomplete ({error}); copy it again") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ExamError(f"{path}: the zip is damaged or incomplete (wrong offsets); copy it again") from error
    if members and all(member.flag_bits & ENCRYPTED for member in members):
        raise ExamError(f"{path}: the zip is encrypted; unpack it first")
    return _index_images(path, [member.filename for member in members], stamp)


def natural_order(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key under which `frame_9` comes before `frame_10`."""
    parts = re.split(r"(\d+)", name.casefold())
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts], name


class ImageCursor:
    """Decodes image files with FFmpeg's still decoders: the same images, colours and types as from videos."""

    def __init__(self, source: ImageSource) -> None:
        self._source = source
        self._archive = None if source.path.is_dir() else zipfile.ZipFile(open_watched(source.path, source.stamp))
        self._decoders: dict[str, Any] = {}

    def read(self, start: int, stop: int) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield (ordinal, image) of the decodable frames in [start, stop), in order."""
        for ordinal in range(start, min(stop, len(self._source.names))):
            frame = self._decode(self.content(self._source.names[ordinal]))
            if frame is not None and not frame.is_corrupt:
                yield ordinal, frame

    def content(self, name: str) -> bytes:
        """Read one file; what is damaged in its zip or absurdly large reads as empty, and so counts as undecodable."""
        if self._archive is None:
            with WatchedFile(self._source.path / name) as file:
                if self._source.stamp and file.stamp.changed > self._source.stamp.changed:
                    raise changed_meanwhile(self._source.path / name)
                return file.readall() if file.stamp.size <= LARGEST_FILE else b""
        try:
            member = self._archive.getinfo(name)
            is_readable = member.file_size <= LARGEST_FILE and not member.flag_bits & ENCRYPTED
            return self._archive.read(member) if is_readable else b""
        except DAMAGED_ZIP:
            return b""
        except OSError as error:
            if error.errno == errno.EINVAL:  # an offset that leads nowhere
                return b""
            raise unreadable(self._source.path, error) from error

    def close(self) -> None:
        """Give the file handle back."""
        self._decoders.clear()
        if self._archive is not None:
            self._archive.close()

    def _decode(self, content: bytes) -> av.VideoFrame | None:
        name = next((decoder for magic, decoder in DECODER_BY_MAGIC if content.startswith(magic)), None)
        if name is None:
            return None
        if name not in self._decoders:
            decoder = av.CodecContext.create(name, "r")
            decoder.thread_count = 1
            decoder.options = {"max_pixels": str(LARGEST_SIDE**2)}
            self._decoders[name] = decoder
        packet = av.Packet(content)
        packet.is_keyframe = True  # or the PNG decoder takes the file for a difference to the one before
        try:
            frames = self._decoders[name].decode(packet)
        except (av.error.FFmpegError, EOFError) as error:
            check_memory(error)
            return None
        return frames[0] if frames else None
