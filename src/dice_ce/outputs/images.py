"""Images that outputs show: each frame is decoded once, on all cores, and compressed in every size asked for.

Reaching a frame of a video means decoding all since the keyframe before it, often hundreds; so frames behind the same
keyframe are read in one go, and whatever needs images says which before anything is decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import numpy as np

from dice_ce.exam.codec import encode_image
from dice_ce.exam.open import Exam, Renderer
from dice_ce.features.extraction import cpu_count

Wanted = tuple[int, int | None]
"""A frame, and the side of the square that it is fitted into; None for its own size."""
FrameImage = Callable[[int, int | None], bytes | None]
"""JPEG bytes of a frame at a size, or None if it cannot be decoded."""


def load_images(exam: Exam, wanted: Iterable[Wanted], workers: int | None = None) -> FrameImage:
    """Decode and compress; what was not asked for here cannot be had later."""
    sizes: dict[int, set[int | None]] = {}
    for frame, size in wanted:
        sizes.setdefault(frame, set()).add(size)
    keyframe_of = dict(zip(sizes, np.searchsorted(exam.source.keyframes, [*sizes], "right").tolist(), strict=True))
    stretches = deque(list(stretch) for _, stretch in groupby(sorted(sizes), keyframe_of.__getitem__))

    def work() -> dict[Wanted, bytes]:
        found: dict[Wanted, bytes] = {}
        renderers = {size: Renderer(exam, size, "area") for size in set().union(*sizes.values())}
        with exam.apart() as own:
            while True:
                try:
                    stretch = stretches.popleft()
                except IndexError:
                    return found
                for ordinal, image in own.decoded(stretch):
                    for size in sizes[ordinal]:
                        found[ordinal, size] = encode_image(renderers[size](ordinal, image), ".jpg")

    images: dict[Wanted, bytes] = {}
    workers = min(workers or cpu_count(), len(stretches))
    with ThreadPoolExecutor(max(1, workers)) as pool:
        try:
            for found in [pool.submit(work) for _ in range(workers)]:
                images |= found.result()
        finally:
            stretches.clear()  # after Ctrl-C or an error, nobody goes on to the next
    return lambda frame, size: images.get((frame, size))
