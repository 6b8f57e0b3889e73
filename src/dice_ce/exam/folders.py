"""Folders that people give: one exam as images, or several exams, each a video, a zip or a folder of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dice_ce.errors import ExamError, UsageError
from dice_ce.exam.dicom.detect import has_directory, is_dicom_folder
from dice_ce.exam.images import is_frame_name, natural_order
from dice_ce.exam.watched import unreadable

# fmt: off
VIDEO_SUFFIXES = (
    ".3gp", ".264", ".265", ".asf", ".avi", ".divx", ".flv", ".h264", ".h265", ".hevc", ".m2ts", ".m2v", ".m4v", ".mj2",
    ".mjpeg", ".mjpg", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".ogv", ".ts", ".vob", ".webm", ".wmv",
)
# fmt: on
"""Only for finding exams in a folder; a file that is given by its name is read whatever it is called."""
MOST_NAMED = 5


class Content(NamedTuple):
    """What is directly in a folder, in natural order; hidden files and clock files are left out."""

    exams: tuple[Path, ...]
    images: tuple[str, ...]
    others: tuple[str, ...]


def look_into(folder: Path) -> Content:
    """Sort what is in a folder by what it is, as far as names tell."""
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: natural_order(entry.name))
    except OSError as error:
        raise unreadable(folder, error) from error
    shown = [entry for entry in entries if not entry.name.startswith(".") and not entry.name.endswith(".clock.csv")]
    images = tuple(entry.name for entry in shown if is_frame_name(entry.name))
    rest = {entry: _is_exam(entry) for entry in shown if not is_frame_name(entry.name)}
    exams = tuple(entry for entry, is_exam in rest.items() if is_exam)
    return Content(exams, images, tuple(entry.name for entry, is_exam in rest.items() if not is_exam))


def _is_exam(entry: Path) -> bool:
    """Whether an entry of a folder is an exam by its name, or a folder with images directly in it."""
    if not entry.is_dir():
        return entry.name.lower().endswith((*VIDEO_SUFFIXES, ".zip"))
    try:
        return any(is_frame_name(inner.name) for inner in entry.iterdir()) or is_dicom_folder(entry)
    except OSError:
        return True  # opening it says what is wrong, without stopping the other exams


def exams_of_folder(folder: Path) -> Content | None:
    """Look into a folder that stands for its exams; None if it is one exam of images, or no exam at all."""
    try:
        content = look_into(folder) if folder.is_dir() else None
    except ExamError:
        return None  # opening it says what is wrong, without stopping the other inputs
    if content is not None and is_dicom_folder(folder) and is_only_dicom(folder, content):
        return _dicom_exams(folder)
    if content is None or not content.exams:
        return None
    if content.images:
        exams = name_some([exam.name for exam in content.exams])
        raise UsageError(
            f"{folder}: holds images ({name_some(content.images)}) as well as exams ({exams}); "
            "name the exams that you mean, or put the images into a folder of their own"
        )
    return content


def is_only_dicom(folder: Path, content: Content) -> bool:
    """Whether there are neither images nor exams beside DICOM files; a DICOMDIR speaks for all that is below it."""
    return has_directory(folder) or not (content.images or content.exams)


def _dicom_exams(folder: Path) -> Content | None:
    """Take several video or multi-frame objects in a folder for several exams; a series is one."""
    from dice_ce.exam.dicom.source import whole_exams

    try:
        exams = whole_exams(folder)
    except ExamError:
        return None  # opening it says what is wrong
    return Content(tuple(exams), (), ()) if len(exams) > 1 else None


def name_some(names: Sequence[str]) -> str:
    """Name a few, and count the others."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
