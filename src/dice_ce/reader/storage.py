"""Reviews in the database: what is appended is acknowledged only once it is on the disk, whole or not at all."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import zlib
from collections import Counter, OrderedDict
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import TypeAdapter

from dice_ce import __version__
from dice_ce.method.summary import Summary
from dice_ce.reader import tables as t
from dice_ce.reader.actions import Action
from dice_ce.reader.audit import Deed, deeds_of, record
from dice_ce.reader.state import Event, RefusedError, State, add_event, difference, fold, initial_state

ACTION: TypeAdapter[Action] = TypeAdapter(Action)
Sort = Literal["name", "state", "findings", "undecided", "predicted", "changed", "duration", "frames", "reader"]
_SORTED_BY = {
    "name": t.readings.c.name,
    "state": t.readings.c.state,
    "findings": t.readings.c.findings,
    "undecided": t.readings.c.undecided,
    "predicted": t.readings.c.undecided,
    "changed": t.readings.c.changed_at,
    "duration": t.readings.c.duration,
    "frames": t.readings.c.frames,
    "reader": t.readings.c.reader,
}

MOST_SUMMARIES = 32
"""Kept in memory after they were read."""


class ConflictError(Exception):
    """Somebody else was quicker: the state is no longer the one that the action was meant for."""


@dataclass(frozen=True)
class Reading:
    """One row of the worklist, as stored."""

    id: str
    exam_digest: str
    name: str
    summary: str | None
    newer_summary: str | None
    folder: str | None
    video: str | None
    reader: str | None
    second_of: str | None
    is_present: bool
    frames: int
    duration: float
    is_exam_time: bool
    version: int
    state: Literal["new", "in_work", "signed"]
    kinds: str
    findings: int
    undecided: int
    changed_at: datetime | None
    changed_by: str | None
    signed_version: int

    def may_be_seen_by(self, user: str, role: str) -> bool:
        """Whether a person may open it."""
        return role == "admin" or self.reader is None or self.reader == user


@dataclass(frozen=True)
class StoredEvent:
    """An event with what stands around it in the audit trail."""

    event: Event
    before: Any
    after: Any
    software: str
    bundle: str | None


@dataclass(frozen=True)
class SignedReport:
    """A final report."""

    version: int
    html: bytes
    pdf: bytes
    digest: str


@dataclass(frozen=True)
class Loaded:
    """A review with all that it is made of."""

    reading: Reading
    summary: Summary | None
    events: tuple[Event, ...]
    initial: State
    state: State


def now() -> datetime:
    """Return the time in UTC, to the microsecond that both databases keep."""
    return datetime.now(UTC)


def new_id() -> str:
    """Make up an opaque id."""
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


class Storage:
    """Everything that is kept; threads may share it."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._summaries: OrderedDict[str, Summary] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the database."""
        self.engine.dispose()

    def look(self) -> AbstractContextManager[sa.Connection]:
        """Begin a transaction that only reads."""
        return self.engine.connect().execution_options(reading=True)

    # --- readings ---------------------------------------------------------------------------------------------

    def reading(self, name: str) -> Reading | None:
        """Find a row by its id."""
        with self.look() as connection:
            row = connection.execute(sa.select(t.readings).where(t.readings.c.id == name)).mappings().first()
        return None if row is None else Reading(**row)

    def all_readings(self) -> list[Reading]:
        """Return every row, also of exams that are not there now."""
        with self.look() as connection:
            rows = connection.execute(sa.select(t.readings).order_by(t.readings.c.name, t.readings.c.id)).mappings()
            return [Reading(**row) for row in rows]

    def worklist(
        self,
        user: str,
        role: str,
        *,
        page: int = 1,
        size: int = 50,
        sort: Sort = "name",
        descending: bool = False,
        state: str | None = None,
        label: str | None = None,
        search: str | None = None,
        reader: str | None = None,
        unassigned: bool = False,
    ) -> tuple[list[Reading], int, dict[str, int]]:
        """Return a page of rows, how many the filter leaves, and how many there are by state."""
        c = t.readings.c
        seen: list[sa.ColumnElement[bool]] = [c.is_present.is_(True)]
        if role != "admin":
            seen.append(sa.or_(c.reader.is_(None), c.reader == user))
        wanted = list(seen)
        if state:
            wanted.append(c.state == state)
        if label:
            wanted.append(c.kinds.contains(json.dumps(label) + ":", autoescape=True))
        if search:
            wanted.append(c.name.icontains(search, autoescape=True))
        if reader:
            wanted.append(c.reader == reader)
        if unassigned:
            wanted.append(c.reader.is_(None))
        column: sa.ColumnElement[Any] = _SORTED_BY[sort]
        order = sa.nulls_last(column.desc() if descending else column.asc())
        with self.look() as connection:
            counts = connection.execute(sa.select(c.state, sa.func.count()).where(*seen).group_by(c.state)).all()
            total = connection.scalar(sa.select(sa.func.count()).select_from(t.readings).where(*wanted)) or 0
            rows = connection.execute(
                sa.select(t.readings).where(*wanted).order_by(order, c.name, c.id).limit(size).offset((page - 1) * size)
            ).mappings()
            return [Reading(**row) for row in rows], total, {str(name): int(count) for name, count in counts}

    def assign(self, name: str, reader: str | None, *, by: str) -> None:
        """Give a reading to one person, or to all."""
        c = t.readings.c
        with self.engine.begin() as connection:
            before = connection.scalar(sa.select(c.reader).where(c.id == name).with_for_update())
            if before == reader:
                return
            connection.execute(t.readings.update().where(c.id == name).values(reader=reader))
            record(
                connection, "assign", by=by, at=now(), reading=name, before={"reader": before}, after={"reader": reader}
            )

    def second_reading(self, first: Reading, reader: str, *, by: str) -> str:
        """Make an independent reading of the same exam; one per reader."""
        c, origin = t.readings.c, first.second_of or first.id
        with self.engine.begin() as connection:
            same = sa.and_(c.second_of == origin, c.reader == reader)
            if (there := connection.scalar(sa.select(c.id).where(same))) is not None:
                return str(there)
            values = {name: getattr(first, name) for name in ("exam_digest", "name", "folder", "video", "frames")}
            values |= {"duration": first.duration, "is_exam_time": first.is_exam_time, "is_present": first.is_present}
            made = new_id()
            summary = self._read_summary(connection, first.summary)
            values |= project(initial_state(summary, first.frames), 0)
            connection.execute(
                t.readings.insert().values(id=made, summary=first.summary, second_of=origin, reader=reader, **values)
            )
            record(connection, "second_reading", by=by, at=now(), reading=made, before={}, after={"reader": reader})
        return made

    def spend(self, name: str, by: str, seconds: float) -> None:
        """Add to the time that a person has spent on a reading."""
        with self.engine.begin() as connection:
            where = sa.and_(t.spent.c.reading == name, t.spent.c.by == by)
            changed = connection.execute(t.spent.update().where(where).values(seconds=t.spent.c.seconds + seconds))
            if changed.rowcount == 0:
                connection.execute(t.spent.insert().values(reading=name, by=by, seconds=seconds))

    def time_spent(self) -> dict[tuple[str, str], float]:
        """Return active seconds by reading and person."""
        with self.look() as connection:
            return {(row.reading, row.by): row.seconds for row in connection.execute(sa.select(t.spent))}

    def decision_pace(self, least: int) -> float | None:
        """Return the seconds of active reading per decision, once there are enough decisions to tell."""
        with self.look() as connection:
            timed = sa.select(t.spent.c.reading)
            decisions = connection.scalar(
                sa.select(sa.func.count()).select_from(t.events).where(t.events.c.reading.in_(timed))
            )
            seconds = connection.scalar(sa.select(sa.func.sum(t.spent.c.seconds)))
        return float(seconds) / decisions if seconds and decisions and decisions >= least else None

    def summary(self, digest: str | None) -> Summary | None:
        """Return the results that a reading is about."""
        with self.look() as connection:
            return self._read_summary(connection, digest)

    def _read_summary(self, connection: sa.Connection, digest: str | None) -> Summary | None:
        """Read a summary, unless it was read a moment ago: every frame that is shown asks for it."""
        if digest is None:
            return None
        with self._lock:
            if digest in self._summaries:
                self._summaries.move_to_end(digest)
                return self._summaries[digest]
        content = connection.scalar(sa.select(t.summaries.c.content).where(t.summaries.c.digest == digest))
        assert content is not None, "a foreign key holds it"
        found = Summary.from_json(zlib.decompress(content).decode())
        with self._lock:
            self._summaries[digest] = found
            while len(self._summaries) > MOST_SUMMARIES:
                self._summaries.popitem(last=False)
        return found

    # --- reviews ----------------------------------------------------------------------------------------------

    def load(self, name: str) -> Loaded | None:
        """Read a review."""
        with self.look() as connection:
            row = connection.execute(sa.select(t.readings).where(t.readings.c.id == name)).mappings().first()
            if row is None:
                return None
            return self._load(connection, Reading(**row))

    def _load(self, connection: sa.Connection, reading: Reading) -> Loaded:
        c = t.events.c
        rows = connection.execute(
            sa.select(c.sequence, c.by, c.at, c.action).where(c.reading == reading.id).order_by(c.sequence)
        )
        events = tuple(_event(row) for row in rows)
        summary = self._read_summary(connection, reading.summary)
        initial = initial_state(summary, reading.frames)
        return Loaded(reading, summary, events, initial, fold(initial, events))

    def trail(self, name: str) -> list[StoredEvent]:
        """Return the audit trail."""
        with self.look() as connection:
            rows = connection.execute(
                sa.select(t.events).where(t.events.c.reading == name).order_by(t.events.c.sequence)
            )
            return [
                StoredEvent(_event(row), json.loads(row.before), json.loads(row.after), row.software, row.bundle)
                for row in rows
            ]

    def deeds(self, reading: str | None = None) -> list[Deed]:
        """Return who gave a reading to whom; without a reading, who changed which account."""
        with self.look() as connection:
            return deeds_of(connection, reading)

    def append(
        self,
        name: str,
        action: Action,
        *,
        by: str,
        key: str,
        expected: int,
        at: datetime | None = None,
        report: SignedReport | None = None,
    ) -> Loaded:
        """Add one event, or say why not; doing so twice with one key acts once.

        The signed report that belongs to the event becomes final together with it.
        """
        with self.engine.begin() as connection:
            query = sa.select(t.readings).where(t.readings.c.id == name).with_for_update()
            reading = Reading(**connection.execute(query).mappings().one())
            loaded = self._load(connection, reading)
            same = sa.and_(t.events.c.reading == name, t.events.c.key == key)
            if connection.scalar(sa.select(t.events.c.sequence).where(same)) is not None:
                return loaded
            if len(loaded.events) != expected:
                raise ConflictError
            event, state = add_event(loaded.initial, loaded.events, action, by, at or now())
            self._insert(connection, loaded, event, state, key)
            if report is not None:
                connection.execute(t.reports.insert().values(reading=name, **vars(report)))
            values = project(state, event.sequence) | {"changed_at": event.at, "changed_by": by}
            connection.execute(t.readings.update().where(t.readings.c.id == name).values(**values))
            fresh = Reading(**(vars(reading) | values))
        return Loaded(fresh, loaded.summary, (*loaded.events, event), loaded.initial, state)

    def _insert(self, connection: sa.Connection, loaded: Loaded, event: Event, state: State, key: str) -> None:
        before, after = difference(loaded.state, state)
        connection.execute(
            t.events.insert().values(
                reading=loaded.reading.id,
                sequence=event.sequence,
                by=event.by,
                at=event.at,
                key=key,
                action=event.action.model_dump_json(),
                before=json.dumps(before, default=str),
                after=json.dumps(after, default=str),
                software=f"dice-ce {__version__}",
                bundle=loaded.summary.provenance.bundle.digest if loaded.summary else None,
            )
        )

    def report(self, name: str, version: int) -> SignedReport | None:
        """Return a signed report."""
        c = t.reports.c
        with self.look() as connection:
            row = connection.execute(sa.select(t.reports).where(c.reading == name, c.version == version)).first()
        return None if row is None else SignedReport(row.version, row.html, row.pdf, row.digest)

    def report_digests(self, name: str) -> dict[int, str]:
        """Return the digests of all signed versions."""
        c = t.reports.c
        with self.look() as connection:
            return {
                row.version: row.digest
                for row in connection.execute(sa.select(c.version, c.digest).where(c.reading == name))
            }


def _event(row: Any) -> Event:
    return Event(row.sequence, row.by, row.at, ACTION.validate_json(row.action))


def pack_summary(text: bytes) -> bytes:
    """Compress a summary for the database."""
    return zlib.compress(text, 6)


def project(state: State, version: int) -> dict[str, Any]:
    """Return what the worklist shows of a review; once it is signed, what was signed."""
    undecided = [one for one in state.findings.values() if one.decision == "undecided" and not one.set_aside]
    cards = state.confirmed if state.is_signed else (*state.confirmed, *undecided)
    return {
        "version": version,
        "state": "signed" if state.is_signed else "in_work" if version else "new",
        "kinds": json.dumps(dict(sorted(Counter(one.label for one in cards).items()))),
        "findings": len(cards),
        "undecided": 0 if state.is_signed else len(undecided),
        "signed_version": len(state.signatures),
    }


__all__ = ["ConflictError", "Loaded", "Reading", "RefusedError", "SignedReport", "Storage", "StoredEvent"]
