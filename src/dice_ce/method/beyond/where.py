"""Where the evidence lies: the part of a frame without which the diagnoser would say something else.

The encoder's feature is the maximum over a map of few parts. What the diagnoser would have said without having seen one
part and its neighbours is therefore known exactly, at the cost of one small head per part: the maximum over the others.
The parts whose absence costs the label most are marked. So that they are small, keyframes are looked at from nearer
than all frames are. It is a mark of what the model looked at, which need not be the lesion; `benchmarks/where.py`
measures how often it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dice_ce.exam.open import Exam
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import Bundle, diagnoser_head
from dice_ce.method.chain import Judged
from dice_ce.method.diagnoser import NetworkDiagnoser, softmax
from dice_ce.method.selector import Head
from dice_ce.method.summary import Mark
from dice_ce.types import Doubles, Floats

REACH = 1
"""Neighbours on each side that are hidden together with a part: a part sees far beyond its own border."""
SHARE = 0.5
"""Parts are marked whose absence costs at least this share of what the worst one costs."""
LEAST = 0.02
"""Loss of log-probability below which no part matters more than another, so nothing is marked."""
NEARER = 4 / 3
"""How much larger than for its feature a frame is shown for its map, to encoders that take any size."""
STRIDE = 32
"""Pixels of one part, which sides must be a multiple of."""
TINY = 1e-12


def locate_evidence(exam: Exam, judged: Judged, bundle: Bundle) -> Mapping[int, Mark]:
    """Mark the keyframes of all items, by frame; empty where the networks cannot tell."""
    if not can_locate(bundle):
        return {}
    labels = {int(judged.candidates.frames.index[judged.keyframe(one)]): one.label for one in judged.kept}
    return mark_frames(exam, labels, bundle)


def can_locate(bundle: Bundle) -> bool:
    """Whether the networks can tell where they look."""
    return _seeing(bundle) is not None


def _seeing(bundle: Bundle) -> tuple[OnnxEncoder, Head] | None:
    """Return the encoder whose map there is, for frames as its head sees them."""
    headed = bundle.diagnoser.headed if isinstance(bundle.diagnoser, NetworkDiagnoser) else None
    encoder, head = headed.encoder if headed else bundle.encoder, diagnoser_head(bundle.diagnoser)
    return (encoder, head) if isinstance(encoder, OnnxEncoder) and encoder.has_map and head is not None else None


def mark_frames(exam: Exam, labels: Mapping[int, int], bundle: Bundle) -> Mapping[int, Mark]:
    """Mark where the evidence for a label lies, by frame; frames without one such place are left out."""
    seeing = _seeing(bundle)
    assert seeing is not None, "see can_locate"
    encoder, head = seeing
    marks = {}
    for frame, image in exam.images(sorted(labels), size=map_size(encoder), resize=encoder.resize):
        loss = evidence_map(encoder.encode_map(image[None])[0], head, labels[frame])
        mark = mark_of(loss, exam.width, exam.height)
        if mark is not None:
            marks[frame] = mark
    return marks


def map_size(encoder: OnnxEncoder) -> int:
    """Return the side of the frames that maps are made of."""
    size = encoder.input_size
    return round(NEARER * size / STRIDE) * STRIDE if encoder.takes_any_size else size


def evidence_map(parts: Floats, head: Head, label: int) -> Doubles:
    """Return what hiding each part, with its neighbours, costs the label: loss of log-probability [h, w]."""
    _, high, wide = parts.shape
    whole = parts.max(axis=(1, 2))
    without = []
    for y in range(high):
        for x in range(wide):
            hidden = np.zeros((high, wide), np.bool_)
            hidden[max(0, y - REACH) : y + REACH + 1, max(0, x - REACH) : x + REACH + 1] = True
            without.append(parts[:, ~hidden].max(axis=1) if not hidden.all() else np.zeros_like(whole))
    p = softmax(head(np.stack([whole, *without])))[:, label].astype(np.float64)
    return np.asarray(np.log(p[0] + TINY) - np.log(p[1:] + TINY)).reshape(high, wide)


def mark_of(loss: Doubles, width: int, height: int) -> Mark | None:
    """Frame the parts that matter, in shares of an image that was fitted into the middle of the encoder's square."""
    worst = float(loss.max())
    if worst < LEAST:
        return None
    seed = np.unravel_index(int(loss.argmax()), loss.shape)
    rows, columns = np.nonzero(_around(loss >= SHARE * worst, (int(seed[0]), int(seed[1]))))
    left, right = (_to_image(edge / loss.shape[1], width, height) for edge in (columns.min(), columns.max() + 1))
    top, bottom = (_to_image(edge / loss.shape[0], height, width) for edge in (rows.min(), rows.max() + 1))
    if left >= right or top >= bottom:
        return None
    return Mark(left, top, right, bottom)


def _around(chosen: np.ndarray, seed: tuple[int, int]) -> np.ndarray:
    """Keep what is connected with the seed: a mark is one place."""
    found, todo = np.zeros_like(chosen), [seed]
    while todo:
        y, x = todo.pop()
        if 0 <= y < chosen.shape[0] and 0 <= x < chosen.shape[1] and chosen[y, x] and not found[y, x]:
            found[y, x] = True
            todo += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    return found


def _to_image(place: float, own: int, other: int) -> float:
    """Turn a share of the square into a share of the image, whose shorter side is padded."""
    share = own / max(own, other)
    return round(float(np.clip((place - (1 - share) / 2) / share, 0, 1)), 4)
