"""Finding what was given: folders of results and the videos that belong to them, and filing them in the database."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dice_ce.errors import DiceError, InputError, UsageError, error_line
from dice_ce.exam.folders import VIDEO_SUFFIXES, look_into
from dice_ce.exam.open import Exam, exam_name, open_exam
from dice_ce.method.summary import Summary
from dice_ce.reader import tables as t
from dice_ce.reader.state import initial_state
from dice_ce.reader.storage import Storage, new_id, pack_summary, project

SUMMARY = "summary.json"
BATCH = 100
"""Results per transaction: a start with thousands of new ones must not wait for the disk after each."""


@dataclass(frozen=True)
class Inputs:
    """What the paths on the command line lead to."""

    results: tuple[Path, ...]
    """Folders with a summary."""
    exams: tuple[Path, ...]


def find_inputs(paths: Sequence[Path]) -> Inputs:
    """Look for results and exams, in folders at any depth."""
    results: dict[Path, None] = {}
    exams: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder; give folders of results, or exams")
        if path.is_file():
            exams[path] = None
            continue
        for folder, inner, files in os.walk(path, followlinks=False):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            here = Path(folder)
            if SUMMARY in files:
                results[here] = None
                inner[:] = []  # what lies in a result is part of it
            elif look_into(here).images:
                exams[here] = None
                # Images are the exam, but somebody may also have put a picture beside results.
                inner[:] = [name for name in inner if (here / name / SUMMARY).is_file()]
            else:
                exams |= {here / name: None for name in sorted(files) if _is_video(name)}
    if not results and not exams:
        raise UsageError(
            f"{paths[0]}: neither results nor exams in it; make results with: dice-ce summarize EXAM --out DIR"
        )
    return Inputs(tuple(results), tuple(exams))


def _is_video(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((*VIDEO_SUFFIXES, ".zip"))


class _Filing:
    """One pass over the inputs. What the database knows is read once at its start: thousands of exams stay quick."""

    def __init__(self, connection: sa.Connection, inputs: Inputs) -> None:
        self.seen: set[str] = set()
        """Digests of the exams that were filed."""
        self.taken: set[Path] = set()
        """Videos of results."""
        self._videos: dict[str, list[Path]] = defaultdict(list)
        for path in inputs.exams:
            self._videos[exam_name(path)].append(path)
        self._sources = {row.path: row for row in connection.execute(sa.select(t.sources))}
        first = sa.select(t.readings).where(t.readings.c.second_of.is_(None))
        self._rows = {row.exam_digest: row for row in connection.execute(first)}
        self._listed: dict[Path, dict[str, Path]] = {}

    def file_results(self, connection: sa.Connection, folders: Sequence[Path], complain: Callable[[str], None]) -> None:
        """File some results."""
        unchanged: list[str] = []
        for folder in folders:
            try:
                if (digest := self._file(connection, folder)) is not None:
                    unchanged.append(digest)
            except DiceError as error:
                complain(error_line(error))
        present = t.readings.update().where(t.readings.c.exam_digest.in_(unchanged))
        connection.execute(present.values(is_present=True))

    def _file(self, connection: sa.Connection, folder: Path) -> str | None:
        """File one result; return the exam's digest if nothing about it has changed."""
        path = folder / SUMMARY
        try:
            facts = path.stat()
            known = self._sources.get(str(path.absolute()))
            content = None
            if (
                known is None
                or (known.size, known.modified) != (facts.st_size, facts.st_mtime_ns)
                or known.exam_digest not in self._rows
            ):
                content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error
        if content is None:
            assert known is not None
            self._see(folder, known.exam_digest)
            row = self._rows[known.exam_digest]
            places = self._places(folder, row.name)
            if known.digest == row.summary and row.newer_summary is None and (row.folder, row.video) == places:
                return str(known.exam_digest)
            content = path.read_bytes()
            summary = _parse(path, content)
        else:
            summary = _parse(path, content)
            self._see(folder, summary.exam.digest)
        digest = hashlib.sha256(content).hexdigest()
        _remember(connection, path, facts, digest, summary.exam.digest)
        self._store(connection, summary, content, digest, folder)
        return None

    def _see(self, folder: Path, exam_digest: str) -> None:
        if exam_digest in self.seen:
            raise InputError(f"{folder}: left out, because there are other results of the same exam")
        self.seen.add(exam_digest)

    def _store(self, connection: sa.Connection, summary: Summary, content: bytes, digest: str, folder: Path) -> None:
        """Begin a reading with these results, or say to one that has begun with others that there are newer ones."""
        c, row = t.readings.c, self._rows.get(summary.exam.digest)
        place, video = self._places(folder, summary.exam.id)
        places = {"folder": place, "video": video, "is_present": True}
        _keep_summary(connection, digest, content)
        if row is not None and row.version:
            newer = {"newer_summary": None if digest == row.summary else digest, **places}
            connection.execute(t.readings.update().where(c.exam_digest == summary.exam.digest).values(**newer))
            return
        values = _facts(summary) | places | {"summary": digest, "newer_summary": None}
        if row is not None:
            connection.execute(t.readings.update().where(c.id == row.id).values(**values))
        else:
            connection.execute(t.readings.insert().values(id=new_id(), **values))

    def _places(self, folder: Path, name: str) -> tuple[str, str | None]:
        """Return where results and their video are: of those of that name, the nearest; given ones come first."""
        parents = (folder.parent, folder.parent.parent)
        ranked = sorted(self._videos.get(name, []), key=lambda path: (path.parent not in parents, str(path)))
        ranked += [beside for parent in parents if (beside := self._listing(parent).get(name)) is not None]
        if not ranked:
            return str(folder.absolute()), None
        self.taken.add(ranked[0])
        return str(folder.absolute()), str(ranked[0].absolute())

    def _listing(self, folder: Path) -> dict[str, Path]:
        """List the videos in a folder by their names, once."""
        if folder not in self._listed:
            try:
                videos = [path for path in sorted(folder.iterdir()) if _is_video(path.name)]
            except OSError:
                videos = []
            self._listed[folder] = {path.stem: path for path in videos}
        return self._listed[folder]


