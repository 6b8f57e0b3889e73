"""What people did around the readings: who gave which exam to whom, who changed which account.

Kept as events are: in the same transaction as the change, and never changed afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from dice_ce import __version__
from dice_ce.reader import tables as t

Kind = Literal["assign", "second_reading", "account"]
Facts = Mapping[str, str | bool | None]
MOST_SHOWN = 1000
"""Changes of accounts that are shown, the last ones."""


@dataclass(frozen=True)
class Deed:
    """One thing that somebody did."""

    at: datetime
    by: str
    kind: Kind
    user: str | None
    """Whose account it was."""
    before: Facts
    after: Facts
    software: str


def record(
    connection: sa.Connection,
    kind: Kind,
    *,
    by: str,
    at: datetime,
    before: Facts,
    after: Facts,
    reading: str | None = None,
    user: str | None = None,
) -> None:
    """Write down what is being done, in the transaction that does it."""
    connection.execute(
        t.deeds.insert().values(
            at=at,
            by=by,
            kind=kind,
            reading=reading,
            user=user,
            before=json.dumps(dict(before)),
            after=json.dumps(dict(after)),
            software=f"dice-ce {__version__}",
        )
    )


def deeds_of(connection: sa.Connection, reading: str | None) -> list[Deed]:
    """Return what was done around a reading, or with accounts, in order of time."""
    c = t.deeds.c
    about = c.reading == reading if reading is not None else c.kind == "account"
    rows = connection.execute(sa.select(t.deeds).where(about).order_by(c.number.desc()).limit(MOST_SHOWN)).all()
    return [
        Deed(row.at, row.by, row.kind, row.user, json.loads(row.before), json.loads(row.after), row.software)
        for row in reversed(rows)
    ]


def describe_deed(deed: Deed) -> str:
    """Say in a few words what was done."""
    if deed.kind == "assign":
        return f"give the exam to {deed.after['reader'] or 'everybody'}"
    if deed.kind == "second_reading":
        return f"begin a second reading by {deed.after['reader']}"
    if not deed.before:
        return f"make the account {deed.user}, {deed.after['role']}"
    said = {
        "role": f"role {deed.after.get('role')}",
        "password": "new password",
        "is_active": "opened again" if deed.after.get("is_active") else "closed",
    }
    changed = [said[name] for name in said if deed.after.get(name) != deed.before.get(name)]
    return f"account {deed.user}: {', '.join(changed) or 'unchanged'}"
