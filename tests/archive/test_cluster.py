"""The cluster: workers, nodes and the driver are killed for real, and the results are those of one machine."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dice_ce.archive.cluster import reason_of
from tests.archive.cluster import kill_worker, small_cluster
from tests.archive.material import (
    contents,
    make_long,
    make_share,
    opened_by_a_reader,
    receipts,
    run,
    save_network_bundle,
    start,
    wait_until,
    words,
)
from tests.archive.test_run import is_alive, readers_of, rows, versions

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def test_an_interrupted_run_goes_on_and_gives_what_one_machine_gives(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    make_long(share / "long.mp4")
    (share / "bad.mp4").write_bytes(b"not a video")
    os.mkfifo(share / "waits.mp4")
    # Without an address, Ray starts and ends with the run.
    engine = ("--engine", "ray", "--workers", 2, "--split-frames", 500)
    home = tmp_path / "home"
    home.mkdir()
    first = start(tmp_path, *engine, home=home)
    with opened_by_a_reader(share / "waits.mp4", first):
        readers = readers_of(share / "waits.mp4")
        wait_until(lambda: receipts(archive) > 0, "the first exam", first)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=300)
        wait_until(lambda: not any(map(is_alive, readers)), "the end of the workers")
    assert first.returncode == 130, said
    assert "interrupted; finished work is kept" in said
    assert "Traceback" not in said
    (share / "waits.mp4").unlink()
    before = versions(archive)

    second = start(tmp_path, *engine, home=home)
    _, said = second.communicate(timeout=600)
    assert second.returncode == 1, said
    assert "bad.mp4: not a readable video" in said
    assert {name: versions(archive)[name] for name in before} == before
    assert contents(home) == {}  # where Ray would leave a token
    assert run(tmp_path, out="fresh") == 1
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")


def test_a_network_that_diagnoses_says_the_same_on_a_cluster(tmp_path: Path) -> None:
    """Also where several threads look at the candidates, and another worker has opened the exam."""
    share = make_share(tmp_path, exams=1)
    make_long(share / "long.mp4")
    given = ("--bundle", save_network_bundle(tmp_path / "network"), "--tau-s", 0, "--tau-min", 0)
    engine = ("--engine", "ray", "--workers", 2, "--threads", 2, "--split-frames", 500)
    driver = start(tmp_path, *given, *engine, out="cluster")
    _, said = driver.communicate(timeout=600)
    assert driver.returncode == 0, said
    assert run(tmp_path, *given) == 0
    results = contents(tmp_path / "archive" / "results")
    assert json.loads(results["long/summary.json"])["counts"]["candidates"] == 900
    assert contents(tmp_path / "cluster" / "results") == results


faults = pytest.mark.skipif(not os.environ.get("DICE_CE_FAULTS"), reason="takes minutes: make archive-faults")


@faults
def test_killed_workers_nodes_and_drivers_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=3), tmp_path / "archive"
    make_long(share / "long.mp4")
    (share / "bad.mp4").write_bytes(b"not a video")
    os.mkfifo(share / "waits.mp4")  # comes last, being empty, and keeps whoever reads it
    with small_cluster(nodes=2) as cluster:
        engine = ("--engine", "ray", "--ray-address", cluster.address, "--split-frames", 500, "--retries", 3)
        first = start(tmp_path, *engine)
        pipe = share / "waits.mp4"
        # Kept open by us as well: whoever tries again would otherwise find an empty file in the moment of a change.
        kept_open = os.open(pipe, os.O_RDWR)
        victim = readers_of(pipe)[0]
        kill_worker(victim)
        victim = readers_of(pipe)[0]
        cluster.kill_node(cluster.node_of(victim))
        wait_until(lambda: not is_alive(victim), "the end of a worker whose node is gone")
        cluster.add_node()
        readers_of(pipe)
        wait_until(lambda: receipts(archive) >= 2, "some exams", first)
        readers = readers_of(pipe)
        first.kill()
        first.communicate(timeout=300)
        wait_until(lambda: not any(map(is_alive, readers)), "the end of the driver's workers")
        os.close(kept_open)
        (share / "waits.mp4").unlink()
        before = versions(archive)
        second = start(tmp_path, *engine)
        _, said = second.communicate(timeout=600)
    assert second.returncode == 1, said
    assert "bad.mp4: not a readable video" in said
    assert {name: versions(archive)[name] for name in before} == before
    states = {name: row.state for name, row in rows(archive).items() if name != "waits.mp4"}
    assert states.pop("bad.mp4") == "failed"
    assert set(states.values()) == {"done"}
    assert receipts(archive) == len(states)

    assert run(tmp_path, out="fresh") == 1
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")
    assert {p.name for p in archive.glob("frames/*")} == {p.name for p in (tmp_path / "fresh").glob("frames/*")}


@faults
def test_an_exam_that_fills_the_memory_of_a_node_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_share(tmp_path, exams=1)
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")  # Ray takes every worker for one that fills it
    driver = start(tmp_path, "--engine", "ray", "--retries", 1)
    _, said = driver.communicate(timeout=600)
    assert driver.returncode == 1
    assert "exam0.mp4: its worker died, 2 times (OutOfMemoryError)" in said


@faults
def test_an_interrupted_run_leaves_no_work_on_the_cluster(tmp_path: Path) -> None:
    share = make_share(tmp_path, exams=1)
    os.mkfifo(share / "waits.mp4")
    with small_cluster(nodes=1) as cluster:
        driver = start(tmp_path, "--engine", "ray", "--ray-address", cluster.address)
        with opened_by_a_reader(share / "waits.mp4", driver):
            readers = readers_of(share / "waits.mp4")
            driver.send_signal(signal.SIGINT)
            _, said = driver.communicate(timeout=300)
            wait_until(lambda: not any(map(is_alive, readers)), "the end of the workers")
    assert driver.returncode == 130, said


@faults
def test_a_cluster_that_is_gone_is_no_exams_fault(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=3), tmp_path / "archive"
    os.mkfifo(share / "waits.mp4")
    with small_cluster(nodes=1) as cluster:
        address = cluster.address
        driver = start(tmp_path, "--engine", "ray", "--ray-address", address)
        with opened_by_a_reader(share / "waits.mp4", driver):
            wait_until(lambda: receipts(archive) == 3, "the other exams", driver)
            cluster.kill_head()
            _, said = driver.communicate(timeout=300)
    assert driver.returncode == 1
    assert f"error: --ray-address {address}: the cluster is gone" in said
    assert "Traceback" not in said
    states = {name: row.state for name, row in rows(archive).items()}
    assert states == dict.fromkeys(("exam0.mp4", "exam1.mp4", "exam2.mp4"), "done") | {"waits.mp4": "waiting"}


@faults
def test_machines_without_the_program_end_the_run_not_the_exams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_share(tmp_path, exams=3)
    (tmp_path / "other" / "dice_ce").mkdir(parents=True)  # found before the one that is installed
    (tmp_path / "other" / "dice_ce" / "__init__.py").write_text("raise ModuleNotFoundError('No module named dice_ce')")
    mine = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    with small_cluster(nodes=1) as cluster:
        monkeypatch.setenv("PYTHONPATH", mine)
        driver = start(tmp_path, "--engine", "ray", "--ray-address", cluster.address)
        _, said = driver.communicate(timeout=300)
    assert driver.returncode == 1
    assert "install the same version everywhere" in said
    assert {row.state for row in rows(tmp_path / "archive").values()} == {"waiting"}


def test_rays_client_that_is_not_installed_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("grpc") is not None:
        pytest.skip("Ray's client is installed here")
    make_share(tmp_path, exams=1)
    assert run(tmp_path, "--engine", "ray", "--ray-address", "ray://head:10001") == 1
    assert "--ray-address ray://head:10001: Ray's client is not installed" in capfd.readouterr().err


def test_the_reason_of_rays_own_errors_is_the_line_that_says_something() -> None:
    late = "Initialization failure from server:\nTraceback (most recent call last):\n  File x\nTimeoutError: too slow\n"
    assert reason_of(ConnectionAbortedError(late)) == "TimeoutError: too slow"
    assert reason_of(ConnectionError("no answer\nmore about it")) == "no answer"
    assert reason_of(ConnectionError()) == ""


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_share(tmp_path, exams=1)
    # Ray looks for clusters among all processes of the machine; those of others are none of this test's.
    alone = "import functools, ray._private.services as found; found.find_gcs_addresses = functools.cache(set)"
    run = f"{alone}; import dice_ce.cli; raise SystemExit(dice_ce.cli.main())"
    command = [sys.executable, "-c", run, *words(tmp_path, "--engine", "ray", "--ray-address", "auto")]
    environment = {**os.environ, "RAY_TMPDIR": str(tmp_path)}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert "--ray-address auto: no cluster there" in done.stderr
    assert "Traceback" not in done.stderr
