"""Reading the files of an exam so that storage which fails is never taken for damage of the exam.

What a decoder is given is what the file held when it was counted, or an error: a share that goes away in the middle, a
file that is cut off, overwritten or replaced while it is read say nothing about the exam.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dice_ce.errors import ExamError, UnreachableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Stamp(NamedTuple):
    """What changes when a file changes."""

    size: int
    changed: int
    """Nanoseconds since 1970."""


class WatchedFile(io.RawIOBase):
    """A file that is read as it was when it was counted, or not at all."""

    def __init__(self, path: Path, stamp: Stamp | None = None) -> None:
        self.name = str(path.absolute())
        self._path = path
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            super().close()  # or the end of this object would miss the file
            raise unreadable(path, error) from error
        self.stamp = stamp or self._now()
        self._check()

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read some bytes, or say that the storage does not give them."""
        try:
            count = self._file.readinto(buffer)
        except OSError as error:
            raise UnreachableError(_lost(self._path, error.strerror)) from error
        self._check()
        return count or 0

    def close(self) -> None:
        """Give the file handle back."""
        if not self.closed:
            self._file.close()
        super().close()

    def _now(self) -> Stamp:
        try:
            facts = os.fstat(self._file.fileno())
        except OSError as error:
            raise UnreachableError(_lost(self._path, error.strerror)) from error
        return Stamp(facts.st_size, facts.st_mtime_ns)

    def _check(self) -> None:
        if self._now() != self.stamp:
            raise changed_meanwhile(self._path)


def open_watched(path: Path, stamp: Stamp | None = None) -> io.BufferedReader:
    """Open a file for parsers that read small pieces."""
    return io.BufferedReader(WatchedFile(path, stamp))


def stamp_of(path: Path) -> Stamp:
    """Look at a file as it is now."""
    with WatchedFile(path) as file:
        return file.stamp


def unreadable(path: Path, error: OSError) -> ExamError:
    """Tell a file that may not be read from one that cannot be read just now."""
    reason = f"{path}: cannot be read ({error.strerror}); check the"
    if isinstance(error, PermissionError):
        return ExamError(f"{reason} permissions")
    return UnreachableError(f"{reason} disk or share, then start again")


def changed_meanwhile(path: Path) -> UnreachableError:
    """Say that a file is no longer the one that was counted."""
    return UnreachableError(_lost(path, "the file has changed"))


def _lost(path: Path, reason: str | None) -> str:
    return f"{path}: reading broke off ({reason}); check the disk or share, then start again"
