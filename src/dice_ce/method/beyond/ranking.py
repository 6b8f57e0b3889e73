"""The context score: how likely would a report mention this context? Ours, not the paper's.

The converger says what a context shows and how surely. Whether somebody would report it is another question: three
sharp views of an ulcer are, a single pale frame among forty like it is not. A logistic regression on what is known
about a context answers it, fitted on patients with reports (`dice_ce.lab.training.ranking`). Many of its inputs are
ranks inside the exam, because what counts as high differs from patient to patient. It orders the contexts, so that a
reader can ask for more or fewer, and items next to a likelier one are set aside: both would be read as one moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from dice_ce.method.chain import Judged
from dice_ce.method.converger import Judgment
from dice_ce.method.selector import Candidates
from dice_ce.method.tokens import unit_length
from dice_ce.settings import setting
from dice_ce.types import Doubles, Floats, Ints

NEAR = 300.0
"""Seconds within which contexts are neighbours: the protocol's window."""
SHARP = 3
"""Best frames that are looked at by themselves."""
TINY = 1e-6


@dataclass(frozen=True)
class RankingSettings:
    """Which of the contexts that the converger kept become items."""

    order: Literal["confidence", "likelihood"] = setting(
        "confidence",
        "which contexts come first: those the converger is surest of, or those a report would likeliest mention",
        search=("confidence", "likelihood"),
        rule="Context score",
        off="confidence",
    )
    tau_report: float = setting(
        0.0,
        "value of what orders contexts below which one is set aside",
        low=0,
        high=1,
        search=(0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4),
        rule="Context score",
        off=0.0,
    )
    apart_seconds: float = setting(
        0.0,
        "time within which only the likeliest context becomes an item",
        low=0,
        search=(0.0, 20.0, 60.0, 150.0, 300.0),
        rule="One item at a time",
        off=0.0,
    )
    most_items: int | None = setting(None, "most items of a summary, the likeliest ones", low=0)


FEATURES = (
    "frames",
    "supporting frames",
    "agreement",
    "confidence",
    "margin",
    "entropy",
    "abnormal evidence",
    "evidence",
    "best frame, abnormal",
    "best frame, label",
    "best frames, label",
    "mean abnormal",
    "best score",
    "best scores",
    "mean score",
    "span",
    "distinct views",
    "rank of evidence",
    "rank of confidence",
    "rank of best score",
    "rank of mean abnormal",
    "rank of views",
    "neighbours",
    "evidence among neighbours",
    "stronger neighbours",
    "neighbours of its label",
    "share of the candidates",
    "contexts of its label",
    "distance to the ends",
)
"""What is known about a context; the order of a ranker's weights."""


@dataclass(frozen=True, eq=False)
class Ranker:
    """A logistic regression on the features of a context."""

    mean: Floats
    scale: Floats
    weight: Floats
    bias: float

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.scale) == len(self.weight) == len(FEATURES):
            raise ValueError(f"a ranker has {len(FEATURES)} weights, this one has {len(self.weight)}")

    def arrays(self) -> dict[str, Floats]:
        """Name the weights for storing."""
        parts = {"mean": self.mean, "scale": self.scale, "weight": self.weight, "bias": np.array([self.bias])}
        return {f"ranker.{name}": np.asarray(part, np.float32) for name, part in parts.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self | None:
        """Read the weights back; None where there are none."""
        if "ranker.weight" not in arrays:
            return None
        mean, scale, weight, bias = (arrays[f"ranker.{name}"] for name in ("mean", "scale", "weight", "bias"))
        return cls(mean, scale, weight, float(bias[0]))

    def __call__(self, features: Doubles) -> Doubles:
        """Return the likelihood of being reported."""
        logits = (features - self.mean) / self.scale @ self.weight + self.bias
        return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)), np.float64)


def rank_contexts(judged: Judged, ranker: Ranker | None, settings: RankingSettings) -> Judged:
    """Give every context its likelihood, and set aside what is unlikely, beside a likelier one, or beyond the limit.

    Without a ranker, or where confidence gives the order, the confidence stands for it.
    """
    judgments = list(judged.judgments)
    if not judgments:
        return judged
    if ranker and settings.order == "likelihood":
        likelihood = ranker(describe_contexts(judged))
    else:
        likelihood = np.array([one.confidence for one in judgments])
    judgments = [replace(one, likelihood=float(value)) for one, value in zip(judgments, likelihood, strict=True)]
    kept: list[float] = []
    for i in sorted((i for i, one in enumerate(judgments) if one.verdict == "kept"), key=lambda i: (-likelihood[i], i)):
        time = judged.woven.keyframes.seconds(judgments[i])
        if likelihood[i] < settings.tau_report or (
            settings.most_items is not None and len(kept) >= settings.most_items
        ):
            judgments[i] = replace(judgments[i], verdict="unlikely")
        elif settings.apart_seconds and any(abs(time - other) <= settings.apart_seconds for other in kept):
            judgments[i] = replace(judgments[i], verdict="beside_likelier")
        else:
            kept.append(time)
    return replace(judged, judgments=tuple(judgments))


