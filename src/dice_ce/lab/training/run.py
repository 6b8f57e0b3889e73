"""`dice-ce train`: from data to a bundle, in the order of the paper: features, Selector, diagnoser, calibration."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.frames import (
    SelectorFigures,
    balanced_accuracy,
    calibration_error,
    confusion,
    measure_reliability,
    selector_figures,
)
from dice_ce.benchmark.significance import Estimate
from dice_ce.datasets.splits import SPLITS
from dice_ce.errors import InputError
from dice_ce.features.encoder import Encoder, OnnxEncoder
from dice_ce.files import cache_root
from dice_ce.lab.training.augment import Augmentation, augment
from dice_ce.lab.training.calibration import TAU_S, best_temperature, calibrated_selector
from dice_ce.lab.training.card import Curves, attachments, write_card
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.heads import HeadConfig, balanced_weights, train_diagnoser, train_selector
from dice_ce.lab.training.samples import NEAR, Samples, samples_of_exams, samples_of_images
from dice_ce.lab.training.simulated import SOURCE as SIMULATED
from dice_ce.method.bundle import DEFAULT_PROFILE, Bundle, Profile, check_encoder, load_bundle, save_bundle
from dice_ce.method.diagnoser import NetworkDiagnoser, softmax
from dice_ce.method.reliability import Reliability
from dice_ce.method.selector import Head, SelectorSettings, score_vectors
from dice_ce.method.settings import Settings
from dice_ce.progress import Watch
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Image

DARK = 8
"""Brightness up to which a pixel may lie outside the field of view."""


@dataclass(frozen=True)
class TrainConfig:
    """How to train; the encoder stays as it is."""

    head: HeadConfig = field(default_factory=HeadConfig)
    near: float = NEAR
    """Seconds around a keyframe whose frames are taken to show what it shows."""
    views: int = 3
    """Augmented views of every training image, besides the image itself."""
    diagnoser: Literal["head", "network"] = "head"
    """A head on the features, or as in the paper a second network, fine-tuned from the encoder."""
    steps: int = 1400
    """Fine-tuning steps; network diagnoser only."""


@dataclass(frozen=True, eq=False)
class Figures:
    """How well a bundle judges single frames of one split."""

    selector: dict[str, SelectorFigures]
    """By source, all real frames first."""
    balanced: dict[str, Estimate]
    calibration: float
    confusion: npt.NDArray[np.int64]


def train(
    paths: Sequence[Path],
    out: Path,
    *,
    name: str,
    encoder: Encoder,
    notes: str = "",
    taxonomy: Taxonomy = Taxonomy(),  # noqa: B008  frozen
    config: TrainConfig = TrainConfig(),  # noqa: B008  frozen
    watch: Watch,
) -> tuple[Bundle, dict[str, Figures]]:
    """Train Selector and diagnoser, calibrate them on validation cases, report on test cases, write a bundle.

    `notes` go into the card: what the data is, its licences, what to beware of.
    """
    check_encoder(encoder)
    if config.diagnoser == "network":
        from dice_ce.lab.training.second import check_trainable

        check_trainable(encoder)
    data = gather(paths, taxonomy.labels)
    data.check_splits("train", "validation")
    if config.diagnoser == "network":
        _ = data.exams  # refuses one name for two exams before anything is encoded, not hours later
    parts = {split: samples_of_split(data, split, encoder, taxonomy, config, watch) for split in SPLITS}
    for split in ("train", "validation"):
        if not len(parts[split]):
            raise InputError(f"no frame of the split '{split}' can be used; training needs train and validation cases")
    learned = train_selector(parts["train"], parts["validation"], config.head)
    selector = calibrate_selector(learned.head, parts["validation"])
    told = train_diagnoser(parts["train"], parts["validation"], config.head)
    second = None
    if config.diagnoser == "network":
        second = _second_network(data, parts["train"], encoder, taxonomy, config, out, watch)
    held_out = {split: samples for split, samples in parts.items() if split != "train" and len(samples)}
    logits = {split: _logits(samples, told.head, second, data) for split, samples in held_out.items()}
    known = parts["validation"].labelled()
    temperature = best_temperature(logits["validation"], known.labels, balanced_weights(known))
    figures = {
        split: measure_figures(samples, selector, softmax(logits[split], temperature))
        for split, samples in held_out.items()
    }
    reliability = real_reliability(known, logits["validation"], taxonomy)
    curves = Curves(learned, told)
    save_bundle(
        out,
        name=name,
        taxonomy=taxonomy,
        encoder=encoder,
        selector=selector,
        diagnoser=second or told.head,
        temperature=temperature,
        profiles={DEFAULT_PROFILE: Profile(Settings(SelectorSettings(TAU_S)), "not tuned")},
        card=write_card(name, notes, encoder, taxonomy, data, parts, figures, reliability, curves, config.near),
        reliability=reliability,
        attachments=attachments(curves),
    )
    return load_bundle(out), figures


def _second_network(
    data: TrainingData,
    samples: Samples,
    encoder: Encoder,
    taxonomy: Taxonomy,
    config: TrainConfig,
    out: Path,
    watch: Watch,
) -> OnnxEncoder:
    from dice_ce.lab.training.finetune import Recipe
    from dice_ce.lab.training.second import train_second_network

    work = cache_root() / "training" / hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]
    recipe = Recipe(steps=config.steps, seed=config.head.seed)
    bar = watch("fine-tuning the diagnoser", "steps")
    # Views are for the heads; the network draws its own.
    return train_second_network(samples.once(), data.exams, encoder, taxonomy, work, recipe=recipe, progress=bar)


def _logits(samples: Samples, head: Head, second: OnnxEncoder | None, data: TrainingData) -> npt.NDArray[np.float32]:
    """Return the diagnoser's logits of the samples that have a label."""
    known = samples.labelled()
    if second is None:
        return head(known.vectors)
    from dice_ce.lab.training.second import images_of

    return NetworkDiagnoser(second).logits(images_of(known, data.exams, second))


