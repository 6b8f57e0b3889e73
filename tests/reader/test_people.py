"""Accounts and assignments, managed by an admin through the API."""

from __future__ import annotations

from typing import Any

import pytest

from dice_ce.reader.accounts import FREE_ATTEMPTS
from tests.reader.conftest import PASSWORD, Guest, Reader

NEW = {"user": "dora", "password": "a long secret", "role": "reader"}


@pytest.fixture
def chief(department: Reader) -> Guest:
    """The admin."""
    return department.stranger().log_in("chief")


def roles(chief: Guest) -> dict[str, tuple[str, bool]]:
    """Role of every account, and whether it is open."""
    return {one["user"]: (one["role"], one["is_active"]) for one in chief.get("/api/users").json()["users"]}


def test_an_admin_makes_changes_closes_and_opens_accounts(department: Reader, chief: Guest) -> None:
    assert chief.post("/api/users", json=NEW).status_code == 201
    dora = department.stranger().log_in("dora", "a long secret")
    assert chief.put("/api/users/dora", json={"role": "admin"}).json() == {
        "user": "dora",
        "role": "admin",
        "is_active": True,
    }
    assert dora.get("/api/worklist").status_code == 401, "with another role one logs in again"
    assert chief.put("/api/users/dora", json={"password": "another secret"}).status_code == 200
    department.stranger().log_in("dora", "another secret")
    assert chief.put("/api/users/dora", json={"is_active": False}).status_code == 200
    closed = department.stranger().post("/api/login", json={"user": "dora", "password": "another secret"})
    assert closed.status_code == 401
    assert roles(chief)["dora"] == ("admin", False)
    chief.put("/api/users/dora", json={"is_active": True})
    department.stranger().log_in("dora", "another secret")


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({**NEW, "user": "anna"}, 409),
        ({**NEW, "password": "short"}, 422),
        ({**NEW, "user": "<script>"}, 422),
        ({**NEW, "role": "owner"}, 422),
        ({**NEW, "user": ""}, 422),
    ],
    ids=["taken", "short password", "no name", "no role", "empty"],
)
def test_an_account_that_makes_no_sense_is_not_made(chief: Guest, wish: dict[str, Any], status: int) -> None:
    before = roles(chief)
    assert chief.post("/api/users", json=wish).status_code == status
    assert roles(chief) == before


@pytest.mark.parametrize("wish", [{"role": "reader"}, {"is_active": False}])
def test_an_admin_is_always_left(chief: Guest, wish: dict[str, Any]) -> None:
    answer = chief.put("/api/users/chief", json=wish)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "refused")
    assert roles(chief)["chief"] == ("admin", True), "and still has the session"
    chief.put("/api/users/anna", json={"role": "admin"})
    assert chief.put("/api/users/chief", json=wish).status_code == 200


def test_the_first_account_is_an_admin_s_and_ends_reading_without_login(reader: Reader) -> None:
    me = reader.browser()
    assert me.post("/api/users", json=NEW).status_code == 409
    assert me.post("/api/users", json={**NEW, "role": "admin"}).status_code == 201
    assert me.get("/api/worklist").status_code == 401
    reader.stranger().log_in("dora", "a long secret")


def test_everybody_changes_their_own_password_and_must_know_the_present_one(department: Reader) -> None:
    anna = department.stranger().log_in("anna")
    wish = {"current": PASSWORD, "password": "another horse 2"}
    assert anna.post("/api/password", json={**wish, "current": "guess"}).status_code == 403
    assert anna.post("/api/password", json=wish).status_code == 204
    assert anna.get("/api/worklist").status_code == 401
    anna = department.stranger().log_in("anna", "another horse 2")
    for _ in range(FREE_ATTEMPTS):
        assert anna.post("/api/password", json=wish).status_code == 403
    assert anna.post("/api/password", json=wish).status_code == 429, "guessing becomes slow"


def test_exams_are_assigned_and_found_by_reader(department: Reader, chief: Guest) -> None:
    exam = chief.exam()

    def total(**filters: Any) -> int:
        return int(chief.get("/api/worklist", params=filters).json()["total"])

    assert (total(unassigned=True), total(reader="anna")) == (1, 0)
    assert chief.put(f"/api/exams/{exam}/reader", json={"reader": "anna"}).status_code == 204
    assert (total(unassigned=True), total(reader="anna")) == (0, 1)
    second = chief.post(f"/api/exams/{exam}/second-reading", json={"reader": "ben"}).json()["id"]
    assert (total(), total(reader="ben")) == (2, 1)
    ben = department.stranger().log_in("ben")
    assert [row["id"] for row in ben.get("/api/worklist").json()["rows"]] == [second]
    assert chief.put(f"/api/exams/{exam}/reader", json={"reader": None}).status_code == 204
    assert ben.get("/api/worklist").json()["total"] == 2, "nobody's exam is everybody's"
    assert chief.put(f"/api/exams/{exam}/reader", json={"reader": "nobody"}).status_code == 404


def test_assignments_and_changes_of_accounts_are_in_the_audit_trail(department: Reader, chief: Guest) -> None:
    exam = chief.exam()
    for reader in ("anna", "anna", None):
        chief.put(f"/api/exams/{exam}/reader", json={"reader": reader})
    second = chief.post(f"/api/exams/{exam}/second-reading", json={"reader": "ben"}).json()["id"]

    def deeds(path: str, who: Guest = chief) -> list[tuple[str, str, object, object]]:
        return [
            (one["by"], one["about"], one["before"], one["after"]) for one in who.get(f"/api/{path}").json()["deeds"]
        ]

    assert deeds(f"exams/{exam}/events") == [
        ("chief", "give the exam to anna", {"reader": None}, {"reader": "anna"}),
        ("chief", "give the exam to everybody", {"reader": "anna"}, {"reader": None}),
    ], "what changed nothing is no event"
    ben = department.stranger().log_in("ben")
    assert deeds(f"exams/{second}/events", ben) == [("chief", "begin a second reading by ben", {}, {"reader": "ben"})]
    chief.post("/api/users", json=NEW)
    chief.put("/api/users/dora", json={"role": "admin", "password": "another secret"})
    chief.put("/api/users/dora", json={"is_active": False})
    chief.put("/api/users/chief", json={"role": "reader"})  # refused: the only admin who is left
    assert deeds("users/history") == [
        ("chief", "make the account dora, reader", {}, {"role": "reader", "is_active": True}),
        (
            "chief",
            "account dora: role admin, new password",
            {"role": "reader", "is_active": True},
            {"role": "admin", "is_active": True, "password": "changed"},
        ),
        (
            "chief",
            "account dora: closed",
            {"role": "admin", "is_active": True},
            {"role": "admin", "is_active": False},
        ),
    ]
    assert ben.get("/api/users/history").status_code == 403
