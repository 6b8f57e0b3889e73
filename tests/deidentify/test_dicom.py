"""DICOM by PS3.15 E: attributes at all levels, pixels like any exam, and references that still fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce.cli import main
from dice_ce.deidentify import run
from dice_ce.deidentify.dicom import clean_attributes
from dice_ce.exam.open import open_exam
from tests.deidentify.test_deidentify import FRAMES, IN_THE_WINDOW, OUTSIDE, SIZE, MagentaReader, named_frames
from tests.dicom_material import PATIENT, medium, series
from tests.material import write_video

pydicom = pytest.importorskip("pydicom")
pytest.importorskip("dicomanonymizer")
UID, generate_uid, ExplicitVRLittleEndian = (
    pydicom.uid.UID,
    pydicom.uid.generate_uid,
    pydicom.uid.ExplicitVRLittleEndian,
)

SECONDARY_CAPTURE, VIDEO_ENDOSCOPIC = "1.2.840.10008.5.1.4.1.1.7.4", "1.2.840.10008.5.1.4.1.1.77.1.1.1"
H264 = "1.2.840.10008.1.2.4.102"


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "text_reader", MagentaReader)


def dataset(sop_class: str, syntax: str) -> Any:
    """Jane Doe's exam, with her name in places where nobody looks."""
    made = pydicom.Dataset()
    made.file_meta = pydicom.dataset.FileMetaDataset()
    made.file_meta.TransferSyntaxUID = UID(syntax)
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID = UID(sop_class)
    made.file_meta.MediaStorageSOPInstanceUID = made.SOPInstanceUID = generate_uid()
    made.file_meta.SourceApplicationEntityTitle = "WARD4"
    made.StudyInstanceUID, made.SeriesInstanceUID = generate_uid(), generate_uid()
    made.PatientName, made.PatientID, made.PatientBirthDate = "DOE^JANE", "4711-0815", "19500101"
    made.StudyDate, made.StudyTime, made.Modality = "20210314", "101112", "ES"
    made.InstitutionName, made.ReferringPhysicianName = "General Hospital", "HOUSE^GREGORY"
    made.ImageType = ["ORIGINAL", "PRIMARY"]
    made.ContentQualification = "PRODUCT"
    made.LossyImageCompressionMethod = "ISO_14496_10"
    inner = pydicom.Dataset()
    inner.PatientName, inner.StudyDate, inner.ReferencedSOPInstanceUID = "DOE^JANE", "20210314", made.SOPInstanceUID
    made.SourceImageSequence = pydicom.Sequence([inner])
    made.private_block(0x11, "ACME", create=True).add_new(1, "LO", "Jane Doe")
    made.Rows = made.Columns = SIZE
    made.SamplesPerPixel, made.PhotometricInterpretation, made.PlanarConfiguration = 3, "RGB", 0
    made.BitsAllocated = made.BitsStored = 8
    made.HighBit, made.PixelRepresentation, made.NumberOfFrames = 7, 0, FRAMES
    return made


@pytest.fixture
def frames_file(tmp_path: Path) -> Path:
    made = dataset(SECONDARY_CAPTURE, ExplicitVRLittleEndian)
    made.PixelData = np.stack(list(named_frames(IN_THE_WINDOW, OUTSIDE))).tobytes()
    made["PixelData"].VR = "OB"
    made.save_as(tmp_path / "doe.dcm", enforce_file_format=True)
    return tmp_path / "doe.dcm"


@pytest.fixture
def video_file(tmp_path: Path) -> Path:
    made = dataset(VIDEO_ENDOSCOPIC, H264)
    video = write_video(tmp_path / "v.mp4", named_frames(IN_THE_WINDOW, OUTSIDE), options={"crf": "8"}).read_bytes()
    made.PixelData = pydicom.encaps.encapsulate([video + b"\0" * (len(video) % 2)])
    made["PixelData"].VR, made["PixelData"].is_undefined_length = "OB", True
    made.save_as(tmp_path / "doe.dcm", enforce_file_format=True)
    return tmp_path / "doe.dcm"


