"""The wall of the small bowel, grown once from a seed and seamless both around and along.

Lengths are in radii of the bowel. Rows go around it, columns along it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Image = NDArray[np.uint8]

PERIOD = 32.0  # length of bowel after which the wall repeats
BLUSHES = 32  # steps from pale to red
SHAPE_GRID = (288, 1024)  # coarse, since folds are large: only the skin has the resolution of the image


@dataclass(frozen=True)
class Mucosa:
    """To paint onto the wall, replace an array: all that the capsule sees follows."""

    folds: Floats  # how far the wall stands into the lumen
    pillows: Floats  # 0..1: rounded bulges; the creases between them close last in a contraction
    glow: Floats  # about 1: crests catch more light than hollows
    skin: Image  # rows x columns x (relief around 128, blush below BLUSHES, wetness, unused)


def grow_mucosa(seed: int, detail: int) -> Mucosa:
    """`detail` is the number of texels of skin around the bowel, a power of two."""
    rng = np.random.default_rng([seed, 2])
    bulges = smooth_noise(rng, SHAPE_GRID, 1.5, stretch=1.6)
    pillows = np.clip(np.sqrt(bulges**2 + 0.03) / 1.8, 0.0, 1.0)
    folds = _circular_folds(rng) * (0.6 + 0.6 * pillows) + 0.16 * pillows
    folds += 0.03 * smooth_noise(rng, SHAPE_GRID, 0.4)
    crests = folds - _low_pass(folds, 0.5)
    glow = np.exp(np.clip(2.6 * crests, -0.8, 0.3))
    villi = smooth_noise(rng, SHAPE_GRID, 0.045)
    return Mucosa(folds + 0.009 * villi, pillows, glow, _skin(rng, (detail, 4 * detail)))


def smooth_noise(rng: Generator, shape: tuple[int, int], grain: float, stretch: float = 1.0) -> Floats:
    """Seamless, of unit variance, with features of size `grain`, `stretch` times longer along the bowel."""
    noise = _low_pass(rng.standard_normal(shape, dtype=np.float32), grain, stretch)
    return np.asarray((noise - noise.mean()) / noise.std())


def _low_pass(layer: Floats, grain: float, stretch: float = 1.0) -> Floats:
    rows, columns = layer.shape
    around = np.fft.fftfreq(rows, 2 * np.pi / rows)[:, None]
    along = np.fft.rfftfreq(columns, PERIOD / columns)[None] * stretch
    kept = np.exp(-((np.pi * grain / 2) ** 2) * (around**2 + along**2)).astype(np.float32)
    return np.asarray(np.fft.irfft2(np.fft.rfft2(layer) * kept, layer.shape), dtype=np.float32)


def _circular_folds(rng: Generator) -> Floats:
    """The plicae: most run only part of the way around, they wander, and they differ in height."""
    rows, columns = SHAPE_GRID
    angle = np.linspace(0.0, 2 * np.pi, rows, endpoint=False)[:, None]
    nearby = np.arange(-columns / PERIOD, columns / PERIOD, dtype=np.intp)  # a radius either way is enough
    folds = np.zeros(SHAPE_GRID)
    place = 0.0
    while place < PERIOD:
        p, q, r = rng.uniform(0.0, 2 * np.pi, 3)
        height, width, extent = rng.uniform([0.2, 0.12, 0.1], [0.6, 0.24, 0.9])
        crest = 0.3 * np.sin(angle + p) + 0.1 * np.sin(2 * angle + q) + 0.03 * np.sin(5 * angle + r)
        arc = np.clip(extent + 0.8 * np.cos(angle - r) + 0.2 * np.sin(3 * angle + p), 0.0, 1.0)
        fold = height * arc * np.exp(-(np.abs((nearby * PERIOD / columns - crest) / width) ** 2.5))
        where = (int(place * columns / PERIOD) + nearby) % columns
        folds[:, where] = np.maximum(folds[:, where], fold)
        place += rng.gamma(3.0, 0.24)
    return folds.astype(np.float32)


def _skin(rng: Generator, shape: tuple[int, int]) -> Image:
    def noise(grain: float, stretch: float = 1.0) -> Floats:
        return smooth_noise(rng, shape, grain, stretch)

    patches, network = noise(0.6), noise(0.3)
    villi = (noise(0.022) + 0.6 * noise(0.05)) * (1.0 + 0.5 * np.tanh(patches))
    relief = np.exp(0.06 * villi + 0.05 * patches + 0.04 * noise(0.15))
    # The zero lines of a noise branch and never end abruptly, as vessels do; they show in some patches only.
    vessels = np.exp(-((network / 0.05) ** 2)) * np.clip(patches - 0.4, 0.0, 1.0)
    blush = 0.5 + 0.11 * noise(0.7) + 0.03 * villi + 0.3 * vessels
    wetness = noise(0.04, 1.2) + 0.7 * network - 3.1
    skin = np.zeros((*shape, 4), dtype=np.uint8)  # texels of four bytes are gathered faster than of three
    skin[..., 0] = (128 * relief).clip(0, 255)
    skin[..., 1] = ((BLUSHES - 1) * blush).clip(0, BLUSHES - 1)
    skin[..., 2] = (255 * wetness).clip(0, 255)
    return skin
