"""extract(exam, encoder) -> Features: decoding and encoding on all cores, resumable, with bounded memory.

The exam is cut into segments that begin at keyframes. Each worker thread decodes whole segments by itself and encodes
them with the shared encoder (PyAV and ONNX Runtime both work outside the interpreter lock), so there is no queue of
images between threads, and a segment's features depend on nothing but its own frames: not on the number of workers,
nor on which segments an earlier, interrupted run had finished.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt

from dice_ce.errors import EncoderError, StoreError
from dice_ce.exam.open import Exam, Renderer
from dice_ce.exam.readers import Cursor
from dice_ce.features.encoder import Encoder
from dice_ce.features.gate import EncodedBlock, GateConfig, encode_block
from dice_ce.features.store import Features, FeatureStore, Segment
from dice_ce.types import Ints, Progress

SEGMENT_LENGTH = 256
"""Frames after which a segment ends at the next keyframe: what an interruption can cost each worker."""
BLOCK_LENGTH = 64
"""Frames held in memory by each worker, and the longest stretch one run of the gate can cover."""


FOLLOWED = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Shares of the exam after which whoever follows is told: soon for the first time, and seldom enough to cost little."""

Follow = Callable[[Features], None]
"""Told the features of what has been read so far."""


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extract(
    exam: Exam,
    encoder: Encoder,
    *,
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen, so sharing it is safe
    workers: int | None = None,
    progress: Progress | None = None,
    follow: Follow | None = None,
) -> Features:
    """Return the features of every decodable frame, from the cache or computed into it.

    `gate=None` computes every frame exactly. Interrupt it at any time: the next call goes on where it stopped.
    `follow` is called now and then, in the thread of the caller, while the others read on.
    """
    store = FeatureStore.of(exam, encoder, gate, segment_length=SEGMENT_LENGTH)
    features = store.load(exam)
    if features is None:
        with store.locked():
            features = store.load(exam)  # another process may have finished it while we waited
            if features is None:
                _Run(exam, encoder, gate, store, progress, follow=follow).go(workers or cpu_count())
                store.publish(exam, encoder)
                features = store.load(exam)
    if features is None:
        raise StoreError(f"{store.folder}: what was written there a moment ago is gone; is its disk or share mounted?")
    store.clear_parts()
    return features


def extract_segments(
    exam: Exam,
    encoder: Encoder,
    segments: Sequence[tuple[int, int]],
    *,
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen, so sharing it is safe
    workers: int = 1,
    progress: Progress | None = None,
) -> None:
    """Compute some segments of an exam into the cache, where `extract` finds them.

    Nothing is locked, because others may work on other segments of the same exam, on other machines. Two that work on
    the same one write the same bytes.
    """
    store = FeatureStore.of(exam, encoder, gate, segment_length=SEGMENT_LENGTH)
    if store.load(exam) is None:
        _Run(exam, encoder, gate, store, progress, segments).go(workers)


def plan_segments(frame_count: int, keyframes: Ints, length: int = SEGMENT_LENGTH) -> list[tuple[int, int]]:
    """Cut the exam into (start, stop) segments that begin at keyframes, unless none comes for another `length`."""
    starts = [0]
    while (wanted := starts[-1] + length) < frame_count:
        following = keyframes[np.searchsorted(keyframes, wanted) :]
        starts.append(int(following[0]) if len(following) and following[0] < wanted + length else wanted)
    return list(zip(starts, [*starts[1:], frame_count], strict=True))


