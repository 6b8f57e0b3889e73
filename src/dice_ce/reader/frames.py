"""Frames for the browser: decoded on demand from the original video, kept for a while, fetched ahead of the reader."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dice_ce.errors import DiceError, error_line
from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import Crop, Exam, Renderer, open_exam
from dice_ce.exam.readers import open_source
from dice_ce.method.summary import Summary
from dice_ce.outputs.keyframes import keyframe_name
from dice_ce.reader.contract import VideoState
from dice_ce.reader.measures import Clock, find_knots
from dice_ce.reader.storage import Reading
from dice_ce.types import Image

Size = int | None
"""Side of the square that a frame is fitted into; None for its own size."""
CACHE_BYTES = 256 * 2**20
AHEAD = 24
"""Frames that are fetched before they are asked for."""
BACK = 12
"""Frames that are decoded together when the reader steps back: reaching one of them takes as long as all."""
MOST_OPEN = 4
LONGEST_WAIT = 60.0
"""Seconds that a request waits for a video to be checked."""
CLOCK_TOLERANCE = 0.01


class MissingVideoError(Exception):
    """The original video is not there, is another one, or cannot be read."""


class UndecodableError(Exception):
    """A frame of the video is damaged."""


class _ClosedError(Exception):
    """The video made room for another one in this moment; opening it again helps."""


class ByteCache:
    """The images used last, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._content: OrderedDict[tuple[str, int, Size], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, int, Size]) -> bytes | None:
        """Return an image that is still there."""
        with self._lock:
            if key in self._content:
                self._content.move_to_end(key)
            return self._content.get(key)

    def put(self, key: tuple[str, int, Size], content: bytes) -> None:
        """Keep an image; those not used for longest make room."""
        with self._lock:
            self._size += len(content) - len(self._content.pop(key, b""))
            self._content[key] = content
            while self._size > self._limit:
                self._size -= len(self._content.popitem(last=False)[1])


class _Decoder:
    """One position in the video, used by one thread at a time."""

    def __init__(self, exam: Exam, threads: int) -> None:
        self._exam, self._cursor = exam, exam.source.open(threads=threads)
        self._renderers: dict[Size, Renderer] = {}
        self.lock = threading.Lock()
        self._is_closed = False

    def read(self, start: int, stop: int, size: Size, wanted: Callable[[int], bool]) -> Iterator[tuple[int, Image]]:
        """Decode a stretch and render the frames that are wanted."""
        if self._is_closed:
            raise _ClosedError
        if size not in self._renderers:
            self._renderers[size] = Renderer(self._exam, size, "area")
        for ordinal, frame in self._cursor.read(start, stop):
            if wanted(ordinal):
                yield ordinal, self._renderers[size](ordinal, frame)

    def close(self) -> None:
        with self.lock:
            self._is_closed = True
            self._cursor.close()


class OpenVideo:
    """A video whose frames are being looked at."""

    def __init__(self, exam: Exam, cache: ByteCache) -> None:
        self.exam, self._cache = exam, cache
        # All cores for what somebody waits for, one for what may be asked for next.
        self._front, self._behind = _Decoder(exam, threads=0), _Decoder(exam, threads=1)
        self._last: int | None = None
        self._wish: tuple[int, int, Size] | None = None
        self._news = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._fetch_ahead, name=f"ahead-{exam.id}", daemon=True)
        self._thread.start()

    def jpeg(self, ordinal: int, size: Size) -> bytes:
        """Return a frame, and have its neighbours fetched in the direction of travel."""
        is_back = self._last is not None and 0 < self._last - ordinal <= BACK
        self._last = ordinal
        found = self._cache.get((self.exam.digest, ordinal, size))
        if found is None:
            start = max(0, ordinal - BACK) if is_back else ordinal
            with self._front.lock:
                self._decode(self._front, start, ordinal + 1, size)
            found = self._cache.get((self.exam.digest, ordinal, size))
        with self._news:
            stretch = (max(0, ordinal - AHEAD), ordinal) if is_back else (ordinal + 1, ordinal + 1 + AHEAD)
            self._wish = (*stretch, size)
            self._news.notify()
        if found is None:
            raise UndecodableError(f"frame {ordinal} is damaged and cannot be shown")
        return found

    def images(self, ordinals: Sequence[int], size: int) -> dict[int, Image]:
        """Return several frames as pixels; damaged ones are left out."""
        found: dict[int, Image] = {}
        with self._front.lock:
            for ordinal in sorted(set(ordinals)):
                found |= self._front.read(ordinal, ordinal + 1, size, lambda _: True)
        return found

    def close(self) -> None:
        """Stop fetching ahead and give the file handles back."""
        with self._news:
            self._is_closed = True
            self._news.notify()
        self._thread.join()
        self._front.close()
        self._behind.close()
        self.exam.close()

    def _decode(self, decoder: _Decoder, start: int, stop: int, size: Size, goes_on: Callable[[], bool] = bool) -> None:
        digest = self.exam.digest

        def is_missing(ordinal: int) -> bool:
            return self._cache.get((digest, ordinal, size)) is None

        for ordinal, image in decoder.read(start, min(stop, len(self.exam)), size, is_missing):
            self._cache.put((digest, ordinal, size), encode_image(image, ".jpg"))
            if goes_on is not bool and not goes_on():
                return

    def _fetch_ahead(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._wish is not None or self._is_closed)
                if self._is_closed:
                    return
                wish, self._wish = self._wish, None
            assert wish is not None
            start, stop, size = wish
            missing = [
                i
                for i in range(start, min(stop, len(self.exam)))
                if self._cache.get((self.exam.digest, i, size)) is None
            ]
            if missing:
                with self._behind.lock:
                    self._decode(self._behind, missing[0], missing[-1] + 1, size, lambda: not self._is_closed)


