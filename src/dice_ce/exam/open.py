"""Any export of a capsule exam -> Exam: frames by ordinal, exact times, the exam clock, the field of view."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import av
import numpy as np
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from dice_ce.errors import ExamError, UsageError
from dice_ce.exam.clock import ClockOptions, ExamClock, Number, resolve_clock
from dice_ce.exam.field import FULL, WORKING_SIZE, Field, brightest, find_field
from dice_ce.exam.frames import FrameTable
from dice_ce.exam.ocr import Box
from dice_ce.exam.overlay import find_covers
from dice_ce.exam.readers import SMALLEST_SIDE, Cursor, Source, check_size, is_dicom_input, name_of_dicom, open_source
from dice_ce.files import printable
from dice_ce.types import Image, Ints, Progress, Resize

FIELD_SAMPLES = 48
"""Frames, spread over the exam, that tell where the field of view is and what the exam looks like."""


FIELD_REACH = 3000
"""How far into the exam they are taken when each one has to be decoded from the start."""


KEPT_BYTES = 32 * 2**20
"""Of decoded frames that an exam keeps once they were asked for one by one."""


class Crop(NamedTuple):
    """A rectangle of the image: one camera of a multi-camera layout."""

    x: int
    y: int
    width: int
    height: int

    @classmethod
    def parse(cls, text: str) -> Crop:
        """Read `x,y,w,h`."""
        try:
            crop = cls(*(int(part) for part in text.split(",")))
        except (ValueError, TypeError) as error:
            raise UsageError(f"--crop takes x,y,w,h in pixels, got '{text}'") from error
        if min(crop) < 0 or min(crop.width, crop.height) < SMALLEST_SIDE:
            raise UsageError(f"--crop needs x, y >= 0 and at least {SMALLEST_SIDE} pixels each way, got '{text}'")
        return crop


class _SharedCursor:
    """The cursor that random access keeps open between calls, opened when first needed."""

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads
        self._cursor: Cursor | None = None
        self._lock = threading.Lock()

    def read(self, source: Source, ordinal: int) -> list[tuple[int, av.VideoFrame]]:
        with self._lock:
            if self._cursor is None:
                self._cursor = source.open(threads=self._threads)
            return list(self._cursor.read(ordinal, ordinal + 1))

    def __reduce__(self) -> tuple[type[_SharedCursor], tuple[int]]:
        return _SharedCursor, (self._threads,)  # an exam that is sent to another process opens its own

    def close(self) -> None:
        with self._lock:
            if self._cursor is not None:
                self._cursor.close()
                self._cursor = None


class _Kept:
    """Frames that random access has decoded, as many as fit: what a network looks at is often shown as well."""

    def __init__(self) -> None:
        self._frames: dict[int, av.VideoFrame] = {}
        self._left = KEPT_BYTES
        self._lock = threading.Lock()

    def get(self, ordinal: int) -> av.VideoFrame | None:
        return self._frames.get(ordinal)

    def put(self, ordinal: int, frame: av.VideoFrame) -> None:
        size = sum(plane.buffer_size for plane in frame.planes)
        with self._lock:
            if size <= self._left and ordinal not in self._frames:
                self._frames[ordinal] = frame
                self._left -= size

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()  # an exam that is sent to another process decodes its own


@dataclass(frozen=True, eq=False)
class Exam:
    """One capsule exam, open for reading. It is never written to."""

    id: str
    """Name of the file or folder without its ending."""
    digest: str
    """SHA-256 of the content."""
    source: Source
    clock: ExamClock
    image_size: tuple[int, int]
    """Width and height of the images in the file."""
    crop: Crop | None = None
    field: Field = FULL
    """Window outside of which every image is blacked."""
    covers: tuple[Box, ...] = ()
    """Boxes inside the window that are blacked as well, because text is burned in there."""
    warnings: tuple[str, ...] = ()
    _cursor: _SharedCursor = dataclasses.field(default_factory=_SharedCursor, repr=False)
    _kept: _Kept = dataclasses.field(default_factory=_Kept, repr=False)

    @property
    def frames(self) -> FrameTable:
        """All frames of the exam, decodable or not."""
        return self.source.frames

    @property
    def width(self) -> int:
        """Width of what is shown, after the crop."""
        return self.crop.width if self.crop else self.image_size[0]

    @property
    def height(self) -> int:
        """Height of what is shown, after the crop."""
        return self.crop.height if self.crop else self.image_size[1]

    def __len__(self) -> int:
        return len(self.frames)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what random access keeps open."""
        self._cursor.close()

    def apart(self) -> Exam:
        """Return the same exam with a cursor of its own, for another thread; its decoder starts no further ones."""
        return dataclasses.replace(self, _cursor=_SharedCursor(threads=1))

    def spread(self) -> Ints:
        """Return the ordinals of a few frames from all over the exam that are cheap to reach."""
        return spread_over(self.source)

    def read(
        self, start: int = 0, stop: int | None = None, *, size: int | None = None, resize: Resize = "area"
    ) -> Iterator[tuple[int, Image]]:
        """Stream (ordinal, RGB image) of the decodable frames in [start, stop); memory does not grow.

        With `size`, images are fitted into a black square of that side; otherwise they keep their own size.
        """
        render = Renderer(self, size, resize)
        with closing(self.source.open()) as cursor:
            for ordinal, frame in cursor.read(start, len(self) if stop is None else min(stop, len(self))):
                yield ordinal, render(ordinal, frame)

    def images(
        self, ordinals: Iterable[int], *, size: int | None = None, resize: Resize = "area"
    ) -> Iterator[tuple[int, Image]]:
        """Yield (ordinal, image) of just these frames, exactly, in the order given; undecodable ones are left out."""
        render = Renderer(self, size, resize)
        for ordinal, frame in self.decoded(ordinals):
            yield ordinal, render(ordinal, frame)

    def decoded(self, ordinals: Iterable[int]) -> Iterator[tuple[int, av.VideoFrame]]:
        """Yield (ordinal, frame as it was decoded) like `images`, for those who render it themselves."""
        for ordinal in ordinals:
            if not 0 <= ordinal < len(self):
                raise ExamError(f"{self.id}: no frame {ordinal}; the exam has frames 0 to {len(self) - 1}")
            if (known := self._kept.get(ordinal)) is not None:
                yield ordinal, known
                continue
            for _, frame in self._cursor.read(self.source, ordinal):
                self._kept.put(ordinal, frame)
                yield ordinal, frame

    def image(self, ordinal: int, *, size: int | None = None) -> Image:
        """Return one image, or say that it cannot be decoded."""
        for _, image in self.images([ordinal], size=size):
            return image
        raise ExamError(f"{self.id}: frame {ordinal} is damaged and cannot be decoded; take a neighbour")


