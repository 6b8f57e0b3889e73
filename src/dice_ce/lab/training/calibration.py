"""Calibration: scores that mean what they say, and a threshold that misses little; all on held-out cases."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dice_ce.method.diagnoser import softmax
from dice_ce.method.selector import Head, sigmoid
from dice_ce.types import Bools, Floats

TAU_S = 0.5
"""The Selector's threshold, as in the paper; the head is shifted so that it is the right one."""
WANTED_RECALL = 0.97
"""Recall of lesion frames, averaged over held-out cases; the aim is 0.95 on new patients, who are always harder."""


def best_temperature(logits: Floats, labels: Bools, weight: Floats) -> float:
    """Choose the temperature under which the held-out labels are least surprising."""

    def surprise(temperature: float) -> float:
        mass = (softmax(logits, temperature) * labels).sum(axis=1)
        return float(-(np.log(mass + 1e-9) * weight).sum())

    return min((round(float(t), 2) for t in np.geomspace(0.25, 5, 80)), key=surprise)


def recall_threshold(logits: Floats, abnormal: Bools, weight: Floats, recall: float = WANTED_RECALL) -> float:
    """Return the largest logit at which the weighted recall is still at least `recall`."""
    order = np.argsort(-logits[abnormal], kind="stable")
    reached = np.cumsum(weight[abnormal][order]) / weight[abnormal].sum()
    place = min(int(np.searchsorted(reached, recall - 1e-6)), len(order) - 1)  # sums of floats fall short by a hair
    return float(logits[abnormal][order][place])


def fit_slope(logits: Floats, abnormal: Bools, weight: Floats, threshold: float) -> float:
    """Choose how steeply the score rises around the threshold, so that held-out frames are least surprising."""

    def surprise(slope: float) -> float:
        margin = slope * np.where(abnormal, logits - threshold, threshold - logits)
        return float((np.logaddexp(0, -margin) * weight).sum())

    return min((float(slope) for slope in np.geomspace(0.1, 5, 60)), key=surprise)


@dataclass(frozen=True)
class Calibration:
    """How a Selector's logits become scores: those at the threshold become 0.5."""

    threshold: float
    slope: float

    @classmethod
    def fit(cls, logits: Floats, abnormal: Bools, weight: Floats, cases: npt.NDArray[np.str_]) -> Calibration:
        """Reach the wanted recall at tau_s = 0.5, every case counting alike.

        A patient with hundreds of frames of one lesion must not decide how many of another's are missed.
        """
        _, of_case, size = np.unique(np.where(abnormal, cases, ""), return_inverse=True, return_counts=True)
        threshold = recall_threshold(logits, abnormal, np.asarray(1 / size[of_case], np.float32))
        return cls(threshold, fit_slope(logits, abnormal, weight, threshold))

    def scores(self, logits: Floats) -> Floats:
        """Return calibrated scores."""
        return sigmoid(np.asarray((logits - self.threshold) * self.slope, np.float32))

    def of(self, head: Head) -> Head:
        """Build the calibration into a head's last layer."""
        return replace(
            head,
            weight2=np.asarray(head.weight2 * self.slope, np.float16).astype(np.float32),
            bias2=np.asarray((head.bias2 - self.threshold) * self.slope, np.float16).astype(np.float32),
        )
