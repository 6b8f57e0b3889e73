"""DICOM exams made on the spot from numbered frames, with a patient in them that must never show up elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate, fragment_frame, itemize_fragment
from pydicom.fileset import FileSet
from pydicom.uid import (
    HEVCMP51,
    MPEG2MPHL,
    MPEG4HP41,
    ExplicitVRLittleEndian,
    JPEGBaseline8Bit,
    MultiFrameTrueColorSecondaryCaptureImageStorage,
    RLELossless,
    VideoEndoscopicImageStorage,
    VLEndoscopicImageStorage,
)

from dice_ce.exam.codec import encode_image
from dice_ce.types import Image
from tests.material import moving_dots, numbered, write_video

PATIENT = {
    "PatientName": "Confidential^Patient",
    "PatientID": "SECRET-4711",
    "PatientBirthDate": "19480229",
    "PatientSex": "F",
    "StudyInstanceUID": "1.2.826.0.1.3680043.8.498.777001",
    "StudyDate": "20240517",
    "StudyTime": "083000",
    "AccessionNumber": "ACC-998877",
    "StudyID": "STUDY-55",
    "ReferringPhysicianName": "Referrer^Hidden",
    "StudyDescription": "Capsule of the secret ward",
    "InstitutionName": "Hospital Nobody Knows",
}
SERIES = "1.2.826.0.1.3680043.8.498.777002"
INSTANCE = "1.2.826.0.1.3680043.8.498.777003"
SECRETS = tuple(part for value in (*PATIENT.values(), SERIES, INSTANCE) for part in value.split("^") if len(part) > 1)
"""What must be in no output, unless asked for."""
VIDEO = {
    "h264": (MPEG4HP41, "libx264", "mp4"),
    "h264-ts": (MPEG4HP41, "libx264", "ts"),
    "hevc": (HEVCMP51, "libx265", "mp4"),
    "mpeg2": (MPEG2MPHL, "mpeg2video", "m2v"),
}


def dataset(sop_class: str, syntax: str, **attributes: Any) -> Dataset:
    """An object of the patient, without pixels."""
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.SOPClassUID, one.SOPInstanceUID = sop_class, INSTANCE
    one.file_meta.MediaStorageSOPClassUID = sop_class
    one.file_meta.TransferSyntaxUID = syntax
    for name, value in {**PATIENT, "SeriesInstanceUID": SERIES, "SeriesNumber": 1, "Modality": "ES"}.items():
        setattr(one, name, value)
    one.InstanceNumber = 1
    for name, value in attributes.items():
        setattr(one, name, value)
    one.file_meta.MediaStorageSOPInstanceUID = one.SOPInstanceUID
    return one


def describe_pixels(one: Dataset, image: Image, kind: str = "RGB") -> None:
    """Fill in the image pixel module."""
    one.Rows, one.Columns = image.shape[:2]
    one.SamplesPerPixel, one.PhotometricInterpretation, one.PlanarConfiguration = 3, kind, 0
    one.BitsAllocated = one.BitsStored = 8
    one.HighBit, one.PixelRepresentation = 7, 0


def save(one: Dataset, path: Path) -> Path:
    """Write a file of DICOM Part 10."""
    path.parent.mkdir(parents=True, exist_ok=True)
    one.save_as(path, enforce_file_format=True)
    return path


def video_object(
    path: Path,
    count: int = 60,
    *,
    kind: str = "h264",
    fragments: int = 1,
    images: Iterable[Image] | None = None,
    **attributes: Any,
) -> Path:
    """A Video Endoscopic Image of numbered frames."""
    syntax, codec, ending = VIDEO[kind]
    stream = path.with_suffix(f".stream.{ending}")
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {"g": "10"}
    stream.parent.mkdir(parents=True, exist_ok=True)
    write_video(stream, images or (numbered(i) for i in range(count)), codec=codec, options=options)
    content = stream.read_bytes()
    stream.unlink()
    one = dataset(VideoEndoscopicImageStorage, syntax, **{"NumberOfFrames": count, "FrameTime": "40", **attributes})
    describe_pixels(one, numbered(0), "YBR_PARTIAL_420")
    items = [itemize_fragment(part) for part in fragment_frame(content + b"\0" * (len(content) % 2), fragments)]
    one.PixelData = itemize_fragment(b"") + b"".join(items)
    one["PixelData"].VR, one["PixelData"].is_undefined_length = "OB", True
    return save(one, path)


def multiframe_object(path: Path, count: int = 12, *, kind: str = "native", **attributes: Any) -> Path:
    """A multi-frame true colour image of numbered frames."""
    images = [numbered(i) for i in range(count)]
    syntax = {"native": ExplicitVRLittleEndian, "rle": RLELossless, "jpeg": JPEGBaseline8Bit}[kind]
    one = dataset(MultiFrameTrueColorSecondaryCaptureImageStorage, syntax, NumberOfFrames=count, **attributes)
    describe_pixels(one, images[0], "YBR_FULL_422" if kind == "jpeg" else "RGB")
    set_pixels(one, images, kind)
    return save(one, path)


def set_pixels(one: Dataset, images: Sequence[Image], kind: str) -> None:
    """Store images uncompressed, as RLE or as JPEG."""
    if kind == "jpeg":
        one.PixelData = encapsulate([encode_image(image, ".jpg") for image in images])
        one["PixelData"].VR, one["PixelData"].is_undefined_length = "OB", True
    else:
        one.PixelData = np.stack(images).tobytes()
        one["PixelData"].VR = "OB"
        if kind == "rle":
            one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
            one.compress(RLELossless, generate_instance_uid=False)


def series(folder: Path, count: int = 12, *, kind: str = "native", step: float | None = 2.0) -> Path:
    """A series of single endoscopic images, named so that names and Instance Numbers disagree."""
    syntax = {"native": ExplicitVRLittleEndian, "rle": RLELossless, "jpeg": JPEGBaseline8Bit}[kind]
    for i in range(count):
        one = dataset(VLEndoscopicImageStorage, syntax, SOPInstanceUID=f"{INSTANCE}.{i + 1}", InstanceNumber=str(i + 1))
        if step is not None:
            second = int(i * step)
            one.AcquisitionDateTime = f"20240517{8 + second // 3600:02d}{second // 60 % 60:02d}{second % 60:02d}.500000"
        describe_pixels(one, numbered(i), "YBR_FULL_422" if kind == "jpeg" else "RGB")
        set_pixels(one, [numbered(i)], kind)
        save(one, folder / f"IM{count - i:04d}")
    return folder


def medium(folder: Path, source: Path) -> Path:
    """A medium with a DICOMDIR that lists the files of another folder."""
    files = FileSet()
    for file in sorted(source.iterdir()):
        files.add(file)
    files.write(folder, use_existing=False)
    files._stage["t"].cleanup()  # or it warns of its temporary folder
    return folder


def capsule_video(path: Path, count: int = 80, **attributes: Any) -> Path:
    """A DICOM video that the tiny bundle finds something in."""
    return video_object(path, count, images=moving_dots(count), **attributes)
