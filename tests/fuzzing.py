"""The fuzzer: thousands of damaged inputs through the real command; `make fuzz`, and a short run of it in the tests.

    python -m tests.fuzzing --inputs 2000 --seed 0            all kinds of inputs in turn
    python -m tests.fuzzing --seed 0 --only 1234 --keep DIR   one of them again, with everything it left

An input must end with exit code 0, 1 or 2, in time, without a traceback or a signal; where it fails, with an error that
is one line. It must leave the original as it was, and whole results or none. Every input runs in a process of its own,
forked from one that has imported everything but started no thread, so that a crash can be told and costs nothing else.
"""

from __future__ import annotations

import os

# Before numpy and onnxruntime are imported: with threads of theirs in this process, forks of it could hang.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"}

import argparse
import contextlib
import copy
import csv
import hashlib
import io
import json
import random
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CPU_SECONDS, WALL_SECONDS = 30, 300
"""What an input may take; the second only ends what sleeps for ever, so that a busy machine changes nothing."""
MEMORY = 6 * 2**30
"""Bytes of address space; a file that declares petabytes must not get them."""
TOGETHER = 2
"""Processes at once."""

Words = list[str]
Chance = random.Random


# --- damage --------------------------------------------------------------------------------------------------------

EXTREME = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 2**64 - 1)


def flip_bits(data: bytearray, chance: Chance) -> None:
    for _ in range(chance.choice((1, 2, 5, 20, 100))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def truncate(data: bytearray, chance: Chance) -> None:
    del data[chance.randrange(len(data)) :]


def delete_chunk(data: bytearray, chance: Chance) -> None:
    start, stop = _chunk(data, chance)
    del data[start:stop]


def repeat_chunk(data: bytearray, chance: Chance) -> None:
    start, stop = _chunk(data, chance)
    data[start:start] = data[start:stop] * chance.choice((1, 2, 20))


def zero_chunk(data: bytearray, chance: Chance) -> None:
    start, stop = _chunk(data, chance)
    data[start:stop] = bytes(stop - start)


def noise_chunk(data: bytearray, chance: Chance) -> None:
    start, stop = _chunk(data, chance)
    data[start:stop] = chance.randbytes(stop - start)


def swap_chunks(data: bytearray, chance: Chance) -> None:
    start, stop = _chunk(data, chance)
    moved = bytes(data[start:stop])
    del data[start:stop]
    place = chance.randrange(len(data) + 1)
    data[place:place] = moved


def extreme_number(data: bytearray, chance: Chance) -> None:
    """Put a number that is hardly ever right where a header is likely: near the ends or after a tag."""
    tags = (b"moov", b"stts", b"stsz", b"stsc", b"stco", b"mdhd", b"tkhd", b"avcC", b"elst", b"strh", b"strf", b"idx1")
    tags += (b"avih", b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\xff\xc0", b"IHDR", b"mvhd", b"stsd", b"dref")
    found = [place for tag in tags if (place := data.find(tag)) >= 0]
    near = chance.choice(found) + chance.randrange(60) if found and chance.random() < 0.8 else chance.randrange(512)
    size = chance.choice((1, 2, 4, 8))
    place = min(near, max(0, len(data) - size))
    order = chance.choice("<>")
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[size]
    data[place : place + size] = struct.pack(order + code, chance.choice(EXTREME) & (256**size - 1))


def nothing_left(data: bytearray, chance: Chance) -> None:
    data[:] = b"" if chance.random() < 0.5 else chance.randbytes(chance.choice((1, 4, 100, 10_000)))


def append_noise(data: bytearray, chance: Chance) -> None:
    data += chance.randbytes(chance.choice((1, 100, 10_000)))


BINARY = (
    *(flip_bits, flip_bits, flip_bits, truncate, delete_chunk, repeat_chunk, zero_chunk, noise_chunk, swap_chunks),
    *(extreme_number, extreme_number, extreme_number, nothing_left, append_noise),
)


def _chunk(data: bytearray, chance: Chance) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + chance.choice((1, 4, 16, 100, 1000, 10_000)))


def damage(content: bytes, chance: Chance) -> bytes:
    """Damage bytes in one to three ways."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if data:
            chance.choice(BINARY)(data, chance)
    return bytes(data)


CELLS = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e400",
        "1e-400",
        "9" * 400,
        "0." + "9" * 5000,
        "1/0",
        "1/3",
        "²",
        "٣",
    ),
    *("00:00:61", "-00:00:01", "99999999:00:00", "=1+1", "'", '"', '""', "\x00", "a\x00b", "\ud800", "../../..", "/"),
    *(
        "x" * 300,
        "x" * 5000,
        "x" * 200_000,
        "\u202e",
        "normal",
        "ULCER",
        "|",
        "||",
        ".",
        "..",
        "~",
        "con",
        "0x10",
        "1_0",
    ),
)


def damage_table(text: str, chance: Chance) -> bytes:
    """Damage a CSV as spreadsheets, people and disks do."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(chance.choice((1, 1, 2, 3))):
        kind = chance.randrange(9)
        row = chance.choice(rows) if rows else []
        if kind <= 3 and row:
            row[chance.randrange(len(row))] = chance.choice(CELLS)
        elif kind == 4 and row:
            del row[chance.randrange(len(row))]
        elif kind == 5 and rows:
            column = chance.randrange(len(rows[0]))
            for cells in rows:
                del cells[column : column + 1]
        elif kind == 6 and rows:
            rows.insert(chance.randrange(len(rows)), list(row))
        elif kind == 7 and rows:
            del rows[chance.randrange(len(rows))]
        elif rows:
            rows[0], rows[-1] = rows[-1], rows[0]
    between = chance.choice((",",) * 8 + (";", "\t", " "))
    written = chance.choice(("\n",) * 8 + ("\r\n", "\r", "\u2028")).join(between.join(cells) for cells in rows)
    encoding = chance.choice(("utf-8",) * 12 + ("utf-8-sig", "utf-16", "latin-1", "cp1252"))
    data = written.encode(encoding, errors="replace" if encoding in ("latin-1", "cp1252") else "surrogatepass")
    return damage(data, chance) if data and chance.random() < 0.3 else data


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1e308, -1e308, 0.5, float("nan"), float("inf")),
    *("", "x", "nan", "\x00", "\ud800", "normal", "x" * 10_000, [], [[]], {}, {"": None}, [None], list(range(1000))),
)


