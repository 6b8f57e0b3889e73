"""The same input gives the same bytes: many times over, while the machine is busy and its memory full of litter."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

import dice_ce
from dice_ce.cli import main
from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import open_exam
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.extraction import extract
from dice_ce.lab.simulator import ExamScript, build_scene, capsule_path, render, simulate
from dice_ce.lab.simulator.write import _write_video
from tests.lab.test_compose import composed, some_timelines, write_pool
from tests.load import busy_machine, litter_memory
from tests.material import moving_dots, write_video
from tests.method.test_pipeline import colour_frames, save_colour_bundle

BUSY = 3


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


def repeat(times: int, make: Callable[[int], dict[str, bytes]]) -> None:
    """Call `make` so often, and name every file that is not always the same."""
    with busy_machine(BUSY):
        first = make(0)
        assert first
        for attempt in range(1, times):
            litter_memory(attempt)
            again = make(attempt)
            assert sorted(again) == sorted(first)
            differing = [name for name in first if again[name] != first[name]]
            assert not differing, f"attempt {attempt} gave other bytes"


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Let this thread, and those it starts, use so many cores at most."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(allowed)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


limits_cores = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot limit cores")


def test_simulated_exams(tmp_path: Path) -> None:
    def make(attempt: int) -> dict[str, bytes]:
        folder = tmp_path / str(attempt)
        simulate(folder / "exam.mp4", frames=30, size=96, lesions=1)
        return contents(folder)

    repeat(8, make)


# Widths of 6 and 11 macroblocks: encoders work on eight or sixteen at a time, and err in what is left over.
@pytest.mark.parametrize(("size", "times"), [(96, 80), (176, 20)])
def test_encoding_of_simulated_exams(size: int, times: int) -> None:
    scene, path = build_scene(size), capsule_path(ExamScript(frames=40))
    images = [render(scene, path.at(frame), frame) for frame in range(len(path))]

    def make(attempt: int) -> dict[str, bytes]:
        file = io.BytesIO()
        _write_video(file, images, len(images), size, 25, 250, "libx264", None)
        return {"exam.mp4": file.getvalue()}

    repeat(times, make)


def test_no_simulated_exam_is_encoded_with_what_reads_unwritten_memory(tmp_path: Path) -> None:
    """Which shows in the bytes on some processors only, so the encoder's own account of its settings is asked."""
    content = simulate(tmp_path / "exam.mp4", frames=3, size=96).video.read_bytes()
    assert b"x264 - core" in content
    assert b" mbtree=0" in content


def test_composed_exams(tmp_path: Path) -> None:
    data = write_pool(tmp_path / "data")
    (data / "events.json").write_text(json.dumps({"videos": some_timelines()}))
    workers = cycle((1, 2, 3))

    def make(attempt: int) -> dict[str, bytes]:
        return contents(composed(data, tmp_path / str(attempt), frames_per_exam=240, exams=1, workers=next(workers)))

    repeat(6, make)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp"])
def test_images(suffix: str) -> None:
    frames = [np.ascontiguousarray(frame) for size in (50, 96, 337) for frame in moving_dots(2, size)]
    repeat(20, lambda _: {str(i): encode_image(frame, suffix) for i, frame in enumerate(frames)})


@limits_cores
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp"])
def test_images_with_other_numbers_of_cores(suffix: str) -> None:
    (frame,) = moving_dots(1, 337)
    with cores(1):
        alone = encode_image(frame, suffix)
    assert encode_image(frame, suffix) == alone


def test_features(tmp_path: Path, tiny_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    video = write_video(tmp_path / "exam.mp4", moving_dots(600, still=range(200, 350)), options={"g": "50"})

    def make(attempt: int) -> dict[str, bytes]:
        monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / str(attempt)))
        with open_exam(video) as exam:
            extract(exam, tiny_encoder, workers=1 + attempt % 4)
        return contents(tmp_path / str(attempt))

    repeat(8, make)


@pytest.fixture(scope="module")
def colour_exam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("video") / "exam.mp4", colour_frames(), options={"g": "50"})


def test_summary_keyframes_and_report(colour_exam: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = save_colour_bundle(tmp_path / "bundle")

    def make(attempt: int) -> dict[str, bytes]:
        monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / f"cache{attempt}"))
        out = tmp_path / str(attempt) / "out"
        assert main(["summarize", str(colour_exam), "--out", str(out), "--bundle", str(bundle), "--exam-fps", "1"]) == 0
        written = contents(out)
        assert {Path(name).suffix for name in written} == {".json", ".csv", ".html", ".jpg"}
        return written

    repeat(6, make)


def test_the_shipped_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exam = simulate(tmp_path / "exam.mp4", frames=60, size=96, exam_fps=Fraction(1), lesions=2)

    def make(attempt: int) -> dict[str, bytes]:
        monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / f"cache{attempt}"))
        with dice_ce.open_exam(exam.video) as opened:
            summary = dice_ce.summarize(opened)
        return {"summary.json": summary.to_json().encode(), **contents(tmp_path / f"cache{attempt}")}

    repeat(3, make)
