"""The manifest: one row per exam in SQLite, written by the driver alone, read by anybody at any time."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from dice_ce.archive.items import FindingRow, State
from dice_ce.errors import InputError, StoreError, UsageError
from dice_ce.files import write_atomically

FORMAT = "dice-ce/archive/2"
MARK, MANIFEST, LOCK = "archive.json", "manifest.sqlite", "run.lock"
SCHEMA = """
create table if not exists exams (
  place text primary key, exam_id text not null, stamp text not null, size integer not null, date text not null,
  content_digest text not null default '', bundle_digest text not null default '',
  settings_digest text not null default '', state text not null default 'waiting', reason text not null default '',
  target text not null default '', frames integer not null default 0, decoded integer not null default 0,
  is_exam_time integer not null default 0, findings integer not null default 0, seconds real not null default 0,
  node text not null default '', finished real not null default 0
);
create index if not exists by_content on exams (content_digest);
create table if not exists findings (
  content_digest text not null, label text not null, confidence real not null, abnormality real not null,
  margin real not null, runner_up text not null, frame integer not null, seconds real not null,
  first_seconds real not null, last_seconds real not null, supporting_frames integer not null
);
create index if not exists findings_by_content on findings (content_digest);
create table if not exists runs (
  number integer primary key, started real not null, ended real, engine text not null, workers integer not null,
  wanted integer not null
);
"""


@dataclass(frozen=True)
class Row:
    """One exam of the manifest."""

    place: str
    exam_id: str
    stamp: str
    size: int
    date: str
    content_digest: str = ""
    bundle_digest: str = ""
    settings_digest: str = ""
    state: State = "waiting"
    reason: str = ""
    target: str = ""
    frames: int = 0
    decoded: int = 0
    is_exam_time: bool = False
    findings: int = 0
    seconds: float = 0.0
    node: str = ""
    finished: float = 0.0
    """Seconds since 1970."""


COLUMNS = tuple(field.name for field in fields(Row))
FINDING_COLUMNS = tuple(field.name for field in fields(FindingRow))


@dataclass(frozen=True)
class RunFacts:
    """One run on an archive."""

    started: float
    ended: float | None
    engine: str
    workers: int
    wanted: int
    """Exams that this run had to do."""


class ReplacedError(StoreError):
    """Another archive lies where the run's own was: that of a share that has just come back."""


def create_archive(folder: Path) -> str:
    """Make the folder an archive, unless it is one; return its id."""
    if not (folder / MARK).is_file():
        content = {"format": FORMAT, "id": secrets.token_hex(8)}
        write_atomically(folder / MARK, (json.dumps(content, indent=1) + "\n").encode())
    return archive_id(folder)


def archive_id(folder: Path) -> str:
    """Read the id of an archive; refuse what is none."""
    try:
        content = json.loads((folder / MARK).read_text())
        if content["format"] == FORMAT:
            return str(content["id"])
        raise InputError(f"{folder}: archive format '{content['format']}' is not '{FORMAT}'; make the archive again")
    except FileNotFoundError as error:
        raise InputError(
            f"{folder}: is no archive (no {MARK}); make one with 'dice-ce archive run SOURCE --out ARCHIVE'"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / MARK}: cannot be read ({error}); restore it from a backup") from error


@contextlib.contextmanager
def driver_lock(folder: Path) -> Iterator[None]:
    """Let one run at a time work on an archive; the system lets go of the lock if it dies."""
    try:
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise StoreError(
            f"{folder / LOCK}: cannot be written ({error.strerror}); check the disk and the permissions"
        ) from error
    with file:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(f"{folder}: another run is working on this archive; wait for it or stop it") from error
        yield


@dataclass(frozen=True)
class _Change:
    """Change something: all of it, or nothing.

    Not a generator: one that an interrupt leaves half-way would go on when the connection is closed already.
    """

    connection: sqlite3.Connection
    path: Path

    def __enter__(self) -> sqlite3.Connection:
        return self.connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.connection.__exit__(kind, error, trace)
        except sqlite3.DatabaseError as failed:
            error = failed
        if isinstance(error, sqlite3.DatabaseError):
            raise StoreError(f"{self.path}: cannot be written ({error}); check the disk and the permissions") from error


