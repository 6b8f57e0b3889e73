"""Finding exams: below folders, in tables, by pattern; on this machine or wherever fsspec reaches."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dice_ce.archive.items import NO_CLOCK, Item
from dice_ce.archive.remote import RemoteTree, fetch_table
from dice_ce.csvfile import Row, read_table
from dice_ce.datasets.folder import EXAMS, read_clock
from dice_ce.errors import DiceError, InputError, UsageError
from dice_ce.exam.clock import ClockOptions
from dice_ce.exam.folders import look_into
from dice_ce.exam.images import is_frame_name, natural_order
from dice_ce.exam.open import exam_name, sidecar_beside

PATTERN = re.compile(r"[*?\[]")
VIDEO_COLUMN, ID_COLUMN, DATE_COLUMN = "video", "exam_id", "exam_date"
Found = Callable[[int], None]


def find_exams(sources: Sequence[str], *, besides: Path | None = None, found: Found | None = None) -> list[Item]:
    """List the exams of all sources once each, in order of their places; `besides` is a folder to stay out of."""
    items: dict[str, Item] = {}
    for source in sources:
        before = len(items)
        for item in _exams_of(source, besides):
            items.setdefault(item.place, item)
            if found is not None and len(items) % 100 == 0:
                found(len(items))
        if len(items) == before and not any(True for _ in _exams_of(source, besides)):
            raise InputError(f"{source}: no exam was found there; expected videos, zips or folders of frames")
    return [items[place] for place in sorted(items, key=natural_order)]


def _exams_of(source: str, besides: Path | None) -> Iterator[Item]:
    if "://" in source:
        yield from _remote(source)
        return
    path = Path(source)
    if PATTERN.search(source) and not path.exists():
        root = Path(path.anchor) if path.is_absolute() else Path()
        for match in sorted(root.glob(str(path.relative_to(path.anchor))), key=lambda one: natural_order(str(one))):
            yield from _exams_of(str(match), besides)
    elif path.suffix.lower() == ".csv" and path.is_file():
        yield from _of_table(path.absolute(), read_table(path, (VIDEO_COLUMN,)), path.absolute().parent)
    elif path.is_dir() and (path / EXAMS).is_file():
        yield from _exams_of(str(path / EXAMS), besides)
    elif path.is_dir():
        yield from _below(path.absolute(), besides)
    elif path.exists():
        yield _local(path.absolute())
    else:
        raise InputError(f"{source}: no such file or folder; check the path")


def _below(folder: Path, besides: Path | None) -> Iterator[Item]:
    """Walk a tree: a folder with images directly in it is one exam, and so is every video and zip."""
    if besides is not None and folder.resolve() == besides.resolve():
        return
    content = look_into(folder)
    if content.images:
        yield _local(folder)
    for exam in content.exams:
        if not exam.is_dir():
            yield _local(exam)
    for entry in sorted(folder.iterdir(), key=lambda one: natural_order(one.name)):
        if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
            yield from _below(entry, besides)


def _local(
    path: Path, name: str | None = None, clock: ClockOptions = NO_CLOCK, date: str = "", where: str = ""
) -> Item:
    """Describe an exam without reading it; one that is not there is an item, too, and fails when its turn comes."""
    try:
        size, changed = _measure(path)
    except OSError:
        size, changed = 0, 0
    sidecar = clock.sidecar or sidecar_beside(path)
    stamp = f"{size}-{changed}"
    if os.path.isfile(sidecar):  # noqa: PTH113  no error if the name is too long
        stamp += f"-{sidecar.stat().st_size}-{sidecar.stat().st_mtime_ns}"
    day = date or (datetime.datetime.fromtimestamp(changed / 1e9, datetime.UTC).date().isoformat() if changed else "")
    try:
        named = name or exam_name(path)
    except DiceError:  # such as `...mp4`: opening it says so
        named = path.name
    return Item(str(path), named, stamp, size, day, clock, is_named=name is not None)


def _measure(path: Path) -> tuple[int, int]:
    """Return bytes and the latest change of a file, or of the frames in a folder."""
    if not path.is_dir():
        facts = path.stat()
        return facts.st_size, facts.st_mtime_ns
    frames = [entry.stat() for entry in os.scandir(path) if is_frame_name(entry.name)]
    changed = max((facts.st_mtime_ns for facts in frames), default=0)
    return sum(facts.st_size for facts in frames), changed + len(frames)


def _of_table(table: Path | str, rows: Sequence[tuple[int, Row]], folder: Path | None) -> Iterator[Item]:
    """Read a table of exams: `video` is needed; exam_id, exam_date and the clock columns are used where they are."""
    known: dict[str, int] = {}
    for line, row in rows:
        where = f"{table}, line {line}"
        if not row[VIDEO_COLUMN]:
            raise InputError(f"{where}: '{VIDEO_COLUMN}' is empty; fill it")
        name = row.get(ID_COLUMN) or None
        if name is not None and (name in known or "/" in name or "\\" in name or name in (".", "..")):
            reason = f"stands in line {known[name]}, too" if name in known else "cannot be the name of a folder"
            raise InputError(f"{where}: the exam_id '{name}' {reason}; give each exam a plain id of its own")
        known[name or ""] = line
        date = _date(row.get(DATE_COLUMN, ""), where)
        if "://" in row[VIDEO_COLUMN] or folder is None:
            yield from _remote_row(str(table), row, name, date, where)
        else:
            yield _local(folder / row[VIDEO_COLUMN], name, read_clock(row, folder, where), date)


def _remote_row(table: str, row: Row, name: str | None, date: str, where: str) -> Iterator[Item]:
    if row.get("clock"):
        raise InputError(f"{where}: a clock file beside a remote exam is found by its name; leave 'clock' empty")
    video = row[VIDEO_COLUMN]
    url = video if "://" in video else f"{table.rpartition('/')[0]}/{video}"
    yield RemoteTree(url).item(name, read_clock(row, Path(), where), date)


def _date(text: str, where: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat() if text else ""
    except ValueError as error:
        raise InputError(f"{where}: exam_date '{text}' is no date such as 2026-03-31; correct it") from error


def _remote(url: str) -> Iterator[Item]:
    if re.match(r"^\w[\w+.:-]*://[^/@]*:[^/@]+@", url):
        raise UsageError(
            f"{url.split('://')[0]}://…: a password in an address ends up in logs; put it into fsspec's own settings"
        )
    if url.endswith(".csv"):
        yield from _of_table(url, fetch_table(url, (VIDEO_COLUMN,)), None)
    else:
        yield from RemoteTree(url).items()
