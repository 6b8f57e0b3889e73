"""A real server in a process of its own, to talk to, to kill and to start again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import argon2
import httpx
import pytest
from starlette.testclient import TestClient

from dice_ce.reader import accounts
from dice_ce.reader.app import create_app
from dice_ce.reader.library import file_inputs, find_inputs
from dice_ce.reader.serve import allowed_hosts, open_service
from dice_ce.reader.storage import Storage
from dice_ce.reader.tables import users
from tests.reader.material import write_result

PASSWORD = "correct horse 1"
ACCOUNTS = {"anna": "reader", "ben": "reader", "chief": "admin"}


class Manners(httpx.Client):
    """A client with a session that sends the CSRF token as our pages do."""

    def enter(self, address: str) -> Self:
        """Open the address with the key."""
        assert self.get(address, follow_redirects=False).status_code == 303
        return self.take_token()

    def log_in(self, user: str, password: str = PASSWORD) -> Self:
        """Log in with name and password."""
        answer = self.post("/api/login", json={"user": user, "password": password})
        assert answer.status_code == 200, answer.text
        return self.take_token()

    def take_token(self) -> Self:
        """Send the CSRF token from now on."""
        self.headers["X-CSRF-Token"] = self.get("/api/session").json()["csrf"]
        return self

    def exam(self, name: str = "exam") -> str:
        """Id of the exam of that name."""
        rows = self.get("/api/worklist", params={"search": name}).json()["rows"]
        return str(next(row["id"] for row in rows if row["name"] == name and row["second_of"] is None))

    def act(self, exam: str, version: int, key: str | None = None, /, **action: Any) -> httpx.Response:
        """Post one action."""
        body = {"expected_version": version, "key": key or str(uuid.uuid4()), "action": action}
        return self.post(f"/api/exams/{exam}/events", json=body)


class Browser(Manners):
    """Somebody at a server process."""


class Guest(TestClient, Manners):
    """Somebody at an application in this process."""


class Reader:
    """The application in this process: no socket, and quick to start."""

    def __init__(self, results: Path, database: str | Path) -> None:
        self.service = open_service(database)
        file_inputs(self.service.storage, find_inputs([results]), pytest.fail)
        self.app = create_app(self.service, allowed_hosts("127.0.0.1", None))
        self.clients: list[Guest] = []

    def stranger(self) -> Guest:
        """Somebody without a session."""
        self.clients.append(Guest(self.app, base_url="http://127.0.0.1"))
        return self.clients[-1]

    def browser(self) -> Guest:
        """Somebody who has come in by the printed address."""
        return self.stranger().enter(f"/?key={self.service.local_key}")

    def close(self) -> None:
        """Let go of everything."""
        for client in self.clients:
            client.close()
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Server:
    """A server process."""

    results: Path
    database: str
    preexec: Callable[[], None] | None = None
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] = field(init=False)
    url: str = field(init=False)
    """With the key."""
    port: int = 0
    clients: list[Browser] = field(default_factory=list)

    def start(self) -> Server:
        """Start it and wait until it listens."""
        words = [sys.executable, "-m", "dice_ce.cli", "read", str(self.results), "--no-browser", "--json"]
        words += ["--database", self.database, "--port", str(self.port), *self.options]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=self.preexec
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        else:
            raise AssertionError(self.process.communicate()[1])
        self.url = json.loads("".join(lines))["address"]
        self.port = int(self.url.split(":")[2].split("/")[0])
        return self

    @property
    def base(self) -> str:
        """Address without the key."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Pull the plug."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def restart(self) -> Server:
        """Kill it, if it still runs, and start it on the same port."""
        self.kill()
        return self.start()

    def browser(self) -> Browser:
        """Somebody who has come in by the printed address."""
        return self.stranger().enter(self.url)

    def stranger(self) -> Browser:
        """Somebody without a session."""
        self.clients.append(Browser(base_url=self.base, timeout=120))
        return self.clients[-1]

    def stop(self) -> None:
        """End it as Ctrl+C does."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                self.kill()


QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords quickly in this process: doing it well takes long, on purpose."""
    monkeypatch.setattr(accounts, "_HASHER", QUICK)
    monkeypatch.setattr(accounts, "_NOBODY", hashed_password())


@cache
def hashed_password() -> str:
    """The password of everybody."""
    return QUICK.hash(PASSWORD)


def make_accounts(storage: Storage) -> None:
    """Three people."""
    rows = [{"name": user, "password": hashed_password(), "role": role} for user, role in ACCOUNTS.items()]
    with storage.engine.begin() as connection:
        connection.execute(users.insert(), [{**row, "is_active": True} for row in rows])


@pytest.fixture(scope="session")
def shared_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One exam of a hundred numbered frames and its results."""
    return write_result(tmp_path_factory.mktemp("results"))


@pytest.fixture
def reader(shared_results: Path, tmp_path: Path) -> Iterator[Reader]:
    """The application for one person."""
    with Reader(shared_results, tmp_path / "reviews.sqlite") as reader:
        yield reader


@pytest.fixture
def department(shared_results: Path, tmp_path: Path) -> Iterator[Reader]:
    """The application where three people have to log in."""
    with Reader(shared_results, tmp_path / "reviews.sqlite") as reader:
        make_accounts(reader.service.storage)
        yield reader


@pytest.fixture
def server(shared_results: Path, tmp_path: Path) -> Iterator[Server]:
    """A server process for one person, with reviews of its own."""
    server = Server(shared_results, str(tmp_path / "reviews.sqlite")).start()
    yield server
    server.stop()


@pytest.fixture
def accounts_server(shared_results: Path, tmp_path: Path) -> Iterator[Server]:
    """A server process where three people have to log in."""
    database = str(tmp_path / "reviews.sqlite")
    service = open_service(database)
    make_accounts(service.storage)
    service.close()
    server = Server(shared_results, database).start()
    yield server
    server.stop()