class Manifest:
    """The rows of an archive. Every change is a transaction: it is on the disk, or it never was."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._path, self._read_only = folder / MANIFEST, read_only
        self._connection = self._connect()

    def _connect(self, mode: str = "rwc") -> sqlite3.Connection:
        if self._read_only and not self._path.is_file():
            raise InputError(f"{self._path}: is not there; nothing has been run on this archive yet")
        try:
            address = f"{self._path.absolute().as_uri()}?mode={'ro' if self._read_only else mode}"
            connection = sqlite3.connect(address, uri=True, timeout=60)
            if not self._read_only:
                # A rollback journal, not WAL: the archive may lie on a share, where WAL does not work.
                connection.executescript(SCHEMA)
            return connection
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self._path}: cannot be opened ({error}); check the disk and the permissions") from error

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def reopen(self) -> None:
        """Start over with a fresh handle, after the storage was away; nothing is created in its place."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._connection = self._connect("rw")

    def write(
        self,
        rows: Sequence[Row],
        findings: Mapping[str, Sequence[FindingRow]] | None = None,
        gone: Sequence[str] = (),
    ) -> None:
        """Put rows in the place of those of the same exams, and findings of those of the same content; all or none.

        `gone` are places where an exam no longer is.
        """
        findings = findings or {}
        with self._change() as connection:
            connection.executemany("delete from exams where place = ?", [(place,) for place in gone])
            connection.executemany(
                f"insert or replace into exams ({', '.join(COLUMNS)}) values ({_marks(COLUMNS)})",
                ([getattr(row, name) for name in COLUMNS] for row in rows),
            )
            connection.executemany("delete from findings where content_digest = ?", [(digest,) for digest in findings])
            connection.executemany(
                f"insert into findings values (?, {_marks(FINDING_COLUMNS)})",
                (
                    [digest, *(getattr(one, name) for name in FINDING_COLUMNS)]
                    for digest, found in findings.items()
                    for one in found
                ),
            )

    def _change(self) -> _Change:
        return _Change(self._connection, self._path)

    def rows(self, where: str = "1", values: tuple[Any, ...] = ()) -> list[Row]:
        """Return rows in the order of their places."""
        query = f"select {', '.join(COLUMNS)} from exams where {where} order by place"
        return [_row(found) for found in self._ask(query, values)]

    def counts(self) -> dict[str, int]:
        """Count exams by state."""
        found = dict(self._ask("select state, count(*) from exams group by state"))
        return {state: int(found.get(state, 0)) for state in ("waiting", "done", "failed", "skipped")}

    def begin_run(self, started: float, engine: str, workers: int, wanted: int) -> int:
        """Note that a run has begun; return its number."""
        with self._change() as connection:
            cursor = connection.execute(
                "insert into runs (started, engine, workers, wanted) values (?, ?, ?, ?)",
                (started, engine, workers, wanted),
            )
        return int(cursor.lastrowid or 0)

    def end_run(self, number: int, ended: float) -> None:
        """Note that a run has ended."""
        with self._change() as connection:
            connection.execute("update runs set ended = ? where number = ?", (ended, number))

    def last_run(self) -> RunFacts | None:
        """Return the latest run."""
        found = list(self._ask("select started, ended, engine, workers, wanted from runs order by number desc limit 1"))
        return RunFacts(*found[0]) if found else None

    def one(self, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        """Ask for a single row."""
        return self._ask(query, values)[0]

    def batches(self, query: str, size: int = 20_000) -> Iterator[list[tuple[Any, ...]]]:
        """Ask for many rows and get them piece by piece, so that memory does not grow with the archive."""
        try:
            cursor = self._connection.execute(query)
            while found := cursor.fetchmany(size):
                yield found
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self._path}: cannot be read ({error}); check the disk, or make it again") from error

    def _ask(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self._path}: cannot be read ({error}); check the disk, or make it again") from error


def _marks(columns: Sequence[str]) -> str:
    return ", ".join("?" for _ in columns)


def _row(found: tuple[Any, ...]) -> Row:
    facts = dict(zip(COLUMNS, found, strict=True))
    facts["is_exam_time"] = bool(facts["is_exam_time"])
    return Row(**facts)
