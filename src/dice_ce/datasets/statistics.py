"""A picture of what is in a dataset."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from dice_ce import DISCLAIMER
from dice_ce.datasets.folder import Dataset
from dice_ce.datasets.splits import SPLITS
from dice_ce.errors import UsageError, require
from dice_ce.files import write_atomically
from dice_ce.taxonomy import VIDEOCAP_12

UNDATED = {"svg": "Date", "pdf": "CreationDate"}
COLOURS = {"train": "#4c78a8", "validation": "#72b7b2", "test": "#f58518", "": "#9a9a9a"}


def draw_statistics(dataset: Dataset, seconds: Mapping[str, float], target: Path) -> None:
    """Draw findings by label, findings per exam and exam length, split by split.

    `seconds` says how long the exams are that could be opened.
    """
    if target.suffix.lower()[1:] not in ("png", *UNDATED):
        raise UsageError(f"{target}: pictures are written as .png, .svg or .pdf")
    require("matplotlib", extra="plots", purpose="drawing statistics")
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import MaxNLocator

    splits = [name for name in (*SPLITS, "") if any(row.split == name for row in dataset.exams)]
    figure = Figure(figsize=(11, 5.2), layout=ConstrainedLayoutEngine(rect=(0, 0.03, 1, 0.97)))
    axes = figure.subplot_mosaic("LLE;LLT")
    labels_axes, count_axes, time_axes = axes["L"], axes["E"], axes["T"]
    left = Counter[str]()
    shown = VIDEOCAP_12[::-1]
    per_exam, hours = [], []
    for split in splits:
        rows = [row for row in dataset.exams if row.split == split]
        found = [len(dataset.annotations[row.exam_id].findings) for row in rows]
        labels = Counter(f.label for row in rows for f in dataset.annotations[row.exam_id].findings)
        labels_axes.barh(
            shown,
            [labels[label] for label in shown],
            left=[left[label] for label in shown],
            color=COLOURS[split],
            label=f"{split or 'no split'}: {len({row.patient_id for row in rows})} patients, {len(rows)} exams",
        )
        left += labels
        per_exam.append(found)
        hours.append([seconds[row.exam_id] / 3600 for row in rows if row.exam_id in seconds])
    for height, label in enumerate(shown):
        labels_axes.text(left[label], height, f" {left[label]}", va="center", fontsize=9)
    labels_axes.set(title="Findings by label", xlabel="findings")
    labels_axes.legend(loc="lower right", frameon=False)
    colours = [COLOURS[split] for split in splits]
    most = max((count for counts in per_exam for count in counts), default=0)
    bins = [edge - 0.5 for edge in range(most + 2)]
    count_axes.hist(per_exam, bins=bins, color=colours, stacked=True)
    count_axes.set(title="Findings per exam", xlabel="findings", ylabel="exams")
    time_axes.hist(hours, bins=12, color=colours, stacked=True)
    time_axes.set(title="Length of the exams", xlabel="hours of exam time", ylabel="exams")
    for ax in (count_axes, time_axes):
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.values():
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{dataset.folder.name}: {len(dataset.exams)} exams", fontsize=13)
    figure.text(0.995, 0.002, DISCLAIMER, ha="right", va="bottom", fontsize=6, color="#666666")
    buffer = io.BytesIO()
    kind = target.suffix[1:].lower()
    # Without salt and date the same dataset gives the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "dice-ce"}):
        figure.savefig(buffer, format=kind, dpi=120, metadata=None if kind == "png" else {UNDATED[kind]: None})
    write_atomically(target, buffer.getvalue())
