"""The web application: routes, who may call them, and what an error looks like."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import StringConstraints
from starlette.exceptions import HTTPException

from dice_ce import DISCLAIMER, __version__
from dice_ce.errors import DiceError, error_line
from dice_ce.reader import contract as c
from dice_ce.reader.accounts import Person
from dice_ce.reader.actions import MOST_FRAMES, Frame, Label
from dice_ce.reader.exports import export_choices
from dice_ce.reader.frames import MissingVideoError, UndecodableError
from dice_ce.reader.guard import (
    COOKIE,
    ApiError,
    Asked,
    Asking,
    Held,
    Watched,
    check_brake,
    find_person,
    get_service,
    set_cookie,
)
from dice_ce.reader.marks import NoMarkError
from dice_ce.reader.pages import add_pages
from dice_ce.reader.people import people
from dice_ce.reader.report import render_pdf
from dice_ce.reader.security import REPORT_POLICY, Gate, failure, is_same_site
from dice_ce.reader.service import NotFoundError, Service
from dice_ce.reader.state import RefusedError
from dice_ce.reader.storage import ConflictError, Reading, Sort
from dice_ce.reader.views import label_facts, row_view
from dice_ce.taxonomy import Taxonomy

TITLE = "DiCE-CE reader"
FOREVER = "private, max-age=31536000, immutable"
"""Frames never change: their address holds what they are frames of."""
FRAME_SIZES: dict[str, int | None] = {"full": None, "512": 512, "256": 256, "128": 128}
Plain = Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")]


JPEG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}},
    304: {"description": "Unchanged"},
}
PDF: dict[int | str, dict[str, Any]] = {200: {"content": {"application/pdf": {"schema": {"type": "string"}}}}}
DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("application/pdf", "application/zip")}}
}
HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Unchanged"}}


# --- routes --------------------------------------------------------------------------------------------------------

api = APIRouter(prefix="/api", responses=c.FAILURES)


def _session(service: Service, person: Person | None) -> c.Session:
    return c.Session(
        user=person.user if person else None,
        role=person.role if person else None,
        csrf=person.csrf if person else None,
        needs_login=service.accounts.exist(),
        version=__version__,
        disclaimer=DISCLAIMER,
    )


@api.get("/session")
def get_session(service: Held, person: Annotated[Person | None, Depends(find_person)]) -> c.Session:
    """Say who one is."""
    return _session(service, person)


@api.post("/login")
def log_in(login: c.Login, request: Request, response: Response, service: Held) -> c.Session:
    """Begin a session."""
    if not is_same_site(request.headers, service.public_url):
        raise ApiError(403, "csrf", "this request comes from another page")
    accounts = service.accounts
    watched = f"{request.client.host if request.client else ''}|{login.user}"
    check_brake(service, watched)
    token = accounts.log_in(login.user, login.password) if accounts.exist() else None
    if token is None:
        accounts.brake.failed(watched)
        raise ApiError(401, "unauthenticated", "name or password is wrong")
    accounts.brake.succeeded(watched)
    set_cookie(response, token, service)
    return _session(service, accounts.person(token, needs_login=True))


@api.post("/logout", status_code=204)
def log_out(response: Response, service: Held, person: Asking) -> None:
    """End the session."""
    service.accounts.end(person)
    response.delete_cookie(COOKIE, path="/")


@api.get("/worklist")
def get_worklist(
    service: Held,
    person: Asking,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    size: Annotated[int, Query(ge=1, le=200)] = 50,
    sort: Sort = "name",
    order: Literal["asc", "desc"] = "asc",
    state: c.ReviewState | None = None,
    label: Plain | None = None,
    search: Plain | None = None,
    reader: Plain | None = None,
    unassigned: bool = False,
) -> c.Worklist:
    """List the exams that one may see."""
    rows, total, states = service.storage.worklist(
        person.user,
        person.role,
        page=page,
        size=size,
        sort=sort,
        descending=order == "desc",
        state=state,
        label=label,
        search=search,
        reader=reader,
        unassigned=unassigned,
    )
    pace = service.pace()
    return c.Worklist(
        rows=tuple(row_view(row, json.loads(row.kinds), pace) for row in rows),
        total=total,
        page=page,
        pages=max(1, -(-total // size)),
        states={"new": states.get("new", 0), "in_work": states.get("in_work", 0), "signed": states.get("signed", 0)},
        labels=label_facts(Taxonomy(), None),
    )


@api.get("/exams/{exam}")
def get_details(loaded: Asked, service: Held, person: Asking) -> c.ExamDetails:
    """Return everything about an exam."""
    return service.details(loaded, person)


@api.get("/exams/{exam}/review", response_model=c.Review, responses=UNCHANGED)
def get_review(loaded: Asked, request: Request, service: Held, person: Asking) -> Response:
    """Return the review; with its ETag, only if it has changed."""
    content = service.review(loaded, person).model_dump_json().encode()
    tag = f'"v{len(loaded.events)}-{hashlib.sha256(content).hexdigest()[:16]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, media_type="application/json", headers={"ETag": tag})


@api.post("/exams/{exam}/events")
def post_event(decide: c.Decide, loaded: Asked, service: Held, person: Asking) -> c.Review:
    """Add a decision. The answer comes once it is stored for good."""
    return service.review(service.decide(loaded, person, decide), person)


@api.get("/exams/{exam}/events")
def get_events(loaded: Asked, service: Held) -> c.History:
    """Return the audit trail."""
    return service.history(loaded)


@api.get("/exams/{exam}/timeline")
def get_timeline(loaded: Asked, service: Held) -> c.Timeline:
    """Return the exam at a glance."""
    return service.timeline(loaded)


def _image(request: Request, tag: str, make: Any) -> Response:
    headers = {"ETag": tag, "Cache-Control": FOREVER}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(make(), media_type="image/jpeg", headers=headers)


def _check_frames(reading: Reading, *frames: int) -> None:
    if any(frame >= reading.frames for frame in frames):
        raise NotFoundError(f"the exam has frames 0 to {reading.frames - 1}")


@api.get("/exams/{exam}/frames/{frame}", response_class=Response, responses=JPEG)
def get_frame(
    frame: Frame, watched: Watched, request: Request, service: Held, size: Literal["full", "512", "256", "128"] = "full"
) -> Response:
    """Return one frame of the original video, exactly that one."""
    reading, summary = watched
    _check_frames(reading, frame)
    tag = f'"{reading.exam_digest[:16]}-{frame}-{size}"'
    return _image(request, tag, lambda: service.videos.jpeg(reading, summary, frame, FRAME_SIZES[size]))


@api.get("/exams/{exam}/frames/{frame}/evidence")
def get_evidence(
    frame: Frame, label: Annotated[Label, Query()], loaded: Asked, response: Response, service: Held
) -> c.Evidence:
    """Say where in a frame the evidence for a label lies, as the model sees it."""
    _check_frames(loaded.reading, frame)
    found = service.evidence(loaded, frame, label)
    response.headers["Cache-Control"] = FOREVER
    return found


@api.get("/exams/{exam}/strip", response_class=Response, responses=JPEG)
def get_strip(
    frames: Annotated[str, Query(pattern=r"^\d{1,9}(,\d{1,9}){0,47}$", description="up to 48 frames: 1,5,9")],
    watched: Watched,
    request: Request,
    service: Held,
    size: Literal["256", "128"] = "128",
) -> Response:
    """Return several frames side by side in one image."""
    (reading, summary), wanted = watched, [int(frame) for frame in frames.split(",")]
    _check_frames(reading, *wanted)
    tag = f'"{hashlib.sha256(f"{reading.exam_digest}-{frames}-{size}".encode()).hexdigest()[:32]}"'
    return _image(request, tag, lambda: service.videos.strip(reading, summary, wanted, int(size)))


Version = Annotated[int | None, Query(ge=1, le=MOST_FRAMES)]


@api.get("/exams/{exam}/report.html", response_class=Response, responses=HTML)
def get_report_html(loaded: Asked, service: Held, version: Version = None) -> Response:
    """Return a signed report, or the draft."""
    found = service.report(loaded, version)
    content = found.encode() if isinstance(found, str) else found.html
    headers = {"Content-Security-Policy": REPORT_POLICY, "X-Frame-Options": "SAMEORIGIN"}
    return Response(content, media_type="text/html", headers=headers)


@api.get("/exams/{exam}/report.pdf", response_class=Response, responses=PDF)
def get_report_pdf(loaded: Asked, service: Held, version: Version = None) -> Response:
    """Return a signed report, or the draft, as PDF."""
    found = service.report(loaded, version)
    content = render_pdf(found) if isinstance(found, str) else found.pdf
    headers = {"Content-Disposition": 'inline; filename="report.pdf"'}
    return Response(content, media_type="application/pdf", headers=headers)


@api.get("/exports")
def get_exports(person: Asking) -> c.Exports:
    """List what can be made for other systems."""
    return c.Exports(exports=export_choices())


@api.get("/exams/{exam}/exports/{kind}", response_class=Response, responses=DOWNLOAD)
def get_export(
    kind: Annotated[str, PathParameter(pattern=r"^[a-z]{1,20}$")], loaded: Asked, service: Held, version: Version = None
) -> Response:
    """Return a signed version as other systems take it; without a version, what the software found before anybody
    corrected it. Several files come as a zip.
    """
    made = service.export(loaded, kind, version)
    headers = {"Content-Disposition": f'attachment; filename="{made.name}"'}
    return Response(made.content, media_type=made.media_type, headers=headers)


@api.post("/exams/{exam}/time", status_code=204)
def post_time(spent: c.TimeSpent, loaded: Asked, service: Held, person: Asking) -> None:
    """Take note of time spent reading."""
    service.storage.spend(loaded.reading.id, person.user, spent.seconds)


# --- errors --------------------------------------------------------------------------------------------------------


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def on_api_error(request: Request, error: ApiError) -> JSONResponse:
        return failure(error.status, error.code, str(error))

    @app.exception_handler(NotFoundError)
    async def on_not_found(request: Request, error: NotFoundError) -> JSONResponse:
        return failure(404, "not_found", str(error))

    @app.exception_handler(MissingVideoError)
    async def on_missing_video(request: Request, error: MissingVideoError) -> JSONResponse:
        return failure(404, "video_missing", str(error))

    @app.exception_handler(UndecodableError)
    async def on_undecodable(request: Request, error: UndecodableError) -> JSONResponse:
        return failure(404, "undecodable", str(error))

    @app.exception_handler(NoMarkError)
    async def on_no_mark(request: Request, error: NoMarkError) -> JSONResponse:
        return failure(404, "no_mark", str(error))

    @app.exception_handler(DiceError)
    async def on_input(request: Request, error: DiceError) -> JSONResponse:
        return failure(404, "undecodable", error_line(error))

    @app.exception_handler(ConflictError)
    def on_conflict(request: Request, error: ConflictError) -> JSONResponse:
        return _with_review(request, "conflict", "somebody has changed this review meanwhile")

    @app.exception_handler(RefusedError)
    def on_refused(request: Request, error: RefusedError) -> JSONResponse:
        return _with_review(request, error.code, str(error))

    @app.exception_handler(sa.exc.DBAPIError)
    async def on_storage(request: Request, error: sa.exc.DBAPIError) -> JSONResponse:
        return failure(503, "storage", "the database refused; nothing was changed: check its disk, then try again")

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return failure(422, "invalid", f"{where}: {first['msg']}"[:500])

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not_found", 405: "not_allowed", 400: "invalid"}
        headers = dict(error.headers) if error.headers else None
        return failure(error.status_code, codes.get(error.status_code, "error"), str(error.detail), headers)


def _with_review(request: Request, code: str, message: str) -> JSONResponse:
    """Answer a conflict with the state as it is now."""
    service = get_service(request)
    person = find_person(request, service)
    loaded = service.storage.load(request.path_params["exam"])
    review = service.review(loaded, person) if loaded and person else None
    body = c.Failure(error=c.Problem(code=code, message=message), review=review)
    return JSONResponse(body.model_dump(mode="json"), 409)


def openapi_document() -> str:
    """Write the public contract; `docs/reference/reader-openapi.json` is this."""
    app = FastAPI(title=TITLE, version=__version__, description=DISCLAIMER)
    app.include_router(api)
    app.include_router(people)
    return json.dumps(app.openapi(), indent=1) + "\n"


def create_app(service: Service, hosts: Collection[str]) -> FastAPI:
    """Put the application together."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=DISCLAIMER,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.include_router(api)
    app.include_router(people)
    add_pages(app, service)
    _add_error_handlers(app)
    app.add_middleware(Gate, hosts=hosts)
    return app


if __name__ == "__main__":
    print(openapi_document(), end="")