def open_exam(
    path: str | Path,
    *,
    clock: ClockOptions | str | Path | None = None,
    exam_fps: Number | None = None,
    exam_duration: Number | None = None,
    exam_start: Number | None = None,
    crop: Crop | None = None,
    mask: bool = True,
    progress: Progress | None = None,
) -> Exam:
    """Open a video file, DICOM, or a folder or zip of frames. `mask=False` keeps burned-in text, wherever it is.

    `clock` is a clock file, "burned-in", or all options in one object; `exam_fps=2`, `exam_duration="8:30:00"` and
    `exam_start` are what the command line calls `--exam-fps`, `--exam-duration` and `--exam-start`. `progress` is told
    how far the reading of a burned-in time is.
    """
    given = {"exam_fps": exam_fps, "exam_duration": exam_duration, "exam_start": exam_start}
    if not isinstance(clock, ClockOptions):
        options = ClockOptions.read(clock=clock, **given)
    elif twice := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"{twice[0]} beside clock=ClockOptions(...): put it into those options")
    else:
        options = clock
    path = Path(path)
    source = open_source(path)
    name = str(path)
    is_asked = options.sidecar is not None or options.burned_in
    beside = sidecar_beside(path)
    if not is_asked and os.path.isfile(beside):  # noqa: PTH113  no error if too long
        options = dataclasses.replace(options, sidecar=beside)
    unless_burned_in = dataclasses.replace(options, burned_in=False, exam_start=None) if options.burned_in else options
    resolved = resolve_clock(source.frames, source.last_duration, source.names, unless_burned_in, name, source.recorded)
    samples = _sample(source, name)
    width, height = samples[0][1].width, samples[0][1].height
    check_size(path, width, height)
    if crop is not None and (crop.x + crop.width > width or crop.y + crop.height > height):
        raise ExamError(f"{name}: the crop {','.join(map(str, crop))} does not fit images of {width}x{height}")
    named = exam_name(path)
    if options.sidecar == beside and named not in str(path.resolve()):  # the name of both leads to the patient
        detail = resolved.detail.replace(beside.name, f"{named}.clock.csv")
        resolved = dataclasses.replace(resolved, detail=detail)
    exam = Exam(
        id=named,
        digest=source.digest(),
        source=source,
        clock=resolved,
        image_size=(width, height),
        crop=crop,
        warnings=(*source.warnings, *resolved.warnings),
    )
    masked = _masked(exam, samples) if mask or options.burned_in else exam
    if options.burned_in:
        from dice_ce.exam.burned_in import read_clock

        shown = read_clock(masked, start=options.exam_start, progress=progress)
        exam, masked = _with_clock(exam, shown), _with_clock(masked, shown)
    return masked if mask else exam


