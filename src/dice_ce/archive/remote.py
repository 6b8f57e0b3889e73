"""Exams that are not on this machine: listed through fsspec, and staged in a scratch folder of bounded size.

    SCRATCH/<key>/<name>    a staged exam with its clock file; kept for the next task on it until the room is needed
    SCRATCH/<key>.lock      held alone while it is fetched, together while it is read: nobody makes room with it

A video is fetched whole, because indexing its packets and hashing it read all of it anyway.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from dice_ce.archive.items import NO_CLOCK, Item
from dice_ce.csvfile import Row, read_table
from dice_ce.errors import InputError, StoreError, require
from dice_ce.exam.clock import ClockOptions
from dice_ce.exam.folders import VIDEO_SUFFIXES
from dice_ce.exam.images import is_frame_name, natural_order
from dice_ce.files import PARTIAL_PREFIX, printable

EXAM_SUFFIXES = (*VIDEO_SUFFIXES, ".zip")
BLOCK = 8 * 2**20
WAIT = 0.2
"""Seconds between two looks for room in the scratch folder."""


def open_filesystem(url: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL and the path on it; errors name the URL and what to install."""
    fsspec = require("fsspec", extra="archive", purpose="reading exams from other machines")
    try:
        if url.startswith("s3://"):
            return _open_s3(), url.removeprefix("s3://").rstrip("/")
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{url}: cannot be reached ({reason}); install what it needs, or check the URL") from error
    except OSError as error:
        raise InputError(f"{url}: cannot be reached ({error}); check the address and the key or password") from error
    return filesystem, path


def _open_s3() -> Any:
    """Speak S3 through Arrow, which the tables need anyway; keys and endpoint come from the usual AWS_ variables."""
    require("pyarrow.fs", extra="archive", purpose="reading from S3")
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import S3FileSystem

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    scheme, _, address = (endpoint or "").rpartition("://")
    return ArrowFSWrapper(
        S3FileSystem(**({"endpoint_override": address, "scheme": scheme or "https"} if address else {}))
    )


