"""Tables of the reader's database, and the engine behind them: SQLite in a file, or PostgreSQL for a department."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Text

from dice_ce.errors import StoreError, UsageError

SCHEMA = 1
"""Raise when a table changes its meaning."""


class Moment(sa.TypeDecorator[datetime]):
    """Times in UTC, also where the database forgets the zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Write UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        """Read UTC."""
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = sa.MetaData()
meta = sa.Table("meta", metadata, Column("name", String(64), primary_key=True), Column("value", Text, nullable=False))
summaries = sa.Table(
    "summaries",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""Results as they were when reading began, compressed: what events are about must not change under them."""
sources = sa.Table(
    "sources",
    metadata,
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("exam_digest", String(64), nullable=False),
)
"""Files that were read before, so that the next start need not read them again."""
readings = sa.Table(
    "readings",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("exam_digest", String(64), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("summary", String(64), ForeignKey("summaries.digest")),
    Column("newer_summary", String(64), ForeignKey("summaries.digest")),
    Column("folder", Text),
    Column("video", Text),
    Column("reader", String(64)),
    Column("second_of", String(16), ForeignKey("readings.id")),
    Column("is_present", Boolean, nullable=False, default=True),
    Column("frames", Integer, nullable=False),
    Column("duration", Float, nullable=False),
    Column("is_exam_time", Boolean, nullable=False),
    # What follows from the events, kept so that the worklist need not add them up.
    Column("version", Integer, nullable=False, default=0),
    Column("state", String(16), nullable=False, default="new"),
    Column("kinds", Text, nullable=False, default="{}"),
    Column("findings", Integer, nullable=False, default=0),
    Column("undecided", Integer, nullable=False, default=0),
    Column("changed_at", Moment),
    Column("changed_by", String(64)),
    Column("signed_version", Integer, nullable=False, default=0),
    Index("readings_present", "is_present", "state"),
)
events = sa.Table(
    "events",
    metadata,
    Column("reading", String(16), ForeignKey("readings.id"), primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
    Column("key", String(64), nullable=False),
    Column("action", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("software", String(64), nullable=False),
    Column("bundle", String(64)),
    sa.UniqueConstraint("reading", "key"),
)
deeds = sa.Table(
    "deeds",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("by", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("reading", String(16), ForeignKey("readings.id"), index=True),
    Column("user", String(64)),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("software", String(64), nullable=False),
)
"""Assignments and changes of accounts; see `audit.py`."""
reports = sa.Table(
    "reports",
    metadata,
    Column("reading", String(16), ForeignKey("readings.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("html", LargeBinary, nullable=False),
    Column("pdf", LargeBinary, nullable=False),
    Column("digest", String(64), nullable=False),
)
users = sa.Table(
    "users",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("password", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("is_active", Boolean, nullable=False),
)
sessions = sa.Table(
    "sessions",
    metadata,
    Column("token", String(64), primary_key=True),
    Column("user", String(64), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("ends_at", Moment, nullable=False),
    Column("is_local", Boolean, nullable=False),
)
"""The token is stored as its SHA-256, so that a stolen database opens no session."""
spent = sa.Table(
    "spent",
    metadata,
    Column("reading", String(16), ForeignKey("readings.id"), primary_key=True),
    Column("by", String(64), primary_key=True),
    Column("seconds", Float, nullable=False),
)
"""Active reading time."""

NEVER_CHANGED = ("events", "reports", "deeds")


def _triggers(dialect: str) -> list[str]:
    """Let the database itself refuse to change or remove what must stay."""
    if dialect == "sqlite":
        return [
            f"CREATE TRIGGER IF NOT EXISTS {table}_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"
            for table in NEVER_CHANGED
            for verb in ("UPDATE", "DELETE")
        ]
    function = (
        "CREATE OR REPLACE FUNCTION never_changed() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%% are never changed', TG_TABLE_NAME; END $$"
    )
    return [
        function,
        *(
            f"CREATE OR REPLACE TRIGGER {table}_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION never_changed()"
            for table in NEVER_CHANGED
        ),
    ]


def open_engine(database: str | Path) -> sa.Engine:
    """Open a database by its file or URL; tables are made if they are not there."""
    engine = _sqlite(Path(database)) if "://" not in str(database) else _server(str(database))
    try:
        with engine.begin() as connection:
            metadata.create_all(connection)
            for statement in _triggers(engine.dialect.name):
                connection.exec_driver_sql(statement)
            stored = connection.scalar(sa.select(meta.c.value).where(meta.c.name == "schema"))
            if stored is None:
                connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
    except sa.exc.DBAPIError as error:
        engine.dispose()
        reason = str(error.orig).strip().partition("\n")[0]
        raise StoreError(f"{_shown(database)}: the database cannot be used ({reason}); check --database") from error
    if stored not in (None, str(SCHEMA)):
        raise StoreError(f"{_shown(database)}: made by another version of this software; give another --database")
    return engine


def _shown(database: str | Path) -> str:
    """Name a database without its password."""
    text = str(database)
    return sa.make_url(text).render_as_string(hide_password=True) if "://" in text else text


def _server(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise UsageError("--database: not the URL of a database; write postgresql+psycopg://user@host/name") from error
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        return _sqlite(Path(parsed.database))
    if parsed.get_backend_name() != "postgresql":
        raise UsageError(f"--database: {parsed.get_backend_name()} is not supported; give a file or PostgreSQL's URL")
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return sa.create_engine(parsed, pool_pre_ping=True, pool_size=10)


def _sqlite(path: Path) -> sa.Engine:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: cannot be made ({error.strerror}); give another --database") from error
    engine = sa.create_engine(f"sqlite:///{path.absolute()}", connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions are ours, below, not the driver's
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # A transaction that reads and then writes must hold the lock from its start, or it could not write at all
        # once another one has written in between.
        is_reading = connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")

    return engine
