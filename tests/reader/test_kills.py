"""Pull the plug at any moment, or fill the disk: what was acknowledged is there, and nothing is half done."""

from __future__ import annotations

import contextlib
import random
import resource
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from dice_ce.reader import tables as t
from dice_ce.reader.state import fold
from dice_ce.reader.storage import Storage, project
from dice_ce.reader.tables import open_engine
from tests.reader.conftest import Reader, Server

FULL = 400_000
"""Bytes that a file may have on the full disk."""


def check_database(database: str) -> int:
    """Check that every review adds up to what the worklist says; return the number of events."""
    storage = Storage(open_engine(database))
    count = 0
    try:
        for reading in storage.all_readings():
            loaded = storage.load(reading.id)
            assert loaded is not None
            assert [event.sequence for event in loaded.events] == list(range(1, len(loaded.events) + 1))
            assert fold(loaded.initial, loaded.events) == loaded.state
            shown = project(loaded.state, len(loaded.events))
            assert {name: getattr(reading, name) for name in shown} == shown
            assert set(storage.report_digests(reading.id)) == {one.version for one in loaded.state.signatures}
            count += len(loaded.events)
    finally:
        storage.close()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return count


def endless_actions() -> Iterator[dict[str, object]]:
    """Decisions without end, each of which is possible after those before it."""
    draw = random.Random(0)
    while True:
        frame = draw.randrange(100)
        yield {"kind": "add", "frame": frame, "label": "polyp", "note": "x" * draw.randrange(2000)}
        yield {"kind": draw.choice(["confirm", "reject", "reconsider"]), "finding": "1.1"}
        yield {"kind": "note", "text": str(frame)}
        yield {"kind": "undo"}


def test_no_acknowledged_decision_is_lost_when_the_server_is_killed(server: Server) -> None:
    me, exam = server.browser(), server.browser().exam()
    version = 0
    for round_number in range(3):
        version = me.get(f"/api/exams/{exam}/review").json()["version"]
        acknowledged = threading.Event()
        limit = 3 + 4 * round_number

        def pull_the_plug(acknowledged: threading.Event = acknowledged) -> None:
            acknowledged.wait(120)
            server.process.kill()

        killer = threading.Thread(target=pull_the_plug)
        killer.start()
        begun = version
        with contextlib.suppress(httpx.TransportError):
            for action in endless_actions():
                answer = me.act(exam, version, **action)
                assert answer.status_code == 200, answer.text
                version = answer.json()["version"]
                if version >= begun + limit:
                    acknowledged.set()  # from now on the plug is pulled while decisions go on coming in
        killer.join()
        server.restart()
        there = me.get(f"/api/exams/{exam}/review").json()["version"]
        assert there in (version, version + 1), "what was acknowledged, and at most what was under way"
    server.kill()
    assert check_database(server.database) == there


def test_a_killed_signature_is_whole_or_not_there(server: Server) -> None:
    me, exam = server.browser(), server.browser().exam()
    log, answered = Path(f"{server.database}-wal"), threading.Event()
    before = log.read_bytes()

    def pull_the_plug() -> None:
        while log.read_bytes() == before and not answered.is_set():
            pass
        server.process.kill()  # as soon as anything of the signature is on the disk

    killer = threading.Thread(target=pull_the_plug)
    killer.start()
    with contextlib.suppress(httpx.TransportError):
        me.act(exam, 0, "key-of-the-signature", kind="sign", despite_undecided=True)
    answered.set()
    killer.join()
    server.restart()
    review = me.act(exam, 0, "key-of-the-signature", kind="sign", despite_undecided=True).json()
    assert (review["state"], review["version"]) == ("signed", 1), "sending it again signs once"
    assert me.get(f"/api/exams/{exam}/report.pdf").content.startswith(b"%PDF-")
    server.kill()
    assert check_database(server.database) == 1


def test_a_full_disk_refuses_decisions_and_loses_none(shared_results: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "reviews.sqlite")

    def fill_the_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))

    server = Server(shared_results, database, preexec=fill_the_disk).start()
    try:
        me, exam = server.browser(), server.browser().exam()
        version = 0
        for _ in range(1000):
            answer = me.act(exam, version, kind="note", text="x" * 19_000)
            if answer.status_code != 200:
                break
            version = answer.json()["version"]
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage")
        assert 0 < version < 100
        assert me.get(f"/api/exams/{exam}/review").json()["version"] == version, "reading goes on"
        assert me.act(exam, version, kind="note", text="y" * 19_000).status_code == 503
        server.preexec = None
        server.restart()  # with room again
        assert me.get(f"/api/exams/{exam}/review").json()["version"] == version
        assert me.act(exam, version, kind="confirm", finding="1.1").status_code == 200
    finally:
        server.stop()
    assert check_database(database) == version + 1


def test_what_was_done_cannot_be_changed_even_in_the_database(reader: Reader) -> None:
    me = reader.browser()
    me.act(me.exam(), 0, kind="sign", despite_undecided=True)
    me.post(f"/api/exams/{me.exam()}/second-reading", json={})
    for table in (t.events, t.reports, t.deeds):
        for change in (table.update().values(reading="x"), table.delete()):
            with (
                pytest.raises(sa.exc.DatabaseError, match="never changed"),
                reader.service.storage.engine.begin() as connection,
            ):
                connection.execute(change)


def test_two_readers_at_once_lose_no_decision(department: Reader) -> None:
    people = {name: department.stranger().log_in(name) for name in ("anna", "ben")}
    exam = people["anna"].exam()
    conflicts: list[str] = []

    def read(name: str) -> None:
        version = 0
        for number in range(15):
            key = f"{name}-{number:08d}"
            while (answer := people[name].act(exam, version, key, kind="add", frame=number, label=name)).is_error:
                assert answer.json()["error"]["code"] == "conflict"
                conflicts.append(name)
                version = answer.json()["review"]["version"]
            version = answer.json()["version"]

    threads = [threading.Thread(target=read, args=(name,)) for name in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    review = people["anna"].get(f"/api/exams/{exam}/review").json()
    own = [(one["label"], one["keyframe"]) for one in review["findings"] if one["origin"] == "reader"]
    assert sorted(own) == sorted((name, number) for name in people for number in range(15))
    assert conflicts, "they did get in each other's way"
