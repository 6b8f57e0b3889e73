"""Cross-validation: every case is judged once by networks that never saw it, and all that is chosen is chosen on that.

Heads are trained without the cases of one fold and asked about them, fold by fold. If the encoder itself was trained on
the cases, it takes an encoder for each fold as well: features that know a patient flatter every head on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.within import WithinFigures, within_figures
from dice_ce.errors import InputError
from dice_ce.lab.training.calibration import Calibration, best_temperature
from dice_ce.lab.training.heads import HeadConfig, balanced_weights, train_diagnoser, train_selector
from dice_ce.lab.training.samples import Samples
from dice_ce.method.diagnoser import softmax
from dice_ce.method.selector import Head
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats

SamplesOf = Callable[[int], tuple[Samples, npt.NDArray[np.int64]]]
"""The samples of all cases as the encoder of a fold sees them, and the fold of each."""


@dataclass(frozen=True, eq=False)
class Heads:
    """A Selector and a diagnoser, not calibrated yet."""

    selector: Head
    diagnoser: Head


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What networks that never saw a case say about its frames; rows in the order of the samples."""

    samples: Samples
    fold: npt.NDArray[np.int64]
    suspicion: Floats
    """Selector logits."""
    logits: Floats
    """[n, labels]: the diagnoser's."""
    heads: tuple[Heads, ...]
    """The heads trained without each fold."""

    def __getitem__(self, rows: npt.NDArray[np.bool_]) -> HeldOut:
        return replace(
            self,
            samples=self.samples[rows],
            fold=self.fold[rows],
            suspicion=self.suspicion[rows],
            logits=self.logits[rows],
        )

    @classmethod
    def join(cls, parts: Sequence[HeldOut]) -> HeldOut:
        """Put folds together."""
        return HeldOut(
            Samples.join([part.samples for part in parts]),
            np.concatenate([part.fold for part in parts]),
            np.concatenate([part.suspicion for part in parts]),
            np.concatenate([part.logits for part in parts]),
            tuple(heads for part in parts for heads in part.heads),
        )

    def without(self, fold: int) -> HeldOut:
        """Leave out the cases of one fold, so that nothing chosen on the rest knows them."""
        return self[self.fold != fold]

    def temperature(self) -> float:
        """Choose the diagnoser's temperature."""
        known = np.asarray(self.samples.labels.any(axis=1))
        weight = balanced_weights(self.samples[known])
        return best_temperature(self.logits[known], self.samples.labels[known], weight)

    def calibration(self) -> Calibration:
        """Choose the Selector's, so that a score of 0.5 reaches the wanted recall on these frames."""
        weight = balanced_weights(self.samples)
        return Calibration.fit(self.suspicion, self.samples.abnormal, weight, self.samples.case)

    def within(self, taxonomy: Taxonomy, score: Floats | None = None) -> dict[str, WithinFigures]:
        """Measure inside patients, source by source: by the Selector alone, unless another score is given."""
        score = self.suspicion if score is None else score
        found = {}
        for source in np.unique(self.samples.source):
            rows = self.samples.source == source
            part = self[rows]
            found[str(source)] = within_figures(
                score[rows],
                softmax(part.logits),
                part.samples.labels,
                taxonomy.normal,
                part.samples.case,
                part.samples.event,
            )
        return found


def hold_out(samples_of: SamplesOf, folds: int, config: HeadConfig) -> HeldOut:
    """Train the heads of every fold on the others, and ask them about it."""
    return HeldOut.join([hold_out_fold(*samples_of(fold), fold, config) for fold in range(folds)])


def hold_out_fold(samples: Samples, of: npt.NDArray[np.int64], fold: int, config: HeadConfig) -> HeldOut:
    """Train heads on all folds but one, and ask them about that one; `of` is the fold of every sample."""
    train = samples[(of != fold) & (of >= 0)]
    held_out = samples[of == fold].once()
    if not len(held_out):
        raise InputError(f"no frame of fold {fold} can be used; add cases with usable frames")
    heads = Heads(train_selector(train, config).head, train_diagnoser(train, config).head)
    asked = (heads.selector(held_out.vectors)[:, 0], heads.diagnoser(held_out.vectors))
    return HeldOut(held_out, np.full(len(held_out), fold), *asked, (heads,))
