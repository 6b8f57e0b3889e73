"""Sending DICOM objects to a PACS, by C-STORE or by STOW-RS: the only place of this package that sends anything.

UIDs follow from the content, so an object that is sent twice is stored once: after a failure, the same command again
is safe, and completes what is missing.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from dice_ce.errors import InputError, UsageError, require
from dice_ce.exam.dicom.detect import is_dicom
from dice_ce.exam.dicom.objects import DEFLATED, read_object, reading
from dice_ce.exam.dicom.whole import check_whole

PASSWORD_VARIABLE = "DICE_CE_PACS_PASSWORD"
SUCCESS, OUT_OF_RESOURCES = 0x0000, range(0xA700, 0xA800)
JPEG_BASELINE = "1.2.840.10008.1.2.4.50"
WARNINGS = range(0xB000, 0xC000)
"""Stored, though the PACS has changed or doubts something."""
REJECTED_FOR_NOW = 2
"""Result of an association request; 1 is for good."""
UNKNOWN_TITLE = (1, 7)
"""Source and reason of a rejection: whoever answers there is not called so."""
BUSY = (408, 429, 500, 502, 503, 504)
"""HTTP codes that may pass."""
NEEDED = ("SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID", "Modality")
"""Attributes without which no PACS can file an object."""
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Target:
    """Where to send to."""

    kind: Literal["C-STORE", "STOW-RS"]
    host: str
    port: int
    title: str = ""
    """Application entity that is called."""
    own_title: str = "DICE-CE"
    tls: bool = False
    url: str = ""
    ca: Path | None = None
    """Certificates to trust instead of those of the system, as PEM."""
    user: str = ""
    password: str = ""
    retries: int = 3
    timeout: float = 60.0
    pause: float = 1.0
    """Seconds before the first retry; doubled each time."""


@dataclass(frozen=True)
class Item:
    """A file to be sent."""

    path: Path
    sop_class: str
    sop_instance: str
    study: str
    syntax: str
    has_patient: bool


@dataclass(frozen=True)
class Sent:
    """What became of a file."""

    item: Item
    is_stored: bool
    detail: str
    may_pass: bool = False
    """Whether sending it again may help."""


def parse_target(address: str, **settings: Any) -> Target:
    """Read `dicom://TITLE@host:port` (`dicoms://` with TLS), or the address of a DICOMweb service."""
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--to {address}: the port is no number from 1 to 65535") from error
    if parts.password is not None or (parts.scheme in ("http", "https") and parts.username):
        raise UsageError(f"--to: leave user and password out of the address; give --user and ${PASSWORD_VARIABLE}")
    if parts.scheme in ("dicom", "dicoms") and parts.hostname and port and 0 < len(parts.username or "") <= 16:
        return Target(
            "C-STORE", parts.hostname, port, title=str(parts.username), tls=parts.scheme == "dicoms", **settings
        )
    if parts.scheme in ("http", "https") and parts.hostname:
        standard = 443 if parts.scheme == "https" else 80
        return Target("STOW-RS", parts.hostname, port or standard, url=address.rstrip("/"), **settings)
    raise UsageError(
        f"--to {address}: neither dicom://TITLE@host:port (title of up to 16 letters) nor https://host/dicom-web"
    )


def collect(paths: Sequence[Path]) -> list[Item]:
    """List the DICOM objects in files and folders; all must be readable, so that no study is sent in part."""
    pydicom = require("pydicom", extra="hospital", purpose="sending DICOM")
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; check the path")
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        files += [file for file in inside if file.is_file() and is_dicom(file)]
    items = []
    for file in dict.fromkeys(files):
        with reading(file):
            one = pydicom.dcmread(file, stop_before_pixels=True)
            if missing := [name for name in NEEDED if not one.get(name)]:
                raise InputError(f"{file}: the DICOM object lacks {', '.join(missing)}; export it again")
            _check_content(file, one)
            items.append(
                Item(
                    path=file,
                    sop_class=str(one.SOPClassUID),
                    sop_instance=str(one.SOPInstanceUID),
                    study=str(one.StudyInstanceUID),
                    syntax=str(one.file_meta.TransferSyntaxUID),
                    has_patient=bool(one.get("PatientID") or one.get("PatientName")),
                )
            )
    if not items:
        raise InputError(f"{paths[0]}: holds no DICOM objects; make them with: dice-ce export RESULTS --format dicom")
    return items


def _check_content(path: Path, one: Any) -> None:
    """Refuse an object that was cut off, also between two elements."""
    syntax = one.file_meta.TransferSyntaxUID
    if syntax != DEFLATED:
        check_whole(path, is_explicit=not syntax.is_implicit_VR, is_little_endian=syntax.is_little_endian)
    kind = str(one.SOPClassUID.name)
    needed = {"SR": "ContentSequence", "KO": "ContentSequence", "DOC": "EncapsulatedDocument"}.get(one.Modality, "")
    if (needed and needed not in one) or ("Image Storage" in kind and not read_object(path).spans):
        raise InputError(f"{path}: the object ends before its content; export it again")


def send(items: Sequence[Item], target: Target, report: Report = lambda done, total: None) -> list[Sent]:
    """Send all objects; one that is refused does not stop the others."""
    names = ("pydicom", "pynetdicom") if target.kind == "C-STORE" else ("pydicom", "dicomweb_client", "requests")
    for name in names:
        require(name, extra="hospital", purpose=f"sending by {target.kind}")
    logging.getLogger("pynetdicom").addHandler(logging.NullHandler())
    outcomes: list[Sent] = []
    for outcome in (_store if target.kind == "C-STORE" else _stow)(items, target):
        outcomes.append(outcome)
        report(len(outcomes), len(items))
    return outcomes


def _pauses(target: Target) -> Iterator[float]:
    """Yield how long to wait before each attempt."""
    yield 0.0
    for attempt in range(target.retries):
        yield target.pause * 2**attempt


# --- C-STORE ------------------------------------------------------------------------------------------------------


class _TransientError(Exception):
    """Failed in a way that may pass."""


class _RefusedError(Exception):
    """The PACS does not talk to us, or takes nothing of this."""


def _store(items: Sequence[Item], target: Target) -> Iterator[Sent]:
    """Send over one association; after a failure that may pass, go on with what is left over a new one."""
    left = list(items)
    reason, may_pass = "", True
    for pause in _pauses(target):
        time.sleep(pause)
        try:
            association = _associate(left, target)
        except _TransientError as error:
            reason = str(error)
            continue
        except _RefusedError as error:
            if len(left) == len(items):
                raise InputError(f"{error}; nothing was sent") from error
            reason, may_pass = str(error), False
            break
        try:
            while left:
                outcome = _store_one(association, left[0])
                left.pop(0)
                yield outcome
        except _TransientError as error:
            reason = str(error)
        finally:
            association.release() if association.is_established else association.abort()
        if not left:
            return
    for item in left:
        yield Sent(item, False, reason, may_pass)


def _associate(items: Sequence[Item], target: Target) -> Any:
    import ssl

    from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian
    from pynetdicom import AE

    try:
        socket.create_connection((target.host, target.port), target.timeout).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise _TransientError(f"{target.host}:{target.port} does not answer ({reason})") from error
    entity = AE(ae_title=target.own_title)
    entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = target.timeout
    entity.connection_timeout = target.timeout
    for sop_class, syntax in sorted({(item.sop_class, item.syntax) for item in items}):
        entity.add_requested_context(sop_class, syntax)
        if syntax == JPEG_BASELINE:  # some take no compressed images
            entity.add_requested_context(sop_class, [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
    tls = (ssl.create_default_context(cafile=target.ca), target.host) if target.tls else None
    association = entity.associate(target.host, target.port, ae_title=target.title, tls_args=tls)
    if association.is_established:
        return association
    where = f"{target.title} at {target.host}:{target.port}"
    if association.is_rejected:
        answer = association.acceptor.primitive
        said = getattr(answer, "reason_str", "") or "no reason given"
        if getattr(answer, "result", None) != REJECTED_FOR_NOW:
            if (getattr(answer, "result_source", None), getattr(answer, "diagnostic", None)) == UNKNOWN_TITLE:
                raise _RefusedError(f"{where} goes by another title ({said}): check TITLE in --to")
            raise _RefusedError(
                f"{where} refuses us as '{target.own_title}' ({said}): have this title allowed there, or give "
                "--calling-title"
            )
        raise _TransientError(f"{where} refuses for now ({said})")
    if association.rejected_contexts and not association.accepted_contexts:
        raise _RefusedError(f"{where} takes none of these kinds of objects: have them allowed there")
    unless_trusted = ", or is not trusted: give --ca" if target.tls else ""
    raise _TransientError(f"{where} does not answer{unless_trusted}")


def _store_one(association: Any, item: Item) -> Sent:
    try:
        status = association.send_c_store(_acceptable(association, item))
    except ValueError:  # no accepted presentation context
        kind, syntax = (_name_of(uid) for uid in (item.sop_class, item.syntax))
        return Sent(item, False, f"the PACS does not take {kind} as {syntax}: have it allowed there")
    except RuntimeError as error:
        raise _TransientError("the connection was lost") from error
    if "Status" not in status:
        raise _TransientError("the connection was lost, or the PACS took too long")
    code = int(status.Status)
    if code == SUCCESS or code in WARNINGS:
        return Sent(item, True, "stored" if code == SUCCESS else f"stored with warning 0x{code:04X}")
    said = f": {status.ErrorComment}" if status.get("ErrorComment") else ""
    if code in OUT_OF_RESOURCES:
        raise _TransientError(f"the PACS is out of resources (0x{code:04X}{said})")
    return Sent(item, False, f"refused with 0x{code:04X}{said}")


def _acceptable(association: Any, item: Item) -> Any:
    """Return the file, or the object in it uncompressed where the PACS takes it only so."""
    taken = {
        syntax
        for context in association.accepted_contexts
        if context.abstract_syntax == item.sop_class
        for syntax in context.transfer_syntax
    }
    if item.syntax != JPEG_BASELINE or item.syntax in taken or not taken:
        return item.path
    pydicom = require("pydicom", extra="hospital", purpose="sending DICOM")
    dataset = pydicom.dcmread(item.path)
    dataset.decompress(generate_instance_uid=False)  # the same pixels, so the same object
    return dataset


def _name_of(uid: str) -> str:
    from pydicom.uid import UID

    return str(UID(uid).name)


# --- STOW-RS ------------------------------------------------------------------------------------------------------


def _stow(items: Sequence[Item], target: Target) -> Iterator[Sent]:
    import pydicom
    import requests
    import urllib3.util.connection
    from dicomweb_client import DICOMwebClient

    urllib3.util.connection.HAS_IPV6 = socket.has_ipv6  # see errors.require

    session = requests.Session()
    session.verify = True if target.ca is None else str(target.ca)
    session.trust_env = False  # neither a proxy nor a .netrc that nobody here has mentioned
    if target.user:
        session.auth = (target.user, target.password)
    with session:
        client = DICOMwebClient(url=target.url, session=session, timeout=target.timeout)
        client.set_http_retry_params(retry=False)
        outcome: Sent | None = None
        for item in items:
            if outcome is not None and outcome.may_pass:  # a server that does not answer is not asked for every object
                yield Sent(item, False, outcome.detail, may_pass=True)
                continue
            outcome = _stow_one(client, pydicom.dcmread(item.path), item, target)
            yield outcome


def _stow_one(client: Any, dataset: Any, item: Item, target: Target) -> Sent:
    import requests

    reason = ""
    for pause in _pauses(target):
        time.sleep(pause)
        try:
            answer = client.store_instances([dataset], study_instance_uid=item.study)
        except requests.HTTPError as error:
            code = error.response.status_code if error.response is not None else 0
            reason = f"the server answers HTTP {code}"
            if code in (401, 403):
                return Sent(item, False, f"{reason}: give --user and ${PASSWORD_VARIABLE}")
            if code in (404, 405):
                return Sent(item, False, f"{reason}: no DICOMweb there; check the address after --to")
            if code not in BUSY:
                return Sent(item, False, reason, may_pass=code >= 500)
        except requests.exceptions.SSLError:
            return Sent(item, False, f"the certificate of {target.host} is not trusted: give --ca")
        except requests.RequestException as error:
            reason = f"{target.host}:{target.port} does not answer ({type(error).__name__})"
        else:
            failed = answer.get("FailedSOPSequence") or ()
            if failed:
                return Sent(item, False, f"refused with 0x{int(failed[0].get('FailureReason', 0)):04X}")
            return Sent(item, True, "stored")
    return Sent(item, False, reason, may_pass=True)
