"""Commands around the reader: read, accounts, reviews."""

from __future__ import annotations

import argparse
import getpass
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import Extra, a_folder, needs, writes
from dice_ce.cli.shared import command, emit, whole
from dice_ce.errors import UsageError
from dice_ce.files import printable

if TYPE_CHECKING:
    from dice_ce.reader.accounts import Accounts

READING = Extra(("fastapi", "uvicorn", "sqlalchemy", "argon2", "weasyprint"), "reader", "the reader")
STORED = Extra(("sqlalchemy", "argon2", "pydantic"), "reader", "the reader")


def add_commands(commands: Any) -> None:
    """Describe the commands of this module."""
    read = command(commands, "read", run_read, "open exams in the browser: read, correct, sign")
    read.add_argument(
        "results", type=Path, nargs="+", help="folders of results (made by summarize), exams, or folders of both"
    )
    add_database_option(read)
    read.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
    )
    read.add_argument("--port", type=whole, help="port to listen on (default: 8765, or the next free one)")
    read.add_argument("--public-url", metavar="URL", help="address that people use, behind a reverse proxy with TLS")
    read.add_argument("--bundle", help="the bundle that made the results, to mark evidence in any frame")
    read.add_argument("--no-browser", action="store_true", help="only print the address")
    needs(read, READING)

    accounts = commands.add_parser("accounts", help="who may read, where several people do", epilog=DISCLAIMER)
    verbs = accounts.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add = command(verbs, "add", run_add_account, "make an account; the password is asked for, or read from a pipe")
    add.add_argument("user", help="name of the account")
    add.add_argument("--role", choices=("reader", "admin"), default="reader", help="admins manage accounts and exams")
    password = command(verbs, "password", run_set_password, "change a password")
    password.add_argument("user", help="name of the account")
    close = command(verbs, "close", run_close_account, "close an account; what it decided stays")
    close.add_argument("user", help="name of the account")
    reopen = command(verbs, "reopen", run_reopen_account, "open a closed account again")
    reopen.add_argument("user", help="name of the account")
    listing = command(verbs, "list", run_list_accounts, "list the accounts")
    for parser in (add, password, close, reopen, listing):
        add_database_option(parser)
        needs(parser, STORED)

    reviews = commands.add_parser(
        "reviews", help="what readers decided, for training and comparison", epilog=DISCLAIMER
    )
    verbs = reviews.add_subparsers(title="commands", metavar="COMMAND", required=True)
    export = command(verbs, "export", run_export, "write signed reviews as a dataset (exams.csv, findings.csv)")
    writes(export, "--out", a_folder("exams.csv"), required=True, metavar="DIR", help="folder of the dataset")
    export.add_argument("--unsigned", action="store_true", help="also reviews that are not signed yet")
    compare = command(verbs, "compare", run_compare, "compare readers with each other and with the software")
    compare.add_argument("--unsigned", action="store_true", help="also reviews that are not signed yet")
    for parser in (export, compare):
        add_database_option(parser)
        needs(parser, STORED)


def add_database_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database",
        metavar="FILE|URL",
        help="where reviews are kept: a file, or postgresql+psycopg://… (default: a file among the user's data)",
    )


def run_read(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    import webbrowser

    from dice_ce.progress import ProgressBar
    from dice_ce.reader import serve
    from dice_ce.reader.library import file_inputs, find_inputs

    inputs = find_inputs(options.results)
    service = serve.open_service(options.database, options.public_url, options.bundle)
    has_accounts = service.accounts.exist()
    serve.check_host(options.host, options.public_url, has_accounts=has_accounts)
    with ProgressBar("results", "results") as bar:
        count = file_inputs(service.storage, inputs, complain, bar)
    if not count:
        raise UsageError(f"{options.results[0]}: nothing in it could be read; see above")
    listening = serve.listen(service, options.host, options.port)

    def ready() -> None:
        facts = {"address": listening.address, "exams": count, "disclaimer": DISCLAIMER}
        text = f"{DISCLAIMER}\n{count:,} exam{'' if count == 1 else 's'}. Open {listening.address}\nStop with Ctrl+C."
        emit(options, facts, text)
        sys.stdout.flush()
        if not options.no_browser:
            webbrowser.open(listening.address)

    with suppress(KeyboardInterrupt):  # the way to stop it, and nothing is left unfinished
        serve.run(service, listening, options.host, ready)
    return 0


def complain(line: str) -> None:
    print(f"dice-ce: warning: {line}", file=sys.stderr)


def open_accounts(options: argparse.Namespace) -> Accounts:
    from dice_ce.reader.accounts import Accounts
    from dice_ce.reader.serve import default_database
    from dice_ce.reader.storage import Storage
    from dice_ce.reader.tables import open_engine

    return Accounts(Storage(open_engine(options.database or default_database())))


def local_user() -> str:
    """Name whoever runs the command, for the audit trail."""
    from dice_ce.reader import serve

    return serve.local_user()


def ask_password(user: str) -> str:
    """Ask twice on a terminal; take the first line of a pipe."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise UsageError("password: the two differ; try again")
    return password


def run_add_account(options: argparse.Namespace) -> int:
    """Make an account."""
    open_accounts(options).add(options.user, ask_password(options.user), options.role, by=local_user())
    emit(options, {"user": options.user, "role": options.role}, f"{options.user}: {options.role}")
    return 0


def run_set_password(options: argparse.Namespace) -> int:
    """Change a password."""
    open_accounts(options).change(options.user, by=local_user(), password=ask_password(options.user))
    emit(options, {"user": options.user}, f"{options.user}: the password is changed; open sessions have ended")
    return 0


def run_close_account(options: argparse.Namespace) -> int:
    """Close an account."""
    open_accounts(options).change(options.user, by=local_user(), is_active=False)
    emit(options, {"user": options.user, "is_active": False}, f"{options.user}: closed")
    return 0


def run_reopen_account(options: argparse.Namespace) -> int:
    """Open a closed account again."""
    open_accounts(options).change(options.user, by=local_user(), is_active=True)
    emit(options, {"user": options.user, "is_active": True}, f"{options.user}: open")
    return 0


def run_list_accounts(options: argparse.Namespace) -> int:
    """List the accounts."""
    found = open_accounts(options).all()
    facts = [{"user": one.user, "role": one.role, "is_active": one.is_active} for one in found]
    lines = [f"{one.user}  {one.role}{'' if one.is_active else '  closed'}" for one in found]
    emit(options, {"accounts": facts}, "\n".join(lines) or "no accounts: one person reads without logging in")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write the dataset."""
    from dice_ce.outputs.report.words import plural
    from dice_ce.reader.reviews import export_reviews, open_reviews

    made = export_reviews(open_reviews(options.database), options.out, with_unsigned=options.unsigned)
    for line in made.remarks:
        complain(printable(line))
    text = f"{options.out}: {plural(made.exams, 'exam')}, {plural(made.findings, 'finding')}"
    emit(options, {"folder": str(options.out), "exams": made.exams, "findings": made.findings}, text)
    return 0


def run_compare(options: argparse.Namespace) -> int:
    """Compare readers and software."""
    from dataclasses import asdict

    from dice_ce.reader.compare import compare_reviews, comparison_text
    from dice_ce.reader.reviews import open_reviews

    comparison = compare_reviews(open_reviews(options.database), with_unsigned=options.unsigned)
    emit(options, {"disclaimer": DISCLAIMER, **asdict(comparison)}, comparison_text(comparison))
    return 0
