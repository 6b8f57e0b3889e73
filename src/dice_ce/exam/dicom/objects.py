"""One DICOM file: what kind of object it is, and where in the file the bytes of every frame are.

Pixels stay in the file until they are asked for, so that a video object of gigabytes costs no memory.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from dice_ce.errors import DiceError, ExamError, require
from dice_ce.exam.watched import Stamp, open_watched, stamp_of

# fmt: off
NEEDED = (
    "SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID", "InstanceNumber", "NumberOfFrames",
    "Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "BitsAllocated", "BitsStored", "HighBit",
    "PixelRepresentation", "PlanarConfiguration",
    "RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor",
    "BluePaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData", "GreenPaletteColorLookupTableData",
    "BluePaletteColorLookupTableData",
    "FrameTime", "FrameTimeVector", "CineRate", "ActualFrameDuration", "EffectiveDuration",
    "AcquisitionDateTime", "AcquisitionDate", "AcquisitionTime", "ContentDate", "ContentTime",
    "PerFrameFunctionalGroupsSequence", "ExtendedOffsetTable", "ExtendedOffsetTableLengths",
)
# fmt: on
"""All that is read of an object. Nothing in it says who the patient is."""
PIXEL_MODULE = (
    "Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "BitsAllocated", "BitsStored",
    "PixelRepresentation",
)  # fmt: skip
VIDEO_SYNTAXES = {
    "1.2.840.10008.1.2.4.100": "MPEG-2 main level",
    "1.2.840.10008.1.2.4.100.1": "MPEG-2 main level, fragmentable",
    "1.2.840.10008.1.2.4.101": "MPEG-2 high level",
    "1.2.840.10008.1.2.4.101.1": "MPEG-2 high level, fragmentable",
    "1.2.840.10008.1.2.4.102": "H.264 level 4.1",
    "1.2.840.10008.1.2.4.102.1": "H.264 level 4.1, fragmentable",
    "1.2.840.10008.1.2.4.103": "H.264 level 4.1, BD-compatible",
    "1.2.840.10008.1.2.4.103.1": "H.264 level 4.1, BD-compatible, fragmentable",
    "1.2.840.10008.1.2.4.104": "H.264 level 4.2 for 2D video",
    "1.2.840.10008.1.2.4.104.1": "H.264 level 4.2 for 2D video, fragmentable",
    "1.2.840.10008.1.2.4.105": "H.264 level 4.2 for 3D video",
    "1.2.840.10008.1.2.4.105.1": "H.264 level 4.2 for 3D video, fragmentable",
    "1.2.840.10008.1.2.4.106": "H.264 stereo level 4.2",
    "1.2.840.10008.1.2.4.106.1": "H.264 stereo level 4.2, fragmentable",
    "1.2.840.10008.1.2.4.107": "HEVC main profile",
    "1.2.840.10008.1.2.4.108": "HEVC main 10 profile",
}
NO_CLASS = "object without a SOP class"
DEFLATED = "1.2.840.10008.1.2.1.99"
ITEM, END_OF_ITEMS = (0xFFFE, 0xE000), (0xFFFE, 0xE0DD)
UNDEFINED = 0xFFFFFFFF
LONGEST_FRAME = 2**30
"""Bytes; a longer frame is damage, or made to exhaust the memory."""


class Span(NamedTuple):
    """A stretch of a file."""

    offset: int
    length: int


@dataclass(frozen=True, eq=False)
class DicomObject:
    """One file."""

    path: Path
    header: Any
    """pydicom's Dataset of the attributes in NEEDED."""
    syntax: str
    """Transfer syntax UID."""
    spans: tuple[tuple[Span, ...], ...]
    """Where each frame, or the whole stream of a video, lies in the file; empty for objects without images."""
    stamp: Stamp | None
    """When it was read; None for a copy."""

    @property
    def is_video(self) -> bool:
        """Whether the frames are inside one compressed stream."""
        return self.syntax in VIDEO_SYNTAXES

    @property
    def kind(self) -> str:
        """Name of the SOP class."""
        from pydicom.uid import UID

        uid = str(self.header.get("SOPClassUID", ""))
        return str(UID(uid).name) if uid else NO_CLASS

    def has(self, *names: str) -> bool:
        """Whether these attributes are there and have values."""
        return all(self.header.get(name) not in (None, "") for name in names)


