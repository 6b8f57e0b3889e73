"""The paper's table of Selector backbones: the same head on the features of each encoder, scored on unseen cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dice_ce.benchmark.frames import SelectorFigures, selector_figures
from dice_ce.datasets.splits import SPLITS
from dice_ce.features.encoder import Encoder
from dice_ce.lab.training.calibration import TAU_S
from dice_ce.lab.training.data import gather
from dice_ce.lab.training.heads import HeadConfig, train_selector
from dice_ce.lab.training.run import TrainConfig, calibrate_selector, samples_of_split
from dice_ce.method.selector import score_vectors
from dice_ce.progress import Watch
from dice_ce.table import Table
from dice_ce.taxonomy import Taxonomy


@dataclass(frozen=True)
class BackboneRow:
    """One line of the table."""

    encoder: str
    dim: int
    megabytes: float | None
    figures: SelectorFigures


def compare_backbones(
    paths: Sequence[Path], encoders: Sequence[Encoder], *, watch: Watch, head: HeadConfig | None = None
) -> Iterator[BackboneRow]:
    """Train a Selector on every encoder, with the threshold chosen on validation cases, and score the test cases."""
    taxonomy = Taxonomy()
    data = gather(paths, taxonomy.labels)
    data.check_splits(*SPLITS)
    config = TrainConfig(views=0)
    for encoder in encoders:
        train, validation, test = (samples_of_split(data, split, encoder, taxonomy, config, watch) for split in SPLITS)
        learned = train_selector(train, validation, head or config.head)
        selector = calibrate_selector(learned.head, validation)
        score = score_vectors(test.vectors, selector)
        content = getattr(encoder, "content", None)
        yield BackboneRow(
            encoder.name,
            encoder.dim,
            round(len(content) / 1e6, 1) if content else None,
            selector_figures(score, test.abnormal, test.case, TAU_S),
        )


def backbones_text(rows: Sequence[BackboneRow]) -> str:
    """Write the table in Markdown, in the paper's columns."""
    header = ("backbone", "d", "MB", "accuracy", "precision", "recall", "F1", "AUC")
    cells = [(row.encoder, row.dim, row.megabytes or "–", *row.figures.columns()) for row in rows]
    return Table.of(header, cells).markdown()
