"""Files: where the cache is, and writing so that a reader never sees half a file and nothing is replaced by accident.

What a path may be, for everything that is written:

    nothing, a regular file      written beside it and renamed
    a link                       what it points at is written; the link stays
    a device, a pipe             written into at the end, in one go (/dev/null, /dev/stdout, a named pipe)
    a folder, a disk, a socket   refused where a file is expected
"""

from __future__ import annotations

import errno
import lzma
import os
import re
import secrets
import shutil
import stat
import struct
import sys
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from dice_ce.errors import StoreError, UsageError, one_line

CACHE_VARIABLE = "DICE_CE_CACHE"
PARTIAL_PREFIX = ".part-"
"""What the names of unpublished files begin with."""


DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
)
"""What `zipfile` raises for flipped bits, besides OSError with EINVAL for offsets that lead nowhere."""


DAMAGED_ARRAY = (*DAMAGED_ZIP, SyntaxError, tokenize.TokenError)
"""What `numpy.load` raises for flipped bits in the header of an array, or in the zip around several."""


def cache_root() -> Path:
    """Folder of everything that can be computed again: `$DICE_CE_CACHE`, or the system's place for caches."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("dice-ce", appauthor=False))


@contextmanager
def atomic_file(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file; publish it as `target` only if all went well.

    The rename is atomic and comes after the content is on the disk, so that a killed process or a power cut leaves
    the old file, no file, or the whole new one.
    """
    with _named_errors(target):
        if _is_stream(target):
            with tempfile.TemporaryFile() as draft:
                yield draft
                _pour(draft, target)
            return
        real = follow_links(target)
        real.parent.mkdir(parents=True, exist_ok=True)
        temporary = _draft_beside(real)
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(real)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_atomically(target: Path, content: bytes) -> None:
    """Write a whole file at once, or nothing."""
    with atomic_file(target) as file:
        file.write(content)


@contextmanager
def atomic_folder(target: Path, owned: Container[str]) -> Iterator[Path]:
    """Yield a folder to fill; once it is complete, it takes the place of `target`.

    Of an earlier folder there, the entries named in `owned` go and everything else is kept: it is not ours.
    """
    with _named_errors(target):
        real = follow_links(target)
        draft = _draft_beside(real)
        try:
            draft.mkdir(parents=True)
            yield draft
            _swap(draft, real, owned)
        except StoreError as error:  # named as the user knows it: the draft is gone when this is read
            raise StoreError(str(error).replace(str(draft), str(target))) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _swap(draft: Path, folder: Path, owned: Container[str]) -> None:
    """Move the old folder aside first, because a folder cannot be renamed onto another."""
    aside = draft.with_name(f"{draft.name}-old")
    if folder.exists():
        folder.rename(aside)
    try:
        draft.rename(folder)
    except OSError:
        if aside.exists():
            aside.rename(folder)
        raise
    if aside.exists():
        for entry in aside.iterdir():
            if entry.name not in owned and not (folder / entry.name).exists():
                entry.rename(folder / entry.name)
        shutil.rmtree(aside, ignore_errors=True)


# --- looking before any work starts -------------------------------------------------------------------------------


def check_file(target: Path, *, with_neighbours: bool = False) -> None:
    """Raise now what writing this file would raise later, after hours of work; nothing is left behind.

    Beside a file with neighbours others are written, so that it cannot be a device or a pipe.
    """
    with _named_errors(target):
        if not _is_stream(target):
            _try_folder(follow_links(target).parent)
        elif with_neighbours:
            raise StoreError(f"{target}: is not a regular file, and others are written beside it; give another name")


def check_folder(target: Path, marks: Sequence[str] = ()) -> None:
    """Raise now what writing into this folder would raise later.

    With `marks`, the folder must be new, empty, or hold one of these names, by which our own output is known.
    """
    with _named_errors(target):
        real = follow_links(target)
        if real.exists() and not real.is_dir():
            raise StoreError(f"{target}: is not a folder; give the name of a folder")
        _try_folder(real)
        found = {path.name for path in real.iterdir()} if real.is_dir() else set()
    if marks and any(not name.startswith(PARTIAL_PREFIX) for name in found) and found.isdisjoint(marks):
        raise UsageError(
            f"{target}: is there already and holds something else (no {' or '.join(marks)}); give a new or empty folder"
        )


def printable(name: str) -> str:
    """Return a file name as one line of valid text: bytes of other encodings and control characters are replaced."""
    return one_line(name.encode(errors="surrogateescape").decode(errors="replace"))


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same place, by whatever links."""
    return os.path.realpath(one) == os.path.realpath(other)


def follow_links(target: Path) -> Path:
    """Return what is to be written: the end of a chain of links, which need not exist yet."""
    real = Path(os.path.realpath(target))
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return real


def _try_folder(folder: Path) -> None:
    """Make a nameless file in the folder, or in what is there of its path."""
    while not folder.exists():
        folder = folder.parent
    with tempfile.TemporaryFile(dir=folder):
        pass


# --- what is not a regular file -----------------------------------------------------------------------------------


def _is_stream(target: Path) -> bool:
    """Whether the path is something to write into rather than to replace; what is neither is refused."""
    if _own_descriptor(target) is not None:
        return True
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISDIR(mode):
        raise StoreError(f"{target}: is a folder; give the name of a file")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise StoreError(f"{target}: is a disk or a socket, not a file; give the name of a file")
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _own_descriptor(target: Path) -> int | None:
    """Return the number of a file that this process has open, if the path is its name: /dev/stdout, /dev/fd/3."""
    path = os.path.abspath(target)  # noqa: PTH100  resolving would lose the name
    standard = {"/dev/stdout": 1, "/dev/stderr": 2}
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path)
    return int(numbered[1]) if numbered else standard.get(path)


def _pour(draft: IO[bytes], target: Path) -> None:
    draft.seek(0)
    descriptor = _own_descriptor(target)
    if descriptor is None:
        file = target.open("wb")
    else:
        sys.stdout.flush()  # what was printed before comes first
        file = os.fdopen(os.dup(descriptor), "wb")  # not opened anew: a redirected file would be cut off
    with file:
        shutil.copyfileobj(draft, file)


def _draft_beside(target: Path) -> Path:
    return target.parent / f"{PARTIAL_PREFIX}{secrets.token_hex(8)}"


@contextmanager
def _named_errors(target: Path) -> Iterator[None]:
    """Say which file could not be written, and what to do."""
    try:
        yield
    except BrokenPipeError:  # whoever read it has gone; the command ends quietly
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{target}: cannot be written ({reason}); {_remedy(error)}") from error


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"free some space, or point {CACHE_VARIABLE} or --out at another disk; finished work is kept"
    return f"check the permissions, or point {CACHE_VARIABLE} or --out at another folder"
