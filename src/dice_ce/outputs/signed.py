"""A report that a person has signed, for other systems: the PDF in a DICOM envelope with the images that it shows, and
a FHIR bundle of confirmed findings. Both hold the signed PDF byte for byte; nothing of the software's own results is
in them but the name of what proposed findings.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from dice_ce import DISCLAIMER, __version__
from dice_ce.exam.clock import hms
from dice_ce.exam.dicom.identity import Identity
from dice_ce.outputs import fhir
from dice_ce.outputs.dicom import codes
from dice_ce.outputs.fhir import NAMESPACE, Resource, concept, without


@dataclass(frozen=True)
class SignedImage:
    """An image of the report."""

    number: int
    """Its place in the report, from 1."""
    finding: int
    """The finding that it shows, from 1."""
    frame: int
    jpeg: bytes


@dataclass(frozen=True)
class SignedFinding:
    """A finding that was confirmed."""

    label: str
    frame: int
    seconds: float
    note: str


@dataclass(frozen=True)
class SignedReview:
    """A version of a report, as it was signed."""

    exam_digest: str
    version: int
    by: str
    at: datetime
    pdf: bytes
    impression: str
    findings: tuple[SignedFinding, ...]
    images: tuple[SignedImage, ...]
    is_exam_time: bool
    model: str
    """Name and digest of the bundle that proposed findings; empty where nothing was summarised."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the PDF: what was signed."""
        return hashlib.sha256(self.pdf).hexdigest()


def dicom_files(signed: SignedReview) -> dict[str, bytes]:
    """Return every DICOM object by its file name; the same signature gives the same bytes."""
    from dice_ce.outputs.dicom.objects import Maker, Study, object_bytes

    at = signed.at.astimezone(UTC)
    moment = (at.strftime("%Y%m%d"), at.strftime("%H%M%S"))
    maker = Maker(__version__, signed.model.rpartition(" ")[2])
    study = Study(signed.exam_digest, signed.digest, maker, Identity(), moment)
    objects = {"document.dcm": study.document(signed.pdf, f"signed report, version {signed.version}")}
    for image in signed.images:
        finding = signed.findings[image.finding - 1]
        said = f"Finding {image.finding}: {finding.label}. In the report signed by {signed.by}"
        objects[f"images/{image.number:02d}.dcm"] = study.capture(image.number, image.jpeg, image.frame, said)
    return {name: object_bytes(one) for name, one in objects.items()}


def fhir_files(signed: SignedReview) -> dict[str, bytes]:
    """Return a bundle for each release by its file name; the same signature gives the same bytes."""
    return {
        f"bundle-{release.lower()}.json": (
            json.dumps(bundle(signed, release), indent=1, ensure_ascii=False) + "\n"
        ).encode()
        for release in fhir.RELEASES
    }


def bundle(signed: SignedReview, release: str) -> Resource:
    """Build the bundle and have it validated. Patient and study are not known here, and so not named."""

    def url(name: str) -> str:
        return f"urn:uuid:{uuid.uuid5(NAMESPACE, f'{signed.digest}/{release}/{name}')}"

    def references(names: list[str]) -> list[Resource]:
        return [{"reference": url(name)} for name in names]

    images = {f"image-{one.number}": one for one in signed.images}
    resources: dict[str, Resource] = {"device": fhir.device(f"dice-ce {__version__}", signed.model, release)}
    resources |= {name: _image(signed, image, release) for name, image in images.items()}
    findings = []
    for number, finding in enumerate(signed.findings, start=1):
        shown = [name for name, image in images.items() if image.finding == number]
        findings.append(f"finding-{number}")
        resources[findings[-1]] = _finding(signed, finding) | without(derivedFrom=references(shown))
    resources["report"] = _report(signed) | without(
        result=references(findings), media=[{"link": one} for one in references(list(images))]
    )
    resources["provenance"] = {
        "resourceType": "Provenance",
        "target": references(["report", *findings]),
        "recorded": _instant(signed.at),
        "agent": [{"who": {"display": signed.by}}, {"who": {"reference": url("device")}}],
        "entity": [{"role": "source", "what": {"display": f"capsule exam, SHA-256 {signed.exam_digest}"}}],
    }
    return fhir.validated(fhir.transaction({url(name): one for name, one in resources.items()}), release)


def _image(signed: SignedReview, image: SignedImage, release: str) -> Resource:
    title = f"{signed.findings[image.finding - 1].label}, frame {image.frame}"
    attachment = {"contentType": "image/jpeg", "data": base64.b64encode(image.jpeg).decode(), "title": title}
    if release == "R4":
        return {"resourceType": "Media", "status": "completed", "content": attachment}
    return {
        "resourceType": "DocumentReference",
        "status": "current",
        "docStatus": "final",
        "description": title,
        "content": [{"attachment": attachment}],
    }


def _finding(signed: SignedReview, finding: SignedFinding) -> Resource:
    known = finding.label in codes.LABELS  # what readers write in their own words has no code

    def measured(code: codes.Coded, value: float, unit: codes.Coded) -> dict[str, Any]:
        quantity = {"value": value, "unit": unit.value, "system": codes.SYSTEMS["UCUM"], "code": unit.value}
        return {"code": concept(code), "valueQuantity": quantity}

    return without(
        resourceType="Observation",
        status=_status(signed),
        code=concept(codes.FINDING),
        issued=_instant(signed.at),
        performer=[{"display": signed.by}],
        valueCodeableConcept=concept(codes.code_of(finding.label), text=finding.label)
        if known
        else {"text": finding.label},
        note=[{"text": text} for text in (finding.note.strip(), DISCLAIMER) if text],
        component=[
            measured(codes.EXAM_TIME if signed.is_exam_time else codes.PLAYBACK_TIME, finding.seconds, codes.SECOND),
            measured(codes.FRAME, finding.frame, codes.UNITY),
        ],
    )


def _report(signed: SignedReview) -> Resource:
    named = [f"{one.label} at {hms(one.seconds)}" for one in signed.findings]
    return without(
        resourceType="DiagnosticReport",
        status=_status(signed),
        code=concept(codes.REPORT, text="Capsule endoscopy, report signed by a reader"),
        issued=_instant(signed.at),
        resultsInterpreter=[{"display": signed.by}],
        conclusion=signed.impression.strip() or f"Findings: {', '.join(named) or 'none'}.",
        presentedForm=[
            {
                "contentType": "application/pdf",
                "data": base64.b64encode(signed.pdf).decode(),
                "title": f"Capsule endoscopy report, version {signed.version}",
            }
        ],
    )


def _status(signed: SignedReview) -> str:
    return "final" if signed.version == 1 else "amended"


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")
