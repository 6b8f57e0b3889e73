"""What every request passes first: host name and size of the body; and what every answer says."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 256 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), interest-cohort=()",
    "Cache-Control": "no-store",
}
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def failure(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Answer with an error as the contract has it."""
    body = {"error": {"code": code, "message": message}, "review": None}
    return JSONResponse(body, status, headers=headers)


def host_name(host: str) -> str:
    """Take the port off a Host header."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def is_same_site(headers: Headers, public: str | None) -> bool:
    """Whether a request that changes something comes from our own pages, as far as the browser tells."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    own = {headers.get("host", ""), urlsplit(public).netloc if public else ""} - {""}
    return urlsplit(origin).netloc in own  # that of a sandboxed page is `null`


def is_token(given: str | None, expected: str) -> bool:
    """Compare tokens in constant time."""
    return given is not None and hmac.compare_digest(given.encode(), expected.encode())


class Gate:
    """Refuses foreign host names (DNS rebinding) and large bodies, and puts the security headers on every answer."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if host_name(headers.get("host", "")) not in self._hosts:
            refusal = failure(421, "wrong_host", "this address is not served here; open the one that was printed")
            await refusal(scope, receive, send_with_headers)
            return
        if scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send_with_headers)
            return
        body = await _read_body(headers, receive)
        if body is None:
            refusal = failure(
                413, "too_large", f"a request has at most {MOST_BODY // 1024} kB", {"Connection": "close"}
            )
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, _replay(body, receive), send_with_headers)


async def _read_body(headers: Headers, receive: Receive) -> bytes | None:
    """Read a body; None if it is too large, found out as early as possible."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > MOST_BODY:
        return None
    body, is_more = b"", True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body += message.get("body", b"")
        if len(body) > MOST_BODY:
            return None
        is_more = message.get("more_body", False)
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