def describe_contexts(judged: Judged) -> Doubles:
    """Return the features of every context [n, features]; ranks go from 0 to 1 inside the exam."""
    candidates, normal = judged.candidates, judged.taxonomy.normal
    judgments = judged.judgments
    own = np.array([_describe(one, candidates, judged.distributions, normal) for one in judgments])
    column = {name: own[:, i] for i, name in enumerate(FEATURES[: own.shape[1]])}
    ranks = [
        _ranks(column[name]) for name in ("evidence", "confidence", "best score", "mean abnormal", "distinct views")
    ]
    seconds = np.array([judged.woven.keyframes.seconds(one) for one in judgments])
    labels = np.array([one.label for one in judgments])
    around = _neighbourhood(seconds, column["evidence"], labels)
    first, last = float(candidates.seconds[0]), float(candidates.seconds[-1])
    end = np.minimum(seconds - first, last - seconds) / max(last - first, 1.0)
    share = np.exp(column["frames"]) / max(1, len(candidates))
    alike = np.array([np.log(np.count_nonzero(labels == label)) for label in labels])
    return np.column_stack([own, *ranks, around, share, alike, end])


def _describe(one: Judgment, candidates: Candidates, distributions: Floats, normal: int) -> list[float]:
    rows, p = one.context.rows, distributions[one.context.rows].astype(np.float64)
    score = candidates.score[rows].astype(np.float64)
    abnormal, of_label = 1 - p[:, normal], p[:, one.label]
    evidence = np.clip(one.evidence, TINY, 1)
    return [
        np.log(len(rows)),
        np.log(len(one.retained)),
        len(one.retained) / len(rows),
        one.confidence,
        one.margin,
        float(-(evidence * np.log(evidence)).sum()),
        float(1 - one.evidence[normal]),
        np.log(one.confidence * len(one.retained) + TINY),
        _logit(abnormal.max()),
        _logit(of_label.max()),
        _logit(np.sort(of_label)[-SHARP:].mean()),
        _logit(abnormal.mean()),
        _logit(score.max()),
        _logit(np.sort(score)[-SHARP:].mean()),
        _logit(score.mean()),
        np.log1p(float(candidates.seconds[rows[-1]] - candidates.seconds[rows[0]])),
        np.log1p(_views(candidates.vectors[one.retained])),
    ]


def _logit(value: float) -> float:
    clipped = min(max(float(value), TINY), 1 - TINY)
    return float(np.log(clipped / (1 - clipped)))


def _views(vectors: npt.NDArray[np.floating]) -> float:
    """Count distinct views: how far each frame's appearance is from the one before it, added up."""
    units = unit_length(vectors)
    return float(np.maximum(0, 1 - np.einsum("nd,nd->n", units[:-1], units[1:])).sum())


def _ranks(values: Doubles) -> Doubles:
    """Return the share of the exam's contexts that lie below each value; ties share their mean."""
    _, group, size = np.unique(np.round(values, 9), return_inverse=True, return_counts=True)
    below = np.cumsum(size) - size
    return np.asarray((below + (size - 1) / 2)[group] / max(1, len(values) - 1), np.float64)


def _neighbourhood(seconds: Doubles, evidence: Doubles, labels: Ints) -> Doubles:
    """Look at the contexts within the window: how many, how strong, how many stronger, how many of the same label."""
    order = np.argsort(seconds, kind="stable")
    low = np.searchsorted(seconds[order], seconds - NEAR, side="left")
    high = np.searchsorted(seconds[order], seconds + NEAR, side="right")
    found = np.empty((len(seconds), 4))
    for i, (begin, end) in enumerate(zip(low, high, strict=True)):
        near = order[begin:end]
        strength = np.exp(evidence[near])
        found[i] = (
            np.log(len(near)),
            np.exp(evidence[i]) / strength.sum(),
            np.mean(evidence[near] > evidence[i]),
            np.mean(labels[near] == labels[i]),
        )
    return found
