"""The cluster: workers, nodes and the driver are killed for real, and the results are those of one machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.archive.cluster import kill_worker, small_cluster
from tests.archive.material import contents, make_long, make_share, opened_by_a_reader, run, wait_until, words
from tests.archive.test_run import is_alive, readers_of, rows, versions

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def test_results_are_those_of_one_machine(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    make_long(share / "long.mp4")
    (share / "bad.mp4").write_bytes(b"not a video")
    command = [sys.executable, "-m", "dice_ce.cli", *words(tmp_path, "--engine", "ray", "--split-frames", 500)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "bad.mp4: not a readable video" in done.stderr
    assert run(tmp_path, out="fresh") == 1
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")


faults = pytest.mark.skipif(not os.environ.get("DICE_CE_FAULTS"), reason="takes minutes: make archive-faults")


@faults
def test_killed_workers_nodes_and_drivers_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=3), tmp_path / "archive"
    make_long(share / "long.mp4")
    (share / "bad.mp4").write_bytes(b"not a video")
    os.mkfifo(share / "waits.mp4")  # comes last, being empty, and keeps whoever reads it
    with small_cluster(nodes=2) as cluster:
        engine = ("--engine", "ray", "--ray-address", cluster.address, "--split-frames", 500, "--retries", 3)
        command = [sys.executable, "-m", "dice_ce.cli", *words(tmp_path, *engine)]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
        wait_until(lambda: len(list(archive.glob("receipts/*/*.json"))) >= 2, "some exams")
        readers = readers_of(pipe)
        first.kill()
        first.wait()
        wait_until(lambda: not any(map(is_alive, readers)), "the end of the driver's workers")
        os.close(kept_open)
        (share / "waits.mp4").unlink()
        before = versions(archive)
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 1, second.stderr
    assert "bad.mp4: not a readable video" in second.stderr
    assert {name: versions(archive)[name] for name in before} == before
    states = {name: row.state for name, row in rows(archive).items() if name != "waits.mp4"}
    assert states.pop("bad.mp4") == "failed"
    assert set(states.values()) == {"done"}
    assert len(list(archive.glob("receipts/*/*.json"))) == len(states)

    assert run(tmp_path, out="fresh") == 1
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")
    assert {p.name for p in archive.glob("frames/*")} == {p.name for p in (tmp_path / "fresh").glob("frames/*")}


@faults
def test_ctrl_c_on_a_cluster_stops_cleanly(tmp_path: Path) -> None:
    share = make_share(tmp_path, exams=1)
    os.mkfifo(share / "waits.mp4")
    # Without an address, Ray starts and ends with the run.
    command = [sys.executable, "-m", "dice_ce.cli", *words(tmp_path, "--engine", "ray", "--workers", 2)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with opened_by_a_reader(share / "waits.mp4", driver):
        readers = readers_of(share / "waits.mp4")
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=300)
        wait_until(lambda: not any(map(is_alive, readers)), "the end of the workers")
    assert driver.returncode == 130
    assert "interrupted; finished work is kept" in said
    assert "Traceback" not in said


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_share(tmp_path, exams=1)
    command = [sys.executable, "-m", "dice_ce.cli", *words(tmp_path, "--engine", "ray", "--ray-address", "auto")]
    environment = {**os.environ, "RAY_TMPDIR": str(tmp_path)}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 1
    assert "--ray-address auto: no cluster there" in done.stderr
    assert "Traceback" not in done.stderr
