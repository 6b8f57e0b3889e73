"""What recorders burn into their exports: running time, names, dates, logos. Ground truth for reading and removing it.

The layouts follow what exports of the common systems look like (which corner, which format, which colour); fonts, names
and numbers are not theirs. Text is drawn with Pillow in the fonts that matplotlib carries in its wheel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
import numpy.typing as npt

from dice_ce.errors import require
from dice_ce.exam.codec import encodable
from dice_ce.types import Doubles, Image

Corner = Literal["top left", "top right", "bottom left", "bottom right", "across"]
Colour = tuple[int, int, int]
EXTRA = "hospital"
MARGIN = 4
DAY = 86400


@dataclass(frozen=True)
class Line:
    """One line of text in a corner; `{time}` in it is replaced by the running time."""

    text: str
    corner: Corner
    colour: Colour = (255, 255, 255)


@dataclass(frozen=True)
class Style:
    """How one kind of recorder writes into the image."""

    name: str
    canvas: tuple[int, int]
    """Width and height of the export; the field of view is a square as high as it is, in the middle."""
    font: str
    """File in matplotlib's fonts; empty for a coarse bitmap font."""
    height: int
    """Height of a line in pixels."""
    write_time: Callable[[float], str]
    lines: tuple[Line, ...]
    backdrop: Colour = (0, 0, 0)
    has_shadow: bool = False
    has_plate: bool = False
    """Whether text stands on a plate of its own, as players draw it."""
    is_smooth: bool = True
    """Anti-aliased."""
    crf: int = 23
    qscale: int = 0
    """Unless 0: MPEG-4 Part 2 with this quantiser, as older recorders write, instead of H.264."""
    field: Literal["octagon", "round"] = "octagon"
    has_logo: bool = False


