"""The model card: what a bundle was trained on, how well it judges frames, how training went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dice_ce import DISCLAIMER, __version__
from dice_ce.benchmark.frames import PatientSpread
from dice_ce.benchmark.within import WithinFigures
from dice_ce.csvfile import table_text
from dice_ce.features.encoder import Encoder
from dice_ce.lab.training.data import TEST, TrainingData
from dice_ce.lab.training.heads import Trained
from dice_ce.lab.training.samples import Samples
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser
from dice_ce.method.reliability import LEAST, LEAST_CASES, Reliability
from dice_ce.table import Table
from dice_ce.taxonomy import Taxonomy

if TYPE_CHECKING:
    from dice_ce.lab.training.run import Figures

LOG = "training.csv"
RELIABILITY_HEADING = "## How well each label is recognised"


@dataclass(frozen=True, eq=False)
class Curves:
    """How the training of both heads went."""

    selector: Trained
    diagnoser: Trained


def attachments(curves: Curves) -> dict[str, bytes]:
    """Make the log that the card refers to."""
    parts = (("selector", curves.selector), ("diagnoser", curves.diagnoser))
    rows = [(part, epoch, loss) for part, trained in parts for epoch, loss in enumerate(trained.log)]
    return {LOG: table_text(("part", "epoch", "training_loss"), rows).encode()}


def write_card(
    name: str,
    notes: str,
    encoder: Encoder,
    diagnoser: HeadDiagnoser | NetworkDiagnoser,
    taxonomy: Taxonomy,
    data: TrainingData,
    samples: Samples,
    figures: Mapping[str, Figures],
    reliability: Mapping[str, Reliability],
    near: float,
    fast: Mapping[str, WithinFigures],
    fast_side: int | None,
) -> str:
    """Write the card in Markdown."""
    sections = [
        f"# Model card: `{name}`",
        f"Trained with dice-ce {__version__}. **{DISCLAIMER}**",
        f"Encoder: {encoder.name}, {encoder.dim}-d at {encoder.input_size} pixels, frozen "
        f"(digest {encoder.digest[:12]}). Both heads learnt from all cases but the test ones. What was chosen, and all "
        f"figures below, come from heads of {data.folds} folds that were each asked about cases they never saw.",
        *_network_text(diagnoser),
        *([notes.strip()] if notes.strip() else []),
        "## Training data\n\nFrames of every source, and in brackets of how many cases:\n\n"
        + _data_table(taxonomy, samples, data),
        *_stretched(data, samples, near),
        "\n".join(_cases(data, fold) for fold in range(data.folds)),
        *(f"## Single frames, {part} cases\n\n" + figures_text(found, taxonomy) for part, found in figures.items()),
        *_fast_text(fast, fast_side),
        f"{RELIABILITY_HEADING}\n\n{reliability_text(reliability)}",
        f"Losses of all epochs: {LOG}.",
    ]
    return "\n\n".join(sections) + "\n"


def _network_text(diagnoser: HeadDiagnoser | NetworkDiagnoser) -> list[str]:
    """Describe the diagnoser's own network, if it has one."""
    if isinstance(diagnoser, HeadDiagnoser):
        return []
    network, headed = diagnoser.networks[-1], diagnoser.headed
    beside = f"; its logits are added to those of the head, which looks at {headed.input_size} pixels" if headed else ""
    return [
        f"Diagnoser: {network.name} at {network.input_size} pixels (digest {network.digest[:12]}), a network of its "
        f"own that looks at candidate frames only{beside}."
    ]


def _fast_text(fast: Mapping[str, WithinFigures], side: int | None) -> list[str]:
    """Tell what it costs to see all frames smaller, if that was trained for."""
    if not fast:
        return []
    table = Table.of(("source", *WithinFigures.HEADER), [(source, *row.columns()) for source, row in fast.items()])
    return [
        f"## The fast Selector, held-out cases\n\nAll frames seen at {side} pixels (`--bundle NAME@fast`); names and "
        f"*normal* here by a head on the same small frames, while the diagnoser of the bundle looks at frames in full "
        f"size either way:\n\n{table.markdown()}"
    ]


