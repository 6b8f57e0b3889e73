"""Galar: whole exams of 80 patients with labels for every frame, as a table per video or as one JSON of events.

Labels/<video>.csv    index, one 0/1 column per label, section, frame; six tables also say how good the view is
events.json           {"videos": [{"video_id", "events": [{"start", "end", "label": [...]}]}]}, both ends inclusive

Both give the same timelines. Frames are counted by the column `index`, which numbers the published images of a video;
`frame` is the number in the recording and in the name of the image.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dice_ce.datasets.published import open_table, read_json
from dice_ce.datasets.tables import Event, Tables, Timeline
from dice_ce.datasets.timelines import disjoint, overlaps
from dice_ce.datasets.words import plain
from dice_ce.errors import InputError

EVENTS = "events.json"
LABEL_FOLDERS = (
    "Labels",
    "labels",
    "Galar_labels_and_metadata/Labels",
    "Galar_labels_and_metadata/labels",
)
"""Where the tables lie once the published archive is unpacked here or one folder deeper."""

ORGANS = ("mouth", "esophagus", "stomach", "small intestine", "colon")
"""In the order in which a capsule passes them."""
LANDMARKS = ("z-line", "pylorus", "ampulla of vater", "ileocecal valve")
FINDINGS = (
    "active bleeding",
    "angiectasia",
    "blood",
    "cancer",
    "celiac",
    "erosion",
    "erythema",
    "esophagitis",
    "foreign body",
    "hematin",
    "ibd",
    "lymphangioectasis",
    "polyp",
    "ulcer",
    "varices",
)
WORDS = (*ORGANS, *LANDMARKS, *FINDINGS)

INDEX, FRAME = "index", "frame"
LEFT_OUT = (INDEX, FRAME, "section", "bubbles", "dirt", "no view", "reduced view", "good view", "unknown")
"""Columns that are no label of ours: `section` repeats the organ; how good the view is was judged in six exams."""


def import_galar(source: Path) -> Tables:
    """Read the timelines from a JSON of events, or from a folder that has one or the tables of labels."""
    if source.is_file():
        return _from_events(source)
    if (source / EVENTS).is_file():
        return _from_events(source / EVENTS)
    for folder in (*(source / name for name in LABEL_FOLDERS), source):
        tables = sorted(folder.glob("*.csv"), key=lambda path: _by_number(path.stem)) if folder.is_dir() else []
        if tables := [path for path in tables if path.stem.isdigit()]:
            return Tables(timelines=tuple(_from_labels(path) for path in tables))
    problem = f"no {EVENTS} and no Labels/<video>.csv in it" if source.is_dir() else "no such file or folder"
    raise InputError(f"{source}: {problem}; give Galar's {EVENTS} or the folder of its labels, unpacked")


def organ_of(event: Event) -> str | None:
    """Name the organ an event lies in; the last one the capsule reaches if there are two, none if it is not said."""
    return next((organ for organ in reversed(ORGANS) if organ in event.words), None)


def _from_events(path: Path) -> Tables:
    content = read_json(path)
    videos = content.get("videos") if isinstance(content, dict) else None
    if not isinstance(videos, list) or not videos:
        raise InputError(f"{path}: no list of 'videos' in it; give Galar's events as JSON")
    timelines: dict[str, Timeline] = {}
    empty, overlapping = 0, 0
    for number, video in enumerate(videos, start=1):
        name = str(video.get("video_id", "")).strip() if isinstance(video, dict) else ""
        if not name or not isinstance(video.get("events"), list):
            raise InputError(f"{path}: video {number} of the list needs a 'video_id' and a list of 'events'; add them")
        if name in timelines:
            raise InputError(f"{path}: video '{name}' stands there twice; remove one")
        events = [_event(item, f"{path}, video '{name}', event {place}") for place, item in enumerate(video["events"])]
        empty += sum(not event.words for event in events)
        overlapping += overlaps(events)
        timelines[name] = Timeline(name, disjoint(events, _rank))
    remarks = []
    if empty:
        remarks.append(f"{path.name}: events without a label are left out ({empty})")
    if overlapping:
        remarks.append(
            f"{path.name}: {overlapping} events overlap an earlier one; such frames carry the labels of both"
        )
    in_order = sorted(timelines.values(), key=lambda timeline: _by_number(timeline.exam_id))
    return Tables(timelines=tuple(in_order), remarks=tuple(remarks))


def _event(item: Any, where: str) -> Event:
    if not isinstance(item, dict) or not isinstance(item.get("label"), list):
        raise InputError(f"{where}: expected 'start', 'end' and a list 'label'; correct it")
    first, last = item.get("start"), item.get("end")
    if type(first) is not int or type(last) is not int or not 0 <= first <= last:
        raise InputError(f"{where}: start {first!r} and end {last!r} are not frame indices in order; correct them")
    return Event(first, last, tuple(_known(str(word), where) for word in item["label"]))


def _from_labels(path: Path) -> Timeline:
    columns, lines = open_table(path, ())
    named = {plain(name): place for name, place in columns.items()}
    counter = named.get(INDEX, named.get(FRAME))
    if counter is None:
        raise InputError(f"{path}, line 1: no column '{INDEX}'; give a table of Galar's labels")
    labels = {_known(name, f"{path}, line 1"): place for name, place in named.items() if name not in LEFT_OUT}
    if not labels:
        raise InputError(f"{path}, line 1: no column of labels, such as '{ORGANS[2]}'; give a table of Galar's labels")
    return Timeline(path.stem, disjoint(_stretches(path, lines, counter, labels), _rank))


def _stretches(
    path: Path, lines: Iterable[tuple[int, list[str]]], counter: int, labels: dict[str, int]
) -> Iterator[Event]:
    """Read a row per frame as stretches of equal labels. Most rows repeat the one before, so that they are not read."""
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    places = sorted(labels.values())
    low, high = places[0], places[-1] + 1
    stretch: Event | None = None
    cells: list[str] = []
    last = -1
    for line, cells in lines:
        try:
            index = int(cells[counter])
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {line}: the frame has no whole number as index; correct it") from None
        key = tuple(cells[low:high])
        words = seen.get(key)
        if words is None:
            words = seen[key] = _words(cells, labels, f"{path}, line {line}")
        if stretch is not None and words == stretch.words and index == last + 1:
            last = index
            continue
        if stretch is not None:
            yield Event(stretch.first, last, stretch.words)
        stretch, last = Event(index, index, words), index
    if stretch is None:
        raise InputError(f"{path}: no frame is listed; download the table again")
    yield Event(stretch.first, last, stretch.words)


def _words(cells: list[str], labels: dict[str, int], where: str) -> tuple[str, ...]:
    found = []
    for word, place in labels.items():
        value = cells[place].strip() if place < len(cells) else "missing"
        if value in ("1", "1.0"):
            found.append(word)
        elif value not in ("0", "0.0", ""):
            raise InputError(f"{where}: '{value}' in column '{word}' is neither 0 nor 1; correct it")
    return tuple(found)


def _known(word: str, where: str) -> str:
    key = plain(word)
    if key in WORDS:
        return key
    close = difflib.get_close_matches(key, WORDS, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"Galar's are {', '.join(WORDS)}"
    raise InputError(f"{where}: unknown label '{word}'; {hint}")


def _rank(word: str) -> int:
    """Order words: organs and landmarks on the capsule's way first, then findings."""
    return WORDS.index(word)


def _by_number(name: str) -> tuple[int, str]:
    return (int(name) if name.isdigit() else 10**9), name
