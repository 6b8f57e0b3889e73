"""What every reader offers: a source that knows its frames, and cursors that decode them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import av

from dice_ce.errors import ExamError
from dice_ce.exam.clock import Recorded
from dice_ce.exam.frames import FrameTable
from dice_ce.types import Ints

SMALLEST_SIDE, LARGEST_SIDE = 32, 8192
NOMINAL_RATE = 25
"""Playback rate of what has none of its own, such as bare images."""


class Cursor(Protocol):
    """Decodes stretches of one source; going forward is cheap, going back seeks."""

    def read(self, start: int, stop: int) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield (ordinal, image) of the decodable frames in [start, stop), in order."""

    def close(self) -> None:
        """Give the file handle back."""


class Source(Protocol):
    """An export whose frames have been counted."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    @property
    def frames(self) -> FrameTable:
        """All frames, whether they can be decoded or not."""

    @property
    def last_duration(self) -> int:
        """How long the last frame is shown, in units of the time base."""

    @property
    def keyframes(self) -> Ints:
        """Ordinals at which decoding can start without looking back."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """File names of the frames, if they are files."""

    @property
    def recorded(self) -> Recorded | None:
        """When the frames were taken, if the export says so itself."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looked wrong without preventing the reading."""

    def open(self, *, threads: int = 0) -> Cursor:
        """Start reading; 0 threads lets the decoder choose."""

    def copied_to(self, path: Path) -> Source:
        """Return the same source for a copy of its files, which is as young as it may be."""

    def digest(self) -> str:
        """SHA-256 of the content."""


def check_memory(error: Exception) -> None:
    """Raise a failure to get memory as what it is: it says nothing about the frame, which may be fine."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        raise MemoryError("the decoder got no memory") from error


def check_size(path: Path, width: int, height: int) -> None:
    if min(width, height) < SMALLEST_SIDE or max(width, height) > LARGEST_SIDE:
        raise ExamError(
            f"{path}: images of {width}x{height} pixels; an exam has between {SMALLEST_SIDE} and {LARGEST_SIDE} "
            "on each side: check that this is the exported exam"
        )