def file_inputs(
    storage: Storage,
    inputs: Inputs,
    complain: Callable[[str], None],
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Make the worklist show these results and exams, and no others; return how many there are.

    What cannot be read is complained about and left out.
    """
    total, note = len(inputs.results) + len(inputs.exams), progress or (lambda done, total: None)
    with storage.engine.begin() as connection:
        connection.execute(t.readings.update().values(is_present=False))
        filing = _Filing(connection, inputs)
    for start in range(0, len(inputs.results), BATCH):
        with storage.engine.begin() as connection:
            filing.file_results(connection, inputs.results[start : start + BATCH], complain)
        note(min(start + BATCH, len(inputs.results)), total)
    for number, path in enumerate(inputs.exams, start=len(inputs.results) + 1):
        if path not in filing.taken:
            try:
                _file_exam(storage, path, filing.seen)
            except DiceError as error:
                complain(error_line(error))
        note(number, total)
    return len(filing.seen)


def _parse(path: Path, content: bytes) -> Summary:
    try:
        return Summary.from_json(content.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; make the results again") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _facts(summary: Summary) -> dict[str, Any]:
    clock = summary.exam.clock
    return {
        "exam_digest": summary.exam.digest,
        "name": summary.exam.id,
        "frames": summary.counts.frames,
        "duration": clock.last_seconds - clock.first_seconds,
        "is_exam_time": clock.is_exam_time,
    } | project(initial_state(summary, summary.counts.frames), 0)


def _keep_summary(connection: sa.Connection, digest: str, content: bytes) -> None:
    c = t.summaries.c
    if connection.scalar(sa.select(c.digest).where(c.digest == digest)) is None:
        connection.execute(t.summaries.insert().values(digest=digest, content=pack_summary(content)))


def _remember(connection: sa.Connection, path: Path, facts: os.stat_result, digest: str, exam: str) -> None:
    place = str(path.absolute())
    connection.execute(t.sources.delete().where(t.sources.c.path == place))
    connection.execute(
        t.sources.insert().values(
            path=place, size=facts.st_size, modified=facts.st_mtime_ns, digest=digest, exam_digest=exam
        )
    )


def _file_exam(storage: Storage, path: Path, seen: set[str]) -> None:
    """File an exam: the video of results under another name, or one that was not summarised."""
    c, facts = t.readings.c, path.stat()
    place = str(path.absolute())
    with storage.look() as connection:
        known = connection.execute(sa.select(t.sources).where(t.sources.c.path == place)).first()
    is_known = known is not None and (known.size, known.modified) == (facts.st_size, facts.st_mtime_ns)
    if known is not None and is_known and _is_filed(storage, known.exam_digest):
        digest, values = str(known.exam_digest), None
    else:
        with open_exam(path) as exam:
            digest, values = exam.digest, _exam_facts(exam)
    with storage.engine.begin() as connection:
        _remember(connection, path, facts, digest, digest)
        # With results, this is their video by its content, whatever its name.
        only_if = c.video.is_(None) if digest in seen else sa.true()
        mine = t.readings.update().where(c.exam_digest == digest, only_if)
        changed = connection.execute(mine.values(video=place, is_present=True))
        if changed.rowcount == 0 and digest not in seen and values is not None:
            connection.execute(
                t.readings.insert().values(id=new_id(), exam_digest=digest, video=place, is_present=True, **values)
            )
    seen.add(digest)


def _is_filed(storage: Storage, digest: str) -> bool:
    with storage.look() as connection:
        return connection.scalar(sa.select(t.readings.c.id).where(t.readings.c.exam_digest == digest)) is not None


def _exam_facts(exam: Exam) -> dict[str, Any]:
    return {
        "name": exam.id,
        "frames": len(exam),
        "duration": float(exam.clock.seconds(len(exam) - 1) - exam.clock.seconds(0)),
        "is_exam_time": exam.clock.is_exam_time,
    }
