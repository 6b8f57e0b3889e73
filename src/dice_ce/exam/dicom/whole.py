"""Whether a DICOM file is whole: pydicom reads one that was cut off without a word.

Only lengths are looked at: every element, and every item of a sequence, must end within the file.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

from dice_ce.errors import InputError

META_AT, META_HEAD = 132, 12
LONG = (b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV")
"""Value representations with a length of four bytes."""
ITEM, ITEM_END, SEQUENCE_END = (0xFFFE, 0xE000), (0xFFFE, 0xE00D), (0xFFFE, 0xE0DD)
UNDEFINED = 0xFFFFFFFF
DEEPEST = 60


class _CutOffError(Exception):
    """The file ends too early."""


def check_whole(path: Path, *, is_explicit: bool, is_little_endian: bool) -> None:
    """Raise in one line if the file was cut off."""
    with path.open("rb") as file:
        walk = _Walk(file, is_explicit, "<" if is_little_endian else ">")
        try:
            file.seek(META_AT)
            head = walk.take(META_HEAD)
            file.seek(META_AT + META_HEAD + int.from_bytes(head[-4:], "little"))
            while walk.left():
                walk.element(0)
        except (_CutOffError, struct.error) as error:
            raise InputError(f"{path}: truncated or damaged DICOM; copy or export it again") from error


class _Walk:
    """Goes over the elements of a file."""

    def __init__(self, file: IO[bytes], is_explicit: bool, order: str) -> None:
        self._file, self._is_explicit, self._order = file, is_explicit, order
        self._size = file.seek(0, 2)

    def left(self) -> int:
        return self._size - self._file.tell()

    def take(self, count: int) -> bytes:
        content = self._file.read(count)
        if len(content) < count:
            raise _CutOffError
        return content

    def _skip(self, count: int) -> None:
        if count > self.left():
            raise _CutOffError
        self._file.seek(count, 1)

    def element(self, depth: int) -> tuple[int, int]:
        """Pass one element, or the end of an item, and return its tag."""
        if depth > DEEPEST:
            raise _CutOffError
        tag: tuple[int, int] = struct.unpack(f"{self._order}HH", self.take(4))
        if tag in (ITEM_END, SEQUENCE_END):
            self.take(4)
            return tag
        length = self._length()
        if length == UNDEFINED:
            self._items(depth)
        else:
            self._skip(length)
        return tag

    def _length(self) -> int:
        if self._is_explicit:
            kind = self.take(2)
            if kind not in LONG:
                return int(struct.unpack(f"{self._order}H", self.take(2))[0])
            self.take(2)
        return int(struct.unpack(f"{self._order}I", self.take(4))[0])

    def _items(self, depth: int) -> None:
        """Pass items up to the end of their sequence."""
        while True:
            group, number, length = struct.unpack(f"{self._order}HHI", self.take(8))
            if (group, number) == SEQUENCE_END:
                return
            if (group, number) != ITEM:
                raise _CutOffError
            if length != UNDEFINED:
                self._skip(length)
                continue
            while self.element(depth + 1) != ITEM_END:
                pass
