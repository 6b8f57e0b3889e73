"""Scores of single frames: what the Selector and the diagnoser say about each, before any context is woven."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dice_ce.bundle import Bundle
from dice_ce.diagnoser import NetworkDiagnoser
from dice_ce.exam import Exam
from dice_ce.extraction import Progress, extract
from dice_ce.files import write_atomically
from dice_ce.gate import GateConfig
from dice_ce.selector import score_frames, score_vectors, select
from dice_ce.stills import encode_stills, read_stills

DIGITS = 6


@dataclass(frozen=True, eq=False)
class FrameScores:
    """One row per frame, in the order given."""

    names: Sequence[str]
    """Paths of pictures, or ordinals of an exam's frames."""
    seconds: Sequence[float | None]
    """Exam time, where it is known."""
    score: npt.NDArray[np.float32]
    """s_t; NaN where the picture could not be decoded."""
    distributions: npt.NDArray[np.float32]
    """p_t [n, labels]."""

    def named(self, names: Sequence[str]) -> FrameScores:
        """Call the frames something else."""
        return replace(self, names=names)

    @property
    def undecodable(self) -> list[str]:
        """Names of the pictures that could not be decoded."""
        return [name for name, score in zip(self.names, self.score, strict=True) if np.isnan(score)]


def predict_stills(paths: Sequence[Path], bundle: Bundle, progress: Progress | None = None) -> FrameScores:
    """Score pictures one by one."""
    vectors = encode_stills(paths, bundle.encoder, progress=progress)
    readable = np.asarray(~np.isnan(vectors).any(axis=1), np.bool_)
    score = np.full(len(paths), np.nan, np.float32)
    distributions = np.full((len(paths), len(bundle.taxonomy)), np.nan, np.float32)
    score[readable] = score_vectors(vectors[readable], bundle.selector)
    diagnoser = bundle.diagnoser
    if isinstance(diagnoser, NetworkDiagnoser):
        chosen = [path for path, usable in zip(paths, readable, strict=True) if usable]
        size, resize = diagnoser.network.input_size, diagnoser.network.resize
        distributions[readable] = diagnoser.judge(picture for _, picture in read_stills(chosen, size, resize))
    else:
        distributions[readable] = diagnoser.judge(vectors[readable])
    return FrameScores([str(path) for path in paths], [None] * len(paths), score, distributions)


def predict_exam(
    exam: Exam, bundle: Bundle, *, gate: GateConfig | None = None, progress: Progress | None = None
) -> FrameScores:
    """Score every frame of an exam; the diagnoser sees all of them, not only the candidates."""
    features = extract(exam, bundle.encoder, gate=gate, progress=progress)
    everything = select(features, score_frames(features, bundle.selector), exam.clock, 0.0)
    found = everything.frames.index
    score = np.full(len(exam), np.nan, np.float32)
    distributions = np.full((len(exam), len(bundle.taxonomy)), np.nan, np.float32)
    score[found], distributions[found] = everything.score, bundle.diagnoser(exam, everything)
    is_known = exam.clock.is_exam_time
    seconds = [float(exam.clock.seconds(i)) if is_known else None for i in range(len(exam))]
    return FrameScores([str(i) for i in range(len(exam))], seconds, score, distributions)


def write_scores(target: Path, scores: FrameScores, labels: Sequence[str], *, first_column: str) -> None:
    """Write `path` or `frame`, seconds, score and a column per label; cells of undecodable pictures stay empty."""
    buffer = io.StringIO()
    buffer.write(",".join([first_column, "seconds", "score", *labels]) + "\n")
    for name, seconds, score, row in zip(scores.names, scores.seconds, scores.score, scores.distributions, strict=True):
        cells = [_quoted(name), "" if seconds is None else f"{seconds:.3f}"]
        cells += ["" if np.isnan(value) else f"{value:.{DIGITS}f}" for value in (score, *row)]
        buffer.write(",".join(cells) + "\n")
    write_atomically(target, buffer.getvalue().encode())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ',"\n') else name
