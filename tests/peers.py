"""Programs that tests meet for real, such as a browser: skipped where they are missing, unless they must be there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

CHROMIUM = Path("/usr/bin/chromium")
MOTO = Path(__file__).parents[1] / ".peers" / "moto" / "bin" / "moto_server"
"""An S3 server, in an environment of its own: its dependencies contradict ours."""


def miss(what: str) -> NoReturn:
    """Skip a test for want of a peer; in `.ci/run`, which installs them all, that is a failure."""
    if os.environ.get("DICE_CE_PEERS") == "required":
        pytest.fail(f"{what}, which DICE_CE_PEERS=required asks for")
    pytest.skip(what)


def program(name: str, package: str) -> str:
    """Find a program, or miss it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        miss(f"{name} is not installed (Debian package {package})")
    return found


def run(name: str, package: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program and return what it says."""
    return subprocess.run([program(name, package), *map(str, arguments)], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Orthanc:
    """A PACS of its own, on this machine only."""

    dicom_port: int
    http_port: int
    title: str = "ORTHANC"

    @property
    def web(self) -> str:
        """Address of its DICOMweb service."""
        return f"http://127.0.0.1:{self.http_port}/dicom-web"

    @property
    def dicom(self) -> str:
        """Address for C-STORE."""
        return f"dicom://{self.title}@127.0.0.1:{self.dicom_port}"


DICOMWEB_PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def orthanc(folder: Path, **settings: object) -> Iterator[Orthanc]:
    """Start an Orthanc, wait until it says that it has started, and end it."""
    executable = program("Orthanc", "orthanc")
    if not DICOMWEB_PLUGIN.exists():
        miss("the DICOMweb plugin of Orthanc is not installed (Debian package orthanc-dicomweb)")
    peer = Orthanc(free_port(), free_port())
    folder.mkdir(parents=True, exist_ok=True)
    configuration = {
        "Name": "test",
        "StorageDirectory": str(folder / "storage"),
        "IndexDirectory": str(folder / "storage"),
        "Plugins": [str(DICOMWEB_PLUGIN)],
        "HttpPort": peer.http_port,
        "DicomPort": peer.dicom_port,
        "DicomAet": peer.title,
        "DicomCheckCalledAet": True,
        "RemoteAccessAllowed": False,
        "AuthenticationEnabled": False,
        "DicomAlwaysAllowStore": True,
        "DicomWeb": {"Enable": True, "Root": "/dicom-web/"},
        **settings,
    }
    (folder / "orthanc.json").write_text(json.dumps(configuration))
    process = subprocess.Popen(
        [executable, str(folder / "orthanc.json")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said: list[str] = []
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        for line in process.stderr:
            said.append(line)
            if "Orthanc has started" in line:
                break
        else:
            pytest.fail(f"Orthanc did not start: {''.join(said[-5:])}")
        drain.start()
        yield peer
    finally:
        process.terminate()
        process.wait()
        if drain.ident is not None:
            drain.join()
        process.stderr.close()


def postgres_programs() -> Path:
    """Folder of PostgreSQL's programs, the newest that Debian has installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        miss("PostgreSQL is not installed (Debian: postgresql)")
    return found[-1].parent
