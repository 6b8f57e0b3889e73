"""What browser and server say to each other. OpenAPI is made from these models; nothing else crosses the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from dice_ce.reader.accounts import LEAST_PASSWORD, Role
from dice_ce.reader.actions import MOST_FRAMES, Action, Brotz, Cecdai, Key, Landmark, Lewis, Model, Section, UserName


class Decide(Model):
    """One action, on the state that its author saw."""

    expected_version: int = Field(ge=0, le=MOST_FRAMES)
    """`version` of the review that was on the screen."""
    key: Key
    """Made up by the browser for this action; sending it again after a lost answer does not act twice."""
    action: Action


# --- what the server answers ---------------------------------------------------------------------------------------

ReviewState = Literal["new", "in_work", "signed"]
Decision = Literal["undecided", "confirmed", "rejected"]
Origin = Literal["software", "set_aside", "reader"]


class FindingView(Model):
    """One card: a finding of the software, one it set aside, or the reader's own."""

    id: str
    origin: Origin
    contexts: tuple[str, ...]
    """Contexts of the software that it is made of: look them up in `ExamDetails.contexts`."""
    label: str
    keyframe: int
    seconds: float
    frames: tuple[int, ...]
    """In order; support and dissent together."""
    decision: Decision
    set_aside: bool
    note: str
    images: tuple[int, ...] | None
    confidence: float | None
    position: float | None
    """In the small bowel, 0 (first duodenal image) to 1 (ileo-caecal); null outside or without landmarks."""
    by: str | None
    """Who touched it last."""
    at: datetime | None


class LandmarkView(Model):
    """A landmark and who set it."""

    frame: int
    seconds: float
    by: str
    at: datetime


class Measures(Model):
    """What follows from what the reader entered."""

    gastric_seconds: float | None
    """Transit time."""
    small_bowel_seconds: float | None
    is_complete: bool
    """Whether the ileo-caecal valve was marked."""
    brotz_index: int | None
    """0 to 10, once all five parts are entered."""
    lewis_score: int | None
    lewis_tertiles: tuple[int, int, int] | None
    lewis_grade: str | None
    cecdai_score: int | None
    cecdai_segments: tuple[int, int] | None
    remarks: tuple[str, ...]
    """What does not fit together, in one sentence each."""


class SectionView(Model):
    """One section of the report."""

    name: Section
    title: str
    text: str
    """What the report says now."""
    made: str
    """What the findings make of it by themselves; differs from `text` where the reader has written."""
    is_edited: bool


class Signature(Model):
    """Who signed which version, when."""

    version: int
    by: str
    at: datetime
    digest: str
    """SHA-256 of the PDF."""
    reason: str | None
    """Of an addendum."""


class Review(Model):
    """What all events of one exam add up to."""

    exam: str
    version: int
    """Number of the last event; 0 before the first."""
    state: ReviewState
    findings: tuple[FindingView, ...]
    landmarks: dict[Landmark, LandmarkView]
    cleanliness: Brotz | None
    lewis: Lewis | None
    cecdai: Cecdai | None
    measures: Measures
    note: str
    report: tuple[SectionView, ...]
    draft: int | None
    """Number of the report version that is being written; null once it is signed."""
    signatures: tuple[Signature, ...]
    undecided: int
    undo: str | None
    """What undo would take back, in words; null if there is nothing."""
    redo: str | None


class EventView(Model):
    """One line of the audit trail."""

    sequence: int
    by: str
    at: datetime
    kind: str
    about: str
    """In words."""
    is_undone: bool
    before: object
    after: object
    software: str
    bundle: str | None


class DeedView(Model):
    """Something that was done around a reading, or with an account."""

    by: str
    at: datetime
    kind: str
    about: str
    """In words."""
    before: object
    after: object
    software: str


class Deeds(Model):
    """Several of them, in order."""

    deeds: tuple[DeedView, ...]


class History(Model):
    """All events of an exam, in order, and who gave it to whom."""

    events: tuple[EventView, ...]
    deeds: tuple[DeedView, ...]


class EvidenceFrame(Model):
    """One frame of a context."""

    frame: int
    seconds: float
    score: float
    probability: float


class Context(Model):
    """What the software knows about one context."""

    id: str
    label: str
    verdict: str
    reason: str
    confidence: float
    runner_up: str
    margin: float
    provisional: str
    fell_back: bool
    keyframe: int
    support: tuple[EvidenceFrame, ...]
    dissent: tuple[EvidenceFrame, ...]
    evidence_before: tuple[float, ...]
    evidence: tuple[float, ...]


class Rung(Model):
    """One position of the slider show more/show less."""

    count: int
    """Contexts shown."""
    context: str
    """The one that this step adds."""
    abnormality: float
    """How sure it is that this one shows anything."""
    seconds: float
    """Predicted time to read so many."""


class LabelFacts(Model):
    """A label, its colours and how well the bundle recognises it."""

    name: str
    light: str
    dark: str
    grade: str
    explanation: str
    is_normal: bool


VideoState = Literal["checking", "ready", "missing", "different", "unreadable"]


class Video(Model):
    """Whether frames can be shown."""

    state: VideoState
    message: str
    """For people; empty when all is well."""


class Provenance(Model):
    """What made the results."""

    software: str
    bundle: str
    bundle_digest: str
    profile: str
    command: str | None


