"""Fine-tuning of an encoder on labelled images: shared features, one head for abnormal or not, one for the labels.

Every sample is drawn, augmented and counted by (seed, step, place in the batch) alone, so that a run that was
interrupted goes on from its checkpoint as if nothing had happened.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError, require
from dice_ce.files import write_atomically
from dice_ce.lab.training.augment import Augmentation, augment, paste
from dice_ce.lab.training.examples import Examples, with_false_candidates
from dice_ce.lab.training.heads import single_threaded
from dice_ce.lab.training.network import CLASSES, SELECTOR, TEACHER, Network, features, frozen_session, head
from dice_ce.lab.training.teacher import Lesson, Teacher
from dice_ce.types import Floats, Progress

torch = require("torch", extra="train", purpose="fine-tuning")


WORKERS = 2
"""Threads that share a batch; a constant, since another number would round sums differently."""
AT_ONCE = 4
"""Images that the frozen part sees together: what they leave behind still fits into the processor's cache."""
FEWEST = 10
"""Images of lesions and of normal mucosa that a case needs for pairs inside it."""
SWAP_LIMITS = (0.6, 1.6)
"""Spread of the colour gain that makes one case look like another."""


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes a run, besides the network and the images."""

    steps: int = 1400
    batch: int = 64
    sizes: tuple[tuple[float, int], ...] = ((0.0, 128), (0.5, 160))
    """From which share of the run on images have which side: small ones first, which are cheaper."""
    rate: float = 1e-3
    """Largest learning rate, of the last layer; relative to the size of the weights."""
    rate_of_first: float = 0.3
    """Learning rate of the first trained layer, as a share of `rate`; those between follow geometrically."""
    head_rate: float = 1e-3
    warm_up: float = 0.06
    decay: float = 0.05
    smoothing: float = 0.1
    dropout: float = 0.2
    average: float = 0.995
    """Decay of the running average of the weights, which is what is kept."""
    swap_colours: float = 0.4
    """Share of images that get the typical colours of another case."""
    counterfactual: float = 0.33
    """Share of a batch that is pairs of the same normal image, seen in the same way, with and without a lesion of
    another image blended in; half of those without get a harmless patch instead, so that a seam means nothing."""
    inside: float = 0.33
    """Share of a batch that is pairs of a lesion and a normal image of one case, so that the case tells nothing."""
    said_by_teacher: float = 0.5
    """Share of a target that is what a teacher says of the image, if there is one, and not its label."""
    seen_by_teacher: float = 2.0
    """Weight of the squared error of the teacher's features."""
    false_candidates: float = 0.0
    """Share of what is drawn of a case's normal images, from half of the run on, that looks most like lesions to the
    network as it is then: what a diagnoser will be asked about."""
    augmentation: Augmentation = dataclasses.field(default_factory=Augmentation)
    seed: int = 0


def finetune(
    network: Network,
    examples: Examples,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    every: float = 60.0,
    progress: Progress | None = None,
    look: Callable[[int, Network], None] | None = None,
    teacher: Teacher | None = None,
) -> tuple[Network, list[tuple[int, float, float]]]:
    """Train; return the averaged network and the curve (step, selector loss, class loss).

    With `checkpoint`, the state is written every so many seconds, and an earlier one is taken up. `look` is called
    with the averaged network whenever that happens. With a teacher, the network needs the head TEACHER of its length.
    """
    state = _State.start(network, recipe)
    mark = fingerprint(recipe, examples) + (f" taught by {teacher.digest}" if teacher is not None else "")
    if checkpoint is not None and checkpoint.exists():
        state.load(checkpoint, mark)
    saved, sessions = time.monotonic(), dict[int, Any]()
    with single_threaded(), ThreadPoolExecutor(WORKERS) as workers:
        for step, pixels, targets in batches(examples, recipe, state.step, recipe.steps):
            size = pixels.shape[1]
            if size not in sessions:
                sessions[size] = frozen_session(network, size, threads=1)
            state.train(workers, sessions[size], pixels, targets, examples.normal, teacher)
            if progress is not None:
                progress(step + 1, recipe.steps)
            if checkpoint is not None and (time.monotonic() - saved > every or step + 1 == recipe.steps):
                state.save(checkpoint, mark)
                if look is not None:
                    look(state.step, network.with_parameters(state.mean))
                saved = time.monotonic()
    return network.with_parameters(state.mean), state.curve


