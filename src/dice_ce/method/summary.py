"""The summary: one keyframe and one label per surviving context (paper, section 4.5, eq. 12), and its JSON contract.

What was dropped is kept beside it with the reason, so that a reader can restore it. The contract is these dataclasses;
its JSON Schema is generated from them (`python -m dice_ce.method.summary`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np

from dice_ce import DISCLAIMER
from dice_ce.errors import InputError
from dice_ce.exam.open import Exam
from dice_ce.features.gate import GateConfig
from dice_ce.features.store import Features
from dice_ce.files import printable, write_atomically
from dice_ce.method.beyond.familiar import UNFAMILIAR, unfamiliar_text
from dice_ce.method.beyond.listing import abnormality
from dice_ce.method.chain import Judged
from dice_ce.method.converger import Judgment, Verdict
from dice_ce.method.reliability import NOT_MEASURED, Reliability
from dice_ce.method.selector import Candidates, Screened
from dice_ce.settings import Value
from dice_ce.taxonomy import Taxonomy

Schema = Literal["dice-ce/summary/2"]
"""Raise the number when a field changes its meaning or goes; adding one is no new version."""
(SCHEMA,) = get_args(Schema)
SCHEMA_FILE = Path(__file__).parent / "schema" / "summary.schema.json"
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Distance = Annotated[float, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
"""SHA-256."""

ACTIVITY_BINS = 400
DIGITS = 6
"""Decimals of probabilities and scores in the JSON: more would only be noise."""


@dataclass(frozen=True)
class Frame:
    """One frame as evidence."""

    frame: Count
    seconds: Seconds
    score: Share
    """Selector score s_t."""
    probability: Share
    """What the diagnoser gives the context's label in this frame."""
    file: str | None = None
    """Name of the image file in its folder or zip; None in a video."""


@dataclass(frozen=True)
class Mark:
    """A rectangle of the keyframe, in shares of its width and height."""

    left: Share
    top: Share
    right: Share
    bottom: Share


@dataclass(frozen=True)
class SummaryItem:
    """One context: a finding, or one that was dropped."""

    id: str
    """Coarse and fine number of the context: `3.12`."""
    label: str
    confidence: Share
    """How sure the label is."""
    abnormality: Share
    """How sure it is that there is anything: 1 - p(normal) of the least normal frame. Lists are ordered by it."""
    verdict: Verdict
    reason: str
    """Why it was kept or dropped, for people."""
    runner_up: str
    margin: Share
    provisional: str
    """Label before refinement."""
    fell_back: bool
    """No frame agreed strongly with the provisional label by itself, so all were kept."""
    keyframe: Frame
    first_seconds: Seconds
    last_seconds: Seconds
    support: tuple[Frame, ...]
    dissent: tuple[Frame, ...]
    evidence_before: tuple[Share, ...]
    """Share of every label in all frames together."""
    evidence: tuple[Share, ...]
    """Share of every label in the supporting frames."""
    mark: Mark | None = None
    """Where in the keyframe the evidence lies; None where the model cannot tell, and for what was dropped."""


@dataclass(frozen=True)
class ClockFacts:
    """Where the times come from."""

    source: str
    detail: str
    is_exam_time: bool
    """False if only playback time is known."""
    first_seconds: Seconds
    last_seconds: Seconds


@dataclass(frozen=True)
class ExamFacts:
    """Identity, size, clock and damage of the exam."""

    id: str
    digest: Digest
    width: Count
    height: Count
    field: str
    """Shape of the field of view."""
    clock: ClockFacts
    undecodable: tuple[Count, ...]
    doubtful: Count
    """Frames decoded on top of an undecodable one."""
    warnings: tuple[str, ...]
    unfamiliar: Distance | None = None
    """How far the exam lies from what the model was trained on, by what its images look like: 1 is as far as few exams
    of known capsules, and from there on a warning says so; None where it cannot tell."""
    read: Share = 1.0
    """Share of the frames that were read; less than 1 where the run that writes this is not finished."""


@dataclass(frozen=True)
class Counts:
    """From all frames to the findings."""

    frames: Count
    decoded: Count
    candidates: Count
    diagnosed: Count
    """Candidates that the diagnoser looked at."""
    coarse_contexts: Count
    contexts: Count
    """Contexts that were judged."""
    not_looked_at: Count
    """Contexts of which the diagnoser saw no frame: others were more suspicious, or none could be decoded."""
    kept: Count
    dropped_normal: Count
    dropped_low_confidence: Count
    dropped_beside_surer: Count
    dropped_beyond_limit: Count


@dataclass(frozen=True)
class Activity:
    """Selector scores over the exam, binned, for drawing."""

    first_seconds: Seconds
    last_seconds: Seconds
    mean_score: tuple[Share, ...]
    candidates: tuple[Count, ...]