def test_attributes_go_at_all_levels_and_references_still_fit(frames_file: Path, tmp_path: Path) -> None:
    before, out = frames_file.read_bytes(), tmp_path / "out" / "case.dcm"
    assert main(["deidentify", str(frames_file), "--out", str(out), "--check", "3"]) == 0
    made, original = pydicom.dcmread(out), pydicom.dcmread(frames_file)
    content = out.read_bytes()
    for word in (b"DOE", b"Doe", b"4711-0815", b"General", b"HOUSE", b"20210314", b"19500101", b"WARD4", b"ACME"):
        assert word not in content, word
    assert made.SOPInstanceUID != original.SOPInstanceUID
    assert made.file_meta.MediaStorageSOPInstanceUID == made.SOPInstanceUID
    assert made.SourceImageSequence[0].ReferencedSOPInstanceUID == made.SOPInstanceUID
    assert (made.SOPClassUID, made.Modality, made.NumberOfFrames) == (SECONDARY_CAPTURE, "ES", FRAMES)
    assert (made.PatientIdentityRemoved, made.BurnedInAnnotation) == ("YES", "NO")
    codes = [code.CodeValue for code in made.DeidentificationMethodCodeSequence]
    assert codes == ["113100", "113101"]
    assert frames_file.read_bytes() == before
    assert sorted(path.name for path in out.parent.iterdir()) == ["case.dcm", "case.deidentified.json"]


def test_names_and_ids_of_several_parts_are_found_elsewhere() -> None:
    made = dataset(SECONDARY_CAPTURE, ExplicitVRLittleEndian)
    made.PatientName, made.ManufacturerModelName = "DOE-SMITH^JANE", "scope of Mrs. Smith"
    made.SoftwareVersions, made.Manufacturer = "for 4711-0815", "ACME"
    clean_attributes(made)
    assert "ManufacturerModelName" not in made
    assert "SoftwareVersions" not in made
    assert made.Manufacturer == "ACME"


