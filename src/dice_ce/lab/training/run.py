"""`dice-ce train`: from data to a bundle, in the order of the paper: features, Selector, diagnoser, calibration.

The heads that ship learn from all cases. Thresholds, temperature, reliabilities and figures come from heads of held-out
folds, see `folds`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.baselines.pool import BUDGET
from dice_ce.benchmark.frames import (
    PatientSpread,
    SelectorFigures,
    balanced_accuracy,
    calibration_error,
    confusion,
    measure_reliability,
    patient_spread,
    selector_figures,
)
from dice_ce.benchmark.significance import Estimate
from dice_ce.benchmark.within import WithinFigures
from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.splits import fold_name
from dice_ce.errors import InputError, UsageError
from dice_ce.features.encoder import Encoder, OnnxEncoder
from dice_ce.files import cache_root
from dice_ce.lab.training.augment import Augmentation, augment
from dice_ce.lab.training.calibration import TAU_S, Calibration
from dice_ce.lab.training.card import Curves, attachments, write_card
from dice_ce.lab.training.data import TEST, TrainingData, gather
from dice_ce.lab.training.familiar import Looks, fit_familiarity, looks_of_cases
from dice_ce.lab.training.folds import HeldOut, hold_out
from dice_ce.lab.training.heads import HeadConfig, train_diagnoser, train_selector
from dice_ce.lab.training.samples import NEAR, Samples, samples_of_exams, samples_of_images
from dice_ce.method.beyond.listing import ListingSettings
from dice_ce.method.beyond.looks import LooksSettings
from dice_ce.method.bundle import (
    DEFAULT_PROFILE,
    Bundle,
    Fast,
    Profile,
    check_encoder,
    load_bundle,
    make_diagnoser,
    save_bundle,
)
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser, softmax
from dice_ce.method.reliability import Reliability
from dice_ce.method.selector import Head, SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.progress import Watch
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats, Image, Progress

DARK = 8
"""Brightness up to which a pixel may lie outside the field of view."""
HELD_OUT = "held-out"
ALL = "all"
LOOKS = 4
"""Frames of a context that a network of its own looks at: few enough to be worth it, and enough to fuse."""


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
    fast_side: int | None = None
    """Side of frames for which another Selector is trained, to see all frames smaller and so faster."""


@dataclass(frozen=True, eq=False)
class Figures:
    """How well networks judge single frames of cases that they never saw."""

    within: dict[str, WithinFigures]
    """Inside patients, by source: what counts."""
    by_diagnoser: dict[str, WithinFigures]
    """The same by the diagnoser's 1 - p(normal), which it could say about every frame, but is asked for few."""
    selector: dict[str, SelectorFigures]
    """By source, all frames first."""
    balanced: dict[str, Estimate]
    spread: dict[str, PatientSpread]
    """What threshold and p(normal) mean on each person, by source."""
    calibration: float
    confusion: npt.NDArray[np.int64]