class RemoteTree:
    """A file, folder or pattern somewhere else."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._filesystem, self._path = open_filesystem(self._url)
        self._filesystem.invalidate_cache()
        # File systems leave the host out of their paths; whoever fetches an exam later needs it.
        self._root = self._url.removesuffix(self._path.strip("/"))

    def items(self) -> Iterator[Item]:
        """List the exams: every video and zip, and every folder with images directly in it."""
        found = self._ask(lambda: self._list())
        clocks = {path: facts for path, facts in found.items() if path.endswith(".clock.csv")}
        folders: dict[str, list[dict[str, Any]]] = {}
        for path, facts in sorted(found.items(), key=lambda one: natural_order(one[0])):
            name = PurePosixPath(path).name
            if is_frame_name(name):
                folders.setdefault(str(PurePosixPath(path).parent), []).append(facts)
            elif name.lower().endswith(EXAM_SUFFIXES) and not name.startswith("."):
                yield self._item(path, [facts], clocks)
        for folder, frames in folders.items():
            yield self._item(folder, frames, clocks, is_folder=True)

    def item(self, name: str | None, clock: ClockOptions, date: str) -> Item:
        """Describe one exam that was named, whatever its ending; one that is not there fails when its turn comes."""
        try:
            facts = self._filesystem.info(self._path)
            frames = [facts] if facts["type"] != "directory" else list(self._list().values())
            return self._item(self._path, frames, {}, facts["type"] == "directory", name, clock, date)
        except (OSError, LookupError):
            return Item(self._url, name or PurePosixPath(self._path).stem, "", 0, date, clock, is_named=bool(name))

    def _list(self) -> dict[str, dict[str, Any]]:
        if self._filesystem.isfile(self._path):
            beside = _clock_name(self._path)
            paths = [self._path, *([beside] if self._filesystem.isfile(beside) else [])]
            return {path: self._filesystem.info(path) for path in paths}
        if any(sign in self._path for sign in "*?["):
            return dict(self._filesystem.glob(self._path, detail=True))
        # By default, folders that cannot be listed would be left out without a word.
        return dict(self._filesystem.find(self._path, detail=True, on_error="raise"))

    def _item(
        self,
        path: str,
        files: Sequence[dict[str, Any]],
        clocks: dict[str, Any],
        is_folder: bool = False,
        name: str | None = None,
        clock: ClockOptions = NO_CLOCK,
        date: str = "",
    ) -> Item:
        place = PurePosixPath(path)
        stamps = [_stamp(facts) for facts in files]
        if (beside := _clock_name(path, is_folder)) in clocks:
            stamps.append(_stamp(clocks[beside]))
        stamp = hashlib.sha256("\n".join(stamps).encode()).hexdigest()[:32]
        url = self._root + path.lstrip("/")
        own = printable(place.name if is_folder else place.stem)
        size = sum(int(facts.get("size") or 0) for facts in files)
        return Item(url, name or own, stamp, size, date or _day(files[0]), clock, is_named=name is not None)

    def _ask(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return ask()
        except FileNotFoundError as error:
            raise InputError(f"{self._url}: no such file or folder; check the address") from error
        except Exception as error:  # every file system raises its own
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise InputError(f"{self._url}: cannot be listed ({reason}); check the address and the key") from error


def _clock_name(path: str, is_folder: bool = False) -> str:
    place = PurePosixPath(path)
    return str(place.parent / f"{place.name if is_folder else place.stem}.clock.csv")


def _stamp(facts: dict[str, Any]) -> str:
    mark = next((facts[key] for key in ("ETag", "etag", "md5", "mtime", "LastModified", "created") if key in facts), "")
    return f"{facts['name']}-{facts.get('size')}-{mark}"


def _day(facts: dict[str, Any]) -> str:
    when = next((facts[key] for key in ("LastModified", "mtime", "created") if key in facts), None)
    if isinstance(when, int | float):
        when = datetime.datetime.fromtimestamp(when, datetime.UTC)
    return when.date().isoformat() if isinstance(when, datetime.datetime) else ""


def fetch_table(url: str, needed: Sequence[str]) -> list[tuple[int, Row]]:
    """Read a remote CSV."""
    filesystem, path = open_filesystem(url)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / PurePosixPath(path).name
        try:
            target.write_bytes(filesystem.cat_file(path))
        except Exception as error:  # every file system raises its own
            raise InputError(f"{url}: cannot be read ({error}); check the address") from error
        return read_table(target, needed)


@contextlib.contextmanager
def staged(item: Item, scratch: Path, limit: int, progress: Callable[[], None]) -> Iterator[Path]:
    """Yield a local copy of a remote exam, fetched unless it is there; others wait for room rather than exceed it."""
    if item.size > limit:
        raise InputError(
            f"{item.place}: its {item.size / 2**30:.1f} GB do not fit into the scratch folder's {limit / 2**30:.1f}; "
            "give it more with --scratch-size"
        )
    key = hashlib.sha256(f"{item.place}\0{item.stamp}".encode()).hexdigest()[:24]
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = scratch / key
    with (scratch / f"{key}.lock").open("w") as lock:
        while not (_lock(lock, shared=True, wait=False) and folder.is_dir()):
            if _lock(lock, wait=False) and not folder.is_dir():
                _stage(item, scratch, limit, folder, progress)
            else:  # somebody else is fetching it
                progress()
                time.sleep(WAIT)
        os.utime(folder)
        yield folder / _file_name(item)


def _stage(item: Item, scratch: Path, limit: int, folder: Path, progress: Callable[[], None]) -> None:
    draft = _make_room(scratch, limit, item.size, progress)
    try:
        _fetch(item, draft, progress)
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _file_name(item: Item) -> str:
    return PurePosixPath(item.place).name


def _make_room(scratch: Path, limit: int, needed: int, progress: Callable[[], None]) -> Path:
    """Reserve room with a file of the size that is needed, removing the oldest exams that nobody reads."""
    while True:
        with (scratch / "room").open("w") as room:
            _lock(room)
            entries = [path for path in scratch.iterdir() if path.is_dir()]
            used = {path: _bytes_below(path) for path in entries}
            for path in sorted(entries, key=lambda one: one.stat().st_mtime):
                if sum(used.values()) + needed <= limit:
                    break
                if _remove_if_idle(path):
                    used[path] = 0
            if sum(used.values()) + needed <= limit:
                draft = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=scratch))
                with (draft / ".reserved").open("wb") as file:
                    file.truncate(needed)  # sparse: a number that outlives nobody, since drafts are ours to remove
                (draft / ".owner").write_text(str(os.getpid()))
                return draft
        progress()
        time.sleep(WAIT)


def _bytes_below(folder: Path) -> int:
    reserved = folder / ".reserved"
    try:
        if reserved.is_file():
            return reserved.stat().st_size
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except FileNotFoundError:
        return 0


def _remove_if_idle(folder: Path) -> bool:
    """Remove a staged exam unless somebody reads it, or a draft unless somebody is fetching it."""
    if folder.name.startswith(PARTIAL_PREFIX):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((folder / ".owner").read_text()), 0)
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:  # stays: unlinked, two could hold it
        if not _lock(lock, wait=False):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True


def _fetch(item: Item, draft: Path, progress: Callable[[], None]) -> None:
    filesystem, path = open_filesystem(item.place)
    target = draft / _file_name(item)
    try:
        if filesystem.isdir(path):
            target.mkdir()
            for facts in filesystem.ls(path, detail=True):
                if is_frame_name(name := PurePosixPath(facts["name"]).name):
                    _copy(filesystem, facts, target / name, progress)
        else:
            _copy(filesystem, filesystem.info(path), target, progress)
        beside = _clock_name(path, target.is_dir())
        if filesystem.isfile(beside):
            _copy(filesystem, filesystem.info(beside), draft / PurePosixPath(beside).name, progress)
    except FileNotFoundError as error:
        raise InputError(f"{item.place}: no such file or folder; check the address") from error
    except Exception as error:  # every file system raises its own
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"{item.place}: cannot be fetched ({reason}); check the connection and the key") from error
    (draft / ".reserved").unlink()
    (draft / ".owner").unlink()


def _copy(filesystem: Any, facts: dict[str, Any], target: Path, progress: Callable[[], None]) -> None:
    with filesystem.open(facts["name"], "rb") as source, target.open("wb") as file:
        while block := source.read(BLOCK):
            file.write(block)
            progress()
    size, came = facts.get("size"), target.stat().st_size
    if size not in (None, came):  # an exam that was cut short on the way would count as a damaged one
        raise OSError(f"{came:,} of {size:,} bytes came")


def _lock(file: io.TextIOWrapper, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock a file until it is closed, alone or with others; False if somebody else has it and we do not wait."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        return True
    except BlockingIOError:
        return False