def hms(seconds: float) -> str:
    """Write `03:12:45`."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def time_of_day(seconds: float) -> str:
    """Write `23:59:59`, then `00:00:00`."""
    return hms(seconds % DAY)


def with_day(seconds: float) -> str:
    """Write `Day 1 23:59:59`, then `Day 2 00:00:00`."""
    return f"Day {int(seconds) // DAY + 1} {time_of_day(seconds)}"


def with_half_day(seconds: float) -> str:
    """Write `1:05:09 PM`."""
    whole = int(seconds) % DAY
    hour = whole // 3600
    return f"{(hour + 11) % 12 + 1}:{whole // 60 % 60:02d}:{whole % 60:02d} {'AM' if hour < 12 else 'PM'}"


def with_letters(seconds: float) -> str:
    """Write `3h12m45s`."""
    whole = int(seconds)
    return f"{whole // 3600}h{whole // 60 % 60:02d}m{whole % 60:02d}s"


NAME, PATIENT_ID, DATE = "DOE JANE", "ID 4711-0815", "2021-03-14"
STYLES: dict[str, Style] = {
    style.name: style
    for style in (
        Style(
            "pillcam-like",
            (576, 576),
            "DejaVuSans.ttf",
            17,
            hms,
            (
                Line("{time}", "top right", (255, 255, 0)),
                Line(NAME, "top left"),
                Line("14 Mar 21", "bottom left"),
                Line("SB3", "bottom right", (120, 190, 255)),
            ),
            has_logo=True,
        ),
        Style(
            "pillcam-day-like",
            (512, 512),
            "DejaVuSans-Bold.ttf",
            15,
            with_day,
            (Line("{time}", "bottom right"), Line(f"{NAME} {PATIENT_ID}", "top left")),
            crf=28,
        ),
        Style(
            "endocapsule-like",
            (640, 480),
            "DejaVuSansMono.ttf",
            15,
            hms,
            (
                Line(PATIENT_ID, "top left"),
                Line(DATE, "bottom left"),
                Line("{time}", "bottom right", (160, 255, 160)),
                Line("CAPSULE 2", "top right", (200, 200, 200)),
            ),
            field="round",
        ),
        Style(
            "omom-like",
            (480, 480),
            "DejaVuSansCondensed.ttf",
            14,
            time_of_day,
            (Line(f"{DATE} {{time}}", "top left", (0, 255, 0)), Line(NAME, "bottom left", (0, 255, 0))),
            has_shadow=True,
            crf=26,
        ),
        Style(
            "mirocam-like",
            (320, 320),
            "",
            14,
            hms,
            (
                Line("{time}", "bottom left"),
                Line("MC 1200", "bottom right"),
                Line(PATIENT_ID, "top left"),
            ),
            is_smooth=False,
            crf=21,
            field="round",
        ),
        Style(
            "player-like",
            (720, 576),
            "DejaVuSerif.ttf",
            19,
            with_half_day,
            (Line("Time {time}", "top right", (30, 30, 30)), Line(NAME, "top left", (30, 30, 30))),
            backdrop=(28, 34, 48),
            has_plate=True,
        ),
        Style(
            "letters-like",
            (400, 400),
            "DejaVuSans.ttf",
            15,
            with_letters,
            (Line("{time}", "top left", (255, 200, 60)), Line(DATE, "bottom right")),
            crf=30,
        ),
        Style(
            "inside-like",
            (512, 512),
            "DejaVuSans-Bold.ttf",
            18,
            hms,
            (Line("{time}", "across"), Line(PATIENT_ID, "bottom left")),
            has_shadow=True,
        ),
        Style(
            "mpeg4-like",
            (576, 432),
            "STIXGeneralBol.ttf",
            18,
            time_of_day,
            (Line("14.03.2021 {time}", "bottom left", (255, 255, 0)), Line(NAME, "top right")),
            qscale=7,
        ),
        Style(
            "small-like",
            (256, 256),
            "cmtt10.ttf",
            16,
            hms,
            (Line("{time}", "top right", (200, 255, 255)), Line(PATIENT_ID, "bottom left")),
            is_smooth=False,
            qscale=3,
            field="round",
        ),
    )
}


def overlay(image: Image, style: Style, seconds: float) -> Image:
    """Put a square image of the bowel onto the style's canvas and write over it, as the recorder would."""
    width, height = style.canvas
    canvas = np.empty((height, width, 3), np.uint8)
    canvas[:] = style.backdrop
    top, left = (height - image.shape[0]) // 2, (width - image.shape[1]) // 2
    inner = canvas[top : top + image.shape[0], left : left + image.shape[1]]
    is_lit = image.max(axis=2, keepdims=True) > 0
    np.copyto(inner, image, where=is_lit)
    used: dict[str, int] = {}
    for line in style.lines:
        text = line.text.replace("{time}", style.write_time(seconds))
        _draw(canvas, style, line, text, used.get(line.corner, 0))
        used[line.corner] = used.get(line.corner, 0) + style.height + 4
    if style.has_logo:
        _draw_logo(canvas)
    return canvas


def _draw(canvas: Image, style: Style, line: Line, text: str, below: int) -> None:
    alpha = stamp(text, style.font, style.height, style.is_smooth)
    height, width = alpha.shape
    rows, columns = canvas.shape[:2]
    if line.corner == "across":  # over the cut corner of the field, where real exports were seen to have it
        top, left = rows // 12, columns // 14
    else:
        top = MARGIN + below if "top" in line.corner else rows - height - MARGIN - below
        left = MARGIN if "left" in line.corner else columns - width - MARGIN
    left = max(0, min(left, columns - width))
    alpha = alpha[:, : columns - left]
    place = canvas[top : top + height, left : left + width]
    if style.has_plate:
        place[:] = 205
    if style.has_shadow:
        shadow = canvas[top + 1 : top + 1 + height, left + 1 : left + 1 + width]
        shadow[:] = (shadow * (1 - alpha[: shadow.shape[0], : shadow.shape[1], None])).astype(np.uint8)
    mixed = place + (np.array(line.colour) - place) * alpha[:, :, None]
    place[:] = mixed.round().astype(np.uint8)