def damage_json(content: Any, chance: Chance) -> bytes:
    """Put wrong types, numbers and names into a JSON document, or take something away."""
    if chance.random() < 0.04:
        return b"[" * 100_000 if chance.random() < 0.5 else b'{"a":' * 50_000
    content = json.loads(json.dumps(content))
    for _ in range(chance.choice((1, 1, 2, 3))):
        nodes = [node for node in _nodes(content) if node]
        if not nodes:
            break
        node = chance.choice(nodes)
        key = chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
        action = chance.randrange(6)
        if action == 0:
            del node[key]
        elif action == 1 and isinstance(node, dict):
            node[chance.choice(("", "x", "file", "name"))] = copy.deepcopy(node[key])
        elif action == 2 and isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        else:
            node[key] = copy.deepcopy(chance.choice(VALUES))
    data = json.dumps(content).encode()
    return damage(data, chance) if chance.random() < 0.2 else data


def _nodes(content: Any) -> Iterator[Any]:
    if isinstance(content, dict | list):
        yield content
        for value in content.values() if isinstance(content, dict) else content:
            yield from _nodes(value)


# --- what is damaged -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """Undamaged material, made once, from which damaged inputs are made."""

    folder: Path

    @property
    def bundle(self) -> Path:
        """A tiny bundle."""
        return self.folder / "bundle"

    @property
    def results(self) -> Path:
        """What `summarize` wrote about one exam."""
        return self.folder / "results" / "exam"

    @property
    def dataset(self) -> Path:
        """Two exams with findings and a table of frames."""
        return self.folder / "dataset"

    @property
    def cache(self) -> Path:
        """Features of one exam."""
        return self.folder / "cache"


def make_whole(folder: Path) -> Whole:
    """Make the undamaged material, in a process of its own because that starts threads."""
    whole = Whole(folder)
    child = os.fork()
    if child == 0:
        with _last_words():
            os.environ["DICE_CE_CACHE"] = str(whole.cache)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                _make_whole(whole)
            os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the fuzzer could not make its own material")
    return whole


