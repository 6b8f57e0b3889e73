"""Exams that lie elsewhere: staged within bounds from an S3 server and an SFTP server that really run."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dice_ce.archive.items import Item
from dice_ce.archive.remote import BLOCK, staged
from dice_ce.archive.sources import find_exams
from dice_ce.cli import main
from dice_ce.errors import InputError, StoreError
from tests.archive.material import contents, make_share, run, wait_until
from tests.peers import MOTO, free_port, miss

pytest.importorskip("fsspec")


def results_from(folder: Path, source: str, *more: str) -> dict[str, bytes]:
    given = ["--bundle", str(folder / "bundle"), "--exam-fps", "1", "--workers", "1", "--patience", "5"]
    scratch = ["--scratch", str(folder / "scratch")]
    assert main(["archive", "run", source, "--out", str(folder / "remote"), *given, *scratch, *more]) == 0
    return contents(folder / "remote" / "results")


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 server on this machine; gives its address."""
    if not MOTO.exists():
        miss("an S3 server (moto) is not installed beside the tests")
    port = free_port()
    server = subprocess.Popen(
        [MOTO, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    settings = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name, value in {**settings, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{address}/moto-api/", timeout=60):
                return True
        except OSError:
            return False

    try:
        wait_until(answers, "the S3 server")
        yield address
    finally:
        server.kill()
        server.wait()


def put(address: str, path: str, content: bytes = b"") -> None:
    kind = {"Content-Type": "application/octet-stream"}  # or the server takes it for a form
    request = urllib.request.Request(f"{address}/{path}", data=content, headers=kind, method="PUT")
    with urllib.request.urlopen(request, timeout=300):
        pass


def test_exams_in_an_s3_store_give_the_same_results_as_local_ones(tmp_path: Path, s3: str) -> None:
    share = make_share(tmp_path, exams=2)
    put(s3, "hospital")
    for file in share.rglob("*.mp4"):
        put(s3, f"hospital/{file.relative_to(share)}", file.read_bytes())
    assert run(tmp_path) == 0
    found = results_from(tmp_path, "s3://hospital")
    assert found == contents(tmp_path / "archive" / "results")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "remote").rglob("summary.json")}
    assert results_from(tmp_path, "s3://hospital") == found  # the store says that nothing has changed
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_store_that_cannot_be_listed_is_said_so_and_nothing_is_left_out(tmp_path: Path, s3: str) -> None:
    put(s3, "hospital")
    put(s3, "hospital/ward/exam.mp4", b"x")
    assert [item.place for item in find_exams(["s3://hospital"])] == ["s3://hospital/ward/exam.mp4"]
    with pytest.raises(InputError, match=r"nowhere: cannot be listed .*bucket"):
        find_exams(["s3://nowhere"])
    with pytest.raises(InputError, match="hospital/none: no such file or folder"):
        find_exams(["s3://hospital/none"])


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An SFTP server on this machine that serves tmp_path; gives its address."""
    asyncssh = pytest.importorskip("asyncssh")
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "home" / ".ssh").mkdir(parents=True, mode=0o700)
    key.write_private_key(str(tmp_path / "home" / ".ssh" / "id_ed25519"))
    key.write_public_key(str(tmp_path / "keys"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USER", "reader")
    loop = asyncio.new_event_loop()
    started = threading.Event()
    port: list[int] = []
    stop = asyncio.Event()

    async def serve() -> None:
        server = await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[key], authorized_client_keys=str(tmp_path / "keys"), sftp_factory=True
        )
        port.append(server.get_port())
        started.set()
        await stop.wait()
        server.close()
        await server.wait_closed()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(300)
    public = (tmp_path / "keys").read_text().strip()
    (tmp_path / "home" / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port[0]} {public}\n")
    yield f"sftp://127.0.0.1:{port[0]}"
    loop.call_soon_threadsafe(stop.set)
    thread.join(300)
    loop.close()


def test_exams_on_an_sftp_server_give_the_same_results_as_local_ones(tmp_path: Path, sftp: str) -> None:
    share = make_share(tmp_path, exams=2)
    assert run(tmp_path) == 0
    # Another process, because the client's threads outlive it; the server stays in this one.
    words = ["archive", "run", f"{sftp}{share}", "--out", tmp_path / "remote", "--bundle", tmp_path / "bundle"]
    words += ["--exam-fps", 1, "--workers", 1, "--scratch", tmp_path / "scratch", "--patience", 5]
    done = subprocess.run(
        [sys.executable, "-m", "dice_ce.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "remote" / "results") == contents(tmp_path / "archive" / "results")


def test_clock_files_and_folders_of_frames_are_staged_too(tmp_path: Path) -> None:
    from tests.material import numbered_folder

    share = make_share(tmp_path, exams=1)
    (share / "p0" / "exam0.clock.csv").write_text("frame,seconds\n0,0\n59,590\n")
    numbered_folder(share / "frames", [f"f{number}.png" for number in range(12)])
    assert run(tmp_path) == 0
    assert results_from(tmp_path, f"file://{share}") == contents(tmp_path / "archive" / "results")


def items_of(folder: Path, sizes: list[int]) -> list[Item]:
    folder.mkdir()
    for number, size in enumerate(sizes):
        (folder / f"{number}.mp4").write_bytes(os.urandom(size))
    return find_exams([f"file://{folder}"])


def staged_bytes(scratch: Path) -> int:
    return sum(path.stat().st_size for path in scratch.rglob("*.mp4"))


def test_the_scratch_folder_stays_within_its_bounds_and_keeps_what_fits(tmp_path: Path) -> None:
    items, scratch = items_of(tmp_path / "far", [400, 400, 400]), tmp_path / "scratch"
    for item in items:
        with staged(item, scratch, 1000, lambda: None) as path:
            assert path.read_bytes() == Path(item.place.removeprefix("file://")).read_bytes()
            assert staged_bytes(scratch) <= 1000
    shutil.rmtree(tmp_path / "far")
    with staged(items[2], scratch, 1000, lambda: None) as path:  # still there
        assert path.stat().st_size == 400
    with pytest.raises(InputError, match="--scratch-size"), staged(items[0], scratch, 399, lambda: None):
        pass


def test_workers_read_a_staged_exam_together_and_are_not_taken_for_hung_while_it_is_fetched(tmp_path: Path) -> None:
    (item,), scratch = items_of(tmp_path / "far", [400]), tmp_path / "scratch"
    fetches, waits, reads = threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        assert fetches.wait(60)
        with staged(item, scratch, 1000, waits.set):
            reads.set()

    def fetching() -> None:
        fetches.set()
        assert waits.wait(60)

    thread = threading.Thread(target=second)
    thread.start()
    with staged(item, scratch, 1000, fetching):
        assert reads.wait(60)
    thread.join(60)
    assert staged_bytes(scratch) == 400


def test_an_exam_that_is_cut_short_on_the_way_is_not_staged(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "far", [2 * BLOCK])
    whole = Path(item.place.removeprefix("file://"))
    with (
        pytest.raises(StoreError, match="of 16,777,216 bytes came"),
        staged(item, tmp_path / "scratch", 4 * BLOCK, lambda: os.truncate(whole, BLOCK)),
    ):
        pass
    assert staged_bytes(tmp_path / "scratch") == 0


def test_an_exam_waits_for_room_rather_than_exceed_it(tmp_path: Path) -> None:
    items, scratch = items_of(tmp_path / "far", [600, 600]), tmp_path / "scratch"
    waits, done = threading.Event(), threading.Event()

    def second() -> None:
        with staged(items[1], scratch, 1000, waits.set):
            done.set()

    with staged(items[0], scratch, 1000, lambda: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
        assert not done.is_set()
        assert staged_bytes(scratch) == 600
    assert done.wait(60)
    thread.join(60)
    assert staged_bytes(scratch) == 600