class ExamDetails(Model):
    """Everything about an exam that no decision changes, and the review."""

    id: str
    name: str
    disclaimer: str
    reader: str | None
    second_of: str | None
    is_summarised: bool
    has_newer_results: bool
    """Results were made again after reading had begun; the review stays with those it began with."""
    frames: int
    width: int
    height: int
    is_exam_time: bool
    """False if only playback time is known."""
    clock: str
    knots: tuple[tuple[int, float], ...]
    """(frame, seconds) between which time runs evenly; first and last frame are always there."""
    undecodable: tuple[int, ...]
    warnings: tuple[str, ...]
    labels: tuple[LabelFacts, ...]
    contexts: tuple[Context, ...]
    """In order of time; kept and set aside."""
    slider: tuple[Rung, ...]
    """What is most surely a lesion first; what was kept before what was set aside."""
    slider_start: int
    """How many the software kept."""
    seconds_per_finding: float
    is_pace_measured: bool
    """False while the pace is an assumption, because too few decisions have been made."""
    video: Video
    provenance: Provenance | None
    review: Review


class Timeline(Model):
    """The whole exam at a glance; every list has one entry per bin."""

    first_seconds: float
    last_seconds: float
    bin_frames: tuple[int, ...]
    """First frame of each bin."""
    activity: tuple[float, ...] | None
    """Mean score of the selector; null if not summarised."""
    candidates: tuple[int, ...] | None
    colours: tuple[str | None, ...] | None
    """Mean colour `#rrggbb`; null while it is being worked out or without the video."""
    changes: tuple[int, ...]
    """Frames at which the scene changes most, in order."""
    colour_state: Literal["ready", "working", "missing"]
    progress: float
    """Of the colours, 0 to 1."""


class Mark(Model):
    """A rectangle, in shares of the width and height of the image."""

    left: float
    top: float
    right: float
    bottom: float


class Evidence(Model):
    """Where in a frame the evidence for a label lies."""

    label: str
    mark: Mark | None
    """What the software would have called otherwise without it; null if no single place speaks for the label."""


class Export(Model):
    """A kind of file that other systems take."""

    kind: str
    title: str
    about: str
    missing: str | None
    """What has to be done before it can be made; null if it can."""


class Exports(Model):
    """All of them."""

    exports: tuple[Export, ...]


class WorklistRow(Model):
    """One exam in the worklist."""

    id: str
    name: str
    state: ReviewState
    reader: str | None
    """Who it is assigned to; null for everybody."""
    second_of: str | None
    is_summarised: bool
    frames: int
    duration_seconds: float
    is_exam_time: bool
    kinds: dict[str, int]
    """Findings by label: those of the software that were not rejected, and the reader's own."""
    findings: int
    undecided: int
    predicted_seconds: float
    """To read what is undecided."""
    changed_at: datetime | None
    changed_by: str | None
    signed_version: int
    """0 before the first signature."""


class Worklist(Model):
    """One page of the worklist."""

    rows: tuple[WorklistRow, ...]
    total: int
    """Rows that the filter leaves."""
    page: int
    pages: int
    states: dict[ReviewState, int]
    """Of all exams that one may see, whatever the filter."""
    labels: tuple[LabelFacts, ...]


class Session(Model):
    """Who one is. Without accounts there is one person, and no login."""

    user: str | None
    role: Role | None
    csrf: str | None
    needs_login: bool
    version: str
    disclaimer: str


class Login(Model):
    """Name and password."""

    user: Annotated[str, StringConstraints(max_length=64)]
    password: Annotated[str, StringConstraints(max_length=1024)]


class Assign(Model):
    """Give an exam to one reader, or to everybody."""

    reader: UserName | None


class SecondReading(Model):
    """Ask for an independent reading that does not see the first; for oneself unless an admin says for whom."""

    reader: UserName | None = None


class Created(Model):
    """A new row of the worklist."""

    id: str


class TimeSpent(Model):
    """Seconds of active reading since the last message."""

    seconds: float = Field(gt=0, le=120)


class UserView(Model):
    """An account."""

    user: str
    role: Role
    is_active: bool


Password = Annotated[str, StringConstraints(min_length=LEAST_PASSWORD, max_length=1024)]


class NewUser(Model):
    """An account to make; the first one must be an admin's."""

    user: UserName
    password: Password
    role: Role


class ChangeUser(Model):
    """What to change of an account; null leaves it. Sessions of its owner end."""

    password: Password | None = None
    role: Role | None = None
    is_active: bool | None = None


class ChangePassword(Model):
    """One's own new password. All of one's sessions end."""

    current: Annotated[str, StringConstraints(max_length=1024)]
    password: Password


class Users(Model):
    """All accounts."""

    users: tuple[UserView, ...]


class Problem(Model):
    """What went wrong, for programs and for people."""

    code: str
    message: str


class Failure(Model):
    """Body of every answer that is not a success."""

    error: Problem
    review: Review | None = None
    """The state as it is now, after a conflict."""


FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "Not a request that makes sense"},
    401: {"model": Failure, "description": "Not logged in"},
    403: {"model": Failure, "description": "Not allowed, or the CSRF token is missing"},
    404: {"model": Failure, "description": "There is no such thing"},
    409: {"model": Failure, "description": "The state does not allow it; `review` is the state as it is now"},
    413: {"model": Failure, "description": "Too large"},
    421: {"model": Failure, "description": "Another host name was asked for"},
    422: {"model": Failure, "description": "Not what the contract says"},
    429: {"model": Failure, "description": "Too many attempts"},
    503: {"model": Failure, "description": "Could not be stored; nothing was changed"},
}
"""What every route may answer besides."""
