"""Results to read, made without a model: a numbered video and a summary of it written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from dice_ce import DISCLAIMER
from dice_ce.exam.open import Exam, open_exam
from dice_ce.method.converger import Verdict
from dice_ce.method.summary import (
    SCHEMA,
    Activity,
    ClockFacts,
    Counts,
    ExamFacts,
    Frame,
    Identity,
    Mark,
    Provenance,
    Summary,
    SummaryItem,
)
from dice_ce.outputs import keyframes
from dice_ce.outputs.images import load_images
from dice_ce.taxonomy import Taxonomy
from tests.material import numbered_video

BUNDLE = "b" * 64
MARK = Mark(0.5, 0.25, 0.75, 0.5)
ITEMS: tuple[tuple[str, str, int, Verdict, float], ...] = (
    ("1.1", "polyp", 20, "kept", 0.9),
    ("1.2", "ulcer", 40, "kept", 0.8),
    ("2.1", "erosion", 60, "kept", 0.7),
    ("2.2", "angioectasia", 75, "low_confidence", 0.3),
    ("3.1", "normal", 90, "normal", 0.1),
)
"""Id, label, keyframe, verdict, confidence; each has five frames around its keyframe."""


def make_item(name: str, label: str, frame: int, verdict: Verdict, confidence: float) -> SummaryItem:
    """One context: three supporting frames around the keyframe, one dissenting on either side."""

    def at(number: int) -> Frame:
        return Frame(number, float(number), 0.9, 0.8)

    share = 1 / 12
    return SummaryItem(
        id=name,
        label=label,
        confidence=confidence,
        abnormality=confidence,
        verdict=verdict,
        reason="By hand.",
        runner_up="ulcer" if label != "ulcer" else "erosion",
        margin=0.1,
        provisional=label,
        fell_back=False,
        keyframe=at(frame),
        first_seconds=float(frame - 2),
        last_seconds=float(frame + 2),
        support=tuple(at(frame + step) for step in (-1, 0, 1)),
        dissent=(at(frame - 2), at(frame + 2)),
        evidence_before=(share,) * 12,
        evidence=(share,) * 12,
        mark=MARK if verdict == "kept" else None,
    )


def make_summary(
    name: str = "exam",
    digest: str = "e" * 64,
    frames: int = 100,
    items: Sequence[tuple[str, str, int, Verdict, float]] = ITEMS,
) -> Summary:
    """A summary of an exam with one frame per second."""
    contexts = [make_item(*one) for one in items]
    kept = tuple(one for one in contexts if one.verdict == "kept")
    verdicts = [one.verdict for one in contexts]
    return Summary(
        schema=SCHEMA,
        disclaimer=DISCLAIMER,
        exam=ExamFacts(
            id=name,
            digest=digest,
            width=96,
            height=96,
            field="full",
            clock=ClockFacts("options", "1 frames per exam second", True, 0.0, float(frames - 1)),
            undecodable=(),
            doubtful=0,
            warnings=(),
        ),
        taxonomy=Taxonomy(),
        counts=Counts(
            frames=frames,
            decoded=frames,
            candidates=5 * len(contexts),
            diagnosed=5 * len(contexts),
            coarse_contexts=3,
            contexts=len(contexts),
            not_looked_at=0,
            kept=len(kept),
            dropped_normal=verdicts.count("normal"),
            dropped_low_confidence=verdicts.count("low_confidence"),
            dropped_beside_surer=0,
            dropped_beyond_limit=0,
        ),
        items=kept,
        dropped=tuple(one for one in contexts if one.verdict != "kept"),
        activity=Activity(0.0, float(frames - 1), (0.5,) * 400, (1,) * 400),
        provenance=Provenance(
            software="dice-ce",
            version="0",
            exam_digest=digest,
            crop=None,
            bundle=Identity("hand", BUNDLE),
            encoder=Identity("none", "c" * 64),
            profile="default",
            settings={},
            gate=None,
            packages={},
            command="dice-ce summarize exam.mp4 --exam-fps 1 --out out",
        ),
    )


def write_result(folder: Path, name: str = "exam", frames: int = 100) -> Path:
    """Write `name.mp4`, a clock of one frame per second beside it, and its results in a folder of the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    video = numbered_video(folder / f"{name}.mp4", frames)
    clock = "".join(f"{i},{i}\n" for i in range(frames))
    (folder / f"{name}.clock.csv").write_text("frame,seconds\n" + clock)
    with open_numbered(video) as exam:
        summary = make_summary(name, exam.digest, frames)
        summary.write(folder / name / "summary.json")
        images = load_images(exam, keyframes.images_needed(summary))
        keyframes.write(summary, images, folder / name / "keyframes")
    return folder


def open_numbered(video: Path) -> Exam:
    """Open a numbered video, whole: its numbers reach to the edges."""
    return open_exam(video, exam_fps=Fraction(1), mask=False)
