"""`dice-ce read` refuses what it cannot serve in one line, before anything is opened to others."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dice_ce.cli import main
from dice_ce.exam.codec import write_image
from dice_ce.reader.library import file_inputs, find_inputs
from dice_ce.reader.serve import listen, open_service
from dice_ce.reader.storage import Storage
from dice_ce.reader.views import ASSUMED_PACE, LEAST_DECISIONS
from tests.reader.conftest import Reader, Server
from tests.reader.material import make_summary, write_result


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "no such file or folder"),
        (["empty"], "neither results nor exams"),
        (["good", "--host", "0.0.0.0"], "no accounts"),
        (["good", "--public-url", "reader.example"], "write https://name"),
        (["good", "--database", "mysql://root@localhost/x"], "mysql is not supported"),
        (["good", "--database", "good"], "cannot be used"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_served_is_said_in_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    make_summary().write(tmp_path / "good" / "exam" / "summary.json")
    database = [] if "--database" in words else ["--database", "reviews.sqlite"]
    assert main(["read", *words, *database, "--no-browser"]) in (1, 2)
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_summary().write(tmp_path / "good" / "exam" / "summary.json")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["read", str(tmp_path / "good"), "--no-browser", "--port", port]
        assert main([*words, "--database", str(tmp_path / "reviews.sqlite")]) == 2
    assert f"--port {port}: cannot listen" in capsys.readouterr().err


def test_ctrl_c_ends_it_as_announced(tmp_path: Path) -> None:
    server = Server(write_result(tmp_path / "results"), str(tmp_path / "reviews.sqlite")).start()
    server.process.send_signal(signal.SIGINT)
    assert "interrupted" not in server.process.communicate()[1]
    assert server.process.returncode == 0


def test_a_file_that_is_no_database_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_summary().write(tmp_path / "good" / "exam" / "summary.json")
    (tmp_path / "notes.txt").write_text("not a database, and never overwritten\n" * 100)
    before = (tmp_path / "notes.txt").read_bytes()
    words = ["read", str(tmp_path / "good"), "--no-browser", "--database", str(tmp_path / "notes.txt")]
    assert main(words) == 1
    assert "the database cannot be used" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_bytes() == before


def test_the_worklist_shows_what_was_given_and_forgets_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_summary(name, digest=name * 64).write(tmp_path / name / name / "summary.json")
    with Reader(tmp_path / "a", tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam("a")
        me.act(exam, 0, kind="confirm", finding="1.1")
        storage = reader.service.storage

        def names() -> list[str]:
            return [row["name"] for row in me.get("/api/worklist").json()["rows"]]

        assert file_inputs(storage, find_inputs([tmp_path / "b"]), pytest.fail) == 1
        assert names() == ["b"]
        assert file_inputs(storage, find_inputs([tmp_path]), pytest.fail) == 2
        assert names() == ["a", "b"]
        assert me.get(f"/api/exams/{exam}/review").json()["version"] == 1


def test_a_picture_beside_results_hides_none_of_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make_summary(name).write(tmp_path / name / "summary.json")
    write_image(tmp_path / "screenshot.png", np.zeros((48, 48, 3), np.uint8))
    found = find_inputs([tmp_path])
    assert found.results == (tmp_path / "a", tmp_path / "b")
    assert found.exams == (tmp_path,), "a folder of images is an exam, too"


def test_results_made_again_replace_those_that_nobody_has_read(tmp_path: Path) -> None:
    path = tmp_path / "results" / "exam" / "summary.json"
    make_summary().write(path)
    with Reader(tmp_path / "results", tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        make_summary(items=[("1.1", "parasite", 20, "kept", 0.9)]).write(path)
        file_inputs(reader.service.storage, find_inputs([tmp_path / "results"]), pytest.fail)
        (row,) = me.get("/api/worklist").json()["rows"]
        assert row["kinds"] == {"parasite": 1}


def test_the_worklist_is_filtered_sorted_and_paged_by_the_server(tmp_path: Path) -> None:
    for number in range(25):
        items = [("1.1", "polyp", 20, "kept", 0.9), ("1.2", "ulcer", 40, "kept", 0.8)][: 1 + number % 2]
        make_summary(f"exam_{number:02d}%", f"{number:064x}", items=items).write(  # type: ignore[arg-type]
            tmp_path / "results" / str(number) / "summary.json"
        )
    with Reader(tmp_path / "results", tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()

        def names(**query: object) -> tuple[int, list[str]]:
            answer = me.get("/api/worklist", params=query).json()  # type: ignore[arg-type]
            return answer["total"], [row["name"][5:7] for row in answer["rows"]]

        assert names(size=3) == (25, ["00", "01", "02"])
        assert names(size=10, page=3) == (25, ["20", "21", "22", "23", "24"])
        assert names(size=2, sort="findings", order="desc") == (25, ["01", "03"])
        assert names(label="ulcer")[0] == 12
        assert names(search="_1") == (10, [f"1{i}" for i in range(10)]), "signs of the database's own are plain text"
        assert names(search="EXAM_0")[0] == 10
        assert names(state="signed") == (0, [])


def test_the_pace_is_assumed_until_enough_decisions_were_timed(tmp_path: Path) -> None:
    with Reader(write_result(tmp_path / "results"), tmp_path / "reviews.sqlite") as reader:
        me, storage = reader.browser(), reader.service.storage
        exam = me.exam()
        assert isinstance(storage, Storage)
        for version in range(LEAST_DECISIONS):
            details = me.get(f"/api/exams/{exam}").json()
            assert (details["seconds_per_finding"], details["is_pace_measured"]) == (ASSUMED_PACE, False)
            me.act(exam, version, kind="note", text=str(version))
            me.post(f"/api/exams/{exam}/time", json={"seconds": 8})
        details = me.get(f"/api/exams/{exam}").json()
        assert (details["seconds_per_finding"], details["is_pace_measured"]) == (8, True)
        assert details["slider"][-1]["seconds"] == 40
        assert me.get("/api/worklist").json()["rows"][0]["predicted_seconds"] == 24


def test_no_answer_waits_for_an_acknowledgement(tmp_path: Path) -> None:
    """Only of sockets that name their protocol does asyncio switch off the wait of 40 ms between header and body."""
    service = open_service(tmp_path / "reviews.sqlite")
    with closing(service), listen(service, "127.0.0.1", 0).socket as opened:
        assert opened.proto == socket.IPPROTO_TCP
