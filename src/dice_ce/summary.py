"""The summary: one keyframe and one label per surviving context (paper, section 4.5, eq. 12), and its JSON contract.

What was dropped is kept beside it with the reason, so that a reader can bring it back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce import DISCLAIMER
from dice_ce.converger import Judgment, Verdict
from dice_ce.errors import InputError
from dice_ce.exam import Exam
from dice_ce.files import printable, write_atomically
from dice_ce.frames import Ints
from dice_ce.keyframes import Keyframes
from dice_ce.reliability import NOT_MEASURED, Reliability, Table, read_table, table_facts
from dice_ce.selector import Candidates
from dice_ce.store import Features
from dice_ce.taxonomy import Taxonomy

SCHEMA = "dice-ce/summary/1"
"""Raise the number when a field changes its meaning or goes; adding one is no new version."""
SCHEMA_FILE = Path(__file__).parent / "schema" / "summary.schema.json"
ACTIVITY_BINS = 400
DIGITS = 6
"""Decimals of probabilities and scores in the JSON: more would only be noise."""


@dataclass(frozen=True)
class Frame:
    """One frame as evidence."""

    frame: int
    seconds: float
    score: float
    """Selector score s_t."""
    probability: float
    """What the diagnoser gives the context's label in this frame."""
    file: str | None = None
    """Name of the image file in its folder or zip; None in a video."""


@dataclass(frozen=True)
class SummaryItem:
    """One context: a finding, or one that was dropped."""

    id: str
    """Coarse and fine number of the context: `3.12`."""
    label: str
    confidence: float
    verdict: Verdict
    reason: str
    """Why it was kept or dropped, for people."""
    runner_up: str
    margin: float
    provisional: str
    """Label before refinement."""
    fell_back: bool
    keyframe: Frame
    first_seconds: float
    last_seconds: float
    support: tuple[Frame, ...]
    dissent: tuple[Frame, ...]
    evidence_before: tuple[float, ...]
    evidence: tuple[float, ...]