def reliability_text(table: Mapping[str, Reliability]) -> str:
    """Write the table that reports repeat beside their findings, and what its words mean."""
    cuts = ", ".join(f"{least:g} {grade}" for grade, least in LEAST.items())
    explanation = (
        "What the diagnoser says about single real frames of held-out cases, which reports repeat beside every "
        "finding. Recall: share of the frames showing a label that were called so. Precision: share of the frames "
        "called so that show it, in this mixture of frames. A frame that shows several labels counts for each, "
        f"although only one is said. Intervals are over cases. Grades go by the weaker of the two: from {cuts}, "
        f"below hardly recognised; a good grade takes {LEAST_CASES} cases."
    )
    rows = [
        (
            label,
            f"{row.frames} ({row.cases})",
            _share(row.recall, row.recall_interval),
            row.called,
            _share(row.precision, row.precision_interval),
            row.grade,
        )
        for label, row in table.items()
    ]
    header = ("label", "frames (cases)", "recall", "called so", "precision", "grade")
    return f"{explanation}\n\n{Table.of(header, rows).markdown()}"


def _share(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def _stretched(data: TrainingData, samples: Samples, near: float) -> list[str]:
    """Say how many findings are shown by a frame that is further from them than it should be, if any."""
    findings = sum(len(found.findings) for dataset in data.datasets for found in dataset.annotations.values())
    stretched = int(samples.stretched.sum())
    if not stretched:
        return []
    return [
        f"Findings without any frame within {near:g} s, which the nearest frame stands for: {stretched} of {findings}."
    ]


def _cases(data: TrainingData, fold: int) -> str:
    return f"- fold {fold}: {', '.join(sorted(case for case, of in data.fold.items() if of == fold))}"


def _data_table(taxonomy: Taxonomy, samples: Samples, data: TrainingData) -> str:
    is_test = np.array([str(case) not in data.fold for case in samples.case], np.bool_)
    sides = {"learnt from": ~is_test, **({TEST: is_test} if is_test.any() else {})}
    rows = [
        (label, *(_cell(samples[rows], taxonomy.index(label)) for rows in sides.values())) for label in taxonomy.labels
    ]
    return Table.of(("label", *sides), rows).markdown()


def _cell(samples: Samples, column: int) -> str:
    """Count frames and cases of a label, source by source."""
    shown = samples[samples.labels[:, column]]
    counts = []
    for source in np.unique(shown.source):
        cases = shown.case[shown.source == source]
        counts.append(f"{source} {len(cases)} ({len(np.unique(cases))})")
    return ", ".join(counts) or "–"


def figures_text(figures: Figures, taxonomy: Taxonomy) -> str:
    """Write the figures as Markdown tables: inside patients first, then pooled."""
    inside = [
        Table.of(("source", *WithinFigures.HEADER), [(source, *row.columns()) for source, row in part.items()])
        for part in (figures.within, figures.by_diagnoser)
    ]
    header = ("source", "frames", "abnormal", "accuracy", "precision", "recall", "F1", "AUC", "balanced accuracy")
    rows = [
        (source, f"{row.frames:,}", f"{row.abnormal:,}", *row.columns(), figures.balanced.get(source, "–"))
        for source, row in figures.selector.items()
    ]
    calibration = f"Calibration error of the diagnoser: {figures.calibration:.3f}."
    people = [(source, *row.columns()) for source, row in figures.spread.items()]
    tables = (*inside, Table.of(header, rows), Table.of(("source", *PatientSpread.HEADER), people))
    alone, by_diagnoser, pooled, spread = (table.markdown() for table in tables)
    after = "By the diagnoser's 1 - p(normal), were it asked about every frame:"
    parts = (
        "The Selector alone:",
        alone,
        after,
        by_diagnoser,
        "Pooled over cases, the Selector alone:",
        pooled,
        "What the threshold and p(normal) mean on each person; 0.1 too high is 10 % more normal frames than there are:",
        spread,
        calibration,
    )
    return "\n\n".join([*parts, _confusion_table(figures, taxonomy)])


def _confusion_table(figures: Figures, taxonomy: Taxonomy) -> str:
    present = [k for k in range(len(taxonomy)) if figures.confusion[k].any() or figures.confusion[:, k].any()]
    short = ["".join(word[:4] + "." for word in taxonomy.labels[k].split()) for k in present]
    rows = []
    for k in present:
        counts = figures.confusion[k]
        recall = f"{counts[k] / counts.sum():.2f}" if counts.sum() else "–"
        rows.append((taxonomy.labels[k], *counts[present], recall))
    return Table.of(("true \\ said", *short, "recall"), rows).markdown()