def read_object(path: Path) -> DicomObject:
    """Read what is needed of a file and find its pixels; one line says what is wrong with it."""
    pydicom = require("pydicom", extra="hospital", purpose="reading DICOM")
    stamp = stamp_of(path)
    with open_watched(path, stamp) as file, reading(path):
        header = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=list(NEEDED))
        at = file.tell()
        for _ in header.iterall():  # values are read when they are asked for, and damage shows only then
            pass
        syntax = str(header.file_meta.get("TransferSyntaxUID", ""))
        size = file.seek(0, 2)
        file.seek(at)
        if not syntax:
            raise ExamError(f"{path}: the DICOM file names no transfer syntax; export it again")
        if at >= size:
            document = DicomObject(path, header, syntax, (), stamp)
            if document.kind == NO_CLASS or "Image Storage" in document.kind:
                raise ExamError(f"{path}: the DICOM file ends before its pixels; copy or fetch it again")
            return document
        if syntax == DEFLATED:
            raise ExamError(f"{path}: deflated DICOM is not read; convert it with: dcmconv +te")
        count = _frame_count(path, header)
        place, is_encapsulated = _pixel_data(file, path, syntax)
        if is_encapsulated:
            table, fragments = _fragments(file, path, size)
            spans = (fragments,) if syntax in VIDEO_SYNTAXES else _by_frame(path, header, table, fragments, count)
        else:
            spans = _native(path, header, place, count, size)
    return DicomObject(path, header, syntax, spans, stamp)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever the parser makes of a damaged file into one line."""
    from pydicom.errors import InvalidDicomError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about values that break the standard; what matters is checked here
            yield
    except (DiceError, OSError):
        raise
    except InvalidDicomError as error:
        raise ExamError(
            f"{path}: has no DICOM header; convert it with dcmtk's dcmconv, or export it again as DICOM Part 10"
        ) from error
    except Exception as error:  # a parser that is fed noise raises nearly anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ExamError(f"{path}: damaged or incomplete DICOM ({reason}); copy or fetch it again") from error


def _frame_count(path: Path, header: Any) -> int:
    try:
        count = int(header.get("NumberOfFrames") or 1)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ExamError(f"{path}: Number of Frames is '{header.get('NumberOfFrames')}'; export it again")
    return count


def _pixel_data(file: IO[bytes], path: Path, syntax: str) -> tuple[Span, bool]:
    """Read the head of the Pixel Data element, at which the parser has stopped."""
    from pydicom.uid import UID

    uid = UID(syntax)
    order = "<" if uid.is_private or uid.is_little_endian else ">"
    is_explicit = uid.is_private or not uid.is_implicit_VR
    head = file.read(12 if is_explicit else 8)
    if len(head) < (12 if is_explicit else 8):
        raise ExamError(f"{path}: the DICOM file ends before its pixels; copy or fetch it again")
    (length,) = struct.unpack(f"{order}I", head[-4:])
    return Span(file.tell(), length), length == UNDEFINED


def _native(path: Path, header: Any, place: Span, count: int, size: int) -> tuple[tuple[Span, ...], ...]:
    _need_pixel_module(path, header)
    samples = 2 if header.PhotometricInterpretation == "YBR_FULL_422" else int(header.SamplesPerPixel)
    length = int(header.Rows) * int(header.Columns) * samples * (int(header.BitsAllocated) // 8)
    there = min(place.length, size - place.offset)
    if not 0 < length <= LONGEST_FRAME or there < length * count:
        held = there // length if length > 0 else 0
        raise ExamError(f"{path}: truncated: holds {held} of {count} frames; copy or fetch it again")
    if not header.get("NumberOfFrames") and there >= 2 * length:
        raise ExamError(f"{path}: holds {there // length} frames and lacks NumberOfFrames; export it again")
    return tuple((Span(place.offset + i * length, length),) for i in range(count))


def _need_pixel_module(path: Path, header: Any) -> None:
    needed = (*PIXEL_MODULE, *(("PlanarConfiguration",) if header.get("SamplesPerPixel") == 3 else ()))
    missing = [name for name in needed if header.get(name) in (None, "")]
    if missing:
        raise ExamError(f"{path}: the DICOM object lacks {', '.join(missing)}; export it again")


def _fragments(file: IO[bytes], path: Path, size: int) -> tuple[bytes, tuple[Span, ...]]:
    """Walk over the items of encapsulated pixels: the offset table, and where every fragment is."""
    table: bytes | None = None
    found = []
    while True:
        head = file.read(8)
        if len(head) < 8:
            raise ExamError(f"{path}: truncated: the DICOM file ends within its pixels; copy or fetch it again")
        group, element, length = struct.unpack("<HHI", head)
        if (group, element) == END_OF_ITEMS:
            break
        at = file.tell()
        if (group, element) != ITEM or at + length > size:
            raise ExamError(f"{path}: truncated or damaged within its pixels; copy or fetch it again")
        if table is None:
            table = file.read(length)
        else:
            found.append(Span(at, length))
            file.seek(length, 1)
    if not found:
        raise ExamError(f"{path}: the DICOM object has no pixels; export it again")
    return table or b"", tuple(found)


def _by_frame(
    path: Path, header: Any, table: bytes, fragments: tuple[Span, ...], count: int
) -> tuple[tuple[Span, ...], ...]:
    """Give every frame its fragments: one each, or by the offset table."""
    _need_pixel_module(path, header)
    if count == 1:
        return (fragments,)
    if len(fragments) == count:
        return tuple((span,) for span in fragments)
    extended = header.get("ExtendedOffsetTable")
    offsets = struct.unpack(f"<{len(extended) // 8}Q", extended) if extended else ()
    offsets = offsets or struct.unpack(f"<{len(table) // 4}I", table[: len(table) // 4 * 4])
    begin = fragments[0].offset - 8  # offsets count from the head of the first fragment
    frame_of = {offset + begin + 8: number for number, offset in enumerate(offsets)}
    if len(frame_of) != count or not frame_of.keys() <= {span.offset for span in fragments}:
        syntax = header.file_meta.TransferSyntaxUID.name
        raise ExamError(
            f"{path}: {len(fragments)} fragments of pixels for {count} frames and no table that says which is whose: "
            f"its transfer syntax ({syntax}) is wrong, or it is incomplete; export it again"
        )
    frames: list[list[Span]] = []
    for span in fragments:
        if span.offset in frame_of:
            frames.append([])
        frames[-1].append(span)
    return tuple(map(tuple, frames))
