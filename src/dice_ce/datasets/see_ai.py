"""SEE-AI: 18,481 frames of 523 small-bowel exams with boxes, as counts per class in one table and as YOLO files.

all_annotation.csv                        boxes per class for every image
SEE_AI_project_all_images/…/image00001.jpg    the images
SEE_AI_project_all_txt/…/image00001.txt       a line per box: class, centre, width and height as fractions
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dice_ce.datasets.published import Row, existing_folder, find_images, read_table
from dice_ce.datasets.tables import Box, LabelledFrame, Tables
from dice_ce.datasets.words import check_word, labels_of
from dice_ce.errors import InputError
from dice_ce.taxonomy import NORMAL

SOURCE = "SEE-AI"
TABLE = "all_annotation.csv"
IMAGE_FOLDER = "SEE_AI_project_all_images"
IMAGE = re.compile(r"image(\d+)\.(?:jpe?g|png)", re.IGNORECASE)
"""How images are named; the number is the one in the table."""
BOX_FILE = re.compile(r"image(\d+)\.txt", re.IGNORECASE)

CLASSES = (
    "angiodysplasia",
    "erosion",
    "stenosis",
    "lymphangiectasia",
    "lymph follicle",
    "SMT",
    "polyp-like",
    "bleeding",
    "diverticulum",
    "erythema",
    "foreign body",
    "vein",
)
"""By class id, for box files without a table beside them."""

NAMES, NUMBER, SUM = "annotation_class_name", "image_number", "annotation_number"
CLASS_IDS, TOTALS = "annotation_class_number", "annotation_sum"

BLOCK, GAP = 500, 20
"""Images are numbered across patients, and neighbours are often one patient: a block of numbers is a case, and the
images at its edges belong to none."""


def see_ai_case(number: int) -> str:
    """Name the block of a SEE-AI image; empty in the gap between two blocks."""
    return "" if number % BLOCK < GAP else f"SEE-AI-{number // BLOCK:02d}"


def image_number(name: str) -> int | None:
    """Read the number of an image from its file name."""
    match = IMAGE.fullmatch(name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class Counts:
    """The table of counts."""

    classes: tuple[str, ...]
    """By class id."""
    by_image: Mapping[int, Mapping[str, int]]
    """Boxes per class of every image, by image number; classes without a box are left out."""
    remarks: tuple[str, ...] = ()


def import_see_ai(folder: Path) -> Tables:
    """Read the table of counts, the boxes and the images; each may be missing, but not all."""
    existing_folder(folder, "SEE-AI", f"{TABLE}, images imageNNNNN.jpg and box files imageNNNNN.txt")
    counts = read_counts(folder / TABLE) if (folder / TABLE).is_file() else Counts(CLASSES, {})
    images = {number: path for path in find_images(folder) if (number := image_number(path.name)) is not None}
    boxes = {
        int(match[1]): read_boxes(path, counts.classes)
        for path in sorted(folder.rglob("*.txt"))
        if (match := BOX_FILE.fullmatch(path.name))
    }
    numbers = sorted({*counts.by_image, *images, *boxes})
    known = {*counts.by_image, *boxes}
    if not known:
        raise InputError(f"{folder}: neither {TABLE} nor box files imageNNNNN.txt in it; unpack SEE-AI here")
    remarks = list(counts.remarks)
    if absent := sum(number not in images for number in numbers):
        remarks.append(f"{absent:,} of {len(numbers):,} images are not here; only their labels are known")
    if silent := [number for number in numbers if number not in known]:
        remarks.append(f"{len(silent)} images have neither a row nor a box file; they are left out")
    if contrary := [n for n in boxes if n in counts.by_image and _tally(boxes[n]) != counts.by_image[n]]:
        remarks.append(
            f"{TABLE} and the box files disagree about {len(contrary)} images (first: image {min(contrary)}); "
            "the box files are used"
        )
    frames = []
    for number in numbers:
        if number in known:
            found = boxes.get(number)
            words = [word for word, _ in found] if found is not None else counts.by_image[number]
            path = images.get(number, folder / IMAGE_FOLDER / f"image{number:05d}.jpg")
            frames.append(_frame(path, number, words, [box for _, box in found or ()]))
    return Tables(tuple(frames), remarks=tuple(remarks))


def _frame(path: Path, number: int, words: Iterable[str], boxes: Iterable[Box]) -> LabelledFrame:
    """Make a frame; an image without any box was chosen as a normal one."""
    names = tuple(dict.fromkeys(words)) or (NORMAL,)
    return LabelledFrame(path, SOURCE, see_ai_case(number), None, labels_of(names), names, tuple(boxes))


def _tally(boxes: Iterable[tuple[str, Box]]) -> dict[str, int]:
    return dict(Counter(word for word, _ in boxes))


def read_boxes(path: Path, classes: Sequence[str] = CLASSES) -> list[tuple[str, Box]]:
    """Read a YOLO file: class, centre x and y, width and height as fractions of the image. No line, no box."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8; download it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            box = _box(line.split(), classes)
            if box is None:
                raise InputError(
                    f"{path}, line {number}: '{line.strip()}' is not a class id below {len(classes)} and four "
                    "fractions; correct it"
                )
            found.append(box)
    return found