def train(
    paths: Sequence[Path],
    out: Path,
    *,
    name: str,
    encoder: Encoder,
    fold_encoders: Sequence[Encoder] = (),
    diagnoser: OnnxEncoder | None = None,
    fold_diagnosers: Sequence[OnnxEncoder] = (),
    folds_out: Path | None = None,
    notes: str = "",
    taxonomy: Taxonomy = Taxonomy(),  # noqa: B008  frozen
    config: TrainConfig = TrainConfig(),  # noqa: B008  frozen
    watch: Watch,
) -> tuple[Bundle, dict[str, Figures]]:
    """Train Selector and diagnoser on all cases but the test ones, calibrate them on held-out folds, write a bundle.

    If the encoder learnt from the same cases, `fold_encoders` are those that learnt without each fold. `diagnoser` is a
    network that looks at candidates; what it says is added to what the head says, and `fold_diagnosers` are again those
    that learnt without each fold. `folds_out` is where the bundles of the folds go, for whole exams of these cases.
    `notes` go into the card: what the data is, its licences, what to beware of.
    """
    check_encoder(encoder)
    data = _gather(paths, taxonomy, encoder, config)
    _check_folds(data, fold_encoders, "--fold-encoders")
    if diagnoser is not None:
        _check_folds(data, fold_diagnosers, "--fold-diagnosers", must=True)

    encoders = list(fold_encoders) or [encoder] * data.folds

    def samples_of(fold: int, side: int | None = None) -> tuple[Samples, npt.NDArray[np.int64]]:
        seen = samples_of_cases(data, at_side(encoders[fold], side), taxonomy, config, watch)
        return seen, fold_of(seen, data)

    held_out, looks = hold_out(samples_of, data.folds, config.head), looks_of_cases(data, watch("looking", "cases"))
    small = hold_out(partial(samples_of, side=config.fast_side), data.folds, config.head) if config.fast_side else None
    if diagnoser is not None:
        held_out = _with_networks(held_out, fold_diagnosers, data, watch)
    if folds_out:
        save_fold_bundles(
            folds_out, held_out, looks, encoders, fold_diagnosers, taxonomy, _fast_of_folds(small, config)
        )
    samples = samples_of_cases(data, encoder, taxonomy, config, watch)
    known = samples[fold_of(samples, data) >= 0]
    selector, head = train_selector(known, config.head), train_diagnoser(known, config.head)
    own, scored = make_diagnoser(head.head, diagnoser, encoder, 1.0), held_out
    fast = None
    if small is not None:
        seen = samples_of_cases(data, at_side(encoder, config.fast_side), taxonomy, config, watch)
        fast = _fast(small, train_selector(seen[fold_of(seen, data) >= 0], config.head).head, config)
    if config.diagnoser == "network":
        second, scored = _second_network(data, known, held_out, encoder, taxonomy, config, out, watch)
        own = NetworkDiagnoser((second,))
    calibration, own = held_out.calibration(), replace(own, temperature=scored.temperature())
    figures = {HELD_OUT: measure_figures(scored, calibration, own.temperature, taxonomy)}
    if len(tested := samples[fold_of(samples, data) < 0].once()):
        asked = _ask_about(tested, selector.head, own, data, watch)
        figures[TEST] = measure_figures(asked, calibration, own.temperature, taxonomy)
    reliability = label_reliability(scored, taxonomy)
    save_bundle(
        out,
        name=name,
        taxonomy=taxonomy,
        encoder=encoder,
        selector=calibration.of(selector.head),
        diagnoser=own,
        profiles=untuned(own),
        card=write_card(
            name,
            notes,
            encoder,
            own,
            taxonomy,
            data,
            samples.once(),
            figures,
            reliability,
            config.near,
            small.within(taxonomy) if small else {},
            config.fast_side,
        ),
        fast=fast,
        reliability=reliability,
        familiarity=fit_familiarity(looks[looks.fold >= 0]),
        attachments=attachments(Curves(selector, head)),
    )
    return load_bundle(out), figures


def _gather(
    paths: Sequence[Path],
    taxonomy: Taxonomy,
    encoder: Encoder,
    config: TrainConfig,
) -> TrainingData:
    """Read what there is to learn from; refuse what cannot work before anything is encoded, not hours later."""
    if config.diagnoser == "network":
        from dice_ce.lab.training.second import check_trainable

        check_trainable(encoder)
    data = gather(paths, taxonomy.labels)
    _ = data.exams  # refuses one name for two exams
    return data


def _check_folds(data: TrainingData, networks: Sequence[Encoder], option: str, *, must: bool = False) -> None:
    """Refuse networks that are not one for each fold: figures would rest on cases that they know."""
    if (networks or must) and len(networks) != data.folds:
        raise UsageError(f"{option}: {len(networks)} networks for {data.folds} folds; train one for each")


def _with_networks(held_out: HeldOut, networks: Sequence[OnnxEncoder], data: TrainingData, watch: Watch) -> HeldOut:
    """Add to what the heads say about every frame what the network that never saw its case says."""
    logits = held_out.logits.copy()
    for fold, network in enumerate(networks):
        rows = held_out.fold == fold
        bar = watch(f"asking the diagnoser of fold {fold}")
        logits[rows] += _network_logits(held_out.samples[rows], network, data, bar)
    return replace(held_out, logits=logits)


