"""Nobody gets in who should not, and nothing that is sent breaks anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dice_ce.errors import UsageError
from dice_ce.reader.accounts import FREE_ATTEMPTS, Brake
from dice_ce.reader.guard import COOKIE
from dice_ce.reader.security import MOST_BODY
from dice_ce.reader.serve import check_host
from tests.reader.conftest import Guest, Reader
from tests.reader.material import make_summary, write_result

FILES = ("/frames/3", "/strip?frames=1", "/report.html", "/report.pdf", "/exports/pdf")
GETS = ("", "/review", "/events", "/timeline", *FILES)
POSTS = ("/events", "/time", "/second-reading")


@pytest.fixture
def anna(department: Reader) -> Guest:
    """A reader with a session."""
    return department.stranger().log_in("anna")


def test_without_a_session_there_is_nothing_to_see(department: Reader, anna: Guest) -> None:
    exam, stranger = anna.exam(), department.stranger()
    for path in GETS:
        assert stranger.get(f"/api/exams/{exam}{path}").status_code == 401
    for path in POSTS:
        assert stranger.post(f"/api/exams/{exam}{path}", json={}).status_code == 401
    for path in ("/api/worklist", "/api/users", "/api/exports"):
        assert stranger.get(path).status_code == 401
    for page in ("/", "/accounts", f"/exam/{exam}", f"/exam/{exam}/report"):
        answer = stranger.get(page, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/login")


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "A" * 5000, "../../etc/passwd", "' OR 1=1 --"])
def test_a_forged_session_opens_nothing(department: Reader, token: str) -> None:
    stranger = department.stranger()
    assert stranger.get("/api/worklist", headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401


def test_the_stored_token_is_not_the_one_that_opens(department: Reader, anna: Guest) -> None:
    token = anna.cookies[COOKIE]
    person = department.service.accounts.person(token, needs_login=True)
    assert person is not None
    assert department.service.accounts.person(person.token, needs_login=True) is None


def test_a_session_ends_with_logout_with_a_new_password_and_with_a_closed_account(department: Reader) -> None:
    accounts = department.service.accounts
    for end in (
        lambda who: who.post("/api/logout"),
        lambda who: accounts.change("anna", by="chief", password="another horse 2"),
        lambda who: accounts.change("anna", by="chief", is_active=False),
    ):
        accounts.change("anna", by="chief", is_active=True, password="correct horse 1")
        who = department.stranger().log_in("anna")
        token = who.cookies[COOKIE]
        end(who)
        stranger = department.stranger()
        assert stranger.get("/api/worklist", headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401


def test_the_local_key_opens_nothing_where_there_are_accounts(department: Reader) -> None:
    stranger = department.stranger()
    answer = stranger.get(f"/?key={department.service.local_key}", follow_redirects=False)
    assert answer.headers["location"].startswith("/login")
    assert COOKIE not in stranger.cookies


def test_local_sessions_end_once_there_are_accounts(reader: Reader) -> None:
    me = reader.browser()
    assert me.get("/api/worklist").status_code == 200
    reader.service.accounts.add("chief", "correct horse 1", "admin", by="anna")
    assert me.get("/api/worklist").status_code == 401


def test_without_the_key_nobody_comes_in(reader: Reader) -> None:
    stranger = reader.stranger()
    assert stranger.get("/").status_code == 401
    assert stranger.get("/?key=wrong").status_code == 401
    assert stranger.post("/api/login", json={"user": "root", "password": ""}).status_code == 401
    assert stranger.get("/api/worklist").status_code == 401


def test_exams_of_others_look_as_if_they_were_not_there(department: Reader, anna: Guest) -> None:
    chief, ben, exam = department.stranger().log_in("chief"), department.stranger().log_in("ben"), anna.exam()
    assert chief.put(f"/api/exams/{exam}/reader", json={"reader": "anna"}).status_code == 204
    nothing = ben.get("/api/exams/aaaaaaaaaaaaaaaa")
    for path in GETS:
        answer = ben.get(f"/api/exams/{exam}{path}")
        assert answer.status_code == 404
        assert answer.json() == nothing.json()
    assert ben.act(exam, 0, kind="confirm", finding="1.1").status_code == 404
    assert ben.post(f"/api/exams/{exam}/time", json={"seconds": 5}).status_code == 404
    assert ben.get("/api/worklist").json()["total"] == 0
    assert anna.act(exam, 0, kind="confirm", finding="1.1").status_code == 200


def test_an_independent_reading_does_not_see_the_first(department: Reader, anna: Guest) -> None:
    exam, ben = anna.exam(), department.stranger().log_in("ben")
    anna.act(exam, 0, kind="confirm", finding="1.1")
    second = ben.post(f"/api/exams/{exam}/second-reading", json={}).json()["id"]
    assert ben.get(f"/api/exams/{second}/review").json()["version"] == 0
    assert anna.get(f"/api/exams/{second}").status_code == 404
    assert ben.post(f"/api/exams/{exam}/second-reading", json={}).json()["id"] == second, "one per reader"


def test_only_an_admin_assigns_and_manages_accounts(anna: Guest) -> None:
    exam, somebody = anna.exam(), {"user": "eve", "password": "correct horse 1", "role": "admin"}
    assert anna.get("/api/users").status_code == 403
    assert anna.post("/api/users", json=somebody).status_code == 403
    for wish in ({"role": "admin"}, {"password": "another horse 2"}, {"is_active": False}):
        for user in ("anna", "ben", "chief", "nobody"):
            assert anna.put(f"/api/users/{user}", json=wish).status_code == 403
    assert anna.put(f"/api/exams/{exam}/reader", json={"reader": "anna"}).status_code == 403
    assert anna.post(f"/api/exams/{exam}/second-reading", json={"reader": "ben"}).status_code == 403


def test_what_changes_something_needs_the_token_and_our_own_page(anna: Guest) -> None:
    exam = anna.exam()
    body = {"expected_version": 0, "key": "12345678", "action": {"kind": "confirm", "finding": "1.1"}}
    path, token = f"/api/exams/{exam}/events", anna.headers.pop("X-CSRF-Token")
    for headers in (
        {},
        {"X-CSRF-Token": "wrong"},
        {"X-CSRF-Token": token, "Origin": "https://evil.example"},
        {"X-CSRF-Token": token, "Origin": "null"},
        {"X-CSRF-Token": token, "Sec-Fetch-Site": "cross-site"},
    ):
        answer = anna.post(path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf")
    own = {"X-CSRF-Token": token, "Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert anna.post(path, json=body, headers=own).status_code == 200
    form = anna.post(path, data={"a": "b"}, headers={"X-CSRF-Token": token})
    assert form.status_code == 422, "a form of another page cannot be sent as JSON"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "169.254.169.254", "localhost.evil"])
def test_foreign_host_names_are_refused(reader: Reader, host: str) -> None:
    me = reader.browser()
    assert me.get("/api/session", headers={"Host": host}).status_code == 421
    assert me.get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "path",
    [
        "../pyproject.toml",
        "..%2f..%2f..%2fpyproject.toml",
        "%2e%2e/app.py",
        "....//app.py",
        "/etc/passwd",
        "js/../../app.py",
        "..\\app.py",
        "css/base.css%00.js",
        ".",
        "",
    ],
)
def test_no_path_leads_out_of_the_web_folder(reader: Reader, path: str) -> None:
    assert reader.browser().get(f"/static/{path}").status_code == 404


@pytest.mark.parametrize(
    "exam", ["..%2f..%2fetc%2fpasswd", "' OR 1=1 --", "A" * 16, "a" * 17, "%00", "aaaaaaaaaaaaaaa1"]
)
def test_only_an_opaque_id_names_an_exam(reader: Reader, exam: str) -> None:
    me = reader.browser()
    for path in GETS:
        assert me.get(f"/api/exams/{exam}{path}").status_code in (404, 422)


def test_oversized_bodies_are_refused_before_they_are_read(reader: Reader) -> None:
    me, exam = reader.browser(), reader.browser().exam()
    path = f"/api/exams/{exam}/events"
    assert me.post(path, content=b"x" * (MOST_BODY + 1)).status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(MOST_BODY // 1000 + 2):
            yield b" " * 1000

    assert me.post(path, content=endless()).status_code == 413
    assert me.post(path, content=b"{}", headers={"Content-Length": "9" * 30}).status_code in (400, 413)


def test_bodies_that_are_no_json_are_refused(reader: Reader) -> None:
    me = reader.browser()
    path = f"/api/exams/{me.exam()}/events"
    for content in (b"", b"{", b"\xff\xfe", b"[" * 50_000, b'"\\ud800"', b"null", b"NaN"):
        answer = me.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), content
        assert answer.json()["error"]["code"] == "invalid"


SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'{{7*7}}"


def test_script_in_names_and_notes_stays_text(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    path = results / "exam" / "summary.json"
    path.write_text(path.read_text().replace('"id": "exam"', f'"id": {json.dumps(SCRIPT)}'))
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = next(row["id"] for row in me.get("/api/worklist").json()["rows"] if row["name"] == SCRIPT)
        me.act(exam, 0, kind="add", frame=3, label=SCRIPT[:60], note=SCRIPT)
        me.act(exam, 1, kind="report", section="impression", text=SCRIPT)
        answer = me.get(f"/api/exams/{exam}/report.html")
        assert "<script" not in answer.text
        assert "<img src=x" not in answer.text
        assert "{{7*7}}" in answer.text, "not a template either"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert me.get(f"/api/exams/{exam}/report.pdf").status_code == 200
        assert me.get(f"/api/exams/{exam}").headers["content-type"] == "application/json"


def test_a_report_fetches_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("TOP SECRET")
    with Reader(write_result(tmp_path / "results"), tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam()
        text = f'<link rel=attachment href="file://{secret}"><img src="file://{secret}"> url(file://{secret})'
        me.act(exam, 0, kind="report", section="impression", text=text)
        assert b"TOP SECRET" not in me.get(f"/api/exams/{exam}/report.pdf").content


def test_every_answer_carries_the_strict_headers(reader: Reader) -> None:
    me = reader.browser()
    for path in ("/", "/api/session", "/api/nothing", "/static/nothing.js", f"/api/exams/{me.exam()}/frames/1"):
        headers = me.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    cookie = reader.stranger().get(f"/?key={reader.service.local_key}", follow_redirects=False).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_guessing_passwords_becomes_slow(department: Reader) -> None:
    stranger = department.stranger()
    for _ in range(FREE_ATTEMPTS):
        assert stranger.post("/api/login", json={"user": "anna", "password": "guess"}).status_code == 401
    answer = stranger.post("/api/login", json={"user": "anna", "password": "correct horse 1"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many")
    assert stranger.post("/api/login", json={"user": "ben", "password": "correct horse 1"}).status_code == 200


def test_the_brake_doubles_and_lets_go() -> None:
    time = 0.0
    brake = Brake(lambda: time)
    for _ in range(FREE_ATTEMPTS + 3):
        brake.failed("anna")
    assert brake.seconds_left("anna") == 8
    time = 9.0
    assert brake.seconds_left("anna") == 0
    brake.succeeded("anna")
    brake.failed("anna")
    assert brake.seconds_left("anna") == 0


def test_a_server_that_others_reach_needs_accounts_and_a_name() -> None:
    with pytest.raises(UsageError, match="no accounts"):
        check_host("0.0.0.0", None, has_accounts=False)
    with pytest.raises(UsageError, match="--public-url"):
        check_host("0.0.0.0", None, has_accounts=True)
    with pytest.raises(UsageError, match="no accounts"):
        check_host("127.0.0.1", "https://reader.example", has_accounts=False)
    check_host("0.0.0.0", "https://reader.example", has_accounts=True)
    check_host("127.0.0.1", None, has_accounts=False)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000, b"\x00" * 100])
def test_damaged_results_are_named_and_the_others_are_shown(tmp_path: Path, content: bytes) -> None:
    from dice_ce.reader.library import file_inputs, find_inputs

    make_summary(digest="1" * 64).write(tmp_path / "results" / "good" / "summary.json")
    bad = tmp_path / "results" / "bad" / "summary.json"
    bad.parent.mkdir()
    bad.write_bytes(content)
    with Reader(tmp_path / "results" / "good", tmp_path / "reviews.sqlite") as reader:
        complaints: list[str] = []
        assert file_inputs(reader.service.storage, find_inputs([tmp_path / "results"]), complaints.append) == 1
        assert len(complaints) == 1
        assert str(bad) in complaints[0]
