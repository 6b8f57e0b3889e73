"""Results: what `summarize` leaves of an exam, from which exports are made without reading the exam again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dice_ce.errors import InputError
from dice_ce.exam.clock import MAX_SECONDS
from dice_ce.exam.dicom.identity import Identity
from dice_ce.method.summary import Summary
from dice_ce.outputs.keyframes import keyframe_name

JPEG_MAGIC, JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"


@dataclass(frozen=True)
class Results:
    """One exam: the summary, the image of every finding, and whose exam it is, if that was asked for."""

    summary: Summary
    keyframes: tuple[bytes, ...]
    """JPEGs, in the order of the findings."""
    identity: Identity | None = None
    rendered: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """What several exports need, such as the PDF, made once."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that exports are made from."""
        parts = [self.summary.to_json().encode(), *self.keyframes, repr(self.identity).encode()]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def read_results(folder: Path, identity: Identity | None = None) -> Results:
    """Read summary.json and keyframes/; one line says what is missing."""
    path = folder / "summary.json"
    try:
        summary = Summary.from_json(path.read_text(encoding="utf-8"))
        if summary.exam.read < 1:
            raise InputError("is unfinished, the exam is still being read; let summarize finish, or run it again")
        keyframes = tuple(
            (folder / "keyframes" / keyframe_name(number, item)).read_bytes()
            for number, item in enumerate(summary.items, start=1)
        )
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; give a folder that summarize has written") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a folder that summarize has written") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    for number, (item, content) in enumerate(zip(summary.items, keyframes, strict=True), start=1):
        if not (content.startswith(JPEG_MAGIC) and content.endswith(JPEG_END)):
            name = keyframe_name(number, item)
            raise InputError(f"{folder / 'keyframes' / name}: is not a whole JPEG image; run summarize again")
    _check(summary, path)
    if identity is not None and identity.exam_digest not in ("", summary.exam.digest):
        identity = identity.without_frames()  # another object of the study: its frames are not these
    return Results(summary, keyframes, identity)


def _check(summary: Summary, path: Path) -> None:
    """Refuse what a summary of ours never says: it may have been edited, and exports go to other people."""
    labels = summary.taxonomy.labels
    for item in summary.items:
        if not {item.label, item.runner_up, item.provisional} <= set(labels):
            raise InputError(f"{path}: finding {item.id} has a label that its taxonomy lacks; run summarize again")
        if item.keyframe.frame >= summary.counts.frames:
            raise InputError(f"{path}: finding {item.id} shows a frame that the exam lacks; run summarize again")
        if max(item.keyframe.seconds, item.first_seconds, item.last_seconds) > MAX_SECONDS:
            raise InputError(f"{path}: finding {item.id} is later than any exam lasts; run summarize again")
