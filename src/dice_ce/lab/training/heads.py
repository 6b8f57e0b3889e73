"""Training the heads: the Selector h_psi and the diagnoser g_phi on frozen features."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError, require
from dice_ce.lab.training.samples import Samples
from dice_ce.method.selector import Head
from dice_ce.types import Floats, Ints

if TYPE_CHECKING:
    import torch


FEWEST = 10
"""Lesion and normal frames that a case needs for pairs inside it."""
CASES_AT_ONCE, PAIRS_OF_A_CASE = 16, 8
SMALLEST_SHARE = 0.003
"""Added to a label's share, so that one with hardly any frame does not become the likeliest of all."""


@dataclass(frozen=True)
class HeadConfig:
    """How a head is trained. There is no early stop: an odd validation case once kept a head that knew nothing."""

    hidden: int = 256
    learning_rate: float = 6e-4
    """The largest of a rising and falling course."""
    weight_decay: float = 0.3
    dropout: float = 0.5
    """Both are strong, because what is learnt has to carry over to other patients."""
    label_smoothing: float = 0.1
    """Diagnoser only."""
    inside: float = 0.5
    """Selector only: share of the loss that asks for no more than that a lesion scores higher than normal mucosa of the
    same case, whatever other cases look like."""
    normal_share: float | None = None
    """Diagnoser only: share of normal frames in what is learnt from every source that has both; as it comes, if not
    given. Where it differs between sources, the make of the capsule gives part of the label away."""
    prior_removed: float = 0.5
    """Share of the labels' frequencies that is taken out of the diagnoser's logits."""
    batch: int = 256
    epochs: int = 8
    fewest_steps: int = 300
    """Few frames are gone through more often, until there were so many steps."""
    members: int = 2
    """Heads whose logits are averaged, each from a seed of its own; together they are one wider head."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Trained:
    """A head, and how it came about."""

    head: Head
    log: tuple[float, ...]
    """Training loss of every epoch, averaged over the members."""


def balanced_weights(samples: Samples) -> npt.NDArray[np.float32]:
    """Weigh frames so that neither a frequent label nor a long case drowns the others.

    Every combination of source and label weighs the square root of its number of frames, and within it every case
    the square root of its own; the mean weight is 1.
    """
    keys = [f"{source}|{row.tobytes().hex()}" for source, row in zip(samples.source, samples.labels, strict=True)]
    by_key, by_case = Counter(keys), Counter(zip(keys, samples.case.tolist(), strict=True))
    weight = np.array(
        [(by_key[key] * by_case[key, case]) ** -0.5 for key, case in zip(keys, samples.case.tolist(), strict=True)],
        np.float32,
    )
    weight *= samples.weight
    return np.asarray(weight / weight.mean(), np.float32)


def with_normal_share(samples: Samples, weight: npt.NDArray[np.float32], share: float) -> npt.NDArray[np.float32]:
    """Let normal frames be the same share of every source; what a source weighs as a whole stays as it is."""
    weight = weight.copy()
    for source in np.unique(samples.source):
        lesion, normal = ((samples.source == source) & (samples.abnormal == kind) for kind in (True, False))
        if lesion.any() and normal.any():
            total = weight[lesion].sum() + weight[normal].sum()
            weight[lesion] *= (1 - share) * total / weight[lesion].sum()
            weight[normal] *= share * total / weight[normal].sum()
    return weight


def train_selector(samples: Samples, config: HeadConfig = HeadConfig()) -> Trained:  # noqa: B008  frozen
    """Learn what is abnormal: binary cross-entropy with the classes in balance (paper, section 4.2)."""
    if samples.abnormal.all() or not samples.abnormal.any():
        kind = "lesion" if not samples.abnormal.any() else "normal"
        raise InputError(f"the training frames show no {kind} at all: the Selector needs both; add {kind} frames")
    weight = balanced_weights(samples)
    weight[samples.abnormal] *= weight[~samples.abnormal].sum() / weight[samples.abnormal].sum()
    return _fit(samples, samples.abnormal[:, None], weight, config, _Pairs.of(samples))


def train_diagnoser(samples: Samples, config: HeadConfig = HeadConfig()) -> Trained:  # noqa: B008  frozen
    """Learn the labels; a frame with several shares its mass between them. Frames of no label are left out."""
    samples = samples.labelled()
    if samples.labels.any(axis=0).sum() < 2:
        raise InputError("the training frames have one label only: the diagnoser needs two or more; add other frames")
    weight = balanced_weights(samples)
    if config.normal_share is not None:
        weight = with_normal_share(samples, weight, config.normal_share)
    trained = _fit(samples, samples.labels, weight, config)
    # Rare labels stay rare in what was learnt; whoever reads an exam wants them found all the same.
    share = (samples.labels * weight[:, None]).sum(axis=0) / weight.sum()
    rarity = np.where(share > 0, np.log(share + SMALLEST_SHARE), 0.0)
    bias = trained.head.bias2 - config.prior_removed * rarity
    return replace(trained, head=replace(trained.head, bias2=as_stored(bias)))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Lesions and normal mucosa side by side: rows of both, of every case that has enough of them."""

    cases: tuple[tuple[Ints, Ints], ...]

    @classmethod
    def of(cls, samples: Samples) -> _Pairs:
        """Find them."""
        found = []
        for case in np.unique(samples.case):
            rows = np.flatnonzero(samples.case == case)
            both = rows[samples.abnormal[rows]], rows[~samples.abnormal[rows]]
            if min(map(len, both)) >= FEWEST:
                found.append(both)
        return cls(tuple(found))

    def draw(self, chance: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw rows of lesions, and as many of normal mucosa of the same cases; every case as likely as another."""
        drawn = [self.cases[i] for i in chance.integers(len(self.cases), size=CASES_AT_ONCE)]
        lesions, mucosa = (
            np.concatenate([chance.choice(both[kind], PAIRS_OF_A_CASE) for both in drawn]) for kind in (0, 1)
        )
        return lesions, mucosa


def _fit(
    samples: Samples,
    targets: npt.NDArray[np.bool_],
    weight: npt.NDArray[np.float32],
    config: HeadConfig,
    pairs: _Pairs = _Pairs(()),  # noqa: B008  frozen
) -> Trained:
    with single_threaded():
        members = [_fit_member(samples, targets, weight, config, member, pairs) for member in range(config.members)]
    log = np.mean([losses for _, losses in members], axis=0)
    return Trained(merged([head for head, _ in members]), tuple(round(float(loss), 5) for loss in log))


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let torch compute in the calling thread alone, so that the number of cores does not change what is learnt.

    Threads that meet in every layer gain little on small networks, and spin for hours on a busy machine.
    """
    torch: Any = require("torch", extra="train", purpose="training")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit_member(
    samples: Samples,
    targets: npt.NDArray[np.bool_],
    weight: npt.NDArray[np.float32],
    config: HeadConfig,
    member: int,
    pairs: _Pairs,
) -> tuple[Head, list[float]]:
    torch: Any = require("torch", extra="train", purpose="training")
    torch.manual_seed(config.seed * 1000 + member)
    chance = np.random.default_rng([config.seed, member])
    x, y = _tensors(torch, samples.vectors, targets)
    w = torch.from_numpy(weight)
    network = torch.nn.Sequential(
        torch.nn.LayerNorm(x.shape[1]),
        torch.nn.Linear(x.shape[1], config.hidden),
        torch.nn.GELU(approximate="tanh"),
        torch.nn.Dropout(config.dropout),
        torch.nn.Linear(config.hidden, y.shape[1]),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    per_epoch = math.ceil(len(x) / config.batch)
    epochs = max(config.epochs, math.ceil(config.fewest_steps / per_epoch))
    course = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, total_steps=epochs * per_epoch)
    log = []
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(x)).split(config.batch):
            loss = _loss(torch, network(x[rows].float()), y[rows], w[rows], config.label_smoothing)
            if pairs.cases:
                lesions, mucosa = (network(x[torch.from_numpy(some)].float()) for some in pairs.draw(chance))
                ahead = torch.nn.functional.softplus(mucosa - lesions).mean()
                loss = (1 - config.inside) * loss + config.inside * ahead
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            course.step()
            total += float(loss.detach()) * len(rows)
        log.append(total / len(x))
    return _head(network), log


