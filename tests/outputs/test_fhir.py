"""FHIR: bundles that fhir.resources and the published JSON Schemas accept, with no identifier that nobody gave."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dice_ce import DISCLAIMER
from dice_ce.exam.dicom.identity import Identity
from dice_ce.outputs.dicom.codes import code_of
from dice_ce.outputs.fhir import RELEASES, bundle, export
from dice_ce.outputs.pdf import render_pdf
from dice_ce.outputs.results import Results
from tests.dicom_material import INSTANCE, PATIENT, SECRETS, SERIES
from tests.outputs.conftest import Summarised

SCHEMAS = Path(__file__).parent / "schemas"


def of_kind(made: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [entry["resource"] for entry in made["entry"] if entry["resource"]["resourceType"] == kind]


def validate(made: dict[str, Any], release: str) -> None:
    schema = json.loads((SCHEMAS / f"fhir-{release.lower()}.schema.json").read_text())
    for resource in [made, *(entry["resource"] for entry in made["entry"])]:
        kind = resource["resourceType"]
        jsonschema.Draft6Validator({**schema, "$ref": f"#/definitions/{kind}"}).validate(resource)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("with_identity", [False, True])
@pytest.mark.parametrize("has_findings", [True, False])
def test_bundles_follow_the_published_schema(
    summarised: Summarised, release: str, with_identity: bool, has_findings: bool
) -> None:
    results = summarised.results(with_identity=with_identity)
    if not has_findings:
        results = Results(dataclasses.replace(results.summary, items=()), (), results.identity)
    validate(bundle(results, release), release)


def test_the_schema_can_refuse(summarised: Summarised) -> None:
    made = bundle(summarised.results(), "R4")
    of_kind(made, "Observation")[0]["status"] = 7
    with pytest.raises(jsonschema.ValidationError):
        validate(made, "R4")


@pytest.mark.parametrize("release", RELEASES)
def test_every_finding_is_an_observation_of_the_report(summarised: Summarised, release: str) -> None:
    results = summarised.results()
    made = bundle(results, release)
    (report,) = of_kind(made, "DiagnosticReport")
    observations = of_kind(made, "Observation")
    urls = {entry["fullUrl"] for entry in made["entry"]}
    assert len(observations) == len(report["result"]) == len(results.summary.items)
    for observation, item in zip(observations, results.summary.items, strict=True):
        assert observation["valueCodeableConcept"]["coding"][0]["code"] == code_of(item.label).value
        assert observation["status"] == report["status"] == "preliminary"
        certainty = observation["component"][0]["valueQuantity"]
        assert (certainty["value"], certainty["code"]) == (pytest.approx(100 * item.confidence), "%")
        assert any(DISCLAIMER in note["text"] for note in observation["note"])
    references = [value for key, value in walk(made) if key == "reference"]
    assert references
    assert set(references) <= urls


def walk(value: Any, key: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [found for name, inner in value.items() for found in walk(inner, name)]
    if isinstance(value, list):
        return [found for inner in value for found in walk(inner, key)]
    return [(key, value)]


@pytest.mark.parametrize("release", RELEASES)
def test_images_and_the_pdf_are_inside(summarised: Summarised, release: str) -> None:
    results = summarised.results()
    made = bundle(results, release)
    images = of_kind(made, "Media") or of_kind(made, "DocumentReference")
    attachments = [image["content"] if release == "R4" else image["content"][0]["attachment"] for image in images]
    assert tuple(base64.b64decode(attachment["data"]) for attachment in attachments) == results.keyframes
    (report,) = of_kind(made, "DiagnosticReport")
    assert base64.b64decode(report["presentedForm"][0]["data"]) == render_pdf(results)
    assert "Not examined" in report["conclusion"]


@pytest.mark.parametrize("release", RELEASES)
def test_no_identifier_is_invented(summarised: Summarised, release: str) -> None:
    made = bundle(summarised.results(), release)
    assert not [key for key, _ in walk(made) if key in ("identifier", "subject", "studyUid", "id")]
    text = json.dumps(made)
    assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("release", RELEASES)
def test_identifiers_are_those_that_were_given(summarised: Summarised, release: str) -> None:
    identity = Identity(
        patient_id="4711", patient_id_system="urn:oid:1.2.3.4.5", accession_number="A1", study_uid="1.2.3.4.5.6"
    )
    made = bundle(dataclasses.replace(summarised.results(), identity=identity, rendered={}), release)
    (report,) = of_kind(made, "DiagnosticReport")
    assert report["subject"]["identifier"] == {"system": "urn:oid:1.2.3.4.5", "value": "4711"}
    assert report["basedOn"][0]["identifier"] == {"value": "A1"}
    assert report["imagingStudy" if release == "R4" else "study"][0]["identifier"]["value"] == "urn:oid:1.2.3.4.5.6"


def test_frames_of_dicom_exams_are_selected_in_r5(summarised: Summarised) -> None:
    results = summarised.results(with_identity=True)
    selections = of_kind(bundle(results, "R5"), "ImagingSelection")
    for selection, item in zip(selections, results.summary.items, strict=True):
        assert selection["studyUid"] == PATIENT["StudyInstanceUID"]
        assert selection["seriesUid"] == SERIES
        assert selection["instance"][0]["uid"] == INSTANCE
        assert selection["instance"][0]["subset"] == [str(item.keyframe.frame + 1)]


def test_exporting_twice_gives_the_same_bytes(summarised: Summarised, tmp_path: Path) -> None:
    export(summarised.results(), tmp_path / "one")
    export(summarised.read(), tmp_path / "other")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()