@dataclass(frozen=True)
class VideoFacts:
    """What is known about a video now."""

    state: VideoState
    message: str = ""
    video: OpenVideo | None = None
    clock: Clock | None = None


CHECKING = VideoFacts("checking", "The video is being checked.")


class Videos:
    """All videos of the worklist; a few of them are open at a time."""

    def __init__(self, *, cache_bytes: int = CACHE_BYTES, most_open: int = MOST_OPEN) -> None:
        self._cache, self._most_open = ByteCache(cache_bytes), most_open
        self._known: OrderedDict[str, VideoFacts] = OrderedDict()
        self._lock = threading.Lock()
        self._checked = threading.Condition(self._lock)
        self._is_closed = False

    def facts(self, reading: Reading, summary: Summary | None) -> VideoFacts:
        """Say what is known; the first question starts the check."""
        digest = reading.exam_digest
        with self._lock:
            known = self._known.get(digest)
            has_come = known is not None and known.state == "missing" and Path(reading.video or "").is_file()
            if known is not None and not has_come:
                self._known.move_to_end(digest)
                return known
            if reading.video is None:
                return VideoFacts("missing", _missing(reading))
            self._known[digest] = CHECKING
        threading.Thread(target=self._check, args=(reading, summary), daemon=True).start()
        return CHECKING

    def wait(self, reading: Reading, summary: Summary | None) -> VideoFacts:
        """Say what is known once the check has ended."""
        digest = reading.exam_digest
        if (facts := self.facts(reading, summary)).state != "checking":
            return facts
        with self._checked:
            self._checked.wait_for(lambda: self._known.get(digest, CHECKING) is not CHECKING, LONGEST_WAIT)
            return self._known.get(digest, CHECKING)

    def jpeg(self, reading: Reading, summary: Summary | None, ordinal: int, size: Size) -> bytes:
        """Return a frame as JPEG; without the video, the keyframes that lie beside the summary."""
        while (facts := self.wait(reading, summary)).video is not None:
            with suppress(_ClosedError):
                return facts.video.jpeg(ordinal, size)
        if (kept := _kept_keyframe(reading, summary, ordinal)) is not None:
            return kept
        raise MissingVideoError(facts.message)

    def strip(self, reading: Reading, summary: Summary | None, ordinals: Sequence[int], size: int) -> bytes:
        """Return several frames side by side as one JPEG; damaged ones stay black."""
        found = self.images(reading, summary, ordinals, size)
        black = np.zeros((size, size, 3), np.uint8)
        return encode_image(np.hstack([found.get(ordinal, black) for ordinal in ordinals]), ".jpg")

    def images(self, reading: Reading, summary: Summary | None, ordinals: Sequence[int], size: int) -> dict[int, Image]:
        """Return several frames as pixels; damaged ones are left out."""
        while (facts := self.wait(reading, summary)).video is not None:
            with suppress(_ClosedError):
                return facts.video.images(ordinals, size)
        raise MissingVideoError(facts.message)

    def close(self) -> None:
        """Close all videos."""
        with self._lock:
            self._is_closed = True
            opened, self._known = list(self._known.values()), OrderedDict()
        for facts in opened:
            if facts.video is not None:
                facts.video.close()

    def _check(self, reading: Reading, summary: Summary | None) -> None:
        facts = check_video(reading, summary, self._cache)
        closing_now: list[OpenVideo] = []
        with self._checked:
            if self._is_closed:
                closing_now += [facts.video] if facts.video else []
            else:
                self._known[reading.exam_digest] = facts
                closing_now += self._surplus(reading.exam_digest)
            self._checked.notify_all()
        for video in closing_now:
            video.close()

    def _surplus(self, newest: str) -> list[OpenVideo]:
        """Take out the videos that were not looked at for longest; they are checked again when they are needed."""
        opened = [digest for digest, facts in self._known.items() if facts.video is not None and digest != newest]
        out = [self._known.pop(digest) for digest in opened[: max(0, len(opened) + 1 - self._most_open)]]
        return [facts.video for facts in out if facts.video is not None]