def fingerprint(recipe: Recipe, examples: Examples) -> str:
    """Tell runs apart: the same settings on other images, or another split, are another run."""
    content = hashlib.sha256()
    for table in (examples.targets, examples.weight, examples.colour):
        content.update(np.ascontiguousarray(table).tobytes())
    return f"{dataclasses.asdict(recipe)} {content.hexdigest()}"


def _frozen(session: Any, pixels: npt.NDArray[np.uint8]) -> Any:
    name, parts = session.get_inputs()[0].name, range(0, len(pixels), AT_ONCE)
    return torch.from_numpy(np.concatenate([session.run(None, {name: pixels[i : i + AT_ONCE]})[0] for i in parts]))


@dataclass(eq=False)
class _State:
    """What a run knows at a step."""

    network: Network
    recipe: Recipe
    optimiser: Any
    rates: list[float]
    mean: dict[str, Any]
    step: int
    curve: list[tuple[int, float, float]]

    @classmethod
    def start(cls, network: Network, recipe: Recipe) -> _State:
        fresh = {name: value.clone().requires_grad_() for name, value in network.parameters().items()}
        network = dataclasses.replace(
            network,
            change={name: fresh[f"change.{name}"] for name in network.change},
            heads={name: fresh[name] for name in network.heads},
        )
        depth = max(1, len(network.change) - 1)
        groups, rates = [], []
        for place, value in enumerate(network.change.values()):
            rates.append(recipe.rate * recipe.rate_of_first ** (1 - place / depth))
            groups.append({"params": [value], "weight_decay": recipe.decay})
        for value in network.heads.values():
            rates.append(recipe.head_rate)
            groups.append({"params": [value], "weight_decay": recipe.decay})
        optimiser = torch.optim.AdamW(groups, lr=recipe.rate)
        mean = {name: value.detach().clone() for name, value in fresh.items()}
        return cls(network, recipe, optimiser, rates, mean, 0, [])

    def train(
        self,
        workers: ThreadPoolExecutor,
        session: Any,
        pixels: npt.NDArray[np.uint8],
        targets: Floats,
        normal: int,
        teacher: Teacher | None,
    ) -> None:
        """Take one step; every worker computes the gradient of its share of the batch."""
        recipe, parameters = self.recipe, self.network.parameters()

        def gradient(shard: int) -> tuple[float, float, tuple[Any, ...]]:
            images, wanted = pixels[shard::WORKERS], targets[shard::WORKERS]
            vectors = features(self.network, _frozen(session, images))
            generator = torch.Generator().manual_seed((recipe.seed * 1_000_003 + self.step) * WORKERS + shard)
            kept = torch.rand(vectors.shape, generator=generator) >= recipe.dropout
            lesson = teacher(images) if teacher is not None else None
            losses = _losses(self.network, vectors * kept / (1 - recipe.dropout), wanted, normal, lesson, recipe)
            gradients = torch.autograd.grad(sum(losses), list(parameters.values()))
            return float(losses[0].detach()), float(losses[1].detach()), gradients

        shards = list(workers.map(gradient, range(min(WORKERS, len(pixels)))))
        for value, *parts in zip(parameters.values(), *(gradients for *_, gradients in shards), strict=True):
            value.grad = sum(parts[1:], parts[0]) / len(parts)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * pace(self.step, recipe)
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), 5.0)
        self.optimiser.step()
        share = min(recipe.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in parameters.items():
                self.mean[name].lerp_(value, 1 - share)
        self.step += 1
        selector_loss, class_loss = (float(np.mean([shard[i] for shard in shards])) for i in (0, 1))
        self.curve.append((self.step, selector_loss, class_loss))

    def save(self, path: Path, fingerprint: str) -> None:
        content = io.BytesIO()
        parameters = {name: value.detach() for name, value in self.network.parameters().items()}
        torch.save(
            {
                "fingerprint": fingerprint,
                "step": self.step,
                "curve": self.curve,
                "parameters": parameters,
                "mean": self.mean,
                "optimiser": self.optimiser.state_dict(),
            },
            content,
        )
        write_atomically(path, content.getvalue())

    def load(self, path: Path, fingerprint: str) -> None:
        saved = torch.load(path, weights_only=True)
        if saved["fingerprint"] != fingerprint:
            raise InputError(f"{path}: belongs to a run with other settings or images; remove it to start afresh")
        with torch.no_grad():
            for name, value in self.network.parameters().items():
                value.copy_(saved["parameters"][name])
        self.mean, self.step, self.curve = saved["mean"], saved["step"], saved["curve"]
        self.optimiser.load_state_dict(saved["optimiser"])


def pace(step: int, recipe: Recipe) -> float:
    """Warm up linearly, then fall along a cosine."""
    warm = max(1.0, recipe.warm_up * recipe.steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1.0, recipe.steps - warm)))


