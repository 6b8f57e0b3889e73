"""The paper's table of Selector backbones: the same heads on the features of each encoder, judged on held-out folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.frames import SelectorFigures, selector_figures
from dice_ce.benchmark.within import WithinFigures
from dice_ce.features.encoder import Encoder
from dice_ce.lab.training.calibration import TAU_S
from dice_ce.lab.training.data import gather
from dice_ce.lab.training.folds import hold_out
from dice_ce.lab.training.heads import HeadConfig
from dice_ce.lab.training.run import TrainConfig, fold_of, samples_of_cases
from dice_ce.lab.training.samples import Samples
from dice_ce.progress import Watch
from dice_ce.table import Table
from dice_ce.taxonomy import Taxonomy


@dataclass(frozen=True)
class BackboneRow:
    """One encoder, or one per fold under one name."""

    encoder: str
    dim: int
    megabytes: float | None
    within: dict[str, WithinFigures]
    figures: SelectorFigures
    """Pooled over all cases, in the paper's columns; secondary, since patients and makes differ by themselves."""


def compare_backbones(
    paths: Sequence[Path], encoders: Sequence[Sequence[Encoder]], *, watch: Watch, head: HeadConfig | None = None
) -> Iterator[BackboneRow]:
    """Cross-validate the heads on every encoder; an entry of several encoders has one for each fold."""
    taxonomy, config = Taxonomy(), TrainConfig(views=0)
    data = gather(paths, taxonomy.labels)
    for several in encoders:

        def samples_of(fold: int, several: Sequence[Encoder] = several) -> tuple[Samples, npt.NDArray[np.int64]]:
            seen = samples_of_cases(data, several[fold % len(several)], taxonomy, config, watch)
            return seen, fold_of(seen, data)

        held_out = hold_out(samples_of, data.folds, head or config.head)
        samples, content = held_out.samples, getattr(several[0], "content", None)
        score = held_out.calibration().scores(held_out.suspicion)
        yield BackboneRow(
            several[0].name if len(several) == 1 else f"{several[0].name}, one per fold",
            several[0].dim,
            round(len(content) / 1e6, 1) if content else None,
            held_out.within(taxonomy),
            selector_figures(score, samples.abnormal, samples.case, TAU_S),
        )


def backbones_text(rows: Sequence[BackboneRow]) -> str:
    """Write both tables in Markdown: inside patients first, then pooled in the paper's columns."""
    within = [
        (row.encoder, source, *figures.columns())
        for row in rows
        for source, figures in row.within.items()
        if figures.patients or figures.events
    ]
    pooled = [(row.encoder, row.dim, row.megabytes or "–", *row.figures.columns()) for row in rows]
    return (
        f"{Table.of(('backbone', 'source', *WithinFigures.HEADER), within).markdown()}\n\n"
        f"Pooled over all cases:\n\n"
        + Table.of(("backbone", "d", "MB", "accuracy", "precision", "recall", "F1", "AUC"), pooled).markdown()
    )
