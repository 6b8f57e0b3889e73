"""Features of spliced exams: every image in every view is encoded once, whichever exams show it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.folder import ExamRow
from dice_ce.datasets.spliced import Splice, SplicedImage, read_images_table, read_splice
from dice_ce.errors import InputError, require
from dice_ce.exam.frames import FrameTable
from dice_ce.features.encoder import Encoder
from dice_ce.features.images import encode_images
from dice_ce.method.bundle import Bundle
from dice_ce.method.diagnoser import NetworkDiagnoser
from dice_ce.method.selector import Screened, score_vectors
from dice_ce.types import Floats, Image, Ints, Progress

MILLISECOND = Fraction(1, 1000)
ZOOM, SHIFT, LIGHT, BLUR = 1.3, 0.06, 0.15, 1.2
"""Nearer at most, moved at most (share of the side), spread of brightness and gamma, blur at most (pixels of 224)."""


@dataclass(frozen=True, eq=False)
class ScreenedSplice:
    """A spliced exam as networks see it."""

    screened: Screened
    truth: Ints
    """What every frame shows."""
    distributions: Floats
    """What the diagnoser says about every frame."""


def screen_spliced(row: ExamRow, bundle: Bundle, progress: Progress | None = None) -> ScreenedSplice:
    """Score all frames of a spliced exam; there is no video that a network could look at again, so it sees all."""
    images = read_images_table(row.video.parents[1])
    splice = read_splice(row.video, len(images), bundle.taxonomy)
    vectors = _vectors(splice, images, bundle.encoder, progress)
    if len(damaged := np.flatnonzero(np.isnan(vectors).any(axis=1))):
        raise InputError(f"{images[splice.image[damaged[0]]].path}: cannot be decoded; copy it again")
    frames = FrameTable(np.arange(len(splice)), np.rint(splice.seconds * 1000).astype(np.int64), MILLISECOND)
    score = score_vectors(vectors, bundle.selector)
    screened = Screened(frames, splice.seconds, vectors, score, bundle.encoder.digest)
    diagnoser = bundle.diagnoser
    if isinstance(diagnoser, NetworkDiagnoser):
        heads, networks = diagnoser.split(bundle.encoder.digest)
        said: list[npt.NDArray[np.floating]] = [head(vectors) for head in heads]
        said += [_vectors(splice, images, network, progress) for network in networks]
        return ScreenedSplice(screened, splice.label, diagnoser.diagnose(np.sum(said, axis=0, dtype=np.float32)))
    return ScreenedSplice(screened, splice.label, diagnoser.diagnose(vectors))


def _vectors(
    splice: Splice, images: list[SplicedImage], encoder: Encoder, progress: Progress | None
) -> npt.NDArray[np.float16]:
    """Look every frame up. All images of a case go through the encoder together: other exams will ask for them, too."""
    vectors = np.empty((len(splice), encoder.dim), np.float16)
    cases = np.array([image.case for image in images])
    case_of_frame = cases[splice.image]
    for case in np.unique(case_of_frame):
        rows = np.flatnonzero(cases == case)
        paths = [images[row].path for row in rows]
        for view in np.unique(splice.view[case_of_frame == case]):
            change, variant = (other_view, f"spliced, view {view}") if view else (None, "")
            encoded = encode_images(paths, encoder, change=change, variant=variant, progress=progress)
            shown = np.flatnonzero((case_of_frame == case) & (splice.view == view))
            vectors[shown] = encoded[np.searchsorted(rows, splice.image[shown])]
    return vectors


def other_view(image: Image, chance: np.random.Generator) -> Image:
    """Look at the same thing a moment later: turned by quarters, mirrored, nearer, moved, brighter or darker, blurred.

    Fields of view are octagons and circles, which quarter turns leave as they are.
    """
    cv2 = require("cv2", extra="datasets", purpose="spliced exams")
    side = len(image)
    view = np.rot90(image, int(chance.integers(4)))
    view = np.ascontiguousarray(view[:, ::-1] if chance.random() < 0.5 else view)
    zoom, (right, down) = chance.uniform(1, ZOOM), chance.uniform(-SHIFT, SHIFT, 2) * side
    middle = (side - 1) / 2 * (1 - zoom)
    moved = cv2.warpAffine(view, np.array([[zoom, 0, middle + right], [0, zoom, middle + down]]), (side, side))
    if (blur := chance.uniform(-BLUR, BLUR)) > 0.2:
        moved = cv2.GaussianBlur(moved, (0, 0), blur * side / 224)
    bright, gamma = np.exp(chance.normal(0, LIGHT, 2))
    table = np.clip(255 * bright * (np.arange(256) / 255) ** gamma, 0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(moved, table))
