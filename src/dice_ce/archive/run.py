"""The driver: finds what is to be done, hands it to an engine, and writes down how each exam ended."""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from dice_ce.archive.engine import Engine
from dice_ce.archive.items import Died, Item, Limits, Outcome, Partly, Places, Recipe, Result, Split, Task, Trouble
from dice_ce.archive.manifest import Manifest, ReplacedError, Row
from dice_ce.archive.tables import FRAMES, TableClock, write_tables
from dice_ce.archive.worker import check_archive, chunk_segments, is_there
from dice_ce.errors import StoreError, error_line
from dice_ce.files import PARTIAL_PREFIX
from dice_ce.outputs import remove_outputs
from dice_ce.types import Progress

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before something that may pass is tried again; doubled every time."""


@dataclass(frozen=True)
class Ended:
    """What a run has come to."""

    found: int
    """Exams in the sources."""
    known: int
    """Of these, done by earlier runs."""
    done: int
    failed: tuple[Row, ...]
    skipped: int


@dataclass
class _Long:
    """A long exam that several workers are at."""

    split: Split
    left: int
    seconds: float


class Run:
    """One run over an archive."""

    def __init__(
        self,
        manifest: Manifest,
        engine: Engine,
        recipe: Recipe,
        places: Places,
        limits: Limits,
        *,
        patience: float = 600.0,
        progress: Progress | None = None,
        note: Callable[[str], None] = lambda text: None,
        heed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._manifest, self._engine, self._recipe = manifest, engine, recipe
        self._places, self._limits, self._patience = places, limits, patience
        self._progress = progress or (lambda done, total: None)
        self._note, self._heed, self._clock = note, heed, clock
        self._tables = TableClock()
        self._queue: deque[Task] = deque()
        self._later: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._troubled: dict[tuple[str, str, tuple[tuple[int, int], ...]], tuple[float, float]] = {}
        """Since when a task has had trouble, and how long it pauses next."""
        self._long: dict[str, _Long] = {}
        self._rows: dict[str, Row] = {}
        """Exams of this run that have not ended."""
        self._found: set[str] = set()
        self._by_content: dict[str, Row] = {}
        """Exams that are done."""
        self._owners: dict[str, str] = {}
        """Whose results this run writes into which folder."""
        self._contents: dict[str, str] = {}
        """What the exams that have come back hold; empty if that is not known."""
        self._held: dict[str, list[tuple[Task, Outcome]]] = {}
        """Outcomes that depend on what another exam holds."""
        self._parents: set[Path] = set()
        self._flying = 0
        self._ended: Counter[str] = Counter()
        self._failed: list[Row] = []

    def go(self, items: Sequence[Item]) -> Ended:
        """Work until every exam has ended; Ctrl-C, or what `heed` raises, leaves what is finished."""
        wanted = self._patiently(lambda: self._plan(items))
        self._remove_drafts()
        facts = (self._clock(), self._engine.name, self._engine.capacity, len(wanted))
        number = self._patiently(lambda: self._manifest.begin_run(*facts))
        known = len(items) - len(wanted)
        self._progress(known, len(items))
        try:
            self._patiently(self._write_tables)
            self._queue.extend(wanted)
            while self._queue or self._later or self._flying:
                self._fill()
                results = self._engine.wait(min(1.0, self._pause()))
                self._heed()
                ended = [outcome for task, result in results for outcome in self._take(task, result)]
                if ended:
                    self._record(ended)
                    self._progress(known + self._ended.total(), len(items))
                if self._tables.is_due():
                    self._patiently(self._write_tables)
            self._remove_stale_scores()
        except BaseException:
            self._patience = 0.0  # nobody who interrupts a run wants to wait for storage that is away
            with contextlib.suppress(StoreError):
                self._wind_up(number)
            raise
        self._wind_up(number)
        return Ended(len(items), known, self._ended["done"], tuple(self._failed), self._ended["skipped"])

    def _wind_up(self, number: int) -> None:
        """End what still runs, and leave the archive as it is now."""
        self._engine.close()
        self._remove_drafts()
        self._patiently(self._write_tables)
        self._patiently(lambda: self._manifest.end_run(number, self._clock()))

    # --- planning --------------------------------------------------------------------------------------------------

    def _plan(self, items: Sequence[Item]) -> list[Task]:
        """Compare what was found with what is done; long exams first, so that none is left alone at the end."""
        known = {row.place: row for row in self._manifest.rows()}
        self._found = {item.place for item in items}
        there = functools.cache(_names_in)  # listed once: asking for each of a hundred thousand takes minutes
        again = {item.place for item in items if not self._is_done(item, known.get(item.place), there)}
        done = {row.content_digest: row for row in known.values() if row.state == "done" and row.place not in again}
        again |= {
            place
            for place in self._found - again
            if known[place].state == "skipped" and known[place].content_digest not in done  # what it was a copy of
        }
        new = [item for item in items if item.place in again]
        gone = [
            row.place
            for row in known.values()
            if row.state in ("waiting", "failed") and row.place not in self._found and not is_there(row.place)
        ]
        targets = choose_targets(new, known)
        self._rows = {
            item.place: Row(
                item.place, item.name, item.stamp, item.size, item.date, target=targets[item.place],
                bundle_digest=self._recipe.bundle_digest, settings_digest=self._recipe.digest(item),
            )
            for item in new
        }  # fmt: skip
        self._manifest.write(list(self._rows.values()), gone=gone)
        self._by_content = done
        self._owners = {target: place for place, target in targets.items()}
        self._parents = {self._results(row.target).parent for row in (*known.values(), *self._rows.values())}
        new.sort(key=lambda item: -item.size)
        return [Task(item, self._recipe, self._places, self._limits, targets[item.place]) for item in new]

    def _is_done(self, item: Item, row: Row | None, there: Callable[[Path], frozenset[str]]) -> bool:
        return (
            row is not None
            and row.state in ("done", "skipped")
            and (row.stamp, row.bundle_digest) == (item.stamp, self._recipe.bundle_digest)
            and row.settings_digest == self._recipe.digest(item)
            and (row.state == "skipped" or self._results(row.target).name in there(self._results(row.target).parent))
        )

    def _results(self, target: str) -> Path:
        return self._places.archive / "results" / target

    # --- working ---------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Give the engine as much as it can use, what was begun first."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._queue.appendleft(heapq.heappop(self._later)[2])
        capacity = self._engine.capacity
        while self._queue and self._flying < capacity:
            self._engine.submit(self._queue.popleft())
            self._flying += 1

    def _pause(self) -> float:
        return max(0.05, self._later[0][0] - time.monotonic()) if self._later else 1.0

    def _take(self, task: Task, result: Result) -> Sequence[tuple[Item, Outcome]]:
        """Do what follows from a result; return how exams ended, if they have."""
        self._flying -= 1
        item = task.item
        if isinstance(result, Trouble):
            return self._try_later(task, result)
        self._troubled.pop((item.place, task.kind, task.segments), None)
        if isinstance(result, Split):
            self._deal(task, result)
            return ()
        if isinstance(result, Partly):
            if (long := self._long.get(item.place)) is not None:  # None if it has failed meanwhile
                long.left -= 1
                long.seconds += result.seconds
                if long.left == 0:
                    self._queue.appendleft(replace(task, kind="finish", segments=(), opened=long.split.exam))
            return ()
        if isinstance(result, Died):
            return self._settle(task, Outcome("failed", result.reason, exam_id=item.name, place=item.place))
        return self._settle(task, result)

    def _settle(self, task: Task, outcome: Outcome) -> Sequence[tuple[Item, Outcome]]:
        """Let earlier results count, unless they lie where another exam of this run puts its own.

        That other exam is waited for. If it holds the same, one of the two is a copy; if not, as where two exams have
        changed names, the results are made again where they belong.
        """
        place = task.item.place
        self._contents[place] = outcome.content_digest
        settled = []
        for one, result in [(task, outcome), *self._held.pop(place, [])]:
            owner = self._owners.get(result.target, one.item.place)
            if owner == one.item.place or self._contents.get(owner) == result.content_digest:
                settled.append((one.item, result))
            elif owner in self._contents:
                self._queue.appendleft(replace(one, is_apart=True))
            else:
                self._held.setdefault(owner, []).append((one, result))
        return settled

    def _deal(self, task: Task, split: Split) -> None:
        """Turn a long exam into tasks of a few segments each, ahead of exams that nobody has begun."""
        chunks = chunk_segments(split.segments)
        self._long[task.item.place] = _Long(split, len(chunks), split.seconds)
        parts = [replace(task, kind="segments", segments=chunk, opened=split.exam) for chunk in chunks]
        self._queue.extendleft(reversed(parts or [replace(task, kind="finish", opened=split.exam)]))

    def _try_later(self, task: Task, trouble: Trouble) -> Sequence[tuple[Item, Outcome]]:
        key = (task.item.place, task.kind, task.segments)
        since, pause = self._troubled.get(key, (time.monotonic(), FIRST_PAUSE))
        if time.monotonic() - since >= self._patience:
            del self._troubled[key]
            return self._settle(task, Outcome("failed", trouble.reason, exam_id=task.item.name, place=task.item.place))
        if not self._troubled:
            self._note(f"{trouble.reason} (trying again for {self._patience:.0f} s)")
        self._troubled[key] = since, min(2 * pause, LONGEST_PAUSE)
        heapq.heappush(self._later, (time.monotonic() + pause, next(self._numbers), task))
        return ()

    # --- writing down ----------------------------------------------------------------------------------------------

    def _record(self, ended: Sequence[tuple[Item, Outcome]]) -> None:
        """Write down how exams ended, in one transaction."""
        rows, findings, gone, replaced = [], {}, [], []
        for item, outcome in ended:
            planned = self._rows.pop(item.place, None)
            if planned is None:  # it has failed before, by another of its segments
                continue
            row, moved_from = self._reconcile(self._row(planned, outcome), outcome)
            rows.append(row)
            if row.state == "done":
                findings[row.content_digest] = outcome.findings
                self._by_content[row.content_digest] = row
            if moved_from is not None:
                gone.append(moved_from.place)
                replaced += [moved_from.target] if moved_from.target != row.target else []
        self._patiently(lambda: self._manifest.write(rows, findings, gone))
        for target in replaced:
            remove_outputs(self._results(target))
        self._ended.update(row.state for row in rows)
        self._failed += [row for row in rows if row.state == "failed"]

    def _row(self, planned: Row, outcome: Outcome) -> Row:
        long = self._long.pop(planned.place, None)
        return replace(
            planned,
            state=outcome.state,
            reason=outcome.reason,
            content_digest=outcome.content_digest,
            target=outcome.target or planned.target,
            frames=outcome.frames,
            decoded=outcome.decoded,
            is_exam_time=outcome.is_exam_time,
            findings=len(outcome.findings),
            seconds=outcome.seconds + (long.seconds if long else 0.0),
            node=outcome.node,
            finished=self._clock(),
        )

    def _reconcile(self, row: Row, outcome: Outcome) -> tuple[Row, Row | None]:
        """Recognise an exam by its content: one that has moved takes over its row, a second copy is skipped."""
        other = self._by_content.get(row.content_digest) if row.state == "done" else None
        if other is None or other.place == row.place:
            return row, None
        is_same = other.settings_digest == row.settings_digest
        if other.place in self._found or (is_same and is_there(other.place)):
            return replace(row, state="skipped", reason=f"has the same content as {other.place}", findings=0), None
        return replace(row, exam_id=outcome.exam_id), other

    def _remove_stale_scores(self) -> None:
        """Remove the scores of exams that have been replaced by others."""
        current = {digest[:32] for digest in self._by_content}
        for path in (self._places.archive / FRAMES).glob("*.parquet"):
            if path.stem not in current:
                path.unlink(missing_ok=True)

    def _remove_drafts(self) -> None:
        """Remove what killed workers have left half-written; this run alone works on the archive."""
        for folder in (*self._parents, self._places.archive / FRAMES):
            for draft in folder.glob(f"{PARTIAL_PREFIX}*"):
                if draft.is_dir():
                    shutil.rmtree(draft, ignore_errors=True)
                else:
                    draft.unlink(missing_ok=True)

    def _write_tables(self) -> None:
        began = time.monotonic()
        write_tables(self._places.archive, self._manifest)
        self._tables.written(time.monotonic() - began)

    def _patiently(self, act: Callable[[], T]) -> T:
        """Try again while the storage is full or gone, for as long as a run is told to be patient."""
        tries = itertools.count()

        def once() -> T:
            check_archive(self._places)
            if next(tries):
                self._manifest.reopen()
            return act()

        return patiently(once, self._patience, self._note)


def patiently(act: Callable[[], T], patience: float, note: Callable[[str], None]) -> T:
    """Try again while storage is full or gone; another archive in the place of ours does not go away by waiting."""
    since, pause = time.monotonic(), FIRST_PAUSE
    while True:
        try:
            return act()
        except StoreError as error:
            if isinstance(error, ReplacedError) or time.monotonic() - since >= patience:
                raise
            if pause == FIRST_PAUSE:
                note(f"{error_line(error)} (trying again for {patience:.0f} s)")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _names_in(folder: Path) -> frozenset[str]:
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError:
        return frozenset()


class _Targets:
    """Folders that are taken; none may lie in another, since each belongs to one exam."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken: set[str] = set()
        self._above: set[str] = set()
        for target in taken:
            self.add(target)

    def add(self, target: str) -> None:
        self._taken.add(target)
        self._above.update(_folders_above(target))

    def is_free(self, target: str) -> bool:
        inside = any(folder in self._taken for folder in _folders_above(target))
        return not inside and target not in self._taken and target not in self._above