def _losses(
    network: Network, vectors: Any, targets: Floats, normal: int, lesson: Lesson | None, recipe: Recipe
) -> tuple[Any, ...]:
    """Return the cross-entropy of abnormal or not, that of the labels, which share the mass of their image, and how far
    the teacher's features were missed.
    """
    functional, smoothing, share = torch.nn.functional, recipe.smoothing, recipe.said_by_teacher
    mixed = targets if lesson is None else (1 - share) * targets + share * lesson.said
    wanted = torch.from_numpy(mixed.astype(np.float32))
    smooth = (1 - wanted[:, normal]) * (1 - smoothing) + smoothing / 2
    losses = (
        functional.binary_cross_entropy_with_logits(head(network, SELECTOR, vectors)[:, 0], smooth),
        functional.cross_entropy(head(network, CLASSES, vectors), wanted, label_smoothing=smoothing),
    )
    if lesson is None:
        return losses
    missed = functional.mse_loss(head(network, TEACHER, vectors), torch.from_numpy(lesson.seen))
    return (*losses, recipe.seen_by_teacher * missed)


def course(
    examples: Examples, recipe: Recipe, start: int, suspicion: Callable[[], Floats]
) -> Iterator[tuple[int, npt.NDArray[np.uint8], Floats]]:
    """Yield the batches of a run; from its half on, false candidates are drawn more often.

    `suspicion` is asked there how much every image looks like a lesion.
    """
    half = recipe.steps // 2 if recipe.false_candidates else recipe.steps
    yield from batches(examples, recipe, start, half)
    if half < recipe.steps:
        harder = with_false_candidates(examples, suspicion(), recipe.false_candidates)
        yield from batches(harder, recipe, max(start, half), recipe.steps)


def batches(
    examples: Examples, recipe: Recipe, start: int, end: int
) -> Iterator[tuple[int, npt.NDArray[np.uint8], Floats]]:
    """Yield augmented batches; the next one is made while the present one trains."""
    drawer = _Drawer(examples, recipe)
    with ThreadPoolExecutor(max_workers=2) as pool:

        def order(step: int) -> list[Future[tuple[npt.NDArray[np.uint8], Floats]]]:
            size = [side for share, side in recipe.sizes if step >= share * recipe.steps][-1]
            return [pool.submit(drawer.draw, step, place, size) for place in range(recipe.batch)]

        coming = order(start) if start < end else []
        for step in range(start, end):
            ready, coming = coming, order(step + 1) if step + 1 < end else []
            pixels, targets = zip(*(sample.result() for sample in ready), strict=True)
            yield step, np.stack(pixels), np.stack(targets)


