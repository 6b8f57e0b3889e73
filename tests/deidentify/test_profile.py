"""The confidentiality profile, by a table of it that the program does not use: that of the package dicom-standard."""

from __future__ import annotations

import copy
import re

import pydicom
import pytest
from pydicom.datadict import dictionary_VR

from dice_ce.deidentify.dicom import clean_attributes

pytest.importorskip("dicom_validator")
from tests.dicom_standard import read_table

VALUES = {
    "AS": "044Y",
    "AT": 0x00100010,
    "DA": "20240517",
    "DS": "47.11",
    "DT": "20240517083000",
    "FD": 4.7,
    "IS": "4711",
    "OB": b"SECRET",
    "OW": b"SECRET",
    "PN": "SECRET^PERSON",
    "TM": "083000",
    "UI": "1.2.826.0.1.3680043.8.498.777",
    "US": 4711,
}
SINGLE = re.compile("[0-9a-fA-F]{8}")
NEWER = {"Source Serial Number", "Treatment Machine Name"}
"""May also be emptied by the edition that is followed (2024b)."""


def profile() -> dict[pydicom.tag.BaseTag, str]:
    """Attributes and what the basic profile does with them; not those of repeating groups and of the header."""
    rows = {row["id"]: row for row in read_table("confidentiality_profile_attributes")}
    tags = {pydicom.tag.Tag(int(name, 16)): row for name, row in rows.items() if SINGLE.fullmatch(name)}
    return {
        tag: "X or Z" if row["name"] in NEWER else row["basicProfile"]
        for tag, row in tags.items()
        if tag.group != 2 and pydicom.datadict.dictionary_has_tag(tag)
    }


def filled(tags: list[pydicom.tag.BaseTag]) -> pydicom.Dataset:
    """All attributes at once, with something to hide in each."""
    made = pydicom.Dataset()
    for tag in tags:
        kind = dictionary_VR(tag).partition(" ")[0]
        inner = pydicom.Dataset()
        inner.PatientName, inner.TextValue = VALUES["PN"], "SECRET"
        made.add_new(tag, kind, [inner] if kind == "SQ" else VALUES.get(kind, "SECRET"))
    made.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    made.file_meta = pydicom.dataset.FileMetaDataset()
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID
    made.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    return made


def test_every_attribute_of_the_profile_is_removed_or_changed() -> None:
    actions = profile()
    assert len(actions) > 400
    before = filled(list(actions))
    after = copy.deepcopy(before)
    clean_attributes(after)
    kept = [after[tag].name for tag, action in actions.items() if action == "X" and tag in after]
    same = [
        after[tag].name
        for tag in actions
        if tag in after and after[tag].VR != "SQ" and after[tag].value and after[tag].value == before[tag].value
    ]
    assert (kept, same) == ([], [])
    assert "SECRET" not in str(after)
