"""Sending, to a real PACS: what arrives is what was exported, and what does not arrive is told."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pydicom
import pytest
from dicomweb_client import DICOMwebClient
from pynetdicom import AE, AllStoragePresentationContexts, evt

from dice_ce.cli import main
from dice_ce.errors import InputError, UsageError
from dice_ce.outputs import export_results
from dice_ce.outputs.dicom.send import Item, Sent, Target, collect, parse_target, send
from tests import peers
from tests.dicom_material import SECRETS
from tests.outputs.conftest import Summarised

GUARD = Path(__file__).parents[1] / "no_sockets.py"


@pytest.fixture(scope="module")
def exported(summarised: Summarised, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DICOM objects of the exam, without its patient."""
    folder = tmp_path_factory.mktemp("exported")
    export_results(summarised.folder, folder, kinds=("dicom",))
    return folder / "dicom"


@pytest.fixture(scope="module")
def pacs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peers.Orthanc]:
    with peers.orthanc(tmp_path_factory.mktemp("orthanc")) as peer:
        yield peer


def stored(pacs: peers.Orthanc, items: list[Item]) -> dict[str, pydicom.Dataset]:
    """Find the study by QIDO and fetch all of it by WADO."""
    client = DICOMwebClient(pacs.web)
    (study,) = {item.study for item in items}
    found = client.search_for_instances(study_instance_uid=study)
    uids = [(one["0020000E"]["Value"][0], one["00080018"]["Value"][0]) for one in found]
    return {
        uid: client.retrieve_instance(study, series, uid, media_types=(("application/dicom", "*"),))
        for series, uid in uids
    }


