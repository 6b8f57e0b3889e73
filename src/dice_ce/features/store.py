"""The cache of features: content-addressed, crash-proof, memory-mapped.

    features/<key>/segments/000512.npz    one finished stretch of frames; what a resumed run need not do again
    features/<key>/vectors.npy index.npy exact.npy
    features/<key>/manifest.json          written last: where it exists, the features are complete

`<key>` is a hash over everything that shapes the features: the exam's content, crop and field of view, the encoder,
the gate. Every file is published by an atomic rename, so a killed process leaves whole files or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import StoreError
from dice_ce.exam.frames import FrameTable
from dice_ce.exam.open import Exam
from dice_ce.features.encoder import Encoder
from dice_ce.features.gate import GateConfig
from dice_ce.features.rows import Rows
from dice_ce.files import DAMAGED_ARRAY, PARTIAL_PREFIX, atomic_file, cache_root, write_atomically
from dice_ce.types import Ints

FORMAT = 1
"""Raise when the meaning of stored features changes; older ones are then computed anew."""


DAMAGED = (OSError, LookupError, TypeError, AttributeError, RecursionError, *DAMAGED_ARRAY)
"""What a changed file can raise when it is read back."""


@dataclass(frozen=True)
class ExtractionReport:
    """What happened to the frames of an exam, in counts that add up."""

    frames: int
    """Frames that were read, all of the exam unless a run still goes on: exact + reused + undecodable."""
    exact: int
    """Frames whose feature was computed."""
    reused: int
    """Frames that took the feature of a near-identical neighbour."""
    undecodable: tuple[int, ...]
    """Ordinals of the frames that could not be decoded."""
    doubtful: int
    """Frames that were decoded on top of an undecodable one and may show its damage."""
    gate_error: float
    """Largest cosine distance between two exact features around reused ones."""


@dataclass(frozen=True, eq=False)
class Features:
    """Visual features u_t of the decodable frames of one exam."""

    frames: FrameTable
    vectors: npt.NDArray[np.float16]
    """[len(frames), d], memory-mapped from the cache."""
    exact: npt.NDArray[np.bool_]
    """Whether a row was computed from its own frame."""
    encoder: str
    encoder_digest: str
    report: ExtractionReport

    def __post_init__(self) -> None:
        if not len(self.frames) == len(self.vectors) == len(self.exact):
            raise ValueError(
                f"expected as many vectors as frames, got {len(self.frames)} frames, "
                f"{len(self.vectors)} vectors and {len(self.exact)} flags"
            )

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True, eq=False)
class Segment:
    """Features of one stretch of frames, as it is worked on and stored."""

    index: Ints
    vectors: npt.NDArray[np.float16]
    exact: npt.NDArray[np.bool_]
    worst: float


@dataclass(frozen=True)
class FeatureStore:
    """The place of one exam's features under one encoder and one gate."""

    folder: Path
    identity: dict[str, Any]
    """What the key is a hash of, kept in the manifest for people."""

    @classmethod
    def of(cls, exam: Exam, encoder: Encoder, gate: GateConfig | None, *, segment_length: int) -> FeatureStore:
        """Address the features by everything that shapes them."""
        identity: dict[str, Any] = {
            "format": FORMAT,
            "exam": exam.digest,
            "crop": list(exam.crop) if exam.crop else None,
            "field": [list(point) for point in exam.field.polygon],
            "encoder": encoder.digest,
            "gate": asdict(gate) if gate else None,
            "segment_length": segment_length,
        }
        if exam.covers:
            identity["covers"] = [list(cover) for cover in exam.covers]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
        return cls(cache_root() / "features" / key, identity)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process from doing the same work; the system lets go of the lock if this one dies."""
        lock = self.folder.with_suffix(".lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("w")
        except OSError as error:
            raise StoreError(
                f"{lock.parent}: the cache cannot be written ({error.strerror}); set DICE_CE_CACHE to another folder"
            ) from error
        with file:
            if os.name == "posix":
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            for leftover in self.folder.rglob(f"{PARTIAL_PREFIX}*"):  # of a process that was killed
                leftover.unlink()
            yield

    def finished_segments(self) -> set[int]:
        """First frames of the stretches that are done."""
        return {int(path.stem) for path in self._parts.glob("*.npz")}

    def save_segment(self, start: int, segment: Segment) -> None:
        """Publish one finished stretch."""
        with atomic_file(self._segment_path(start)) as file:
            np.savez(
                file, index=segment.index, vectors=segment.vectors, exact=segment.exact, worst=np.array(segment.worst)
            )

    def publish(self, exam: Exam, encoder: Encoder) -> None:
        """Join the finished stretches into one table, the manifest last, then drop the parts.

        Vectors go from file to file one stretch at a time, so that memory does not grow with the exam.
        """
        paths = sorted(self._parts.glob("*.npz"))
        index = np.concatenate([_member(path, "index") for path in paths])
        exact = np.concatenate([_member(path, "exact") for path in paths])
        worst = max(float(_member(path, "worst")) for path in paths)
        with atomic_file(self.folder / "vectors.npy") as file:
            header = {"descr": "<f2", "fortran_order": False, "shape": (len(index), encoder.dim)}
            np.lib.format.write_array_header_1_0(file, header)
            for path in paths:
                file.write(_member(path, "vectors").tobytes())
        for name, array in (("index", index), ("exact", exact)):
            with atomic_file(self.folder / f"{name}.npy") as file:
                np.save(file, array)
        report = _make_report(exam, exam.frames.index, index, exact, worst)
        manifest = {
            "identity": self.identity,
            "exam_id": exam.id,
            "encoder": encoder.name,
            "dim": encoder.dim,
            "report": asdict(report),
        }
        write_atomically(self.folder / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode())
        shutil.rmtree(self._parts)

    def load_finished(self, exam: Exam, encoder: Encoder, segments: Sequence[tuple[int, int]]) -> Features:
        """Read the features of the stretches that are done, at least one, while the others are still worked on."""
        finished = self.finished_segments()
        done = [segment for segment in segments if segment[0] in finished]
        paths = [self._segment_path(start) for start, _ in done]
        index, vectors, exact = (
            np.concatenate([_member(path, name) for path in paths]) for name in ("index", "vectors", "exact")
        )
        read = np.concatenate([np.arange(*segment) for segment in done])
        report = _make_report(exam, read, index, exact, max(float(_member(path, "worst")) for path in paths))
        return Features(exam.frames[index], vectors, exact, encoder.name, encoder.digest, report)

    def clear_parts(self) -> None:
        """Drop what complete features were joined from, where a process was killed before it could."""
        if self._parts.is_dir():
            with self.locked():
                if (self.folder / "manifest.json").is_file():
                    shutil.rmtree(self._parts, ignore_errors=True)

    def load(self, exam: Exam) -> Features | None:
        """Map complete features into memory; None if they are not there yet."""
        try:
            manifest = json.loads((self.folder / "manifest.json").read_text())
            vectors = np.load(self.folder / "vectors.npy", mmap_mode="r")
            index, exact = np.load(self.folder / "index.npy"), np.load(self.folder / "exact.npy")
            _check_values(vectors, index)
            report = manifest["report"] | {"undecodable": tuple(manifest["report"]["undecodable"])}
            return Features(
                frames=exam.frames[index],
                vectors=vectors,
                exact=exact,
                encoder=manifest["encoder"],
                encoder_digest=manifest["identity"]["encoder"],
                report=ExtractionReport(**report),
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except DAMAGED as error:
            raise StoreError(
                f"{self.folder}: the stored features are damaged ({error}); remove them with 'dice-ce cache clear'"
            ) from error

    @property
    def _parts(self) -> Path:
        return self.folder / "segments"

    def _segment_path(self, start: int) -> Path:
        return self._parts / f"{start:08d}.npz"


def _make_report(exam: Exam, read: Ints, index: Ints, exact: npt.NDArray[np.bool_], worst: float) -> ExtractionReport:
    """Count what became of the frames `read`, of which those in `index` could be decoded."""
    undecodable = np.setdiff1d(read, index)
    return ExtractionReport(
        frames=len(read),
        exact=int(exact.sum()),
        reused=int((~exact).sum()),
        undecodable=tuple(int(i) for i in undecodable),
        doubtful=count_doubtful(undecodable, exam.source.keyframes, len(exam)),
        gate_error=worst,
    )


def _check_values(vectors: npt.NDArray[np.float16], index: Ints) -> None:
    """Refuse features that were changed on the disk into what no encoder gives; piece by piece, to save memory."""
    if (index < 0).any():
        raise ValueError("some frames have negative ordinals")
    if not all(np.isfinite(Rows(vectors)[i : i + 4096]).all() for i in range(0, len(vectors), 4096)):
        raise ValueError("some are not finite")


def _member(path: Path, name: str) -> npt.NDArray[Any]:
    try:
        with np.load(path) as stored:
            return np.asarray(stored[name])
    except DAMAGED as error:
        raise StoreError(f"{path}: is damaged ({error}); remove it with 'dice-ce cache clear --partial'") from error


def count_doubtful(undecodable: Ints, keyframes: Ints, frame_count: int) -> int:
    """Count decoded frames between an undecodable one and the next keyframe: they are built on top of it."""
    doubtful: set[int] = set()
    for damaged in undecodable:
        following = keyframes[np.searchsorted(keyframes, damaged, side="right") :]
        doubtful.update(range(int(damaged) + 1, int(following[0]) if len(following) else frame_count))
    return len(doubtful.difference(int(i) for i in undecodable))


# --- the whole cache, for people ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CacheEntry:
    """One thing in the cache."""

    kind: str
    """`features`, `partial` (features of an interrupted run), `images` (features of single images) or `clocks`."""
    name: str
    """Exam, or what it is."""
    encoder: str
    frames: int
    bytes: int
    path: Path


def list_cache() -> list[CacheEntry]:
    """Describe everything in the cache, without opening anything large."""
    root = cache_root()
    entries: list[CacheEntry] = []
    images = sorted(root.glob("images/*.npy"))
    if images:
        size = sum(_size(path) for path in images)
        entries.append(CacheEntry("images", f"{len(images)} chunks of single images", "", 0, size, root / "images"))
    clocks = sorted(root.glob("clocks/*.json"))
    if clocks:
        size = sum(_size(path) for path in clocks)
        entries.append(CacheEntry("clocks", f"{len(clocks)} burned-in clocks", "", 0, size, root / "clocks"))
    for folder in sorted(path for path in root.glob("features/*") if path.is_dir()):
        size = sum(_size(file) for file in folder.rglob("*"))
        try:
            manifest = json.loads((folder / "manifest.json").read_text())
            entry = CacheEntry(
                "features", manifest["exam_id"], manifest["encoder"], manifest["report"]["frames"], size, folder
            )
        except DAMAGED:
            entry = CacheEntry("partial", folder.name, "", 0, size, folder)
        entries.append(entry)
    return entries


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a running extraction has renamed or removed it
        return 0


def clear_cache(kinds: set[str]) -> list[CacheEntry]:
    """Remove entries of these kinds and say which they were; folders that a running extraction holds are left alone."""
    removed = []
    for entry in list_cache():
        try:
            if entry.kind in kinds and _remove_unless_locked(entry.path):
                removed.append(entry)
        except OSError as error:
            raise StoreError(f"{entry.path}: cannot be removed ({error.strerror}); check the permissions") from error
    return removed


def _remove_unless_locked(folder: Path) -> bool:
    if folder.is_file():
        folder.unlink()
        return True
    lock = folder.with_suffix(".lock")
    with lock.open("w") as file:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        # The manifest first: without it, a half-removed folder counts as partial, never as complete.
        (folder / "manifest.json").unlink(missing_ok=True)
        shutil.rmtree(folder)
        lock.unlink(missing_ok=True)
    return True
