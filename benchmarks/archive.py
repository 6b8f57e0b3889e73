"""What an archive costs: exams per hour against the ideal, overhead per exam, and the manifest at 1,000 to 100,000.

    python benchmarks/archive.py [--exams 20] [--frames 200] [--runs 2] [--no-ray] [--only throughput|manifest|ratios]
        [--data DATA]

Throughput is measured on simulated exams with the shipped bundle: every engine and number of workers in turn, several
times, in one run. The ideal of N workers is the time that one process needs for opening, features and summaries of all
exams, divided by N; nothing is subtracted. The manifest is measured with a stub in the place of the engine, which
answers at once without decoding anything: those figures are the driver's own.

`--only ratios` answers two questions in a few minutes on two quiet cores: whether a second worker halves the time, and
whether short exams take longer than their frames, which are those of one long exam that is made of the same packets.
With `--data DATA` they are real frames of Kvasir-Capsule, a patient per exam: how many contexts there are, and so how
often the diagnoser looks, depends on what is shown. On a busy machine only the CPU time that it prints means something.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import av
import cv2
import numpy as np

from dice_ce.archive.engine import Engine
from dice_ce.archive.items import FindingRow, Item, Limits, Outcome, Recipe, Result, Task
from dice_ce.archive.local import LocalEngine
from dice_ce.archive.manifest import Manifest, create_archive
from dice_ce.archive.run import Run, places_of
from dice_ce.archive.sources import find_exams
from dice_ce.archive.status import read_status
from dice_ce.datasets.pool import load_pool
from dice_ce.exam.open import open_exam
from dice_ce.features.extraction import extract
from dice_ce.files import CACHE_VARIABLE
from dice_ce.lab.simulator import simulate
from dice_ce.method.bundle import load_bundle
from dice_ce.method.pipeline import summarize
from dice_ce.outputs import write_outputs
from dice_ce.table import Table

SIZES = (1_000, 10_000, 100_000)
FINDING = FindingRow("ulcer", 0.9, 0.95, 0.5, "erosion", 100, 100.0, 90.0, 110.0, 5)


def make_exams(folder: Path, exams: int, frames: int) -> None:
    """Render exams of different content."""
    folder.mkdir()
    for seed in range(exams):
        simulate(folder / f"exam{seed:02d}.mp4", frames=frames, size=240, seed=seed)


def make_real_exams(folder: Path, data: Path, exams: int, frames: int) -> None:
    """Make videos of real frames, two per second as they were taken: as many patients as there are exams."""
    folder.mkdir()
    by_case = defaultdict(list)
    for frame in load_pool(data).frames:
        if frame.source == "KVASIR" and frame.case:
            by_case[frame.case].append(frame)
    long_enough = [case for case, found in sorted(by_case.items()) if len(found) >= frames]
    if len(long_enough) < exams:
        sys.exit(f"only {len(long_enough)} patients have {frames} frames; ask for fewer exams or frames")
    for place, case in enumerate(long_enough[:exams]):
        with av.open(str(folder / f"exam{place:02d}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=2)
            stream.width, stream.height, stream.pix_fmt, stream.gop_size = 336, 336, "yuv420p", 30
            for frame in sorted(by_case[case], key=lambda one: one.number or 0)[:frames]:
                image = np.asarray(cv2.imread(str(frame.path)))
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="bgr24")))
            container.mux(stream.encode())


def cpu_seconds() -> float:
    """CPU time of this process: what a busy machine does not change much."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def cpu_seconds_below() -> float:
    """CPU time of all processes that this one has started, and those that they have."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))  # with children that have ended
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(used[pid] for pid in below - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


class Counted:
    """An engine, with the CPU time of its processes, which is read before they are ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.seconds = engine, 0.0

    @property
    def name(self) -> str:
        """That of the engine."""
        return self._engine.name

    @property
    def capacity(self) -> int:
        """That of the engine."""
        return self._engine.capacity

    def submit(self, task: Task) -> None:
        """Pass it on."""
        self._engine.submit(task)

    def wait(self, seconds: float) -> Sequence[tuple[Task, Result]]:
        """Pass it on."""
        return self._engine.wait(seconds)

    def close(self) -> None:
        """Read what was used, then end it."""
        self.seconds = cpu_seconds_below()
        self._engine.close()


def by_hand(share: Path, work: Path) -> tuple[float, float]:
    """Read all exams one after the other in this process: what the frames themselves cost."""
    bundle = load_bundle()
    with tempfile.TemporaryDirectory(dir=work) as folder:
        os.environ[CACHE_VARIABLE] = f"{folder}/cache"
        began, used = time.perf_counter(), cpu_seconds()
        for path in sorted(share.glob("*.mp4")):
            with open_exam(path) as exam:
                extract(exam, bundle.encoder, workers=1)
                write_outputs(summarize(exam, bundle=bundle), exam, Path(folder) / "out")
        return time.perf_counter() - began, cpu_seconds() - used


