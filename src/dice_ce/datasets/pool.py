"""The pool of labelled real frames: everything that lies in one data folder, in one table, with cases to split by.

Expected, each part optional but the first:

    capsule-vision-2024/   training|validation/<Class>/<source>/<file>: the images
    see-ai/                all_annotation.csv: more labels for SEE-AI images (lymph follicles, submucosal tumours)
    kvasir-capsule/        metadata.csv: more labels and boxes for Kvasir images

or that first folder itself, or a frame table `frames.csv` (see `frametable`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dice_ce.datasets import kvasir, see_ai
from dice_ce.datasets.capsule_vision import SPLITS, is_tree, merge_copies, scan_tree
from dice_ce.datasets.frametable import FRAMES, read_frame_table
from dice_ce.datasets.published import existing_folder
from dice_ce.datasets.see_ai import see_ai_case
from dice_ce.datasets.tables import LabelledFrame, Tables
from dice_ce.datasets.words import DISTRACTORS, label_of, labels_of, plain, unique
from dice_ce.errors import InputError
from dice_ce.taxonomy import NORMAL

__all__ = ["load_pool", "read_frame_table", "see_ai_case"]

TREE = "capsule-vision-2024"
EXPECTED = f"{TREE}/, {' and '.join(f'{split}/' for split in SPLITS)}, or {FRAMES}"


def load_pool(data: Path) -> Tables:
    """Read every labelled frame under a data folder."""
    existing_folder(data, "labelled frames", EXPECTED)
    for tree in (data / TREE, data):
        if is_tree(tree):
            return _annotated(merge_copies(scan_tree(tree)), data)
    if (data / FRAMES).is_file():
        return read_frame_table(data / FRAMES)
    raise InputError(f"{data}: holds no labelled frames; expected {EXPECTED}")


def _annotated(pool: Tables, data: Path) -> Tables:
    """Add what the sources' own annotations say, where they lie beside the tree."""
    counts, metadata = data / "see-ai" / see_ai.TABLE, data / "kvasir-capsule" / kvasir.METADATA
    if counts.is_file():
        pool = _add_counts(pool, counts)
    if metadata.is_file():
        pool = _add_metadata(pool, metadata)
    return pool


def _add_counts(pool: Tables, path: Path) -> Tables:
    counts = see_ai.read_counts(path)
    frames = [
        _with_words(frame, counts.by_image.get(number, ()))
        if frame.source == see_ai.SOURCE and (number := see_ai.image_number(frame.path.name)) is not None
        else frame
        for frame in pool.frames
    ]
    return Tables(tuple(frames), remarks=(*pool.remarks, *counts.remarks, *_news(path.name, pool.frames, frames)))


def _add_metadata(pool: Tables, path: Path) -> Tables:
    entries, remarks = kvasir.read_metadata(path)
    frames = [
        replace(_with_words(frame, entry.words), boxes=entry.boxes)
        if frame.source == kvasir.SOURCE and (entry := entries.get(frame.path.name)) is not None
        else frame
        for frame in pool.frames
    ]
    return Tables(tuple(frames), remarks=(*pool.remarks, *remarks, *_news(path.name, pool.frames, frames)))


def _with_words(frame: LabelledFrame, words: Iterable[str]) -> LabelledFrame:
    """Add the words that mean a label the frame does not have, or that a normal frame cannot have."""
    new = [
        word
        for word in words
        if label_of(word) not in (None, NORMAL, *frame.labels)
        or (NORMAL in frame.labels and plain(word) in DISTRACTORS)
    ]
    if not new:
        return frame
    words = unique((*frame.words, *new))
    return replace(frame, words=words, labels=labels_of(words))


def _news(name: str, before: Iterable[LabelledFrame], after: Iterable[LabelledFrame]) -> list[str]:
    """Say how many frames the annotations gave further labels, and which were called normal before."""
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old.labels != new.labels]
    remarks = []
    if changed:
        remarks.append(f"{name} gives {len(changed):,} frames labels that their class folder does not")
    if cleared := sum(NORMAL in old.labels for old, _ in changed):
        remarks.append(f"{cleared:,} frames lie in a folder of normal ones, but {name} says otherwise and is believed")
    return remarks