@pytest.mark.parametrize("way", ["C-STORE", "STOW-RS"])
def test_a_real_pacs_stores_every_object_and_gives_it_back(
    exported: Path, tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with peers.orthanc(tmp_path / "orthanc") as pacs:
        address = pacs.dicom if way == "C-STORE" else pacs.web
        for _ in range(2):  # sent twice, stored once
            assert main(["send", str(exported), "--to", address]) == 0
        said = capsys.readouterr().out
        items = collect([exported])
        assert said.count("stored") == 2 * len(items)
        assert f"{len(items)} objects, 0 of them with a patient" in said
        found = stored(pacs, items)
    assert len(found) == len(items)
    for item in items:
        assert found[item.sop_instance] == pydicom.dcmread(item.path)


def test_objects_with_a_patient_are_found_by_the_patient(
    summarised: Summarised, pacs: peers.Orthanc, tmp_path: Path
) -> None:
    from dice_ce.exam.dicom.identity import read_identity

    export_results(summarised.folder, tmp_path / "out", kinds=("dicom",), identity=read_identity(summarised.exam))
    items = collect([tmp_path / "out", summarised.exam])
    assert all(item.has_patient for item in items)
    assert all(one.is_stored for one in send(items, parse_target(pacs.dicom)))
    client = DICOMwebClient(pacs.web)
    (study,) = client.search_for_studies(search_filters={"PatientID": "SECRET-4711"})
    assert study["0020000D"]["Value"][0] in SECRETS


def test_a_wrong_title_is_refused_before_anything_is_sent(
    exported: Path, pacs: peers.Orthanc, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["send", str(exported), "--to", pacs.dicom.replace("ORTHANC", "NOBODY")]) == 1
    said = capsys.readouterr().err
    assert "goes by another title" in said
    assert "check TITLE in --to; nothing was sent" in said
    assert said.count("\n") == 1 + said.count("sending")


def test_a_password_is_asked_for_and_taken(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    users = {"AuthenticationEnabled": True, "RegisteredUsers": {"reader": "secret"}}
    with peers.orthanc(tmp_path / "orthanc", **users) as pacs:
        assert main(["send", str(exported), "--to", pacs.web, "--retries", "0"]) == 1
        assert "HTTP 401: give --user and $DICE_CE_PACS_PASSWORD" in capsys.readouterr().err
        monkeypatch.setenv("DICE_CE_PACS_PASSWORD", "secret")
        assert main(["send", str(exported), "--to", pacs.web, "--user", "reader"]) == 0


# --- a PACS that refuses, and a study that arrives in part --------------------------------------------------------


@contextmanager
def storing(
    answer: Callable[[int, Any], int],
    tls: ssl.SSLContext | None = None,
    *,
    classes: Sequence[str] = tuple(str(context.abstract_syntax) for context in AllStoragePresentationContexts),
    syntaxes: Sequence[str] = pydicom.uid.AllTransferSyntaxes,
    callers: Sequence[str] = (),
) -> Iterator[Target]:
    """A store that answers by the number of the request."""
    count = 0

    def handle(event: Any) -> int:
        nonlocal count
        count += 1
        return answer(count, event)

    entity = AE(ae_title="STORE")
    entity.require_calling_aet = list(callers)
    for sop_class in classes:
        entity.add_supported_context(sop_class, list(syntaxes))
    server = entity.start_server(
        ("127.0.0.1", 0), block=False, ssl_context=tls, evt_handlers=[(evt.EVT_C_STORE, handle)]
    )
    try:
        yield Target("C-STORE", "127.0.0.1", server.server_address[1], title="STORE", pause=0.0, timeout=300.0)
    finally:
        server.shutdown()


def outcome(items: list[Item], target: Target) -> tuple[int, list[Sent]]:
    outcomes = send(items, target)
    assert [one.item for one in outcomes] == items
    return sum(one.is_stored for one in outcomes), outcomes


def test_a_store_without_room_is_asked_again(exported: Path) -> None:
    items = collect([exported])
    with storing(lambda number, event: 0xA700 if number == 2 else 0x0000) as target:
        assert outcome(items, target)[0] == len(items)


def test_an_object_that_is_refused_does_not_stop_the_others(exported: Path) -> None:
    items = collect([exported])
    with storing(lambda number, event: 0xC123 if number == 2 else 0x0000) as target:
        count, outcomes = outcome(items, target)
    assert count == len(items) - 1
    assert outcomes[1].detail == "refused with 0xC123"


def test_a_lost_connection_is_taken_up_again(exported: Path) -> None:
    items = collect([exported])

    def answer(number: int, event: Any) -> int:
        if number == 2:
            event.assoc.abort()
        return 0x0000

    with storing(answer) as target:
        assert outcome(items, target)[0] == len(items)


def test_tls_takes_a_certificate_that_is_trusted_and_no_other(exported: Path, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = peers.run(
        "openssl", "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=test",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    items = collect([exported])[:2]
    with storing(lambda number, event: 0x0000, context) as target:
        trusting = dataclasses.replace(target, tls=True, retries=0, ca=certificate)
        assert outcome(items, trusting)[0] == 2
        count, outcomes = outcome(items, dataclasses.replace(trusting, ca=None))
        assert count == 0
        assert "is not trusted: give --ca" in outcomes[0].detail


def test_a_half_sent_study_is_told(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for code, remedy in (
        (0xA700, "the same command again sends the rest"),
        (0xA900, "the others are refused, and would be again"),
    ):
        with storing(lambda number, event, code=code: 0x0000 if number < 3 else code) as target:
            address = f"dicom://STORE@127.0.0.1:{target.port}"
            assert main(["send", str(exported), "--to", address, "--retries", "0", "--timeout", "300"]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert "2 of" in said
        assert remedy in said


def test_a_store_that_takes_no_compressed_images_gets_them_uncompressed(exported: Path) -> None:
    items = collect([exported])
    images = {item.sop_instance: item for item in items if item.path.parent.name == "keyframes"}
    arrived: dict[str, pydicom.Dataset] = {}

    def answer(number: int, event: Any) -> int:
        event.dataset.file_meta = event.file_meta
        arrived[event.dataset.SOPInstanceUID] = event.dataset
        return 0x0000

    plain = [pydicom.uid.ExplicitVRLittleEndian, pydicom.uid.ImplicitVRLittleEndian]
    with storing(answer, syntaxes=plain) as target:
        assert outcome(items, target)[0] == len(items)
    assert images
    for uid, item in images.items():
        sent = pydicom.dcmread(item.path)
        assert arrived[uid].file_meta.TransferSyntaxUID in plain
        assert (arrived[uid].pixel_array == sent.pixel_array).all()


def test_a_store_that_does_not_know_us_is_told(exported: Path) -> None:
    with storing(lambda number, event: 0x0000, callers=["SOMEBODY"]) as target:
        with pytest.raises(InputError, match=r"refuses us as 'DICE-CE' .* --calling-title; nothing was sent"):
            send(collect([exported]), target)
        assert outcome(collect([exported])[:1], dataclasses.replace(target, own_title="SOMEBODY"))[0] == 1


def test_a_store_that_takes_none_of_it_is_told_apart_from_one_that_is_not_there(exported: Path) -> None:
    computed_tomography = [pydicom.uid.CTImageStorage]
    message = r"takes none of these kinds of objects: .*; nothing was sent"
    with (
        storing(lambda number, event: 0x0000, classes=computed_tomography) as target,
        pytest.raises(InputError, match=message),
    ):
        send(collect([exported]), target)


@pytest.mark.parametrize("way", ["dicom://STORE@", "http://"])
def test_a_pacs_that_takes_the_call_and_says_nothing_is_given_up(exported: Path, way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{way}127.0.0.1:{silent.getsockname()[1]}"
        outcomes = send(collect([exported]), parse_target(address, retries=1, pause=0.0, timeout=0.5))
    assert len(outcomes) > 2
    assert not any(one.is_stored for one in outcomes)
    assert all("does not answer" in one.detail and one.may_pass for one in outcomes)


@contextmanager
def answering(*codes: int) -> Iterator[tuple[Target, list[int]]]:
    """A web server that answers with these codes in turn, and with the last of them from then on."""
    asked: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(codes[min(len(asked), len(codes) - 1)])
            self.send_response(asked[-1])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield parse_target(f"http://127.0.0.1:{server.server_address[1]}/dicom-web", pause=0.0, retries=1), asked
        finally:
            server.shutdown()
            thread.join()


def test_a_busy_server_is_not_asked_again_for_every_object(exported: Path) -> None:
    with answering(503) as (target, asked):
        outcomes = send(collect([exported]), target)
    assert len(asked) == 2
    assert {one.detail for one in outcomes} == {"the server answers HTTP 503"}


@pytest.mark.parametrize("name", ["SOPClassUID", "SOPInstanceUID", "StudyInstanceUID", "SeriesInstanceUID"])
def test_an_object_that_no_pacs_could_file_is_named(exported: Path, tmp_path: Path, name: str) -> None:
    one = pydicom.dcmread(exported / "report.dcm")
    delattr(one, name)
    one.save_as(tmp_path / "half.dcm")
    with pytest.raises(InputError, match=f"half.dcm: the DICOM object lacks {name}; export it again"):
        collect([tmp_path])


def test_a_closed_port_is_told_in_one_line(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as held:  # bound, so that nobody else takes it, but not listening
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        for address in (f"dicom://STORE@127.0.0.1:{port}", f"http://127.0.0.1:{port}/dicom-web"):
            assert main(["send", str(exported), "--to", address, "--retries", "0", "--timeout", "300"]) == 1
            assert "does not answer" in capsys.readouterr().err.splitlines()[-1]


def test_a_busy_server_is_asked_again_and_a_refusing_one_is_not(exported: Path) -> None:
    with answering(503, 503, 415) as (target, asked):
        (one,) = send(collect([exported])[:1], dataclasses.replace(target, retries=5))
    assert asked == [503, 503, 415]
    assert one.detail == "the server answers HTTP 415"


def test_a_refusal_does_not_stop_the_others_and_would_come_again(exported: Path) -> None:
    items = collect([exported])
    with answering(409) as (target, asked):
        outcomes = send(items, target)
    assert len(asked) == len(items)
    assert not any(one.may_pass for one in outcomes)


def test_an_address_without_dicomweb_is_told(exported: Path, pacs: peers.Orthanc) -> None:
    (one,) = send(collect([exported])[:1], parse_target(pacs.web.replace("dicom-web", "nowhere")))
    assert one.detail == "the server answers HTTP 404: no DICOMweb there; check the address after --to"
    assert not one.may_pass


# --- what is not sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "",
        "pacs",
        "dicom://pacs:104",
        "dicom://TITLE@pacs",
        "dicom://TITLE@pacs:0",
        "dicom://T@pacs:99999",
        "ftp://pacs",
    ],
)
def test_an_address_that_makes_no_sense_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        parse_target(address)


def test_passwords_stay_out_of_the_command() -> None:
    with pytest.raises(UsageError, match="DICE_CE_PACS_PASSWORD"):
        parse_target("https://me:secret@pacs/dicom-web")


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.9, 0.99])
def test_a_damaged_file_stops_all_before_anything_is_sent(exported: Path, tmp_path: Path, share: float) -> None:
    whole = exported / "report.dcm"
    (tmp_path / "whole.dcm").write_bytes(whole.read_bytes())
    for file in sorted(exported.rglob("*.dcm"))[-4:]:
        (tmp_path / "half.dcm").write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
        with pytest.raises(InputError, match=r"half\.dcm"):
            collect([tmp_path])


def test_a_folder_without_objects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no DICOM objects"):
        collect([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        collect([tmp_path / "missing"])


def test_a_dry_run_sends_nothing(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", str(exported), "--to", "dicom://STORE@127.0.0.1:9", "--dry-run"]) == 0
    assert "report.dcm" in capsys.readouterr().out


def test_exporting_opens_no_socket_and_sending_does(summarised: Summarised, exported: Path, tmp_path: Path) -> None:
    def guarded(*words: str) -> int:
        command = [sys.executable, str(GUARD), sys.executable, "-m", "dice_ce.cli", *words]
        return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode

    kinds = "pdf,dicom,fhir"
    assert guarded("inspect", str(summarised.exam)) == 0
    assert guarded("export", str(summarised.folder), "--format", kinds, "--out", str(tmp_path / "out")) == 0
    assert guarded("send", str(exported), "--to", "dicom://STORE@127.0.0.1:9", "--retries", "0") < 0
