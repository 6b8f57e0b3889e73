"""All DICOM objects of an exam. Study, series and object UIDs follow from the content, so that exporting twice gives
the same bytes, and sending twice stores once.
"""

from __future__ import annotations

import copy
import io
import uuid
from dataclasses import dataclass
from typing import Any

from dice_ce.errors import InputError
from dice_ce.exam.dicom.identity import Identity
from dice_ce.outputs.dicom import codes
from dice_ce.outputs.dicom.report import MANUFACTURER, Shown, concept, measurement_report
from dice_ce.outputs.keyframes import keyframe_name
from dice_ce.outputs.results import Results

RESEARCH = "For research use only"
UNKNOWN_DATE = "19000101"
"""Content Date must have a value; without a date of the study there is none that is true and the same every time."""
SERIES = {"keyframes": 9801, "report": 9802, "key objects": 9803, "document": 9804}
"""Series numbers, far from those of a recorder."""
# fmt: off
MOMENTS = (
    "InstanceCreationDate", "InstanceCreationTime", "SeriesDate", "SeriesTime", "DateOfSecondaryCapture",
    "TimeOfSecondaryCapture",
)
# fmt: on
"""When an object was written; left out, or no two exports would be alike."""
NAMESPACE = uuid.UUID("6f3b1c52-8f0b-5b0e-9d5c-2f6c2d8f4a11")


def stable_uid(*parts: str) -> str:
    """Make a UID from content (PS3.5 B.2: 2.25 and a UUID)."""
    return f"2.25.{uuid.uuid5(NAMESPACE, '/'.join(parts)).int}"


def dicom_files(results: Results) -> dict[str, bytes]:
    """Return every object by its file name."""
    from dice_ce.outputs.pdf import render_pdf

    maker = _Maker(results)
    document = maker.document(render_pdf(results), "summary")
    images, shown = maker.key_images()
    objects = {**images, "report.dcm": maker.report(shown), "document.dcm": document}
    if shown:
        objects["key_objects.dcm"] = maker.key_objects(shown)
    return {name: object_bytes(one) for name, one in objects.items()}


@dataclass(frozen=True)
class Maker:
    """What made the content of the objects."""

    version: str
    """Of this software."""
    model: str
    """Digest of the bundle; empty if there was none."""


