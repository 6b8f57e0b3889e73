"""Every exam ends in exactly one state; no work is done twice; results are those of `dice-ce summarize`."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dice_ce.archive.items import Item, Limits, Outcome, Recipe, Result, Task, Trouble
from dice_ce.archive.local import SUMS_THREADS, LocalEngine, sums_in_one_thread
from dice_ce.archive.manifest import Manifest, Row, create_archive, driver_lock
from dice_ce.archive.report import render
from dice_ce.archive.run import choose_targets, places_of
from dice_ce.archive.sources import find_exams
from dice_ce.archive.status import Status, query_archive, read_status
from dice_ce.archive.worker import perform, read_receipt
from dice_ce.cli import main
from dice_ce.cli.archive import stopped_by_signals
from dice_ce.errors import StoreError
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import load_bundle
from dice_ce.method.diagnoser import STRETCH
from dice_ce.settings import with_values
from dice_ce.types import Image
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
)
from tests.material import numbered_video, write_image, write_video, zipped
from tests.method.test_pipeline import save_colour_bundle
from tests.reader.browsing import open_chromium

pytest.importorskip("pyarrow")


def rows(archive: Path) -> dict[str, Row]:
    """Rows of the manifest by the name of the exam's file."""
    manifest = Manifest(archive, read_only=True)
    try:
        return {Path(row.place).name: row for row in manifest.rows()}
    finally:
        manifest.close()


def task_of(folder: Path, item: Item, limits: Limits, *, bundle: str = "bundle", **chosen: float) -> Task:
    """The task that reads an exam of `make_share`; some settings may differ from the bundle's."""
    (archive := folder / "archive").mkdir(exist_ok=True)
    loaded = load_bundle(str(folder / bundle))
    recipe = Recipe(str(folder / bundle), loaded.digest, with_values(loaded.settings(), chosen))
    return Task(item, recipe, places_of(archive, create_archive(archive), None, None, None), limits, item.name)


def versions(archive: Path) -> dict[str, int]:
    """When the summary of each exam with a receipt was written: a second time of the same bytes would show.

    Work is finished with its receipt; a run that ends between summary and receipt may write the summary again.
    """
    targets = [read_receipt(path).target for path in archive.glob("receipts/*/*.json")]
    return {target: (archive / "results" / target / "summary.json").stat().st_mtime_ns for target in targets}


def test_results_are_those_of_summarize_and_one_bad_exam_fails_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    share = make_share(tmp_path, exams=2)
    make_long(share / "long.mp4")
    (share / "bad.mp4").write_bytes(b"not a video")
    (share / "empty.mp4").touch()
    assert run(tmp_path, "--workers", 2, "--split-frames", 500) == 1
    said = capfd.readouterr()
    assert "5 exams found, 0 known, 3 done, 0 skipped, 2 failed" in said.out
    assert "bad.mp4: not a readable video" in said.err
    assert "empty.mp4: the file is empty" in said.err
    assert "Traceback" not in said.err
    states = {name: row.state for name, row in rows(tmp_path / "archive").items()}
    assert states == {
        "exam0.mp4": "done", "exam1.mp4": "done", "long.mp4": "done", "bad.mp4": "failed", "empty.mp4": "failed"
    }  # fmt: skip
    assert all("\n" not in row.reason for row in rows(tmp_path / "archive").values())

    exams = [share / "p0" / "exam0.mp4", share / "p1" / "exam1.mp4", share / "long.mp4"]
    for exam in exams:  # one at a time, because the command is part of the results
        given = [exam, "--out", tmp_path / "results", "--bundle", tmp_path / "bundle", "--exam-fps", 1]
        assert main(["summarize", *map(str, given)]) == 0
    assert contents(tmp_path / "archive" / "results") == contents(tmp_path / "results")


def test_what_is_done_is_not_done_again_unless_settings_or_bundle_change(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path), tmp_path / "archive"
    assert run(tmp_path) == 0
    first = versions(archive)
    assert run(tmp_path) == 0
    assert versions(archive) == first

    (share / "p3").mkdir()
    shutil.copy(make_long(tmp_path / "other.mp4", 90), share / "p3" / "exam3.mp4")
    assert run(tmp_path) == 0
    assert {name: when for name, when in versions(archive).items() if "exam3" not in name} == first

    before = contents(archive / "results")
    assert run(tmp_path, "--tau-min", 0.45) == 0
    changed = versions(archive)
    assert all(changed[name] != first[name] for name in first)
    assert contents(archive / "results") != before
    assert run(tmp_path) == 0  # back again: the results are those of these settings, not of the last ones
    assert contents(archive / "results") == before


