"""Codes: standard ones where a correct one exists, ours where not. docs/reference/dicom.md publishes this table.

No code is guessed: a standard code stands in the dictionaries that pydicom generates from DICOM PS3.16, where a test
looks it up by its meaning, or in the value set that is named beside it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

PRIVATE = "99DICECE"
"""Coding scheme designator of our own codes; those that begin with 99 are private."""
PRIVATE_NAME = "DiCE-CE private codes"
PRIVATE_URI = "urn:dice-ce:codes"
SYSTEMS = {
    "SCT": "http://snomed.info/sct",
    "DCM": "http://dicom.nema.org/resources/ontology/DCM",
    "UCUM": "http://unitsofmeasure.org",
    "UMLS": "http://terminology.hl7.org/CodeSystem/umls",
    PRIVATE: PRIVATE_URI,
}
"""What FHIR calls the coding schemes."""


@dataclass(frozen=True)
class Coded:
    """One coded concept."""

    value: str
    scheme: str
    meaning: str
    source: str
    """Where a standard code comes from; for one of ours, why none of the standard ones fits."""


def _ours(value: str, meaning: str, why: str) -> Coded:
    return Coded(value, PRIVATE, meaning, why)


EHDSI = "eHDSI Morphologic Abnormality 8.1.0"
"""Value set of HL7 Europe, OID 1.3.6.1.4.1.12559.11.10.1.3.1.42.69, of SNOMED CT International of February 2025."""

LABELS: dict[str, Coded] = {
    "ulcer": Coded("56208002", "SCT", "Ulcer", "PS3.16 CID 6209"),
    "erosion": _ours("EROSION", "Erosion of mucosa", "no code in PS3.16 or eHDSI"),
    "angioectasia": Coded("174637007", "SCT", "Angiectasia", EHDSI),
    "mucosal erythema": Coded("70819003", "SCT", "Erythema", EHDSI),
    "eminence lesion": _ours(
        "EMINENCE-LESION", "Eminence lesion", "no code in PS3.16 for a protrusion of unknown origin"
    ),
    "hematocele": _ours(
        "HEMATOCELE", "Blood in the lumen", "SCT 50960005 of PS3.16 is bleeding, and old blood need not be"
    ),
    "lymphangiectasia": _ours("LYMPHANGIECTASIA", "Lymphangiectasia", "no code in PS3.16 or eHDSI"),
    "lymphoid follicular hyperplasia": _ours(
        "LYMPH-FOLLICLE", "Lymphoid follicular hyperplasia", "no code in PS3.16 or eHDSI"
    ),
    "polyp": Coded("41329004", "SCT", "Polyp", EHDSI),
    "parasite": _ours("PARASITE", "Parasite in the lumen", "no code in PS3.16"),
    "intestinal fluid accumulation": _ours(
        "FLUID", "Intestinal fluid accumulation", "SCT 442170005 of PS3.16 CID 6201 is fluid in the colon"
    ),
    "normal": Coded("17621005", "SCT", "Normal", "PS3.16 CID 222"),
}
"""By label of VideoCAP."""

FINDING = Coded("121071", "DCM", "Finding", "PS3.16 CID 7002")
CERTAINTY = Coded("111012", "DCM", "Certainty of Finding", "PS3.16 CID 6048")
REPORT = Coded("126000", "DCM", "Imaging Measurement Report", "PS3.16 CID 7021")
PROCEDURE = Coded("363679005", "SCT", "Imaging procedure", "PS3.16 CID 100; it has no code for capsule endoscopy")
FOR_RESEARCH = Coded("113009", "DCM", "For Research", "PS3.16 CID 7010")
PARAMETERS = Coded("111002", "DCM", "Algorithm Parameters", "PS3.16 Annex D")
COMMENT = Coded("121106", "DCM", "Comment", "PS3.16 CID 12101")
YES = Coded("373066001", "SCT", "Yes", "PS3.16 CID 230")
NO = Coded("373067005", "SCT", "No", "PS3.16 CID 230")
EVALUATIONS = Coded("C0034375", "UMLS", "Qualitative Evaluations", "PS3.16 TID 1500")
PERCENT = Coded("%", "UCUM", "Percent", "UCUM")
SECOND = Coded("s", "UCUM", "second", "UCUM")
UNITY = Coded("1", "UCUM", "no units", "UCUM")

EXAM_TIME = _ours("EXAM-TIME", "Time since the first frame was taken", "no code in PS3.16 for a capsule's clock")
PLAYBACK_TIME = _ours("PLAYBACK-TIME", "Playback time in the video", "no code in PS3.16")
FIRST_TIME = _ours("FIRST-TIME", "Time of the first frame of the finding", "no code in PS3.16")
LAST_TIME = _ours("LAST-TIME", "Time of the last frame of the finding", "no code in PS3.16")
FRAME = _ours("FRAME", "Frame of the exam, counted from 0", "no code in PS3.16; frames in DICOM count from 1")
SUPPORT = _ours("SUPPORT", "Frames that support the finding", "no code in PS3.16")
ABNORMALITY = _ours("ABNORMALITY", "Probability of the least normal frame not to be normal", "a quantity of the method")
SCORE = _ours("SCORE", "Suspicion of the key frame", "a quantity of the method (docs/explanation/method.md)")
PROBABILITY = _ours("PROBABILITY", "Probability of the label in the key frame", "a quantity of the method")
MARGIN = _ours("MARGIN", "Lead over the next label", "a quantity of the method")
RUNNER_UP = _ours("RUNNER-UP", "Next label", "a quantity of the method")
PROVISIONAL = _ours("PROVISIONAL", "Label before refinement", "a quantity of the method")
FELL_BACK = _ours("FELL-BACK", "No frame agreed strongly by itself", "a quantity of the method")
RELIABILITY = _ours("RELIABILITY", "How well the label is recognised", "no code in PS3.16")
REASON = _ours("REASON", "Reason", "no code in PS3.16")
KEYFRAME_FILE = _ours("KEYFRAME-FILE", "File of the key frame in the exam", "no code in PS3.16")
MARK = _ours("MARK", "Where the evidence lies", "no code in PS3.16; left, top, right, bottom as shares of the image")
FACT = _ours("FACT", "Fact of the exam", "no code in PS3.16; path and value as in summary.json")

CONCEPTS: tuple[Coded, ...] = (
    REPORT, PROCEDURE, FOR_RESEARCH, FINDING, CERTAINTY, PARAMETERS, COMMENT, YES, NO, EVALUATIONS, PERCENT, SECOND,
    UNITY, EXAM_TIME, PLAYBACK_TIME, FIRST_TIME, LAST_TIME, FRAME, SUPPORT, ABNORMALITY, SCORE, PROBABILITY,
    MARGIN, RUNNER_UP, PROVISIONAL, FELL_BACK, RELIABILITY, REASON, KEYFRAME_FILE, MARK, FACT,
)  # fmt: skip
"""All that are not labels."""


def code_of(label: str) -> Coded:
    """Return the code of a label; one of another taxonomy gets a code made from its name."""
    if label in LABELS:
        return LABELS[label]
    return _ours(f"L-{hashlib.sha256(label.encode()).hexdigest()[:12]}", label[:64], "a label of another taxonomy")
