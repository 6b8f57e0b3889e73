"""KID: 2,371 images (dataset 2) and 77 images (dataset 1) of MiroCam exams, 360x360 pixels, with masks of the lesions.

<class>/<class><number>.png              vascular, inflammatory, polypoid, ampulla-of-vater, normal-esophagus, …
<class>-annotations/<image>m.png         the mask of an image; some copies keep it beside the image
angioectasia-P0-1.png, bleeding1.png     dataset 1: the class in the name; P0 to P2 is the potential of bleeding

The dataset is given out on request, and none of its files were at hand. Read from what others load: masks and folders
from public loaders of dataset 2 (`kid-dataset-2/normal-small-bowel`, `vascular-annotations/<image>m.png`), the
prefixes `normaleso`, `normalstom`, `normalsb` and `normalcolon` from the same, the names of dataset 1 from the
spreadsheets of Capsule Vision 2024. How dataset 1 spells aphthae, chylous cysts, ulcers, stenoses and villous oedema
was not confirmed. Koulaouzidis et al., Endoscopy International Open 5 (2017), doi:10.1055/s-0043-105488.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from dice_ce.datasets.published import existing_folder, find_images
from dice_ce.datasets.tables import Box, LabelledFrame, Tables
from dice_ce.datasets.words import labels_of
from dice_ce.errors import InputError
from dice_ce.exam.images import ImageCursor, ImageSource
from dice_ce.taxonomy import NORMAL

SOURCE = "KID"
MASK = re.compile(r"(.+\d)m", re.IGNORECASE)
"""The stem of a mask: that of its image, and an m."""
NUMBERING = re.compile(r"(?:[-_ ]p\d)?[-_ ]*\d+(?:~\d+)?$", re.IGNORECASE)
"""What stands in a file name behind the class: a number, before it the grade of an angioectasia."""

CLASSES: dict[str, tuple[str, ...]] = {
    "ampulla": ("ampulla of vater",),
    "ampulla of vater": ("ampulla of vater",),
    "angioectasia": ("angioectasia",),
    "aphtha": ("aphtha",),
    "aphthae": ("aphtha",),
    "bleeding": ("bleeding",),
    "chylous cyst": ("chylous cyst",),
    "inflammatory": ("inflammatory",),
    "lymphangiectasia": ("lymphangiectasia",),
    "normal colon": (NORMAL, "colon"),
    "normal esophagus": (NORMAL, "esophagus"),
    "normal small bowel": (NORMAL, "small bowel"),
    "normal stomach": (NORMAL, "stomach"),
    "normalcolon": (NORMAL, "colon"),
    "normaleso": (NORMAL, "esophagus"),
    "normalsb": (NORMAL, "small bowel"),
    "normalstom": (NORMAL, "stomach"),
    "polypoid": ("polypoid",),
    "stenosis": ("stenosis",),
    "stenoses": ("stenosis",),
    "ulcer": ("ulcer",),
    "vascular": ("vascular",),
    "villous oedema": ("villous oedema",),
}
"""What a file or a folder is called, without its number and a plural s, and what that says."""
BROAD = ("inflammatory", "vascular")
"""Groups of several labels of VideoCAP-12, of which the files do not say which."""


def import_kid(folder: Path) -> Tables:
    """Read the images by the class in their name or that of their folder, and the masks as boxes."""
    existing_folder(folder, "KID", "vascular/, inflammatory/, polypoid/, normal-small-bowel/, …")
    masks: dict[str, Path] = {}
    images: list[Path] = []
    for path in find_images(folder):
        match = MASK.fullmatch(path.stem)
        if match:
            masks[match[1].casefold()] = path
        else:
            images.append(path)
    if not images:
        raise InputError(f"{folder}: no images such as vascular/vascular1.png in it; unpack KID here")
    boxes = dict(_boxes(masks))
    frames = tuple(_frame(path, folder, boxes) for path in images)
    return Tables(frames, remarks=tuple(_remarks(frames, masks)))


def _frame(path: Path, folder: Path, boxes: Mapping[str, Box]) -> LabelledFrame:
    words = class_of(path, folder)
    box = boxes.get(path.stem.casefold())
    return LabelledFrame(path, SOURCE, "", None, labels_of(words), words, (box,) if box else ())


def class_of(path: Path, folder: Path) -> tuple[str, ...]:
    """Say what an image shows, by its name or else by the folders it lies in, up to that of the dataset."""
    places = [NUMBERING.sub("", path.stem), *path.relative_to(folder).parts[-2::-1]]
    for name in places:
        key = re.sub(r"[-_ ]+", " ", name).strip().casefold()
        if words := CLASSES.get(key) or CLASSES.get(key.removesuffix("s")):
            return words
    close = difflib.get_close_matches(places[0].casefold(), CLASSES, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"KID's are {', '.join(CLASSES)}"
    raise InputError(f"{path}: neither its name nor its folder is a class of KID; {hint}")


def _boxes(masks: Mapping[str, Path]) -> Iterator[tuple[str, Box]]:
    """Draw a box around all that is bright in a mask; an empty mask has none."""
    paths: Sequence[Path] = list(masks.values())
    names = list(masks)
    reached = -1
    with closing(ImageCursor(ImageSource(Path(), tuple(map(str, paths)), ()))) as cursor:
        for place, frame in cursor.read(0, len(paths)):
            if place > reached + 1:
                break
            reached = place
            bright = frame.to_ndarray(format="gray") > 127
            rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
            if len(rows):
                height, width = bright.shape
                box = (columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height)
                yield names[place], Box(*map(float, box))
    if reached + 1 < len(paths):
        raise InputError(f"{paths[reached + 1]}: not a readable image; download it again, or remove it")


def _remarks(frames: Sequence[LabelledFrame], masks: Mapping[str, Path]) -> Iterator[str]:
    yield "KID's names do not tell the patient: no frame has a case, so that they can only be tested on, not split"
    if broad := sum(frame.words[0] in BROAD for frame in frames):
        yield (
            f"{broad:,} images are only called {' or '.join(BROAD)}, which is several labels of VideoCAP-12; "
            "they have none of them, and are not normal"
        )
    named = {frame.path.stem.casefold() for frame in frames}
    if lonely := sorted(path.name for stem, path in masks.items() if stem not in named):
        yield f"{len(lonely):,} masks have no image (first: {lonely[0]}); they are not used"