def _make_whole(whole: Whole) -> None:
    from dice_ce.cli import main
    from tests.dicom_material import multiframe_object, video_object
    from tests.material import moving_dots, numbered_folder, write_video, zipped
    from tests.method.test_pipeline import COLOURS, save_colour_bundle

    save_colour_bundle(whole.bundle)
    chance = np.random.default_rng(0)
    colours = [COLOURS[label] for label in ("normal",) * 6 + ("ulcer",) * 6 + ("normal",) * 6 + ("polyp",) * 6]
    frames = [
        np.clip(np.array(colour) + chance.integers(-25, 25, (8, 8, 3)).repeat(8, 0).repeat(8, 1), 0, 255).astype(
            np.uint8
        )
        for colour in colours
    ]
    gop = {"g": "8", "bf": "2"}
    write_video(whole.folder / "exam.mp4", frames, options=gop)
    write_video(whole.folder / "h264.avi", frames, options={"g": "8"})
    write_video(whole.folder / "mpeg4.avi", frames, codec="mpeg4")
    write_video(whole.folder / "mjpeg.avi", frames, codec="mjpeg", pix_fmt="yuvj420p")
    write_video(whole.folder / "exam.mkv", frames, options=gop)
    video_object(whole.folder / "video.dcm", len(frames), images=frames, FrameTime="500")
    multiframe_object(whole.folder / "images.dcm", 6, kind="rle", FrameTimeVector=[0, 1, 2, 3, 4, 5])
    numbered_folder(whole.folder / "frames", [f"frame_{i}.{'png' if i % 3 else 'jpg'}" for i in range(8)])
    zipped(whole.folder / "frames", whole.folder / "stored.zip")
    with zipfile.ZipFile(whole.folder / "deflated.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((whole.folder / "frames").iterdir()):
            archive.write(file, file.name)
    out = str(whole.results.parent)
    assert not main(
        ["summarize", str(whole.folder / "exam.mp4"), "--out", out, "--bundle", str(whole.bundle), "--exam-fps", "1"]
    )
    whole.dataset.mkdir()
    for name in ("a", "b"):
        write_video(whole.dataset / f"{name}.mp4", moving_dots(8, size=64))
    (whole.dataset / "a.clock.csv").write_text(CLOCK)
    (whole.dataset / "exams.csv").write_text(EXAMS)
    (whole.dataset / "findings.csv").write_text(FINDINGS)
    shutil.copytree(whole.folder / "frames", whole.folder / "pool" / "frames")
    (whole.folder / "pool" / "frames.csv").write_text(FRAMES)


CLOCK = "frame,seconds\n0,0\n1,10\n2,20.5\n5,00:01:00\n7,00:02:00\n"
EXAMS = (
    "exam_id,patient_id,split,video,clock,exam_fps,exam_duration,exam_start,container_clock\n"
    "a,p1,train,a.mp4,a.clock.csv,,,,\nb,p2,test,b.mp4,,1/2,,5,\nexam,p3,test,b.mp4,,,00:02:00,,no\n"
)
FINDINGS = "exam_id,finding_id,seconds,label\na,1,12,ulcer\na,2,00:01:00,polyp\nb,1,3.5,ulcer\nexam,1,9,ulcer\n"
PREDICTIONS = "exam_id,seconds,label,frame,clock\na,12,ulcer,1,sidecar\nb,3,polyp,0,options\nexam,9,ulcer,3,\n"
FRAMES = "path,source,case,frame_number,label,split\n" + "".join(
    f"frames/frame_{i}.{'png' if i % 3 else 'jpg'},tiny,case{i // 2},{i},{'ulcer' if i % 2 else 'normal|polyp'},\n"
    for i in range(8)
)
EVENTS = {
    "videos": [
        {
            "video_id": "1",
            "events": [{"start": 0, "end": 9, "label": ["stomach"]}, {"start": 10, "end": 90, "label": []}],
        },
        {"video_id": "2", "events": [{"start": 3, "end": 30, "label": ["small intestine", "ulcer"]}]},
    ]
}


@dataclass(frozen=True)
class Case:
    """A damaged input in a folder of its own, and the command that is given it."""

    kind: str
    words: Words
    watched: tuple[Path, ...]
    """What the command must leave as it is."""


def _reading(path: Path, whole: Whole, room: Path, chance: Chance) -> Words:
    """Choose a command that reads an exam."""
    bundle = ["--bundle", str(whole.bundle)]
    return chance.choice(
        (
            ["inspect", str(path)],
            ["inspect", str(path), "--sheet", str(room / "out" / "sheet.png"), "--json"],
            ["summarize", str(path), "--out", str(room / "out"), *bundle],
            ["summarize", str(path), "--out", str(room / "out"), "--exam-duration", "8:00:00", *bundle],
            ["extract", str(path), "--encoder", str(whole.bundle / "tiny.onnx"), "--no-gate"],
            ["predict", str(path), "--out", str(room / "out" / "scores.csv"), "--exam-fps", "1", *bundle],
        )
    )


def _file(name: str) -> Callable[[Whole, Path, Chance], Case]:
    def make(whole: Whole, room: Path, chance: Chance) -> Case:
        odd = ("ex\udcff", "two\nlines", "x" * 250, "\x1b[31m", " ", "...", "-x", "~", "%s{0}", "é", "\u202e")
        path = room / (f"{chance.choice(odd)}.{name[-3:]}" if chance.random() < 0.1 else name)
        path.write_bytes(damage((whole.folder / name).read_bytes(), chance))
        return Case(name, _reading(path, whole, room, chance), (path,))

    return make


def _folder(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "frames"
    shutil.copytree(whole.folder / "frames", path)
    for file in chance.sample(sorted(path.iterdir()), chance.choice((1, 2, 8))):
        file.write_bytes(damage(file.read_bytes(), chance))
        if chance.random() < 0.2:
            name = chance.choice(
                (".jpg", "frame_\udcff.png", "frame_" + "9" * 200 + ".png", "²³.jpg", "-1.png", "x.PNG")
            )
            file.rename(path / name)
    return Case("folder", _reading(path, whole, room, chance), (path,))


def _clock(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "clock.csv"
    path.write_bytes(damage_table(CLOCK, chance))
    return Case("clock", ["inspect", str(whole.dataset / "a.mp4"), "--clock", str(path)], (path,))


def _bundle(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "bundle"
    shutil.copytree(whole.bundle, path)
    manifest = path / "bundle.json"
    facts = json.loads(manifest.read_text())
    if chance.random() < 0.6:
        manifest.write_bytes(damage_json(facts, chance))
    else:
        file = path / chance.choice(sorted(facts["files"]))
        file.write_bytes(damage(file.read_bytes(), chance))
        if chance.random() < 0.8:  # as someone would who wants it to be loaded
            facts["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
            manifest.write_text(json.dumps(facts))
    if chance.random() < 0.3:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for file in sorted(path.iterdir()):
                archive.write(file, file.name)
        path = room / "bundle.zip"
        path.write_bytes(damage(content.getvalue(), chance) if chance.random() < 0.5 else content.getvalue())
    exam, out = str(whole.folder / "mpeg4.avi"), str(room / "out")
    words = chance.choice(
        (
            ["bundle", "check", str(path)],
            ["bundle", "show", str(path), "--json"],
            ["bundle", "export", str(path), "--out", out],
            ["summarize", exam, "--out", out, "--bundle", str(path)],
        )
    )
    return Case("bundle", words, (path,))


def _summary(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "out" / "exam"
    shutil.copytree(whole.results, path)
    file = path / "summary.json"
    file.write_bytes(damage_json(json.loads(file.read_text()), chance))
    again = ["summarize", str(whole.folder / "exam.mp4"), "--out", str(path.parent), "--bundle", str(whole.bundle)]
    scored = ["evaluate", "--pred", str(path.parent), "--truth", str(whole.dataset), "--missing-as-empty"]
    return Case("summary", scored if chance.random() < 0.8 else again, (whole.dataset,))


def _exported(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "results"
    shutil.copytree(whole.results, path)
    file = chance.choice((path / "summary.json", path / "summary.json", *sorted((path / "keyframes").iterdir())))
    if file.suffix == ".json":
        file.write_bytes(damage_json(json.loads(file.read_text()), chance))
    else:
        file.write_bytes(damage(file.read_bytes(), chance))
    kind = chance.choice(("pdf", "dicom", "fhir"))
    return Case("export", ["export", str(path), "--format", kind, "--out", str(room / "out")], (path,))


def _dataset(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "dataset"
    shutil.copytree(whole.dataset, path)
    name, text = chance.choice((("exams.csv", EXAMS), ("findings.csv", FINDINGS)))
    (path / name).write_bytes(damage_table(text, chance))
    (room / "p.csv").write_text(PREDICTIONS)
    scored = ["evaluate", "--pred", str(room / "p.csv"), "--truth", str(path), "--json"]
    words = chance.choice((["data", "check", str(path)], scored, ["data", "split", str(path), "--force"]))
    return Case("dataset", words, () if "split" in words else (path,))


def _predictions(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "p.csv"
    path.write_bytes(damage_table(PREDICTIONS, chance))
    return Case("predictions", ["evaluate", "--pred", str(path), "--truth", str(whole.dataset)], (path,))


def _frame_table(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "pool"
    shutil.copytree(whole.folder / "pool", path)
    (path / "frames.csv").write_bytes(damage_table(FRAMES, chance))
    return Case(
        "frame table", ["data", "import", "pool", str(path), "--out", str(room / "out" / "frames.csv")], (path,)
    )


def _timelines(whole: Whole, room: Path, chance: Chance) -> Case:
    path = room / "events.json"
    path.write_bytes(damage_json(EVENTS, chance))
    return Case("timelines", ["data", "import", "galar", str(path), "--json"], (path,))


def _cached(whole: Whole, room: Path, chance: Chance) -> Case:
    shutil.copytree(whole.cache, room / "cache")
    files = [file for file in sorted((room / "cache").rglob("*")) if file.is_file() and file.stat().st_size]
    file = chance.choice(files)
    if file.suffix == ".json" and chance.random() < 0.7:
        file.write_bytes(damage_json(json.loads(file.read_text()), chance))
    else:
        file.write_bytes(damage(file.read_bytes(), chance))
    exam = whole.folder / "exam.mp4"
    words = ["summarize", str(exam), "--out", str(room / "out"), "--bundle", str(whole.bundle), "--exam-fps", "1"]
    return Case("cache", chance.choice((words, words, ["cache", "list"], ["cache", "clear"])), (exam,))


KINDS: tuple[Callable[[Whole, Path, Chance], Case], ...] = (
    *(_file("exam.mp4"), _file("mpeg4.avi"), _file("stored.zip"), _folder, _clock, _bundle, _summary, _dataset),
    *(_file("exam.mp4"), _file("mjpeg.avi"), _file("deflated.zip"), _predictions, _frame_table, _bundle, _cached),
    *(_file("h264.avi"), _file("exam.mkv"), _timelines, _clock, _dataset),
    *(_file("video.dcm"), _file("images.dcm"), _exported, _file("images.dcm")),
)


# --- running it ----------------------------------------------------------------------------------------------------


def run_case(case: Case, room: Path) -> int:
    """Run one command in a process of its own; return its process id."""
    child = os.fork()
    if child:
        return child
    with _last_words():
        os.setpriority(os.PRIO_PROCESS, 0, 10)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(room / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        os.environ["DICE_CE_CACHE"] = str(room / "cache")
        from dice_ce.cli import main

        try:
            code = main(case.words)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        sys.stdout.flush()
        os._exit(code)
    raise AssertionError("not reached")


@contextlib.contextmanager
def _last_words() -> Iterator[None]:
    """In a forked process, print what goes wrong and never return into the parent's code."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)


def judge(case: Case, room: Path, status: int, before: dict[Path, str]) -> list[str]:
    """List what an input did that it must not do."""
    said = (room / "stderr").read_text(errors="replace") if (room / "stderr").exists() else ""
    problems = []
    if os.WIFSIGNALED(status):
        problems.append(f"ended by {signal.Signals(os.WTERMSIG(status)).name}")
    elif (code := os.waitstatus_to_exitcode(status)) not in (0, 1, 2):
        problems.append(f"exit code {code}")
    elif code and "data check" not in " ".join(case.words) and "dice-ce: " not in said:
        problems.append(f"exit code {code} without a word")
    if "Traceback" in said or "Exception ignored" in said:
        problems.append(f"traceback: {said.strip().splitlines()[-1][:200]}")
    strange = [line for line in said.splitlines() if not re.match(r"dice-ce: |.* +[0-9]+ %  [0-9,]+/[0-9,]+ ", line)]
    if strange and not problems:
        problems.append(f"says more than an error in one line: {strange[0][:200]}")
    if before != _fingerprints(case.watched):
        problems.append("changed its input")
    left = [path.name for place in ("out", "cache") for path in (room / place).rglob(".part-*")]
    if left:
        problems.append(f"left {left[0]} behind")
    if case.words[0] == "summarize" and case.kind != "summary":
        problems += [problem for folder in (room / "out").glob("*") for problem in _incomplete(folder)]
    return problems


def _incomplete(folder: Path) -> Iterator[str]:
    """Tell what a folder of results lacks."""
    try:
        summary = json.loads((folder / "summary.json").read_text())
        with (folder / "findings.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        if len(rows) != len(summary["items"]) or not all((folder / row["keyframe"]).stat().st_size for row in rows):
            yield "keyframes or findings are not those of the summary"
        if not (folder / "report.html").read_text().rstrip().endswith("</html>"):
            yield "half a report"
    except (OSError, ValueError) as error:
        yield f"half a result: {error}"


def _fingerprints(places: tuple[Path, ...]) -> dict[Path, str]:
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def make_case(number: int, seed: int, whole: Whole, room: Path) -> Case:
    """Make the damaged input of this number; the same seed and number always give the same one."""
    return KINDS[number % len(KINDS)](whole, room, random.Random(f"{seed}/{number}"))


@dataclass
class Running:
    """A process at work on an input."""

    number: int
    case: Case
    room: Path
    before: dict[Path, str]
    deadline: float


def fuzz(numbers: list[int], seed: int, folder: Path, say: Callable[[str], None] = print) -> int:
    """Run the inputs of these numbers; return how many did what they must not do."""
    whole = make_whole(folder)
    import onnxruntime  # noqa: F401

    left, running, failures = list(reversed(numbers)), dict[int, Running](), 0
    counts, began = Counter[tuple[str, str]](), time.monotonic()
    while left or running:
        while left and len(running) < TOGETHER:
            number = left.pop()
            room = folder / f"{number:06d}"
            room.mkdir()
            case = make_case(number, seed, whole, room)
            before = _fingerprints(case.watched)
            running[run_case(case, room)] = Running(number, case, room, before, time.monotonic() + WALL_SECONDS)
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            for process, at_work in running.items():
                if time.monotonic() > at_work.deadline:
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.002)
            continue
        done = running.pop(child)
        problems = judge(done.case, done.room, status, done.before)
        outcome = "failure" if problems else ("read", "refused")[os.waitstatus_to_exitcode(status) > 0]
        counts[done.case.kind, outcome] += 1
        if problems:
            failures += 1
            say(f"input {done.number} ({done.case.kind}): {'; '.join(problems)}\n  dice-ce {' '.join(done.case.words)}")
        if len(numbers) > 1:
            shutil.rmtree(done.room, ignore_errors=True)
    for kind in sorted({kind for kind, _ in counts}):
        numbers_of = ", ".join(f"{counts[kind, outcome]} {outcome}" for outcome in ("read", "refused", "failure"))
        say(f"{kind:<14}{numbers_of}")
    minutes = (time.monotonic() - began) / 60
    say(f"{len(numbers)} damaged inputs, seed {seed}: {failures} failures, {minutes:.1f} minutes")
    return failures


def main() -> int:
    """Run the fuzzer from the command line."""
    parser = argparse.ArgumentParser(description="Give damaged inputs to dice-ce.")
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="run this one input again")
    parser.add_argument("--keep", type=Path, help="folder for everything that is made (default: a temporary one)")
    options = parser.parse_args()
    numbers = list(range(options.inputs)) if options.only is None else [options.only]
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dice-ce-fuzz-")))
        folder.mkdir(parents=True, exist_ok=True)
        return 1 if fuzz(numbers, options.seed, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
