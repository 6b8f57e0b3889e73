"""What a reader can do. Actions are the bodies of requests and, word for word, what an event stores."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

LONGEST_TEXT = 20_000
MOST_FRAMES = 2**31 - 1

Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, pattern=r"^[^\x00]*$")]
Line = Annotated[str, StringConstraints(max_length=200, strip_whitespace=True)]
Label = Annotated[
    str, StringConstraints(min_length=1, max_length=80, strip_whitespace=True, pattern=r"^[^\x00-\x1f]+$")
]
"""A label of the taxonomy, or the reader's own words for what the taxonomy lacks."""
FindingId = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9.+-]+$")]
ExamId = Annotated[str, StringConstraints(pattern=r"^[a-z2-7]{16}$")]
"""Opaque; says nothing about names or places of files."""
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._@-]{1,64}$")]
Frame = Annotated[int, Field(ge=0, le=MOST_FRAMES)]
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{8,64}$")]
Level2 = Annotated[int, Field(ge=0, le=2)]
Level3 = Annotated[int, Field(ge=0, le=3)]
Level5 = Annotated[int, Field(ge=0, le=5)]


class Model(BaseModel):
    """Immutable, and refuses what it does not know."""

    model_config: ClassVar[ConfigDict] = {"frozen": True, "extra": "forbid"}


# --- measures that a reader enters ---------------------------------------------------------------------------------


class Brotz(Model):
    """Cleanliness after Brotz et al., Gastrointest Endosc 2009;69:262-70; each part may be left out."""

    overall: Literal["adequate", "inadequate"] | None = None
    quality: Literal["excellent", "good", "fair", "poor"] | None = None
    mucosa_visible: Level2 | None = None
    fluid_and_debris: Level2 | None = None
    bubbles: Level2 | None = None
    bile_staining: Level2 | None = None
    brightness: Level2 | None = None


Extent = Literal["short", "long", "whole"]


class Villi(Model):
    """Villous appearance in one tertile."""

    appearance: Literal["normal", "oedematous"] = "normal"
    extent: Extent = "short"
    descriptor: Literal["single", "patchy", "diffuse"] = "single"


class Ulcers(Model):
    """Ulcers in one tertile."""

    number: Literal["none", "single", "few", "multiple"] = "none"
    extent: Extent = "short"
    size: Literal["under_quarter", "quarter_to_half", "over_half"] = "under_quarter"


class Tertile(Model):
    """One third of the small bowel by transit time."""

    villi: Villi = Villi()
    ulcers: Ulcers = Ulcers()


class Stenosis(Model):
    """Stenoses of the whole small bowel."""

    number: Literal["none", "single", "multiple"] = "none"
    ulcerated: bool = False
    traversed: bool = True


class Lewis(Model):
    """What the Lewis score is made of (Gralnek et al., Aliment Pharmacol Ther 2008;27:146-54)."""

    tertiles: tuple[Tertile, Tertile, Tertile] = (Tertile(), Tertile(), Tertile())
    stenosis: Stenosis = Stenosis()


class Segment(Model):
    """One half of the small bowel by transit time."""

    inflammation: Level5 = 0
    extent: Level3 = 0
    stricture: Level3 = 0


class Cecdai(Model):
    """What the CECDAI is made of (Gal et al., Dig Dis Sci 2008;53:1933-7)."""

    proximal: Segment = Segment()
    distal: Segment = Segment()


# --- actions -------------------------------------------------------------------------------------------------------

Landmark = Literal["first_gastric", "first_duodenal", "ileocaecal", "last"]
Section = Literal["patient", "indication", "procedure", "findings", "impression", "recommendation"]
SECTIONS: tuple[Section, ...] = ("patient", "indication", "procedure", "findings", "impression", "recommendation")
MOST_IMAGES = 12
"""Of a whole report, so that it stays within three pages."""


class Confirm(Model):
    """Accept it as a finding; what was set aside comes back with it."""

    kind: Literal["confirm"]
    finding: FindingId


class Reject(Model):
    """Say that it is no finding."""

    kind: Literal["reject"]
    finding: FindingId


class Reconsider(Model):
    """Take a confirmation or rejection back: undecided again."""

    kind: Literal["reconsider"]
    finding: FindingId


class Restore(Model):
    """Put what was set aside among the findings, undecided."""

    kind: Literal["restore"]
    finding: FindingId


class Relabel(Model):
    """Call it something else."""

    kind: Literal["relabel"]
    finding: FindingId
    label: Label


class MoveKeyframe(Model):
    """Show it by another frame."""

    kind: Literal["move_keyframe"]
    finding: FindingId
    frame: Frame


class Split(Model):
    """Make the frames from this one on a finding of their own."""

    kind: Literal["split"]
    finding: FindingId
    frame: Frame
    label: Label | None = None


class Merge(Model):
    """Make several findings one; it keeps id, label and keyframe of the first."""

    kind: Literal["merge"]
    findings: Annotated[tuple[FindingId, ...], Field(min_length=2, max_length=50)]


class Add(Model):
    """A finding of the reader's own."""

    kind: Literal["add"]
    frame: Frame
    label: Label
    note: Text = ""


class Note(Model):
    """Words about a finding, or about the whole exam."""

    kind: Literal["note"]
    finding: FindingId | None = None
    text: Text


class Images(Model):
    """Frames of a finding that the report shows; empty for none, null for its keyframe."""

    kind: Literal["images"]
    finding: FindingId
    frames: Annotated[tuple[Frame, ...], Field(max_length=MOST_IMAGES)] | None


class SetLandmark(Model):
    """Where the capsule passes from one organ into the next."""

    kind: Literal["landmark"]
    name: Landmark
    frame: Frame | None


class SetCleanliness(Model):
    """How clean the small bowel was."""

    kind: Literal["cleanliness"]
    value: Brotz | None


class SetLewis(Model):
    """Entries of the Lewis score."""

    kind: Literal["lewis"]
    value: Lewis | None


class SetCecdai(Model):
    """Entries of the CECDAI."""

    kind: Literal["cecdai"]
    value: Cecdai | None


class WriteReport(Model):
    """Text of one section; null for the text that is made from the findings."""

    kind: Literal["report"]
    section: Section
    text: Text | None


class Sign(Model):
    """Make the report final. Findings without a decision must be accepted as such; they stay out of the report."""

    kind: Literal["sign"]
    despite_undecided: bool = False


class Addendum(Model):
    """Open a new version of a signed report."""

    kind: Literal["addendum"]
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00]+$")]


class Undo(Model):
    """Take back one's own last action, or a certain one."""

    kind: Literal["undo"]
    target: int | None = Field(default=None, ge=1, le=MOST_FRAMES)


class Redo(Model):
    """Do again what one has just undone."""

    kind: Literal["redo"]
    target: int | None = Field(default=None, ge=1, le=MOST_FRAMES)


Action = Annotated[
    Confirm
    | Reject
    | Reconsider
    | Restore
    | Relabel
    | MoveKeyframe
    | Split
    | Merge
    | Add
    | Note
    | Images
    | SetLandmark
    | SetCleanliness
    | SetLewis
    | SetCecdai
    | WriteReport
    | Sign
    | Addendum
    | Undo
    | Redo,
    Field(discriminator="kind"),
]