def _with_clock(exam: Exam, clock: ExamClock) -> Exam:
    return dataclasses.replace(exam, clock=clock, warnings=(*exam.warnings, *clock.warnings))


def _masked(exam: Exam, samples: list[tuple[int, av.VideoFrame]]) -> Exam:
    """Find the window, and text that was burned into it."""
    exam = dataclasses.replace(exam, field=_find_field(exam, samples))
    render = Renderer(exam, None, "area")
    covers = find_covers((render(ordinal, frame) for ordinal, frame in samples), exam.field)
    if not covers:
        return exam
    places = " and ".join(",".join(map(str, cover)) for cover in covers)
    warning = f"text burned into the field of view is covered at {places} (x,y,width,height)"
    return dataclasses.replace(exam, covers=covers, warnings=(*exam.warnings, warning))


def exam_name(path: Path) -> str:
    """Name an exam after its file or folder, wherever links and dots lead."""
    real = path.resolve()
    name = name_of_dicom(real) if is_dicom_input(path) else real.stem if path.is_file() else real.name
    if name in ("", ".", ".."):  # `/`, or a file called `...mp4`: results would land in another folder than their own
        raise ExamError(f"{path}: has no name that results could be filed under; rename it")
    return printable(name)


def sidecar_beside(path: Path) -> Path:
    """Return where a clock file is looked for without being named: `exam.clock.csv` beside `exam.mp4`."""
    named = Path(os.path.normpath(path.absolute()))  # `.` has no name; links are not followed
    return named.parent / f"{named.stem if path.is_file() else named.name}.clock.csv"


def spread_over(source: Source) -> Ints:
    """Choose a few frames from all over the exam, keyframes where possible, since those are cheap to reach."""
    if len(source.keyframes) >= FIELD_SAMPLES // 4:
        chosen = source.keyframes[np.linspace(0, len(source.keyframes) - 1, FIELD_SAMPLES).astype(np.int64)]
    else:  # where there are hardly any, reaching a late frame means decoding all before it
        chosen = np.linspace(0, min(len(source.frames), FIELD_REACH) - 1, FIELD_SAMPLES).astype(np.int64)
    return np.unique(chosen)


def _sample(source: Source, name: str) -> list[tuple[int, av.VideoFrame]]:
    """Decode a few frames from all over the exam."""
    with closing(source.open(threads=1)) as cursor:
        samples = [sample for i in spread_over(source) for sample in cursor.read(int(i), int(i) + 1)]
        if not samples:
            samples = list(itertools.islice(cursor.read(0, len(source.frames)), 1))
    if not samples:
        raise ExamError(f"{name}: not one frame can be decoded; the content is damaged: copy or export it again")
    return samples


def _find_field(exam: Exam, samples: list[tuple[int, av.VideoFrame]]) -> Field:
    scale = min(1.0, WORKING_SIZE / max(exam.width, exam.height))
    render = Renderer(exam, None, "area", scale=scale)
    return find_field(np.stack([brightest(render(ordinal, frame)) for ordinal, frame in samples]))