@dataclass(frozen=True)
class Summary:
    """Everything that is said about one exam."""

    exam: dict[str, Any]
    """Identity, size, clock, damage."""
    taxonomy: Taxonomy
    counts: dict[str, int]
    items: tuple[SummaryItem, ...]
    dropped: tuple[SummaryItem, ...]
    activity: dict[str, Any]
    """Selector scores over the exam, binned, for drawing."""
    provenance: dict[str, Any]
    """Digests and settings: what to repeat to get the same summary."""
    reliability: Table = field(default_factory=dict)
    """How well the bundle recognises each label, by its own validation; labels without an entry were not measured."""

    def reliability_of(self, label: str) -> Reliability:
        """Return how well a label is recognised."""
        return self.reliability.get(label, NOT_MEASURED)

    def to_json(self) -> str:
        """Write the contract; the same summary gives the same bytes."""
        content = {
            "schema": SCHEMA,
            "disclaimer": DISCLAIMER,
            "exam": self.exam,
            "taxonomy": {"name": self.taxonomy.name, "labels": list(self.taxonomy.labels)},
            "reliability": table_facts(self.reliability),
            "counts": self.counts,
            "items": [asdict(item) for item in self.items],
            "dropped": [asdict(item) for item in self.dropped],
            "activity": self.activity,
            "provenance": self.provenance,
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """Read the contract back."""
        try:
            content = json.loads(text)
            if content["schema"] != SCHEMA:
                raise InputError(f"summary: schema '{content['schema']}' is not '{SCHEMA}'; make it again")
            return cls(
                exam=content["exam"],
                taxonomy=Taxonomy(content["taxonomy"]["name"], tuple(content["taxonomy"]["labels"])),
                counts=content["counts"],
                items=tuple(_item(item) for item in content["items"]),
                dropped=tuple(_item(item) for item in content["dropped"]),
                activity=content["activity"],
                provenance=content["provenance"],
                reliability=read_table(content.get("reliability", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"summary: not a summary file ({type(error).__name__}: {error}); make it again") from error

    def write(self, path: Path) -> None:
        """Write summary.json, or nothing."""
        write_atomically(path, self.to_json().encode())


def _item(content: dict[str, Any]) -> SummaryItem:
    frames = {name: tuple(Frame(**frame) for frame in content[name]) for name in ("support", "dissent")}
    evidence = {name: tuple(content[name]) for name in ("evidence", "evidence_before")}
    return SummaryItem(**{**content, **frames, **evidence, "keyframe": Frame(**content["keyframe"])})


def assemble(
    exam: Exam,
    features: Features,
    score: npt.NDArray[np.float32],
    candidates: Candidates,
    distributions: npt.NDArray[np.float32],
    judgments: Sequence[Judgment],
    taxonomy: Taxonomy,
    provenance: dict[str, Any],
    reliability: Table | None = None,
) -> Summary:
    """Put the summary together, items in the order of their keyframes (eq. 12)."""
    keyframes = Keyframes(candidates)
    items = sorted(
        (
            _describe(judgment, keyframes, candidates, distributions, taxonomy, exam.source.names)
            for judgment in judgments
        ),
        key=lambda item: (item.keyframe.seconds, item.keyframe.frame, item.id),
    )
    verdicts = [item.verdict for item in items]
    contexts = [context for judgment in judgments for context in (judgment.context, *judgment.joined)]
    return Summary(
        exam=_exam_facts(exam, features),
        taxonomy=taxonomy,
        counts={
            "frames": len(exam),
            "decoded": len(features),
            "candidates": len(candidates),
            "coarse_contexts": len({context.coarse for context in contexts}),
            "contexts": len(contexts),
            "joined": len(contexts) - len(judgments),
            "kept": verdicts.count("kept"),
            "dropped_normal": verdicts.count("normal"),
            "dropped_low_confidence": verdicts.count("low_confidence"),
            "dropped_outranked": verdicts.count("outranked"),
        },
        items=tuple(item for item in items if item.verdict == "kept"),
        dropped=tuple(item for item in items if item.verdict != "kept"),
        activity=_activity(exam, features, score, candidates),
        provenance=provenance,
        reliability={label: (reliability or {}).get(label, NOT_MEASURED) for label in taxonomy.labels},
    )


def _describe(
    judgment: Judgment,
    keyframes: Keyframes,
    candidates: Candidates,
    distributions: npt.NDArray[np.float32],
    taxonomy: Taxonomy,
    names: Sequence[str] | None,
) -> SummaryItem:
    rows, labels = judgment.context.rows, taxonomy.labels

    def frames(chosen: Ints | list[int]) -> tuple[Frame, ...]:
        return tuple(
            Frame(
                frame=int(candidates.frames.index[row]),
                seconds=round(float(candidates.seconds[row]), 3),
                score=round(float(candidates.score[row]), DIGITS),
                probability=round(float(distributions[row, judgment.label]), DIGITS),
                file=printable(names[candidates.frames.index[row]]) if names else None,
            )
            for row in chosen
        )

    (keyframe,) = frames([keyframes.row(judgment)])
    return SummaryItem(
        id=f"{judgment.context.coarse + 1}.{judgment.context.fine + 1}",
        label=labels[judgment.label],
        confidence=round(judgment.confidence, DIGITS),
        verdict=judgment.verdict,
        reason=_reason(judgment, labels),
        runner_up=labels[judgment.runner_up],
        margin=round(judgment.margin, DIGITS),
        provisional=labels[judgment.provisional],
        fell_back=judgment.fell_back,
        keyframe=keyframe,
        first_seconds=round(float(candidates.seconds[rows[0]]), 3),
        last_seconds=round(float(candidates.seconds[rows[-1]]), 3),
        support=frames(judgment.retained),
        dissent=frames(judgment.dissent),
        evidence_before=tuple(round(float(x), DIGITS) for x in judgment.evidence_before),
        evidence=tuple(round(float(x), DIGITS) for x in judgment.evidence),
    )


def _reason(judgment: Judgment, labels: tuple[str, ...]) -> str:
    count, total = len(judgment.retained), len(judgment.context.rows)
    frames = f"{count} of {total} frames" if total > 1 else "a single frame"
    said = f"{labels[judgment.label]} with {100 * judgment.confidence:.0f} % of the evidence of {frames}"
    next_best = f"next is {labels[judgment.runner_up]}, {100 * judgment.margin:.0f} points behind"
    if judgment.verdict == "normal":
        return f"Dropped as normal: {said}; {next_best}."
    if judgment.verdict == "low_confidence":
        return f"Dropped as too doubtful: {said}; {next_best}."
    if judgment.verdict == "outranked":
        return f"Left out because others have more evidence: {said}; {next_best}."
    alone = " No frame agreed strongly by itself." if judgment.fell_back else ""
    seen = f" Seen {1 + len(judgment.joined)} times in a short while." if judgment.joined else ""
    return f"{said[0].upper()}{said[1:]}; {next_best}.{alone}{seen}"


def _exam_facts(exam: Exam, features: Features) -> dict[str, Any]:
    clock, last = exam.clock, len(exam) - 1
    return {
        "id": exam.id,
        "digest": exam.digest,
        "width": exam.width,
        "height": exam.height,
        "field": exam.field.kind,
        "clock": {
            "source": clock.source,
            "detail": clock.detail,
            "is_exam_time": clock.is_exam_time,
            "first_seconds": round(float(clock.seconds(0)), 3),
            "last_seconds": round(float(clock.seconds(last)), 3),
        },
        "undecodable": list(features.report.undecodable),
        "doubtful": features.report.doubtful,
        "warnings": list(exam.warnings),
    }


def _activity(exam: Exam, features: Features, score: npt.NDArray[np.float32], candidates: Candidates) -> dict[str, Any]:
    """Bin the selector's scores over the exam: the mean, and how many frames became candidates."""
    seconds = exam.clock.ticks[features.frames.index] * float(exam.clock.unit)
    begin, end = float(exam.clock.seconds(0)), float(exam.clock.seconds(len(exam) - 1))
    edges = np.linspace(begin, max(end, begin + 1), ACTIVITY_BINS + 1)
    total, _ = np.histogram(seconds, edges)
    sums, _ = np.histogram(seconds, edges, weights=score)
    chosen, _ = np.histogram(candidates.seconds, edges)
    means = np.divide(sums, total, out=np.zeros(ACTIVITY_BINS), where=total > 0)
    return {
        "first_seconds": round(begin, 3),
        "last_seconds": round(float(edges[-1]), 3),
        "mean_score": [round(float(x), 4) for x in means],
        "candidates": chosen.tolist(),
    }
