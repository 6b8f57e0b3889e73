"""De-identification of DICOM files: their images go through the same steps as any exam, then back into the file."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dice_ce.deidentify.dicom import H264, VIDEO_SYNTAXES, Attributes, clean_attributes, read_dicom
from dice_ce.deidentify.run import Options, Report, clock_csv, deidentify
from dice_ce.errors import ExamError, UsageError, require
from dice_ce.exam.clock import ExamClock
from dice_ce.exam.codec import write_image
from dice_ce.exam.dicom.detect import DIRECTORY, is_dicom
from dice_ce.exam.dicom.directory import listed_files
from dice_ce.exam.dicom.source import count_exams
from dice_ce.exam.ocr import EXTRA
from dice_ce.exam.open import open_exam
from dice_ce.files import PARTIAL_PREFIX, atomic_file, atomic_folder
from dice_ce.progress import Watch
from dice_ce.types import Image

PURPOSE = "de-identifying DICOM"


@dataclass(frozen=True)
class DicomReport:
    """What happened to the images and to the attributes."""

    images: Report
    files: int
    attributes: Attributes

    def to_json(self, *, with_text: bool = False) -> str:
        """Write it for programs, as the report on the images with what happened to the attributes."""
        facts = json.loads(self.images.to_json(with_text=with_text)) | {"attributes": asdict(self.attributes)}
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def dicom_files(path: Path) -> list[Path]:
    """List the DICOM files that a path stands for: itself, those directly in it, or those that its DICOMDIR lists."""
    directory = path if path.name == DIRECTORY else path / DIRECTORY
    if directory.is_file():
        return listed_files(directory)
    if path.is_file():
        return [path] if is_dicom(path) else []
    if not path.is_dir():
        return []
    return sorted(file for file in path.iterdir() if file.is_file() and is_dicom(file))


def deidentify_dicom(
    path: Path,
    out: Path,
    options: Options,
    *,
    clock: ExamClock | None = None,
    shift_days: int | None = None,
    watch: Watch | None = None,
) -> DicomReport:
    """Write a DICOM file (.dcm) or a folder of them again, without attributes and pixels that identify, or nothing.

    The clock goes beside it as a file: dates are removed, and with them the times of frames.
    """
    files = dicom_files(path)
    is_folder = path.is_dir() or path.name == DIRECTORY
    if out.suffix.lower() != ("" if is_folder else ".dcm"):
        raise UsageError(f"--out {out}: give {'the name of a folder' if is_folder else 'a name that ends in .dcm'}")
    datasets = [read_dicom(file) for file in files]
    for file, dataset in zip(files, datasets, strict=True):
        if "PixelData" not in dataset:
            raise ExamError(f"{file}: has no images; give the files of the exam")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=PARTIAL_PREFIX) as name:
        if any(_is_video(dataset) for dataset in datasets):
            reports = [
                _clean_video(dataset, file, Path(name) / str(number), options, watch)
                for number, (file, dataset) in enumerate(zip(files, datasets, strict=True))
            ]
            report = reports[0]
        else:
            report = _clean_images(datasets, Path(name), options, watch, path)
    changes = [clean_attributes(dataset, shift_days=shift_days) for dataset in datasets]
    joined = Attributes(*(tuple(sorted({n for one in changes for n in getattr(one, part)})) for part in _PARTS))
    report = dataclasses.replace(report, renamed=len(files), clock=clock.source if clock else report.clock)
    done = DicomReport(report, len(files), joined)
    with ExitStack() as stack:
        notes = stack.enter_context(atomic_file(out.with_name(f"{out.stem}.deidentified.json")))
        notes.write(done.to_json().encode())
        if clock is not None and clock.is_exam_time:
            times = stack.enter_context(atomic_file(out.with_name(f"{out.stem}.clock.csv")))
            times.write(clock_csv(clock, len(clock.ticks), options.keep_times).encode())
        _write(datasets, out, is_folder)
    return done


def is_one_exam(path: Path) -> bool:
    """Whether all files of a path are one exam, which has one clock."""
    return count_exams(dicom_files(path)) == 1


_PARTS = tuple(field.name for field in dataclasses.fields(Attributes))


def _is_video(dataset: Any) -> bool:
    return str(dataset.file_meta.TransferSyntaxUID).startswith(VIDEO_SYNTAXES)


def _clean_video(dataset: Any, file: Path, folder: Path, options: Options, watch: Watch | None) -> Report:
    """Take the video out of its capsule, hide what is in it, and put it back as H.264 in an MP4 (PS3.5, 8.2.7)."""
    if not _is_video(dataset):
        raise ExamError(f"{file}: an image beside videos is no exam; give them one by one")
    if options.quality == "lossless":
        raise UsageError("--quality lossless: DICOM has no lossless video; leave it out")
    encaps: Any = require("pydicom.encaps", extra=EXTRA, purpose=PURPOSE)
    uid: Any = require("pydicom.uid", extra=EXTRA, purpose=PURPOSE)
    folder.mkdir()
    try:
        (folder / "in").write_bytes(next(encaps.generate_frames(dataset.PixelData, number_of_frames=1)))
        exam = open_exam(folder / "in")
    except (ExamError, ValueError, StopIteration) as error:
        raise ExamError(f"{file}: the video in it cannot be read; it is damaged: copy or export it again") from error
    with exam:
        report = deidentify(exam, folder / "out.mp4", options, watch=watch)
        dataset.NumberOfFrames = len(exam)
    content = (folder / "out.mp4").read_bytes()
    dataset.PixelData = encaps.encapsulate([content + b"\0" * (len(content) % 2)], has_bot=True)
    dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OB", True
    dataset.file_meta.TransferSyntaxUID = uid.UID(H264)
    dataset.PhotometricInterpretation = "YBR_PARTIAL_420"
    return report


def _clean_images(datasets: Sequence[Any], folder: Path, options: Options, watch: Watch | None, path: Path) -> Report:
    """Treat the images of all files as one exam, and write them back uncompressed."""
    uid: Any = require("pydicom.uid", extra=EXTRA, purpose=PURPOSE)
    stacks = [_pixels(dataset, path) for dataset in datasets]
    (folder / "in").mkdir()
    for number, image in enumerate(image for stack in stacks for image in stack):
        write_image(folder / "in" / f"frame_{number:07d}.png", image)
    with open_exam(folder / "in") as exam:
        report = deidentify(exam, folder / "out", dataclasses.replace(options, quality="lossless"), watch=watch)
    with open_exam(folder / "out", mask=False) as result:
        images = (image for _, image in result.read())
        for dataset, stack in zip(datasets, stacks, strict=True):
            values = b"".join(next(images).tobytes() for _ in stack)
            dataset.SamplesPerPixel, dataset.PlanarConfiguration = 3, 0
            dataset.PhotometricInterpretation = "RGB"
            dataset.BitsAllocated = dataset.BitsStored = 8
            dataset.HighBit, dataset.PixelRepresentation = 7, 0
            dataset.PixelData = values + b"\0" * (len(values) % 2)
            dataset["PixelData"].VR, dataset["PixelData"].is_undefined_length = "OB", False
            dataset.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    return report


def _pixels(dataset: Any, path: Path) -> list[Image]:
    """Decode all images of a file as RGB."""
    pixels: Any = require("pydicom.pixels", extra=EXTRA, purpose=PURPOSE)
    try:
        values = np.asarray(pixels.pixel_array(dataset))
    except Exception as error:  # whatever a codec raises on damaged or unknown content
        reason = str(error).partition("\n")[0]
        raise ExamError(
            f"{path}: its images cannot be decoded ({reason}); export them uncompressed or as JPEG"
        ) from error
    if values.dtype != np.uint8:
        raise ExamError(f"{path}: has images of {values.dtype}; expected 8 bits a sample, as capsules have")
    samples = int(dataset.SamplesPerPixel)
    if samples == 1:
        values = np.repeat(values[..., None], 3, axis=-1)
    return list(values[None] if values.ndim == 3 else values)


def _write(datasets: Sequence[Any], out: Path, is_folder: bool) -> None:
    if not is_folder:
        with atomic_file(out) as file:
            datasets[0].save_as(file, enforce_file_format=True)
        return
    with atomic_folder(out, ()) as folder:
        for number, dataset in enumerate(datasets):
            dataset.save_as(folder / f"image_{number:07d}.dcm", enforce_file_format=True)
