"""Scores of single frames: what the Selector and the diagnoser say about each, before any context is woven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dice_ce.csvfile import table_text
from dice_ce.exam.open import Exam
from dice_ce.features.extraction import extract
from dice_ce.features.gate import GateConfig
from dice_ce.features.images import encode_images
from dice_ce.files import write_atomically
from dice_ce.method.bundle import Bundle
from dice_ce.method.diagnoser import NetworkDiagnoser
from dice_ce.method.selector import score_vectors, screen
from dice_ce.types import Progress

DIGITS = 6


@dataclass(frozen=True, eq=False)
class FrameScores:
    """One row per frame, in the order given."""

    names: Sequence[str]
    """Paths of images, or ordinals of an exam's frames."""
    seconds: Sequence[float | None]
    """Exam time, where it is known."""
    score: npt.NDArray[np.float32]
    """s_t; NaN where the image could not be decoded."""
    distributions: npt.NDArray[np.float32]
    """p_t [n, labels]."""

    def named(self, names: Sequence[str]) -> FrameScores:
        """Call the frames something else."""
        return replace(self, names=names)

    @property
    def undecodable(self) -> list[str]:
        """Names of the images that could not be decoded."""
        return [name for name, score in zip(self.names, self.score, strict=True) if np.isnan(score)]


def predict_images(paths: Sequence[Path], bundle: Bundle, progress: Progress | None = None) -> FrameScores:
    """Score images one by one."""
    vectors = encode_images(paths, bundle.encoder, progress=progress)
    readable = np.asarray(~np.isnan(vectors).any(axis=1), np.bool_)
    score = np.full(len(paths), np.nan, np.float32)
    distributions = np.full((len(paths), len(bundle.taxonomy)), np.nan, np.float32)
    score[readable] = score_vectors(vectors[readable], bundle.selector)
    diagnoser = bundle.diagnoser
    if isinstance(diagnoser, NetworkDiagnoser):
        heads, networks = diagnoser.split(bundle.encoder.digest)
        said: list[npt.NDArray[np.floating]] = [head(vectors[readable]) for head in heads]
        said += [encode_images(paths, network, progress=progress)[readable] for network in networks]
        distributions[readable] = diagnoser.diagnose(np.sum(said, axis=0, dtype=np.float32))
    else:
        distributions[readable] = diagnoser.diagnose(vectors[readable])
    return FrameScores([str(path) for path in paths], [None] * len(paths), score, distributions)


def predict_exam(
    exam: Exam, bundle: Bundle, *, gate: GateConfig | None = None, progress: Progress | None = None
) -> FrameScores:
    """Score every frame of an exam; the diagnoser sees all of them, not only the candidates."""
    features = extract(exam, bundle.encoder, gate=gate, progress=progress)
    screened = screen(features, bundle.selector, exam.clock)
    found = screened.frames.index
    score = np.full(len(exam), np.nan, np.float32)
    distributions = np.full((len(exam), len(bundle.taxonomy)), np.nan, np.float32)
    score[found], distributions[found] = screened.score, bundle.diagnoser(exam, screened)
    is_known = exam.clock.is_exam_time
    seconds = [float(exam.clock.seconds(i)) if is_known else None for i in range(len(exam))]
    return FrameScores([str(i) for i in range(len(exam))], seconds, score, distributions)


def write_scores(target: Path, scores: FrameScores, labels: Sequence[str], *, first_column: str) -> None:
    """Write `path` or `frame`, seconds, score and a column per label; cells of undecodable images stay empty."""
    columns = zip(scores.names, scores.seconds, scores.score, scores.distributions, strict=True)
    rows = [
        (name, _cell(seconds, 3), *(_cell(float(value), DIGITS) for value in (score, *distribution)))
        for name, seconds, score, distribution in columns
    ]
    write_atomically(target, table_text([first_column, "seconds", "score", *labels], rows).encode())


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"