class Study:
    """Makes objects of one study: what they share, images and documents."""

    def __init__(
        self, exam_digest: str, digest: str, maker: Maker, identity: Identity, moment: tuple[str, str]
    ) -> None:
        self.digest, self.maker, self.identity = digest, maker, identity
        self.moment = moment
        """Content Date and Time."""
        self.study_uid = identity.study_uid or stable_uid("study", exam_digest)
        self.header = self._header()

    def _header(self) -> Any:
        """Describe patient and study, as highdicom takes them from an object at hand."""
        from pydicom.dataset import Dataset

        header, identity = Dataset(), self.identity
        header.SpecificCharacterSet = "ISO_IR 192"
        header.PatientID, header.PatientName = identity.patient_id, identity.patient_name
        header.PatientBirthDate, header.PatientSex = identity.birth_date, identity.sex
        header.StudyInstanceUID, header.StudyID = self.study_uid, identity.study_id
        header.StudyDate, header.StudyTime = identity.study_date, identity.study_time
        header.AccessionNumber, header.ReferringPhysicianName = identity.accession_number, identity.referring_physician
        header.SOPClassUID, header.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.66", self._uid("header")
        header.SeriesInstanceUID = self._uid("header series")
        return header

    def _uid(self, *parts: str) -> str:
        return stable_uid(self.digest, *parts)

    def _place(self, kind: str, number: int = 1) -> dict[str, Any]:
        return {
            "series_instance_uid": self._uid(kind),
            "series_number": SERIES[kind],
            "sop_instance_uid": self._uid(kind, str(number)),
            "instance_number": number,
            "manufacturer": MANUFACTURER,
        }

    def _patient(self) -> dict[str, Any]:
        header = self.header
        return {
            "study_instance_uid": header.StudyInstanceUID,
            "patient_id": header.PatientID,
            "patient_name": header.PatientName,
            "patient_birth_date": header.PatientBirthDate,
            "patient_sex": header.PatientSex or None,
            "accession_number": header.AccessionNumber,
            "study_id": header.StudyID,
            "study_date": header.StudyDate or None,
            "study_time": header.StudyTime or None,
            "referring_physician_name": header.ReferringPhysicianName,
        }

    def capture(self, number: int, jpeg: bytes, frame: int, comments: str) -> Any:
        """Make a Secondary Capture that holds the JPEG of a key frame as it is."""
        import highdicom
        from pydicom.encaps import encapsulate
        from pydicom.uid import JPEGBaseline8Bit

        one = highdicom.sc.SCImage(
            pixel_array=decode_jpeg(jpeg),
            photometric_interpretation="RGB",
            bits_allocated=8,
            coordinate_system="PATIENT",
            patient_orientation=("L", "F"),
            **self._place("keyframes", number),
            **self._patient(),
        )
        raw = one.Rows * one.Columns * 3
        one.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
        one.PhotometricInterpretation = "YBR_FULL_422"  # though our JPEGs are 4:4:4; dciodvfy accepts it
        one.PixelData = encapsulate([jpeg])
        one["PixelData"].VR, one["PixelData"].is_undefined_length = "OB", True
        one.PatientOrientation = ""
        one.ImageType = ["DERIVED", "SECONDARY"]
        one.ConversionType, one.Modality = "WSD", "ES"
        one.LossyImageCompression, one.LossyImageCompressionMethod = "01", "ISO_10918_1"
        one.LossyImageCompressionRatio = f"{raw / len(jpeg):.2f}"
        one.DerivationDescription = f"Frame {frame} of the exam, black outside the field of view"
        one.ImageComments = f"{comments}. {RESEARCH}."
        one.Laterality = ""
        return self.finish(one, f"Key frames. {RESEARCH}")

    def document(self, pdf: bytes, title: str) -> Any:
        """Make the Encapsulated PDF."""
        from highdicom.base import SOPClass
        from pydicom.uid import EncapsulatedPDFStorage, ExplicitVRLittleEndian

        one = SOPClass(
            sop_class_uid=EncapsulatedPDFStorage,
            modality="DOC",
            transfer_syntax_uid=ExplicitVRLittleEndian,
            **self._place("document"),
            **self._patient(),
        )
        one.ConversionType = "WSD"
        # Text that the recorder burned into the field of view may still be in the images: nobody has looked.
        one.BurnedInAnnotation = "YES"
        one.AcquisitionDateTime = ""
        one.DocumentTitle = f"Capsule endoscopy, {title}. {RESEARCH}"
        one.ConceptNameCodeSequence = []
        one.MIMETypeOfEncapsulatedDocument = "application/pdf"
        one.EncapsulatedDocumentLength = len(pdf)
        one.EncapsulatedDocument = pdf + b"\0" * (len(pdf) % 2)
        return self.finish(one, f"{title[:1].upper()}{title[1:]} as PDF. {RESEARCH}")

    def finish(self, one: Any, title: str) -> Any:
        """Fill in what all objects share, and replace the moment of writing, or no two exports would be alike."""
        one.SpecificCharacterSet = "ISO_IR 192"
        one.SeriesDescription = title
        one.SoftwareVersions = f"dice-ce {self.maker.version}"
        one.ManufacturerModelName = "DiCE-CE"
        if self.maker.model:
            one.DeviceSerialNumber = self.maker.model[:12]
        one.ContentDate, one.ContentTime = self.moment
        one.pop("ContributingEquipmentSequence", None)
        for name in MOMENTS:
            if name in one:
                delattr(one, name)
        if self.identity.study_description:
            one.StudyDescription = self.identity.study_description
        return one


