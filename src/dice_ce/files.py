"""Files: where the cache is, and writing so that a reader never sees half a file."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from dice_ce.errors import StoreError

CACHE_VARIABLE = "DICE_CE_CACHE"
PARTIAL_PREFIX = ".part-"
"""What the names of unpublished files begin with."""


def cache_root() -> Path:
    """Folder of everything that can be computed again: `$DICE_CE_CACHE`, or the system's place for caches."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("dice-ce", appauthor=False))


@contextmanager
def atomic_file(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside `target`; publish it under its name only if all went well.

    The rename is atomic and comes after the content is on the disk, so that a killed process or a power cut leaves
    the old file, no file, or the whole new one.
    """
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f"{PARTIAL_PREFIX}{secrets.token_hex(8)}"
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StoreError(f"{target}: cannot be written ({error.strerror}); {_remedy(error)}") from error
        raise


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"free some space, or point {CACHE_VARIABLE} or --out at another disk; finished work is kept"
    return f"check the permissions, or point {CACHE_VARIABLE} or --out at another folder"


def write_atomically(target: Path, content: bytes) -> None:
    """Write a whole file at once, or nothing."""
    with atomic_file(target) as file:
        file.write(content)