def test_an_exam_that_moved_is_recognised_and_a_copy_is_skipped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    share, archive = make_share(tmp_path), tmp_path / "archive"
    assert run(tmp_path) == 0
    first = versions(archive)
    (share / "elsewhere").mkdir()
    (share / "p0" / "exam0.mp4").rename(share / "elsewhere" / "renamed.mp4")
    shutil.copy(share / "p1" / "exam1.mp4", share / "elsewhere" / "copy.mp4")
    capfd.readouterr()
    assert run(tmp_path) == 0
    assert "4 exams found, 2 known, 1 done, 1 skipped, 0 failed" in capfd.readouterr().out
    assert versions(archive) == first
    known = rows(archive)
    assert set(known) == {"renamed.mp4", "exam1.mp4", "exam2.mp4", "copy.mp4"}
    assert known["renamed.mp4"].target == "exam0"
    assert known["copy.mp4"].reason == f"has the same content as {share / 'p1' / 'exam1.mp4'}"
    assert run(tmp_path) == 0
    assert versions(archive) == first


def summaries(archive: Path) -> dict[str, str]:
    """Of which content each folder of results is, by the name of the exam's file."""
    return {
        name: json.loads((archive / "results" / row.target / "summary.json").read_text())["exam"]["digest"]
        for name, row in rows(archive).items()
        if row.state == "done"
    }


def test_results_are_those_of_the_content_whatever_was_at_a_place_before(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=1), tmp_path / "archive"
    exam, other = share / "p0" / "exam0.mp4", make_long(tmp_path / "other.mp4", 90).read_bytes()
    assert run(tmp_path) == 0
    first, before = exam.read_bytes(), contents(archive / "results")
    exam.write_bytes(other)
    assert run(tmp_path) == 0
    assert contents(archive / "results") != before
    _, answer = query_archive(archive, "select distinct content_digest from frames")
    assert answer == [(rows(archive)["exam0.mp4"].content_digest,)]
    exam.write_bytes(first)  # there is a receipt of it, but the results of the other one are in its folder
    assert run(tmp_path) == 0
    assert contents(archive / "results") == before


def test_exams_that_changed_names_keep_a_state_and_results_of_their_own(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path), tmp_path / "archive"
    places = [share / f"p{number}" / f"exam{number}.mp4" for number in range(3)]
    assert run(tmp_path) == 0
    one, other, _ = [place.read_bytes() for place in places]
    places[0].write_bytes(other)
    places[1].write_bytes(one)
    assert run(tmp_path, "--workers", 2) == 0
    assert {row.state for row in rows(archive).values()} == {"done"}
    assert summaries(archive) == {name: row.content_digest for name, row in rows(archive).items()}
    # One goes on to the next name, and something new comes in its place.
    places[2].write_bytes(one)
    places[1].write_bytes(make_long(tmp_path / "new.mp4", 90).read_bytes())
    assert run(tmp_path, "--workers", 2) == 0
    assert {row.state for row in rows(archive).values()} == {"done"}
    assert summaries(archive) == {name: row.content_digest for name, row in rows(archive).items()}
    assert run(tmp_path, out="fresh") == 0
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")


def test_a_copy_counts_once_its_original_has_become_another_exam(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=1), tmp_path / "archive"
    shutil.copy(share / "p0" / "exam0.mp4", share / "copy.mp4")
    assert run(tmp_path) == 0
    assert sorted(row.state for row in rows(archive).values()) == ["done", "skipped"]
    original = next(Path(row.place) for row in rows(archive).values() if row.state == "done")
    original.write_bytes(make_long(tmp_path / "other.mp4", 90).read_bytes())
    assert run(tmp_path, "--workers", 2) == 0
    assert [row.state for row in rows(archive).values()] == ["done", "done"]
    assert summaries(archive) == {name: row.content_digest for name, row in rows(archive).items()}


def test_an_exam_that_moved_under_other_settings_counts_once(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=1), tmp_path / "archive"
    assert run(tmp_path) == 0
    (archive / "results" / "exam0" / "notes.txt").write_text("of somebody else")
    (share / "p0" / "exam0.mp4").rename(share / "moved.mp4")
    assert run(tmp_path, "--tau-min", 0.45) == 0
    assert {name: row.state for name, row in rows(archive).items()} == {"moved.mp4": "done"}
    assert {path.parent.name for path in archive.glob("results/*/*")} == {"exam0", "moved"}
    assert [path.name for path in archive.glob("results/exam0/*")] == ["notes.txt"]


