"""Rhode Island: 424 whole small-bowel exams, 5,247,588 images, each in the folder of the organ it shows; no lesions.

s001/1_esophagus/image-00026.png      s001 to s424; 1_esophagus, 2_stomach, 3_small_bowel, 4_colon

The figshare collection 6071216 has zip files of zip files (`Study 001-025.zip`, …): unpack both. The layout is that of
the authors' own preprocessing (github.com/acharoen/Rhode-Island-GI-VCE-Technical-Validation) and of its lists of
paths. Charoen et al., Scientific Data 9, 602 (2022), doi:10.1038/s41597-022-01726-3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from dice_ce.datasets.published import existing_folder
from dice_ce.datasets.tables import Event, Tables, Timeline
from dice_ce.datasets.timelines import disjoint, overlaps, runs
from dice_ce.errors import InputError

STUDY = re.compile(r"s\d{3}", re.IGNORECASE)
IMAGE = re.compile(r"image-(\d+)\.(?:png|jpe?g)", re.IGNORECASE)
ORGANS = {"1_esophagus": "esophagus", "2_stomach": "stomach", "3_small_bowel": "small bowel", "4_colon": "colon"}
"""By folder, in the order in which a capsule passes them."""
EXPECTED = "s001/1_esophagus/image-00001.png and so on"


def import_rhode_island(folder: Path) -> Tables:
    """Read which organ was seen when; images are counted by their number, and not read.

    A frame per image would be five million; what they add to the number is only the file name.
    """
    existing_folder(folder, "the Rhode Island data set", EXPECTED)
    studies = sorted(_studies(folder), key=lambda path: path.name.casefold())
    if not studies:
        raise InputError(f"{folder}: no studies in it; unpack the zip files, and those inside them: {EXPECTED}")
    timelines: dict[str, Timeline] = {}
    shared, empty = 0, []
    for study in studies:
        name = study.name.casefold()
        if name in timelines:
            raise InputError(f"{study}: study '{name}' stands there twice; remove one")
        events = list(_events(study))
        if not events:
            empty.append(name)
        shared += overlaps(events)
        timelines[name] = Timeline(name, disjoint(events, list(ORGANS.values()).index))
    if len(empty) == len(studies):
        raise InputError(f"{studies[0]}: no images in it; expected {EXPECTED}")
    remarks = ["organs only: this dataset has no labels of lesions, and its images are counted, not read"]
    if empty:
        remarks.append(f"{len(empty)} studies have no images (first: {empty[0]}); they are empty timelines")
    if shared:
        remarks.append(f"{shared} stretches of images stand in two organs; they carry both")
    return Tables(timelines=tuple(timelines.values()), remarks=tuple(remarks))


def _studies(folder: Path) -> Iterator[Path]:
    """Find the studies here, or one folder deeper, where the outer zip files may have been unpacked."""
    for path in _subfolders(folder):
        if STUDY.fullmatch(path.name):
            yield path
        else:
            yield from (inner for inner in _subfolders(path) if STUDY.fullmatch(inner.name))


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}); check the permissions") from error


def _events(study: Path) -> Iterator[Event]:
    for organ_folder in sorted(_subfolders(study)):
        organ = ORGANS.get(organ_folder.name.casefold())
        if organ is None:
            raise InputError(f"{organ_folder}: not an organ of this dataset; expected {', '.join(ORGANS)}")
        for first, last in runs(_numbers(organ_folder)):
            yield Event(first, last, (organ,))


def _numbers(folder: Path) -> Iterator[int]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if match := IMAGE.fullmatch(entry.name):
                yield int(match[1])
            elif not entry.name.startswith(".") and entry.name.lower().endswith((".png", ".jpg", ".jpeg")):
                raise InputError(f"{entry.path}: expected a name like image-00001.png; rename or remove it")
