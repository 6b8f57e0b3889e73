"""A plot of what is in a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.splits import SPLITS
from dice_ce.plotting import BLUE, ORANGE, TEAL, plot
from dice_ce.taxonomy import PALETTE, VIDEOCAP_12

COLOURS = {"train": BLUE, "validation": TEAL, "test": ORANGE, "": "#9a9a9a"}


def draw_statistics(dataset: Dataset, seconds: Mapping[str, float], target: Path) -> None:
    """Draw findings by label, findings per exam and exam length, split by split.

    `seconds` says how long the exams are that could be opened.
    """
    with plot(target, f"{dataset.folder.name}: {len(dataset.exams)} exams", 11, 5.2) as figure:
        _draw(dataset, seconds, figure.subplot_mosaic("LLE;LLT"))


def _draw(dataset: Dataset, seconds: Mapping[str, float], axes: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    known = [name for name in (*SPLITS, "") if any(row.split == name for row in dataset.exams)]
    splits = known + sorted({row.split for row in dataset.exams} - set(known))
    colours = [COLOURS.get(split, PALETTE[place % len(PALETTE)][0]) for place, split in enumerate(splits)]
    labels_axes, count_axes, time_axes = axes["L"], axes["E"], axes["T"]
    left = Counter[str]()
    shown = VIDEOCAP_12[::-1]
    per_exam, hours = [], []
    for split, colour in zip(splits, colours, strict=True):
        rows = [row for row in dataset.exams if row.split == split]
        found = [len(dataset.annotations[row.exam_id].findings) for row in rows]
        labels = Counter(f.label for row in rows for f in dataset.annotations[row.exam_id].findings)
        labels_axes.barh(
            shown,
            [labels[label] for label in shown],
            left=[left[label] for label in shown],
            color=colour,
            label=f"{split or 'no split'}: {len({row.patient_id for row in rows})} patients, {len(rows)} exams",
        )
        left += labels
        per_exam.append(found)
        hours.append([seconds[row.exam_id] / 3600 for row in rows if row.exam_id in seconds])
    for height, label in enumerate(shown):
        labels_axes.text(left[label], height, f" {left[label]}", va="center", fontsize=9)
    labels_axes.set(title="Findings by label", xlabel="findings")
    labels_axes.legend(loc="lower right")
    most = max((count for counts in per_exam for count in counts), default=0)
    bins = [edge - 0.5 for edge in range(most + 2)]
    count_axes.hist(per_exam, bins=bins, color=colours, stacked=True)
    count_axes.set(title="Findings per exam", xlabel="findings", ylabel="exams")
    time_axes.hist(hours, bins=12, color=colours, stacked=True)
    time_axes.set(title="Length of the exams", xlabel="hours of exam time", ylabel="exams")
    for ax in (count_axes, time_axes):
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