@dataclass(frozen=True)
class Identity:
    """A model by name and content."""

    name: str
    digest: Digest


@dataclass(frozen=True)
class Provenance:
    """What to repeat to get the same summary; no user names, no absolute paths, no dates."""

    software: str
    version: str
    exam_digest: Digest
    crop: tuple[int, int, int, int] | None
    bundle: Identity
    encoder: Identity
    profile: str
    settings: dict[str, Value]
    """All of them, by name; where they differ from the profile, somebody chose them."""
    gate: GateConfig | None
    packages: dict[str, str]
    command: str | None


@dataclass(frozen=True)
class Summary:
    """Everything that is said about one exam."""

    schema: Schema
    disclaimer: str
    exam: ExamFacts
    taxonomy: Taxonomy
    counts: Counts
    items: tuple[SummaryItem, ...]
    dropped: tuple[SummaryItem, ...]
    activity: Activity
    provenance: Provenance
    reliability: dict[str, Reliability] = field(default_factory=dict)
    """How well the bundle recognises each label, by its own validation; labels without an entry were not measured."""

    def reliability_of(self, label: str) -> Reliability:
        """Return how well a label is recognised."""
        return self.reliability.get(label, NOT_MEASURED)

    def to_json(self) -> str:
        """Write the contract; the same summary gives the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """Read the contract back."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InputError(f"summary: not a file of '{SCHEMA}' ({error}); make it again") from error

    def write(self, path: Path) -> None:
        """Write summary.json, or nothing."""
        write_atomically(path, self.to_json().encode())


