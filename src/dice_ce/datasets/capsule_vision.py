"""Capsule Vision 2024: frames of four sources in ten classes, `training|validation/<Class>/<source>/<file>`.

Beside the tree lie `training_data.xlsx` and `validation_data.xlsx`, a row per image with backslashes in the path. The
two sides of the challenge's split share videos, patients and even images; the remarks say how many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dice_ce.datasets import kvasir, see_ai
from dice_ce.datasets.duplicates import duplicates_across, identical_files
from dice_ce.datasets.published import existing_folder, find_images, read_workbook
from dice_ce.datasets.tables import LabelledFrame, Tables
from dice_ce.datasets.words import check_word, labels_of, unique
from dice_ce.errors import InputError

SPLITS = ("training", "validation")
AIIMS = "AIIMS"
PATH, SOURCE = "image_path", "Dataset"


@dataclass(frozen=True)
class TreeFile:
    """One file of the tree, and what its place says about it."""

    path: Path
    split: str
    word: str
    """The class folder."""
    source: str


def import_capsule_vision(folder: Path) -> Tables:
    """Read the tree, and compare it with the spreadsheets where they are there."""
    existing_folder(folder, "Capsule Vision 2024", " and ".join(f"{split}/<Class>/<source>/" for split in SPLITS))
    files = scan_tree(folder)
    tables = merge_copies(files)
    return Tables(tables.frames, remarks=(*tables.remarks, *_leaks(files), *_compare_with_sheets(folder, files)))


def is_tree(folder: Path) -> bool:
    """Whether a folder holds one of the two splits."""
    return any((folder / split).is_dir() for split in SPLITS)


def scan_tree(folder: Path) -> list[TreeFile]:
    """List all images of the tree, sorted by split, class, source and name."""
    found = []
    for split in SPLITS:
        for class_folder in _subfolders(folder / split):
            word = check_word(class_folder.name, class_folder)
            for source_folder in _subfolders(class_folder):
                source = source_folder.name
                found += [TreeFile(path, split, word, source) for path in find_images(source_folder)]
    if not found:
        raise InputError(f"{folder}: no images in {' or '.join(SPLITS)}/<Class>/<source>/; unpack the dataset here")
    return found


def _subfolders(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def merge_copies(files: Sequence[TreeFile]) -> Tables:
    """Make one frame of every image, though it may stand in several class folders or under several names."""
    by_name: dict[tuple[str, str], list[TreeFile]] = defaultdict(list)
    for file in files:
        by_name[file.source, file.path.name].append(file)
    key_of = {group[0].path: key for key, group in by_name.items()}
    several = sum(len(group) > 1 for group in by_name.values())
    twins = [sorted(same, key=_keep_first) for same in identical_files(key_of)]
    for first, *others in twins:
        for other in others:
            by_name[key_of[first]] += by_name.pop(key_of[other])
    joined = _joined_cases(twins)
    remarks = []
    if several:
        remarks.append(f"{several:,} images stand in several class folders; each is one frame with all its labels")
    if twins:
        remarks.append(
            f"{sum(map(len, twins)) - len(twins):,} images are byte-identical to one of another name; "
            "one of each is kept, with the labels of all"
        )
    remarks += [f"{case} shares images with {first}, so that they are one case" for case, first in joined.items()]
    return Tables(tuple(_frame(group, joined) for group in by_name.values()), remarks=tuple(remarks))


def _keep_first(path: Path) -> tuple[bool, str]:
    """Order copies of one image: one that belongs to a case is worth more than one between cases."""
    return not case_and_number(path.parent.name, path.name)[0], path.name


def _joined_cases(twins: Iterable[Sequence[Path]]) -> dict[str, str]:
    """Find cases that share an image, and therefore a patient: every case but the first, with the first."""
    joined: dict[str, str] = {}
    for same in twins:
        cases = {case_and_number(path.parent.name, path.name)[0] for path in same} - {""}
        roots = sorted({joined.get(case, case) for case in cases})
        for other in roots[1:]:
            joined |= dict.fromkeys((other, *(case for case, root in joined.items() if root == other)), roots[0])
    return joined


def _frame(files: Sequence[TreeFile], joined: Mapping[str, str]) -> LabelledFrame:
    first = files[0]
    case, number = case_and_number(first.source, first.path.name)
    words = unique(file.word for file in files)
    # An image on both sides counts as training, so that taking the rest for validation leaks nothing.
    split = min(file.split for file in files)
    return LabelledFrame(first.path, first.source, joined.get(case, case), number, labels_of(words), words, split=split)


def case_and_number(source: str, name: str) -> tuple[str, int | None]:
    """Read case and frame number from a file name, by the habit of its source; KID's names do not tell them."""
    if source == see_ai.SOURCE:
        image = see_ai.image_number(name)
        return ("" if image is None else see_ai.see_ai_case(image)), None
    place = kvasir.case_and_number(name) if source in (kvasir.SOURCE, AIIMS) else None
    if place is None:
        return "", None
    return (place[0] if source == kvasir.SOURCE else f"{AIIMS}-{place[0]}"), place[1]


