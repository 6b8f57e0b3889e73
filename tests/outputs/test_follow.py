"""Following a run: what has been read so far is there early, says that it is unfinished, and changes nothing."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce.cli import main
from dice_ce.errors import InputError
from dice_ce.exam.open import Exam, open_exam
from dice_ce.features import extraction
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.pipeline import summarize
from dice_ce.method.summary import Summary
from dice_ce.outputs import write_outputs, write_unfinished
from dice_ce.outputs.results import read_results
from tests.material import write_video
from tests.method.test_pipeline import colour_frames, save_colour_bundle

PATIENCE = 600.0


@dataclass(frozen=True)
class Paused:
    """An encoder that stops half-way until somebody has been told what there is."""

    encoder: OnnxEncoder
    frames: int
    goes_on: threading.Event = field(default_factory=threading.Event)
    encoded: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def encode(self, batch: np.ndarray) -> np.ndarray:
        self.encoded.append(len(batch))
        if sum(self.encoded) > self.frames // 2:
            assert self.goes_on.wait(PATIENCE)
        return self.encoder.encode(batch)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return load_bundle(save_colour_bundle(tmp_path / "bundle"))


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = itertools.islice(itertools.cycle(colour_frames()), 4 * extraction.SEGMENT_LENGTH)
    return write_video(tmp_path_factory.mktemp("followed") / "exam.mp4", frames, options={"g": "16"})


@pytest.fixture(autouse=True)
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "cpu_count", lambda: 1)  # so that whole segments are finished half-way


def follow(exam: Exam, bundle: Bundle) -> tuple[list[Summary], Summary]:
    """Summarise; return what was told on the way, too."""
    told: list[Summary] = []
    encoder = Paused(bundle.encoder, len(exam))  # type: ignore[arg-type]

    def note(summary: Summary) -> None:
        told.append(summary)
        encoder.goes_on.set()

    return told, summarize(exam, bundle=replace(bundle, encoder=encoder), gate=None, follow=note)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_that_is_followed_tells_what_it_has_read_and_ends_as_any_other(
    video: Path, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_exam(video, exam_fps=1) as exam:
        told, summary = follow(exam, bundle)
        monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "another cache"))
        assert summary == summarize(exam, bundle=bundle, gate=None)
        assert summary.exam.read == 1
        assert told
        for unfinished in told:
            assert 0 < unfinished.exam.read < 1
            assert unfinished.counts.decoded == round(unfinished.exam.read * len(exam))
            assert unfinished.exam.warnings[0].startswith("UNFINISHED: only ")
            assert unfinished.exam.undecodable == ()
            assert Summary.from_json(unfinished.to_json()) == unfinished


def test_unfinished_results_say_so_and_never_replace_finished_ones(video: Path, bundle: Bundle, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "exam"
    with open_exam(video, exam_fps=1) as exam:
        (unfinished, *_), summary = follow(exam, bundle)
        write_unfinished(unfinished, exam, tmp_path / "out")
        assert set(files(folder)) == {"summary.json", "report.html"}
        report = (folder / "report.html").read_text()
        assert f"Unfinished: {100 * unfinished.exam.read:.0f}\u00a0% of the exam has been read so far" in report
        with pytest.raises(InputError, match=r"summary.json: is unfinished, the exam is still being read; let"):
            read_results(folder)

        write_outputs(summary, exam, tmp_path / "out")
        finished = files(folder)
        assert b"nfinished" not in finished["report.html"]
        write_unfinished(unfinished, exam, tmp_path / "out")
        assert files(folder) == finished


def test_the_command_writes_the_same_bytes_whether_it_is_followed_or_not(
    video: Path, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for name, options in (("plain", []), ("followed", ["--follow"])):
        monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / name / "cache"))
        words = [str(video), "--exam-fps", "1", "--bundle", str(tmp_path / "bundle"), *options]
        assert main(["summarize", *words, "--out", str(tmp_path / name / "out")]) == 0
        outputs.append(files(tmp_path / name / "out"))
    assert "exam/summary.json" in outputs[0]
    assert outputs[0] == outputs[1]
