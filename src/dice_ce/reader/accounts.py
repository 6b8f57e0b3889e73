"""Who may do what: accounts with argon2, sessions kept on the server, and a brake on guessing passwords."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

import argon2
import sqlalchemy as sa

from dice_ce.errors import UsageError
from dice_ce.reader import tables as t
from dice_ce.reader.audit import record
from dice_ce.reader.storage import Storage, now

Role = Literal["reader", "admin"]
SESSION_LENGTH = timedelta(hours=12)
LOCAL_SESSION_LENGTH = timedelta(days=30)
LEAST_PASSWORD = 10
FREE_ATTEMPTS = 5
"""Wrong passwords before one has to wait."""
LONGEST_BRAKE = 900.0
MOST_WATCHED = 10_000
"""Names whose failures are remembered."""

_HASHER = argon2.PasswordHasher()
_NOBODY = _HASHER.hash(secrets.token_hex())
"""Checked for names that do not exist, so that the time of an answer does not tell whether they do."""


@dataclass(frozen=True)
class Person:
    """Somebody with a session."""

    user: str
    role: Role
    csrf: str
    token: str
    """As stored: its hash."""


@dataclass(frozen=True)
class Account:
    """An account."""

    user: str
    role: Role
    is_active: bool


class Brake:
    """Makes guessing slow: after a few failures each further one doubles the time to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._failures: dict[str, tuple[int, float]] = {}

    def seconds_left(self, name: str) -> float:
        """Return how long this name has to wait."""
        with self._lock:
            count, since = self._failures.get(name, (0, 0.0))
        wait = min(LONGEST_BRAKE, 2.0 ** (count - FREE_ATTEMPTS)) if count >= FREE_ATTEMPTS else 0.0
        return max(0.0, since + wait - self._clock())

    def failed(self, name: str) -> None:
        """Take note of a failure."""
        with self._lock:
            count, _ = self._failures.pop(name, (0, 0.0))
            self._failures[name] = (count + 1, self._clock())
            while len(self._failures) > MOST_WATCHED:
                self._failures.pop(next(iter(self._failures)))

    def succeeded(self, name: str) -> None:
        """Forget the failures."""
        with self._lock:
            self._failures.pop(name, None)