def _draw_logo(canvas: Image) -> None:
    """Draw a disc with a bar, as a maker's sign."""
    y, x = np.mgrid[-10:11, -10:11]
    disc = y**2 + x**2 <= 100
    place = canvas[-51:-30, -31:-10]
    place[disc] = (40, 110, 200)
    place[disc & (abs(y) <= 2)] = 255


@cache
def stamp(text: str, font: str, height: int, is_smooth: bool) -> npt.NDArray[np.float32]:
    """Return how much of each pixel a line of text covers."""
    if not font:
        from dice_ce.outputs.lettering import text_pixels

        return text_pixels(text, max(1, height // 7)).astype(np.float32)
    drawing: Any = require("PIL.ImageDraw", extra=EXTRA, purpose="drawing overlays")
    images: Any = require("PIL.Image", extra=EXTRA, purpose="drawing overlays")
    face = _face(font, height)
    left, _, right, _ = face.getbbox(text)
    ascent, descent = face.getmetrics()
    image = images.new("L", (int(right - min(0, left)) + 2, ascent + descent), 0)
    draw = drawing.Draw(image)
    draw.fontmode = "L" if is_smooth else "1"
    draw.text((-min(0, left), 0), text, fill=255, font=face)
    return np.asarray(image, np.float32) / np.float32(255)


@cache
def _face(font: str, height: int) -> Any:
    fonts: Any = require("PIL.ImageFont", extra=EXTRA, purpose="drawing overlays")
    matplotlib: Any = require("matplotlib", extra="plots", purpose="drawing overlays")
    return fonts.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font), round(height * 0.85))


# --- how recorders' clocks run --------------------------------------------------------------------------------------


def steady(frames: int, rate: float = 2.0, start: float = 0.0) -> Doubles:
    """Exam seconds of frames taken at one rate."""
    return start + np.arange(frames) / rate


def adaptive(frames: int, seed: int = 0, start: float = 0.0) -> Doubles:
    """Exam seconds of a capsule that takes 2 to 6 frames a second, faster while it moves."""
    chance = np.random.default_rng([seed, 17])
    steps = np.empty(frames)
    done = 0
    while done < frames:
        length = int(chance.integers(8, 160))
        steps[done : done + length] = 1 / float(chance.choice([2, 3, 4, 6]))
        done += length
    return start + np.concatenate([[0.0], np.cumsum(steps[:-1])])


def with_gaps(seconds: Doubles, seed: int = 0, gaps: int = 3) -> Doubles:
    """Lose the signal a few times, for 20 s to half an hour each, with at least 20 frames between."""
    chance = np.random.default_rng([seed, 23])
    lost = np.zeros(len(seconds))
    for place in chance.choice(np.arange(20, len(seconds) - 20, 20), gaps, replace=False):
        lost[place:] += float(chance.uniform(20, 1800))
    return seconds + lost


def write_overlaid(
    path: Path,
    images: Iterable[Image],
    style: Style,
    seconds: Doubles,
    *,
    playback_fps: int = 25,
    gop: int = 250,
) -> Path:
    """Write the video that a recorder of this style would export; images are used again as long as times last."""
    pool = list(images)
    with av.open(str(path), "w", format="mp4") as container:
        stream: Any = container.add_stream("mpeg4" if style.qscale else "libx264", rate=playback_fps)
        if style.qscale:
            stream.codec_context.qmin = stream.codec_context.qmax = style.qscale
        else:
            stream.options = {"preset": "veryfast", "crf": str(style.crf)}
        stream.width, stream.height = style.canvas
        stream.pix_fmt, stream.gop_size = "yuv420p", gop
        stream.codec_context.time_base = Fraction(1, playback_fps)
        for image in _frames(pool, style, seconds):
            container.mux(stream.encode(encodable(image, "yuv420p")))
        container.mux(stream.encode(None))
    return path


def _frames(pool: list[Image], style: Style, seconds: Doubles) -> Iterator[Image]:
    for number, second in enumerate(seconds.tolist()):
        turn, place = divmod(number, len(pool))
        image = pool[place if turn % 2 == 0 else len(pool) - 1 - place]  # to and fro: no jump at the seam
        yield overlay(image, style, second)
