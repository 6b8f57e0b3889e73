"""How often the mark of the evidence lies on the lesion: keyframe marks against Kvasir-Capsule's boxes.

    python benchmarks/where.py DATA --folds FOLDS

DATA holds labelled frames with boxes, FOLDS the bundles of held-out folds (`dice-ce train --folds-out`), so that every
frame is judged by networks that never saw its patient. Counted are lesion frames with one box whose own label the head
on the encoder says, which marks are made from. Chance is the share of the field of view that the boxes cover.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from dice_ce.benchmark.significance import Estimate, interval, resample, resampled_quotients
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import fold_cases, fold_name
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.images import read_images
from dice_ce.lab.training.network import append_map
from dice_ce.method.beyond.where import evidence_map, map_size, mark_of
from dice_ce.method.bundle import Bundle, diagnoser_head, load_bundle
from dice_ce.method.selector import Head
from dice_ce.progress import ProgressBar
from dice_ce.table import Table
from dice_ce.taxonomy import NORMAL
from dice_ce.types import Image

DARK = 8
"""Brightness up to which a pixel may lie outside the field of view."""
PER_CASE = 40
"""Frames of one case and label at most, evenly spread: neighbours are nearly the same image."""


@dataclass(frozen=True)
class Hit:
    """One frame."""

    case: str
    label: str
    is_named: bool
    is_marked: bool
    is_inside: bool
    """The middle of the mark lies in the box."""
    chance: float


def judge(frame: LabelledFrame, image: Image, nearer: Image, encoder: OnnxEncoder, head: Head, wanted: int) -> Hit:
    """Mark one frame, which is given as the encoder sees it and as its map is made, and compare."""
    (parts,) = encoder.encode_map(nearer[None])
    said = int(head(encoder.encode(image[None]))[0].argmax())
    mark = mark_of(evidence_map(parts, head, wanted), 1, 1)
    (box,) = frame.boxes
    field = float((image.max(axis=2) > DARK).mean())
    chance = (box.right - box.left) * (box.bottom - box.top) / max(field, 1e-6)
    inside = False
    if mark is not None:
        x, y = (mark.left + mark.right) / 2, (mark.top + mark.bottom) / 2
        inside = box.left <= x <= box.right and box.top <= y <= box.bottom
    return Hit(frame.case, frame.labels[0], said == wanted, mark is not None, inside, min(1.0, chance))


def seeing(bundle: Bundle) -> tuple[OnnxEncoder, Head]:
    """Return encoder and head of a diagnoser; the encoder gives out its map, also if it does not yet."""
    encoder, head = bundle.encoder, diagnoser_head(bundle.diagnoser)
    assert isinstance(encoder, OnnxEncoder)
    assert head is not None
    model = onnx.load_from_string(encoder.content)
    append_map(model)
    return OnnxEncoder.from_bytes(model.SerializeToString(), encoder.name), head


def spread(frames: list[LabelledFrame]) -> list[LabelledFrame]:
    """Take a few frames of every case and label."""
    groups: dict[tuple[str, str], list[LabelledFrame]] = {}
    for frame in sorted(frames, key=lambda frame: (frame.case, frame.number or 0)):
        groups.setdefault((frame.case, frame.labels[0]), []).append(frame)
    return [of[i] for of in groups.values() for i in np.unique(np.linspace(0, len(of) - 1, PER_CASE).astype(int))]


def row(name: str, hits: list[Hit]) -> tuple[str, ...]:
    """One line: how many, and the shares with intervals over cases."""
    cases = [hit.case for hit in hits]
    inside = np.array([hit.is_inside for hit in hits], np.float64)
    shares = resampled_quotients(resample(cases), inside, np.ones(len(hits)))
    estimate = Estimate(float(inside.mean()), *interval(shares))
    chance = np.mean([hit.chance for hit in hits])
    return name, str(len(hits)), str(len(set(cases))), str(estimate), f"{chance:.2f}"


def main() -> None:
    """Judge all frames with a box, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--folds", type=Path, required=True)
    options = parser.parse_args()
    pool = load_pool(options.data).frames
    folds = fold_cases([frame for frame in pool if frame.case])
    boxed = [frame for frame in pool if frame.case and len(frame.boxes) == 1 and len(frame.labels) == 1]
    chosen = spread([frame for frame in boxed if frame.labels[0] != NORMAL])
    hits: list[Hit] = []
    with ProgressBar("marking") as bar:
        for fold in sorted({folds[frame.case] for frame in chosen}):
            bundle = load_bundle(options.folds / fold_name(fold))
            encoder, head = seeing(bundle)
            own = [frame for frame in chosen if folds[frame.case] == fold]
            paths = [frame.path for frame in own]
            sizes = (encoder.input_size, map_size(encoder))
            for (i, image), (_, nearer) in zip(*(read_images(paths, size) for size in sizes), strict=True):
                wanted = bundle.taxonomy.index(own[i].labels[0])
                hits.append(judge(own[i], image, nearer, encoder, head, wanted))
                bar(len(hits), len(chosen))
    named = [hit for hit in hits if hit.is_named and hit.is_marked]
    rows = [row("all, named right", named), row("all, whatever was said", [hit for hit in hits if hit.is_marked])]
    labels = sorted({hit.label for hit in named})
    rows += [row(label, [hit for hit in named if hit.label == label]) for label in labels]
    print(Table.of(("frames", "n", "cases", "middle of the mark in the box", "chance"), rows).markdown())


if __name__ == "__main__":
    main()
