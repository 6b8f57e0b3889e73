"""What every importer returns: labelled frames, timelines of whole exams, and remarks on what was odd in the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Box:
    """Where a lesion is, as fractions of the image's width and height."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class LabelledFrame:
    """One frame and what experts said about it."""

    path: Path
    """The image; some importers name images that need not be on this disk."""
    source: str
    """Where it comes from, as the dataset spells it: KVASIR, SEE-AI, AIIMS, …"""
    case: str
    """Patient, video or block of numbers: what must never stand in two splits. Empty if that is not known."""
    number: int | None
    """Frame number within the case: neighbours in number were neighbours in time."""
    labels: tuple[str, ...]
    """Labels of VideoCAP-12, in its order; empty if all that is seen lies outside it (a distractor)."""
    words: tuple[str, ...]
    """What the dataset itself calls it."""
    boxes: tuple[Box, ...] = ()
    split: str = ""
    """The dataset's own split, where it has one."""


@dataclass(frozen=True)
class Event:
    """A stretch of an exam that carries labels."""

    first: int
    last: int
    """Inclusive frame ordinals."""
    words: tuple[str, ...]
    """Organs and findings as the dataset calls them."""

    @property
    def frames(self) -> int:
        """How many frames the event lasts."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Timeline:
    """What was seen when in one whole exam."""

    exam_id: str
    events: tuple[Event, ...]
    """In order of their first frame; gaps are unlabelled."""

    @property
    def frames(self) -> int:
        """Frames from the start of the exam to the end of the last event."""
        return max((event.last for event in self.events), default=-1) + 1


@dataclass(frozen=True)
class Tables:
    """The result of an importer."""

    frames: tuple[LabelledFrame, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    """What was odd in the files and how it was read: one sentence each, for people."""


@dataclass(frozen=True)
class Finding:
    """One finding of a clinical report: what, and when in the exam it is best seen."""

    id: str
    seconds: float
    """Exam time."""
    label: str


@dataclass(frozen=True)
class Annotation:
    """What a report says about one exam."""

    exam_id: str
    findings: tuple[Finding, ...]
