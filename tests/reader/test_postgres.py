"""The same on a real PostgreSQL: a cluster of its own in a temporary folder, reached by a socket in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from dice_ce.errors import StoreError, UsageError
from dice_ce.reader import tables as t
from dice_ce.reader.storage import Storage
from dice_ce.reader.tables import open_engine
from tests.peers import postgres_programs
from tests.reader.conftest import Reader, Server, make_accounts


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """A running cluster; the path is that of its socket's folder."""
    programs = postgres_programs()
    # PostgreSQL refuses to run as root; names of sockets must be short.
    owner = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if owner:
        shutil.chown(folder, **owner)
    try:
        run = {"check": True, "capture_output": True, "cwd": folder, **owner}
        # The locale of whoever runs this may not be installed here.
        options = ["-A", "trust", "-U", "dice", "--no-sync", "--no-locale", "-E", "UTF8"]
        subprocess.run([programs / "initdb", "-D", folder / "data", *options], **run)  # type: ignore[call-overload]
        served = f"-k {folder} -c listen_addresses='' -c fsync=off"
        log = folder / "log"
        subprocess.run(
            [programs / "pg_ctl", "-D", folder / "data", "-l", log, "-w", "-t", "120", "-o", served, "start"], **run
        )  # type: ignore[call-overload]
        yield folder
        subprocess.run([programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"], **run)  # type: ignore[call-overload]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(cluster: Path) -> Iterator[str]:
    """An empty database."""
    name = f"t{uuid.uuid4().hex}"
    admin = sa.create_engine(f"postgresql+psycopg://dice@/postgres?host={cluster}", isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield f"postgresql+psycopg://dice@/{name}?host={cluster}"
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()


def test_a_department_reads_on_postgres(database: str, shared_results: Path) -> None:
    with Reader(shared_results, database) as reader:
        make_accounts(reader.service.storage)
        anna, ben = reader.stranger().log_in("anna"), reader.stranger().log_in("ben")
        exam = anna.exam()
        assert anna.act(exam, 0, kind="confirm", finding="1.1").status_code == 200
        assert ben.act(exam, 0, kind="reject", finding="1.1").json()["error"]["code"] == "conflict"
        assert ben.act(exam, 1, kind="note", finding="1.1", text="zero \\u0000 and ü").status_code == 200
        anna.post(f"/api/exams/{exam}/time", json={"seconds": 20})
        anna.post(f"/api/exams/{exam}/time", json={"seconds": 22})
        assert reader.service.storage.time_spent() == {(exam, "anna"): 42}
        assert anna.act(exam, 2, kind="sign", despite_undecided=True).json()["state"] == "signed"
        assert ben.get(f"/api/exams/{exam}/report.pdf").content.startswith(b"%PDF-")
        for query in (
            "sort=changed&order=desc",
            "label=polyp",
            "search=EXA",
            "state=signed",
            "sort=reader",
            "unassigned=true",
        ):
            assert anna.get(f"/api/worklist?{query}").json()["total"] == 1
        assert anna.get("/api/worklist?label=parasite").json()["total"] == 0
        for table in (t.events, t.reports):
            with (
                pytest.raises(sa.exc.DatabaseError, match="never changed"),
                reader.service.storage.engine.begin() as connection,
            ):
                connection.execute(table.delete())


def test_two_readers_at_once_lose_no_decision_on_postgres(database: str, shared_results: Path) -> None:
    with Reader(shared_results, database) as reader:
        make_accounts(reader.service.storage)
        people = {name: reader.stranger().log_in(name) for name in ("anna", "ben")}
        exam = people["anna"].exam()

        def read(name: str) -> None:
            version = 0
            for number in range(10):
                key = f"{name}-{number:08d}"
                while (answer := people[name].act(exam, version, key, kind="add", frame=number, label=name)).is_error:
                    version = answer.json()["review"]["version"]
                version = answer.json()["version"]

        threads = [threading.Thread(target=read, args=(name,)) for name in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        review = people["anna"].get(f"/api/exams/{exam}/review").json()
        assert review["version"] == 20
        assert sum(one["origin"] == "reader" for one in review["findings"]) == 20


def test_two_admins_do_not_step_down_at_once_on_postgres(database: str, shared_results: Path) -> None:
    with Reader(shared_results, database) as reader:
        make_accounts(reader.service.storage)
        accounts, refused = reader.service.accounts, []
        accounts.change("anna", by="chief", role="admin")

        def step_down(name: str) -> None:
            try:
                accounts.change(name, by=name, role="reader")
            except UsageError:
                refused.append(name)

        threads = [threading.Thread(target=step_down, args=(name,)) for name in ("anna", "chief")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.user for one in accounts.all() if one.role == "admin"] == refused
        assert len(refused) == 1


def test_a_killed_server_has_kept_its_word_on_postgres(database: str, shared_results: Path) -> None:
    server = Server(shared_results, database).start()
    try:
        me, exam = server.browser(), server.browser().exam()
        assert me.act(exam, 0, "a-key-of-mine", kind="confirm", finding="1.1").status_code == 200
        server.restart()
        assert me.act(exam, 0, "a-key-of-mine", kind="confirm", finding="1.1").json()["version"] == 1
    finally:
        server.stop()


def test_a_database_that_is_not_there_is_named_without_its_password(cluster: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_engine(f"postgresql+psycopg://dice:secret@/nothing?host={cluster}")
    assert "nothing" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_both_databases_give_the_same_worklist(database: str, shared_results: Path, tmp_path: Path) -> None:
    answers = []
    for place in (database, str(tmp_path / "reviews.sqlite")):
        with Reader(shared_results, place) as reader:
            rows, total, states = Storage(reader.service.storage.engine).worklist("a", "admin", sort="changed")
            answers.append(([vars(row) | {"id": ""} for row in rows], total, states))
    assert answers[0] == answers[1]