class _Drawer:
    """Draws samples by their weights."""

    def __init__(self, examples: Examples, recipe: Recipe) -> None:
        self._examples, self._recipe = examples, recipe
        self._any = np.cumsum(examples.weight / examples.weight.sum())
        area = (examples.boxes[:, 2] - examples.boxes[:, 0]) * (examples.boxes[:, 3] - examples.boxes[:, 1])
        # Not a number compares as false, so images without a box are out.
        with np.errstate(invalid="ignore"):
            fits = (area > 0.002) & (area < 0.25) & (examples.targets[:, examples.normal] < 0.5) & (examples.weight > 0)
        self._boxed = np.flatnonzero(fits)
        self._with_box = _shares(examples.weight[self._boxed])
        is_normal, drawn = examples.targets[:, examples.normal] > 0.5, examples.weight > 0
        self._normal = np.flatnonzero(is_normal & drawn)
        self._of_normal = _shares(examples.weight[self._normal])
        self._both = [
            tuple((rows[kind], _shares(examples.weight[rows[kind]])) for kind in (~is_normal[rows], is_normal[rows]))
            for case in np.unique(examples.case[drawn])
            if min(np.bincount(is_normal[rows := np.flatnonzero(examples.case == case)], minlength=2)) >= FEWEST
        ]

    def draw(self, step: int, place: int, size: int) -> tuple[npt.NDArray[np.uint8], Floats]:
        """Make one sample; nothing but its place in the run decides what it is. Even and odd places are pairs."""
        recipe = self._recipe
        pair, first = place // 2, place % 2 == 0
        of_pair = np.random.default_rng([recipe.seed, step, pair])
        lot = of_pair.random()
        if lot < recipe.counterfactual and len(self._boxed):
            return self._counterfactual(of_pair, size, first)
        chance = np.random.default_rng([recipe.seed, step, pair, place])
        inside = lot >= 1 - recipe.inside and self._both
        row = self._inside(of_pair, chance, first) if inside else self._row(chance)
        return self._seen(self._examples.images.pixels[row], row, chance, size), self._examples.targets[row]

    def _counterfactual(
        self, chance: np.random.Generator, size: int, with_lesion: bool
    ) -> tuple[npt.NDArray[np.uint8], Floats]:
        """Make one of two views of a normal image that differ in nothing but the patch blended in."""
        examples = self._examples
        row, other = (_draw(self._normal, self._of_normal, chance) for _ in range(2))
        donor = _draw(self._boxed, self._with_box, chance)
        harmless = chance.random() < 0.5
        for_patch, for_view = (np.random.default_rng(chance.integers(1 << 62)) for _ in range(2))
        image = examples.images.pixels[row]
        if with_lesion:
            image = paste(image, self._patch(donor, donor), for_patch)
        elif harmless:
            image = paste(image, self._patch(other, donor), for_patch)
        return self._seen(image, row, for_view, size), examples.targets[donor if with_lesion else row]

    def _inside(self, of_pair: np.random.Generator, chance: np.random.Generator, lesion: bool) -> int:
        """Draw a lesion or a normal image of the case that a pair is about."""
        rows, share = self._both[int(of_pair.integers(len(self._both)))][0 if lesion else 1]
        return _draw(rows, share, chance)

    def _seen(
        self, image: npt.NDArray[np.uint8], row: int, chance: np.random.Generator, size: int
    ) -> npt.NDArray[np.uint8]:
        """Augment an image of the given row."""
        examples, recipe = self._examples, self._recipe
        gain = None
        if chance.random() < recipe.swap_colours:
            gain = np.clip(examples.colour[self._row(chance)] / examples.colour[row], *SWAP_LIMITS)
        own = examples.images.windows[examples.images.window[row]]
        return augment(np.asarray(image), own, size, chance, recipe.augmentation, gain)

    def _row(self, chance: np.random.Generator) -> int:
        return min(int(np.searchsorted(self._any, chance.random(), side="right")), len(self._any) - 1)

    def _patch(self, row: int, boxed: int) -> npt.NDArray[np.uint8]:
        """Cut out, with a margin, what lies in a box; the box may be another image's."""
        side = self._examples.images.size
        left, top, right, bottom = self._examples.boxes[boxed]
        wide, high = 0.4 * (right - left) + 0.02, 0.4 * (bottom - top) + 0.02
        x0, x1 = (int(np.clip(value * side, 0, side)) for value in (left - wide, right + wide))
        y0, y1 = (int(np.clip(value * side, 0, side)) for value in (top - high, bottom + high))
        return np.asarray(self._examples.images.pixels[row, y0 : max(y1, y0 + 4), x0 : max(x1, x0 + 4)])


def _shares(weight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Add weights up to 1, to draw by."""
    return np.cumsum(weight / weight.sum()) if len(weight) else weight


def _draw(rows: npt.NDArray[np.int64], shares: npt.NDArray[np.float64], chance: np.random.Generator) -> int:
    return int(rows[min(int(np.searchsorted(shares, chance.random(), side="right")), len(rows) - 1)])