def _box(cells: Sequence[str], classes: Sequence[str]) -> tuple[str, Box] | None:
    """Read one line of a YOLO file; boxes that stick out of the image are cut off at its edge."""
    if len(cells) != 5 or cells[0] not in map(str, range(len(classes))):
        return None
    try:
        x, y, width, height = (float(cell) for cell in cells[1:])
    except ValueError:
        return None
    if not all(0 <= value <= 1 for value in (x, y, width, height)):
        return None
    box = Box(max(x - width / 2, 0.0), max(y - height / 2, 0.0), min(x + width / 2, 1.0), min(y + height / 2, 1.0))
    return classes[int(cells[0])], box


def read_counts(path: Path) -> Counts:
    """Read the table: line 2 holds class ids, the cells are counts, and the last line claims to be their sum."""
    rows = read_table(path, (NAMES, NUMBER, SUM))
    if not rows or rows[0][NAMES] != CLASS_IDS:
        raise InputError(f"{path}, line 2: expected the class ids, in a line that begins with '{CLASS_IDS}'")
    names = [name for name in rows[0].columns if name not in (NAMES, NUMBER, SUM)]
    classes = _classes(rows[0], names)
    claimed = next((row for row in rows if row[NAMES] == TOTALS), None)
    by_image: dict[int, dict[str, int]] = {}
    wrong: list[int] = []
    for row in rows[1:]:
        if row is claimed:
            continue
        number, counts = row.whole(NUMBER), {name: row.whole(name) for name in names if row[name] != "0"}
        if number in by_image:
            raise InputError(f"{row.where}: image {number} stands there twice; remove one of the lines")
        if row[SUM] and sum(counts.values()) != row.whole(SUM):
            wrong.append(row.line)
        by_image[number] = counts
    if not by_image:
        raise InputError(f"{path}: no image is listed; download the file again")
    remarks = []
    if wrong:
        remarks.append(
            f"{path.name}: {len(wrong)} lines give another sum than their counts (first: line {wrong[0]}); "
            "the counts are used"
        )
    if claimed is not None:
        remarks += _wrong_totals(claimed, by_image, classes)
    return Counts(classes, by_image, tuple(remarks))


def _classes(row: Row, names: list[str]) -> tuple[str, ...]:
    ids = {row.whole(name): check_word(name, f"{row.path}, line 1") for name in names}
    if sorted(ids) != list(range(len(names))):
        raise InputError(f"{row.where}: class ids must be 0 to {len(names) - 1}, each once; correct them")
    return tuple(ids[number] for number in range(len(names)))


def _wrong_totals(claimed: Row, by_image: Mapping[int, Mapping[str, int]], classes: tuple[str, ...]) -> list[str]:
    """Compare the last line with the true sums. As published it has added up the class ids, too."""
    true = Counter[str]()
    for counts in by_image.values():
        true.update(counts)
    wrong = [name for name in classes if claimed[name] != str(true[name])]
    if not wrong:
        return []
    why = ""
    if all(claimed[name] == str(true[name] + number) for number, name in enumerate(classes)):
        why = " because it includes the class ids of line 2"
    return [
        f"{claimed.path.name}: the sum in the last line is wrong for {len(wrong)} of {len(classes)} classes{why} "
        f"({wrong[0]}: {claimed[wrong[0]]}, in truth {true[wrong[0]]}); it is not used"
    ]