class Accounts:
    """Accounts and sessions in the database."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.brake = Brake()

    # --- accounts ---------------------------------------------------------------------------------------------

    def all(self) -> list[Account]:
        """List the accounts."""
        with self._storage.look() as connection:
            rows = connection.execute(sa.select(t.users).order_by(t.users.c.name))
            return [Account(row.name, row.role, row.is_active) for row in rows]

    def exist(self) -> bool:
        """Whether one has to log in."""
        with self._storage.look() as connection:
            return connection.scalar(sa.select(t.users.c.name).limit(1)) is not None

    def is_active(self, user: str) -> bool:
        """Whether there is such an account that may be used."""
        return any(account.user == user and account.is_active for account in self.all())

    def add(self, user: str, password: str, role: Role, *, by: str) -> None:
        """Make an account."""
        if not re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", user):
            raise UsageError(f"user '{user}': a name has 1 to 64 letters, digits and . _ @ -")
        if role not in get_args(Role):
            raise UsageError(f"role '{role}': one of {', '.join(get_args(Role))}")
        hashed = _hash(password)
        try:
            with self._storage.engine.begin() as connection:
                connection.execute(t.users.insert().values(name=user, password=hashed, role=role, is_active=True))
                made = {"role": role, "is_active": True}
                record(connection, "account", by=by, at=now(), user=user, before={}, after=made)
        except sa.exc.IntegrityError as error:
            raise UsageError(f"user '{user}': there is such an account already") from error

    def change(
        self,
        user: str,
        *,
        by: str,
        password: str | None = None,
        role: Role | None = None,
        is_active: bool | None = None,
    ) -> None:
        """Change a password or role, close an account or open it again; open sessions end.

        Accounts are never removed, because events name them; and an admin is always left, because nobody else could
        open another account again.
        """
        hashed = None if password is None else _hash(password)
        given = {"password": hashed, "role": role, "is_active": is_active}
        values = {name: value for name, value in given.items() if value is not None}
        with self._storage.engine.begin() as connection:
            had_admin = _has_admin(connection)
            row = connection.execute(sa.select(t.users).where(t.users.c.name == user).with_for_update()).first()
            if row is None:
                raise UsageError(f"user '{user}': there is no such account; see: dice-ce accounts list")
            connection.execute(t.users.update().where(t.users.c.name == user).values(**values))
            if had_admin and not _has_admin(connection):
                raise UsageError(f"user '{user}': is the only admin who is left; make another one first")
            connection.execute(t.sessions.delete().where(t.sessions.c.user == user))
            before = {"role": row.role, "is_active": row.is_active}
            after = before | {name: value for name, value in values.items() if name != "password"}
            after |= {"password": "changed"} if password is not None else {}  # neither it nor its hash
            record(connection, "account", by=by, at=now(), user=user, before=before, after=after)

    # --- sessions ---------------------------------------------------------------------------------------------

    def is_password(self, user: str, password: str) -> bool:
        """Whether this opens the account; takes as long where there is no such account."""
        with self._storage.look() as connection:
            row = connection.execute(sa.select(t.users).where(t.users.c.name == user)).first()
        try:
            _HASHER.verify(row.password if row is not None else _NOBODY, password)
        except argon2.exceptions.VerifyMismatchError:
            return False
        if row is None or not row.is_active:
            return False
        if _HASHER.check_needs_rehash(row.password):
            with self._storage.engine.begin() as connection:
                connection.execute(
                    t.users.update().where(t.users.c.name == user).values(password=_HASHER.hash(password))
                )
        return True

    def log_in(self, user: str, password: str) -> str | None:
        """Begin a session; None if name or password is wrong."""
        if not self.is_password(user, password):
            return None
        return self._begin(user, now() + SESSION_LENGTH, is_local=False)

    def begin_local(self, user: str) -> str:
        """Begin the session of the one person who reads on this machine."""
        return self._begin(user, now() + LOCAL_SESSION_LENGTH, is_local=True)

    def _begin(self, user: str, ends_at: datetime, *, is_local: bool) -> str:
        token = secrets.token_urlsafe(32)
        with self._storage.engine.begin() as connection:
            connection.execute(t.sessions.delete().where(t.sessions.c.ends_at < now()))
            connection.execute(
                t.sessions.insert().values(
                    token=_digest(token), user=user, csrf=secrets.token_urlsafe(32), ends_at=ends_at, is_local=is_local
                )
            )
        return token

    def person(self, token: str | None, *, needs_login: bool) -> Person | None:
        """Return whose session a token opens; sessions without login end once there are accounts."""
        if not token or len(token) > 100:
            return None
        c = t.sessions.c
        with self._storage.look() as connection:
            query = (
                sa.select(c.user, c.csrf, c.token, c.ends_at, c.is_local, t.users.c.role, t.users.c.is_active)
                .select_from(t.sessions.outerjoin(t.users, t.users.c.name == c.user))
                .where(c.token == _digest(token))
            )
            row = connection.execute(query).first()
        if row is None or row.ends_at < now() or row.is_local == needs_login:
            return None
        if needs_login and not row.is_active:
            return None
        return Person(row.user, row.role if needs_login else "admin", row.csrf, row.token)

    def end(self, person: Person) -> None:
        """End a session."""
        with self._storage.engine.begin() as connection:
            connection.execute(t.sessions.delete().where(t.sessions.c.token == person.token))


def _has_admin(connection: sa.Connection) -> bool:
    """Whether somebody may manage accounts; locks them, so that two admins do not close each other at once."""
    c = t.users.c
    return connection.scalar(sa.select(c.name).where(c.role == "admin", c.is_active).with_for_update()) is not None


def _hash(password: str) -> str:
    if len(password) < LEAST_PASSWORD:
        raise UsageError(f"password: at least {LEAST_PASSWORD} characters, please")
    return _HASHER.hash(password)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
