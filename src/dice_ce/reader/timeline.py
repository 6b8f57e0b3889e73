"""The whole exam at a glance: mean colour per interval and changes of scene, worked out once in the background."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from dice_ce.errors import DiceError
from dice_ce.exam.open import Exam
from dice_ce.files import cache_root, write_atomically
from dice_ce.method.summary import ACTIVITY_BINS, Summary
from dice_ce.reader.contract import Timeline
from dice_ce.reader.frames import CHECKING, VideoFacts, Videos, read_small
from dice_ce.reader.measures import Clock
from dice_ce.reader.storage import Reading
from dice_ce.types import Doubles

SMALL = 24
"""Side of the images that colours are taken from."""
FORMAT = 1
LEAST_BRIGHTNESS = 8
"""Darker pixels are the frame around the field of view rather than mucosa."""
MOST_CHANGES = 300
CHANGE_SPACING = 6
"""Frames between two changes, at least."""
CHANGE_FACTOR = 3.0
"""How much more than usual a scene must change."""


@dataclass(frozen=True)
class Colours:
    """What one pass over the video gives."""

    format: int
    frames: int
    colours: tuple[str | None, ...]
    """Per frame, `rrggbb`; None where it cannot be decoded."""
    changes: tuple[int, ...]


def scan_colours(exam: Exam, progress: Callable[[int, int], bool]) -> Colours | None:
    """Take the mean colour of every frame and find the changes; None if `progress` says to stop."""
    colours: list[str | None] = [None] * len(exam)
    change = np.zeros(len(exam), np.float64)
    before = None
    for ordinal, image in read_small(exam, SMALL):
        pixels = image.reshape(-1, 3).astype(np.float64)
        seen = pixels[pixels.max(axis=1) > LEAST_BRIGHTNESS]
        mean = seen.mean(axis=0) if len(seen) else np.zeros(3)
        colours[ordinal] = "".join(f"{round(value):02x}" for value in mean)
        if before is not None:
            change[ordinal] = np.abs(pixels - before).mean()
        before = pixels
        if ordinal % 100 == 0 and not progress(ordinal, len(exam)):
            return None
    return Colours(FORMAT, len(exam), tuple(colours), find_changes(change))


def find_changes(change: Doubles) -> tuple[int, ...]:
    """Choose the frames at which the scene changes most, not too close to each other."""
    usual = float(np.median(change[change > 0])) if (change > 0).any() else 0.0
    chosen: list[int] = []
    for frame in np.argsort(-change, kind="stable"):
        if change[frame] <= CHANGE_FACTOR * usual or len(chosen) == MOST_CHANGES:
            break
        if all(abs(int(frame) - other) >= CHANGE_SPACING for other in chosen):
            chosen.append(int(frame))
    return tuple(sorted(chosen))


class Timelines:
    """Colours of all exams, from the cache or from one background thread that works through them."""

    def __init__(self, videos: Videos, folder: Path | None = None) -> None:
        self._videos, self._folder = videos, folder or cache_root() / "reader"
        self._ready: dict[str, Colours] = {}
        self._progress: dict[str, float] = {}
        self._queue: queue.SimpleQueue[tuple[Reading, Summary | None] | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop working; what is unfinished is begun again next time."""
        self._is_closed = True
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def of(self, reading: Reading, summary: Summary | None, clock: Clock) -> Timeline:
        """Return what is known now, and have the rest worked out."""
        colours, facts = self._find(reading, summary), self._videos.facts(reading, summary)
        if summary is not None:
            begin, end = summary.activity.first_seconds, summary.activity.last_seconds
        else:
            begin, end = clock.seconds(0), max(clock.seconds(reading.frames - 1), clock.seconds(0) + 1)
        edges = np.linspace(begin, end, ACTIVITY_BINS + 1)
        firsts = tuple(min(clock.frame(float(edge)), reading.frames - 1) for edge in edges[:-1])
        is_coming = colours is None and (facts.video is not None or facts is CHECKING)
        return Timeline(
            first_seconds=begin,
            last_seconds=end,
            bin_frames=firsts,
            activity=summary.activity.mean_score if summary else None,
            candidates=summary.activity.candidates if summary else None,
            colours=None if colours is None else bin_colours(colours.colours, (*firsts, reading.frames)),
            changes=colours.changes if colours else (),
            colour_state="ready" if colours else "working" if is_coming else "missing",
            progress=1.0 if colours else self._progress.get(reading.exam_digest, 0.0),
        )

    def _find(self, reading: Reading, summary: Summary | None) -> Colours | None:
        digest = reading.exam_digest
        with self._lock:
            if digest in self._ready:
                return self._ready[digest]
            if digest in self._progress:
                return None
            if (stored := self._stored(reading)) is not None:
                self._ready[digest] = stored
                return stored
            if reading.video is None:
                return None
            self._progress[digest] = 0.0
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="colours", daemon=True)
                self._thread.start()
        self._queue.put((reading, summary))
        return None

    def _path(self, reading: Reading) -> Path:
        return self._folder / f"{reading.exam_digest}.json"

    def _stored(self, reading: Reading) -> Colours | None:
        """Read the cache; what is damaged or of another format is made again."""
        try:
            found = msgspec.json.decode(self._path(reading).read_bytes(), type=Colours)
        except (OSError, msgspec.MsgspecError):
            return None
        return found if found.format == FORMAT and found.frames == reading.frames else None

    def _work(self) -> None:
        while (job := self._queue.get()) is not None and not self._is_closed:
            reading, summary = job
            facts = self._videos.wait(reading, summary)
            colours = self._scan(reading, facts)
            if colours is not None:
                with self._lock:
                    self._ready[reading.exam_digest] = colours

    def _scan(self, reading: Reading, facts: VideoFacts) -> Colours | None:
        if facts.video is None:
            return None

        def note(done: int, total: int) -> bool:
            self._progress[reading.exam_digest] = round(done / total, 3)
            return not self._is_closed

        try:
            colours = scan_colours(facts.video.exam, note)
            if colours is not None:
                write_atomically(self._path(reading), msgspec.json.encode(colours))
        except DiceError:  # a full disk: the colours are shown all the same, and made again next time
            return colours
        return colours


def bin_colours(colours: tuple[str | None, ...], firsts: tuple[int, ...]) -> tuple[str | None, ...]:
    """Average the colours of the frames of each bin; a bin without frames takes that of its first one."""
    found: list[str | None] = []
    for first, last in itertools.pairwise(firsts):
        there = [one for one in colours[first : max(last, first + 1)] if one]
        values = np.array([[int(one[i : i + 2], 16) for i in (0, 2, 4)] for one in there])
        found.append("#" + "".join(f"{round(value):02x}" for value in values.mean(axis=0)) if there else None)
    return tuple(found)