def _folders_above(target: str) -> list[str]:
    parts = target.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def choose_targets(items: Sequence[Item], known: Mapping[str, Row]) -> dict[str, str]:
    """Choose a folder for each exam's results: its name, below folders of its own path where a name is not unique."""
    targets = {
        item.place: row.target
        for item in items
        if (row := known.get(item.place)) is not None and PurePosixPath(row.target).name == item.name
    }
    mine = {item.place for item in items}
    taken = _Targets({*targets.values(), *(row.target for place, row in known.items() if place not in mine)})
    names = Counter(item.name for item in items)
    for item in items:
        if item.place not in targets:
            candidates = _candidates(item, is_unique=names[item.name] == 1)
            targets[item.place] = next(target for target in candidates if taken.is_free(target))
            taken.add(targets[item.place])
    return targets


def _candidates(item: Item, *, is_unique: bool) -> Iterator[str]:
    parents = [part for part in PurePosixPath(item.place).parent.parts if part.strip("/") and ":" not in part]
    for depth in range(0 if is_unique or not parents else 1, len(parents) + 1):
        yield "/".join([*parents[len(parents) - depth :], item.name])
    for number in itertools.count(2):
        yield f"{number}/{item.name}"


def places_of(
    archive: Path, identity: str, cache: Path | None, scratch: Path | None, scratch_bytes: int | None
) -> Places:
    """Fill in where a run reads and writes, as absolute paths that hold on every node."""
    import getpass
    import tempfile

    archive = archive.absolute()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "user"
    room = scratch or Path(tempfile.gettempdir()) / f"dice-ce-scratch-{user}"
    return Places(archive, identity, cache or archive / "cache", room.absolute(), scratch_bytes or 20 * 2**30)