def samples_of_split(
    data: TrainingData,
    split: str,
    encoder: Encoder,
    taxonomy: Taxonomy,
    config: TrainConfig,
    watch: Watch,
) -> Samples:
    """Encode one split; training images also in augmented views."""
    parts = [samples_of_images((), encoder, taxonomy)]
    images = data.frames[split]
    if images:
        parts.append(samples_of_images(images, encoder, taxonomy, progress=watch(f"encoding {split} frames")))
    for view in range(config.views if split == "train" and images else 0):
        bar = watch(f"encoding view {view + 1} of {config.views}")
        parts.append(
            samples_of_images(images, encoder, taxonomy, change=other_view, variant=f"view {view}", progress=bar)
        )
    for dataset in data.datasets:
        if any(row.split == split for row in dataset.exams):
            bar = watch(f"exams of {split}", "exams")
            parts.append(samples_of_exams(dataset.of(split), encoder, taxonomy, near=config.near, progress=bar))
    return Samples.join(parts)


def other_view(image: Image, chance: np.random.Generator) -> Image:
    """Show an image as another capsule might have seen it."""
    window = (image.max(axis=2) > DARK).astype(np.uint8)
    return augment(image, window, len(image), chance, Augmentation())


def calibrate_selector(head: Head, validation: Samples) -> Head:
    """Shift and scale the Selector so that a score of 0.5 reaches the wanted recall on validation frames."""
    logits = head(validation.vectors)[:, 0]
    return calibrated_selector(head, logits, validation.abnormal, balanced_weights(validation), validation.case)


def measure_figures(samples: Samples, selector: Head, distributions: npt.NDArray[np.float32]) -> Figures:
    """Report on frames that nothing was trained on, source by source; distributions are of the labelled ones.

    Where there are real frames, simulated ones count for nothing but their own row.
    """
    score, known = score_vectors(samples.vectors, selector), samples.labelled()
    said = distributions.argmax(axis=1)
    real = known.source != SIMULATED if (known.source != SIMULATED).any() else np.ones(len(known), np.bool_)
    return Figures(
        {
            source: selector_figures(score[rows], samples.abnormal[rows], samples.case[rows], TAU_S)
            for source, rows in _by_source(samples).items()
        },
        {
            source: balanced_accuracy(said[rows], known.labels[rows], known.case[rows])
            for source, rows in _by_source(known).items()
        },
        calibration_error(distributions[real].max(axis=1), known.labels[real, said[real]]),
        confusion(said[real], known.labels[real], known.labels.shape[1]),
    )


def real_reliability(known: Samples, scores: npt.NDArray[np.float32], taxonomy: Taxonomy) -> dict[str, Reliability]:
    """Tell how well each label is recognised, on real frames only: simulated ones show nothing of patients."""
    real = known.source != SIMULATED
    said = scores[real].argmax(axis=1)
    return measure_reliability(said, known.labels[real], known.case[real], taxonomy.labels)


def _by_source(samples: Samples) -> dict[str, npt.NDArray[np.bool_]]:
    """Tell which samples are of each source, all real ones first."""
    sources = [str(source) for source in np.unique(samples.source)]
    real = samples.source != SIMULATED
    name = "all real" if SIMULATED in sources else "all"
    return {**({name: real} if real.any() else {}), **{source: samples.source == source for source in sources}}
