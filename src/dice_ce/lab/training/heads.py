"""Training the heads: the Selector h_psi and the diagnoser g_phi on frozen features."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError, require
from dice_ce.lab.training.samples import Samples
from dice_ce.method.selector import Head

if TYPE_CHECKING:
    import torch


SMALLEST_SHARE = 0.003
"""Added to a label's share, so that one with hardly any frame does not become the likeliest of all."""


@dataclass(frozen=True)
class HeadConfig:
    """How a head is trained."""

    hidden: int = 256
    learning_rate: float = 3e-4
    weight_decay: float = 0.3
    dropout: float = 0.5
    """Both are strong, because what is learnt has to carry over to other patients."""
    label_smoothing: float = 0.1
    """Diagnoser only."""
    prior_removed: float = 0.5
    """Share of the labels' frequencies that is taken out of the diagnoser's logits."""
    batch: int = 256
    epochs: int = 40
    patience: int = 6
    """Epochs without a better validation loss after which training stops."""
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """One line of the training log."""

    epoch: int
    training_loss: float
    validation_loss: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A head, and how it came about."""

    head: Head
    log: tuple[Epoch, ...]
    best: int
    """Epoch whose weights were kept."""


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


def train_selector(train: Samples, validation: Samples, config: HeadConfig = HeadConfig()) -> Trained:  # noqa: B008
    """Learn what is abnormal: binary cross-entropy with the classes in balance (paper, section 4.2)."""
    for name, part in (("training", train), ("validation", validation)):
        if part.abnormal.all() or not part.abnormal.any():
            kind = "lesion" if not part.abnormal.any() else "normal"
            raise InputError(f"the {name} frames show no {kind} at all: the Selector needs both; add {kind} frames")
    weight = balanced_weights(train)
    weight[train.abnormal] *= weight[~train.abnormal].sum() / weight[train.abnormal].sum()
    return _fit(train, validation, train.abnormal[:, None], validation.abnormal[:, None], weight, config)


def train_diagnoser(train: Samples, validation: Samples, config: HeadConfig = HeadConfig()) -> Trained:  # noqa: B008
    """Learn the labels; a frame with several shares its mass between them. Frames of no label are left out."""
    train, validation = train.labelled(), validation.labelled()
    if train.labels.any(axis=0).sum() < 2:
        raise InputError("the training frames have one label only: the diagnoser needs two or more; add other frames")
    weight = balanced_weights(train)
    trained = _fit(train, validation, train.labels, validation.labels, weight, config)
    # Rare labels stay rare in what was learnt; whoever reads an exam wants them found all the same.
    share = (train.labels * weight[:, None]).sum(axis=0) / weight.sum()
    rarity = np.where(share > 0, np.log(share + SMALLEST_SHARE), 0.0)
    bias = trained.head.bias2 - config.prior_removed * rarity
    return replace(trained, head=replace(trained.head, bias2=np.asarray(bias, np.float16).astype(np.float32)))


def _fit(
    train: Samples,
    validation: Samples,
    train_targets: npt.NDArray[np.bool_],
    validation_targets: npt.NDArray[np.bool_],
    weight: npt.NDArray[np.float32],
    config: HeadConfig,
) -> Trained:
    torch: Any = require("torch", extra="train", purpose="training")
    torch.manual_seed(config.seed)
    x, y = _tensors(torch, train.vectors, train_targets)
    vx, vy = _tensors(torch, validation.vectors, validation_targets)
    w, vw = torch.from_numpy(weight), torch.from_numpy(balanced_weights(validation))
    network = torch.nn.Sequential(
        torch.nn.LayerNorm(x.shape[1]),
        torch.nn.Linear(x.shape[1], config.hidden),
        torch.nn.GELU(approximate="tanh"),
        torch.nn.Dropout(config.dropout),
        torch.nn.Linear(config.hidden, y.shape[1]),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    log: list[Epoch] = []
    best: tuple[float, int, Head] | None = None
    for epoch in range(config.epochs):
        network.train()
        total = 0.0
        for rows in torch.randperm(len(x)).split(config.batch):
            loss = _loss(torch, network(x[rows].float()), y[rows], w[rows], config.label_smoothing)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        network.eval()
        with torch.no_grad():
            held_out = float(_loss(torch, network(vx.float()), vy, vw, 0.0))
        log.append(Epoch(epoch, round(total / len(x), 5), round(held_out, 5)))
        if best is None or held_out < best[0]:
            best = (held_out, epoch, _head(network))
        elif epoch - best[1] >= config.patience:
            break
    assert best is not None
    return Trained(best[2], tuple(log), best[1])


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
    """Copy the weights, rounded as they will be stored, so that what is calibrated later is what will run."""
    norm, first, _, _, second = network
    parts = (norm.weight, norm.bias, first.weight.T, first.bias, second.weight.T, second.bias)
    return Head(*(np.ascontiguousarray(part.detach().numpy()).astype(np.float16).astype(np.float32) for part in parts))
