"""Kvasir-Capsule: 47,229 labelled frames of 43 videos, 336x336 pixels, with boxes around most lesions.

metadata.csv                         a row per frame and class: `;`-separated, four corners of a box or nothing
labelled_images/<class>/<frame>.jpg  the frames
labelled_videos/<video>.mp4          the videos they come from
metadata.json                        stretches and findings of those videos
split_0.csv, split_1.csv             the two halves of the official split, which share videos
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dice_ce.datasets.published import Row, existing_folder, find_images, read_json, read_table
from dice_ce.datasets.tables import Box, Event, LabelledFrame, Tables, Timeline
from dice_ce.datasets.timelines import disjoint, runs
from dice_ce.datasets.words import check_word, label_of, labels_of, plain, unique
from dice_ce.errors import InputError

SOURCE = "KVASIR"
METADATA, VIDEO_METADATA = "metadata.csv", "metadata.json"
IMAGE_FOLDER, VIDEO_FOLDER = "labelled_images", "labelled_videos"
SPLIT_FILES = ("split_0.csv", "split_1.csv")
SPLIT_FOLDERS = ("", "official_splits")
SIDE = 336
"""Width and height of the original images: the unit of the boxes."""

CORNERS = ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")
COLUMNS = ("filename", "video_id", "frame_number", "finding_category", "finding_class", *CORNERS)


@dataclass(frozen=True)
class Entry:
    """All that is said about one image."""

    video: str
    number: int
    words: tuple[str, ...]
    boxes: tuple[Box, ...] = ()


def import_kvasir(folder: Path) -> Tables:
    """Read the metadata, and the images, videos and official splits as far as they are there."""
    existing_folder(folder, "Kvasir-Capsule", f"{METADATA} or {IMAGE_FOLDER}/")
    entries: dict[str, Entry] = {}
    remarks: list[str] = []
    if (folder / METADATA).is_file():
        entries, found = read_metadata(folder / METADATA)
        remarks += found
    images = _images(folder / IMAGE_FOLDER)
    remarks += _join_folders(entries, images)
    if not entries:
        raise InputError(f"{folder}: neither {METADATA} nor images in {IMAGE_FOLDER}/; unpack Kvasir-Capsule here")
    splits, found = read_splits(folder, entries)
    remarks += found
    if absent := len(entries.keys() - images.keys()):
        remarks.append(f"{absent:,} of {len(entries):,} images are not in {IMAGE_FOLDER}/; only their labels are known")
    frames = tuple(
        LabelledFrame(
            path=images[name][0] if name in images else folder / IMAGE_FOLDER / entry.words[0] / name,
            source=SOURCE,
            case=entry.video,
            number=entry.number,
            labels=labels_of(entry.words),
            words=entry.words,
            boxes=entry.boxes,
            split=splits.get(name, ""),
        )
        for name, entry in entries.items()
    )
    timelines: tuple[Timeline, ...] = ()
    if (folder / VIDEO_METADATA).is_file():
        timelines, found = read_videos(folder / VIDEO_METADATA)
        here = {path.stem for path in (folder / VIDEO_FOLDER).glob("*.*")}
        remarks += found
        remarks.append(
            f"{sum(timeline.exam_id in here for timeline in timelines)} of {len(timelines)} videos of "
            f"{VIDEO_METADATA} are in {VIDEO_FOLDER}/"
        )
    return Tables(frames, timelines, tuple(remarks))


def case_and_number(name: str) -> tuple[str, int] | None:
    """Read video and frame number from a file name: `<video>_<frame>.jpg`."""
    video, _, number = name.rpartition(".")[0].rpartition("_")
    return (video, int(number)) if video and number.isascii() and number.isdigit() else None


def read_metadata(path: Path) -> tuple[dict[str, Entry], list[str]]:
    """Read `metadata.csv` by file name: one entry per image, though some images stand in several rows."""
    rows = read_table(path, COLUMNS, delimiter=";")
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        # Rows without a box were published one delimiter short.
        if len(row.cells) not in (len(COLUMNS) - 1, len(COLUMNS)):
            raise InputError(f"{row.where}: {len(row.cells)} fields, expected {len(COLUMNS)}; download the file again")
        by_name[row["filename"]].append(row)
    if not by_name:
        raise InputError(f"{path}: no image is listed; download the file again")
    entries = {name: _entry(name, group) for name, group in by_name.items()}
    return entries, list(_metadata_remarks(path, rows, by_name))


def _entry(name: str, rows: list[Row]) -> Entry:
    for row in rows:
        if name.rpartition(".")[0] != f"{row['video_id']}_{row['frame_number']}":
            raise InputError(
                f"{row.where}: '{name}' is not frame {row['frame_number']} of video '{row['video_id']}'; correct it"
            )
    words = unique(check_word(row["finding_class"], row.where) for row in rows)
    boxes = dict.fromkeys(box for row in rows if row["x1"] and (box := _box(row)))
    return Entry(rows[0]["video_id"], rows[0].whole("frame_number"), words, tuple(boxes))


def _box(row: Row) -> Box:
    """Read the four corners; boxes that stick out of the image are cut off at its edge."""
    try:
        values = [min(max(float(row[corner]) / SIDE, 0.0), 1.0) for corner in CORNERS]
    except ValueError:
        corners = ";".join(row[corner] for corner in CORNERS)
        raise InputError(f"{row.where}: the corners '{corners}' are not eight numbers; correct them") from None
    return Box(min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2]))


def _metadata_remarks(path: Path, rows: list[Row], by_name: Mapping[str, list[Row]]) -> Iterator[str]:
    if short := sum(len(row.cells) < len(COLUMNS) for row in rows):
        yield f"{path.name}: {short:,} rows have {len(COLUMNS) - 1} fields instead of {len(COLUMNS)}, and no box"
    if several := sum(len(group) > 1 for group in by_name.values()):
        yield f"{path.name}: {several:,} images stand in several rows; they carry the classes and boxes of all"
    outside = sum(any(float(row[corner]) > SIDE for corner in CORNERS) for row in rows if row["x1"])
    if outside:
        yield f"{path.name}: {outside:,} boxes stick out of the {SIDE}-pixel image; they are cut off at its edge"


def _images(folder: Path) -> dict[str, list[Path]]:
    """Find the images by name; one that shows two things may stand in two class folders."""
    found: dict[str, list[Path]] = defaultdict(list)
    if folder.is_dir():
        for path in find_images(folder):
            found[path.name].append(path)
    return found


def _join_folders(entries: dict[str, Entry], images: Mapping[str, list[Path]]) -> list[str]:
    """Add what only the class folders say: images without a row, and classes their rows do not have."""
    alone, contrary = 0, 0
    for name, paths in images.items():
        words = [check_word(path.parent.name, path.parent) for path in paths]
        if name not in entries:
            place = case_and_number(name)
            if place is None:
                raise InputError(f"{paths[0]}: expected a name like <video>_<frame number>.jpg; rename or remove it")
            entries[name] = Entry(*place, unique(words))
            alone += 1
        elif {plain(word) for word in words} - {plain(word) for word in entries[name].words}:
            entry = entries[name]
            entries[name] = Entry(entry.video, entry.number, unique((*entry.words, *words)), entry.boxes)
            contrary += 1
    remarks = []
    if alone:
        remarks.append(f"{alone:,} images have no row in {METADATA}; their class folder is their label")
    if contrary:
        remarks.append(f"{contrary:,} images stand in a class folder that {METADATA} does not name; both are kept")
    return remarks


def read_splits(folder: Path, entries: Mapping[str, Entry]) -> tuple[dict[str, str], list[str]]:
    """Read the official splits, and report what is wrong with them: videos on both sides, frames on none."""
    sides: dict[str, dict[str, set[str]]] = {}
    for name in SPLIT_FILES:
        path = next((folder / place / name for place in SPLIT_FOLDERS if (folder / place / name).is_file()), None)
        if path is not None:
            sides[path.stem] = _read_split(path)
    if not sides:
        return {}, []
    splits = {name: side for side, files in sides.items() for name in files}
    remarks = []
    videos = Counter(video for files in sides.values() for video in {name.rpartition("_")[0] for name in files})
    if leaking := sorted(video for video, count in videos.items() if count > 1):
        remarks.append(
            f"the official splits leak: {len(leaking)} videos stand in both ({', '.join(leaking)}); split by video"
        )
    if missing := len(splits.keys() - entries.keys()):
        remarks.append(f"the official splits name {missing:,} images that are not in the metadata")
    if nowhere := entries.keys() - splits.keys():
        classes = sorted({word for name in nowhere for word in entries[name].words})
        remarks.append(f"{len(nowhere):,} images are in neither official split ({', '.join(classes)})")
    contrary = sum(
        not {_meaning(word) for word in words} <= {_meaning(word) for word in entries[name].words}
        for files in sides.values()
        for name, words in files.items()
        if name in entries
    )
    if contrary:
        remarks.append(
            f"the official splits and the metadata name {contrary:,} images differently; the metadata are used"
        )
    return splits, remarks


def _read_split(path: Path) -> dict[str, set[str]]:
    """Read one side: file names with their labels, in a vocabulary of its own."""
    files: dict[str, set[str]] = defaultdict(set)
    for row in read_table(path, ("filename", "label")):
        files[row["filename"]].add(check_word(row["label"], row.where))
    if not files:
        raise InputError(f"{path}: no image is listed; download the file again")
    return files


def _meaning(word: str) -> str:
    """Compare words of two vocabularies by what they mean."""
    return label_of(word) or plain(word)


def read_videos(path: Path) -> tuple[tuple[Timeline, ...], list[str]]:
    """Read `metadata.json`: by video, `segments` seen from frame to frame and `findings` with a box per frame."""
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        raise InputError(f"{path}: expected an object with an entry per video; give Kvasir-Capsule's {VIDEO_METADATA}")
    events = {name: list(_video_events(video, f"{path}, video '{name}'")) for name, video in content.items()}
    nameless = sum(not event.words for video in events.values() for event in video)
    remarks = [f"{path.name}: stretches without a class are left out ({nameless})"] if nameless else []
    return tuple(Timeline(name, disjoint(video)) for name, video in events.items()), remarks


def _video_events(video: Any, where: str) -> Iterator[Event]:
    if not isinstance(video, dict):
        raise InputError(f"{where}: expected its segments and findings; download the file again")
    for kind in ("segments", "findings"):
        parts = video.get(kind) or {}
        if not isinstance(parts, dict):
            raise InputError(f"{where}: its {kind} are no object; download the file again")
        for key, part in parts.items():
            try:
                word, stretches = _stretches(kind, part)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise InputError(f"{where}: '{key}' of its {kind} cannot be read; download the file again") from None
            yield from (Event(first, last, (str(word),) if word else ()) for first, last in stretches)


def _stretches(kind: str, part: Mapping[str, Any]) -> tuple[str | None, Iterable[tuple[int, int]]]:
    """Read the class and the frames, from first to last inclusive, of one segment or finding."""
    metadata = part["metadata"]
    word = metadata.get("pillcam_subtype")
    if kind == "findings":
        return word, runs(int(frame) for frame in part["frames"])
    seen = [(int(first), int(last)) for first, last in part["seen"]]
    if any(not 0 <= first <= last for first, last in seen):
        raise ValueError("a segment ends before it begins")
    return word or metadata.get("segment_type"), seen
