"""FHIR: the summary as a transaction Bundle, in R4 and in R5.

A DiagnosticReport with an Observation per finding, its key frame (Media in R4; DocumentReference in R5, and an
ImagingSelection where the frame is in a DICOM object), the Device that found it, and Provenance. Nothing is invented:
patient, study and accession number are there only if they were given.
"""

from __future__ import annotations

import base64
import importlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dice_ce import DISCLAIMER
from dice_ce.exam.dicom.identity import Identity
from dice_ce.files import write_atomically
from dice_ce.method.summary import SummaryItem
from dice_ce.outputs.dicom import codes
from dice_ce.outputs.dicom.codes import SYSTEMS, Coded, code_of
from dice_ce.outputs.results import Results

RELEASES = {"R4": "fhir.resources.R4B", "R5": "fhir.resources"}
"""Models that validate; for the resources used here, those of R4B are those of R4."""
NAMESPACE = uuid.UUID("0c1f7a54-36d1-5b39-9c3c-2f8f2c1de0aa")
DICOM_UID = "urn:dicom:uid"
ABSENT = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
Resource = dict[str, Any]


def export(results: Results, folder: Path) -> None:
    """Write a bundle for each release; the same results give the same bytes."""
    for release in RELEASES:
        text = json.dumps(bundle(results, release), indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / f"bundle-{release.lower()}.json", text.encode())


def bundle(results: Results, release: str) -> Resource:
    """Build the bundle and have it validated."""
    return validated(_Maker(results, release).bundle(), release)


def transaction(resources: Mapping[str, Resource]) -> Resource:
    """Put resources, by the name that others refer to, into a bundle that a server takes whole or not at all."""
    return {
        "resourceType": "Bundle",
        "type": "transaction",
        "entry": [
            {"fullUrl": url, "resource": resource, "request": {"method": "POST", "url": resource["resourceType"]}}
            for url, resource in resources.items()
        ],
    }


def validated(made: Resource, release: str) -> Resource:
    """Have a bundle validated, resource by resource."""
    models = RELEASES[release]
    for entry in made["entry"]:
        kind = entry["resource"]["resourceType"]
        model = getattr(importlib.import_module(f"{models}.{kind.lower()}"), kind)
        model.model_validate(entry["resource"])
    importlib.import_module(f"{models}.bundle").Bundle.model_validate(made)
    return made


def concept(*coded: Coded, text: str = "") -> Resource:
    """Write codes as a CodeableConcept."""
    coding = [{"system": SYSTEMS[code.scheme], "code": code.value, "display": code.meaning} for code in coded]
    return {"coding": coding, "text": text or coded[0].meaning}


def device(software: str, model: str, release: str) -> Resource:
    """Say which software it was."""
    is_r4 = release == "R4"
    name = {"name" if is_r4 else "value": "DiCE-CE", "type": "model-name" if is_r4 else "registered-name"}
    return without(
        resourceType="Device",
        status="active",
        manufacturer="DiCE-CE developers",
        **{"deviceName" if is_r4 else "name": [name]},
        modelNumber=model,
        version=[{"value": software}],
        note=[{"text": DISCLAIMER}],
    )


