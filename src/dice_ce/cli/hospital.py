"""Commands for hospitals: export, send."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from dice_ce.cli.checks import Extra, a_folder, needs, writes
from dice_ce.cli.shared import command, emit, parsed_by, positive, whole
from dice_ce.errors import InputError

SENDING = Extra(("pydicom", "pynetdicom", "dicomweb_client", "requests"), "hospital", "sending DICOM")


def _read_kinds(text: str) -> tuple[str, ...]:
    from dice_ce.outputs import read_kinds

    return read_kinds(text)


kinds = parsed_by(_read_kinds)
KINDS = "pdf, dicom, fhir"
"""The exports among OUTPUTS, which are not imported for the sake of `--help`; a test compares them."""


def add_commands(commands: Any) -> None:
    """Describe the commands of this module."""
    export = command(commands, "export", run_export, "make PDF, DICOM or FHIR from results, without the exam")
    export.add_argument("results", type=Path, help="folder of one exam that summarize has written")
    export.add_argument("--format", type=kinds, required=True, metavar="LIST", help=f"such as pdf,dicom; of {KINDS}")
    writes(export, "--out", a_folder(), metavar="DIR", help="where to write (default: into the results)")
    export.add_argument(
        "--identity",
        type=Path,
        metavar="FILE",
        help="patient and study to write: a DICOM object of the study, the exam itself, or JSON (default: none)",
    )
    export.add_argument("--force", action="store_true", help="replace what is there in --out")

    send = command(commands, "send", run_send, "send DICOM objects to a PACS; nothing else sends anything")
    send.add_argument("objects", type=Path, nargs="+", help="DICOM files, or folders of them")
    send.add_argument(
        "--to",
        required=True,
        metavar="ADDRESS",
        help="dicom://TITLE@host:port (dicoms:// with TLS) for C-STORE, https://host/dicom-web for STOW-RS",
    )
    send.add_argument("--calling-title", default="DICE-CE", metavar="TITLE", help="our own title (default: DICE-CE)")
    send.add_argument("--user", default="", help="user for STOW-RS; the password is taken from $DICE_CE_PACS_PASSWORD")
    send.add_argument("--ca", type=Path, metavar="PEM", help="certificates to trust instead of the system's, for TLS")
    send.add_argument("--retries", type=whole, default=3, help="tries after failures that may pass (default: 3)")
    send.add_argument("--timeout", type=positive, default=60.0, help="seconds to wait for an answer (default: 60)")
    send.add_argument("--dry-run", action="store_true", help="say what would be sent, and send nothing")
    needs(send, SENDING)


def run_export(options: argparse.Namespace) -> int:
    """Make exports from results."""
    from dice_ce.exam.dicom.identity import read_identity
    from dice_ce.outputs import check_installed, export_results

    check_installed(options.format)
    identity = read_identity(options.identity) if options.identity else None
    out = options.out or options.results
    written = export_results(options.results, out, kinds=options.format, identity=identity, force=options.force)
    facts = {"written": [str(path) for path in written], "identity": identity is not None}
    said = "with patient and study as given" if identity else "without patient and study"
    emit(options, facts, "\n".join(f"  {path}  ({said})" for path in written))
    return 0


def run_send(options: argparse.Namespace) -> int:
    """Send objects and say what became of each."""
    from dice_ce.outputs.dicom.send import PASSWORD_VARIABLE, collect, parse_target, send
    from dice_ce.progress import ProgressBar

    if options.ca is not None and not options.ca.is_file():
        raise InputError(f"{options.ca}: no such file; give the certificate of the PACS, or of who signed it, as PEM")
    target = parse_target(
        options.to,
        own_title=options.calling_title,
        ca=options.ca,
        user=options.user,
        password=os.environ.get(PASSWORD_VARIABLE, ""),
        retries=options.retries,
        timeout=options.timeout,
    )
    items = collect(options.objects)
    named = sum(item.has_patient for item in items)
    where = f"{target.host}:{target.port} by {target.kind}"
    if not options.json:
        print(f"{len(items)} objects, {named} of them with a patient, to {where}")
    if options.dry_run:
        emit(options, {"would_send": [str(item.path) for item in items]}, "\n".join(f"  {item.path}" for item in items))
        return 0
    with ProgressBar("sending", "objects") as bar:
        outcomes = send(items, target, bar)
    stored = [outcome for outcome in outcomes if outcome.is_stored]
    facts = {
        "to": where,
        "stored": len(stored),
        "objects": [
            {
                "file": str(one.item.path),
                "sop_instance": one.item.sop_instance,
                "stored": one.is_stored,
                "detail": one.detail,
            }
            for one in outcomes
        ],
    }
    emit(options, facts, "\n".join(f"  {one.item.path}  {one.detail}" for one in outcomes))
    sys.stdout.flush()
    if len(stored) < len(items):
        failed = [outcome for outcome in outcomes if not outcome.is_stored]
        again = "the same command again sends the rest: what is there is stored once"
        refused = "the others are refused, and would be again"
        raise InputError(
            f"{where}: {len(stored)} of {len(items)} objects were stored ({failed[0].item.path.name}: "
            f"{failed[0].detail}); {again if any(outcome.may_pass for outcome in failed) else refused}"
        )
    return 0
