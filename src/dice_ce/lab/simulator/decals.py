"""How lesions of the wall look: a small image of each, grown from chance, to be laid onto the mucosa.

An image spans -1..1 around the bowel (rows) and along it (columns); lengths are in units of the lesion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dice_ce.lab.simulator.mucosa import PERIOD, smooth_noise
from dice_ce.types import Floats

TEXELS = 192
U, V = np.meshgrid(*[np.linspace(-1.0, 1.0, TEXELS, dtype=np.float32)] * 2, indexing="ij")
AWAY = np.hypot(U, V)
Colour = tuple[float, float, float]

FIBRIN, SLOUGH, RIM = (226, 206, 146), (188, 160, 88), (184, 70, 48)
SHALLOW, HALO = (218, 176, 126), (196, 74, 52)
VESSEL, STAIN = (188, 30, 24), (200, 84, 58)
CHYLE, CHYLE_SHADE = (240, 226, 186), (218, 178, 122)
FOLLICLE, FOLLICLE_TOP = (196, 124, 88), (216, 158, 114)
POLYP, POLYP_SPOT, CREASE = (208, 96, 66), (184, 60, 42), (92, 38, 18)
WORM, WORM_EDGE = (232, 208, 170), (170, 126, 88)
STRETCHED, GLEAM = (210, 136, 104), (255, 250, 238)


@dataclass(frozen=True)
class Decal:
    """One lesion, seen straight on under full light."""

    colour: Floats  # TEXELS x TEXELS x 3
    cover: Floats  # how much of the mucosa the colour hides
    extent: NDArray[np.bool_]  # what belongs to the lesion: normal-coloured parts do as well
    fine: Floats  # relief too small for the shape of the wall: only its shading shows
    rise: Floats | None = None  # how far the wall itself stands up

    @property
    def slopes(self) -> tuple[Floats, Floats]:
        around, along = np.gradient(self.fine, 2.0 / TEXELS)
        return np.asarray(around), np.asarray(along)


class Canvas:
    """Coats of paint one over the other; the order matters."""

    def __init__(self) -> None:
        self.colour = np.zeros((TEXELS, TEXELS, 3), dtype=np.float32)
        self.cover = np.zeros((TEXELS, TEXELS), dtype=np.float32)
        self.fine = np.zeros((TEXELS, TEXELS), dtype=np.float32)

    def coat(self, colour: Colour, cover: NDArray[np.floating]) -> None:
        cover = np.asarray(cover.clip(0.0, 1.0), dtype=np.float32)
        total = 1.0 - (1.0 - self.cover) * (1.0 - cover)
        share = (cover / total.clip(1e-6))[..., None]
        self.colour += (np.array(colour, dtype=np.float32) - self.colour) * share
        self.cover = np.asarray(total, dtype=np.float32)

    def decal(self, extent: NDArray[np.bool_] | None = None, rise: Floats | None = None) -> Decal:
        edge = _step(0.99, 0.9, np.maximum(np.abs(U), np.abs(V)))  # nothing ends at the edge of the image
        cover = self.cover * edge
        return Decal(self.colour, cover, cover > 0.3 if extent is None else extent, self.fine * edge, rise)


def ulcer(rng: Generator) -> Decal:
    """A punched-out hole: fibrin on its floor, a shadow under its edge, a red swollen rim."""
    away = _ragged(rng, 0.16) * AWAY * _oval(rng)
    mottle = _grain(rng, 0.2) + 0.6 * _grain(rng, 0.06)
    floor = _step(0.58, 0.5, away + 0.025 * mottle)
    canvas = Canvas()
    canvas.coat(HALO, 0.6 * _step(1.0, 0.5, away + 0.05 * mottle))
    canvas.coat(RIM, 0.7 * _bump(away, 0.63, 0.13) * _step(-1.6, 0.4, mottle))
    canvas.coat(FIBRIN, 0.95 * floor)
    canvas.coat(SLOUGH, 0.7 * floor * _step(0.2, 1.2, mottle))
    canvas.coat(RIM, 0.6 * floor * _step(1.5, 2.2, -mottle))
    canvas.coat(CREASE, 0.35 * _bump(away, 0.54, 0.035))
    canvas.fine[:] = 0.16 * _bump(away, 0.7, 0.16) - 0.07 * floor + 0.008 * mottle
    return canvas.decal(away < 0.86)


def erosion(rng: Generator) -> Decal:
    """A few shallow pale spots, each in a red halo."""
    spots = _scattered(rng, int(rng.integers(3, 7)), apart=0.5, reach=0.6)
    canvas, mottle = Canvas(), _grain(rng, 0.07)
    away = [np.hypot(U - u, (V - v) * rng.uniform(0.7, 1.4)) / rng.uniform(0.11, 0.2) for u, v in spots]
    away = [one * (1.0 + 0.12 * _grain(rng, 0.2)) for one in away]
    for one in away:
        canvas.coat(HALO, 0.62 * _step(2.5, 0.8, one + 0.16 * mottle))
    for one in away:
        canvas.coat(SHALLOW, 0.88 * _step(1.05, 0.5, one + 0.1 * mottle))
        canvas.fine += 0.03 * _bump(one, 1.1, 0.35)
    return canvas.decal()


def angioectasia(rng: Generator) -> Decal:
    """A flat tuft of bright red vessels that branch like a fern."""
    vessels = np.zeros((TEXELS, TEXELS), dtype=np.float32)
    branches = [(np.zeros(2), turn, 0.06, rng.uniform(0.4, 0.8)) for turn in _spokes(rng, int(rng.integers(7, 11)))]
    while branches:
        at, heading, thick, length = branches.pop()
        for _ in range(int(length / 0.02)):
            heading += rng.normal(0.0, 0.3)
            at = at + 0.02 * np.array([np.cos(heading), np.sin(heading)])
            thick = max(0.022, thick * 0.97)
            _dab(vessels, at, thick)
            if thick > 0.023 and rng.random() < 0.09:
                side = heading + rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 1.1)
                branches.append((at, side, thick * 0.8, length * 0.45))
    away = AWAY * _ragged(rng, 0.2)
    canvas = Canvas()
    canvas.coat(STAIN, 0.6 * _step(0.9, 0.25, away))
    canvas.coat(VESSEL, 0.85 * vessels)
    canvas.coat(VESSEL, 0.85 * _step(0.42, 0.12, away + 0.09 * _grain(rng, 0.08)))
    return canvas.decal(canvas.cover > 0.25)


def erythema(rng: Generator) -> Decal:
    """A reddened patch that fades into its surroundings."""
    away = AWAY * _ragged(rng, 0.15) + 0.09 * _grain(rng, 0.3)
    canvas = Canvas()
    canvas.coat((202, 64, 46), 0.75 * _step(0.98, 0.3, away) * (0.85 + 0.12 * _grain(rng, 0.12)))
    canvas.coat((184, 36, 30), 0.4 * _step(0.9, 0.4, away) * _step(0.9, 1.9, _grain(rng, 0.05)))
    return canvas.decal()


def eminence(rng: Generator) -> Decal:
    """A bulge from below: smooth, broad, covered by normal mucosa, with folds that bridge to it."""
    away = AWAY * _ragged(rng, 0.05) * _oval(rng, 1.2)
    dome = 0.72 * _step(0.78, 0.0, away)
    turn = rng.uniform(0.0, 2 * np.pi)
    bridges = np.zeros_like(AWAY)
    for heading in (turn, turn + np.pi + rng.normal(0.0, 0.4)):
        forward, aside = U * np.cos(heading) + V * np.sin(heading), V * np.cos(heading) - U * np.sin(heading)
        ridge = np.exp(-(((aside + 0.12 * np.sin(3 * forward)) / 0.14) ** 2))
        bridges = np.maximum(bridges, ridge * _step(0.3, 0.5, forward) * _step(0.98, 0.55, forward))
    canvas = Canvas()
    canvas.coat(STRETCHED, 0.35 * _step(0.75, 0.4, away))
    canvas.coat(CREASE, 0.3 * _bump(away, 0.74, 0.13) * (1.0 - bridges))
    canvas.fine[:] = 0.5 * dome + 0.06 * bridges
    _gleam(canvas, rng, 0.16)
    return canvas.decal(away < 0.8, (dome + 0.16 * bridges).astype(np.float32))


def lymphangiectasia(rng: Generator) -> Decal:
    """Villi swollen with chyle: white dots, crowded in the middle, and a patch or two where they merge."""
    canvas, dots = Canvas(), np.zeros((TEXELS, TEXELS), dtype=np.float32)
    hubs = rng.normal(0.0, 0.22, (3, 2))
    for _ in range(int(rng.integers(110, 190))):
        _dab(dots, hubs[rng.integers(3)] + rng.normal(0.0, 0.27, 2), rng.uniform(0.018, 0.05), hard=True)
    away = AWAY + 0.12 * _grain(rng, 0.15)
    canvas.coat(CHYLE_SHADE, 0.55 * _step(0.75, 0.25, away))
    canvas.coat(CHYLE, 0.95 * dots)
    canvas.coat(CHYLE, 0.85 * _step(0.26, 0.16, np.hypot(U - hubs[0, 0], V - hubs[0, 1]) + 0.05 * _grain(rng, 0.08)))
    canvas.fine[:] = 0.022 * dots
    return canvas.decal()


def follicles(rng: Generator) -> Decal:
    """Many small smooth nodules, all alike, each a little paler than the mucosa between them."""
    size = rng.uniform(0.1, 0.135)
    canvas, nodules = Canvas(), np.full((TEXELS, TEXELS), 9.0, dtype=np.float32)
    for u, v in _scattered(rng, 60, apart=2.1 * size, reach=0.86):
        nodules = np.minimum(nodules, np.hypot(U - u, V - v) / (size * rng.uniform(0.9, 1.1)))
    canvas.coat(RIM, 0.2 * _bump(nodules, 1.1, 0.2))
    canvas.coat(FOLLICLE, 0.6 * _step(1.15, 0.7, nodules))
    canvas.coat(FOLLICLE_TOP, 0.75 * _step(0.95, 0.1, nodules))
    canvas.fine[:] = 0.6 * size * _step(1.15, 0.0, nodules)
    return canvas.decal(nodules < 1.25)


def polyp(rng: Generator) -> Decal:
    """A red lobed knob with a clear edge; its foot lies in shadow."""
    away = AWAY * _ragged(rng, 0.07) / 0.72
    lobes = np.full((TEXELS, TEXELS), 9.0, dtype=np.float32)
    for u, v in _scattered(rng, 12, apart=0.34, reach=0.62):
        lobes = np.minimum(lobes, np.hypot(U - u, V - v) / 0.27)
    inside = _step(1.04, 0.9, away)
    knob = np.sqrt(1.0 - away.clip(0.0, 1.0) ** 2)
    canvas = Canvas()
    canvas.coat(CREASE, 0.4 * _step(1.35, 1.0, away))
    canvas.coat(POLYP, 0.7 * inside)
    canvas.coat(POLYP_SPOT, 0.4 * inside * _step(0.2, 2.0, _grain(rng, 0.05)))
    canvas.coat(CREASE, 0.22 * inside * _step(0.6, 1.2, lobes))
    canvas.coat(CREASE, 0.5 * inside * _step(0.55, 1.1, away))  # round things darken towards their edge
    canvas.fine[:] = 0.3 * knob + 0.07 * inside * np.sqrt((1.0 - (0.8 * lobes) ** 2).clip(0.0))
    _gleam(canvas, rng, 0.13)
    return canvas.decal(away < 1.06, (0.95 * knob).astype(np.float32))


def parasite(rng: Generator) -> Decal:
    """A pale round worm, tapered at both ends, that casts a shadow."""
    steps, thick = 300, rng.uniform(0.036, 0.05)
    at, heading, curl = rng.uniform(-0.5, 0.5, 2), rng.uniform(0.0, 2 * np.pi), 0.0
    nearest = np.full((TEXELS, TEXELS), 9.0, dtype=np.float32)
    for step in range(steps):
        homeward = np.arctan2(-at[1], -at[0])
        curl = 0.93 * curl + rng.normal(0.0, 0.011)
        heading += curl + 0.09 * np.sin(homeward - heading) * float(np.hypot(*at) > 0.55)
        at = at + 0.016 * np.array([np.cos(heading), np.sin(heading)])
        taper = min(1.0, 0.25 + 0.05 * min(step, steps - 1 - step))
        _nearer(nearest, at, thick * taper)
    shadow = np.roll(nearest, (4, 4), axis=(0, 1))
    canvas = Canvas()
    canvas.coat(CREASE, 0.35 * _step(1.8, 0.6, shadow))
    canvas.coat(WORM_EDGE, 0.9 * _step(1.1, 0.85, nearest))
    canvas.coat(WORM, 0.95 * _step(0.95, 0.35, nearest))
    canvas.coat(GLEAM, 0.7 * _step(0.3, 0.0, nearest) * _step(0.0, 0.8, _grain(rng, 0.1)))
    return canvas.decal(nearest < 1.3)


DECALS: dict[str, tuple[Callable[[Generator], Decal], tuple[float, float]]] = {  # with radii of the smallest, largest
    "ulcer": (ulcer, (0.28, 0.48)),
    "erosion": (erosion, (0.3, 0.5)),
    "angioectasia": (angioectasia, (0.22, 0.38)),
    "mucosal erythema": (erythema, (0.38, 0.62)),
    "eminence lesion": (eminence, (0.48, 0.66)),
    "lymphangiectasia": (lymphangiectasia, (0.3, 0.52)),
    "lymphoid follicular hyperplasia": (follicles, (0.42, 0.65)),
    "polyp": (polyp, (0.32, 0.46)),
    "parasite": (parasite, (0.5, 0.75)),
}


def _step(start: float, end: float, x: NDArray[np.floating]) -> Floats:
    """0 before `start`, 1 after `end`, smooth between; either may be the larger."""
    x = ((x - start) / (end - start)).clip(0.0, 1.0)
    return np.asarray(x * x * (3.0 - 2.0 * x), dtype=np.float32)


def _bump(x: Floats, centre: float, width: float) -> Floats:
    return np.asarray(np.exp(-(((x - centre) / width) ** 2)), dtype=np.float32)


def _grain(rng: Generator, size: float) -> Floats:
    return smooth_noise(rng, (TEXELS, TEXELS), size * np.pi, stretch=PERIOD / (2 * np.pi))


def _ragged(rng: Generator, amount: float) -> Floats:
    """About 1, other in every direction: turns a circle into a natural outline."""
    turn = np.arctan2(V, U)
    waves = [np.cos(k * turn + rng.uniform(0.0, 2 * np.pi)) / k**0.7 for k in (2, 3, 4, 5, 7, 9)]
    return np.asarray(1.0 + amount * sum(waves) / 2.0, dtype=np.float32)


def _oval(rng: Generator, most: float = 1.35) -> Floats:
    turn, length = np.arctan2(V, U) - rng.uniform(0.0, np.pi), rng.uniform(1.0, most)
    return np.asarray(np.hypot(np.cos(turn), length * np.sin(turn)), dtype=np.float32)


def _spokes(rng: Generator, count: int) -> NDArray[np.float64]:
    return np.asarray(2 * np.pi * (np.arange(count) + rng.uniform(-0.35, 0.35, count)) / count)


def _scattered(rng: Generator, most: int, apart: float, reach: float) -> list[NDArray[np.float64]]:
    """Random points of the disc that keep their distance."""
    kept: list[NDArray[np.float64]] = []
    for turn, far in zip(rng.uniform(0.0, 2 * np.pi, 12 * most), rng.uniform(0.0, 1.0, 12 * most), strict=True):
        point = reach * np.sqrt(far) * np.array([np.cos(turn), np.sin(turn)])
        if len(kept) < most and all(np.hypot(*(point - other)) > apart for other in kept):
            kept.append(point)
    return kept


def _window(at: NDArray[np.float64], reach: float) -> tuple[slice, slice]:
    low = ((at - reach + 1.0) / 2.0 * TEXELS).astype(int).clip(0, TEXELS - 1)
    high = ((at + reach + 1.0) / 2.0 * TEXELS).astype(int).clip(0, TEXELS - 1) + 1
    return slice(low[0], high[0]), slice(low[1], high[1])


def _nearer(nearest: Floats, at: NDArray[np.float64], unit: float) -> None:
    """Keep for every texel the distance to the nearest point so far, in units of that point."""
    window = _window(at, 3.0 * unit)
    away = np.hypot(U[window] - at[0], V[window] - at[1]) / unit
    np.minimum(nearest[window], away, out=nearest[window])


def _dab(layer: Floats, at: NDArray[np.float64], radius: float, *, hard: bool = False) -> None:
    window = _window(at, 2.5 * radius)
    away = np.hypot(U[window] - at[0], V[window] - at[1]) / radius
    spot = _step(1.15, 0.7, away) if hard else np.exp(-(away**2))
    np.maximum(layer[window], spot, out=layer[window])


def _gleam(canvas: Canvas, rng: Generator, size: float) -> None:
    """Lamps mirrored by a wet, smooth surface."""
    for u, v in rng.uniform(-0.25, 0.25, (int(rng.integers(1, 3)), 2)):
        spot = np.hypot((U - u) / rng.uniform(0.5, 1.0), (V - v) / rng.uniform(0.5, 1.0)) / size
        canvas.coat(GLEAM, 0.85 * _step(1.0, 0.3, spot + 0.2 * _grain(rng, 0.08)))