def by_engine(share: Path, work: Path, start: Callable[[Limits], Engine]) -> tuple[float, float]:
    """Run an archive; starting the workers counts."""
    bundle = load_bundle()
    recipe = Recipe(None, bundle.digest, bundle.settings())
    with tempfile.TemporaryDirectory(dir=work) as folder:
        archive = Path(folder) / "archive"
        archive.mkdir()
        limits = Limits()
        places = places_of(archive, create_archive(archive), None, None, None)
        began, used = time.perf_counter(), cpu_seconds()
        engine = Counted(start(limits))
        ended = Run(Manifest(archive), engine, recipe, places, limits).go(find_exams([str(share)]))
        assert not ended.failed, ended.failed
        return time.perf_counter() - began, cpu_seconds() - used + engine.seconds


def ray_engine(nodes: int) -> Callable[[Limits], Engine]:
    """Start a cluster of nodes of one core each; its start counts, as that of the local workers does."""

    def start(limits: Limits) -> Engine:
        from dice_ce.archive.cluster import RayEngine

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster

        small = {"object_store_memory": 100 * 2**20}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, **small)

        class Own(RayEngine):
            def close(self) -> None:
                super().close()
                cluster.shutdown()

        return Own(cluster.address, None)

    return start


def measure_throughput(exams: int, frames: int, runs: int, with_ray: bool) -> None:
    """Compare every engine with the ideal, in turn and several times, because the machine's speed changes."""
    ways: dict[str, tuple[int, Callable[[Limits], Engine]]] = {
        f"local, {count} worker{'s' * (count > 1)}": (count, lambda limits, count=count: LocalEngine(count, limits))  # type: ignore[misc]
        for count in (1, 2)
    }
    if with_ray:
        ways |= {f"ray, {count} node{'s' * (count > 1)}": (count, ray_engine(count)) for count in (1, 2)}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        make_exams(work / "share", exams, frames)
        by_hand(work / "share", work)  # warms the disk cache
        hand: list[tuple[float, float]] = []
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(runs):
            hand.append(by_hand(work / "share", work))
            for name, (_, start) in ways.items():
                times[name].append(by_engine(work / "share", work, start))
    ideal, ideal_cpu = (statistics.median(values) for values in zip(*hand, strict=True))
    frame = f"{1000 * ideal / exams / frames:.1f} ms ({1000 * ideal_cpu / exams / frames:.1f} of CPU)"
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{exams} exams of {frames} frames, by hand in one process: {frame} per frame; median of {runs}; {load}")
    rows = []
    for name, (count, _) in ways.items():
        took, used = (statistics.median(values) for values in zip(*times[name], strict=True))
        speed = [name, f"{took:.1f}", f"{3600 * exams / took:,.0f}", f"{100 * ideal / count / took:.0f} %"]
        cpu = [f"{used:.1f}", f"{100 * ideal_cpu / used:.0f} %", f"{1000 * (used - ideal_cpu) / exams:.0f} ms"]
        rows.append([*speed, *cpu])
    header = [
        "engine",
        "seconds",
        "exams per hour",
        "of the ideal",
        "CPU seconds",
        "of the ideal's",
        "CPU more per exam",
    ]
    print(Table.of(header, rows).text(), flush=True)


def joined(parts: Sequence[Path], target: Path) -> None:
    """Put the packets of several videos into one, as they are."""
    with av.open(str(target), "w") as output:
        stream, begin = None, 0
        for part in parts:
            with av.open(str(part)) as video:
                source = video.streams.video[0]
                stream = stream or output.add_stream_from_template(source)
                packets = [packet for packet in video.demux(source) if packet.size]
                for packet in packets:
                    packet.pts, packet.dts = (packet.pts or 0) + begin, (packet.dts or 0) + begin
                    packet.stream = stream
                    output.mux(packet)
                begin = max((packet.pts or 0) + (packet.duration or 0) for packet in packets)


