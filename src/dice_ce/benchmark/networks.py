"""Which networks may score an exam: those of one bundle, or in cross-validation those that never saw its case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dice_ce.datasets.folder import Dataset, ExamRow
from dice_ce.datasets.splits import FOLD_NAMES
from dice_ce.errors import InputError
from dice_ce.method.bundle import FAST, Bundle, load_bundle


@dataclass(frozen=True, eq=False)
class Networks:
    """A bundle with its settings, and the bundles of held-out folds where exams are cases that it learnt from."""

    bundle: Bundle
    """The bundle whose settings, taxonomy and tuned baselines are used."""
    folds: Mapping[str, Bundle] = field(default_factory=dict)
    """By the split that exams.csv names; their networks are used."""

    @classmethod
    def load(cls, bundle: str | Path | None, folds: Path | None = None) -> Networks:
        """Load a bundle, and those of all folds from a folder that `dice-ce train --folds-out` wrote."""
        how = FAST if bundle is not None and str(bundle).endswith(FAST) else ""
        found = {path.name: load_bundle(f"{path}{how}") for path in sorted(folds.glob("fold-*"))} if folds else {}
        if folds and not found:
            raise InputError(f"{folds}: no bundles of folds (fold-0 and so on); write them with train --folds-out")
        return cls(load_bundle(bundle), found)

    def of(self, row: ExamRow) -> Bundle:
        """Return the bundle that judges an exam."""
        if not self.folds:
            return self.bundle
        if row.split not in self.folds:
            raise InputError(f"exam '{row.exam_id}': there is no bundle of '{row.split}'; train one for every fold")
        return self.folds[row.split]

    def exams(self, dataset: Dataset, split: str) -> Dataset:
        """Take the exams of a split; in cross-validation those of all folds."""
        if not self.folds:
            return dataset.of(split)
        rows = tuple(row for row in dataset.exams if row.split in FOLD_NAMES)
        if not rows:
            raise InputError(f"{dataset.folder}: no exam stands in a fold; data recordings and data compose deal them")
        return replace(dataset, exams=rows, annotations={row.exam_id: dataset.annotations[row.exam_id] for row in rows})
