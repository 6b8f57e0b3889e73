"""Writing images: RGB arrays to PNG or JPEG, with the encoders PyAV brings along."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import Interpolation

from dice_ce.errors import UsageError
from dice_ce.files import write_atomically
from dice_ce.types import Image

_CODECS = {
    ".png": ("png", "rgb24", {}),
    ".jpg": ("mjpeg", "yuvj444p", {"qmin": "2", "qmax": "2"}),
    ".bmp": ("bmp", "bgr24", {}),
}


def encode_image(image: Image, suffix: str) -> bytes:
    """Compress one RGB image; the same pixels give the same bytes."""
    if suffix not in _CODECS:
        raise UsageError(f"images are written as {', '.join(_CODECS)}, not as '{suffix}'")
    codec, pixel_format, options = _CODECS[suffix]
    encoder = av.CodecContext.create(codec, "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.height, encoder.width = image.shape[:2]
    encoder.pix_fmt, encoder.time_base, encoder.options = pixel_format, Fraction(1, 25), options
    encoder.thread_count = 1  # a JPEG of several threads is cut into as many slices: other cores, other bytes
    frame = encodable(image, pixel_format)
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def encodable(image: Image, pixel_format: str) -> av.VideoFrame:
    """Turn RGB into what an encoder takes, alike on every CPU and with any number of cores."""
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24").reformat(
        format=pixel_format,
        interpolation=Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT,
        threads=1,
    )


def write_image(path: Path, image: Image) -> None:
    """Write one image, or nothing."""
    write_atomically(path, encode_image(image, path.suffix.lower()))
