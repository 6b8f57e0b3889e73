"""The diagnoser as in the paper: a second network, fine-tuned from the encoder, that looks at candidate frames only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from dice_ce.datasets.folder import ExamRow
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import EncoderError, InputError
from dice_ce.features.encoder import Encoder, OnnxEncoder
from dice_ce.features.images import encode_images
from dice_ce.lab.training.examples import make_examples
from dice_ce.lab.training.finetune import Recipe, finetune
from dice_ce.lab.training.images import Images, joined, read_exam_images, read_labelled_images
from dice_ce.lab.training.network import CLASSES, SELECTOR, export_network, read_network
from dice_ce.lab.training.samples import Samples
from dice_ce.method.diagnoser import look_at
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats, Progress

FROZEN = 15
"""Convolutions that stay as they are: the first five stages of EfficientNet-Lite, which see edges and colours."""


def check_trainable(encoder: Encoder) -> OnnxEncoder:
    """Refuse an encoder that cannot be fine-tuned."""
    if not isinstance(encoder, OnnxEncoder):
        raise EncoderError(f"{encoder.name}: export it to ONNX first: dice-ce encoder export NAME --out FILE.onnx")
    return encoder


def train_second_network(
    samples: Samples,
    rows: Mapping[str, ExamRow],
    encoder: Encoder,
    taxonomy: Taxonomy,
    work: Path,
    *,
    recipe: Recipe,
    frozen: int = FROZEN,
    progress: Progress | None = None,
) -> OnnxEncoder:
    """Fine-tune on the images behind the samples; the state in `work` is taken up after an interruption."""
    encoder = check_trainable(encoder)
    known = samples.labelled()
    images = joined(list(_images(known, rows, encoder.input_size)))
    examples = make_examples(images, _frames(known, taxonomy), taxonomy)
    network = read_network(encoder.content, {SELECTOR: 1, CLASSES: len(taxonomy)}, frozen=frozen, seed=recipe.seed)
    tuned, _ = finetune(network, examples, recipe, checkpoint=work / "diagnoser.pt", progress=progress)
    target = work / "diagnoser.onnx"
    export_network(tuned, target, name=f"{encoder.name}-diagnoser", logits=CLASSES)
    return OnnxEncoder.open(target)


def _frames(samples: Samples, taxonomy: Taxonomy) -> list[LabelledFrame]:
    """Describe the samples as labelled frames."""
    return [
        LabelledFrame(Path(origin), str(source), str(case), None, tuple(np.array(taxonomy.labels)[row].tolist()), ())
        for origin, source, case, row in zip(samples.origin, samples.source, samples.case, samples.labels, strict=True)
    ]


def _images(samples: Samples, rows: Mapping[str, ExamRow], size: int) -> Iterator[Images]:
    """Read the images of the samples, in their order: runs of images, and runs of frames of one exam."""
    for exam, part in _runs(samples):
        if exam:
            yield read_exam_images(rows[exam].video, part.origin.astype(np.int64).tolist(), size)
        else:
            images = [
                LabelledFrame(Path(origin), str(source), str(case), None, (), ())
                for origin, source, case in zip(part.origin, part.source, part.case, strict=True)
            ]
            yield read_labelled_images(images, size)


def _runs(samples: Samples) -> Iterator[tuple[str, Samples]]:
    borders = np.flatnonzero(samples.exam[1:] != samples.exam[:-1]) + 1
    for part in np.split(np.arange(len(samples)), borders):
        if len(part):
            yield str(samples.exam[part[0]]), samples[part]


def logits_of(
    samples: Samples, rows: Mapping[str, ExamRow], network: Encoder, progress: Progress | None = None
) -> Floats:
    """Ask a network about the images of the samples; what it said about single images is kept."""
    parts = [np.empty((0, network.dim), np.float32)]
    for exam_id, part in _runs(samples):
        if exam_id:
            with rows[exam_id].open() as exam:
                found = look_at(exam, part.origin.astype(np.int64).tolist(), [network])
        else:
            paths = [Path(origin) for origin in part.origin]
            found = encode_images(paths, network, progress=progress).astype(np.float32)
        if missing := int(np.isnan(found).any(axis=1).sum()):
            name = exam_id or "labelled frames"
            raise InputError(f"{name}: {missing} frames cannot be decoded; copy the images again")
        parts.append(found)
    return np.concatenate(parts)
