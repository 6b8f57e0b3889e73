"""Pages and static files. A request names a file by a key that is looked up; no path of a request reaches the disk."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from dice_ce.outputs.report.theme import theme_css
from dice_ce.reader.guard import find_person, set_cookie
from dice_ce.reader.security import is_token
from dice_ce.reader.service import NotFoundError, Service

WEB = Path(__file__).parent / "web"
MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
THEME = "theme.css"
"""Made from the colours that the report shares."""
NO_SESSION = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>DiCE-CE reader</title></head>
<body><h1>Open the address that the command printed</h1>
<p>It looks like http://127.0.0.1:…/?key=… and carries the key to this server. Without it nobody gets in.</p>
</body></html>"""


def web_files() -> dict[str, Path]:
    """List what may be served, by the name it is asked for."""
    found = (path for path in WEB.rglob("*") if path.suffix in MEDIA_TYPES and path.is_file())
    files = {path.relative_to(WEB).as_posix(): path for path in found}
    return {name: path for name, path in files.items() if not any(part.startswith(".") for part in name.split("/"))}


def add_pages(app: FastAPI, service: Service) -> None:
    """Add the pages; `app.py` has what they talk to."""
    files = web_files()

    def content_of(name: str) -> bytes:
        nonlocal files
        if name == THEME:
            return theme_css().encode()
        if name not in files:
            files = web_files()  # a file may have been added while the server runs
        if name not in files:
            raise NotFoundError("there is no such file")
        return files[name].read_bytes()

    def serve(name: str, request: Request) -> Response:
        content = content_of(name)
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=MEDIA_TYPES[Path(name).suffix], headers=headers)

    def page(name: str, request: Request) -> Response:
        if find_person(request, service) is not None:
            return serve(name, request)
        if service.accounts.exist():
            return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
        return HTMLResponse(NO_SESSION, 401)

    @app.get("/", include_in_schema=False)
    def worklist(request: Request, key: str | None = None) -> Response:
        if key is not None and not service.accounts.exist() and is_token(key, service.local_key):
            response = RedirectResponse("/", 303)
            set_cookie(response, service.accounts.begin_local(service.local_user), service)
            return response
        return page("worklist.html", request)

    @app.get("/accounts", include_in_schema=False)
    def accounts(request: Request) -> Response:
        return page("accounts.html", request)

    @app.get("/exam/{exam}", include_in_schema=False)
    def reading(exam: str, request: Request) -> Response:
        return page("reading.html", request)

    @app.get("/exam/{exam}/report", include_in_schema=False)
    def report(exam: str, request: Request) -> Response:
        return page("report.html", request)

    @app.get("/login", include_in_schema=False)
    def login(request: Request) -> Response:
        if not service.accounts.exist():
            return RedirectResponse("/", 303)
        return serve("login.html", request)

    @app.get("/static/{name:path}", include_in_schema=False)
    def static(name: str, request: Request) -> Response:
        return serve(name, request)
