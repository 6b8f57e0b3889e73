"""Reading images out of exports: video files, DICOM, folders of frames, zips of frames.

A source knows its frames and where decoding can start; a cursor decodes them. Cursors are independent of each other,
so several threads can read one exam. Damage never stops a cursor: what cannot be decoded is left out, and whoever
reads sees it by the missing ordinal. Storage that fails does stop it (`watched.py`).
"""

from __future__ import annotations

from pathlib import Path

from dice_ce.errors import ExamError
from dice_ce.exam.dicom.detect import is_dicom, is_dicom_folder
from dice_ce.exam.dicom.naming import name_of_dicom
from dice_ce.exam.dicom.source import index_dicom
from dice_ce.exam.folders import exams_of_folder, is_only_dicom, look_into, name_some
from dice_ce.exam.images import index_folder, index_zip
from dice_ce.exam.source import SMALLEST_SIDE, Cursor, Source, check_size
from dice_ce.exam.video import index_video
from dice_ce.exam.watched import unreadable

__all__ = [
    "SMALLEST_SIDE",
    "Cursor",
    "Source",
    "check_size",
    "exams_of_folder",
    "is_dicom_input",
    "name_of_dicom",
    "name_some",
    "open_source",
]


def is_dicom_input(path: Path) -> bool:
    """Whether an input is read as DICOM: a file, a DICOMDIR, or a folder of DICOM files and nothing else to read."""
    if not path.is_dir():
        return path.is_file() and is_dicom(path)
    try:
        return is_dicom_folder(path) and is_only_dicom(path, look_into(path))
    except (ExamError, OSError):
        return False  # opening it says what is wrong


def open_source(path: Path) -> Source:
    """Find out what kind of export this is and count its frames."""
    try:
        if is_dicom_input(path):
            return index_dicom(path)
        if path.is_dir():
            content = look_into(path)
            if content.exams and not content.images:
                names = name_some([exam.name for exam in content.exams])
                raise ExamError(f"{path}: is a folder of {len(content.exams)} exams ({names}); give one of them")
            return index_folder(path)
        if not path.exists():
            raise ExamError(f"{path}: no such file or folder; check the path")
        with path.open("rb") as file:
            magic = file.read(4)
        if not magic:
            raise ExamError(f"{path}: the file is empty (0 bytes); copy or export it again")
        if magic == b"PK\x03\x04" or path.suffix.lower() == ".zip":
            return index_zip(path)
        return index_video(path)
    except OSError as error:
        raise unreadable(path, error) from error