def _missing(reading: Reading) -> str:
    return f"The video of '{reading.name}' is not there; give its folder to dice-ce read beside the results."


def _kept_keyframe(reading: Reading, summary: Summary | None, ordinal: int) -> bytes | None:
    if reading.folder is None or summary is None:
        return None
    for number, item in enumerate(summary.items, start=1):
        if item.keyframe.frame == ordinal:
            path = Path(reading.folder) / "keyframes" / keyframe_name(number, item)
            try:
                return path.read_bytes()
            except OSError:
                return None
    return None


def check_video(reading: Reading, summary: Summary | None, cache: ByteCache) -> VideoFacts:
    """Open the video of a reading, if it is there and is the one that the results are about."""
    assert reading.video is not None
    path = Path(reading.video)
    if not path.exists():
        return VideoFacts("missing", _missing(reading))
    crop = Crop(*summary.provenance.crop) if summary and summary.provenance.crop else None
    try:
        exam = open_exam(path, crop=crop, mask=summary is None or summary.exam.field != "full")
    except DiceError as error:
        if _digest(path) not in (None, reading.exam_digest):
            return _another(path)
        return VideoFacts("unreadable", f"The video cannot be read: {error_line(error)}")
    if exam.digest != reading.exam_digest:
        exam.close()
        return _another(path)
    return VideoFacts("ready", "", OpenVideo(exam, cache), _clock(exam, summary))


def _another(path: Path) -> VideoFacts:
    return VideoFacts(
        "different", f"{path.name} is not the video that these results were made from; its content differs."
    )


def _digest(path: Path) -> str | None:
    try:
        return open_source(path).digest()
    except DiceError:
        return None


def _clock(exam: Exam, summary: Summary | None) -> Clock:
    """Take the exam's own clock, unless the summary was made with another one."""
    seconds = [float(exam.clock.seconds(i)) for i in range(len(exam))]
    if summary is not None:
        known = known_times(summary)
        if any(abs(seconds[frame] - time) > CLOCK_TOLERANCE for frame, time in known if frame < len(seconds)):
            return summary_clock(summary)
    return find_knots(range(len(exam)), seconds)


def known_times(summary: Summary) -> list[tuple[int, float]]:
    """List the frames whose times a summary tells, in order."""
    last = max(0, summary.counts.frames - 1)
    known = {0: summary.exam.clock.first_seconds, last: summary.exam.clock.last_seconds}
    for item in (*summary.items, *summary.dropped):
        known |= {one.frame: one.seconds for one in (item.keyframe, *item.support, *item.dissent)}
    return sorted(known.items())


def summary_clock(summary: Summary) -> Clock:
    """Tell times from the summary alone: exact for its frames, in between as even as can be."""
    frames, seconds = zip(*known_times(summary), strict=True)
    return find_knots(frames, seconds)


def read_small(exam: Exam, size: int) -> Iterator[tuple[int, Image]]:
    """Stream small images of all frames with one thread, beside which the reader's own requests stay quick."""
    render = Renderer(exam, size, "area")
    with closing(exam.source.open(threads=1)) as cursor:
        for ordinal, frame in cursor.read(0, len(exam)):
            yield ordinal, render(ordinal, frame)