def merged(heads: Sequence[Head]) -> Head:
    """Put heads side by side into one that gives their mean logits, at the cost of a single wider one."""
    first = np.concatenate([head.scale[:, None] * head.weight1 for head in heads], axis=1)
    bias = np.concatenate([head.bias1 + head.shift @ head.weight1 for head in heads])
    second = np.concatenate([head.weight2 for head in heads]) / len(heads)
    plain = np.ones_like(heads[0].scale)
    parts = (plain, np.zeros_like(plain), first, bias, second, np.mean([head.bias2 for head in heads], axis=0))
    return Head(*(as_stored(part) for part in parts))


def as_stored(values: npt.NDArray[np.floating]) -> Floats:
    """Round weights as a bundle stores them, so that what is calibrated is what will run."""
    return np.ascontiguousarray(values).astype(np.float16).astype(np.float32)


def _tensors(
    torch: Any, vectors: npt.NDArray[np.float16], targets: npt.NDArray[np.bool_]
) -> tuple[torch.Tensor, torch.Tensor]:
    mass = targets.astype(np.float32)
    if mass.shape[1] > 1:
        mass /= mass.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.ascontiguousarray(vectors)), torch.from_numpy(mass)


def _loss(torch: Any, logits: Any, targets: Any, weight: Any, smoothing: float) -> Any:
    functional = torch.nn.functional
    if targets.shape[1] == 1:
        losses = functional.binary_cross_entropy_with_logits(logits[:, 0], targets[:, 0], reduction="none")
    else:
        losses = functional.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    return (losses * weight).sum() / weight.sum()


def _head(network: Any) -> Head:
    norm, first, _, _, second = network
    parts = (norm.weight, norm.bias, first.weight.T, first.bias, second.weight.T, second.bias)
    return Head(*(part.detach().numpy() for part in parts))
