"""`dice-ce finetune`: the fully trained baselines of the paper, from a published model to a diagnoser of frames.

A vision backbone is trained whole, with a fresh head. A vision-language model gets low-rank adapters (LoRA) and learns
the very letters that it is scored by; the adapters are merged, so that the result is an ordinary model. Batches are
drawn and augmented by (seed, step) alone, so that an interrupted run goes on as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import io
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.classifiers import Learnt
from dice_ce.benchmark.frames import balanced_accuracy
from dice_ce.benchmark.significance import Estimate
from dice_ce.datasets.folder import ExamRow
from dice_ce.datasets.tables import Annotation, LabelledFrame
from dice_ce.errors import InputError, require
from dice_ce.files import atomic_folder, cache_root, write_atomically
from dice_ce.lab.training.augment import Augmentation, augment
from dice_ce.lab.training.data import TrainingData, gather
from dice_ce.lab.training.examples import Examples, make_examples
from dice_ce.lab.training.images import Images, joined, kept, read_labelled_images
from dice_ce.lab.training.learners import Learner, start_learner
from dice_ce.lab.training.samples import EXAMS, NEAR, WEAK_WEIGHT, label_frames
from dice_ce.progress import Watch
from dice_ce.taxonomy import Taxonomy

HELD_OUT = 0
"""The fold that nothing is learnt from, and that says how good the result is."""
SAVE_EVERY = 600.0
"""Seconds between two checkpoints, which are large."""


@dataclass(frozen=True)
class FinetuneConfig:
    """How to fine-tune."""

    steps: int = 2000
    batch: int = 32
    at_once: int = 32
    """Images that go through the model together; fewer need less memory and change nothing else."""
    rate: float | None = None
    """Largest learning rate; by default that of the kind of model."""
    decay: float = 0.05
    warm_up: float = 0.06
    smoothing: float = 0.1
    rank: int = 16
    """Rank of the adapters; vision-language models only."""
    size: int = 336
    """Side of the images for a vision-language model; a backbone has its own."""
    near: float = NEAR
    device: str | None = None
    dtype: str | None = None
    """Precision of a vision-language model; backbones are trained in float32."""
    augmentation: Augmentation = field(default_factory=Augmentation)
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Finetuned:
    """What a run gave."""

    learnt: Learnt
    losses: tuple[float, ...]
    """One per step since the run was started or resumed."""
    held_out: Estimate
    """Balanced accuracy over the labels, on cases that were not learnt from."""
    frames: int
    """How many of them."""


def finetune_baseline(
    spec: str,
    paths: Sequence[Path],
    out: Path,
    *,
    taxonomy: Taxonomy = Taxonomy(),  # noqa: B008  frozen
    config: FinetuneConfig = FinetuneConfig(),  # noqa: B008  frozen
    watch: Watch,
) -> Finetuned:
    """Fine-tune a model and write it to a folder that `--diagnoser` takes."""
    data = gather(paths, taxonomy.labels)
    _ = data.exams  # refuses one name for two exams before gigabytes are loaded
    learner = start_learner(
        spec, taxonomy, device=config.device, dtype=config.dtype, size=config.size, rank=config.rank, seed=config.seed
    )
    work = cache_root() / "training" / hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]
    images, frames = read_data(data, taxonomy, learner.size, config.near, work, watch)
    fold = np.array([data.fold[frame.case] for frame in frames])
    examples = make_examples(images, frames, taxonomy, fold != HELD_OUT)
    weak = np.array([WEAK_WEIGHT if frame.words == (WEAK,) else 1.0 for frame in frames])
    examples = replace(examples, weight=examples.weight * weak)
    checkpoint = work / "baseline.pt"
    losses = run_steps(learner, examples, config, checkpoint, watch("fine-tuning", "steps"))
    held = np.flatnonzero(fold == HELD_OUT)
    said = np.concatenate([learner.logits(images.masked(part)) for part in _parts(held, config.at_once)]).argmax(axis=1)
    figure = balanced_accuracy(said, examples.targets[held] > 0, examples.case[held])
    cases = tuple(sorted({frame.case for frame, of in zip(frames, fold, strict=True) if of != HELD_OUT}))
    learnt = Learnt(learner.base, taxonomy.labels, cases, config.steps, learner.has_head)
    with atomic_folder(out, owned=_Everything()) as draft:
        learner.save(draft, learnt)
    checkpoint.unlink(missing_ok=True)
    return Finetuned(learnt, tuple(losses), figure, len(held))


class _Everything:
    """All that lies in a folder of an earlier run."""

    def __contains__(self, name: object) -> bool:
        return True


# --- data ----------------------------------------------------------------------------------------------------------

WEAK = "far from every finding"
"""The word for frames of exams that are taken for normal because the report says nothing near them."""


def read_data(
    data: TrainingData, taxonomy: Taxonomy, size: int, near: float, work: Path, watch: Watch
) -> tuple[Images, list[LabelledFrame]]:
    """Read all images but those of test cases: labelled ones, and the frames of exams that a report speaks for."""
    frames = [frame for frame in data.frames if frame.case in data.fold]
    parts: list[Images] = []
    if frames:
        key = [size, [(str(frame.path), frame.path.stat().st_mtime_ns) for frame in frames]]
        parts.append(kept(work, key, lambda: read_labelled_images(frames, size, watch("reading frames"))))
    exams = [(row, one.annotations[row.exam_id]) for one in data.datasets for row in one.exams]
    exams = [(row, report) for row, report in exams if row.patient_id in data.fold]
    bar = watch("reading exams", "exams") if exams else None
    for done, (row, report) in enumerate(exams):
        images, found = _exam_images(row, report, taxonomy, size, near)
        parts.append(images)
        frames += found
        if bar:
            bar(done + 1, len(exams))
    if not frames:
        raise InputError("no frame can be used; fine-tuning needs labelled frames or exams with findings")
    return joined(parts), frames


def _exam_images(
    row: ExamRow, report: Annotation, taxonomy: Taxonomy, size: int, near: float
) -> tuple[Images, list[LabelledFrame]]:
    with row.open() as exam:
        if not exam.clock.is_exam_time:
            raise InputError(f"exam '{row.exam_id}': only playback time is known; fill the clock columns in exams.csv")
        seconds = np.asarray(exam.clock.ticks * float(exam.clock.unit), np.float64)
        ordinals, labels, weight, _ = label_frames(seconds, report, taxonomy, near)
        wanted = dict(zip(ordinals.tolist(), zip(labels, weight.tolist(), strict=True), strict=True))
        found = dict(exam.images(list(wanted), size=size))
        window = exam.field.mask(size, size).astype(np.uint8)
    frames = []
    for ordinal in found:
        said = tuple(np.array(taxonomy.labels)[wanted[ordinal][0]].tolist())
        words = (WEAK,) if wanted[ordinal][1] < 1 else said
        frames.append(LabelledFrame(row.video, EXAMS, row.patient_id, ordinal, said, words))
    pixels = np.stack(list(found.values())) if found else np.empty((0, size, size, 3), np.uint8)
    return Images(pixels, window[None], np.zeros(len(pixels), np.int64)), frames


# --- steps ---------------------------------------------------------------------------------------------------------


def run_steps(
    learner: Learner, examples: Examples, config: FinetuneConfig, checkpoint: Path, progress: Any
) -> list[float]:
    """Take all steps, or those that are left of an earlier run with the same settings and images."""
    torch = require("torch", extra="finetune", purpose="fine-tuning")
    rate = config.rate or learner.rate
    groups = [{"params": part, "weight_decay": config.decay} for part, _ in learner.groups]
    optimiser = torch.optim.AdamW(groups, lr=rate)
    trained = [value for part, _ in learner.groups for value in part]
    mark = _fingerprint(learner, examples, config)
    first = _take_up(torch, checkpoint, mark, trained, optimiser)
    saved, losses = time.monotonic(), []
    learner.network.train()
    try:
        for step, (pixels, targets) in enumerate(_batches(examples, learner.size, config, first), start=first):
            optimiser.zero_grad(set_to_none=True)
            for group, (_, factor) in zip(optimiser.param_groups, learner.groups, strict=True):
                group["lr"] = rate * factor * pace(step, config)
            losses.append(_step(learner, pixels, targets, step, config))
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            progress(step + 1, config.steps)
            if time.monotonic() - saved > SAVE_EVERY:
                _keep(torch, checkpoint, mark, step + 1, trained, optimiser)
                saved = time.monotonic()
    except KeyboardInterrupt:
        _keep(torch, checkpoint, mark, first + len(losses), trained, optimiser)
        raise
    learner.network.eval()
    return losses


def _step(
    learner: Learner, pixels: npt.NDArray[np.uint8], targets: npt.NDArray[np.float32], step: int, config: FinetuneConfig
) -> float:
    """Add up the gradients of a batch, a part of it at a time; return its mean loss."""
    total = 0.0
    for rows in _parts(np.arange(len(pixels)), config.at_once):
        loss = learner.loss(pixels[rows], targets[rows], step, config.smoothing) * (len(rows) / len(pixels))
        loss.backward()
        total += float(loss.detach())
    if not math.isfinite(total):
        raise InputError(f"fine-tuning: the loss is not a number at step {step + 1}; take a smaller --learning-rate")
    return total


def pace(step: int, config: FinetuneConfig) -> float:
    """Warm up linearly, then fall along a cosine."""
    warm = max(1.0, config.warm_up * config.steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1.0, config.steps - warm)))


def _batches(
    examples: Examples, size: int, config: FinetuneConfig, first: int
) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]]:
    """Yield augmented batches; the next one is made while the present one trains."""
    shares = np.cumsum(examples.weight / examples.weight.sum())

    def draw(step: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
        chance = np.random.default_rng([config.seed, step])
        rows = np.minimum(np.searchsorted(shares, chance.random(config.batch), side="right"), len(shares) - 1)
        images = examples.images
        views = [
            augment(
                np.asarray(images.pixels[row]), images.windows[images.window[row]], size, chance, config.augmentation
            )
            for row in rows
        ]
        return np.stack(views), examples.targets[rows]

    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(draw, first) if first < config.steps else None
        for step in range(first, config.steps):
            assert coming is not None
            ready = coming.result()
            coming = pool.submit(draw, step + 1) if step + 1 < config.steps else None
            yield ready


def _parts(rows: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _fingerprint(learner: Learner, examples: Examples, config: FinetuneConfig) -> str:
    """Tell runs apart: the same settings on other images, or another model, are another run."""
    content = hashlib.sha256()
    for table in (examples.targets, examples.weight, examples.colour):
        content.update(np.ascontiguousarray(table).tobytes())
    return f"{learner.base} {asdict(config)} {content.hexdigest()}"


def _keep(torch: Any, path: Path, mark: str, step: int, trained: Sequence[Any], optimiser: Any) -> None:
    content = io.BytesIO()
    values = [value.detach() for value in trained]
    torch.save({"mark": mark, "step": step, "values": values, "optimiser": optimiser.state_dict()}, content)
    write_atomically(path, content.getvalue())


def _take_up(torch: Any, path: Path, mark: str, trained: Sequence[Any], optimiser: Any) -> int:
    """Go on where an earlier run was interrupted; return its step."""
    if not path.is_file():
        return 0
    saved = torch.load(path, weights_only=True)
    if saved["mark"] != mark:
        raise InputError(f"{path}: belongs to a run with other settings or images; remove it to start afresh")
    with torch.no_grad():
        for value, before in zip(trained, saved["values"], strict=True):
            value.copy_(before)
    optimiser.load_state_dict(saved["optimiser"])
    return int(saved["step"])
