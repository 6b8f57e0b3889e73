"""Bytes of one frame -> RGB, with pydicom's decoders; lossless JPEG with FFmpeg's, since pydicom's is under the GPL."""

from __future__ import annotations

from typing import Any

import av
import numpy as np

from dice_ce.errors import ExamError
from dice_ce.exam.dicom.objects import DicomObject
from dice_ce.exam.source import check_size
from dice_ce.types import Image

LOSSLESS_JPEG = ("1.2.840.10008.1.2.4.57", "1.2.840.10008.1.2.4.70")
COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT", "PALETTE COLOR")


def may_be_exam(one: DicomObject) -> bool:
    """Whether an object holds a video or colour images, rather than a document or a radiograph."""
    return one.is_video or (bool(one.spans) and one.header.get("PhotometricInterpretation") in COLOURS)


def check_decodable(one: DicomObject) -> None:
    """Refuse, before any work, what is no colour image or is compressed in a way that nothing here decodes."""
    from pydicom.pixels import get_decoder
    from pydicom.uid import UID

    header, path = one.header, one.path
    kind = str(header.get("PhotometricInterpretation", ""))
    if kind not in COLOURS:
        raise ExamError(f"{path}: the images are {kind or 'of no stated colour'}; a capsule exam is in colour")
    if int(header.BitsAllocated) != 8:
        raise ExamError(f"{path}: {header.BitsAllocated} bits per sample; 8 are read: export it again with 8 bits")
    check_size(path, int(header.Columns), int(header.Rows))
    try:
        is_known = one.syntax in LOSSLESS_JPEG or get_decoder(UID(one.syntax)).is_available
    except NotImplementedError:
        is_known = False
    if not is_known:
        raise ExamError(
            f"{path}: the transfer syntax {UID(one.syntax).name} is not read; "
            "have it exported as JPEG, RLE, uncompressed or MPEG-4 (H.264)"
        )


def decode_frame(one: DicomObject, content: bytes) -> Image | None:
    """Decode one frame to RGB; None if it is damaged."""
    try:
        return _lossless_jpeg(content) if one.syntax in LOSSLESS_JPEG else _by_pydicom(one, content)
    except Exception:  # decoders that are fed noise raise nearly anything
        return None


def _by_pydicom(one: DicomObject, content: bytes) -> Image:
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.pixels import apply_color_lut, pixel_array
    from pydicom.uid import UID

    syntax = UID(one.syntax)
    single = Dataset()
    for element in one.header:
        if element.tag.group == 0x0028:
            single.add(element)
    single.NumberOfFrames = 1
    single.PixelData = encapsulate([content]) if syntax.is_compressed else content + b"\0" * (len(content) % 2)
    single["PixelData"].VR = "OB"
    single.file_meta = FileMetaDataset()
    single.file_meta.TransferSyntaxUID = syntax
    single.set_original_encoding(syntax.is_implicit_VR, syntax.is_little_endian)
    pixels: Any = pixel_array(single)
    if single.PhotometricInterpretation == "PALETTE COLOR":
        table = apply_color_lut(pixels, single)
        pixels = (table >> 8 if table.dtype == np.uint16 else table).astype(np.uint8)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"{pixels.dtype} pixels of shape {pixels.shape}")
    return np.ascontiguousarray(pixels)


def _lossless_jpeg(content: bytes) -> Image | None:
    decoder = av.CodecContext.create("mjpeg", "r")
    decoder.thread_count = 1
    frames = decoder.decode(av.Packet(content))
    return frames[0].to_ndarray(format="rgb24") if frames else None  # type: ignore[return-value]
