"""Where in a frame the evidence lies: how much less a label is believed once a part of the image is covered.

Occlusion (Zeiler and Fergus, ECCV 2014) asks the model itself and needs nothing but its answers, so that it holds for
every bundle. It shows what the model looks at, which need not be what a clinician sees.
"""

from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np

from dice_ce.exam.open import Exam
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.diagnoser import BATCH, NetworkDiagnoser
from dice_ce.method.summary import Summary
from dice_ce.reader.contract import Evidence
from dice_ce.types import Doubles, Floats, Image

CELLS = 8
"""Cells along each side of the image."""
COVER = 2
"""Cells along each side of what is covered at a time; covers overlap, so that each cell is judged by several."""
REMEMBERED = 500


class NoBundleError(Exception):
    """The bundle that made the results is not the one that is installed."""


def covered(image: Image) -> tuple[list[tuple[int, int]], list[Image]]:
    """Return copies of a square image, each with another part covered by the mean colour, and where that is."""
    edges = np.linspace(0, image.shape[0], CELLS + 1).round().astype(int)
    seen = image.reshape(-1, 3)[image.reshape(-1, 3).max(axis=1) > 0]
    colour = seen.mean(axis=0).round().astype(np.uint8) if len(seen) else np.zeros(3, np.uint8)
    places, images = [], []
    for row in range(CELLS - COVER + 1):
        for column in range(CELLS - COVER + 1):
            part = slice(edges[row], edges[row + COVER]), slice(edges[column], edges[column + COVER])
            if image[part].any():  # what lies outside the field of view is black already
                copy = image.copy()
                copy[part] = np.where(copy[part].any(axis=2, keepdims=True), colour, copy[part])
                places.append((row, column))
                images.append(copy)
    return places, images


def spread(places: list[tuple[int, int]], drops: Doubles) -> Doubles:
    """Share out what each cover took away among its cells, by the mean over all covers of a cell."""
    total, count = np.zeros((CELLS, CELLS)), np.zeros((CELLS, CELLS))
    for (row, column), drop in zip(places, drops, strict=True):
        total[row : row + COVER, column : column + COVER] += drop
        count[row : row + COVER, column : column + COVER] += 1
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)


def judge(bundle: Bundle, images: list[Image]) -> Floats:
    """Return what the bundle's diagnoser says about images of its size."""
    if isinstance(bundle.diagnoser, NetworkDiagnoser):
        return bundle.diagnoser.diagnose(images)
    vectors = [bundle.encoder.encode(np.stack(images[i : i + BATCH])) for i in range(0, len(images), BATCH)]
    return bundle.diagnoser.diagnose(np.concatenate(vectors))


def find_evidence(exam: Exam, frame: int, label: str, bundle: Bundle) -> Evidence:
    """Cover the frame part by part and see where the belief in a label drops."""
    network = bundle.diagnoser.network if isinstance(bundle.diagnoser, NetworkDiagnoser) else bundle.encoder
    ((_, image),) = exam.images([frame], size=network.input_size, resize=network.resize)
    places, images = covered(image)
    index = bundle.taxonomy.index(label)
    before, *after = judge(bundle, [image, *images])[:, index].astype(np.float64)
    weights = np.clip(spread(places, before - np.array(after)), 0, None) / max(before, 1e-6)
    longest = max(exam.width, exam.height)
    across, down = (longest - exam.width) / 2 / exam.width, (longest - exam.height) / 2 / exam.height
    return Evidence(
        label=bundle.taxonomy.labels[index],
        probability=round(float(before), 4),
        left=-across,
        top=-down,
        right=1 + across,
        bottom=1 + down,
        weights=tuple(tuple(round(min(1.0, float(one)), 4) for one in row) for row in weights),
    )


class Evidences:
    """Finds evidence with the bundle that made the results, one frame at a time."""

    def __init__(self, bundle: str | None = None) -> None:
        self._spec = bundle
        self._bundle: Bundle | None = None
        self._lock = threading.Lock()
        self._find = lru_cache(REMEMBERED)(self._find_anew)

    def of(self, exam: Exam, summary: Summary, frame: int, label: str) -> Evidence:
        """Return where the evidence for a label lies in a frame."""
        with self._lock:
            if self._bundle is None:
                self._bundle = load_bundle(self._spec)
            if self._bundle.digest != summary.provenance.bundle.digest:
                raise NoBundleError(
                    f"these results were made by the bundle {summary.provenance.bundle.name} "
                    f"({summary.provenance.bundle.digest[:12]}); give it with --bundle"
                )
            return self._find(exam, frame, label)

    def _find_anew(self, exam: Exam, frame: int, label: str) -> Evidence:
        assert self._bundle is not None
        return find_evidence(exam, frame, label, self._bundle)