class _Run:
    """One extraction: the segments that are left, and the workers that share them."""

    def __init__(
        self,
        exam: Exam,
        encoder: Encoder,
        gate: GateConfig | None,
        store: FeatureStore,
        progress: Progress | None,
        segments: Sequence[tuple[int, int]] | None = None,
        follow: Follow | None = None,
    ) -> None:
        self._exam, self._encoder, self._gate, self._store = exam, encoder, gate, store
        self._progress = progress or (lambda done, total: None)
        finished = store.finished_segments()
        if segments is None:
            segments = plan_segments(len(exam), exam.source.keyframes)
        self._segments, self._follow = segments, follow
        self._left = iter([segment for segment in segments if segment[0] not in finished])
        self._done = sum(stop - start for start, stop in segments if start in finished)
        self._saved, self._told = self._done, 0
        """Frames of finished segments: now, and when `follow` was called last."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: BaseException | None = None

    def go(self, workers: int) -> None:
        """Work until all is done, something fails, or the user interrupts."""
        self._progress(self._done, len(self._exam))
        # Events, because a join() that Ctrl-C interrupts takes its thread for ended (Python 3.11).
        ended: list[threading.Event] = []
        try:
            for _ in range(workers):
                event = threading.Event()
                threading.Thread(target=self._work, args=(event,), daemon=True).start()
                ended.append(event)
            for event in ended:
                while not event.wait(0.2):  # short, so that Ctrl-C is noticed
                    self._tell()
        finally:
            self._stop.set()
            for event in ended:
                event.wait()
        if self._failure is not None:
            raise self._failure

    def _tell(self) -> None:
        """Hand on what is finished, if that is a good deal more than last time."""
        saved, total = self._saved, len(self._exam)
        if self._follow and saved < total and any(self._told < share * total <= saved for share in FOLLOWED):
            self._follow(self._store.load_finished(self._exam, self._encoder, self._segments))
            self._told = saved

    def _work(self, ended: threading.Event) -> None:
        try:
            render = Renderer(self._exam, self._encoder.input_size, self._encoder.resize)
            with closing(self._exam.source.open(threads=1)) as cursor:
                while (segment := self._take()) is not None:
                    self._store.save_segment(segment[0], self._encode_segment(cursor, render, *segment))
                    with self._lock:
                        self._saved += segment[1] - segment[0]
        except _Stopped:
            pass
        except BaseException as failure:  # handed to the thread that waits
            self._failure = failure
            self._stop.set()
        finally:
            ended.set()

    def _take(self) -> tuple[int, int] | None:
        with self._lock:
            return None if self._stop.is_set() else next(self._left, None)

    def _encode_segment(self, cursor: Cursor, render: Renderer, start: int, stop: int) -> Segment:
        index: list[int] = []
        blocks: list[EncodedBlock] = []
        for ordinals, images in self._blocks(cursor, render, start, stop):
            block = encode_block(images, self._encode, self._gate)
            if not np.all(np.abs(block.vectors) <= np.finfo(np.float16).max):
                raise EncoderError(
                    f"{self._encoder.name}: produced features that are not finite or too large for 16 bits near frame "
                    f"{ordinals[0]}; use another encoder"
                )
            index += ordinals
            blocks.append(block)
        self._finished(stop - start - len(index))  # the undecodable ones are dealt with, too
        return Segment(
            np.array(index, np.int64),
            np.concatenate([np.empty((0, self._encoder.dim)), *(block.vectors for block in blocks)]).astype(np.float16),
            np.concatenate([np.empty(0, np.bool_), *(block.exact for block in blocks)]),
            max((block.worst for block in blocks), default=0.0),
        )

    def _encode(self, batch: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        if self._stop.is_set():
            raise _Stopped
        return self._encoder.encode(batch)

    def _blocks(
        self, cursor: Cursor, render: Renderer, start: int, stop: int
    ) -> Iterator[tuple[list[int], npt.NDArray[np.uint8]]]:
        """Gather decoded images into blocks, telling the progress as each has been dealt with."""
        size = self._encoder.input_size
        images = np.empty((BLOCK_LENGTH, size, size, 3), np.uint8)
        ordinals: list[int] = []
        for ordinal, frame in cursor.read(start, stop):
            images[len(ordinals)] = render(ordinal, frame)
            ordinals.append(ordinal)
            if len(ordinals) == BLOCK_LENGTH:
                yield ordinals, images
                self._finished(len(ordinals))
                ordinals = []
        if ordinals:
            yield ordinals, images[: len(ordinals)]
            self._finished(len(ordinals))

    def _finished(self, frames: int) -> None:
        with self._lock:
            self._done += frames
            self._progress(self._done, len(self._exam))


class _Stopped(Exception):  # noqa: N818  not an error
    """Raised in a worker when another one failed or the user interrupted."""