def json_schema() -> str:
    """Return the contract as a JSON Schema."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA}
    schema |= msgspec.json.schema(Summary)
    for part in schema["$defs"].values():
        if "properties" in part:  # we write every field, and no other: what tells who the patient is must not slip in
            part |= {"required": list(part["properties"]), "additionalProperties": False}
    return json.dumps(schema, indent=1) + "\n"


def assemble(
    exam: Exam,
    features: Features,
    screened: Screened,
    judged: Judged,
    provenance: Provenance,
    reliability: Mapping[str, Reliability] | None = None,
    marks: Mapping[int, Mark] | None = None,
    unfamiliar: float | None = None,
) -> Summary:
    """Put the summary together, items in the order of their keyframes (eq. 12); marks are by frame."""
    items = sorted(
        (_describe(judgment, judged, exam.source.names, marks or {}) for judgment in judged.judgments),
        key=lambda item: (item.keyframe.seconds, item.keyframe.frame, item.id),
    )
    verdicts = [item.verdict for item in items]
    contexts = [judgment.context for judgment in judged.judgments]
    return Summary(
        schema=SCHEMA,
        disclaimer=DISCLAIMER,
        exam=_exam_facts(exam, features, judged.diagnosed.unseen, unfamiliar),
        taxonomy=judged.taxonomy,
        counts=Counts(
            frames=len(exam),
            decoded=len(features),
            candidates=len(judged.candidates),
            diagnosed=int((~np.isnan(judged.distributions).any(axis=1)).sum()),
            coarse_contexts=len({context.coarse for context in contexts}),
            contexts=len(contexts),
            not_looked_at=len(judged.diagnosed.woven.contexts) - len(contexts),
            kept=verdicts.count("kept"),
            dropped_normal=verdicts.count("normal"),
            dropped_low_confidence=verdicts.count("low_confidence"),
            dropped_beside_surer=verdicts.count("beside_surer"),
            dropped_beyond_limit=verdicts.count("beyond_limit"),
        ),
        items=tuple(item for item in items if item.verdict == "kept"),
        dropped=tuple(item for item in items if item.verdict != "kept"),
        activity=_activity(exam, screened, judged.candidates),
        provenance=provenance,
        reliability={label: (reliability or {}).get(label, NOT_MEASURED) for label in judged.taxonomy.labels},
    )


def _describe(
    judgment: Judgment, judged: Judged, names: Sequence[str] | None, marks: Mapping[int, Mark]
) -> SummaryItem:
    candidates, labels = judged.candidates, judged.taxonomy.labels
    rows = judgment.context.rows

    def frame(row: int) -> Frame:
        return Frame(
            frame=int(candidates.frames.index[row]),
            seconds=round(float(candidates.seconds[row]), 3),
            score=round(float(candidates.score[row]), DIGITS),
            probability=round(float(judged.distributions[row, judgment.label]), DIGITS),
            file=printable(names[candidates.frames.index[row]]) if names else None,
        )

    keyframe = frame(judged.keyframe(judgment))
    return SummaryItem(
        id=f"{judgment.context.coarse + 1}.{judgment.context.fine + 1}",
        label=labels[judgment.label],
        confidence=round(judgment.confidence, DIGITS),
        abnormality=round(abnormality(judged, judgment), DIGITS),
        verdict=judgment.verdict,
        reason=_reason(judgment, labels),
        runner_up=labels[judgment.runner_up],
        margin=round(judgment.margin, DIGITS),
        provisional=labels[judgment.provisional],
        fell_back=judgment.fell_back,
        keyframe=keyframe,
        first_seconds=round(float(candidates.seconds[rows[0]]), 3),
        last_seconds=round(float(candidates.seconds[rows[-1]]), 3),
        support=tuple(frame(row) for row in judgment.retained),
        dissent=tuple(frame(row) for row in judgment.dissent),
        evidence_before=tuple(round(float(x), DIGITS) for x in judgment.evidence_before),
        evidence=tuple(round(float(x), DIGITS) for x in judgment.evidence),
        mark=marks.get(keyframe.frame) if judgment.verdict == "kept" else None,
    )


def _reason(judgment: Judgment, labels: tuple[str, ...]) -> str:
    count, every = len(judgment.retained), len(judgment.context.rows)
    total = count + len(judgment.dissent)
    frames = f"{count} of {total} frames" if total > 1 else "a single frame"
    frames += f" (the most suspicious of {every})" if total < every else ""
    said = f"{labels[judgment.label]} with {100 * judgment.confidence:.0f} % of the evidence of {frames}"
    next_best = f"next is {labels[judgment.runner_up]}, {100 * judgment.margin:.0f} points behind"
    if judgment.verdict == "normal":
        return f"Set aside as normal: {said}; {next_best}."
    if judgment.verdict == "low_confidence":
        return f"Set aside as too doubtful: {said}; {next_best}."
    if judgment.verdict == "beside_surer":
        return f"Set aside beside a surer finding at that time: {said}; {next_best}."
    if judgment.verdict == "beyond_limit":
        return f"Set aside because the list is full of surer findings: {said}; {next_best}."
    alone = " No frame agreed strongly by itself." if judgment.fell_back else ""
    return f"{said[0].upper()}{said[1:]}; {next_best}.{alone}"


def _exam_facts(exam: Exam, features: Features, unseen: tuple[int, ...], unfamiliar: float | None) -> ExamFacts:
    clock, last = exam.clock, len(exam) - 1
    strange = (unfamiliar_text(unfamiliar),) if unfamiliar is not None and unfamiliar >= UNFAMILIAR else ()
    blind = (
        (f"candidates that could not be decoded for the diagnoser: {', '.join(map(str, unseen))}",) if unseen else ()
    )
    read = features.report.frames / len(exam)
    unfinished = (unfinished_text(read),) if read < 1 else ()
    return ExamFacts(
        id=exam.id,
        digest=exam.digest,
        width=exam.width,
        height=exam.height,
        field=exam.field.kind,
        clock=ClockFacts(
            source=clock.source,
            detail=clock.detail,
            is_exam_time=clock.is_exam_time,
            first_seconds=round(float(clock.seconds(0)), 3),
            last_seconds=round(float(clock.seconds(last)), 3),
        ),
        undecodable=features.report.undecodable,
        doubtful=features.report.doubtful,
        warnings=(*unfinished, *exam.warnings, *strange, *blind),
        unfamiliar=None if unfamiliar is None else round(unfamiliar, DIGITS),
        read=read,
    )


def unfinished_text(read: float) -> str:
    """Warn, wherever warnings are shown, that this is not the last word."""
    return f"UNFINISHED: only {100 * read:.0f} % of the exam has been read so far; this is replaced when more is"


def _activity(exam: Exam, screened: Screened, candidates: Candidates) -> Activity:
    """Bin the Selector's scores over the exam: the mean, and how many frames became candidates."""
    begin, end = float(exam.clock.seconds(0)), float(exam.clock.seconds(len(exam) - 1))
    edges = np.linspace(begin, max(end, begin + 1), ACTIVITY_BINS + 1)
    total, _ = np.histogram(screened.seconds, edges)
    sums, _ = np.histogram(screened.seconds, edges, weights=screened.score)
    chosen, _ = np.histogram(candidates.seconds, edges)
    means = np.divide(sums, total, out=np.zeros(ACTIVITY_BINS), where=total > 0)
    return Activity(
        first_seconds=round(begin, 3),
        last_seconds=round(float(edges[-1]), 3),
        mean_score=tuple(round(float(x), 4) for x in means),
        candidates=tuple(chosen.tolist()),
    )


if __name__ == "__main__":
    SCHEMA_FILE.write_text(json_schema())
