"""What a network is fine-tuned on: images with targets, how often each is drawn, and what is known besides."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError
from dice_ce.lab.training.images import Images
from dice_ce.taxonomy import NORMAL, Taxonomy
from dice_ce.types import Floats

NORMAL_SHARE = 0.45
"""Share of each source in what is drawn."""
ENOUGH = 20
"""Normal images from which the typical colour of a case is believed."""
COLOUR_SAMPLES = 40
FALSE_CANDIDATES = 0.2
"""Share of a case's normal images that count as false candidates: those with the highest scores."""
FEWEST_NORMAL = 10
"""Normal images that a case needs for that."""


@dataclass(frozen=True, eq=False)
class Examples:
    """What to train on."""

    images: Images
    targets: Floats
    """[n, labels]: share of each label; rows sum to 1."""
    normal: int
    """Which label means that there is nothing to report."""
    weight: npt.NDArray[np.float64]
    """How often each image is drawn; any scale."""
    colour: Floats
    """[n, 3]: typical colour of the case."""
    boxes: Floats
    """[n, 4]: left, top, right, bottom of the lesion as shares of the side; not a number where unknown."""
    case: npt.NDArray[np.str_]
    """Which patient, video or block each image is from."""

    def __post_init__(self) -> None:
        n = len(self.images)
        if any(len(getattr(self, part)) != n for part in ("targets", "weight", "colour", "boxes", "case")):
            raise ValueError("expected tables of equal length")
        if not np.isfinite(self.targets).all() or not np.allclose(self.targets.sum(axis=1), 1, atol=1e-4):
            raise InputError("training: the targets of every image must be finite and sum to 1; check the labels")
        is_normal = self.targets[:, self.normal] > 0.5
        if is_normal.all() or not is_normal.any():
            raise InputError("training: needs both normal and abnormal images; add frames of the missing kind")


def draw_weights(
    domains: Sequence[str], labels: Sequence[Sequence[str]], cases: Sequence[str], normal_share: float = NORMAL_SHARE
) -> npt.NDArray[np.float64]:
    """Balance by square roots: over domains, then labels, then cases; each domain has the same share of normals.

    A domain is a source, that is a make of capsule: if its share of normals were its own, the make would give the
    label away. An image with several labels counts for its rarest; one with none is nothing to report.
    """
    counts = Counter(label for several in labels for label in several)
    rarest = [min(several, key=lambda label: counts[label]) if several else "" for several in labels]
    groups = [
        (domain, label in ("", NORMAL), label, case) for domain, label, case in zip(domains, rarest, cases, strict=True)
    ]
    sizes = Counter(groups)
    of_domain, of_label, of_case = (_tempered(groups, depth) for depth in (1, 3, 4))
    kinds = {group[:2] for group in groups}

    def weight(group: tuple[str, bool, str, str]) -> float:
        domain, is_normal = group[:2]
        share = normal_share if is_normal else 1 - normal_share
        if (domain, not is_normal) not in kinds:
            share = 1.0
        return share * of_domain[group[:1]] * of_label[group[:3]] * of_case[group] / sizes[group]

    return np.array([weight(group) for group in groups])


def _tempered(groups: Sequence[tuple[Any, ...]], depth: int) -> dict[tuple[Any, ...], float]:
    """Share what a parent has among its children by the square roots of their sizes."""
    sizes = Counter(group[:depth] for group in groups)
    total: dict[tuple[Any, ...], float] = defaultdict(float)
    for key, size in sizes.items():
        total[key[:-1]] += math.sqrt(size)
    return {key: math.sqrt(size) / total[key[:-1]] for key, size in sizes.items()}


def make_examples(
    images: Images,
    frames: Sequence[LabelledFrame],
    taxonomy: Taxonomy,
    in_training: npt.NDArray[np.bool_] | None = None,
) -> Examples:
    """Make a table of labelled frames ready for training; frames outside the taxonomy are nothing to report.

    Frames that are not `in_training` are never drawn. They stay in the table, since images may be on disk only.
    """
    targets = np.zeros((len(frames), len(taxonomy)), np.float32)
    boxes = np.full((len(frames), 4), np.nan, np.float32)
    for row, frame in enumerate(frames):
        found = [label for label in frame.labels if label != NORMAL] or [NORMAL]
        targets[row, [taxonomy.index(label) for label in found]] = 1 / len(found)
        if frame.boxes:
            box = frame.boxes[0]
            boxes[row] = (box.left, box.top, box.right, box.bottom)
    sources, cases = [frame.source for frame in frames], [frame.case for frame in frames]
    drawn = [row for row in range(len(frames)) if in_training is None or in_training[row]]
    weight = np.zeros(len(frames))
    weight[drawn] = draw_weights(
        [sources[row] for row in drawn], [frames[row].labels for row in drawn], [cases[row] for row in drawn]
    )
    is_normal = np.asarray(targets[:, taxonomy.normal] == 1, np.bool_)
    colour = typical_colours(images, np.array(sources), np.array(cases), is_normal)
    return Examples(images, targets, taxonomy.normal, weight, colour, boxes, np.array(cases, np.str_))


def with_false_candidates(examples: Examples, suspicion: Floats, share: float) -> Examples:
    """Draw the images more often that are taken for lesions, though they are normal.

    They become this share of what is drawn of a case's normal images; how often the case and its lesions are drawn
    stays as it was.
    """
    weight = examples.weight.copy()
    is_normal = examples.targets[:, examples.normal] > 0.5
    for case in np.unique(examples.case):
        rows = np.flatnonzero((examples.case == case) & is_normal & (examples.weight > 0))
        if len(rows) < FEWEST_NORMAL:
            continue
        highest = rows[np.argsort(-suspicion[rows], kind="stable")[: int(FALSE_CANDIDATES * len(rows))]]
        of_highest = examples.weight[highest] / examples.weight[highest].sum()
        of_case = weight[rows].sum()
        weight[rows] *= 1 - share
        weight[highest] += share * of_case * of_highest
    return replace(examples, weight=weight)


def typical_colours(
    images: Images, sources: npt.NDArray[np.str_], cases: npt.NDArray[np.str_], is_normal: npt.NDArray[np.bool_]
) -> Floats:
    """Give every image the mean colour of its case's normal mucosa; if there is little of it, of its source's."""
    colours = np.zeros((len(images), 3), np.float32)
    for source in np.unique(sources):
        of_source = np.flatnonzero(sources == source)
        normal = of_source[is_normal[of_source]]
        fallback = _mean_colour(images, normal if len(normal) else of_source)
        for case in np.unique(cases[of_source]):
            rows = of_source[cases[of_source] == case]
            normal = rows[is_normal[rows]]
            colours[rows] = _mean_colour(images, normal) if len(normal) >= ENOUGH else fallback
    return np.maximum(colours, 1)


def _mean_colour(images: Images, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    chosen = np.random.default_rng(0).choice(rows, min(len(rows), COLOUR_SAMPLES), replace=False)
    inside = images.windows[images.window[chosen]].sum(dtype=np.int64)
    return np.asarray(images.masked(np.sort(chosen)).sum((0, 1, 2), dtype=np.int64) / max(1, int(inside)))
