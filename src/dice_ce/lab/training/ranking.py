"""Fitting the context score: which contexts would a report mention? (`dice_ce.method.beyond.ranking` uses it.)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dice_ce.benchmark.methods import ReadyExam
from dice_ce.datasets.tables import Annotation
from dice_ce.method.beyond.ranking import FEATURES, Ranker, RankingSettings, describe_contexts
from dice_ce.method.chain import Judged
from dice_ce.method.pipeline import judge_contexts
from dice_ce.method.settings import Settings
from dice_ce.types import Bools, Doubles

WINDOW = 300.0
"""Seconds from a finding within which a context may be what was reported: the protocol's."""
RIDGE = 3.0
"""Penalty on the weights: patients with reports are few."""
ROUNDS = 30


@dataclass(frozen=True, eq=False)
class Contexts:
    """The contexts of one exam that the converger kept, and which of them a report mentions."""

    features: Doubles
    reported: Bools


def contexts_of(exam: ReadyExam, annotation: Annotation, settings: Settings) -> Contexts:
    """Describe an exam's contexts as the ranker will see them."""
    judged = judge_contexts(exam.weave(settings), replace(settings, ranking=RankingSettings()))
    kept = [i for i, one in enumerate(judged.judgments) if one.verdict == "kept"]
    if not kept:
        return Contexts(np.empty((0, len(FEATURES))), np.empty(0, np.bool_))
    return Contexts(describe_contexts(judged)[kept], reported_contexts(judged, kept, annotation))


def reported_contexts(judged: Judged, chosen: Sequence[int], annotation: Annotation) -> Bools:
    """Tell which contexts lie where the report has a finding, whatever they are called."""
    seconds = np.array([judged.woven.keyframes.seconds(judged.judgments[i]) for i in chosen])
    times = np.array([finding.seconds for finding in annotation.findings])
    if not len(times):
        return np.zeros(len(seconds), np.bool_)
    return np.asarray((np.abs(seconds[:, None] - times) <= WINDOW).any(axis=1))


def fit_ranker(exams: Iterable[Contexts]) -> Ranker | None:
    """Fit a logistic regression by Newton's method, every exam weighing alike; None where there is nothing to learn."""
    exams = [exam for exam in exams if len(exam.reported)]
    if not exams or len({bool(value) for exam in exams for value in exam.reported}) < 2:
        return None
    x, y = np.concatenate([exam.features for exam in exams]), np.concatenate([exam.reported for exam in exams])
    weight = np.concatenate([np.full(len(exam.reported), len(exam.reported) ** -0.5) for exam in exams])
    weight *= len(y) / weight.sum()
    mean = np.average(x, axis=0, weights=weight)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight)) + 1e-6
    z = np.column_stack([(x - mean) / scale, np.ones(len(x))])
    penalty = np.diag(np.append(np.full(x.shape[1], RIDGE), 1e-6))
    beta = np.zeros(z.shape[1])
    for _ in range(ROUNDS):
        p = 0.5 * (1 + np.tanh(0.5 * (z @ beta)))
        gradient = z.T @ (weight * (y - p)) - penalty @ beta
        curvature = (z * (weight * np.maximum(p * (1 - p), 1e-6))[:, None]).T @ z + penalty
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-8:
            break
    stored = [part.astype(np.float32) for part in (mean, scale, beta)]
    return Ranker(stored[0], stored[1], stored[2][:-1], float(stored[2][-1]))


def with_rankers(
    exams: Sequence[ReadyExam], annotations: Mapping[str, Annotation], groups: Mapping[str, str], settings: Settings
) -> list[ReadyExam]:
    """Give every exam a context score that was fitted on the exams of all other groups (folds or patients)."""
    tables = {exam.exam_id: contexts_of(exam, annotations[exam.exam_id], settings) for exam in exams}
    rankers = {
        group: fit_ranker(table for exam_id, table in tables.items() if groups[exam_id] != group)
        for group in set(groups.values())
    }
    return [replace(exam, ranker=rankers[groups[exam.exam_id]]) for exam in exams]
