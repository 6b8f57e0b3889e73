"""DICOM in: every kind of object gives the frames and times that were put in, and damage is told in one line."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import shutil
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset
from pydicom.uid import EncapsulatedPDFStorage, ExplicitVRLittleEndian

from dice_ce.errors import DiceError, ExamError, InputError, UnreachableError
from dice_ce.exam.dicom.identity import read_identity
from dice_ce.exam.dicom.objects import PIXEL_MODULE
from dice_ce.exam.folders import exams_of_folder
from dice_ce.exam.open import open_exam
from tests.dicom_material import (
    INSTANCE,
    PATIENT,
    SECRETS,
    SERIES,
    VIDEO,
    dataset,
    medium,
    multiframe_object,
    save,
    series,
    video_object,
)
from tests.material import numbered_video, read_number


def numbers(path: Path) -> list[int]:
    with open_exam(path, mask=False) as exam:
        return [read_number(image) for _, image in exam.read()]


@pytest.mark.parametrize("kind", VIDEO)
@pytest.mark.parametrize("fragments", [1, 3])
def test_every_frame_of_a_video_object_is_read(tmp_path: Path, kind: str, fragments: int) -> None:
    path = video_object(tmp_path / "exam.dcm", 40, kind=kind, fragments=fragments)
    assert numbers(path) == list(range(40))
    with open_exam(path, mask=False) as exam:
        assert [read_number(image) for _, image in exam.images([33, 5, 21])] == [33, 5, 21]


@pytest.mark.parametrize("kind", ["native", "rle", "jpeg"])
def test_every_frame_of_a_multi_frame_image_is_read(tmp_path: Path, kind: str) -> None:
    assert numbers(multiframe_object(tmp_path / "exam.dcm", kind=kind)) == list(range(12))


@pytest.mark.parametrize("kind", ["native", "rle", "jpeg"])
def test_a_series_is_read_in_the_order_of_its_instance_numbers(tmp_path: Path, kind: str) -> None:
    assert numbers(series(tmp_path / "exam", kind=kind)) == list(range(12))


def test_a_medium_is_read_by_its_directory(tmp_path: Path) -> None:
    folder = medium(tmp_path / "disc", series(tmp_path / "exam"))
    assert numbers(folder) == numbers(folder / "DICOMDIR") == list(range(12))
    with open_exam(folder / "DICOMDIR") as exam:
        assert exam.id == "disc"


def test_frames_that_are_cut_into_fragments_are_put_together_by_the_offset_table(tmp_path: Path) -> None:
    from pydicom.encaps import encapsulate, generate_frames

    path = multiframe_object(tmp_path / "exam.dcm", kind="jpeg")
    one = dcmread(path)
    frames = list(generate_frames(one.PixelData, number_of_frames=12))
    one.PixelData = encapsulate(frames, fragments_per_frame=2, has_bot=True)
    save(one, path)
    assert numbers(path) == list(range(12))
    one.PixelData = encapsulate(frames, fragments_per_frame=2, has_bot=False)
    save(one, path)
    with pytest.raises(ExamError, match="24 fragments of pixels for 12 frames"):
        open_exam(path)


def exams(folder: Path) -> list[Path]:
    """A video, a multi-frame image and a series."""
    return [
        video_object(folder / "video.dcm", 40),
        multiframe_object(folder / "images.dcm"),
        series(folder / "series"),
    ]


def test_an_exam_that_is_sent_to_another_process_is_read_there_also_from_a_copy(tmp_path: Path) -> None:
    for path in exams(tmp_path):
        with open_exam(path, mask=False) as exam:
            sent = pickle.loads(pickle.dumps(exam))
        with sent:
            assert [read_number(image) for _, image in sent.read()] == list(range(len(exam)))
        copy = path.rename(path.with_name("copy"))
        for file in (copy, *copy.rglob("*")):
            os.utime(file)
        with dataclasses.replace(sent, source=sent.source.copied_to(copy)) as moved:
            assert [read_number(image) for _, image in moved.read()] == list(range(len(exam)))
        shutil.rmtree(copy) if copy.is_dir() else copy.unlink()


def test_an_object_that_is_cut_off_while_it_is_read_is_not_called_damaged(tmp_path: Path) -> None:
    for path in exams(tmp_path):
        with open_exam(path, mask=False) as exam:
            last = sorted(path.iterdir())[-1] if path.is_dir() else path
            os.truncate(last, last.stat().st_size // 2)
            with pytest.raises(UnreachableError, match="reading broke off"):
                list(exam.read())


# --- times --------------------------------------------------------------------------------------------------------


def clock_of(path: Path) -> tuple[str, str, list[Fraction]]:
    with open_exam(path) as exam:
        return exam.clock.source, exam.clock.detail, [exam.clock.seconds(i) for i in range(len(exam))]


def test_frame_time_of_images_is_exam_time(tmp_path: Path) -> None:
    source, detail, times = clock_of(multiframe_object(tmp_path / "exam.dcm", FrameTime="333.25"))
    assert (source, detail) == ("DICOM", "Frame Time, 333.25 ms per frame")
    assert times == [i * Fraction(33325, 100_000) for i in range(12)]


def test_cine_rate_is_exam_time_where_there_is_no_frame_time(tmp_path: Path) -> None:
    source, _, times = clock_of(multiframe_object(tmp_path / "exam.dcm", CineRate="2"))
    assert source == "DICOM"
    assert times[-1] == Fraction(11, 2)


def test_a_frame_time_vector_is_exact(tmp_path: Path) -> None:
    steps = [0, *(100.5 + i for i in range(11))]
    source, _, times = clock_of(multiframe_object(tmp_path / "exam.dcm", FrameTimeVector=steps, FrameTime="40"))
    assert source == "DICOM"
    assert times[2] == Fraction("0.2020")


def test_a_frame_time_vector_of_another_length_is_told_and_not_used(tmp_path: Path) -> None:
    with open_exam(multiframe_object(tmp_path / "exam.dcm", FrameTimeVector=[0, 1, 2])) as exam:
        assert exam.clock.source == "playback"
        assert any("Frame Time Vector has 3 values for 12 frames" in warning for warning in exam.warnings)


def test_acquisition_times_of_frames_win(tmp_path: Path) -> None:
    groups = []
    for i in range(12):
        content, group = Dataset(), Dataset()
        content.FrameAcquisitionDateTime = f"202405172359{50 + i:02d}" if i < 10 else f"2024051800000{i - 10}"
        group.FrameContentSequence = [content]
        groups.append(group)
    path = multiframe_object(tmp_path / "exam.dcm", PerFrameFunctionalGroupsSequence=groups, FrameTime="40")
    source, detail, times = clock_of(path)
    assert (source, detail) == ("DICOM", "Frame Acquisition DateTime of each frame")
    assert times == list(range(12))


def test_acquisition_times_of_a_series_are_exam_time(tmp_path: Path) -> None:
    source, _, times = clock_of(series(tmp_path / "exam", step=2))
    assert source == "DICOM"
    assert times == [2 * i for i in range(12)]


def test_times_without_a_date_may_pass_midnight(tmp_path: Path) -> None:
    folder = series(tmp_path / "exam", 4, step=None)
    for file, time in zip(
        sorted(folder.iterdir(), reverse=True), ("235958", "235959", "000000", "000001"), strict=True
    ):
        one = dcmread(file)
        one.AcquisitionTime = time
        save(one, file)
    assert clock_of(folder)[2] == [0, 1, 2, 3]


def test_times_that_run_backwards_are_told_and_not_used(tmp_path: Path) -> None:
    folder = series(tmp_path / "exam", 4, step=10)
    one = dcmread(folder / "IM0001")
    one.AcquisitionDateTime = "20240517080001"
    save(one, folder / "IM0001")
    with open_exam(folder) as exam:
        assert exam.clock.source == "playback"
        assert any("runs backwards at frame 3" in warning for warning in exam.warnings)


def test_the_frame_time_of_a_video_is_its_playback_speed_unless_it_differs(tmp_path: Path) -> None:
    assert clock_of(video_object(tmp_path / "same.dcm", 40, FrameTime="40"))[0] == "playback"
    source, _, times = clock_of(video_object(tmp_path / "other.dcm", 40, FrameTime="500"))
    assert source == "DICOM"
    assert times[-1] == Fraction(39, 2)


def test_effective_duration_stretches_a_video(tmp_path: Path) -> None:
    source, detail, times = clock_of(video_object(tmp_path / "exam.dcm", 40, EffectiveDuration="28800"))
    assert (source, detail) == ("DICOM", "Effective Duration, 28800 s")
    assert times[20] == 14400


def test_what_the_user_says_about_time_wins(tmp_path: Path) -> None:
    path = multiframe_object(tmp_path / "exam.dcm", FrameTime="500")
    with open_exam(path, exam_fps=4) as exam:
        assert exam.clock.source == "options"
        assert exam.clock.seconds(4) == 1


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["native", "rle", "jpeg", "h264"])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.6, 0.95])
def test_a_truncated_object_is_refused_in_one_line(tmp_path: Path, kind: str, share: float) -> None:
    path = tmp_path / "exam.dcm"
    video_object(path, 20) if kind == "h264" else multiframe_object(path, kind=kind)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(ExamError) as caught:
        open_exam(path)
    assert "\n" not in str(caught.value)
    assert "again" in str(caught.value)


@pytest.mark.parametrize("name", [*PIXEL_MODULE, "PlanarConfiguration"])
def test_missing_attributes_are_named(tmp_path: Path, name: str) -> None:
    path = multiframe_object(tmp_path / "exam.dcm")
    one = dcmread(path)
    delattr(one, name)
    save(one, path)
    with pytest.raises(ExamError, match=f"lacks {name}"):
        open_exam(path)


def test_more_frames_than_are_declared_are_not_left_out_silently(tmp_path: Path) -> None:
    path = multiframe_object(tmp_path / "exam.dcm", 8)
    one = dcmread(path)
    del one.NumberOfFrames
    save(one, path)
    with pytest.raises(ExamError, match="holds 8 frames and lacks NumberOfFrames; export it again"):
        open_exam(path)


@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2.4.201", "1.2.840.10008.1.2.4.94", "1.2.3.4.5.6"])
def test_a_transfer_syntax_that_nothing_decodes_is_named(tmp_path: Path, syntax: str) -> None:
    path = multiframe_object(tmp_path / "exam.dcm", kind="jpeg")
    one = dcmread(path)
    one.file_meta.TransferSyntaxUID = syntax
    one.save_as(path, implicit_vr=False, little_endian=True)
    with pytest.raises(ExamError, match=r"is not read|no pixels|damaged"):
        open_exam(path)


def test_pixels_that_are_not_what_the_transfer_syntax_says_are_refused(tmp_path: Path) -> None:
    path = multiframe_object(tmp_path / "exam.dcm", kind="jpeg")
    one = dcmread(path)
    one.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.5"
    save(one, path)
    with pytest.raises(ExamError, match="not one frame can be decoded"):
        open_exam(path)


def test_a_video_is_decoded_as_what_it_is_whatever_the_transfer_syntax_says(tmp_path: Path) -> None:
    path = video_object(tmp_path / "exam.dcm", 20, kind="h264")
    one = dcmread(path)
    one.file_meta.TransferSyntaxUID = VIDEO["mpeg2"][0]
    save(one, path)
    assert numbers(path) == list(range(20))


def test_grey_and_deep_images_are_refused(tmp_path: Path) -> None:
    path = multiframe_object(tmp_path / "exam.dcm", 3)
    one = dcmread(path)
    one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
    save(one, path)
    with pytest.raises(ExamError, match="in colour"):
        open_exam(path)


def test_a_document_is_no_exam(tmp_path: Path) -> None:
    path = save(dataset(EncapsulatedPDFStorage, ExplicitVRLittleEndian), tmp_path / "report.dcm")
    with pytest.raises(ExamError, match="a document \\(Encapsulated PDF Storage\\)"):
        open_exam(path)


def test_documents_beside_an_exam_are_left_out_and_counted(tmp_path: Path) -> None:
    folder = series(tmp_path / "exam")
    save(dataset(EncapsulatedPDFStorage, ExplicitVRLittleEndian, SOPInstanceUID="1.2.3.4.5.6"), folder / "report")
    with open_exam(folder) as exam:
        assert len(exam) == 12
        assert "1 DICOM objects without images were left out" in exam.warnings


def test_a_series_with_holes_or_doubles_says_so(tmp_path: Path) -> None:
    folder = series(tmp_path / "exam")
    (folder / "IM0005").unlink()
    shutil.copy(folder / "IM0001", folder / "copy")
    with open_exam(folder) as exam:
        assert len(exam) == 11
        assert any("1 Instance Numbers are missing" in warning for warning in exam.warnings)
        assert any("there twice" in warning for warning in exam.warnings)


def test_several_recordings_in_a_folder_are_not_mixed(tmp_path: Path) -> None:
    multiframe_object(tmp_path / "both" / "a.dcm")
    multiframe_object(tmp_path / "both" / "b.dcm", SOPInstanceUID=INSTANCE + ".9")
    with pytest.raises(ExamError, match="holds 2 recordings"):
        open_exam(tmp_path / "both")


def test_a_folder_of_several_videos_is_a_folder_of_exams(tmp_path: Path) -> None:
    folder = tmp_path / "both"
    for name in ("a", "b"):
        video_object(folder / f"{name}.dcm", 10, SOPInstanceUID=f"{INSTANCE}.{ord(name)}")
    content = exams_of_folder(folder)
    assert content is not None
    assert [exam.name for exam in content.exams] == ["a.dcm", "b.dcm"]
    assert exams_of_folder(series(tmp_path / "series", 3)) is None
    above = exams_of_folder(tmp_path)
    assert above is not None
    assert [exam.name for exam in above.exams] == ["both", "series"]


def test_dicom_beside_other_exams_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    numbered_video(tmp_path / "exam.mp4", 10)
    multiframe_object(tmp_path / "other.dcm", 3)
    content = exams_of_folder(tmp_path)
    assert content is not None
    assert [exam.name for exam in content.exams] == ["exam.mp4"]
    assert content.others == ("other.dcm",)


def test_a_directory_that_lists_missing_or_outside_files_is_refused(tmp_path: Path) -> None:
    folder = medium(tmp_path / "disc", series(tmp_path / "exam", 3))
    inside = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "DICOMDIR")
    inside[0].unlink()
    with pytest.raises(ExamError, match="1 of 3 listed files are missing"):
        open_exam(folder)
    secret = multiframe_object(tmp_path / "outside.dcm")
    directory = dcmread(folder / "DICOMDIR")
    images = [record for record in directory.DirectoryRecordSequence if record.DirectoryRecordType == "IMAGE"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for record in images:
            record.ReferencedFileID = ["..", secret.name]
    directory.save_as(folder / "DICOMDIR")
    with pytest.raises(ExamError, match="missing"):
        open_exam(folder)


def test_noise_after_a_dicom_header_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "noise.dcm"
    path.write_bytes(bytes(128) + b"DICM" + bytes(range(256)) * 20)
    with pytest.raises(ExamError) as caught:
        open_exam(path)
    assert "\n" not in str(caught.value)
    path.write_bytes(b"no header at all" * 100)
    with pytest.raises(ExamError, match="no DICOM header"):
        open_exam(path)


# --- identity -----------------------------------------------------------------------------------------------------


def test_what_is_read_of_an_exam_does_not_tell_who_the_patient_is(tmp_path: Path) -> None:
    for path in (multiframe_object(tmp_path / "a.dcm"), video_object(tmp_path / "b.dcm", 10)):
        with open_exam(path) as exam:
            said = repr(exam.source) + str(getattr(exam.source, "objects", ""))
            for value in SECRETS[:-2]:  # UIDs of the objects are needed to put them in order
                assert value not in said


@pytest.mark.parametrize("name", [INSTANCE, f"{INSTANCE}.dcm"])
def test_an_exam_is_not_named_after_a_uid(tmp_path: Path, name: str) -> None:
    with open_exam(multiframe_object(tmp_path / name)) as exam:
        assert exam.id.startswith("dicom-")
        assert INSTANCE not in exam.id


@pytest.mark.parametrize("name", ["Confidential_Patient.dcm", "capsule-4711.dcm", "20240517", f"VL.{INSTANCE}.dcm"])
def test_an_exam_is_not_named_after_its_patient(tmp_path: Path, name: str) -> None:
    path = multiframe_object(tmp_path / name)
    (tmp_path / f"{path.stem}.clock.csv").write_text("0,0\n11,11\n")
    with open_exam(path) as exam:
        assert exam.id.startswith("dicom-")
        assert path.stem not in exam.clock.detail


def test_neither_is_a_folder_nor_a_medium(tmp_path: Path) -> None:
    for folder in (series(tmp_path / "Patient 1", 3), medium(tmp_path / "cd" / "secret", tmp_path / "Patient 1")):
        with open_exam(folder) as exam:
            assert exam.id.startswith("dicom-")


def test_other_names_stay(tmp_path: Path) -> None:
    with open_exam(multiframe_object(tmp_path / "capsule 17.dcm")) as exam:
        assert exam.id == "capsule 17"


def test_identity_is_read_when_asked_for(tmp_path: Path) -> None:
    path = video_object(tmp_path / "exam.dcm", 10)
    identity = read_identity(path)
    assert identity.patient_id == PATIENT["PatientID"]
    assert identity.patient_name == PATIENT["PatientName"]
    assert identity.study_uid == PATIENT["StudyInstanceUID"]
    assert identity.accession_number == PATIENT["AccessionNumber"]
    with open_exam(path) as exam:
        assert identity.exam_digest == exam.digest
    place = identity.place_of(7)
    assert place is not None
    assert (place[0].sop_instance, place[0].series, place[1]) == (INSTANCE, SERIES, 8)
    assert identity.place_of(10) is None


def test_identity_of_old_and_odd_files_is_tidied(tmp_path: Path) -> None:
    path = multiframe_object(tmp_path / "exam.dcm", 2)
    one = dcmread(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one.PatientBirthDate, one.StudyDate, one.PatientSex = "1948.02.29", "yesterday", "U"
        one.SpecificCharacterSet, one.PatientName = "ISO_IR 100", "Müller^Jürgen"
        one.StudyInstanceUID = "1.2.840.04.5"
    save(one, path)
    identity = read_identity(path)
    assert (identity.birth_date, identity.study_date, identity.sex) == ("19480229", "", "")
    assert (identity.patient_name, identity.study_uid) == ("Müller^Jürgen", "1.2.840.04.5")


def test_frames_of_a_series_lie_in_objects_of_their_own(tmp_path: Path) -> None:
    place = read_identity(series(tmp_path / "exam")).place_of(7)
    assert place is not None
    assert (place[0].sop_instance, place[1]) == (f"{INSTANCE}.8", 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"patient": "x"}',
        '{"patient_id": 7}',
        '{"sex": "W"}',
        '{"birth_date": "31.1.1970"}',
        '{"study_uid": "x"}',
    ],
)
def test_a_wrong_identity_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "identity.json"
    path.write_text(text)
    with pytest.raises(InputError):
        read_identity(path)
    with pytest.raises(DiceError):
        read_identity(tmp_path / "missing.json")


def test_an_identity_file_may_write_dates_either_way(tmp_path: Path) -> None:
    path = tmp_path / "identity.json"
    path.write_text('{"patient_id": "4711", "birth_date": "1970-01-31", "study_date": "20240517"}')
    identity = read_identity(path)
    assert (identity.birth_date, identity.study_date) == ("19700131", "20240517")


# --- flipped bits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["native", "rle", "jpeg", "h264"])
def test_flipped_bits_are_told_in_one_line_or_leave_frames_out(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "exam.dcm"
    video_object(path, 10) if kind == "h264" else multiframe_object(path, 4, kind=kind)
    whole, rng = path.read_bytes(), np.random.default_rng(7)
    for _ in range(40):
        damaged = bytearray(whole)
        head = int(rng.integers(0, 2))  # half of the damage to the header, which is small
        for at in rng.integers(132, 1500 if head else len(whole), 5):
            damaged[at] = int(rng.integers(0, 256))
        path.write_bytes(damaged)
        with contextlib.suppress(DiceError), open_exam(path) as exam:
            assert sum(1 for _ in exam.read()) <= len(exam)