def test_exams_that_are_gone_without_results_are_forgotten(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    (share / "bad.mp4").write_bytes(b"not a video")
    assert run(tmp_path) == 1
    (share / "bad.mp4").unlink()
    (share / "p0" / "exam0.mp4").unlink()
    assert run(tmp_path) == 0
    assert {name: row.state for name, row in rows(archive).items()} == {"exam0.mp4": "done", "exam1.mp4": "done"}


def test_an_exam_whose_results_were_removed_is_read_again(tmp_path: Path) -> None:
    make_share(tmp_path, exams=2)
    archive = tmp_path / "archive"
    assert run(tmp_path) == 0
    before, written = contents(archive / "results"), versions(archive)
    shutil.rmtree(archive / "results" / "exam0")
    assert run(tmp_path) == 0
    assert contents(archive / "results") == before
    assert versions(archive)["exam1"] == written["exam1"]


def test_copies_that_are_found_at_once_count_once(tmp_path: Path) -> None:
    share = make_share(tmp_path, exams=1)
    for number in range(3):
        shutil.copy(share / "p0" / "exam0.mp4", share / f"copy{number}.mp4")
    assert run(tmp_path, "--workers", 2) == 0
    states = sorted(row.state for row in rows(tmp_path / "archive").values())
    assert states == ["done", "skipped", "skipped", "skipped"]
    assert len(list(tmp_path.glob("archive/results/**/summary.json"))) == 1
    _, answer = query_archive(tmp_path / "archive", "select count(distinct exam_id), count(*) from frames")
    assert answer == [(1, 60)]


def test_exams_of_one_name_do_not_share_a_folder() -> None:
    def item(place: str) -> Item:
        return Item(place, Path(place).stem, "", 0, "")

    items = [item(place) for place in ("/s/a/exam.mp4", "/s/b/exam.mp4", "/t/b/exam.mp4", "/s/b.mp4", "/s/other.mp4")]
    targets = choose_targets(items, {})
    assert targets["/s/other.mp4"] == "other"
    assert targets["/s/a/exam.mp4"] == "a/exam"
    assert len(set(targets.values())) == len(items)
    parts = [tuple(target.split("/")) for target in targets.values()]
    assert not any(one != other and other[: len(one)] == one for one in parts for other in parts)
    known = {place: Row(place, "exam", "", 0, "", target=target) for place, target in targets.items()}
    assert choose_targets(items, known) == targets


def test_a_clock_file_that_changes_means_new_work(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=1), tmp_path / "archive"
    clock = share / "p0" / "exam0.clock.csv"
    clock.write_text("frame,seconds\n0,0\n59,590\n")
    assert run(tmp_path) == 0
    before = contents(archive / "results")
    clock.write_text("frame,seconds\n0,0\n59,1180\n")
    assert run(tmp_path) == 0
    assert contents(archive / "results") != before


def test_the_time_in_the_image_is_read_as_summarize_reads_it(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("rapidocr")
    pytest.importorskip("PIL")
    from tests.exam.test_burned_in import CLOCK, steady, write_exam

    make_share(tmp_path, exams=0)
    (tmp_path / "share").mkdir()
    exam = write_exam(tmp_path / "share" / "exam.mp4", steady(60, 2, 3500), CLOCK)
    options = ["--bundle", str(tmp_path / "bundle"), "--clock", "burned-in"]
    engine = ["--workers", "1", "--cache", str(cache)]  # one cache for both: the images are read once
    assert main(["archive", "run", str(exam), "--out", str(tmp_path / "archive"), *engine, *options]) == 0
    assert rows(tmp_path / "archive")["exam.mp4"].is_exam_time
    assert main(["summarize", str(exam), "--out", str(tmp_path / "results"), *options]) == 0
    assert contents(tmp_path / "archive" / "results") == contents(tmp_path / "results")


# --- what one exam can do to the others -----------------------------------------------------------------------------


@pytest.mark.parametrize(("chosen", "wanted"), [(None, "1"), ("3", "3")])
def test_a_worker_adds_up_in_one_thread_unless_told_otherwise(
    chosen: str | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SUMS_THREADS, raising=False)
    if chosen is not None:
        monkeypatch.setenv(SUMS_THREADS, chosen)
    with sums_in_one_thread():
        told = subprocess.check_output([sys.executable, "-c", f"import os; print(os.environ['{SUMS_THREADS}'])"])
    assert told.decode().strip() == wanted
    assert os.environ.get(SUMS_THREADS) == chosen, "the driver's own surroundings stay as they were"


def test_an_exam_that_hangs_is_ended_and_hurts_only_itself(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    os.mkfifo(share / "hangs.mp4")  # opening it waits for a writer who never comes
    engine = LocalEngine(2, Limits(), retries=0)
    results: dict[str, Result] = {}
    try:
        for item in find_exams([str(share)]):  # a limit for each, since good ones may be slow on a busy machine
            engine.submit(task_of(tmp_path, item, Limits(stall_seconds=1 if "hangs" in item.name else 600)))
        while len(results) < 3:
            results |= {task.item.name: result for task, result in engine.wait(1.0)}
    finally:
        engine.close()
    assert {name: getattr(result, "state", "died") for name, result in results.items()} == {
        "exam0": "done", "exam1": "done", "hangs.mp4": "died"
    }  # fmt: skip

    options = ["--out", str(archive), "--bundle", str(tmp_path / "bundle"), "--stall-limit", "1", "--retries", "0"]
    assert main(["archive", "run", str(share / "hangs.mp4"), *options]) == 1
    assert "its worker died (no progress for too long)" in rows(archive)["hangs.mp4"].reason


def test_a_network_that_looks_at_many_candidates_is_not_taken_for_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog hears of every stretch of candidates, and a worker takes no more threads than it is given."""
    (item,) = find_exams([str(make_share(tmp_path, exams=1, frames=200))])
    save_network_bundle(tmp_path / "network")
    task = task_of(tmp_path, item, Limits(), bundle="network", tau_s=0.0)
    heard, looks, threads = threading.Event(), itertools.count(1), set[int]()
    encode = OnnxEncoder.encode

    def look(network: OnnxEncoder, batch: np.ndarray) -> np.ndarray:
        if len(batch) == 1 and network.input_size == 16:
            number = next(looks)
            threads.add(threading.get_ident())
            if number % STRETCH == 0:
                heard.clear()
            elif number % STRETCH == 1 and number > 1:
                assert heard.wait(60), f"nothing was heard while {number - 1} frames were looked at"
        return encode(network, batch)

    monkeypatch.setattr(OnnxEncoder, "encode", look)
    outcome = perform(task, heard.set)
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.reason) == ("done", "")
    assert next(looks) == 201
    assert len(threads) == 1


def test_a_crash_of_native_code_is_tried_again_then_reported_and_hurts_only_itself(tmp_path: Path) -> None:
    share = make_share(tmp_path, exams=2)
    os.mkfifo(share / "crashes.mp4")
    # Open for writing all the time: no reader ever comes to an end of the file, not even one that was idle already.
    kept_open = os.open(share / "crashes.mp4", os.O_RDWR)
    driver = start(tmp_path, "--workers", 2, "--retries", 1)
    for _ in range(2):
        (reader,) = readers_of(share / "crashes.mp4")
        os.kill(reader, signal.SIGSEGV)
        wait_until(lambda pid=reader: not is_alive(pid), "the end of the worker")  # type: ignore[misc]
    os.close(kept_open)
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == 1
    assert "crashes.mp4: its worker died, 2 times (SIGSEGV, a crash of native code)" in said
    assert [row.state for row in rows(tmp_path / "archive").values()].count("done") == 2


def readers_of(pipe: Path) -> list[int]:
    """Processes that have a pipe open, besides this one; there is at least one soon."""
    found: list[int] = []

    def look() -> bool:
        for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                if descriptor.samefile(pipe) and descriptor.parts[2] != str(os.getpid()):
                    found.append(int(descriptor.parts[2]))
        return bool(found)

    wait_until(look, f"a process that reads {pipe.name}")
    return found


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_an_exam_that_takes_too_much_memory_is_reported_and_hurts_only_itself(tmp_path: Path) -> None:
    import numpy as np

    from dice_ce.exam.codec import write_image

    share = make_share(tmp_path, exams=2)
    (share / "huge").mkdir()
    write_image(share / "huge" / "0.png", np.zeros((2400, 2400, 3), np.uint8))
    for number in range(1, 60):  # held in memory together while the field of view is looked for
        os.link(share / "huge" / "0.png", share / "huge" / f"{number}.png")
    assert run(tmp_path, "--workers", 1, "--memory", 0.7, "--retries", 0) == 1
    known = rows(tmp_path / "archive")
    assert known["huge"].state == "failed"
    assert "memory" in known["huge"].reason
    assert [row.state for row in known.values()].count("done") == 2


# --- interruptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["ctrl-c", "terminated", "killed"])
def test_an_interrupted_run_goes_on_where_it_stopped(how: signal.Signals, tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=3), tmp_path / "archive"
    os.mkfifo(share / "waits.mp4")  # the run cannot end before we have interrupted it
    driver = start(tmp_path, "--workers", 2)
    with opened_by_a_reader(share / "waits.mp4", driver):
        workers = readers_of(share / "waits.mp4")
        wait_until(lambda: receipts(archive) > 0, "the first exam", driver)
        driver.send_signal(how)
        _, said = driver.communicate(timeout=300)
        wait_until(lambda: not any(map(is_alive, workers)), "the end of the workers")
    if how != signal.SIGKILL:
        assert driver.returncode == 130
        assert "interrupted; finished work is kept" in said
        assert "Traceback" not in said
    done = versions(archive)
    (share / "waits.mp4").unlink()
    status = read_status(archive)
    assert not status.is_running
    assert status.counts["waiting"] >= 1
    assert run(tmp_path) == 0
    assert {name: versions(archive)[name] for name in done} == done
    assert run(tmp_path, out="fresh") == 0
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interruption_that_a_library_takes_for_an_error_stays_one(how: signal.Signals) -> None:
    def fail() -> None:
        try:
            os.kill(os.getpid(), how)
        except KeyboardInterrupt as interruption:
            raise StoreError("cannot be written; check the disk") from interruption

    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        fail()
    with pytest.raises(StoreError), stopped_by_signals():
        raise StoreError("cannot be written; check the disk")


def test_an_interruption_that_is_dropped_is_heeded_later() -> None:
    with stopped_by_signals() as heed:
        heed()
        with contextlib.suppress(KeyboardInterrupt):  # as where it comes in a destructor
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            heed()


def test_an_interrupted_run_does_not_wait_for_storage_that_is_away(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=1), tmp_path / "archive"
    os.mkfifo(share / "waits.mp4")
    driver = start(tmp_path, "--workers", 2, "--patience", 100_000)
    with opened_by_a_reader(share / "waits.mp4", driver):
        wait_until(lambda: receipts(archive) > 0, "the first exam", driver)
        archive.rename(tmp_path / "gone")
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=300)
    assert driver.returncode == 130
    assert "interrupted; finished work is kept" in said
    assert "Traceback" not in said
    assert not archive.exists()


def test_a_change_that_an_interrupt_cuts_short_ends_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    manifest = Manifest(tmp_path)
    change = manifest._change()
    change.__enter__()  # the interrupt comes here, before anything is changed
    manifest.close()
    del change
    gc.collect()
    assert complaints == []


def test_two_runs_do_not_work_on_one_archive(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_share(tmp_path, exams=1)
    assert run(tmp_path) == 0
    with driver_lock(tmp_path / "archive"):
        assert run(tmp_path) == 2
    assert "another run is working on this archive" in capfd.readouterr().err


def test_storage_that_goes_away_is_waited_for(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=3), tmp_path / "archive"
    os.mkfifo(share / "waits.mp4")
    driver = start(tmp_path, "--workers", 2)
    with opened_by_a_reader(share / "waits.mp4", driver):
        wait_until(lambda: receipts(archive) > 0, "the first exam", driver)
        archive.rename(tmp_path / "gone")
        archive.mkdir()  # as an empty mount point would be: nothing may be written into it
        (tmp_path / "bad").write_bytes(b"not a video")
        (tmp_path / "bad").replace(share / "waits.mp4")  # whoever tries it again shall not wait for ever
    comes_back = threading.Timer(3, lambda: (shutil.rmtree(archive), (tmp_path / "gone").rename(archive)))
    written_meanwhile = contents(archive)
    comes_back.start()
    _, said = driver.communicate(timeout=300)
    assert written_meanwhile == {}
    assert driver.returncode == 1, said
    assert [row.state for row in rows(archive).values()].count("done") == 3
    (share / "waits.mp4").unlink()
    assert run(tmp_path, out="fresh") == 0
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")


def test_the_driver_writes_nothing_where_the_archive_was(tmp_path: Path) -> None:
    (archive := tmp_path / "archive").mkdir()
    manifest = Manifest(archive)
    archive.rename(tmp_path / "gone")
    archive.mkdir()  # as an empty mount point would be
    with pytest.raises(StoreError, match="cannot be opened"):
        manifest.reopen()
    assert contents(archive) == {}
    archive.rmdir()
    (tmp_path / "gone").rename(archive)
    manifest.reopen()
    manifest.close()


def test_a_run_that_begins_while_the_share_is_away_goes_on_with_the_archive_when_it_comes_back(tmp_path: Path) -> None:
    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    assert run(tmp_path) == 0
    known = versions(archive)
    archive.rename(tmp_path / "gone")
    os.mkfifo(share / "waits.mp4")
    driver = start(tmp_path, "--workers", 2)
    with opened_by_a_reader(share / "waits.mp4", driver):
        wait_until(lambda: receipts(archive) > 0, "the first exam", driver)
        archive.rename(tmp_path / "under")
        (tmp_path / "gone").rename(archive)
        (tmp_path / "bad").write_bytes(b"not a video")
        (tmp_path / "bad").replace(share / "waits.mp4")
    told, said = driver.communicate(timeout=300)
    assert driver.returncode == 1, said
    assert "the archive has come back; beginning again with it" in said
    assert "3 exams found, 2 known, 0 done, 0 skipped, 1 failed" in told
    assert versions(archive) == known
    assert rows(archive)["waits.mp4"].state == "failed"


def test_what_is_written_in_the_moment_when_storage_goes_away_is_written_again(tmp_path: Path) -> None:
    share, archive, gone = make_share(tmp_path, exams=1), tmp_path / "archive", tmp_path / "gone"
    task = task_of(tmp_path, find_exams([str(share)])[0], Limits())

    def leave() -> None:
        if list(archive.glob("results/*/summary.json")):  # the rest is yet to be written
            archive.rename(gone)
            archive.mkdir()

    assert isinstance(perform(task, leave), Trouble)
    shutil.rmtree(archive)
    gone.rename(archive)
    outcome = perform(task)
    assert isinstance(outcome, Outcome)
    assert outcome.state == "done"
    written = [list(archive.glob(pattern)) for pattern in ("results/**/summary.json", "frames/*.parquet")]
    assert [receipts(archive), *map(len, written)] == [1, 1, 1]


BLOCK_READ = 2
"""How often a worker has said that it is alive when it has read the first frames of an exam, and not yet the last."""


def noisy_frames(count: int = 150) -> list[Image]:
    """Images that no codec makes small, so that nobody has read all of an exam after some of its frames."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (48, 48, 3), np.uint8).repeat(2, axis=0).repeat(2, axis=1) for _ in range(count)]


def write_folder(folder: Path, images: Sequence[Image]) -> Path:
    folder.mkdir()
    for number, image in enumerate(images):
        write_image(folder / f"{number:04d}.png", image)
    return folder


def fail_reading(path: Path) -> None:
    """Let every further read of an open file fail with EIO, as where a share has gone away.

    Its descriptor becomes one of this process's own memory, where nothing is at the addresses of a small file.
    """
    with open("/proc/self/mem", "rb") as nothing:
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if entry.readlink() == path:
                    os.dup2(nothing.fileno(), int(entry.name))


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    """Write other content of the same length into the file."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("hurt", [fail_reading, cut_off, overwrite])
@pytest.mark.parametrize("kind", ["mp4", "avi", "ts", "zip"])
def test_an_exam_whose_storage_fails_in_the_middle_is_read_again_not_called_damaged(
    kind: str, hurt: Callable[[Path], None], tmp_path: Path
) -> None:
    save_colour_bundle(tmp_path / "bundle")
    exam, images = tmp_path / f"exam.{kind}", noisy_frames()
    if kind == "zip":
        zipped(write_folder(tmp_path / "frames", images), exam)
    else:
        write_video(exam, images, options={"g": "20", "crf": "10", "bf": "0"})
    content = exam.read_bytes()
    task = task_of(tmp_path, find_exams([str(exam)])[0], Limits())
    steps = itertools.count()

    def half_way() -> None:
        if next(steps) == BLOCK_READ:
            hurt(exam)

    trouble = perform(task, half_way)
    assert isinstance(trouble, Trouble), trouble
    assert f"{exam}: reading broke off" in trouble.reason
    exam.write_bytes(content)
    outcome = perform(task)
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.frames, outcome.decoded) == ("done", len(images), len(images))


def test_a_frame_that_disappears_or_changes_while_its_folder_is_read_is_not_called_damaged(tmp_path: Path) -> None:
    save_colour_bundle(tmp_path / "bundle")
    images = noisy_frames()
    folder = write_folder(tmp_path / "exam", images)
    last = sorted(folder.iterdir())[-1]
    content = last.read_bytes()
    changes: dict[str, Callable[[Path], object]] = {
        "cannot be read": Path.unlink,
        "reading broke off": lambda path: path.write_bytes(content[:100]),
    }
    for said, hurt in changes.items():
        task = task_of(tmp_path, find_exams([str(folder)])[0], Limits())
        steps = itertools.count()
        trouble = perform(task, lambda: hurt(last) if next(steps) == BLOCK_READ else None)  # noqa: B023  called at once
        assert isinstance(trouble, Trouble), trouble
        assert f"{last}: {said}" in trouble.reason
        last.write_bytes(content)
    outcome = perform(task)
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.decoded) == ("done", len(images))


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of its own that is soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a full disk needs a file system of its own, and only root can mount one")
    yield folder  # type: ignore[misc]
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_storage_that_is_full_is_waited_for(tmp_path: Path, small_disk: Path) -> None:
    make_share(tmp_path, exams=3)
    archive, ballast = small_disk / "archive", small_disk / "ballast"
    assert run(tmp_path, out="fresh") == 0
    needed = sum(map(len, contents(tmp_path / "fresh").values()))
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - needed * 2 // 3))
    driver = start(tmp_path, out="disk/archive")
    assert driver.stderr is not None
    told = next(line for line in driver.stderr if "trying again" in line)
    assert "No space left on device" in told or "disk is full" in told
    ballast.unlink()
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == 0, said
    assert [row.state for row in rows(archive).values()] == ["done"] * 3
    assert contents(archive / "results") == contents(tmp_path / "fresh" / "results")


# --- tables ----------------------------------------------------------------------------------------------------------


def test_tables_status_and_report_tell_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet

    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    (share / "bad.mp4").write_bytes(b"<b>no</b> video")
    table = "exam_id,video,exam_date,exam_fps\n" + "".join(
        f"case-{number},p{number}/exam{number}.mp4,2026-0{number + 1}-15,1\n" for number in range(2)
    )
    (share / "exams.csv").write_text(table + "broken,bad.mp4,,\n")
    assert run(tmp_path) == 1
    summaries = [json.loads(path.read_text()) for path in sorted(archive.glob("results/*/summary.json"))]
    assert [summary["exam"]["id"] for summary in summaries] == ["case-0", "case-1"]
    exams = pyarrow.parquet.read_table(archive / "exams.parquet").to_pylist()
    assert [exam["state"] for exam in exams] == ["failed", "done", "done"]
    findings = pyarrow.parquet.read_table(archive / "findings.parquet").to_pylist()
    told = [(s["exam"]["id"], i["label"], i["keyframe"]["frame"]) for s in summaries for i in s["items"]]
    assert [(one["exam_id"], one["label"], one["frame"]) for one in findings] == told
    assert told
    capfd.readouterr()
    query = "select substr(date, 1, 7) as month, count(*) as n from findings group by 1 order by 1"
    assert main(["archive", "query", str(archive), query, "--json"]) == 0
    assert [row["month"] for row in json.loads(capfd.readouterr().out)] == ["2026-01", "2026-02"]
    assert main(["archive", "status", str(archive), "--json"]) == 0
    status = json.loads(capfd.readouterr().out)
    assert status["exams"] == {"total": 3, "waiting": 0, "done": 2, "failed": 1, "skipped": 0}
    assert sum(sum(found.values()) for found in status["findings"].values()) == len(told)
    assert main(["archive", "report", str(archive)]) == 0
    page = (archive / "report.html").read_text()
    assert "not a medical device" in page
    assert "not a readable video" in page
    assert main(["archive", "report", str(archive), "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text() == page


@pytest.mark.parametrize("width", [390, 1440])
def test_plots_of_the_report_can_be_read_on_a_narrow_screen(width: int) -> None:
    counts = {"waiting": 0, "done": 2, "failed": 0, "skipped": 0}
    status = Status(counts, 9, {"ulcer": {"2026-01": 3}}, (), None, False, 2, 60.0, 60.0)
    with open_chromium() as chromium:
        page = chromium.new_page(viewport={"width": width, "height": 900})
        page.set_content(render("archive", status, [4, 5], [1.0, 2.0]))
        plots = page.evaluate("[...document.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect().width)")
        assert len(plots) == 2
        assert min(plots) >= 640  # drawn for 720: smaller, its words would be too small
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_no_word_of_the_reports_headings_is_broken() -> None:
    counts = {"waiting": 0, "done": 0, "failed": 1, "skipped": 0}
    failed = Row("a.mp4", "a", "", 0, "", state="failed", reason=f"a.mp4: {'not a readable video, ' * 20}")
    status = Status(counts, 0, {}, (failed,), None, False, 0, 0.0, 0.0)
    with open_chromium() as chromium:
        page = chromium.new_page(viewport={"width": 390, "height": 900})
        page.set_content(render("archive", status, [], []))
        heights = page.evaluate("[...document.querySelectorAll('th')].map(th => th.clientHeight)")
        assert len(heights) == 4
        assert max(heights) < 50, "one line each"


def test_a_query_reads_nothing_but_the_archive(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_share(tmp_path, exams=1)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    assert run(tmp_path) == 0
    for query in (f"select * from '{tmp_path / 'secret.csv'}'", f"copy exams to '{tmp_path / 'x.csv'}'", "selekt"):
        assert main(["archive", "query", str(tmp_path / "archive"), query]) == 1
    assert not (tmp_path / "x.csv").exists()
    assert capfd.readouterr().err.count("dice-ce: error: query: ") == 3


def test_tables_are_whole_files_at_every_moment_of_a_run(tmp_path: Path) -> None:
    import pyarrow.parquet

    share, archive = make_share(tmp_path, exams=2), tmp_path / "archive"
    os.mkfifo(share / "waits.mp4")
    driver = start(tmp_path, "--workers", 1)
    with opened_by_a_reader(share / "waits.mp4", driver):
        table = pyarrow.parquet.read_table(archive / "exams.parquet")
        assert table.num_rows == 3
        assert read_status(archive).is_running
        driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=300)
    assert driver.returncode == 130
    assert pyarrow.parquet.read_table(archive / "exams.parquet").num_rows == 3


# --- wrong usage -----------------------------------------------------------------------------------------------------


def test_wrong_sources_are_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    share = make_share(tmp_path, exams=1)
    (tmp_path / "nothing").mkdir()
    (tmp_path / "twice.csv").write_text(f"exam_id,video\na,{share}/x.mp4\na,{share}/y.mp4\n")
    (tmp_path / "up.csv").write_text(f"exam_id,video\n../a,{share}/x.mp4\n")
    for source, said in (
        (tmp_path / "gone", "no such file or folder"),
        (tmp_path / "nothing", "no exam was found there"),
        (tmp_path / "*.mkv", "no exam was found there"),
        (tmp_path / "twice.csv", "stands in line 2, too"),
        (tmp_path / "up.csv", "cannot be the name of a folder"),
        ("nowhere://host/exams", "cannot be reached"),
        ("sftp://me:secret@host/exams", "a password in an address"),
    ):
        assert main(["archive", "run", str(source), "--out", str(tmp_path / "out")]) in (1, 2)
        told = capfd.readouterr().err
        assert said in told
        assert "secret" not in told
        assert told.count("\n") == 1
    assert main(["archive", "status", str(share)]) == 1
    assert "is no archive" in capfd.readouterr().err
    assert main(["archive", "run", str(share), "--out", str(share / "p0")]) == 2  # holds something else
    assert not (share / "p0" / "archive.json").exists()


def test_a_pattern_and_a_file_are_sources_too(tmp_path: Path) -> None:
    share = make_share(tmp_path, exams=3)
    given = [str(share / "p[01]" / "*.mp4"), str(share / "p2" / "exam2.mp4"), str(share / "p0")]
    options = ["--bundle", str(tmp_path / "bundle"), "--exam-fps", "1"]
    assert main(["archive", "run", *given, "--out", str(tmp_path / "archive"), *options]) == 0
    assert [row.state for row in rows(tmp_path / "archive").values()] == ["done"] * 3


def test_a_shipped_bundle_may_be_named_with_its_fast_selector(tmp_path: Path) -> None:
    """Its name is no path, so workers elsewhere find their own copy of it."""
    (tmp_path / "exams").mkdir()
    numbered_video(tmp_path / "exams" / "one.mp4", 12)
    arguments = ["archive", "run", str(tmp_path / "exams"), "--out", str(tmp_path / "out"), "--workers", "1"]
    assert main([*arguments, "--exam-fps", "2", "--bundle", "default@fast"]) == 0
    (summary,) = (tmp_path / "out").rglob("summary.json")
    assert json.loads(summary.read_text())["provenance"]["bundle"]["name"] == "default@fast"