def test_pixels_are_blacked_and_the_rest_is_as_it_was(frames_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "case.dcm"
    assert main(["deidentify", str(frames_file), "--out", str(out), "--check", "3"]) == 0
    images, original = pydicom.dcmread(out).pixel_array, pydicom.dcmread(frames_file).pixel_array
    assert images.shape == original.shape
    assert not images[:, *IN_THE_WINDOW.slices].any()
    assert not images[:, *OUTSIDE.slices].any()
    assert np.array_equal(images[:, 90:110, 40:60], original[:, 90:110, 40:60])


def test_dates_can_be_moved_instead(frames_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "case.dcm"
    assert main(["deidentify", str(frames_file), "--out", str(out), "--check", "3", "--shift-days", "-100"]) == 0
    made = pydicom.dcmread(out)
    assert (made.StudyDate, made.StudyTime) == ("20201204", "101112")
    assert made.SourceImageSequence[0].StudyDate == "20201204"
    assert made.PatientBirthDate != "19500101"
    assert made.LongitudinalTemporalInformationModified == "MODIFIED"
    assert "113107" in [code.CodeValue for code in made.DeidentificationMethodCodeSequence]


def test_a_video_goes_back_into_its_file(video_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "case.dcm"
    assert main(["deidentify", str(video_file), "--out", str(out), "--check", "3"]) == 0
    made = pydicom.dcmread(out)
    assert (made.SOPClassUID, made.file_meta.TransferSyntaxUID) == (VIDEO_ENDOSCOPIC, H264)
    (tmp_path / "result.mp4").write_bytes(next(pydicom.encaps.generate_frames(made.PixelData, number_of_frames=1)))
    with open_exam(tmp_path / "result.mp4", mask=False) as exam:
        assert len(exam) == made.NumberOfFrames == FRAMES
        assert exam.image(11)[IN_THE_WINDOW.slices].max() <= 24
        assert exam.image(11)[OUTSIDE.slices].max() <= 24


def test_a_series_of_files_becomes_a_folder_with_plain_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "series"
    folder.mkdir()
    images = list(named_frames(OUTSIDE))
    for number in range(14):
        made = dataset("1.2.840.10008.5.1.4.1.1.7", ExplicitVRLittleEndian)
        del made.NumberOfFrames
        made.PixelData = images[number].tobytes()
        made["PixelData"].VR = "OB"
        made.save_as(folder / f"DOE_{number}.dcm", enforce_file_format=True)
    assert main(["deidentify", str(folder), "--out", str(tmp_path / "out"), "--exam-fps", "2"]) == 2
    assert "several recordings have no clock in common" in capsys.readouterr().err
    assert main(["deidentify", str(folder), "--out", str(tmp_path / "out"), "--check", "3"]) == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"image_{number:07d}.dcm" for number in range(14)]
    assert not pydicom.dcmread(tmp_path / "out" / names[3]).pixel_array[OUTSIDE.slices].any()


def test_the_times_of_a_series_go_beside_it_and_begin_at_zero(tmp_path: Path) -> None:
    folder, out = series(tmp_path / "series", 12, step=7.0), tmp_path / "out"
    assert main(["deidentify", str(folder), "--out", str(out), "--check", "1"]) == 0
    with open_exam(out) as exam:
        assert (exam.clock.source, exam.clock.seconds(0), exam.clock.seconds(11)) == ("sidecar", 0, 77)
    assert b"20240517" not in b"".join(file.read_bytes() for file in out.iterdir())


def test_the_clock_that_is_given_goes_with_a_dicom_file(video_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "case.dcm"
    words = ["--exam-fps", "2", "--exam-start", "10:00:00"]
    assert main(["deidentify", str(video_file), "--out", str(out), "--check", "1", *words]) == 0
    with open_exam(out) as exam:
        assert (exam.clock.source, exam.clock.seconds(0), exam.clock.seconds(4)) == ("sidecar", 0, 2)


@pytest.mark.parametrize("words", [["--no-mask"], ["--crop", "0,0,64,64"]])
def test_what_would_keep_the_surroundings_is_refused(
    frames_file: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deidentify", str(frames_file), "--out", str(tmp_path / "o.dcm"), *words]) == 2
    assert words[0] in capsys.readouterr().err
    assert not (tmp_path / "o.dcm").exists()


def test_nothing_is_left_of_overlays(frames_file: Path, tmp_path: Path) -> None:
    original = pydicom.dcmread(frames_file)
    for tag, kind, value in (
        (0x60000010, "US", 8),
        (0x60000040, "CS", "G"),
        (0x60003000, "OW", b"Jane Doe"),
        (0x60020022, "LO", "Jane Doe"),
        (0x50002500, "LO", "Jane Doe"),
    ):
        original.add_new(tag, kind, value)
    clean_attributes(original)
    assert not [element.tag for element in original if 0x5000 <= element.tag.group < 0x6100]


SOP_INSTANCE, NO_SOP_INSTANCE = (bytes([8, 0, element, 0]) + b"UI" for element in (0x18, 0x17))
"""The head of that attribute, and one that the standard does not have."""


def test_the_images_of_a_medium_become_a_folder(tmp_path: Path) -> None:
    disc = medium(tmp_path / "disc", series(tmp_path / "series", 12))
    for number, path in enumerate((disc, disc / "DICOMDIR")):
        out = tmp_path / f"out{number}"
        assert main(["deidentify", str(path), "--out", str(out), "--check", "1"]) == 0
        made = [pydicom.dcmread(file) for file in sorted(out.iterdir())]
        assert len(made) == 12
        for secret in (PATIENT["PatientID"], PATIENT["AccessionNumber"], PATIENT["StudyInstanceUID"], "Confidential^"):
            assert not any(secret in str(one) for one in made)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:400], "truncated or damaged DICOM; copy or export it again"),
        (lambda content: content[: len(content) // 2], "truncated: holds .* frames; copy or fetch it again"),
        (lambda content: content.replace(SOP_INSTANCE, NO_SOP_INSTANCE), "lacks SOPInstanceUID; export it again"),
    ],
    ids=["truncated attributes", "truncated pixels", "a missing attribute"],
)
def test_damaged_files_are_refused_in_one_line(
    damage: Any, message: str, frames_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    frames_file.write_bytes(damage(frames_file.read_bytes()))
    out = tmp_path / "out"
    out.mkdir()
    assert main(["deidentify", str(frames_file), "--out", str(out / "case.dcm")]) == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1, error
    assert re.search(message, error[0])
    assert list(out.iterdir()) == []


def test_what_only_dicom_has_is_refused_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = write_video(tmp_path / "e.mp4", named_frames())
    assert main(["deidentify", str(video), "--out", str(tmp_path / "o.mp4"), "--shift-days", "3"]) == 2
    assert "--shift-days" in capsys.readouterr().err