def without(**fields: Any) -> Resource:
    """Leave out what is unknown: FHIR has no empty values."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


class _Maker:
    """Makes the resources of one exam in one release."""

    def __init__(self, results: Results, release: str) -> None:
        self.results, self.summary, self.is_r4 = results, results.summary, release == "R4"
        self.identity = results.identity or Identity()
        self.release = release

    def bundle(self) -> Resource:
        """Put the resources in an order in which none refers to a later one, but for the report."""
        device = self.device()
        resources = {"device": device}
        for number, item in enumerate(self.summary.items, start=1):
            resources[f"image-{number}"] = self.image(number, item)
            if not self.is_r4 and (selection := self.selection(number, item)):
                resources[f"selection-{number}"] = selection
            resources[f"finding-{number}"] = self.finding(number, item)
        resources["report"] = self.report()
        resources["provenance"] = self.provenance()
        return transaction({self.url(name): resource for name, resource in resources.items()})

    def url(self, name: str) -> str:
        """Name a resource inside the bundle; the server gives it its own id."""
        return f"urn:uuid:{uuid.uuid5(NAMESPACE, f'{self.results.digest}/{self.release}/{name}')}"

    def reference(self, name: str) -> Resource:
        return {"reference": self.url(name)}

    # --- whose exam it is, if that was asked for ------------------------------------------------------------------

    def subject(self) -> Resource | None:
        """Refer to the patient by the identifier that the user gave."""
        identity = self.identity
        if not identity.patient_id:
            return None
        identifier = without(system=identity.patient_id_system, value=identity.patient_id)
        return {"type": "Patient", "identifier": identifier}

    def study(self) -> Resource | None:
        """Refer to the study by its UID."""
        if not self.identity.study_uid:
            return None
        identifier = {"system": DICOM_UID, "value": f"urn:oid:{self.identity.study_uid}"}
        return {"type": "ImagingStudy", "identifier": identifier}

    def accession(self) -> list[Resource]:
        """Refer to the request by its accession number."""
        if not self.identity.accession_number:
            return []
        identifier = without(system=self.identity.accession_system, value=self.identity.accession_number)
        return [{"type": "ServiceRequest", "identifier": identifier}]

    def effective(self) -> str | None:
        day = self.identity.study_date
        return f"{day[:4]}-{day[4:6]}-{day[6:]}" if day else None

    # --- resources ------------------------------------------------------------------------------------------------

    def device(self) -> Resource:
        made = self.summary.provenance
        model = f"{made.bundle.name} {made.bundle.digest[:12]}"
        return device(f"{made.software} {made.version}", model, self.release)

    def image(self, number: int, item: SummaryItem) -> Resource:
        """Hand over the key frame."""
        attachment = {
            "contentType": "image/jpeg",
            "data": base64.b64encode(self.results.keyframes[number - 1]).decode(),
            "title": f"{item.label}, frame {item.keyframe.frame}",
        }
        if self.is_r4:
            return without(
                resourceType="Media", status="completed", subject=self.subject(), content=attachment
            )  # its device would have to be the capsule
        return without(
            resourceType="DocumentReference",
            status="current",
            docStatus="preliminary",
            subject=self.subject(),
            description=attachment["title"],
            content=[{"attachment": attachment}],
        )

    def selection(self, number: int, item: SummaryItem) -> Resource | None:
        """Point at the frame in the DICOM object of the exam."""
        place = self.identity.place_of(item.keyframe.frame)
        if place is None:
            return None
        instance, frame = place
        return without(
            resourceType="ImagingSelection",
            status="available",
            subject=self.subject(),
            code=concept(codes.FOR_RESEARCH),
            studyUid=self.identity.study_uid,
            seriesUid=instance.series,
            instance=[
                without(
                    uid=instance.sop_instance,
                    sopClass={"system": DICOM_UID, "code": f"urn:oid:{instance.sop_class}"},
                    subset=[str(frame)] if instance.frames > 1 else None,
                )
            ],
        )

    def finding(self, number: int, item: SummaryItem) -> Resource:
        """Say what was found, when, and how sure the program is."""
        is_exam_time = self.summary.exam.clock.is_exam_time
        reliability = self.summary.reliability_of(item.label)
        time = codes.EXAM_TIME if is_exam_time else codes.PLAYBACK_TIME
        images = [self.reference(f"image-{number}")]
        if not self.is_r4 and self.identity.place_of(item.keyframe.frame) is not None:
            images.append(self.reference(f"selection-{number}"))

        def measured(code: Coded, value: float, unit: Coded) -> Resource:
            quantity = {"value": value, "unit": unit.value, "system": SYSTEMS["UCUM"], "code": unit.value}
            return {"code": concept(code), "valueQuantity": quantity}

        return without(
            resourceType="Observation",
            status="preliminary",
            code=concept(codes.FINDING),
            subject=self.subject(),
            effectiveDateTime=self.effective(),
            valueCodeableConcept=concept(code_of(item.label), text=item.label),
            device=self.reference("device"),
            derivedFrom=images,
            note=[{"text": item.reason}, {"text": DISCLAIMER}],
            component=[
                measured(codes.CERTAINTY, round(100 * item.confidence, 4), codes.PERCENT),
                measured(time, item.keyframe.seconds, codes.SECOND),
                measured(codes.FIRST_TIME, item.first_seconds, codes.SECOND),
                measured(codes.LAST_TIME, item.last_seconds, codes.SECOND),
                measured(codes.FRAME, item.keyframe.frame, codes.UNITY),
                {
                    "code": concept(codes.RELIABILITY),
                    "valueString": f"{reliability.grade}: {reliability.explain()}",
                },
            ],
        )

    def report(self) -> Resource:
        """Collect the findings, with the PDF."""
        from dice_ce.outputs.pdf import render_pdf
        from dice_ce.outputs.pdf.content import limits

        numbers = range(1, len(self.summary.items) + 1)
        study = self.study()
        findings = ", ".join(item.label for item in self.summary.items) or "none"
        return without(
            resourceType="DiagnosticReport",
            status="preliminary",
            basedOn=self.accession(),
            code=concept(codes.REPORT, text="Capsule endoscopy, summary proposed by software"),
            subject=self.subject(),
            effectiveDateTime=self.effective(),
            result=[self.reference(f"finding-{number}") for number in numbers],
            **{("imagingStudy" if self.is_r4 else "study"): [study] if study else None},
            media=[{"link": self.reference(f"image-{number}")} for number in numbers],
            conclusion=f"{DISCLAIMER} Findings proposed: {findings}. Not examined: {' '.join(limits(self.summary))}",
            presentedForm=[
                {
                    "contentType": "application/pdf",
                    "data": base64.b64encode(render_pdf(self.results)).decode(),
                    "title": "Capsule endoscopy, summary",
                }
            ],
        )

    def provenance(self) -> Resource:
        """Say what made the report out of what. When is not known: the same exam gives the same report at any time."""
        made = self.summary.provenance
        targets = ["report", *(f"finding-{number}" for number in range(1, len(self.summary.items) + 1))]
        absent = {"extension": [{"url": ABSENT, "valueCode": "unknown"}]}
        return {
            "resourceType": "Provenance",
            "target": [self.reference(name) for name in targets],
            "_recorded": absent,
            "agent": [{"who": self.reference("device")}],
            "entity": [
                {
                    "role": "source",
                    "what": {"display": f"capsule exam, SHA-256 {self.summary.exam.digest}"},
                },
                {
                    "role": "source",
                    "what": {"display": f"model {made.bundle.name}, SHA-256 {made.bundle.digest}"},
                },
            ],
        }
