"""Blacking out pixels of decoded frames in the format they were coded in, so that the rest stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from dice_ce.exam.field import Field, Mask
from dice_ce.exam.ocr import Box

SUBSAMPLING = {"yuv420p": (2, 2), "yuvj420p": (2, 2), "yuv422p": (2, 1), "yuvj422p": (2, 1), "yuv444p": (1, 1),
               "yuvj444p": (1, 1)}  # fmt: skip
"""Formats that are blacked directly, with how many columns and rows share a colour; others become the last one."""
OTHER = "yuv444p"


def kept_pixels(field: Field, covers: Sequence[Box], width: int, height: int) -> Mask:
    """Tell for each pixel whether it stays."""
    keep = field.mask(width, height)
    for cover in covers:
        keep[cover.slices] = False
    return keep


class Blackout:
    """Blacks the same pixels in every frame of an exam."""

    def __init__(self, keep: Mask) -> None:
        self._keep = keep
        self._height, self._width = keep.shape

    def format_of(self, frame: av.VideoFrame) -> str:
        """Return the pixel format that frames leave in; odd sizes cannot share colours between pixels."""
        is_odd = self._width % 2 or self._height % 2
        return frame.format.name if frame.format.name in SUBSAMPLING and not is_odd else OTHER

    def __call__(self, frame: av.VideoFrame, pixel_format: str) -> av.VideoFrame:
        """Return a copy without what is to be hidden."""
        if frame.format.name != pixel_format:
            frame = frame.reformat(format=pixel_format)
        columns, rows = SUBSAMPLING[pixel_format]
        black = 0 if pixel_format.startswith("yuvj") or frame.color_range == 2 else 16
        planes = []
        for number, plane in enumerate(frame.planes):
            values = plane_values(plane)
            keep = self._keep if number == 0 else all_kept(self._keep, columns, rows)
            planes.append(np.where(keep, values, np.uint8(black if number == 0 else 128)))
        return _frame_of(planes, frame, pixel_format)

    def empty(self, like: av.VideoFrame | None, pixel_format: str) -> av.VideoFrame:
        """Return a black frame, in place of one that cannot be decoded."""
        columns, rows = SUBSAMPLING[pixel_format]
        black = 0 if pixel_format.startswith("yuvj") or (like is not None and like.color_range == 2) else 16
        small = (-(-self._height // rows), -(-self._width // columns))
        planes = [np.full((self._height, self._width), black, np.uint8), *(np.full(small, 128, np.uint8),) * 2]
        return _frame_of(planes, like, pixel_format)


def plane_values(plane: Any) -> npt.NDArray[np.uint8]:
    """Look at the values of one plane, without the padding of its lines."""
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return lines[: plane.height, : plane.width]


def all_kept(keep: Mask, columns: int, rows: int) -> Mask:
    """Keep a shared colour only where all pixels that share it are kept."""
    height, width = keep.shape
    padded = np.pad(keep, ((0, -height % rows), (0, -width % columns)), mode="edge")
    return np.asarray(padded.reshape(padded.shape[0] // rows, rows, -1, columns).all(axis=(1, 3)))


def _frame_of(planes: Sequence[npt.NDArray[np.uint8]], like: av.VideoFrame | None, pixel_format: str) -> av.VideoFrame:
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, pixel_format)
    for plane, values in zip(frame.planes, planes, strict=True):
        lines = np.zeros((plane.buffer_size // plane.line_size, plane.line_size), np.uint8)
        lines[: values.shape[0], : values.shape[1]] = values
        plane.update(lines.tobytes())
    if like is not None:
        frame.color_range, frame.colorspace = like.color_range, like.colorspace
    return frame
