"""De-identification in order: look, hide, write, and prove on what was written that nothing legible is left."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dice_ce import DISCLAIMER, __version__
from dice_ce.deidentify.blackout import Blackout, kept_pixels
from dice_ce.deidentify.legible import FoundText, gather, is_legible
from dice_ce.deidentify.write import (
    ContainerFacts,
    Quality,
    container_facts,
    into_zip,
    is_patient_free,
    write_images,
    write_video,
)
from dice_ce.errors import ExamError, InputError, UsageError
from dice_ce.exam.clock import ExamClock
from dice_ce.exam.field import FULL, Mask, dilated
from dice_ce.exam.ocr import Box, TextLine, text_reader
from dice_ce.exam.open import Exam, Renderer, open_exam
from dice_ce.exam.overlay import joined
from dice_ce.files import atomic_file, atomic_folder
from dice_ce.progress import Watch
from dice_ce.types import Image, Ints

Form = Literal["video", "folder", "zip"]
LOOKS, CHECKS = 24, 48
"""Frames that are looked at for text before, and in what was written."""
RINGING = 16
"""Pixels around what is kept in which compression may leave a shimmer on the black."""
BLACK = 24
"""Largest value of a pixel that counts as black after compression."""
COVER_PADDING = 3


class LegibleError(InputError):
    """Something legible was left, so nothing was published."""


@dataclass(frozen=True)
class Options:
    """What the user decides."""

    quality: Quality = "high"
    keep_inner_text: bool = False
    covers: tuple[Box, ...] = ()
    """Boxes to cover besides those that are found."""
    checks: int = CHECKS
    """Frames of the result that are searched for text."""
    keep_times: bool = False
    """Keep the time of the first frame; else the clock file begins at 0."""


@dataclass(frozen=True)
class Report:
    """What was found, removed and proved; carries no text of the exam unless asked for."""

    software: str
    disclaimer: str
    form: Form
    frames: int
    undecodable: tuple[int, ...]
    """Frames that could not be decoded and are black."""
    field: str
    texts: tuple[FoundText, ...]
    covers: tuple[Box, ...]
    removed: ContainerFacts
    renamed: int
    """Files that have new names."""
    quality: Quality
    clock: str
    frames_compared: int
    """Frames of the result whose hidden pixels are black: all of them."""
    frames_searched: int
    """Frames of the result in which no legible text was found."""
    notes: tuple[str, ...] = ()

    def to_json(self, *, with_text: bool = False) -> str:
        """Write it for programs; what the texts say is left out unless asked for."""
        facts: dict[str, Any] = asdict(self)
        for text in facts["texts"]:
            words = text.pop("text")
            text["characters"] = len(words)
            if with_text:
                text["text"] = words
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def form_of(exam: Exam) -> Form:
    """Say what kind of export this is."""
    if exam.source.names is None:
        return "video"
    return "folder" if exam.source.path.is_dir() else "zip"


ENDINGS: dict[Form, str] = {"video": ".mp4", "zip": ".zip", "folder": ""}


def check_target(form: Form, out: Path) -> None:
    """Refuse what exists already, and endings that say something else than what is written."""
    if out.exists() and not (form == "folder" and out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out}: is there already; give another --out, nothing is replaced")
    if out.suffix.lower() != ENDINGS[form]:
        wanted = f"a name that ends in {ENDINGS[form]}" if ENDINGS[form] else "the name of a folder, without ending"
        raise UsageError(f"--out {out}: a {form} becomes a {form}; give {wanted}")


def deidentify(exam: Exam, out: Path, options: Options = Options(), *, watch: Watch | None = None) -> Report:  # noqa: B008
    """Write `out`, its clock file (if the exam time is known) and its report beside it, or nothing at all."""
    form = form_of(exam)
    check_target(form, out)
    if exam.crop is not None:
        raise UsageError("deidentify works on whole images: leave out --crop")
    ordinals = _spread(len(exam), LOOKS)
    found = gather(_lines(exam, ordinals, FULL, watch, "looking for text"), exam.field.mask(exam.width, exam.height))
    covers = options.covers
    if not options.keep_inner_text:
        covers += exam.covers + tuple(
            text.box.padded(COVER_PADDING, COVER_PADDING, exam.image_size) for text in found if text.is_inside
        )
    covers = joined(covers)
    keep = kept_pixels(exam.field, covers, exam.width, exam.height)
    if not keep.any():
        raise ExamError(f"{exam.source.path}: nothing would be left of the images; give the covers by hand (--cover)")
    report = Report(
        software=f"dice-ce {__version__}",
        disclaimer=DISCLAIMER,
        form=form,
        frames=len(exam),
        undecodable=(),
        field=exam.field.kind,
        texts=found,
        covers=covers,
        removed=container_facts(exam.source.path) if form == "video" else ContainerFacts((), ()),
        renamed=len(exam.source.names or ()),
        quality=options.quality,
        clock=exam.clock.source,
        frames_compared=len(exam),
        frames_searched=0,
        notes=_notes(exam, out),
    )
    return _publish(exam, out, keep, report, options, watch)


def _notes(exam: Exam, out: Path) -> tuple[str, ...]:
    notes = []
    if exam.field.kind == "full":
        notes.append("no field of view was found: only the text that was read is hidden, nothing around it")
    if not is_patient_free(out.stem, exam.source.path.name):
        notes.append("the name of the output repeats words from that of the input")
    return tuple(notes)


def _publish(exam: Exam, out: Path, keep: Mask, report: Report, options: Options, watch: Watch | None) -> Report:
    """Write everything into drafts, check them, and only then let them appear."""
    bar = watch(exam.id) if watch else None
    blackout = Blackout(keep)
    with ExitStack() as stack:
        notes = stack.enter_context(atomic_file(out.with_name(f"{out.stem}.deidentified.json")))
        if exam.clock.is_exam_time:
            clock = stack.enter_context(atomic_file(out.with_name(f"{out.stem}.clock.csv")))
            clock.write(clock_csv(exam.clock, len(exam), options.keep_times).encode())
        if report.form == "video":
            file = stack.enter_context(atomic_file(out))
            missing = write_video(exam, blackout, file, options.quality, bar)
            file.flush()
            written = Path(file.name)
        else:
            written, missing = _write_images(exam, out, keep, report, options, bar, stack)
        searched = prove(exam, written, keep, options, watch)
        report = dataclasses.replace(report, undecodable=missing, frames_searched=searched)
        notes.write(report.to_json().encode())
    return report


def _write_images(
    exam: Exam, out: Path, keep: Mask, report: Report, options: Options, bar: Any, stack: ExitStack
) -> tuple[Path, tuple[int, ...]]:
    def hide(image: Image) -> Image:
        return np.where(keep[:, :, None], image, np.uint8(0))

    if report.form == "folder":
        folder = stack.enter_context(atomic_folder(out, ()))
        missing = write_images(exam, hide, lambda name, content: _write(folder / name, content), options.quality, bar)
        return folder, missing
    file = stack.enter_context(atomic_file(out))
    with zipfile.ZipFile(file, "w") as archive:
        missing = write_images(exam, hide, into_zip(archive), options.quality, bar)
    file.flush()
    return Path(file.name), missing


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def clock_csv(clock: ExamClock, frames: int, keep_times: bool) -> str:
    """Write the exam clock as a sidecar, from 0 on unless the times are to be kept."""
    first = 0 if keep_times else int(clock.ticks[0])
    rows = (f"{i},{float((int(clock.ticks[i]) - first) * clock.unit):.3f}\n" for i in range(frames))
    return "frame,seconds\n" + "".join(rows)


# --- the proof ------------------------------------------------------------------------------------------------------


def prove(exam: Exam, written: Path, keep: Mask, options: Options, watch: Watch | None) -> int:
    """Open what was written and refuse it unless frames, times and black pixels are right and no text can be read."""
    with open_exam(written, mask=False) as result:
        _same_frames(exam, result)
        _all_black(result, keep, watch)
        ordinals = _spread(len(result), options.checks, shift=0.5)
        searched = 0
        for ordinal, lines in zip(ordinals, _lines(result, ordinals, FULL, watch, "proving"), strict=True):
            searched += 1
            left = [line for line in lines if is_legible(line)]
            if left and not options.keep_inner_text:
                box = left[0].box.padded(COVER_PADDING, COVER_PADDING, result.image_size)
                place = ",".join(map(str, box))
                raise LegibleError(
                    f"{exam.source.path}: frame {ordinal} would still show text at {place} (x,y,width,height), so "
                    f"nothing was written; cover it with --cover {place}"
                )
    return searched


def _same_frames(exam: Exam, result: Exam) -> None:
    before = [(int(pts) - int(exam.frames.pts[0])) * exam.frames.time_base for pts in exam.frames.pts]
    after = [(int(pts) - int(result.frames.pts[0])) * result.frames.time_base for pts in result.frames.pts]
    if before != after:
        raise ExamError(
            f"{exam.source.path}: the written exam would have {len(after)} frames at other times than the "
            f"{len(before)} of the original, so nothing was written; copy or export the exam again"
        )


def _all_black(result: Exam, keep: Mask, watch: Watch | None) -> None:
    """Look at the hidden pixels of every frame."""
    bar = watch("comparing") if watch else None
    hidden = ~dilated(keep, RINGING)
    if not hidden.any():
        return
    for ordinal, image in result.read():
        if int(image[hidden].max()) > BLACK:
            raise LegibleError(f"{result.id}: frame {ordinal} is not black where it should be, so nothing was written")
        if bar is not None:
            bar(ordinal + 1, len(result))


def _lines(exam: Exam, ordinals: Sequence[int], field: Any, watch: Watch | None, label: str) -> list[list[TextLine]]:
    bar = watch(label) if watch else None
    reader, found = text_reader(), []
    whole = dataclasses.replace(exam, crop=None, field=field, covers=())
    render = Renderer(whole, None, "area")
    with closing(exam.source.open(threads=1)) as cursor:
        for number, wanted in enumerate(ordinals, start=1):
            lines: list[TextLine] = []
            for ordinal, frame in cursor.read(wanted, wanted + 1):
                lines = reader.find(render(ordinal, frame))
            found.append(lines)
            if bar is not None:
                bar(number, len(ordinals))
    return found


def _spread(frames: int, count: int, shift: float = 0.0) -> list[int]:
    """Ordinals all over the exam; a shift of a half gives those in the middle between the others."""
    places: Ints = np.unique(
        ((np.arange(min(count, frames)) + shift) * frames / max(1, min(count, frames))).astype(np.int64)
    )
    return [int(place) for place in places.clip(0, frames - 1)]