_INTERPOLATIONS: dict[Resize, Interpolation] = {
    "area": Interpolation.AREA,
    "bilinear": Interpolation.BILINEAR,
    "bicubic": Interpolation.BICUBIC,
}
# Without these, other CPUs round differently and the same video has other features.
_EXACT = Interpolation.ACCURATE_RND | Interpolation.BITEXACT


def to_rgb(reformatter: VideoReformatter, frame: av.VideoFrame, width: int, height: int, resize: Resize) -> Image:
    """Resize a decoded frame and turn it into RGB, in one pass; the frame itself is never changed."""
    made = reformatter.reformat(
        frame,
        width,
        height,
        "rgb24",
        interpolation=_INTERPOLATIONS[resize] | _EXACT,
        src_color_range=frame.color_range,
        dst_color_range=ColorRange.JPEG,
        threads=1,
    )
    image = made.to_ndarray()
    return image.copy() if made is frame else image  # type: ignore[return-value]  # rgb24 is always uint8


def on_canvas(image: Image, height: int, width: int) -> Image:
    """Put an image into the middle of a black canvas."""
    if image.shape[:2] == (height, width):
        return image
    canvas = np.zeros((height, width, 3), np.uint8)
    top, left = (height - image.shape[0]) // 2, (width - image.shape[1]) // 2
    canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
    return canvas


def scaled_slices(box: Box, x_scale: float, y_scale: float) -> tuple[slice, slice]:
    """Rows and columns of a box in an image that was made smaller; what is covered in part is covered whole."""
    columns = slice(math.floor(box.x * x_scale), math.ceil((box.x + box.width) * x_scale))
    return slice(math.floor(box.y * y_scale), math.ceil((box.y + box.height) * y_scale)), columns


class Renderer:
    """Turns decoded frames into RGB arrays: crop, resize and colour in one pass of swscale, then the mask."""

    def __init__(self, exam: Exam, size: int | None, resize: Resize, *, scale: float = 1.0) -> None:
        self._exam = exam
        self._resize: Resize = resize
        self._reformatter = VideoReformatter()
        self._cropper: tuple[str, av.filter.Graph] | None = None
        if size is not None:
            scale = size / max(exam.width, exam.height)
        self._width, self._height = max(1, round(exam.width * scale)), max(1, round(exam.height * scale))
        self._canvas = (size, size) if size is not None else (self._height, self._width)
        mask = exam.field.mask(self._width, self._height)
        for cover in exam.covers:
            mask[scaled_slices(cover, self._width / exam.width, self._height / exam.height)] = False
        # As large as the image: multiplying with one value per pixel is 40 times slower than with one per channel.
        self._mask = None if mask.all() else mask[:, :, None].repeat(3, axis=2).astype(np.uint8)

    def __call__(self, ordinal: int, frame: av.VideoFrame) -> Image:
        """Render one frame."""
        if (frame.width, frame.height) != self._exam.image_size:
            raise ExamError(
                f"{self._exam.id}: frame {ordinal} has {frame.width}x{frame.height} pixels, the first has "
                f"{'x'.join(map(str, self._exam.image_size))}: put images of one size into one exam"
            )
        if self._exam.crop is not None:
            frame = self._cropped(frame, self._exam.crop)
        image = to_rgb(self._reformatter, frame, self._width, self._height, self._resize)
        if self._mask is not None:
            image *= self._mask
        return on_canvas(image, *self._canvas)

    def _cropped(self, frame: av.VideoFrame, crop: Crop) -> av.VideoFrame:
        """Cut without copying, through FFmpeg's crop filter; rebuilt only if the pixel format changes."""
        if self._cropper is None or self._cropper[0] != frame.format.name:
            x, y, width, height = crop
            graph = av.filter.Graph()
            entry = graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1000)
            )
            cut = graph.add("crop", f"{width}:{height}:{x}:{y}:exact=1")
            entry.link_to(cut)
            cut.link_to(graph.add("buffersink"))
            graph.configure()
            self._cropper = (frame.format.name, graph)
        graph = self._cropper[1]
        graph.push(frame)
        cropped = graph.pull()
        assert isinstance(cropped, av.VideoFrame)
        return cropped
