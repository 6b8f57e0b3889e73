"""DICOM out: the objects say what the summary says, the same every time, and no patient unless asked for."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from pathlib import Path

import pydicom
import pytest
from pydicom.sr._concepts_dict import concepts
from pydicom.uid import UID

from dice_ce.errors import InputError, UsageError
from dice_ce.method.reliability import NOT_MEASURED
from dice_ce.method.summary import Activity, Mark
from dice_ce.outputs import export_results
from dice_ce.outputs.dicom import codes
from dice_ce.outputs.dicom.objects import dicom_files
from dice_ce.outputs.dicom.report import carried, read_report
from dice_ce.outputs.results import Results, read_results
from dice_ce.taxonomy import VIDEOCAP_12, Taxonomy
from tests import peers
from tests.dicom_material import INSTANCE, PATIENT, SECRETS, SERIES, dataset, save
from tests.outputs.conftest import Summarised

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "dicom.md"


def objects(results: Results) -> dict[str, pydicom.Dataset]:
    return {name: pydicom.dcmread(io.BytesIO(content)) for name, content in dicom_files(results).items()}


def without_findings(results: Results) -> Results:
    summary = dataclasses.replace(results.summary, items=())
    return Results(summary, (), results.identity)


def groups(report: pydicom.Dataset) -> list[pydicom.Dataset]:
    (measurements,) = [item for item in report.ContentSequence if named(item) == "Imaging Measurements"]
    return list(measurements.ContentSequence)


def named(item: pydicom.Dataset) -> str:
    return str(item.ConceptNameCodeSequence[0].CodeMeaning)


def inside(group: pydicom.Dataset, name: str) -> pydicom.Dataset:
    (item,) = [item for item in group.ContentSequence if named(item) == name]
    return item


# --- content ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_identity", [False, True])
def test_the_report_has_one_group_per_finding(summarised: Summarised, with_identity: bool) -> None:
    results = summarised.results(with_identity=with_identity)
    made = groups(objects(results)["report.dcm"])
    assert len(made) == len(results.summary.items)
    for group, item in zip(made, results.summary.items, strict=True):
        code = inside(group, "Finding").ConceptCodeSequence[0]
        expected = codes.code_of(item.label)
        assert (code.CodeValue, code.CodingSchemeDesignator) == (expected.value, expected.scheme)
        certainty = inside(group, "Certainty of Finding").MeasuredValueSequence[0]
        assert float(certainty.NumericValue) == pytest.approx(100 * item.confidence)
        assert certainty.MeasurementUnitsCodeSequence[0].CodeValue == "%"
        assert inside(group, "Tracking Identifier").TextValue == item.id
        assert UID(inside(group, "Tracking Unique Identifier").UID).is_valid
        assert "research" in inside(group, "Algorithm Name").TextValue
        assert inside(group, "Algorithm Version").TextValue == results.summary.provenance.version


def test_findings_show_secondary_captures_that_hold_the_key_frames_as_they_are(summarised: Summarised) -> None:
    results = summarised.results()
    made = objects(results)
    images = [one for name, one in made.items() if name.startswith("keyframes/")]
    assert len(images) == len(results.summary.items)
    for image, jpeg, group in zip(images, results.keyframes, groups(made["report.dcm"]), strict=True):
        assert next(iter(pydicom.encaps.generate_frames(image.PixelData, number_of_frames=1))).startswith(jpeg)
        assert image.pixel_array.shape == (results.summary.exam.height, results.summary.exam.width, 3)
        assert "research" in image.ImageComments.lower()
        shown = inside(group, "Source of Measurement").ReferencedSOPSequence[0]
        assert shown.ReferencedSOPInstanceUID == image.SOPInstanceUID


def test_findings_show_frames_of_the_exam_where_it_is_dicom_and_known(summarised: Summarised) -> None:
    results = summarised.results(with_identity=True)
    made = objects(results)
    assert set(made) == {"report.dcm", "key_objects.dcm", "document.dcm"}
    for group, item in zip(groups(made["report.dcm"]), results.summary.items, strict=True):
        shown = inside(group, "Source of Measurement").ReferencedSOPSequence[0]
        assert shown.ReferencedSOPInstanceUID == INSTANCE
        assert shown.ReferencedFrameNumber == item.keyframe.frame + 1
    evidence = made["report.dcm"].CurrentRequestedProcedureEvidenceSequence[0]
    assert evidence.ReferencedSeriesSequence[0].SeriesInstanceUID == SERIES
    chosen = [
        reference
        for item in made["key_objects.dcm"].ContentSequence
        for reference in item.get("ReferencedSOPSequence", ())
    ]
    frames = sorted({item.keyframe.frame + 1 for item in results.summary.items})
    assert [int(frame) for frame in chosen[0].ReferencedFrameNumber] == frames


def test_another_object_of_the_study_gives_patient_and_study_only(summarised: Summarised, tmp_path: Path) -> None:
    from dice_ce.exam.dicom.identity import read_identity
    from tests.dicom_material import multiframe_object

    other = multiframe_object(tmp_path / "other.dcm", 3, SOPInstanceUID=f"{INSTANCE}.7")
    made = objects(read_results(summarised.folder, read_identity(other)))
    assert any(name.startswith("keyframes/") for name in made)
    assert made["report.dcm"].PatientID == PATIENT["PatientID"]
    assert INSTANCE not in str(made["report.dcm"])


def test_a_document_or_a_radiograph_of_the_study_gives_patient_and_study_too(
    summarised: Summarised, tmp_path: Path
) -> None:
    import numpy as np

    from dice_ce.exam.dicom.identity import read_identity

    document = tmp_path / "document.dcm"
    document.write_bytes(dicom_files(summarised.results(with_identity=True))["report.dcm"])
    radiograph = dataset("1.2.840.10008.5.1.4.1.1.1", "1.2.840.10008.1.2.1", Rows=8, Columns=8, SamplesPerPixel=1)
    radiograph.PhotometricInterpretation, radiograph.PixelRepresentation = "MONOCHROME2", 0
    radiograph.BitsAllocated, radiograph.BitsStored, radiograph.HighBit = 16, 12, 11
    radiograph.PixelData = np.zeros((8, 8), np.uint16).tobytes()
    for path in (document, save(radiograph, tmp_path / "radiograph.dcm")):
        identity = read_identity(path)
        assert (identity.patient_id, identity.study_uid) == (PATIENT["PatientID"], PATIENT["StudyInstanceUID"])
        assert identity.instances == ()


def test_all_objects_are_of_one_study_and_say_for_research(summarised: Summarised) -> None:
    made = objects(summarised.results()).values()
    assert len({one.StudyInstanceUID for one in made}) == 1
    assert len({one.SOPInstanceUID for one in made}) == len(made)
    for one in made:
        assert UID(one.SOPInstanceUID).is_valid
        assert "research use only" in one.SeriesDescription
        assert one.SpecificCharacterSet == "ISO_IR 192"
    (report,) = [one for one in made if one.Modality == "SR"]
    assert (report.VerificationFlag, report.PreliminaryFlag) == ("UNVERIFIED", "PRELIMINARY")


def test_the_pdf_is_inside_as_it_is(summarised: Summarised) -> None:
    from dice_ce.outputs.pdf import render_pdf

    results = summarised.results()
    document = objects(results)["document.dcm"]
    assert document.EncapsulatedDocument[: document.EncapsulatedDocumentLength] == render_pdf(results)


def test_exporting_twice_gives_the_same_bytes(summarised: Summarised) -> None:
    first, second = dicom_files(summarised.results()), dicom_files(summarised.read())
    assert {name: hashlib.sha256(content).hexdigest() for name, content in first.items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in second.items()
    }


def test_uids_differ_with_and_without_the_patient(summarised: Summarised) -> None:
    one, other = (objects(summarised.results(with_identity=known))["report.dcm"] for known in (False, True))
    assert one.SOPInstanceUID != other.SOPInstanceUID
    assert one.SeriesInstanceUID != other.SeriesInstanceUID


# --- round trip ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_identity", [False, True])
def test_the_summary_comes_back_out_of_the_report(summarised: Summarised, tmp_path: Path, with_identity: bool) -> None:
    results = summarised.results(with_identity=with_identity)
    path = tmp_path / "report.dcm"
    path.write_bytes(dicom_files(results)["report.dcm"])
    assert read_report(path) == carried(results.summary)


def test_an_exam_without_findings_comes_back_too(summarised: Summarised, tmp_path: Path) -> None:
    results = without_findings(summarised.results())
    path = tmp_path / "report.dcm"
    files = dicom_files(results)
    assert set(files) == {"report.dcm", "document.dcm"}
    path.write_bytes(files["report.dcm"])
    assert read_report(path) == carried(results.summary)


def test_labels_and_texts_of_any_kind_come_back(summarised: Summarised, tmp_path: Path) -> None:
    results = summarised.results()
    odd = "läsion – " + "x" * 80
    labels = tuple(odd if label == "polyp" else label for label in results.summary.taxonomy.labels)
    items = tuple(
        dataclasses.replace(
            item,
            label=odd,
            runner_up=odd,
            reason="ß = \\ 100 %\n<b>&",
            provisional="ulcer",
            mark=Mark(0.5714, 0.4286, 1.0, 0.8571),
        )
        for item in results.summary.items
    )
    summary = dataclasses.replace(
        results.summary, taxonomy=Taxonomy("other", labels), items=items, reliability={odd: NOT_MEASURED}
    )
    path = tmp_path / "report.dcm"
    path.write_bytes(dicom_files(dataclasses.replace(results, summary=summary, rendered={}))["report.dcm"])
    assert read_report(path) == carried(summary)


def test_carried_leaves_out_only_what_it_says(summarised: Summarised) -> None:
    summary = summarised.results().summary
    back = carried(summary)
    for name in ("schema", "disclaimer", "exam", "taxonomy", "counts", "provenance"):
        assert getattr(back, name) == getattr(summary, name)
    assert back.activity == Activity(summary.activity.first_seconds, summary.activity.last_seconds, (), ())


def test_what_is_no_report_of_ours_is_refused(tmp_path: Path, summarised: Summarised) -> None:
    path = tmp_path / "report.dcm"
    for content in (b"", b"noise" * 100, summarised.exam.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_report(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="check the path"):
        read_report(tmp_path / "missing.dcm")


# --- codes --------------------------------------------------------------------------------------------------------


def all_codes() -> list[codes.Coded]:
    return [*codes.CONCEPTS, *codes.LABELS.values()]


def test_every_code_of_ps3_16_stands_in_the_dictionaries_of_pydicom() -> None:
    for one in all_codes():
        if one.scheme == codes.PRIVATE or one in (codes.EVALUATIONS, codes.PERCENT) or one.source == codes.EHDSI:
            continue
        meanings = [
            meaning
            for entries in concepts[one.scheme].values()
            for value, (meaning, _) in entries.items()
            if value == one.value
        ]
        assert one.meaning in meanings, one


def test_our_codes_fit_into_dicom_and_are_told_apart() -> None:
    for one in all_codes():
        assert len(one.value) <= 16
        assert len(one.meaning) <= 64
    assert len({(one.scheme, one.value) for one in all_codes()}) == len(all_codes())
    assert set(codes.LABELS) == set(VIDEOCAP_12)


def test_all_codes_are_published() -> None:
    text = DOCS.read_text()
    for one in all_codes():
        assert f"| `{one.value}` | {one.scheme} | {one.meaning} | {one.source} |" in text


def codes_in(one: pydicom.Dataset) -> set[tuple[str, str, str]]:
    found = {
        (str(item.CodeValue), str(item.CodingSchemeDesignator), str(item.CodeMeaning))
        for element in one
        if element.VR == "SQ"
        for item in element.value
        if "CodeValue" in item
    }
    inner = (codes_in(item) for element in one if element.VR == "SQ" for item in element.value)
    return found.union(*inner)


@pytest.mark.parametrize("with_identity", [False, True])
def test_every_code_that_is_written_stands_in_the_published_tables(summarised: Summarised, with_identity: bool) -> None:
    text = DOCS.read_text()
    made = objects(summarised.results(with_identity=with_identity))
    written = set().union(*(codes_in(one) for one in made.values()))
    assert len(written) > 30
    assert not [code for code in written if "| `{}` | {} | {} |".format(*code) not in text]


# --- privacy ------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    """All files, with what is compressed or encoded inside them laid open."""
    import base64
    import json
    import re
    import zlib

    found = {}
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".json":
            for data in re.findall(r'"data": "([^"]+)"', json.dumps(json.loads(content))):
                content += base64.b64decode(data)
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", content, re.S):
            try:
                content += zlib.decompress(stream)
            except zlib.error:
                continue
        found[str(path.relative_to(folder))] = content
    return found


def test_no_export_says_who_the_patient_is(summarised: Summarised, tmp_path: Path) -> None:
    export_results(summarised.folder, tmp_path / "out", kinds=("pdf", "dicom", "fhir"))
    for folder in (tmp_path / "out", summarised.folder):
        for name, content in contents(folder).items():
            for secret in SECRETS:
                assert secret.encode() not in content, (name, secret)


def test_every_export_says_so_when_asked_for(summarised: Summarised, tmp_path: Path) -> None:
    from dice_ce.exam.dicom.identity import read_identity

    out = tmp_path / "out"
    export_results(summarised.folder, out, kinds=("pdf", "dicom", "fhir"), identity=read_identity(summarised.exam))
    for path in (*out.rglob("*.dcm"), *out.rglob("*.json")):
        assert PATIENT["PatientID"].encode() in path.read_bytes()
    assert PATIENT["PatientID"] in peers.run("pdftotext", "poppler-utils", out / "report.pdf", "-").stdout


# --- bad input ----------------------------------------------------------------------------------------------------


def test_a_folder_without_results_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"summary\.json: no such file"):
        export_results(tmp_path / "empty", tmp_path / "out", kinds=("dicom",))
    assert not (tmp_path / "out").exists()


EDITS = {
    "a label": lambda item: item.update(runner_up="gremlin"),
    "a frame": lambda item: item.update(keyframe={**item["keyframe"], "frame": 10**6}),
    "a time": lambda item: item.update(last_seconds=1e300),
}


@pytest.mark.parametrize(
    "damage", ["no keyframe", "no jpeg", "half a jpeg", "half a summary", "noise", "a label", "a frame", "a time"]
)
def test_damaged_results_are_refused_and_nothing_is_written(
    summarised: Summarised, tmp_path: Path, damage: str
) -> None:
    import shutil

    folder = tmp_path / "results"
    shutil.copytree(summarised.folder, folder)
    keyframe = next((folder / "keyframes").iterdir())
    summary = folder / "summary.json"
    if damage == "no keyframe":
        keyframe.unlink()
    elif damage == "no jpeg":
        keyframe.write_bytes(b"not an image")
    elif damage == "half a jpeg":
        keyframe.write_bytes(keyframe.read_bytes()[: keyframe.stat().st_size // 2])
    elif damage in EDITS:
        content = json.loads(summary.read_text())
        EDITS[damage](content["items"][0])
        summary.write_text(json.dumps(content))
    elif damage == "half a summary":
        summary.write_bytes(summary.read_bytes()[:1000])
    else:
        summary.write_bytes(bytes(range(256)))
    with pytest.raises(InputError) as caught:
        export_results(folder, tmp_path / "out", kinds=("dicom",))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_replaced_unasked(summarised: Summarised, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "dicom").mkdir(parents=True)
    (out / "dicom" / "mine.dcm").write_text("mine")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        export_results(summarised.folder, out, kinds=("dicom",))
    assert (out / "dicom" / "mine.dcm").read_text() == "mine"
    export_results(summarised.folder, out, kinds=("dicom",), force=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "dicom" / "report.dcm").is_file()


# --- validators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_identity", [False, True])
@pytest.mark.parametrize("has_findings", [True, False])
def test_dcmtk_and_dciodvfy_find_nothing_wrong(
    summarised: Summarised, tmp_path: Path, with_identity: bool, has_findings: bool
) -> None:
    results = summarised.results(with_identity=with_identity)
    for name, content in dicom_files(results if has_findings else without_findings(results)).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        dump = peers.run("dcmdump", "dcmtk", path)
        assert dump.returncode == 0
        assert not dump.stderr, dump.stderr
        checked = peers.run("dciodvfy", "dicom3tools", path)
        errors = [line for line in (checked.stdout + checked.stderr).splitlines() if line.startswith("Error")]
        assert not errors, (name, errors)
    report = peers.run("dsrdump", "dcmtk", tmp_path / "report.dcm")
    assert report.returncode == 0
    problems = [line for line in report.stderr.splitlines() if "Specific Character Set" not in line]
    assert not problems
    assert "Comprehensive SR Document" in report.stdout
    assert report.stdout.count("Measurement Group") == (len(results.summary.items) if has_findings else 0)


def test_lossless_jpeg_keeps_its_colours(tmp_path: Path) -> None:
    import numpy as np

    from dice_ce.exam.open import open_exam
    from tests.dicom_material import describe_pixels, set_pixels

    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    plain = dataset("1.2.840.10008.5.1.4.1.1.7", "1.2.840.10008.1.2.1")
    describe_pixels(plain, image)
    set_pixels(plain, [image], "native")
    save(plain, tmp_path / "plain.dcm")
    for option in ("+e1", "+el"):
        assert peers.run("dcmcjpeg", "dcmtk", option, tmp_path / "plain.dcm", tmp_path / "small.dcm").returncode == 0
        with open_exam(tmp_path / "small.dcm", mask=False) as exam:
            assert np.array_equal(exam.image(0), image)