def _fast(held_out: HeldOut, selector: Head, config: TrainConfig) -> Fast:
    """Calibrate a Selector that sees all frames smaller."""
    assert config.fast_side is not None
    return Fast(config.fast_side, held_out.calibration().of(selector))


def _fast_of_folds(held_out: HeldOut | None, config: TrainConfig) -> list[Fast]:
    if held_out is None:
        return []
    return [_fast(held_out.without(fold), heads.selector, config) for fold, heads in enumerate(held_out.heads)]


def at_side(encoder: Encoder, side: int | None) -> Encoder:
    """Return an encoder for frames of another side; without one, as it is."""
    if side is None:
        return encoder
    if not isinstance(encoder, OnnxEncoder):
        raise UsageError(f"--fast-side {side}: {encoder.name} takes frames of its own size only; give an .onnx file")
    return encoder.at(side)


def untuned(diagnoser: HeadDiagnoser | NetworkDiagnoser) -> dict[str, Profile]:
    """Settings to begin with."""
    looks = LooksSettings(LOOKS if isinstance(diagnoser, NetworkDiagnoser) else None)
    settings = Settings(selector=SelectorSettings(TAU_S), looks=looks, listing=ListingSettings(most_items=BUDGET))
    return {DEFAULT_PROFILE: Profile(settings, "not tuned")}


def save_fold_bundles(
    folder: Path,
    held_out: HeldOut,
    looks: Looks,
    encoders: Sequence[Encoder],
    networks: Sequence[OnnxEncoder],
    taxonomy: Taxonomy,
    fast: Sequence[Fast] = (),
) -> None:
    """Write a bundle for every fold: what may judge whole exams of its cases. Calibrated on the other folds."""
    for fold, (heads, encoder) in enumerate(zip(held_out.heads, encoders, strict=True)):
        others = held_out.without(fold)
        own = make_diagnoser(heads.diagnoser, networks[fold] if networks else None, encoder, others.temperature())
        save_bundle(
            folder / fold_name(fold),
            name=fold_name(fold),
            taxonomy=taxonomy,
            encoder=encoder,
            selector=others.calibration().of(heads.selector),
            diagnoser=own,
            profiles=untuned(own),
            familiarity=fit_familiarity(looks[(looks.fold >= 0) & (looks.fold != fold)]),
            fast=fast[fold] if fast else None,
            card=f"# Model card: `{fold_name(fold)}`\n\nFor cross-validation: knows no case of this fold.\n",
        )


def _ask_about(
    tested: Samples, selector: Head, diagnoser: HeadDiagnoser | NetworkDiagnoser, data: TrainingData, watch: Watch
) -> HeldOut:
    """Let the networks that ship judge the test cases."""
    if isinstance(diagnoser, NetworkDiagnoser):
        tested = tested.labelled()
        bar = watch("asking the diagnoser about test cases")
        said = [_network_logits(tested, network, data, bar) for network in diagnoser.networks]
        logits = np.asarray(np.sum(said, axis=0), np.float32)
    else:
        logits = diagnoser.head(tested.vectors)
    nowhere = np.full(len(tested), -1)
    return HeldOut(tested, nowhere, selector(tested.vectors)[:, 0], logits, ())


def _second_network(
    data: TrainingData,
    known: Samples,
    held_out: HeldOut,
    encoder: Encoder,
    taxonomy: Taxonomy,
    config: TrainConfig,
    out: Path,
    watch: Watch,
) -> tuple[OnnxEncoder, HeldOut]:
    """Fine-tune a diagnoser of its own. That takes hours, so there is one, and one fold that it is judged on."""
    from dice_ce.lab.training.finetune import Recipe
    from dice_ce.lab.training.second import train_second_network

    work = cache_root() / "training" / hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]
    recipe = Recipe(steps=config.steps, seed=config.head.seed)
    bar = watch("fine-tuning the diagnoser", "steps")
    samples = known[fold_of(known, data) > 0].once()  # views are for the heads; the network draws its own
    network = train_second_network(samples, data.exams, encoder, taxonomy, work, recipe=recipe, progress=bar)
    judged = held_out[(held_out.fold == 0) & held_out.samples.labels.any(axis=1)]
    asking = watch("asking the diagnoser about held-out cases")
    return network, replace(judged, logits=_network_logits(judged.samples, network, data, asking))


