"""What heads are trained on: features of frames with targets, from labelled images and from whole exams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.within import number_events
from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.tables import Annotation, LabelledFrame
from dice_ce.errors import InputError
from dice_ce.features.encoder import Encoder
from dice_ce.features.extraction import extract
from dice_ce.features.images import Change, encode_images
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Progress

NEAR = 2.0
"""Seconds around a keyframe within which frames are taken to show what it shows: w in the design."""
FAR = 300.0
"""Seconds from every finding beyond which a frame is taken for normal, which is weak evidence: reports are short."""
EXAMS = "exams"
"""Source of frames that come from whole exams."""
WEAK_WEIGHT = 0.3
WEAK_STEP = 10
"""Every how many weak frames one is used: there are thousands, and neighbours are alike."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Frames as features, with what is known about each."""

    vectors: npt.NDArray[np.float16]
    labels: npt.NDArray[np.bool_]
    """[n, labels]; a row without any is abnormal or not, but of no label in the taxonomy."""
    abnormal: npt.NDArray[np.bool_]
    weight: npt.NDArray[np.float32]
    """1, or less for weak evidence."""
    case: npt.NDArray[np.str_]
    source: npt.NDArray[np.str_]
    origin: npt.NDArray[np.str_]
    """Path of a single image; ordinal of an exam's frame."""
    exam: npt.NDArray[np.str_]
    """Empty for images."""
    event: npt.NDArray[np.str_]
    """Which lesion event an image belongs to; empty if that is not known."""
    stretched: npt.NDArray[np.int64]
    """Findings that this frame stands for although it is not near them: there is no nearer one."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.vectors).all():
            raise InputError(
                "some features are not finite; clear the cache (dice-ce cache clear) and extract them again"
            )

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Samples:
        return Samples(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def labelled(self) -> Samples:
        """Leave out the frames of no label."""
        return self[np.flatnonzero(self.labels.any(axis=1))]

    def once(self) -> Samples:
        """Take every frame once, in order: views of an image are the same frame."""
        frames = np.char.add(np.char.add(self.exam, "\n"), self.origin)
        return self[np.sort(np.unique(frames, return_index=True)[1])]

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Samples:
        """Put tables below each other."""
        return Samples(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


def shows_lesion(labels: npt.NDArray[np.bool_], taxonomy: Taxonomy) -> npt.NDArray[np.bool_]:
    """Tell which rows carry a label other than normal."""
    return np.asarray(np.delete(labels, taxonomy.normal, axis=1).any(axis=1), np.bool_)


def samples_of_images(
    frames: Sequence[LabelledFrame],
    encoder: Encoder,
    taxonomy: Taxonomy,
    *,
    change: Change | None = None,
    variant: str = "",
    progress: Progress | None = None,
) -> Samples:
    """Encode labelled images. Those outside the taxonomy (foreign bodies) are nothing to report, of no label."""
    vectors = encode_images(
        [frame.path for frame in frames], encoder, change=change, variant=variant, progress=progress
    )
    damaged = np.flatnonzero(np.isnan(vectors).any(axis=1))
    if len(damaged):
        raise InputError(
            f"{frames[damaged[0]].path}: cannot be decoded ({len(damaged)} such images); remove or copy them again"
        )
    labels = np.zeros((len(frames), len(taxonomy)), np.bool_)
    for row, frame in enumerate(frames):
        labels[row, [taxonomy.index(label) for label in frame.labels]] = True
    return Samples(
        vectors,
        labels,
        shows_lesion(labels, taxonomy),
        np.ones(len(frames), np.float32),
        np.array([frame.case for frame in frames], np.str_),
        np.array([frame.source for frame in frames], np.str_),
        np.array([str(frame.path) for frame in frames], np.str_),
        np.full(len(frames), "", np.str_),
        number_events(
            [frame.case for frame in frames],
            [frame.number for frame in frames],
            [[label for label in frame.labels if label != taxonomy.labels[taxonomy.normal]] for frame in frames],
        ),
        np.zeros(len(frames), np.int64),
    )


def samples_of_exams(
    dataset: Dataset, encoder: Encoder, taxonomy: Taxonomy, *, near: float = NEAR, progress: Progress | None = None
) -> Samples:
    """Take the frames around the findings of whole exams, and frames far from all of them as weak normals."""
    parts = []
    for done, row in enumerate(dataset.exams):
        if progress:
            progress(done, len(dataset.exams))
        with row.open() as exam:
            if not exam.clock.is_exam_time:
                raise InputError(
                    f"exam '{row.exam_id}': only playback time is known; fill the clock columns in exams.csv"
                )
            features = extract(exam, encoder)
            seconds = np.asarray(exam.clock.ticks[features.frames.index] * float(exam.clock.unit), np.float64)
        rows, labels, weight, stretched = label_frames(seconds, dataset.annotations[row.exam_id], taxonomy, near)
        parts.append(
            Samples(
                np.asarray(features.vectors[rows]),
                labels,
                shows_lesion(labels, taxonomy),
                weight,
                np.full(len(rows), row.patient_id),
                np.full(len(rows), EXAMS),
                features.frames.index[rows].astype(np.str_),
                np.full(len(rows), row.exam_id),
                np.full(len(rows), "", np.str_),
                stretched,
            )
        )
    if progress:
        progress(len(dataset.exams), len(dataset.exams))
    return Samples.join(parts)


def label_frames(
    seconds: npt.NDArray[np.float64], annotation: Annotation, taxonomy: Taxonomy, near: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the usable rows of an exam, their labels and weights, and for how many findings each was stretched.

    Frames within `near` of a finding have its label, several if findings are close; a finding called normal makes
    strong normals. If no frame is so near, because frames are few or damaged, the nearest one has it, unless it is so
    far that it counts as normal. Frames more than 300 s from every finding are weak normals. All others are not used.
    """
    labels = np.zeros((len(seconds), len(taxonomy)), np.bool_)
    distance = np.full(len(seconds), np.inf)
    stretched = np.zeros(len(seconds), np.int64)
    for finding in annotation.findings:
        away = np.abs(seconds - finding.seconds)
        shows = away <= near
        if not shows.any() and away.min(initial=np.inf) <= FAR:
            shows[away.argmin()] = True
            stretched[shows] += 1
        labels[shows, taxonomy.index(finding.label)] = True
        distance = np.minimum(distance, away)
    labels[shows_lesion(labels, taxonomy), taxonomy.normal] = False
    weak = np.flatnonzero(distance > FAR)[::WEAK_STEP]
    strong = np.flatnonzero(labels.any(axis=1))
    labels[weak, taxonomy.normal] = True
    rows = np.sort(np.concatenate([strong, weak]))
    weight = np.where(distance[rows] > FAR, WEAK_WEIGHT, 1.0).astype(np.float32)
    return rows, labels[rows], weight, stretched[rows]
