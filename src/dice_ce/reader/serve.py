"""Starting the server: what it listens on, and who may come in."""

from __future__ import annotations

import getpass
import ipaddress
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs
import uvicorn

from dice_ce.errors import UsageError
from dice_ce.reader.accounts import Accounts
from dice_ce.reader.app import create_app
from dice_ce.reader.frames import Videos
from dice_ce.reader.marks import Marker
from dice_ce.reader.security import LOOPBACK
from dice_ce.reader.service import Service
from dice_ce.reader.storage import Storage
from dice_ce.reader.tables import open_engine
from dice_ce.reader.timeline import Timelines

DEFAULT_PORT = 8765
PORTS_TRIED = 20


@dataclass(frozen=True)
class Listening:
    """Where the server can be reached."""

    socket: socket.socket
    address: str
    """To open in a browser; without accounts it carries the key."""


def default_database() -> Path:
    """Return where reviews are kept unless told otherwise."""
    return Path(platformdirs.user_data_dir("dice-ce", appauthor=False)) / "reviews.sqlite"


def open_service(database: str | Path | None, public_url: str | None = None, bundle: str | None = None) -> Service:
    """Open the database and put everything around it."""
    storage = Storage(open_engine(database or default_database()))
    videos = Videos()
    return Service(
        storage=storage,
        accounts=Accounts(storage),
        videos=videos,
        timelines=Timelines(videos),
        marker=Marker(bundle),
        local_key=secrets.token_urlsafe(24),
        local_user=local_user(),
        public_url=public_url,
    )


def local_user() -> str:
    """Name the one person who reads without an account, as the system does."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "reader"
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._@-") else "_" for sign in name)[:64]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(host: str, public_url: str | None, *, has_accounts: bool) -> None:
    """Refuse to be reachable from elsewhere without accounts, or under a name that nobody has told."""
    if public_url is not None and urlsplit(public_url).scheme not in ("http", "https"):
        raise UsageError(f"--public-url {public_url}: write https://name, as people type it into their browser")
    if is_loopback(host) and public_url is None:
        return
    if not has_accounts:
        raise UsageError(
            f"--host {host}: others could reach this server, and there are no accounts; "
            "make one with: dice-ce accounts add NAME --role admin"
        )
    if host in ("0.0.0.0", "::") and public_url is None:
        raise UsageError(f"--host {host}: say under which address people reach it, with --public-url https://name")


def allowed_hosts(host: str, public_url: str | None) -> set[str]:
    """List the host names that requests may ask for."""
    own = {*LOOPBACK, host.lower(), f"[{host}]"}
    if public_url and (name := urlsplit(public_url).hostname):
        own.add(name.lower())
    return own


def listen(service: Service, host: str, port: int | None) -> Listening:
    """Take a port: the one that was asked for, or the first free one from the default on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED)
    for number in tried:
        # The protocol is named, because asyncio asks for it before it switches off the wait of 40 ms in every answer.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, number))
            opened.listen(128)  # now, so that nobody who reads the address comes too early
        except OSError as error:
            opened.close()
            refusal = error
            continue
        shown = f"[{host}]" if ":" in host else host
        base = service.public_url or f"http://{shown}:{opened.getsockname()[1]}"
        key = "" if service.accounts.exist() else f"?key={service.local_key}"
        return Listening(opened, f"{base.rstrip('/')}/{key}")
    reason = refusal.strerror or str(refusal)
    raise UsageError(f"--port {tried[0]}: cannot listen on {host} ({reason}); give another --port")


def run(service: Service, listening: Listening, host: str, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until the process is told to stop."""
    app = create_app(service, allowed_hosts(host, service.public_url))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        limit_concurrency=500,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )
    ready()
    uvicorn.Server(config).run(sockets=[listening.socket])
