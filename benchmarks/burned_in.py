"""How well the time burned into the image is read: exams with overlays in the styles of common recorders.

    python benchmarks/burned_in.py                        # some minutes
    python benchmarks/burned_in.py --all --frames 2000    # hours
    python benchmarks/burned_in.py --style omom-like --frames 1000
    python benchmarks/burned_in.py --readers              # RapidOCR against Tesseract (Debian: tesseract-ocr)
    python benchmarks/burned_in.py --real DIR             # what is taken for text in real frames without any

An error is the distance of a frame's time to when it was taken. Styles and clocks: dice_ce/lab/simulator/overlays.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image as pillow  # noqa: N813

from dice_ce.deidentify.legible import is_legible
from dice_ce.errors import ClockError
from dice_ce.exam.burned_in import find_clock
from dice_ce.exam.codec import encode_image
from dice_ce.exam.ocr import Box, text_reader
from dice_ce.exam.open import open_exam
from dice_ce.exam.shown_time import parse_shown
from dice_ce.lab.simulator import ExamScript, build_scene, capsule_path, render
from dice_ce.lab.simulator.overlays import (
    NAME,
    STYLES,
    Line,
    Style,
    adaptive,
    hms,
    overlay,
    steady,
    with_gaps,
    write_overlaid,
)
from dice_ce.lab.simulator.scene import Field
from dice_ce.table import Table
from dice_ce.types import Doubles, Image

POOL, SMALL = 12, 160
"""Rendered images, played to and fro: what is behind the text hardly matters."""
EVENING = 23.9 * 3600
Clock = Callable[[int, int], Doubles]
CLOCKS: dict[str, Clock] = {
    "2 a second": lambda frames, seed: steady(frames, 2, 1000 * seed),
    "2 to 6 a second": lambda frames, seed: adaptive(frames, seed, 500),
    "2 to 6, gaps": lambda frames, seed: with_gaps(adaptive(frames, seed), seed),
    "one in 4 s": lambda frames, seed: steady(frames, 0.25, 60),
    "one in 7 s, gaps": lambda frames, seed: with_gaps(steady(frames, 1 / 7, 60), seed),
}
HARDEST = "2 to 6, gaps"
NIGHT: Clock = lambda frames, seed: with_gaps(adaptive(frames, seed, EVENING), seed)  # noqa: E731
SHOWS_DAY = ("omom-like", "player-like", "pillcam-day-like")


@cache
def pool(size: int, field: Field) -> list[Image]:
    """Render small and enlarge: sharpness behind the text does not matter, the sharp rim of the window does."""
    scene = build_scene(SMALL, 3, field)
    motion = capsule_path(ExamScript(frames=400, seed=3, exam_fps=2.0))
    place = np.abs(np.linspace(-1.02, 1.02, size))
    x, y = np.meshgrid(place, place)
    round_window, octagon = np.hypot(x, y) <= 1, (np.maximum(x, y) <= 1) & (x + y <= 1.55)
    window = (round_window if field == "round" else octagon)[:, :, None].astype(np.uint8)
    small = (pillow.fromarray(render(scene, motion.at(30 * i), i)) for i in range(POOL))
    margin = SMALL // 40  # the enlarged rim would be soft
    inner = (margin, margin, SMALL - margin, SMALL - margin)
    return [np.asarray(image.crop(inner).resize((size, size)), np.uint8) * window for image in small]


def cases(frames: int, is_all: bool, only: str = "") -> Iterator[tuple[Style, str, Doubles]]:
    """Every style with a capsule of changing rate that loses the signal, past midnight too; or with all clocks."""
    for number, style in enumerate(STYLES.values()):
        if only not in ("", style.name):
            continue
        for name in CLOCKS if is_all else (HARDEST,):
            yield style, name, CLOCKS[name](frames, number)
        if style.name in SHOWS_DAY if is_all else style.name == "omom-like":
            yield style, "midnight, gaps", NIGHT(frames, number)
    if not is_all and only in ("", "endocapsule-like"):
        yield STYLES["endocapsule-like"], "one in 7 s, gaps", CLOCKS["one in 7 s, gaps"](frames, 1)


def without_clock() -> dict[str, Style]:
    """Exams whose text is no running time of the exam."""
    plain = dataclasses.replace(STYLES["pillcam-like"], lines=(), has_logo=False)

    def showing(*lines: Line, write_time: Callable[[float], str] = hms) -> Style:
        return dataclasses.replace(plain, lines=lines, write_time=write_time)

    corner = Line("{time}", "top right")
    return {
        "no text": plain,
        "name and date": showing(Line(NAME, "top left"), Line("2021-03-14", "bottom left")),
        "a time that stands still": showing(corner, write_time=lambda seconds: "03:12:45"),
        "frame counter": showing(corner, write_time=lambda seconds: f"{int(seconds * 7):06d}"),
        "frame counter with signs": showing(
            corner, write_time=lambda seconds: f"00:{int(seconds) // 100 % 100:02d}:{int(seconds) % 100:02d}"
        ),
        "playback timecode": showing(corner, write_time=lambda seconds: f"{hms(seconds / 12)}:{int(seconds) % 25:02d}"),
        "hours and minutes only": showing(corner, write_time=lambda seconds: hms(seconds)[:5]),
        "temperature": showing(corner, write_time=lambda seconds: f"{36 + seconds % 3:.1f} C"),
    }


def measure(folder: Path, style: Style, seconds: Doubles) -> tuple[float, float, float, str]:
    """Return the share of frames within 1 s, the largest error, the seconds it took, and how it was made."""
    video = write_overlaid(folder / "exam.mp4", pool(style.canvas[1], style.field), style, seconds)
    with open_exam(video) as exam:
        began = time.perf_counter()
        clock = find_clock(exam)
        took = time.perf_counter() - began
    error = np.abs(np.array(clock.milliseconds) / 1000 - seconds)
    how = f"{clock.frames_read} read, {clock.misread} misread"
    return float((error < 1).mean()), float(error.max()), took, how


def run_styles(frames: int, is_all: bool, only: str) -> None:
    rows, within, total = [], 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for style, name, seconds in cases(frames, is_all, only):
            try:
                share, largest, took, how = measure(Path(folder), style, seconds)
                within += share * len(seconds)
                row = [style.name, name, f"{100 * share:.2f} %", f"{largest:.2f}", how, f"{took:.0f} s"]
            except ClockError as error:
                row = [style.name, name, "refused", "", str(error).partition(": ")[2][:70], ""]
            total += len(seconds)
            rows.append(row)
            print("  ".join(row), flush=True)
    columns = ["overlay", "frames", "within 1 s", "largest, s", "readings", "time"]
    print(Table.of(columns, rows).text())
    print(f"{total:,} frames of {len(rows)} exams: {100 * within / total:.2f} % within 1 s")


def run_refusals(frames: int) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, style in without_clock().items():
            try:
                _, _, _, how = measure(Path(folder), style, steady(min(frames, 80), 2))
                rows.append([name, f"TAKEN FOR A CLOCK: {how}"])
            except ClockError as error:
                rows.append([name, str(error).partition(": ")[2].rpartition(";")[0]])
    print(Table.of(["exam without a clock", "refused with"], rows).text())


def tesseract(image: Image, folder: Path) -> str:
    """Read a line, enlarged to the height that Tesseract wants."""
    (folder / "line.png").write_bytes(encode_image(np.ascontiguousarray(image.repeat(3, 0).repeat(3, 1)), ".png"))
    command = ["tesseract", str(folder / "line.png"), "-", "--psm", "7"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run_readers(lines: int) -> None:
    """Read the same crops of clocks, after compression, with both."""
    if shutil.which("tesseract") is None:
        raise SystemExit("tesseract is not installed; apt-get install tesseract-ocr")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for style in STYLES.values():
            seconds = steady(lines, 1 / 137, 100)
            video = write_overlaid(folder / "exam.mp4", pool(style.canvas[1], style.field), style, seconds)
            with open_exam(video, mask=False) as exam:
                images = [image for _, image in exam.read()]
            box = clock_box(style)
            crops = [image[box.slices] for image in images]
            truth = [parse_shown(style.write_time(second)) for second in seconds.tolist()]
            text_reader().read(crops[:1])
            began = time.perf_counter()
            ours = [parse_shown(text) for text, _ in text_reader().read(crops)]
            half = time.perf_counter()
            theirs = [parse_shown(tesseract(crop, folder)) for crop in crops]
            end = time.perf_counter()
            right = [sum(a == b for a, b in zip(read, truth, strict=True)) for read in (ours, theirs)]
            rows.append(
                [
                    style.name,
                    *(f"{100 * r / lines:.0f} %" for r in right),
                    f"{1000 * (half - began) / lines:.0f} ms",
                    f"{1000 * (end - half) / lines:.0f} ms",
                ]
            )
    print(
        Table.of(["overlay", "RapidOCR right", "Tesseract right", "RapidOCR a line", "Tesseract a line"], rows).text()
    )


def clock_box(style: Style) -> Box:
    """Where the clock stands: what differs between two times on an empty image."""
    empty = np.zeros((style.canvas[1], style.canvas[1], 3), np.uint8)
    alone = dataclasses.replace(
        style, lines=tuple(line for line in style.lines if "{time}" in line.text), has_logo=False
    )
    drawn = (overlay(empty, alone, 45296.0) != np.array(style.backdrop, np.uint8)).any(axis=2)
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    box = Box(int(columns[0]), int(rows[0]), int(columns[-1] - columns[0]) + 1, int(rows[-1] - rows[0]) + 1)
    return box.padded(6, 3, style.canvas)


def run_real(folder: Path, count: int) -> None:
    """Count what would pass for legible text in real frames without any: covers and refusals for nothing."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".png"))
    chosen = np.random.default_rng(0).choice(len(files), min(count, len(files)), replace=False)
    lines = legible = 0
    for number in chosen.tolist():
        found = text_reader().find(np.asarray(pillow.open(files[number]).convert("RGB"), np.uint8))
        lines += len(found)
        legible += sum(is_legible(line) for line in found)
    print(f"{len(chosen)} frames: {lines} lines found, {legible} legible")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--all", action="store_true", help="every style with every clock")
    parser.add_argument("--style", default="", choices=["", *STYLES], help="only this one")
    parser.add_argument("--readers", action="store_true")
    parser.add_argument("--refusals", action="store_true", help="only exams without a clock")
    parser.add_argument("--real", type=Path, metavar="DIR", help="count false alarms on real frames without text")
    options = parser.parse_args()
    if options.readers:
        run_readers(20)
    elif options.real:
        run_real(options.real, 60)
    elif options.refusals:
        run_refusals(options.frames)
    else:
        run_styles(options.frames, options.all, options.style)
        if not options.style:
            run_refusals(options.frames)
