"""Archives of tiny exams, and what tests look at in them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dice_ce.cli import main
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import load_bundle, save_bundle
from dice_ce.method.diagnoser import NetworkDiagnoser
from dice_ce.taxonomy import Taxonomy
from tests.material import write_tiny_encoder, write_video
from tests.method.test_pipeline import colour_frames, save_colour_bundle

LIMIT = 300.0
"""Seconds after which something that a test waits for will not come any more."""


def make_share(folder: Path, exams: int = 3, frames: int = 60) -> Path:
    """Write a bundle, and a share with exams of different content in folders of their own."""
    save_colour_bundle(folder / "bundle")
    images = [frame[::2, ::2] for frame in colour_frames()]
    for number in range(exams):
        place = folder / "share" / f"p{number}"
        place.mkdir(parents=True)
        begin = (40 + 7 * number) % (len(images) - frames)
        write_video(place / f"exam{number}.mp4", images[begin : begin + frames], options={"g": "20"})
    return folder / "share"


def save_network_bundle(folder: Path) -> Path:
    """Write a copy of the bundle beside it whose diagnoser is a network of its own."""
    colours = load_bundle(folder.parent / "bundle")
    network = OnnxEncoder.open(write_tiny_encoder(folder.with_suffix(".onnx"), size=16, scale=0.05))
    save_bundle(
        folder,
        name="network",
        taxonomy=Taxonomy("cells", (*map(str, range(network.dim - 1)), "normal")),
        encoder=colours.encoder,
        selector=colours.selector,
        diagnoser=NetworkDiagnoser((network,)),
        profiles=colours.profiles,
        card="",
    )
    return folder


def make_long(path: Path, frames: int = 900) -> Path:
    """Write an exam of several segments."""
    images = [frame[::2, ::2] for frame in colour_frames()]
    return write_video(path, (images * (1 + frames // len(images)))[:frames], options={"g": "20"})


def words(folder: Path, *more: object, out: str = "archive") -> list[str]:
    """The command that runs the archive of `make_share`."""
    given = ("archive", "run", folder / "share", "--out", folder / out, "--bundle", folder / "bundle", "--exam-fps", 1)
    return [str(word) for word in (*given, "--patience", 60, "--workers", 1, *more)]


def run(folder: Path, *more: object, out: str = "archive") -> int:
    return main(words(folder, *more, out=out))


def start(folder: Path, *more: object, out: str = "archive", home: Path | None = None) -> subprocess.Popen[str]:
    """Start a run in a process of its own."""
    command = [sys.executable, "-m", "dice_ce.cli", *words(folder, *more, out=out)]
    environment = {**os.environ, "HOME": str(home)} if home else None
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wait_until(happens: Callable[[], bool], what: str, driver: subprocess.Popen[str] | None = None) -> None:
    """Wait for an event, in vain once the driver has ended; a limit, because a test that never ends says nothing."""
    end = time.monotonic() + LIMIT
    while not happens():
        if driver is not None and driver.poll() is not None:
            raise AssertionError(f"{what}: the driver ended with {driver.returncode}: {driver.communicate()[1]}")
        assert time.monotonic() < end, f"waited {LIMIT:.0f} s in vain: {what}"
        time.sleep(0.02)


def receipts(archive: Path) -> int:
    """How many exams are done."""
    return len(list(archive.glob("receipts/*/*.json")))


@contextlib.contextmanager
def opened_by_a_reader(pipe: Path, driver: subprocess.Popen[str]) -> Iterator[None]:
    """Wait until somebody reads a named pipe, and keep them waiting for its content."""
    descriptor: list[int] = []

    def has_reader() -> bool:
        try:
            descriptor.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return True
        except OSError:
            return False

    wait_until(has_reader, f"a reader of {pipe.name}", driver)
    try:
        yield
    finally:
        os.close(descriptor[0])
