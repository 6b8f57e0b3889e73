"""What reading a frame costs before it is encoded, by codec, and what ways around it would save and change.

    python benchmarks/decode.py [--frames 500] [--sizes 336 576] [--codecs H.264 MJPEG] [--work FOLDER]

Milliseconds are those that one thread spends on the processor, per frame, so that other work on the machine does not
count. `lowres` lets the decoder itself leave out detail (half the size; MPEG-4 and MJPEG can), `no deblocking` lets it
leave out its last filter (H.264 and HEVC). Both change pixels: how much is told in levels of 255 at the encoder's input
size, and as cosine distance of the features.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from dice_ce.exam.open import Exam, Renderer, open_exam
from dice_ce.features.encoder import Encoder
from dice_ce.features.gate import BATCH
from dice_ce.files import cache_root
from dice_ce.method.bundle import load_bundle
from dice_ce.table import Table
from dice_ce.types import Image
from exams import CODECS, make_exam

Images = npt.NDArray[np.uint8]
COMPARED = 64
"""Frames whose pixels and features are compared."""
WAYS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "as it is": ({}, tuple(CODECS)),
    "lowres": ({"lowres": "1"}, ("MPEG-4", "MJPEG")),
    "no deblocking": ({"skip_loop_filter": "all"}, ("H.264", "HEVC")),
}
"""Options of the decoder, and the codecs that know them."""


def decoded(video: Path, options: dict[str, str]) -> Iterator[av.VideoFrame]:
    """Decode in one thread."""
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        stream.codec_context.options = options
        stream.codec_context.thread_count = 1
        yield from container.decode(stream)


def measure(exam: Exam, options: dict[str, str], encoder: Encoder, frames: int) -> tuple[float, float, Images]:
    """Return seconds of decoding and of rendering per frame, and the first images."""
    images: list[Image] = []
    render = None
    decoding = rendering = 0.0
    count, began = 0, time.thread_time()
    for count, frame in enumerate(decoded(exam.source.path, options), start=1):
        between = time.thread_time()
        if render is None:  # `lowres` gives smaller frames
            render = Renderer(replace(exam, image_size=(frame.width, frame.height)), encoder.input_size, encoder.resize)
        image = render(count - 1, frame)
        if len(images) < COMPARED:
            images.append(image)
        decoding, rendering = decoding + between - began, rendering + time.thread_time() - between
        if count == frames:
            break
        began = time.thread_time()
    return decoding / count, rendering / count, np.stack(images)


def encode(images: Images, encoder: Encoder) -> tuple[float, npt.NDArray[np.float32]]:
    """Return seconds per frame, and the features."""
    began = time.thread_time()
    features = np.concatenate([encoder.encode(images[i : i + BATCH]) for i in range(0, len(images), BATCH)])
    return (time.thread_time() - began) / len(images), features / np.linalg.norm(features, axis=1, keepdims=True)


def rows(video: Path, codec: str, size: int, encoder: Encoder, frames: int) -> Iterator[tuple[str, ...]]:
    """Measure every way that the codec knows."""
    with open_exam(video, exam_fps=1) as exam:
        for way, (options, codecs) in WAYS.items():
            if codec not in codecs:
                continue
            decoding, rendering, images = measure(exam, options, encoder, frames)
            encoding, features = encode(images, encoder)
            if not options:
                plain, plain_features = images, features
            change = np.abs(images.astype(np.int16) - plain).mean()
            moved = 1 - (features * plain_features).sum(axis=1)
            share = 100 * (decoding + rendering) / (decoding + rendering + encoding)
            yield (
                codec,
                str(size),
                way,
                *(f"{1000 * seconds:.2f}" for seconds in (decoding, rendering, encoding)),
                f"{share:.0f} %",
                *(("-", "-") if not options else (f"{change:.2f}", f"{np.median(moved):.4f}")),
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="+", default=[336, 576])
    parser.add_argument("--codecs", nargs="+", choices=tuple(CODECS), default=tuple(CODECS))
    parser.add_argument("--work", type=Path, default=cache_root() / "benchmarks", help="where the exams are kept")
    options = parser.parse_args()
    encoder = load_bundle().encoder
    found = [
        row
        for size in options.sizes
        for codec in options.codecs
        for row in rows(make_exam(options.work, options.frames, size, codec), codec, size, encoder, options.frames)
    ]
    headings = ("codec", "side", "way", "decode, ms", "scale and mask, ms", "encode, ms", "before the encoder")
    print(Table.of((*headings, "levels", "cosine distance"), found).markdown())


if __name__ == "__main__":
    main()
