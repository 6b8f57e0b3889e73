"""Telling DICOM from other files, without any package."""

from __future__ import annotations

import re
from pathlib import Path

DIRECTORY = "DICOMDIR"
SUFFIXES = (".dcm", ".dicom", ".dic", ".ima")
MAGIC, MAGIC_AT = b"DICM", 128
UID = re.compile(r"[0-2](\.(0|[1-9]\d*)){4,}")
MOST_LOOKED_AT = 20
"""Files of a folder that are opened to see whether it is a DICOM series."""


def is_dicom(path: Path) -> bool:
    """Whether a file is DICOM, by its content or, for files without a preamble, by its ending."""
    try:
        with path.open("rb") as file:
            head = file.read(MAGIC_AT + len(MAGIC))
    except OSError:
        return False
    return head[MAGIC_AT:] == MAGIC or (bool(head) and path.name.lower().endswith(SUFFIXES))


def has_directory(folder: Path) -> bool:
    """Whether a folder is a medium with a DICOMDIR."""
    return (folder / DIRECTORY).is_file()


def is_dicom_folder(folder: Path) -> bool:
    """Whether a folder has a DICOMDIR, or DICOM files directly in it."""
    if has_directory(folder):
        return True
    files = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.is_file())
    return any(is_dicom(file) for file in files[:MOST_LOOKED_AT])
