"""Names of DICOM exams: those of their files, unless these say whose exam it is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from dice_ce.errors import DiceError
from dice_ce.exam.dicom.detect import DIRECTORY, SUFFIXES, UID, is_dicom
from dice_ce.exam.dicom.objects import reading

WHOSE = (
    "PatientName",
    "PatientID",
    "OtherPatientIDs",
    "PatientBirthDate",
    "AccessionNumber",
    "StudyID",
    "StudyDate",
    "ReferringPhysicianName",
)
"""Read to be compared with the name, and forgotten."""


def words_of(text: str) -> set[str]:
    """Split into words and numbers by which a patient can be known; shorter ones stand anywhere."""
    return {word for word in re.split(r"[\W_]+", text.casefold()) if len(word) > 2}


def name_of_dicom(path: Path) -> str:
    """Name an exam after its file or folder; a name that leads to the patient is replaced by a hash of it."""
    if path.name == DIRECTORY:
        path = path.parent
    name = path.name[: -len(path.suffix)] if path.name.lower().endswith(SUFFIXES) else path.name
    is_hidden = UID.search(name) or words_of(name) & _words_of_identity(path)
    return f"dicom-{hashlib.sha256(name.encode()).hexdigest()[:12]}" if is_hidden else name


def _words_of_identity(path: Path) -> set[str]:
    """Collect the words by which a file, a DICOMDIR or the first file of a folder calls its patients and studies."""
    try:
        import pydicom

        with reading(path):
            file = path if path.is_file() else _first_file(path)
            tags = [*WHOSE, "SpecificCharacterSet", "DirectoryRecordSequence"]
            header = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=tags)
            values = [str(element.value) for element in header.iterall() if element.keyword in WHOSE]
    except (ImportError, DiceError, OSError):  # opening the exam says what is wrong
        return set()
    return words_of(" ".join(values))


def _first_file(folder: Path) -> Path:
    if (folder / DIRECTORY).is_file():
        return folder / DIRECTORY
    return next(file for file in sorted(folder.iterdir()) if file.is_file() and is_dicom(file))
