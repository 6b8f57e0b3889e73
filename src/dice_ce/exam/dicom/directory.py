"""DICOMDIR: which files of a medium are images."""

from __future__ import annotations

from pathlib import Path

from dice_ce.errors import ExamError, require
from dice_ce.exam.dicom.objects import reading

IMAGE_RECORDS = ("IMAGE",)


def listed_files(directory: Path) -> list[Path]:
    """Return the files that the directory lists as images; all of them must be there, and below its folder."""
    pydicom = require("pydicom", extra="hospital", purpose="reading DICOM")
    tags = ["DirectoryRecordSequence"]
    with reading(directory):
        records = pydicom.dcmread(directory, specific_tags=tags).get("DirectoryRecordSequence") or ()
        parts = [
            [str(part) for part in ([named] if isinstance(named, str) else named)]
            for record in records
            if record.get("DirectoryRecordType") in IMAGE_RECORDS and (named := record.get("ReferencedFileID"))
        ]
    if not parts:
        raise ExamError(f"{directory}: lists no images; give the folder or file of the exam")
    files = [_find(directory.parent, names) for names in parts]
    missing = [names for file, names in zip(files, parts, strict=True) if file is None]
    if missing:
        raise ExamError(
            f"{directory}: {len(missing)} of {len(parts)} listed files are missing ({'/'.join(missing[0])}); "
            "copy the whole medium"
        )
    return [file for file in files if file is not None]


def _find(folder: Path, names: list[str]) -> Path | None:
    """Look for a file as written, or in lower case as some systems mount discs; never outside the folder."""
    for spelled in (names, [name.lower() for name in names]):
        path = folder.joinpath(*spelled)
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            return path
    return None
