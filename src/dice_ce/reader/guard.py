"""Who is asking, and whether they may: sessions, CSRF tokens, roles, exams of other people."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from dice_ce.method.summary import Summary
from dice_ce.reader.accounts import Person
from dice_ce.reader.actions import ExamId
from dice_ce.reader.security import SAFE_METHODS, is_same_site, is_token
from dice_ce.reader.service import Service
from dice_ce.reader.storage import Loaded, Reading

COOKIE = "dice_ce_session"


class ApiError(Exception):
    """An error with its code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def get_service(request: Request) -> Service:
    """Return what the server holds."""
    service: Service = request.app.state.service
    return service


Held = Annotated[Service, Depends(get_service)]


def find_person(request: Request, service: Held) -> Person | None:
    """Return who is asking, if there is a session."""
    return service.accounts.person(request.cookies.get(COOKIE), needs_login=service.accounts.exist())


def get_person(request: Request, service: Held, found: Annotated[Person | None, Depends(find_person)]) -> Person:
    """Return who is asking, or refuse; what changes something must come from our own page."""
    if found is None:
        raise ApiError(401, "unauthenticated", "please log in")
    if request.method not in SAFE_METHODS:
        if not is_same_site(request.headers, service.public_url):
            raise ApiError(403, "csrf", "this request comes from another page")
        if not is_token(request.headers.get("x-csrf-token"), found.csrf):
            raise ApiError(403, "csrf", "the CSRF token is missing or wrong; load the page again")
    return found


Asking = Annotated[Person, Depends(get_person)]


def get_admin(person: Asking) -> Person:
    """Return who is asking, if that is an admin."""
    if person.role != "admin":
        raise ApiError(403, "forbidden", "only an admin may do this")
    return person


def check_brake(service: Service, watched: str) -> None:
    """Refuse whoever has guessed too often."""
    if (wait := service.accounts.brake.seconds_left(watched)) > 0:
        raise ApiError(429, "too_many", f"too many attempts; try again in {wait + 1:.0f} seconds")


def get_exam(exam: ExamId, service: Held, person: Asking) -> Loaded:
    """Return the review that a path names, if it is for this person."""
    return service.load(exam, person)


Asked = Annotated[Loaded, Depends(get_exam)]


def get_watched(exam: ExamId, service: Held, person: Asking) -> tuple[Reading, Summary | None]:
    """Return the exam whose frames a path names, if it is for this person."""
    return service.reading(exam, person)


Watched = Annotated[tuple[Reading, Summary | None], Depends(get_watched)]


def set_cookie(response: Response, token: str, service: Service) -> None:
    """Hand out a session."""
    is_https = bool(service.public_url and service.public_url.startswith("https://"))
    response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=is_https, path="/")
