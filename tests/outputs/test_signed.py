"""A signed report for other systems: objects and bundles that the standards accept, with what was signed in them."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest

from dice_ce.exam.codec import encode_image
from dice_ce.outputs.fhir import RELEASES
from dice_ce.outputs.signed import SignedFinding, SignedImage, SignedReview, bundle, dicom_files, fhir_files
from tests import peers
from tests.outputs.test_fhir import of_kind, validate

IMAGE = encode_image(np.full((64, 64, 3), 120, np.uint8), ".jpg")
SIGNED = SignedReview(
    exam_digest="e" * 64,
    version=1,
    by="anna",
    at=datetime(2026, 3, 5, 14, 7, 9, 123456, UTC),
    pdf=b"%PDF-1.7 what was signed",
    impression="Polyp of the small bowel.",
    findings=(
        SignedFinding("polyp", 20, 20.5, "wide neck"),
        SignedFinding("Meckel's diverticulum", 60, 60.0, ""),
    ),
    images=(SignedImage(1, 1, 20, IMAGE), SignedImage(2, 1, 21, IMAGE), SignedImage(3, 2, 60, IMAGE)),
    is_exam_time=True,
    model="simulated 0123456789ab",
)
BARE = dataclasses.replace(SIGNED, findings=(), images=(), impression="", model="")


def test_objects_say_who_signed_when_and_what() -> None:
    files = {name: pydicom.dcmread(io.BytesIO(content)) for name, content in dicom_files(SIGNED).items()}
    document = files["document.dcm"]
    assert document.EncapsulatedDocument == SIGNED.pdf
    assert (document.ContentDate, document.ContentTime) == ("20260305", "140709")
    assert "signed report, version 1" in document.DocumentTitle
    assert files["images/03.dcm"].ImageComments.startswith(
        "Finding 2: Meckel's diverticulum. In the report signed by anna"
    )
    assert len({one.StudyInstanceUID for one in files.values()}) == 1
    later = pydicom.dcmread(io.BytesIO(dicom_files(dataclasses.replace(SIGNED, pdf=b"%PDF-1.7 other"))["document.dcm"]))
    assert later.SOPInstanceUID != document.SOPInstanceUID, "another version is another object"
    assert later.StudyInstanceUID == document.StudyInstanceUID


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("signed", [SIGNED, BARE], ids=["findings", "none"])
def test_bundles_follow_the_published_schema(signed: SignedReview, release: str) -> None:
    validate(bundle(signed, release), release)


@pytest.mark.parametrize("release", RELEASES)
def test_a_bundle_holds_what_was_signed(release: str) -> None:
    made = bundle(SIGNED, release)
    (report,) = of_kind(made, "DiagnosticReport")
    assert (report["status"], report["conclusion"]) == ("final", "Polyp of the small bowel.")
    assert report["resultsInterpreter"] == [{"display": "anna"}]
    assert base64.b64decode(report["presentedForm"][0]["data"]) == SIGNED.pdf
    polyp, own = of_kind(made, "Observation")
    assert [entry["fullUrl"] for entry in made["entry"] if entry["resource"] in (polyp, own)] == [
        one["reference"] for one in report["result"]
    ]
    assert polyp["valueCodeableConcept"]["coding"][0]["code"] == "41329004"
    assert own["valueCodeableConcept"] == {"text": "Meckel's diverticulum"}, "words of the reader have no code"
    assert [len(one["derivedFrom"]) for one in (polyp, own)] == [2, 1]
    words = json.dumps(made)
    assert "preliminary" not in words
    assert "Patient" not in words
    (amended,) = of_kind(bundle(dataclasses.replace(SIGNED, version=2), release), "DiagnosticReport")
    assert amended["status"] == "amended"


@pytest.mark.parametrize("make", [dicom_files, fhir_files])
def test_exporting_twice_gives_the_same_bytes(make: Any) -> None:
    assert make(SIGNED) == make(dataclasses.replace(SIGNED))


@pytest.mark.parametrize("signed", [SIGNED, BARE], ids=["findings", "none"])
def test_dcmtk_and_dciodvfy_find_nothing_wrong(signed: SignedReview, tmp_path: Path) -> None:
    for name, content in dicom_files(signed).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        assert not peers.run("dcmdump", "dcmtk", path).stderr
        checked = peers.run("dciodvfy", "dicom3tools", path)
        assert not [line for line in (checked.stdout + checked.stderr).splitlines() if line.startswith("Error")], name
