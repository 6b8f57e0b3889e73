"""The model card: what a bundle was trained on, how well it judges frames, how training went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dice_ce import DISCLAIMER, __version__
from dice_ce.csvfile import table_text
from dice_ce.datasets.splits import SPLITS
from dice_ce.features.encoder import Encoder
from dice_ce.lab.training.data import TrainingData
from dice_ce.lab.training.heads import Trained
from dice_ce.lab.training.samples import EXAMS, Samples
from dice_ce.method.reliability import LEAST, LEAST_CASES, Reliability
from dice_ce.plotting import BLUE, ORANGE, SOFT, draw
from dice_ce.table import Table
from dice_ce.taxonomy import Taxonomy

if TYPE_CHECKING:
    from dice_ce.lab.training.run import Figures

LOG, CURVES = "training.csv", "curves.svg"
RELIABILITY_HEADING = "## How well each label is recognised"
TRAINING_HEADING = "## Training\n"


@dataclass(frozen=True, eq=False)
class Curves:
    """How the training of both heads went."""

    selector: Trained
    diagnoser: Trained


def attachments(curves: Curves) -> dict[str, bytes]:
    """Make the log and the image that the card refers to."""
    parts = (("selector", curves.selector), ("diagnoser", curves.diagnoser))
    rows = [
        (part, line.epoch, line.training_loss, line.validation_loss) for part, trained in parts for line in trained.log
    ]
    log = table_text(("part", "epoch", "training_loss", "validation_loss"), rows)
    return {LOG: log.encode(), CURVES: _draw(parts)}


def _draw(parts: Sequence[tuple[str, Trained]]) -> bytes:
    with draw(".svg", "Training", 9, 3.2) as (figure, content):
        for axes, (part, trained) in zip(figure.subplots(1, len(parts)), parts, strict=True):
            epochs = [line.epoch for line in trained.log]
            axes.plot(epochs, [line.training_loss for line in trained.log], label="training (augmented)", color=BLUE)
            axes.plot(epochs, [line.validation_loss for line in trained.log], label="validation", color=ORANGE)
            axes.axvline(trained.best, color=SOFT, linestyle=":", label="kept")
            axes.set(title=part, xlabel="epoch", ylabel="loss")
            axes.legend(fontsize=8)
    return content.getvalue()


def write_card(
    name: str,
    notes: str,
    encoder: Encoder,
    taxonomy: Taxonomy,
    data: TrainingData,
    parts: Mapping[str, Samples],
    figures: Mapping[str, Figures],
    reliability: Mapping[str, Reliability],
    curves: Curves,
    near: float,
) -> str:
    """Write the card in Markdown."""
    sections = [
        f"# Model card: `{name}`",
        f"Trained with dice-ce {__version__}. **{DISCLAIMER}**",
        f"Encoder: {encoder.name}, {encoder.dim}-d at {encoder.input_size} pixels, frozen "
        f"(digest {encoder.digest[:12]}). Both heads are calibrated on validation cases.",
        *([notes.strip()] if notes.strip() else []),
        "## Training data\n\nFrames of every source, and in brackets of how many cases:\n\n"
        + _data_table(taxonomy, data, parts),
        *_stretched(data, parts, near),
        "\n".join(_cases(parts, split) for split in ("validation", "test")),
        *(f"## Single frames, {split} cases\n\n" + figures_text(part, taxonomy) for split, part in figures.items()),
        f"{TRAINING_HEADING}\n![curves]({CURVES})\n\nSelector: {_course(curves.selector)}. "
        f"Diagnoser: {_course(curves.diagnoser)}. All epochs: {LOG}.",
    ]
    return with_reliability("\n\n".join(sections) + "\n", reliability)


def with_reliability(card: str, table: Mapping[str, Reliability]) -> str:
    """Write the reliability of the labels into a card, in place of what it says about it."""
    before, heading, after = card.partition(TRAINING_HEADING)
    before = before.partition(RELIABILITY_HEADING)[0].rstrip()
    return f"{before}\n\n{RELIABILITY_HEADING}\n\n{reliability_text(table)}\n\n{heading}{after}".rstrip() + "\n"


def reliability_text(table: Mapping[str, Reliability]) -> str:
    """Write the table that reports repeat beside their findings, and what its words mean."""
    cuts = ", ".join(f"{least:g} {grade}" for grade, least in LEAST.items())
    explanation = (
        "What the diagnoser says about single real frames of validation cases, which reports repeat beside every "
        "finding. Recall: share of the frames showing a label that were called so. Precision: share of the frames "
        "called so that show it, in this mixture of frames. A frame that shows several labels counts for each, "
        f"although only one is said. Intervals are over cases. Grades go by the weaker of the two: from {cuts}, "
        f"below hardly recognised; a good grade takes {LEAST_CASES} cases. Training was stopped and calibrated by the "
        "same cases, so expect less of others."
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


def _stretched(data: TrainingData, parts: Mapping[str, Samples], near: float) -> list[str]:
    """Say how many findings are shown by a frame that is further from them than it should be, if any."""
    counts = []
    for split in SPLITS:
        findings = [
            finding
            for dataset in data.datasets
            for row in dataset.exams
            if row.split == split
            for finding in dataset.annotations[row.exam_id].findings
        ]
        if stretched := int(parts[split].stretched.sum()):
            counts.append(f"{stretched} of {len(findings)} ({split})")
    if not counts:
        return []
    return [f"Findings without any frame within {near:g} s, which the nearest frame stands for: {', '.join(counts)}."]


def _cases(parts: Mapping[str, Samples], split: str) -> str:
    cases = sorted(set(parts[split].case.tolist()))
    return f"- {split} cases: {', '.join(cases) or 'none'}"


def _course(trained: Trained) -> str:
    kept = trained.log[trained.best]
    return f"{len(trained.log)} epochs, kept epoch {kept.epoch} (validation loss {kept.validation_loss:.3f})"


def _data_table(taxonomy: Taxonomy, data: TrainingData, parts: Mapping[str, Samples]) -> str:
    rows = [
        (label, *(_cell(data, parts[split], split, label, taxonomy.index(label)) for split in SPLITS))
        for label in taxonomy.labels
    ]
    return Table.of(("label", *SPLITS), rows).markdown()


def _cell(data: TrainingData, samples: Samples, split: str, label: str, column: int) -> str:
    """Count frames and cases of a label, source by source; augmented views do not count."""
    cases: dict[str, list[str]] = defaultdict(list)
    for frame in data.frames[split]:
        if label in frame.labels:
            cases[frame.source].append(frame.case)
    from_exams = (samples.source == EXAMS) & samples.labels[:, column]
    if from_exams.any():
        cases[EXAMS] = samples.case[from_exams].tolist()
    return ", ".join(f"{source} {len(of)} ({len(set(of))})" for source, of in sorted(cases.items())) or "–"


def figures_text(figures: Figures, taxonomy: Taxonomy) -> str:
    """Write the figures of one split as Markdown tables."""
    header = ("source", "frames", "abnormal", "accuracy", "precision", "recall", "F1", "AUC", "balanced accuracy")
    rows = [
        (source, f"{row.frames:,}", f"{row.abnormal:,}", *row.columns(), figures.balanced.get(source, "–"))
        for source, row in figures.selector.items()
    ]
    calibration = f"Calibration error of the diagnoser: {figures.calibration:.3f}."
    return "\n\n".join([Table.of(header, rows).markdown(), calibration, _confusion_table(figures, taxonomy)])


def _confusion_table(figures: Figures, taxonomy: Taxonomy) -> str:
    present = [k for k in range(len(taxonomy)) if figures.confusion[k].any() or figures.confusion[:, k].any()]
    short = ["".join(word[:4] + "." for word in taxonomy.labels[k].split()) for k in present]
    rows = []
    for k in present:
        counts = figures.confusion[k]
        recall = f"{counts[k] / counts.sum():.2f}" if counts.sum() else "–"
        rows.append((taxonomy.labels[k], *counts[present], recall))
    return Table.of(("true \\ said", *short, "recall"), rows).markdown()
