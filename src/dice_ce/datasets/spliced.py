"""Spliced exams: real images in an order and at times, listed instead of drawn into a video.

images.csv                  image, path, source, case: everything that the exams of a dataset show
exams/<exam>.splice.csv     frame, seconds, image, view, label; exams.csv names it as the exam's video

A frame shows an image in one of a few views (turned, nearer, darker), so an image that stays for a while is never quite
the same twice. Nothing is drawn, encoded or decoded as a video: the features of every image in every view are computed
once for all exams, and an exam of 30,000 frames costs little more than looking them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dice_ce.csvfile import read_table, table_text
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError
from dice_ce.files import write_atomically
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Doubles, Ints

IMAGES = "images.csv"
SUFFIX = ".splice.csv"
IMAGE_COLUMNS = ("image", "path", "source", "case")
FRAME_COLUMNS = ("frame", "seconds", "image", "view", "label")
VIEWS = 4
"""Views of every image; the first is the image as it is."""


@dataclass(frozen=True)
class SplicedImage:
    """An image that frames show."""

    path: Path
    case: str


@dataclass(frozen=True, eq=False)
class Splice:
    """What every frame of an exam shows."""

    seconds: Doubles
    image: Ints
    """Rows of images.csv."""
    view: Ints
    label: Ints
    """Numbers of the taxonomy."""

    def __len__(self) -> int:
        return len(self.seconds)


def is_spliced(video: Path) -> bool:
    """Tell a spliced exam from a video."""
    return video.name.endswith(SUFFIX)


def write_images(folder: Path, frames: Sequence[LabelledFrame]) -> None:
    """List all images."""
    rows = [(i, frame.path, frame.source, frame.case) for i, frame in enumerate(frames)]
    write_atomically(folder / IMAGES, table_text(IMAGE_COLUMNS, rows).encode())


def read_images_table(folder: Path) -> list[SplicedImage]:
    """Read the list of images; paths are absolute or relative to the folder."""
    table = folder / IMAGES
    if not table.is_file():
        raise InputError(
            f"{table}: no such file; spliced exams need it, so make them again with: "
            "dice-ce data splice --frames DATA --timelines JSON --out DIR"
        )
    rows = read_table(table, IMAGE_COLUMNS)
    if [row["image"] for _, row in rows] != [str(i) for i in range(len(rows))]:
        raise InputError(f"{table}: images must be numbered from 0; splice the exams again")
    return [SplicedImage(folder / row["path"], row["case"]) for _, row in rows]


def splice_text(splice: Splice, taxonomy: Taxonomy) -> str:
    """Write one exam."""
    columns = (splice.seconds.tolist(), splice.image.tolist(), splice.view.tolist(), splice.label.tolist())
    rows = [
        (i, f"{seconds:.3f}", image, view, taxonomy.labels[label])
        for i, (seconds, image, view, label) in enumerate(zip(*columns, strict=True))
    ]
    return table_text(FRAME_COLUMNS, rows)


def read_splice(path: Path, images: int, taxonomy: Taxonomy) -> Splice:
    """Read one exam; `images` is how many the list has."""
    rows = read_table(path, FRAME_COLUMNS)
    try:
        seconds = np.array([float(row["seconds"]) for _, row in rows])
        image, view = (np.array([int(row[name]) for _, row in rows], np.int64) for name in ("image", "view"))
        label = np.array([taxonomy.index(row["label"]) for _, row in rows], np.int64)
    except (ValueError, InputError) as error:
        raise InputError(f"{path}: {error}; splice the exam again") from error
    if not len(rows) or (np.diff(seconds) < 0).any() or not np.isfinite(seconds).all():
        raise InputError(f"{path}: times must be finite and must not decrease; splice the exam again")
    if not (0 <= image.min() <= image.max() < images and 0 <= view.min() <= view.max() < VIEWS):
        raise InputError(f"{path}: names an image or a view that there is not; splice the exam again")
    return Splice(seconds, image, view, label)