def _leaks(files: Sequence[TreeFile]) -> Iterator[str]:
    """Say what stands on both sides of the challenge's own split."""
    sides: dict[tuple[str, str], set[str]] = defaultdict(set)
    by_side: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        case, number = case_and_number(file.source, file.path.name)
        if case and number is not None:
            sides[file.source, case].add(file.split)
        by_side[file.split].append(file.path)
    for source in sorted({source for source, _ in sides}):
        cases = [case for case in sides if case[0] == source]
        if shared := sum(len(sides[case]) > 1 for case in cases):
            yield f"the split leaks: {shared} of {len(cases)} {source} videos stand on both sides; split by case"
    if shared := len(duplicates_across(by_side)):
        yield f"the split leaks: {shared:,} images stand byte for byte on both sides"


def _compare_with_sheets(folder: Path, files: Iterable[TreeFile]) -> Iterator[str]:
    here = {file.path for file in files}
    for split in SPLITS:
        places = (folder / f"{split}_data.xlsx", folder / split / f"{split}_data.xlsx")
        sheet = next((path for path in places if path.is_file()), None)
        if sheet is None:
            continue
        named = {folder / path: words for path, words in read_sheet(sheet).items()}
        if absent := sum(path not in here for path in named):
            yield f"{sheet.name} names {len(named):,} images, of which {absent:,} are not here"
        if unnamed := sum(path not in named for path in here if path.is_relative_to(folder / split)):
            yield f"{unnamed:,} images in {split}/ are not in {sheet.name}; their class folder is their label"
        if contrary := sum(path in here and path.parent.parent.name not in words for path, words in named.items()):
            yield f"{sheet.name} puts {contrary:,} images into another class than their folder; the folder is used"


def read_sheet(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Read a spreadsheet: the paths with slashes, as relative to the dataset, and the classes marked with 1."""
    rows = read_workbook(path)
    if not rows or PATH not in rows[0] or SOURCE not in rows[0]:
        raise InputError(f"{path}, line 1: no columns '{PATH}' and '{SOURCE}' on the first sheet; download it again")
    classes = {
        check_word(str(name), f"{path}, line 1"): place
        for place, name in enumerate(rows[0])
        if name not in (PATH, SOURCE, None)
    }
    return dict(_sheet_rows(path, rows, classes))


def _sheet_rows(
    path: Path, rows: Sequence[Sequence[Any]], classes: Mapping[str, int]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    place = rows[0].index(PATH)
    for line, row in enumerate(rows[1:], start=2):
        if not row or row[place] is None:
            continue
        words = tuple(word for word, column in classes.items() if row[column] == 1)
        if not words:
            raise InputError(f"{path}, line {line}: no class is marked with 1; correct the row")
        yield str(row[place]).strip().replace("\\", "/"), words
