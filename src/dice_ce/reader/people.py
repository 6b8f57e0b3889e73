"""Routes around people: accounts, whose exam it is, independent readings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Depends

from dice_ce.errors import UsageError
from dice_ce.reader import contract as c
from dice_ce.reader.accounts import Account, Person
from dice_ce.reader.actions import UserName
from dice_ce.reader.guard import ApiError, Asked, Asking, Held, check_brake, get_admin
from dice_ce.reader.service import NotFoundError, Service
from dice_ce.reader.views import deed_view

people = APIRouter(prefix="/api", responses=c.FAILURES)
Admin = Annotated[Person, Depends(get_admin)]


@contextmanager
def _refusing() -> Iterator[None]:
    """Answer with what the accounts object to."""
    try:
        yield
    except UsageError as error:
        raise ApiError(409, "refused", str(error)) from error


def _view(account: Account) -> c.UserView:
    return c.UserView(user=account.user, role=account.role, is_active=account.is_active)


def _find(service: Service, user: str) -> Account:
    found = next((one for one in service.accounts.all() if one.user == user), None)
    if found is None:
        raise NotFoundError(f"there is no account {user}")
    return found


@people.get("/users")
def get_users(service: Held, person: Admin) -> c.Users:
    """List the accounts."""
    return c.Users(users=tuple(map(_view, service.accounts.all())))


@people.get("/users/history")
def get_user_history(service: Held, person: Admin) -> c.Deeds:
    """Return who changed which account; the last thousand changes, in order."""
    return c.Deeds(deeds=tuple(map(deed_view, service.storage.deeds())))


@people.post("/users", status_code=201)
def post_user(wish: c.NewUser, service: Held, person: Admin) -> c.UserView:
    """Make an account. From the first one on, everybody has to log in."""
    if wish.role != "admin" and not service.accounts.exist():
        raise ApiError(409, "refused", "the first account must be an admin's: only an admin can make others")
    with _refusing():
        service.accounts.add(wish.user, wish.password, wish.role, by=person.user)
    return _view(_find(service, wish.user))


@people.put("/users/{user}")
def put_user(user: UserName, wish: c.ChangeUser, service: Held, person: Admin) -> c.UserView:
    """Change role or password of an account, close it or open it again."""
    _find(service, user)
    if wish.model_fields_set:
        with _refusing():
            service.accounts.change(
                user, by=person.user, password=wish.password, role=wish.role, is_active=wish.is_active
            )
    return _view(_find(service, user))


@people.post("/password", status_code=204)
def post_password(wish: c.ChangePassword, service: Held, person: Asking) -> None:
    """Change one's own password."""
    accounts = service.accounts
    if not accounts.exist():
        raise ApiError(409, "refused", "there are no accounts, and so no passwords")
    watched = f"password|{person.user}"
    check_brake(service, watched)
    if not accounts.is_password(person.user, wish.current):
        accounts.brake.failed(watched)
        raise ApiError(403, "forbidden", "the present password is wrong")
    accounts.brake.succeeded(watched)
    accounts.change(person.user, by=person.user, password=wish.password)


@people.put("/exams/{exam}/reader", status_code=204)
def put_reader(assign: c.Assign, loaded: Asked, service: Held, person: Admin) -> None:
    """Give an exam to one reader, or to everybody."""
    if assign.reader is not None:
        _check_reader(service, assign.reader)
    service.storage.assign(loaded.reading.id, assign.reader, by=person.user)


@people.post("/exams/{exam}/second-reading")
def post_second_reading(wish: c.SecondReading, loaded: Asked, service: Held, person: Asking) -> c.Created:
    """Begin an independent reading of the same exam."""
    reader = wish.reader or person.user
    if reader != person.user:
        get_admin(person)
        _check_reader(service, reader)
    return c.Created(id=service.storage.second_reading(loaded.reading, reader, by=person.user))


def _check_reader(service: Service, name: str) -> None:
    is_known = service.accounts.is_active(name) if service.accounts.exist() else name == service.local_user
    if not is_known:
        raise NotFoundError(f"there is no reader {name}")
