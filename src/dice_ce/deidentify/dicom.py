"""DICOM files by the Basic Application Level Confidentiality Profile (PS3.15 annex E) with the Clean Pixel Data option.

What to do with each attribute comes from table E.1-1 (2024b) as dicom-anonymizer carries it. That package applies it to
the outermost level only; here every level of every sequence is treated. At the end the result is searched for what the
original called the patient.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dice_ce.errors import ExamError, require
from dice_ce.exam.dicom.naming import words_of
from dice_ce.exam.dicom.objects import read_object, reading
from dice_ce.exam.dicom.whole import check_whole
from dice_ce.exam.ocr import EXTRA

PURPOSE = "de-identifying DICOM"
TABLE = "2024b"
PROFILE = ("113100", "Basic Application Confidentiality Profile")
CLEAN_PIXELS = ("113101", "Clean Pixel Data Option")
MODIFIED_DATES = ("113107", "Retain Longitudinal Temporal Information Modified Dates Option")
"""Codes of PS3.16, context group 7050."""
METHOD = ("PS3.15 E basic profile by dice-ce", "pixels outside the field of view and text in it blacked")
VIDEO_SYNTAXES = ("1.2.840.10008.1.2.4.10",)
"""Beginnings of the transfer syntaxes of MPEG-2, MPEG-4 and HEVC."""
H264 = "1.2.840.10008.1.2.4.102"
"""MPEG-4 AVC/H.264 High Profile / Level 4.1, as what is written again."""
DRAWINGS = (0x5000, 0x6000)
"""First groups of curves and overlays."""
IDENTITY = (
    "PatientName",
    "PatientID",
    "OtherPatientIDs",
    "AccessionNumber",
    "PatientAddress",
    "PatientTelephoneNumbers",
)


@dataclass(frozen=True)
class Attributes:
    """What happened to the attributes of a file, by their names."""

    removed: tuple[str, ...]
    replaced: tuple[str, ...]
    shifted: tuple[str, ...]


def read_dicom(path: Path) -> Any:
    """Read a DICOM file, or say in one line what is wrong with it."""
    pydicom: Any = require("pydicom", extra=EXTRA, purpose=PURPOSE)
    read_object(path)  # refuses what is cut off, or whose pixels are not as its attributes say
    with reading(path):
        dataset = pydicom.dcmread(path)
        for _ in dataset.iterall():  # values are read when they are first looked at
            pass
        syntax = dataset.file_meta.TransferSyntaxUID
        check_whole(path, is_explicit=not syntax.is_implicit_VR, is_little_endian=syntax.is_little_endian)
    if missing := [name for name in ("SOPClassUID", "SOPInstanceUID") if not dataset.get(name)]:
        raise ExamError(f"{path}: the DICOM object lacks {', '.join(missing)}; export it again")
    return dataset


def clean_attributes(dataset: Any, *, shift_days: int | None = None) -> Attributes:
    """Apply the profile to a dataset in place; dates are moved by some days instead of removed, if asked."""
    module: Any = require("dicomanonymizer.simpledicomanonymizer", extra=EXTRA, purpose=PURPOSE)
    before = {element.name: _text(element) for element in dataset.iterall()}
    whose = _identity(dataset)
    shifted = _shift_dates(dataset, shift_days) if shift_days is not None else set()
    actions = module.initialize_actions_2024b()
    for level in [dataset, *_levels(dataset)]:
        for tag, action in actions.items():
            _apply(module, level, tag, action, shifted)
        level.remove_private_tags()
        _remove_drawings(level)
    _clean_header(dataset, module)
    _state_method(dataset, is_shifted=shift_days is not None)
    _search(dataset, whose)
    after = {element.name: _text(element) for element in dataset.iterall()}
    return Attributes(
        removed=tuple(sorted(name for name in before if name not in after)),
        replaced=tuple(sorted(name for name in before if name in after and before[name] != after[name])),
        shifted=tuple(sorted(shifted)),
    )


def _levels(dataset: Any) -> Iterator[Any]:
    """Yield the datasets inside the sequences of a dataset, at all depths."""
    for element in list(dataset):
        if element.VR == "SQ":
            for item in element.value:
                yield item
                yield from _levels(item)


def _remove_drawings(level: Any) -> None:
    """Remove what is left of overlays and curves, whose content is gone: half of one is no valid object."""
    for element in list(level):
        if element.tag.group & 0xFF00 in DRAWINGS:
            del level[element.tag]


def _apply(module: Any, level: Any, tag: tuple[int, ...], action: Any, shifted: set[str]) -> None:
    if len(tag) > 2:  # a repeating group: (group, element, mask, mask)
        for element in list(level):
            if element.tag.group & tag[2] == tag[0] & tag[2] and element.tag.element & tag[3] == tag[1] & tag[3]:
                action(level, (element.tag.group, element.tag.element))
        return
    if tag[0] == 0x0002:
        return
    element = level.get(tag)
    if element is None or element.name in shifted:
        return
    if element.VR == "SQ" and action is module.delete_or_empty_or_replace_UID:
        return  # its items are treated one by one, so that references and moved dates stay right
    if action is module.delete:  # which would keep dates, as 00010101
        del level[tag]
        return
    try:
        action(level, tag)
    except NotImplementedError:  # a kind of value for which the package has no dummy
        del level[tag]


def _shift_dates(dataset: Any, days: int) -> set[str]:
    """Move all dates but that of birth, at all levels, and return their names; those that are none are emptied."""
    done: set[str] = set()
    for level in [dataset, *_levels(dataset)]:
        for element in list(level):
            if element.keyword == "PatientBirthDate" or element.VR not in ("DA", "DT", "TM"):
                continue
            done.add(element.name)
            if element.VR != "TM" and element.value:
                text = str(element.value)
                try:
                    moved = datetime.datetime.strptime(text[:8], "%Y%m%d") + datetime.timedelta(days)
                    element.value = moved.strftime("%Y%m%d") + text[8:]
                except (ValueError, OverflowError):
                    element.value = ""
    return done


def _clean_header(dataset: Any, module: Any) -> None:
    """Renew what stands before the dataset: uids, names of programs and machines, the preamble."""
    meta = dataset.file_meta
    for name in [element.keyword for element in meta]:
        if name not in ("FileMetaInformationVersion", "MediaStorageSOPClassUID", "TransferSyntaxUID"):
            delattr(meta, name)
    meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    dataset.preamble = b"\0" * 128


def _state_method(dataset: Any, *, is_shifted: bool) -> None:
    pydicom: Any = require("pydicom", extra=EXTRA, purpose=PURPOSE)
    dataset.PatientIdentityRemoved = "YES"
    dataset.DeidentificationMethod = list(METHOD)
    codes = []
    for value, meaning in (PROFILE, CLEAN_PIXELS, *((MODIFIED_DATES,) if is_shifted else ())):
        code = pydicom.Dataset()
        code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, "DCM", meaning
        codes.append(code)
    dataset.DeidentificationMethodCodeSequence = pydicom.Sequence(codes)
    dataset.LongitudinalTemporalInformationModified = "MODIFIED" if is_shifted else "REMOVED"
    if "PixelData" in dataset:
        dataset.BurnedInAnnotation = "NO"


def _text(element: Any) -> str:
    return "" if element.VR in ("OB", "OW", "SQ", "UN") else str(element.value)


def _identity(dataset: Any) -> set[str]:
    """Collect the words by which the original calls the patient."""
    words: set[str] = set()
    for level in [dataset, *_levels(dataset)]:
        for keyword in IDENTITY:
            if keyword in level and level[keyword].value:
                words |= words_of(str(level[keyword].value))
    return words


def _search(dataset: Any, whose: set[str]) -> None:
    """Remove what still says whose it is, in attributes that the table leaves alone."""
    for level in [dataset, *_levels(dataset)]:
        for element in list(level):
            if element.VR in ("UI", "CS", "OB", "OW", "SQ", "UN"):
                continue
            if words_of(str(element.value)) & whose:
                del level[element.tag]
