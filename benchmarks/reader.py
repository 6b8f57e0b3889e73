"""How long a reader waits: for a random frame, for the next one, for a decision, for the worklist.

    python benchmarks/reader.py [--frames 30000] [--exams 5000] [--work FOLDER]

A real server process is asked over HTTP, one request after the other, as fast as it answers; a person is slower, which
leaves the server more time to fetch ahead. The video holds simulated frames again and again, with keyframes where x264
puts them unless told otherwise: at changes of scene, and every 250 frames.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import av
import numpy as np

from dice_ce.exam.open import open_exam
from dice_ce.exam.readers import open_source
from dice_ce.files import cache_root
from dice_ce.lab.simulator import simulate
from dice_ce.method.bundle import load_bundle
from dice_ce.method.pipeline import summarize
from dice_ce.progress import ProgressBar

RENDERED = 300
"""Simulated frames that a long video repeats."""
SIDE = 512


def long_video(path: Path, frames: int) -> Path:
    """Write a video of so many frames, once."""
    if path.exists():
        return path
    short = path.with_name("short.mp4")
    if not short.exists():
        with ProgressBar("rendering") as bar:
            simulate(short, frames=RENDERED, size=SIDE, progress=bar)
    with open_exam(short, mask=False) as exam:
        images = [av.VideoFrame.from_ndarray(image, format="rgb24") for _, image in exam.read()]
    draft = path.with_suffix(".part.mp4")
    with av.open(str(draft), "w") as container, ProgressBar("writing") as bar:
        stream = container.add_stream("libx264", rate=25, options={"preset": "veryfast", "g": "250"})
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        for i in range(frames):
            image = images[i % RENDERED if i // RENDERED % 2 == 0 else RENDERED - 1 - i % RENDERED]
            image.pts = i
            container.mux(stream.encode(image))
            bar(i + 1, frames)
        container.mux(stream.encode(None))
    draft.rename(path)
    return path


def many_results(folder: Path, exams: int) -> Path:
    """Write the results of so many exams: one real summary under other names and digests."""
    source = folder.parent / "short.mp4"
    folder.mkdir(parents=True, exist_ok=True)
    with open_exam(source) as exam:
        text = summarize(exam, bundle=load_bundle(None)).to_json()
        digest, name = exam.digest, exam.id
    for number in range(exams):
        target = folder / f"exam{number:05d}" / "summary.json"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            other = text.replace(digest, f"{number:064x}").replace(f'"id": "{name}"', f'"id": "exam{number:05d}"')
            target.write_text(other)
    return folder


class Visitor:
    """A browser, as far as requests go."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        self._headers: dict[str, str] = {}
        self._headers["Cookie"] = self._answer("GET", f"/?{parts.query}")[1].split(";")[0]
        self._headers["X-CSRF-Token"] = self.get("/api/session")["csrf"]

    def _answer(self, method: str, path: str, body: bytes | None = None) -> tuple[bytes, str]:
        kind = {"Content-Type": "application/json"} if body else {}
        self._connection.request(method, path, body, {**self._headers, **kind})
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 400:
            raise SystemExit(f"{path}: {response.status} {content[:200]!r}")
        return content, response.headers.get("set-cookie", "")

    def image(self, path: str) -> None:
        """Fetch something that is not looked at."""
        self._answer("GET", path)

    def get(self, path: str) -> dict[str, str]:
        """Fetch JSON."""
        answer: dict[str, str] = json.loads(self._answer("GET", path)[0])
        return answer

    def act(self, exam: str, version: int, action: dict[str, object]) -> None:
        """Post a decision."""
        body = {"expected_version": version, "key": str(uuid.uuid4()), "action": action}
        self._answer("POST", f"/api/exams/{exam}/events", json.dumps(body).encode())

    def first_exam(self) -> str:
        """Id of the first row of the worklist."""
        return str(self.get("/api/worklist")["rows"][0]["id"])  # type: ignore[index]


