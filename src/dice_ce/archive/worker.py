"""What a worker does with a task: read the exam, write its results, and a receipt last.

The same function runs in a process of this machine and in a task of Ray. It returns what happened as a value; only the
death of the process is left for the engine to notice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import functools
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from dice_ce.archive.items import FindingRow, Outcome, Partly, Places, Result, Split, Task, Trouble
from dice_ce.archive.manifest import ReplacedError, archive_id
from dice_ce.archive.remote import staged
from dice_ce.archive.tables import frames_path, write_frames
from dice_ce.errors import DiceError, ExamError, InputError, StoreError, UnreachableError, error_line, one_line
from dice_ce.exam.open import Exam, open_exam, sidecar_beside
from dice_ce.features.extraction import SEGMENT_LENGTH, extract, extract_segments, plan_segments
from dice_ce.features.store import Features, FeatureStore
from dice_ce.files import CACHE_VARIABLE, PARTIAL_PREFIX, write_atomically
from dice_ce.method.beyond.standing import lifted
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.pipeline import summarize
from dice_ce.method.selector import screen
from dice_ce.method.summary import Summary
from dice_ce.outputs import write_outputs
from dice_ce.outputs.places import stored_digest

CHUNK_FRAMES = 1024
"""Frames of a task that works on segments: a few seconds of one core, and what the death of a worker costs."""


def perform(task: Task, progress: Callable[[], None] = lambda: None) -> Result:
    """Do one task; whatever goes wrong with the exam comes back as a value."""
    began = time.monotonic()
    with _watchdog(task) as alive:

        def step() -> None:
            alive()
            progress()

        try:
            check_archive(task.places)
            os.environ[CACHE_VARIABLE] = str(task.places.cache)
            return _perform(task, step, began)
        except (StoreError, UnreachableError) as error:
            return Trouble(error_line(error))
        except DiceError as error:
            if isinstance(error, ExamError) and not is_there(task.item.place):
                return Trouble(error_line(error))  # it was there when the run began: the share may come back
            return _failed(task, error_line(error), began)
        except MemoryError:
            limit = task.limits.memory_bytes
            said = f" (limit {limit / 2**30:.1f} GB)" if limit else ""
            return _failed(task, f"{task.item.place}: out of memory{said}; give it more with --memory", began)
        except OSError as error:
            return Trouble(one_line(f"{error.filename or task.item.place}: {error.strerror or error}"))
        except Exception as error:
            text = one_line(f"{task.item.place}: {type(error).__name__}: {error}")
            return _failed(task, f"{text}; please report this", began)


def is_there(place: str) -> bool:
    """Whether an exam is where it was, as far as that can be told at once; a share that answers with errors is away."""
    return "://" in place or os.path.exists(place)  # noqa: PTH110  no error whatever the share does


def check_archive(places: Places) -> None:
    """Refuse to write where the archive is not: under a share that is away lies an empty folder."""
    try:
        found = archive_id(places.archive)
    except InputError as error:
        raise StoreError(f"{places.archive}: the archive is not there; is its disk or share mounted?") from error
    if found != places.archive_id:
        raise ReplacedError(f"{places.archive}: another archive has taken its place; start the run again")


@contextlib.contextmanager
def _watchdog(task: Task) -> Iterator[Callable[[], None]]:
    """End this process when nothing moves any more; in C, so that native code that holds the interpreter counts."""
    with open(os.devnull, "w") as nowhere:

        def alive() -> None:
            faulthandler.dump_traceback_later(task.limits.stall_seconds, exit=True, file=nowhere)

        alive()
        try:
            yield alive
        finally:
            faulthandler.cancel_dump_traceback_later()


def _failed(task: Task, reason: str, began: float) -> Outcome:
    return Outcome(
        "failed", reason, exam_id=task.item.name, place=task.item.place, seconds=time.monotonic() - began, node=_node()
    )


def _node() -> str:
    return socket.gethostname()


@functools.lru_cache(maxsize=2)
def _bundle(spec: str | None, digest: str) -> Bundle:
    """Load a bundle once per worker, and only the one that the driver has."""
    bundle = load_bundle(spec)
    if bundle.digest != digest:
        raise InputError(
            f"bundle '{spec or bundle.name}': is another one on {_node()} ({bundle.digest[:12]}) than the driver's "
            f"({digest[:12]}); put it on the shared storage, or install the same version everywhere"
        )
    return bundle


def _perform(task: Task, step: Callable[[], None], began: float) -> Result:
    bundle = _bundle(task.recipe.bundle, task.recipe.bundle_digest)
    with _local_copy(task, step) as path, _opened(task, path, step) as exam:
        step()
        if task.kind == "segments":
            extract_segments(
                exam,
                bundle.encoder,
                task.segments,
                gate=task.recipe.gate,
                workers=task.limits.threads,
                progress=lambda done, total: step(),
            )
            return Partly(sum(stop - start for start, stop in task.segments), time.monotonic() - began)
        receipt = receipt_path(task, exam, path)
        if receipt.is_file():
            earlier = read_receipt(receipt)
            if _is_whole(task.places, exam, earlier) and not (task.is_apart and earlier.target != task.target):
                return dataclasses.replace(earlier, is_new=False)
            receipt.unlink(missing_ok=True)  # its results were removed, or replaced by those of another exam
        if task.kind == "exam" and len(exam) >= task.limits.split_frames:
            segments = plan_segments(len(exam), exam.source.keyframes)
            store = FeatureStore.of(exam, bundle.encoder, task.recipe.gate, segment_length=SEGMENT_LENGTH)
            if store.load(exam) is None:
                finished = store.finished_segments()
                left = tuple(segment for segment in segments if segment[0] not in finished)
                return Split(exam, left, time.monotonic() - began)
        return _finish(task, exam, bundle, receipt, step, began)


@contextlib.contextmanager
def _local_copy(task: Task, step: Callable[[], None]) -> Iterator[Path]:
    if task.item.is_remote:
        with staged(task.item, task.places.scratch, task.places.scratch_bytes, step) as path:
            yield path
    else:
        yield Path(task.item.place)


def _opened(task: Task, path: Path, step: Callable[[], None]) -> Exam:
    """Open the exam, or take what another worker has found out about it."""
    if task.opened is not None:
        if not task.item.is_remote:
            return task.opened
        return dataclasses.replace(task.opened, source=task.opened.source.copied_to(path))
    clock, recipe = task.recipe.clock_of(task.item), task.recipe
    exam = open_exam(path, clock=clock, crop=recipe.crop, mask=recipe.mask, progress=lambda done, total: step())
    return dataclasses.replace(exam, id=task.item.name) if task.item.is_named else exam


def _finish(task: Task, exam: Exam, bundle: Bundle, receipt: Path, step: Callable[[], None], began: float) -> Outcome:
    """Do the rest of an exam; the receipt comes last, and whoever comes second with one withdraws."""
    recipe = task.recipe
    features = extract(
        exam, bundle.encoder, gate=recipe.gate, workers=task.limits.threads, progress=lambda done, total: step()
    )
    summary = summarize(
        exam,
        bundle=bundle,
        profile=recipe.profile,
        settings=recipe.settings,
        gate=recipe.gate,
        workers=task.limits.threads,
        progress=lambda done, total: step(),
        command=recipe.command(task.item),
    )
    step()
    target = task.places.archive / "results" / task.target
    check_archive(task.places)
    for other in receipt.parent.glob(f"{exam.digest[:32]}-*.json"):
        if other != receipt:  # of another recipe, whose results are replaced now
            other.unlink(missing_ok=True)
    write_outputs(summary, exam, target.parent, force=True, workers=task.limits.threads)
    step()
    screened = lifted(screen(features, bundle.selector, exam.clock), recipe.settings.standing)
    write_frames(task.places.archive, exam, screened)
    outcome = _outcome(task, exam, features, summary, time.monotonic() - began)
    first = publish_receipt(receipt, outcome)
    if first.target != outcome.target:  # the same content lies at two places, and the other one was faster
        shutil.rmtree(target, ignore_errors=True)
    _check_written(task.places, exam, first, receipt)
    if not task.limits.keep_features:
        store = FeatureStore.of(exam, bundle.encoder, recipe.gate, segment_length=SEGMENT_LENGTH)
        shutil.rmtree(store.folder, ignore_errors=True)
        store.folder.with_suffix(".lock").unlink(missing_ok=True)
    return first


def _check_written(places: Places, exam: Exam, outcome: Outcome, receipt: Path) -> None:
    """Notice what was written while the share was away for a moment, and lies in the folder under it."""
    check_archive(places)
    if not (receipt.is_file() and _is_whole(places, exam, outcome)):
        raise StoreError(f"{places.archive}: was away while {outcome.exam_id} was written; is its share mounted?")


def _is_whole(places: Places, exam: Exam, outcome: Outcome) -> bool:
    """Whether the results of an exam are there, and are its own."""
    folder = places.archive / "results" / outcome.target
    return stored_digest(folder) == exam.digest and frames_path(places.archive, exam).is_file()


def _outcome(task: Task, exam: Exam, features: Features, summary: Summary, seconds: float) -> Outcome:
    return Outcome(
        "done",
        content_digest=exam.digest,
        exam_id=exam.id,
        target=task.target,
        place=task.item.place,
        frames=len(exam),
        decoded=len(features),
        is_exam_time=exam.clock.is_exam_time,
        findings=tuple(
            FindingRow(
                label=one.label,
                confidence=one.confidence,
                abnormality=one.abnormality,
                margin=one.margin,
                runner_up=one.runner_up,
                frame=one.keyframe.frame,
                seconds=one.keyframe.seconds,
                first_seconds=one.first_seconds,
                last_seconds=one.last_seconds,
                supporting_frames=len(one.support),
            )
            for one in summary.items
        ),
        seconds=seconds,
        node=_node(),
    )


# --- receipts -----------------------------------------------------------------------------------------------------


def receipt_path(task: Task, exam: Exam, path: Path) -> Path:
    """Name a receipt after content, bundle and settings; a clock file counts by its content, too."""
    sidecar = task.recipe.clock_of(task.item).sidecar or sidecar_beside(path)
    parts = [task.recipe.bundle_digest, task.recipe.digest(task.item)]
    if os.path.isfile(sidecar):  # noqa: PTH113  no error if the name is too long
        parts.append(hashlib.sha256(sidecar.read_bytes()).hexdigest())
    recipe = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return task.places.archive / "receipts" / exam.digest[:2] / f"{exam.digest[:32]}-{recipe[:16]}.json"


def publish_receipt(path: Path, outcome: Outcome) -> Outcome:
    """Create a receipt, unless there is one; return the one that counts. A link, unlike a rename, replaces nothing."""
    draft = path.with_name(f"{PARTIAL_PREFIX}{os.urandom(8).hex()}")
    write_atomically(draft, msgspec.json.encode(outcome))
    try:
        os.link(draft, path)
        return outcome
    except FileExistsError:
        return dataclasses.replace(read_receipt(path), is_new=False)
    finally:
        draft.unlink(missing_ok=True)


def read_receipt(path: Path) -> Outcome:
    """Read a receipt back."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Outcome)
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); remove it, and the exam is read again") from error


def chunk_segments(
    segments: tuple[tuple[int, int], ...], frames: int = CHUNK_FRAMES
) -> list[tuple[tuple[int, int], ...]]:
    """Deal segments into tasks of about as many frames each."""
    chunks: list[list[tuple[int, int]]] = []
    filled = frames
    for start, stop in segments:
        if filled >= frames:
            chunks.append([])
            filled = 0
        chunks[-1].append((start, stop))
        filled += stop - start
    return [tuple(chunk) for chunk in chunks]
