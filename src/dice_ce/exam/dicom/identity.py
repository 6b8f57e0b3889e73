"""Who the patient is and which study this is: read only when asked for, and kept apart from everything else."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dice_ce.errors import InputError, require
from dice_ce.exam.dicom.detect import DIRECTORY, is_dicom, is_dicom_folder
from dice_ce.exam.dicom.objects import read_object, reading
from dice_ce.exam.dicom.pixels import may_be_exam
from dice_ce.exam.dicom.source import dicom_objects, index_dicom

LONGEST = {"patient_id": 64, "patient_name": 192, "study_uid": 64, "accession_number": 16, "study_id": 16}
"""Characters that DICOM allows; 64 for the others, and any number for what only FHIR uses."""
ONLY_FHIR = ("patient_id_system", "accession_system")


class Instance(NamedTuple):
    """A DICOM object that holds frames of the exam."""

    sop_class: str
    sop_instance: str
    series: str
    frames: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Identity:
    """A patient and a study, as far as known; empty means unknown."""

    patient_id: str = ""
    patient_id_system: str = ""
    """URI of whoever gives out these ids, for FHIR."""
    patient_name: str = ""
    """As DICOM writes it: Family^Given."""
    birth_date: str = ""
    """YYYYMMDD, like all dates here."""
    sex: str = ""
    study_uid: str = ""
    study_id: str = ""
    study_date: str = ""
    study_time: str = ""
    accession_number: str = ""
    accession_system: str = ""
    referring_physician: str = ""
    study_description: str = ""
    instances: tuple[Instance, ...] = ()
    """The objects of the exam in the order of their frames, where the exam is DICOM."""
    exam_digest: str = ""
    """Content of the exam that those objects are."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                _check(field.name, value)

    def without_frames(self) -> Identity:
        """Keep patient and study only."""
        return dataclasses.replace(self, instances=(), exam_digest="")

    def place_of(self, frame: int) -> tuple[Instance, int] | None:
        """Return the object that holds a frame of the exam, and its number in there, counted from 1."""
        for instance in self.instances:
            if frame < instance.frames:
                return instance, frame + 1
            frame -= instance.frames
        return None


def _check(name: str, value: str) -> None:
    longest = len(value) if name in ONLY_FHIR else LONGEST.get(name, 64)
    if len(value) > longest or re.search(r"[\x00-\x1f\x7f\\]", value):
        raise InputError(f"identity: {name} must be one line of at most {longest} characters without backslash")
    if name.endswith("_date") and not re.fullmatch(r"(\d{8})?", value):
        raise InputError(f"identity: {name} '{value}' is not a date such as 19700131")
    if name == "study_time" and not re.fullmatch(r"(\d{2}(\d{2}(\d{2}(\.\d{1,6})?)?)?)?", value):
        raise InputError(f"identity: study_time '{value}' is not a time such as 084500")
    if name == "study_uid" and value and not re.fullmatch(r"\d+(\.\d+)+", value):
        raise InputError(f"identity: study_uid '{value}' is not a DICOM UID such as 1.2.840.1234.5")
    if name == "sex" and value not in ("", "M", "F", "O"):
        raise InputError(f"identity: sex '{value}' is none of M, F, O")


def read_identity(path: Path) -> Identity:
    """Read patient and study from any DICOM object of the study, from the exam itself, or from a JSON file."""
    try:
        if (path.is_dir() and is_dicom_folder(path)) or (path.is_file() and is_dicom(path)):
            return _of_dicom(path)
        return _of_json(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def _of_json(path: Path) -> Identity:
    known = {field.name for field in dataclasses.fields(Identity)} - {"instances", "exam_digest"}
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: neither DICOM nor JSON; give a DICOM object of the study, or a JSON file") from error
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InputError(f'{path}: must be one JSON object of texts, such as {{"patient_id": "4711"}}')
    if unknown := sorted(given.keys() - known):
        raise InputError(f"{path}: unknown field '{unknown[0]}'; known are {', '.join(sorted(known))}")
    for name in ("birth_date", "study_date"):
        given[name] = re.sub(r"^(\d{4})-(\d\d)-(\d\d)$", r"\1\2\3", given.get(name, ""))
    return Identity(**given)


_ATTRIBUTES = {
    "patient_id": "PatientID",
    "patient_name": "PatientName",
    "birth_date": "PatientBirthDate",
    "sex": "PatientSex",
    "study_uid": "StudyInstanceUID",
    "study_id": "StudyID",
    "study_date": "StudyDate",
    "study_time": "StudyTime",
    "accession_number": "AccessionNumber",
    "referring_physician": "ReferringPhysicianName",
    "study_description": "StudyDescription",
}


def _of_dicom(path: Path) -> Identity:
    pydicom = require("pydicom", extra="hospital", purpose="reading DICOM")
    alone = read_object(path) if path.is_file() and path.name != DIRECTORY else None
    objects = dicom_objects(path)[0] if alone is None else [alone]
    with reading(path):
        tags = [*_ATTRIBUTES.values(), "SpecificCharacterSet"]
        header = pydicom.dcmread(objects[0].path, stop_before_pixels=True, specific_tags=tags)
        found = {name: _tidy(name, str(header.get(tag) or "")) for name, tag in _ATTRIBUTES.items()}
    if not found["study_uid"]:
        raise InputError(f"{path}: the DICOM object lacks Study Instance UID; give another object of the study")
    if alone is not None and not may_be_exam(alone):
        return Identity(**found, instances=())  # a document, or another kind of image
    source = index_dicom(path)
    is_whole = len(objects) == 1
    instances = tuple(
        Instance(
            sop_class=str(one.header.get("SOPClassUID", "")),
            sop_instance=str(one.header.get("SOPInstanceUID", "")),
            series=str(one.header.get("SeriesInstanceUID", "")),
            frames=len(source.frames) if is_whole else 1,
            rows=_whole(one.header.get("Rows")),
            columns=_whole(one.header.get("Columns")),
        )
        for one in objects
    )
    return Identity(**found, instances=instances, exam_digest=source.digest())


def _tidy(name: str, value: str) -> str:
    """Write old dates and times as they are written today; leave out what is neither, or no sex that DICOM knows."""
    value = value.strip()
    if name.endswith(("_date", "_time")):
        value = re.sub(r"[-:]|\.(?=\d\d\.|\d\d$)" if name.endswith("_date") else r":", "", value)
    try:
        _check(name, value)
    except InputError:
        if name in ("birth_date", "study_date", "study_time", "sex"):
            return ""
        raise
    return value


def _whole(value: Any) -> int:
    return int(value) if value not in (None, "") else 0