@contextmanager
def serving(results: Path, work: Path, name: str) -> Iterator[tuple[Visitor, float]]:
    """Run a server; gives a visitor, and how long it took to start."""
    words = [sys.executable, "-m", "dice_ce.cli", "read", str(results), "--no-browser", "--json", "--port", "0"]
    words += ["--database", str(work / name)]
    begun = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("}"):
        lines.append(process.stdout.readline())
    try:
        yield Visitor(json.loads("".join(lines))["address"]), time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait()


def timed(name: str, requests: Sequence[Callable[[], None]]) -> str:
    """Make all requests and say how long they took."""
    taken = []
    for request in requests:
        begun = time.perf_counter()
        request()
        taken.append(1000 * (time.perf_counter() - begun))
    median, late = np.percentile(taken, [50, 95])
    return f"| {name} | {len(taken)} | {median:.1f} | {late:.1f} |"


def frames_table(video: Path, work: Path, count: int) -> Iterator[str]:
    """Measure frames and decisions of one long exam."""
    draw = random.Random(0)
    with serving(video, work, f"frames-{os.getpid()}.sqlite") as (me, _):
        exam = me.first_exam()
        frames = int(me.get(f"/api/exams/{exam}")["frames"])
        keys = len(open_source(video).keyframes)
        exam_facts = f"{frames:,} frames, {SIDE}x{SIDE}, {keys:,} keyframes"
        yield f"\n| one exam of {exam_facts} | requests | median, ms | 95 %, ms |"
        yield "|---|---|---|---|"

        def show(frame: int) -> Callable[[], None]:
            return partial(me.image, f"/api/exams/{exam}/frames/{frame}")

        yield timed("a random frame", [show(draw.randrange(frames)) for _ in range(count)])
        steps = [show(start + i) for start in draw.sample(range(frames - 100), count // 30) for i in range(31)]
        yield timed("the next frame", [step for i, step in enumerate(steps) if i % 31 or step()])
        steps = [show(start - i) for start in draw.sample(range(100, frames), count // 30) for i in range(31)]
        yield timed("the frame before", [step for i, step in enumerate(steps) if i % 31 or step()])
        strips = [draw.randrange(frames - 1000) for _ in range(20)]
        paths = [f"/api/exams/{exam}/strip?frames={','.join(str(one + 7 * i) for i in range(24))}" for one in strips]
        yield timed("a strip of 24 frames", [partial(me.image, path) for path in paths])
        adding = [{"kind": "add", "frame": i, "label": "polyp"} for i in range(100)]
        decisions = [partial(me.act, exam, i, action) for i, action in enumerate(adding)]
        yield timed("a decision, stored for good", decisions)
        begun = time.perf_counter()  # last, because it goes on in the background and would slow down the rest
        while me.get(f"/api/exams/{exam}/timeline")["colour_state"] == "working":
            time.sleep(1)
        yield f"\nColours of the whole exam, in the background, once: {time.perf_counter() - begun:.0f} s"


def worklist_table(results: Path, work: Path, exams: int, count: int) -> Iterator[str]:
    """Measure the worklist."""
    database = f"worklist-{os.getpid()}.sqlite"
    with serving(results, work, database) as (_, first):
        pass
    with serving(results, work, database) as (me, again):
        yield f"Start with {exams:,} results: {first:.1f} s the first time, {again:.1f} s afterwards\n"
        yield f"| worklist of {exams:,} exams | requests | median, ms | 95 %, ms |"
        yield "|---|---|---|---|"
        for name, query in {
            "first page": "",
            "last page, sorted by findings": f"page={exams // 50}&sort=findings&order=desc",
            "search": "search=123",
            "with a kind of finding": "label=polyp",
        }.items():
            path = f"/api/worklist?{query}"
            yield timed(name, [partial(me.image, path)] * count)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=30_000)
    parser.add_argument("--exams", type=int, default=5_000)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--work", type=Path, default=cache_root() / "benchmarks" / "reader")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    video = long_video(options.work / f"long{options.frames}.mp4", options.frames)
    results = many_results(options.work / f"results{options.exams}", options.exams)
    for line in worklist_table(results, options.work, options.exams, options.requests // 3):
        print(line, flush=True)
    for line in frames_table(video, options.work, options.requests):
        print(line, flush=True)


if __name__ == "__main__":
    main()