def _network_logits(samples: Samples, network: Encoder, data: TrainingData, progress: Progress) -> Floats:
    from dice_ce.lab.training.second import logits_of

    return logits_of(samples, data.exams, network, progress)


def fold_of(samples: Samples, data: TrainingData) -> npt.NDArray[np.int64]:
    """Return the fold of every sample; -1 for test cases."""
    return np.array([data.fold.get(str(case), -1) for case in samples.case], np.int64)


def samples_of_cases(
    data: TrainingData, encoder: Encoder, taxonomy: Taxonomy, config: TrainConfig, watch: Watch
) -> Samples:
    """Encode all cases; images to learn from also in augmented views."""
    parts = [samples_of_images((), encoder, taxonomy)]
    if data.frames:
        parts.append(samples_of_images(data.frames, encoder, taxonomy, progress=watch("encoding frames")))
    learnt_from = [frame for frame in data.frames if frame.split != TEST]
    for view in range(config.views if learnt_from else 0):
        bar = watch(f"encoding view {view + 1} of {config.views}")
        parts.append(
            samples_of_images(
                learnt_from, encoder, taxonomy, change=other_view, variant=f"augmented {view}", progress=bar
            )
        )
    parts += [_exam_samples(dataset, encoder, taxonomy, config, watch) for dataset in data.datasets]
    samples = Samples.join(parts)
    if not len(samples):
        raise InputError("no frame can be used; training needs labelled frames or exams with findings")
    return samples


def _exam_samples(dataset: Dataset, encoder: Encoder, taxonomy: Taxonomy, config: TrainConfig, watch: Watch) -> Samples:
    return samples_of_exams(dataset, encoder, taxonomy, near=config.near, progress=watch("exams", "exams"))


def other_view(image: Image, chance: np.random.Generator) -> Image:
    """Show an image as another capsule might have seen it."""
    window = (image.max(axis=2) > DARK).astype(np.uint8)
    return augment(image, window, len(image), chance, Augmentation())


def measure_figures(scored: HeldOut, calibration: Calibration, temperature: float, taxonomy: Taxonomy) -> Figures:
    """Report on frames that nothing was trained on, source by source."""
    samples = scored.samples
    score = calibration.scores(scored.suspicion)
    labelled = np.asarray(samples.labels.any(axis=1))
    everything = softmax(scored.logits, temperature)
    known, distributions = samples[labelled], everything[labelled]
    said = distributions.argmax(axis=1)
    return Figures(
        scored.within(taxonomy),
        scored.within(taxonomy, 1 - everything[:, taxonomy.normal]),
        {
            source: selector_figures(score[rows], samples.abnormal[rows], samples.case[rows], TAU_S)
            for source, rows in _by_source(samples).items()
        },
        {
            source: balanced_accuracy(said[rows], known.labels[rows], known.case[rows])
            for source, rows in _by_source(known).items()
        },
        {
            source: patient_spread(
                score[rows], everything[rows, taxonomy.normal], samples.abnormal[rows], samples.case[rows], TAU_S
            )
            for source, rows in _by_source(samples).items()
            if source != ALL
        },
        calibration_error(distributions.max(axis=1), known.labels[np.arange(len(said)), said]),
        confusion(said, known.labels, known.labels.shape[1]),
    )


def label_reliability(scored: HeldOut, taxonomy: Taxonomy) -> dict[str, Reliability]:
    """Tell how well each label is recognised."""
    rows = np.asarray(scored.samples.labels.any(axis=1))
    known, said = scored.samples[rows], scored.logits[rows].argmax(axis=1)
    return measure_reliability(said, known.labels, known.case, taxonomy.labels)


def _by_source(samples: Samples) -> dict[str, npt.NDArray[np.bool_]]:
    """Tell which samples are of each source, all of them first."""
    sources = np.unique(samples.source).tolist()
    return {ALL: np.ones(len(samples), np.bool_), **{source: samples.source == source for source in sources}}
