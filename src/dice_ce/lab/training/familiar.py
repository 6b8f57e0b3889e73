"""Learning how cases look, so that another make of capsule is noticed (`dice_ce.method.beyond.familiar` uses it)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.exam.open import FIELD_SAMPLES
from dice_ce.lab.training.data import TrainingData
from dice_ce.lab.training.heads import as_stored
from dice_ce.lab.training.images import read_labelled_images
from dice_ce.lab.training.samples import EXAMS
from dice_ce.method.beyond.familiar import SIDE, Familiarity, look_of, look_of_exam
from dice_ce.types import Bools, Doubles, Floats, Ints, Progress

FEWEST = 8
"""Cases that it takes to say how cases differ."""
PLAIN = 0.3
"""Share of the covariance that is as if numbers had nothing to do with each other: cases are few."""
EXCEEDED = 0.05
"""Share of held-out cases that may lie beyond the limit."""


@dataclass(frozen=True, eq=False)
class Looks:
    """How every case looks."""

    look: Floats
    """[cases, k]"""
    source: npt.NDArray[np.str_]
    fold: Ints
    """-1 for test cases."""

    def __len__(self) -> int:
        return len(self.look)

    def __getitem__(self, rows: Bools) -> Looks:
        return Looks(self.look[rows], self.source[rows], self.fold[rows])


def looks_of_cases(data: TrainingData, progress: Progress | None = None) -> Looks:
    """Look at some frames of every case, labelled images and whole exams."""
    cases: dict[tuple[str, str], list[LabelledFrame]] = defaultdict(list)
    for frame in data.frames:
        cases[frame.source, frame.case].append(frame)
    exams = [row for dataset in data.datasets for row in dataset.exams]
    found, total = list[tuple[Floats, str, str]](), len(cases) + len(exams)
    for (source, case), frames in cases.items():
        rows = np.unique(np.linspace(0, len(frames) - 1, FIELD_SAMPLES).astype(np.int64))
        images = read_labelled_images([frames[row] for row in rows], SIDE)
        found.append((look_of(images.masked(np.arange(len(images)))), source, case))
        if progress is not None:
            progress(len(found), total)
    for row in exams:
        with row.open() as exam:
            found.append((look_of_exam(exam), EXAMS, row.patient_id))
        if progress is not None:
            progress(len(found), total)
    looks, sources, names = zip(*found, strict=True)
    return Looks(np.stack(looks), np.array(sources), np.array([data.fold.get(name, -1) for name in names], np.int64))


def fit_familiarity(looks: Looks) -> Familiarity | None:
    """Learn how cases look; how far one may stray is told by folds of cases that the others know nothing of."""
    if len(looks) < FEWEST:
        return None
    distances = held_out_distances(looks)
    return None if not len(distances) else replace(_fit(looks), limit=float(np.quantile(distances, 1 - EXCEEDED)))


def held_out_distances(looks: Looks) -> Doubles:
    """Return how far every case lies from what the cases of other folds look like."""
    parts = [np.empty(0)]
    for fold in np.unique(looks.fold):
        others = looks[looks.fold != fold]
        if len(others) >= FEWEST:
            parts.append(_fit(others).distances(looks[looks.fold == fold].look))
    return np.concatenate(parts)


def _fit(looks: Looks) -> Familiarity:
    """Take the mean look of every source, and how cases differ from that of their own; the limit is still open."""
    sources = np.unique(looks.source)
    means = np.stack([looks.look[looks.source == source].mean(axis=0) for source in sources]).astype(np.float64)
    rest = looks.look - means[np.searchsorted(sources, looks.source)]
    spread = np.sqrt((rest**2).sum(axis=0) / max(1, len(looks) - len(sources))) + np.finfo(np.float32).eps
    scaled = rest / spread
    together = scaled.T @ scaled / max(1, len(looks) - len(sources))
    inverse = np.linalg.inv((1 - PLAIN) * together + PLAIN * np.eye(len(spread)))
    whiten = np.linalg.cholesky(inverse) / spread[:, None]
    return Familiarity(as_stored(means), as_stored(whiten), np.inf)
