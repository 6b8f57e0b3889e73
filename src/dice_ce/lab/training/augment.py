"""Augmentation that fits capsules: what another capsule, another light or another recorder would have made of a frame.

A capsule has no upright, lies near or far, lights unevenly and yellows or reddens by its make; recorders blur, shrink
and compress; every make has its own window. All of that is drawn anew each time an image is used, from a generator
that the caller seeds. Outside the window that is drawn, every pixel is black.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import UsageError, require

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.uint8]
"""1 inside the window, 0 outside."""
Chance = np.random.Generator


@dataclass(frozen=True)
class Augmentation:
    """How often, and how strongly, each thing happens; all zero gives the image back as it is."""

    turn: float = 1.0
    """Share of images turned by any angle and mirrored."""
    zoom: tuple[float, float] = (0.9, 1.45)
    shift: float = 0.06
    """Largest shift, as a share of the side."""
    stretch: float = 0.12
    light: float = 0.3
    """Spread of brightness and gamma (natural logarithm)."""
    uneven: float = 0.4
    """Share of images with uneven light."""
    cast: float = 0.08
    """Spread of the gain of each colour (natural logarithm)."""
    saturation: float = 0.25
    blur: float = 0.25
    sharpen: float = 0.15
    shrink: float = 0.2
    compress: float = 0.3
    cut: float = 0.15
    """Share of images with a blot over part of them."""
    window: float = 0.7
    """Share of images that get another window than their own."""

    def __post_init__(self) -> None:
        for part in fields(self):
            values = np.atleast_1d(getattr(self, part.name))
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise UsageError(f"augmentation: {part.name} must not be negative, got {getattr(self, part.name)}")


NONE = Augmentation(0, (1.0, 1.0), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
SHAPES = ("own", "none", "octagon", "round", "square")


def augment(
    image: Pixels,
    own: Mask,
    size: int,
    chance: Chance,
    how: Augmentation,
    gain: npt.NDArray[np.floating] | None = None,
) -> Pixels:
    """Return another view [size, size, 3] of a square image whose window is `own`; `gain` multiplies its colours."""
    cv2 = _cv2()
    transform = _transform(len(image), size, chance, how)
    view: Pixels = cv2.warpAffine(image, transform, (size, size), flags=cv2.INTER_LINEAR)
    window = cv2.warpAffine(own, transform, (size, size), flags=cv2.INTER_NEAREST)
    if chance.random() < how.window:
        shape = SHAPES[int(chance.integers(1, len(SHAPES)))]
        window = window_mask(shape, size, round(float(chance.uniform(0, 1)), 2)) & (window if shape != "none" else 1)
    for step in (_recolour(gain), _blot, _soften, _shrink, _compress):
        view = step(view, chance, how)
    return np.asarray(view * window[:, :, None], np.uint8)


def _cv2() -> Any:
    return require("cv2", extra="train", purpose="augmentation")


def _transform(side: int, size: int, chance: Chance, how: Augmentation) -> npt.NDArray[np.float64]:
    """Turn, mirror, zoom, stretch and shift, all about the centre, in one affine map."""
    angle = chance.uniform(0, 2 * np.pi) if chance.random() < how.turn else 0.0
    mirror = -1.0 if chance.random() < how.turn / 2 else 1.0
    zoom = np.exp(chance.uniform(*np.log(how.zoom))) * size / side
    stretch = np.exp(chance.uniform(-how.stretch, how.stretch) / 2)
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    linear = zoom * turn @ np.diag([mirror * stretch, 1 / stretch])
    middle, target = (side - 1) / 2, (size - 1) / 2 + chance.uniform(-how.shift, how.shift, 2) * size
    return np.column_stack([linear, target - linear @ (middle, middle)])


def _recolour(gain: npt.NDArray[np.floating] | None) -> Callable[[Pixels, Chance, Augmentation], Pixels]:
    def recolour(view: Pixels, chance: Chance, how: Augmentation) -> Pixels:
        """Change colour cast, saturation, brightness, gamma, and how evenly the light falls."""
        cv2 = _cv2()
        colours = np.exp(chance.normal(0, how.cast, 3)) * (1.0 if gain is None else gain)
        saturation = np.exp(chance.normal(0, how.saturation)) if how.saturation else 1.0
        grey = np.full((3, 3), 1 / 3)
        matrix = (saturation * np.eye(3) + (1 - saturation) * grey) @ np.diag(colours)
        bright, gamma = np.exp(chance.normal(0, how.light / 2, 2))
        lit = cv2.transform(view.astype(np.float32), matrix * bright)
        if chance.random() < how.uneven:
            lit *= cv2.resize(
                np.exp(chance.normal(0, 0.2, (3, 3))).astype(np.float32), view.shape[:2], interpolation=cv2.INTER_CUBIC
            )[:, :, None]
        table = 255 * (np.arange(256) / 255) ** gamma
        return np.asarray(cv2.LUT(np.clip(lit, 0, 255).astype(np.uint8), np.round(table).astype(np.uint8)))

    return recolour


def _blot(view: Pixels, chance: Chance, how: Augmentation) -> Pixels:
    """Cover an ellipse with one colour of the image, so that no single spot decides."""
    if chance.random() >= how.cut:
        return view
    size = len(view)
    centre, axes = chance.integers(0, size, 2), chance.integers(size // 12, size // 5, 2)
    colour = view[tuple(chance.integers(0, size, 2))]
    _cv2().ellipse(view, centre.tolist(), axes.tolist(), float(chance.uniform(0, 180)), 0, 360, colour.tolist(), -1)
    return view


def _soften(view: Pixels, chance: Chance, how: Augmentation) -> Pixels:
    cv2 = _cv2()
    lot = chance.random()
    if lot < how.blur:
        return np.asarray(cv2.GaussianBlur(view, (0, 0), float(chance.uniform(0.4, 1.8)) * len(view) / 224))
    if lot < how.blur + how.sharpen:
        soft = cv2.GaussianBlur(view, (0, 0), 1.2)
        amount = float(chance.uniform(0.3, 1.2))
        return np.asarray(cv2.addWeighted(view, 1 + amount, soft, -amount, 0))
    return view


def _shrink(view: Pixels, chance: Chance, how: Augmentation) -> Pixels:
    """Lose detail as a small recording does."""
    if chance.random() >= how.shrink:
        return view
    cv2 = _cv2()
    small = cv2.resize(
        view, None, fx=(factor := float(chance.uniform(0.4, 0.9))), fy=factor, interpolation=cv2.INTER_AREA
    )
    return np.asarray(cv2.resize(small, view.shape[:2], interpolation=cv2.INTER_LINEAR))


def _compress(view: Pixels, chance: Chance, how: Augmentation) -> Pixels:
    if chance.random() >= how.compress:
        return view
    cv2 = _cv2()
    # OpenCV takes the first colour for blue, and JPEG keeps less of blue.
    _, file = cv2.imencode(".jpg", view[:, :, ::-1], (cv2.IMWRITE_JPEG_QUALITY, int(chance.integers(25, 90))))
    return np.asarray(cv2.imdecode(file, cv2.IMREAD_COLOR)[:, :, ::-1])


@lru_cache(maxsize=512)
def window_mask(shape: str, size: int, depth: float) -> Mask:
    """Draw a window: `depth` from 0 to 1 says how much of the image it takes away."""
    x = np.abs(np.linspace(-1, 1, size))
    y = x[:, None]
    if shape == "none":
        mask = np.ones((size, size), np.bool_)
    elif shape == "octagon":
        mask = x + y <= 1.75 - 0.45 * depth
    elif shape == "round":
        mask = x**2 + y**2 <= (1.15 - 0.25 * depth) ** 2
    elif shape == "square":
        mask = x**6 + y**6 <= (1.1 - 0.25 * depth) ** 6
    else:
        raise UsageError(f"unknown window '{shape}'; one of {', '.join(SHAPES)}")
    result = mask.astype(np.uint8)
    result.flags.writeable = False  # shared by all who ask for it
    return result


def paste(image: Pixels, patch: Pixels, chance: Chance) -> Pixels:
    """Blend a patch of another image, turned and resized, into a random place, tinted like its new surroundings.

    A lesion that few patients have then stands on many patients' mucosa. Patches must leave a margin around the
    lesion: its colour is what is matched, and it fades out there.
    """
    cv2 = _cv2()
    side = len(image)
    patch = np.rot90(patch, int(chance.integers(4)))[:, :: int(chance.choice((-1, 1)))]
    factor = float(chance.uniform(0.7, 1.4))
    height, width = (int(np.clip(round(length * factor), 12, side // 2)) for length in patch.shape[:2])
    patch = cv2.resize(np.ascontiguousarray(patch), (width, height), interpolation=cv2.INTER_LINEAR)
    radius = (0.5 - 0.5 * np.hypot(height, width) / side) * 0.75 * side
    angle, reach = chance.uniform(0, 2 * np.pi), np.sqrt(chance.random()) * max(0.0, radius)
    top = int(np.clip(side / 2 + reach * np.sin(angle) - height / 2, 0, side - height))
    left = int(np.clip(side / 2 + reach * np.cos(angle) - width / 2, 0, side - width))
    y, x = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)
    share = np.clip((1 - np.hypot(x, y)) / 0.35, 0, 1)[:, :, None]
    rim = (share[:, :, 0] > 0) & (share[:, :, 0] < 0.8)
    place = image[top : top + height, left : left + width].astype(np.float32)
    tint = np.clip((place[rim].mean(0) + 8) / (patch[rim].mean(0) + 8), 0.5, 1.6)
    result = image.copy()
    result[top : top + height, left : left + width] = np.clip(place + share * (patch * tint - place), 0, 255)
    return result