class _Maker(Study):
    """Makes the objects of a summary."""

    def __init__(self, results: Results) -> None:
        self.results, self.summary = results, results.summary
        made, identity = results.summary.provenance, results.identity or Identity()
        super().__init__(
            results.summary.exam.digest,
            results.digest,
            Maker(made.version, made.bundle.digest),
            identity,
            (identity.study_date or UNKNOWN_DATE, identity.study_time or "000000"),
        )

    def key_images(self) -> tuple[dict[str, Any], list[Shown]]:
        """Show key frames as Secondary Captures, or where they are in the DICOM objects of the exam."""
        places = [self.identity.place_of(item.keyframe.frame) for item in self.summary.items]
        if self.identity.instances:
            return {}, [
                Shown(place[0].sop_class, place[0].sop_instance, place[1] if place[0].frames > 1 else None)
                for place in places
                if place is not None
            ]
        images = {
            f"keyframes/{keyframe_name(number, item).removesuffix('.jpg')}.dcm": self.capture(
                number, jpeg, item.keyframe.frame, f"{item.label}, certainty {100 * item.confidence:.0f} %"
            )
            for number, (item, jpeg) in enumerate(zip(self.summary.items, self.results.keyframes, strict=True), start=1)
        }
        return images, [Shown(one.SOPClassUID, one.SOPInstanceUID, None) for one in images.values()]

    def report(self, shown: list[Shown]) -> Any:
        """Make the structured report."""
        from highdicom.sr import ComprehensiveSR
        from pydicom.dataset import Dataset

        uids = [self._uid("finding", item.id) for item in self.summary.items]
        device = stable_uid("device", self.summary.provenance.version, self.summary.provenance.bundle.digest)
        content = measurement_report(self.summary, shown, uids, device)
        one = ComprehensiveSR(
            evidence=self._evidence(shown) or [self.header],
            content=content[0],
            is_complete=True,
            is_final=False,
            is_verified=False,
            record_evidence=False,
            **self._place("report"),
        )
        if not shown:  # then the header stood in for an image
            del one.CurrentRequestedProcedureEvidenceSequence
        scheme = Dataset()
        scheme.CodingSchemeDesignator, scheme.CodingSchemeName = codes.PRIVATE, codes.PRIVATE_NAME
        scheme.CodingSchemeResponsibleOrganization = MANUFACTURER
        one.CodingSchemeIdentificationSequence = [scheme]
        return self.finish(one, f"Findings of a capsule exam. {RESEARCH}")

    def key_objects(self, shown: list[Shown]) -> Any:
        """Make the Key Object Selection of all key frames."""
        from highdicom.ko import KeyObjectSelection, KeyObjectSelectionDocument

        evidence = self._evidence(shown)
        content = KeyObjectSelection(
            document_title=concept(codes.FOR_RESEARCH),
            referenced_objects=evidence,
            description=f"Key frames of {len(shown)} findings. {self.summary.disclaimer}",
        )
        frames: dict[str, list[int]] = {}
        for place in shown:
            if place.frame is not None:
                frames.setdefault(place.sop_instance, []).append(place.frame)
        for item in content[0].ContentSequence:
            for reference in item.get("ReferencedSOPSequence", ()):
                numbers = sorted(set(frames.get(str(reference.ReferencedSOPInstanceUID), [])))
                if numbers:
                    reference.ReferencedFrameNumber = numbers
        one = KeyObjectSelectionDocument(evidence=evidence, content=content, **self._place("key objects"))
        return self.finish(one, f"Key frames. {RESEARCH}")

    def _evidence(self, shown: list[Shown]) -> list[Any]:
        """Describe the images that are referred to, each once."""
        series = {instance.sop_instance: instance.series for instance in self.identity.instances}
        found = {}
        for place in shown:
            one = copy.deepcopy(self.header)
            one.SOPClassUID, one.SOPInstanceUID = place.sop_class, place.sop_instance
            one.SeriesInstanceUID = series.get(place.sop_instance) or self._uid("keyframes")
            one.Rows, one.Columns = self.summary.exam.height, self.summary.exam.width
            found[place.sop_instance] = one
        return list(found.values())


def decode_jpeg(content: bytes) -> Any:
    """Decode a key frame to RGB."""
    import numpy as np
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"a key frame is damaged ({error}); run summarize again") from error


def object_bytes(one: Any) -> bytes:
    """Write an object as a file."""
    out = io.BytesIO()
    one.save_as(out, enforce_file_format=True)
    return out.getvalue()
