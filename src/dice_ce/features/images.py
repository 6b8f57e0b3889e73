"""Single images, such as labelled frames of public datasets: no clock, no order, any sizes.

Each is fitted into the encoder's square as it is. Unlike in exams, burned-in text is not blacked: one image does not
show where the field of view ends.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
from av.video.reformatter import VideoReformatter

from dice_ce.errors import ExamError, InputError
from dice_ce.exam.images import SUFFIXES, ImageCursor, ImageSource, natural_order
from dice_ce.exam.open import on_canvas, to_rgb
from dice_ce.features.encoder import Encoder
from dice_ce.features.extraction import cpu_count
from dice_ce.files import DAMAGED_ARRAY, atomic_file, cache_root
from dice_ce.types import Image, Progress, Resize

CHUNK = 512
"""Images whose features are stored together; an interrupted run loses at most one chunk per worker."""
BATCH = 8

Change = Callable[[Image, np.random.Generator], Image]
"""What training does to an image before it is encoded."""


def find_images(folder: Path) -> list[Path]:
    """List the images in a folder and below it, in natural order."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of images")
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    ]
    if not found:
        raise InputError(f"{folder}: holds no images; expected files ending in {', '.join(SUFFIXES)}")
    return sorted(found, key=lambda path: natural_order(path.relative_to(folder).as_posix()))


def read_images(paths: Sequence[Path], size: int, resize: Resize = "area") -> Iterator[tuple[int, Image]]:
    """Yield (number in the list, image fitted into a square); images that cannot be decoded are left out."""
    reformatter = VideoReformatter()
    source = ImageSource(Path(), tuple(str(path) for path in paths), ())
    with closing(ImageCursor(source)) as cursor:
        for i, frame in cursor.read(0, len(paths)):
            scale = size / max(frame.width, frame.height)
            width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
            yield i, on_canvas(to_rgb(reformatter, frame, width, height, resize), size, size)


def encode_images(
    paths: Sequence[Path],
    encoder: Encoder,
    *,
    change: Change | None = None,
    variant: str = "",
    progress: Progress | None = None,
) -> npt.NDArray[np.float16]:
    """Compute the features of images, NaN where one cannot be decoded; finished chunks are taken from the cache.

    With `change`, images are changed first, at random but always the same, whichever encoder asks; `variant` names the
    change.
    """
    chunks = [paths[i : i + CHUNK] for i in range(0, len(paths), CHUNK)]
    with ThreadPoolExecutor(cpu_count()) as pool:
        contents = list(pool.map(_contents, chunks))
        keys = [_hash(f"{encoder.digest} {variant}", content) for content in contents]
        seeds = [_hash(variant, content) for content in contents]  # all encoders see the same change
        parts = [_load_chunk(key) for key in keys]
        missing = [row for row, part in enumerate(parts) if part is None]
        tally = _Tally(len(paths), sum(len(chunks[row]) for row in missing), progress)
        made = pool.map(lambda row: _encode_chunk(keys[row], seeds[row], chunks[row], encoder, change, tally), missing)
        for row, part in zip(missing, made, strict=True):
            parts[row] = part
    return np.concatenate([np.empty((0, encoder.dim), np.float16), *(part for part in parts if part is not None)])


class _Tally:
    """Counts images that several threads have dealt with; those from the cache count as done before."""

    def __init__(self, total: int, missing: int, progress: Progress | None) -> None:
        self._total, self._done = total, total - missing
        self._progress = progress or (lambda done, total: None)
        self._lock = threading.Lock()
        if missing:
            self._progress(self._done, total)

    def add(self, images: int) -> None:
        with self._lock:
            self._done += images
            self._progress(self._done, self._total)


def _stored(key: str) -> Path:
    return cache_root() / "images" / f"{key}.npy"


def _load_chunk(key: str) -> npt.NDArray[np.float16] | None:
    try:
        return np.asarray(np.load(_stored(key)), np.float16)
    except (OSError, *DAMAGED_ARRAY):
        return None  # not there yet, or half-written by a full disk: it is computed again


def _encode_chunk(
    key: str, seed: str, paths: Sequence[Path], encoder: Encoder, change: Change | None, tally: _Tally
) -> npt.NDArray[np.float16]:
    features = np.full((len(paths), encoder.dim), np.nan, np.float16)
    rng = np.random.default_rng(int(seed[:16], 16))
    rows: list[int] = []
    images: list[Image] = []

    def flush() -> None:
        if rows:
            features[rows] = encoder.encode(np.stack(images))
            tally.add(len(rows))
            rows.clear()
            images.clear()

    for row, image in read_images(paths, encoder.input_size, encoder.resize):
        rows.append(row)
        images.append(change(image, rng) if change else image)
        if len(rows) == BATCH:
            flush()
    flush()
    with atomic_file(_stored(key)) as file:
        np.save(file, features)
    tally.add(int(np.isnan(features).any(axis=1).sum()))  # the undecodable ones are dealt with, too
    return features


def _contents(paths: Sequence[Path]) -> list[bytes]:
    """Digest what shapes the features of some images, besides the encoder and the change."""
    digests = []
    for path in paths:
        try:
            digests.append(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise ExamError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    return digests


def _hash(words: str, contents: Sequence[bytes]) -> str:
    return hashlib.sha256(words.encode() + b"".join(contents)).hexdigest()[:32]