def measure_ratios(exams: int, frames: int, runs: int, data: Path | None) -> None:
    """Print both ratios, each of neighbouring runs, because the machine's speed changes."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        if data:
            make_real_exams(work / "short", data, exams, frames)
        else:
            make_exams(work / "short", exams, frames)
        (work / "long").mkdir()
        joined(sorted((work / "short").glob("*.mp4")), work / "long" / "exam.mp4")
        with open_exam(work / "long" / "exam.mp4") as exam:
            assert len(exam) == exams * frames, len(exam)
        times: list[tuple[float, float, float]] = []
        used: list[tuple[float, float, float]] = []
        for _ in range(runs):
            ways = (("short", 1), ("short", 2), ("long", 1))
            measured = [
                by_engine(work / name, work, lambda limits, count=count: LocalEngine(count, limits))  # type: ignore[misc]
                for name, count in ways
            ]
            (one, two, long), (one_cpu, two_cpu, long_cpu) = zip(*measured, strict=True)
            times.append((one, two, long))
            used.append((one_cpu, two_cpu, long_cpu))
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{exams} exams of {frames} frames; the start of workers counts; median of {runs}; {load}")
    for kind, values in (("", times), (" of CPU", used)):
        one, two, long = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"1 worker {one:.1f} s{kind}, 2 workers {two:.1f} s, one exam of all frames with 1 worker {long:.1f} s")
        print(
            f"{exams} short exams: {statistics.median(a / c for a, _, c in values):.2f} times as much as their frames"
        )
    print(f"a second worker: {statistics.median(a / b for a, b, _ in times):.2f} times as fast")


class StubEngine:
    """Answers at once, with three findings: for what the driver itself costs."""

    name, capacity = "stub", 64

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        """Keep it until asked."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> Sequence[tuple[Task, Result]]:
        """Call everything done."""
        tasks, self._tasks = self._tasks, []
        return [(task, _done(task)) for task in tasks]

    def close(self) -> None:
        """Nothing to end."""


def _done(task: Task) -> Outcome:
    digest = f"{int(Path(task.item.place).stem):064x}"
    facts = {"exam_id": task.item.name, "target": task.target, "place": task.item.place, "node": "stub"}
    return Outcome("done", "", digest, frames=30_000, decoded=30_000, findings=(FINDING,) * 3, seconds=300.0, **facts)  # type: ignore[arg-type]


def measure_manifest(exams: int) -> None:
    """Run the driver over as many exams as are asked for, then once more when all is done; print one line of JSON.

    CPU seconds stand beside the clock's: a busy machine changes them least.
    """
    items = [
        Item(f"/share/{number // 100}/{number}.mp4", str(number), "s", 10**9, "2026-01-01") for number in range(exams)
    ]
    bundle = load_bundle()
    recipe = Recipe(None, bundle.digest, bundle.settings())
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder)
        places = places_of(archive, create_archive(archive), None, None, None)
        for item in items:  # what the workers would write, without which an exam does not count as done
            (archive / "results" / item.name).mkdir(parents=True)
        for _ in range(2):
            manifest = Manifest(archive)
            began, used = time.perf_counter(), cpu_seconds()
            Run(manifest, StubEngine(), recipe, places, Limits()).go(items)
            times.append((time.perf_counter() - began, cpu_seconds() - used))
            manifest.close()
        began = time.perf_counter()
        read_status(archive)
        status = time.perf_counter() - began
        size = sum((archive / name).stat().st_size for name in ("manifest.sqlite", "exams.parquet", "findings.parquet"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = {"exams": exams, "first": times[0], "again": times[1], "status": status, "disk": size}
    print(json.dumps({**facts, "base": base * 1024, "peak": peak * 1024}))


def measure_manifests() -> None:
    """Measure each size in a process of its own, since memory is asked for."""
    rows = []
    for exams in SIZES:
        command = [sys.executable, __file__, "--manifest", str(exams)]
        facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        (first, first_cpu), (again, again_cpu) = facts["first"], facts["again"]
        rows.append([f"{exams:,}", f"{1000 * first / exams:.1f} ms", f"{1000 * first_cpu / exams:.2f} ms",
                     f"{again:.2f} s", f"{again_cpu:.2f} s",
                     f"{facts['status']:.2f} s", f"{facts['disk'] / 2**20:.1f} MB",
                     f"{facts['base'] / 2**20:.0f} MB", f"{facts['peak'] / 2**20:.0f} MB"])  # fmt: skip
    header = [
        "exams",
        "per exam",
        "of CPU",
        "run again",
        "of CPU",
        "status",
        "on disk",
        "driver before",
        "driver at most",
    ]
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"the manifest, with a stub in the place of decoding; {load}")
    print(Table.of(header, rows).text(), flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exams", type=int, default=20)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--data", type=Path, help="folder with labelled real frames, for --only ratios")
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--only", choices=("throughput", "manifest", "ratios"))
    parser.add_argument("--manifest", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.manifest:
        measure_manifest(options.manifest)
        return
    if options.only == "ratios":
        measure_ratios(options.exams, options.frames, options.runs, options.data)
        return
    if options.only != "throughput":
        measure_manifests()
    if options.only != "manifest":
        measure_throughput(options.exams, options.frames, options.runs, not options.no_ray)


if __name__ == "__main__":
    main()
