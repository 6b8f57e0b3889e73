"""Renders one frame of a capsule exam: wall, contents, optics, sensor and field of view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from dice_ce.lab.simulator.contents import Bubbles, Debris
from dice_ce.lab.simulator.lesions import Lesion, Mask
from dice_ce.lab.simulator.motion import Pose
from dice_ce.lab.simulator.mucosa import BLUSHES, Mucosa, grow_mucosa
from dice_ce.lab.simulator.view import Optics, View, look
from dice_ce.types import Floats, Image

Field = Literal["octagon", "round"]

SHADES, LIT = 384, 256  # shades from LIT on run from fully lit mucosa to a white highlight
TINTS = np.array(  # by bile: pink, orange, stained; each from dark to fully lit
    [
        [(0, 0, 0), (74, 32, 14), (130, 68, 38), (182, 106, 72), (216, 148, 108), (240, 196, 160)],
        [(0, 0, 0), (70, 34, 8), (128, 70, 22), (180, 108, 44), (214, 150, 80), (242, 202, 140)],
        [(0, 0, 0), (60, 36, 4), (122, 78, 14), (176, 118, 30), (212, 162, 64), (240, 208, 124)],
    ],
    dtype=np.float64,
)
BLUSH_TINT = np.array([0.12, -0.2, -0.1])  # from pale to red
TURBID = np.array([0.86, 1.06, 0.96])  # what cloudy fluid does to red, green and blue
HIGHLIGHT = np.array([255.0, 252.0, 244.0])
FLUID_SHADE = np.float32(64.0)  # what the depth of the lumen fades to
SHUTTER = 0.1  # share of the interval between two frames during which the sensor is exposed
SHARP_TRAVEL = 0.025  # radii travelled during an exposure below which no blur shows
EXPOSURES = 4
NOISE_LEVEL, NOISE_STARTS = 1.6, 100_003
LEAST_VISIBLE = 0.008  # share of the field from which a lesion counts as seen
LEAST_DRAWN = 0.002  # share of the field: what would show less of itself is left out altogether
HIDING = 60  # change of a colour from which a lesion counts as hidden by a bubble or flake before it


class Layer(Protocol):
    """Anything painted over the wall; `view` tells which point of the bowel each pixel shows."""

    def paint(self, image: Image, view: View) -> None: ...


@dataclass(frozen=True)
class Scene:
    """All that stays the same from frame to frame."""

    seed: int
    mucosa: Mucosa
    layers: tuple[Layer, ...]
    optics: Optics
    aperture: Image  # for each pixel and colour: 1 inside the field of view, 0 outside
    noise: NDArray[np.int8]  # of the sensor: each frame reads it from another start
    lesions: tuple[Lesion, ...] = ()

    @cached_property
    def field(self) -> NDArray[np.bool_]:
        return np.asarray(self.aperture[..., 0] == 1)


def build_scene(size: int = 336, seed: int = 0, field: Field = "octagon") -> Scene:
    aperture = _aperture(size, field)
    noise = np.random.default_rng([seed, 3]).normal(0.0, NOISE_LEVEL, size * size * 3 + NOISE_STARTS)
    return Scene(
        seed=seed,
        mucosa=grow_mucosa(seed, detail=min(1024, 1 << int(2.5 * size).bit_length())),
        layers=(Debris.grown(seed), Bubbles.grown(seed)),
        optics=Optics.of_size(size),
        aperture=aperture,
        noise=np.rint(noise).astype(np.int8),
    )


def with_field(scene: Scene, field: Field) -> Scene:
    return replace(scene, aperture=_aperture(scene.optics.size, field))


def _aperture(size: int, field: Field) -> Image:
    return field_mask(size, field)[..., None].repeat(3, axis=-1).astype(np.uint8)


def field_mask(size: int, field: Field) -> NDArray[np.bool_]:
    place = np.abs((np.arange(size) + 0.5) / size * 2.0 - 1.0)
    x, y = place[None], place[:, None]
    if field == "octagon":
        return np.asarray((np.maximum(x, y) < 0.97) & (x + y < 1.5))
    if field == "round":
        return np.asarray(np.hypot(x, y) < 0.98)
    raise ValueError(f"unknown field {field!r}: choose one of {', '.join(get_args(Field))}")


@dataclass(frozen=True)
class Glimpse:
    """One lesion in one image."""

    lesion: Lesion
    mask: Mask  # where it really shows
    visible: float  # share of the field of view


@dataclass(frozen=True)
class Shot:
    image: Image
    glimpses: tuple[Glimpse, ...]  # the largest first; lesions that do not show have none


def render(scene: Scene, pose: Pose, frame: int = 0) -> Image:
    """What the sensor records, black outside the field; `frame` chooses the sensor noise and nothing else."""
    return shoot(scene, pose, frame).image


def shoot(scene: Scene, pose: Pose, frame: int = 0) -> Shot:
    """What `render` gives, and the truth about the lesions in it."""
    image, glimpses = _exposed(scene, pose)
    image = _defocused(image, passes=round(4 * pose.defocus))
    start = int(np.random.default_rng([scene.seed, 4, frame]).integers(NOISE_STARTS))
    image += scene.noise[start : start + image.size].reshape(image.shape)
    return Shot(np.asarray(image.clip(0, 255).astype(np.uint8) * scene.aperture), glimpses)


def _exposed(scene: Scene, pose: Pose) -> tuple[NDArray[np.int16], tuple[Glimpse, ...]]:
    """The mean of what passes before the lens while the shutter is open, and the lesions as it opens."""
    travel = pose.speed * SHUTTER
    moments = np.linspace(0.0, travel, EXPOSURES) if travel > SHARP_TRAVEL else np.zeros(1)
    total = np.zeros((scene.optics.size, scene.optics.size, 3), dtype=np.int16)
    lesions = [lesion for lesion in scene.lesions if lesion.near(pose)]
    glimpses: tuple[Glimpse, ...] = ()
    for back in moments:
        image, seen = _instant(scene, replace(pose, depth=pose.depth - float(back)), lesions)
        total += image
        if back == 0.0:  # what the first moment does not show, the later ones must not either
            glimpses, lesions = seen, [glimpse.lesion for glimpse in seen]
    return total // len(moments), glimpses


def _instant(scene: Scene, pose: Pose, lesions: list[Lesion]) -> tuple[Image, tuple[Glimpse, ...]]:
    view, image, shown = _bowel(scene, pose, lesions)
    bare = image.copy() if shown else image
    for layer in scene.layers:
        layer.paint(image, view)
    if not shown:
        return image, ()
    for _, mask in shown:
        mask[mask] = np.abs(image[mask].astype(np.int16) - bare[mask]).max(axis=-1) < HIDING
    glimpses = [Glimpse(lesion, mask, _share(mask, scene)) for lesion, mask in shown]
    return image, tuple(sorted(glimpses, key=lambda glimpse: -glimpse.visible))


def _bowel(scene: Scene, pose: Pose, lesions: list[Lesion]) -> tuple[View, Image, list[tuple[Lesion, Mask]]]:
    """The wall with those lesions on it that can be seen at all."""
    raised = [rise for lesion in lesions if (rise := lesion.rise(pose)) is not None]
    view = look(scene.mucosa, scene.optics, pose, sum(raised[1:], raised[0]) if raised else None)
    image = _wall(scene.mucosa, view)
    shown: list[tuple[Lesion, Mask]] = []
    for lesion in lesions:
        before = image.copy()
        mask = lesion.paint(image, view)
        mask &= scene.field
        if _share(mask, scene) >= LEAST_DRAWN:
            shown.append((lesion, mask))
        elif lesion.rise(pose) is None:
            image = before
        else:  # even the shape of the wall must not betray it
            return _bowel(scene, pose, [other for other in lesions if other is not lesion])
    return view, image, shown


def _share(mask: Mask, scene: Scene) -> float:
    return float(np.count_nonzero(mask) / np.count_nonzero(scene.field))


def _wall(mucosa: Mucosa, view: View) -> Image:
    relief, blush, wetness, _ = np.moveaxis(view.skin(mucosa), -1, 0)
    detail = 1.0 / (128.0 + 16.0 * view.ahead**2)  # skin too far away to resolve looks even
    lit = view.light * (1.0 + (relief - np.float32(128)) * detail)
    shade = (1.15 * LIT) * lit / (lit + 0.9)  # bright parts saturate softly
    shade += 2.0 * (view.light - 1.15).clip(0.0) * wetness
    clear = 1.0 / (1.0 + (0.06 + 0.6 * view.pose.haze) * view.ahead.clip(0.0))
    shade = _softened(FLUID_SHADE + (shade - FLUID_SHADE) * clear, passes=max(1, round(len(shade) / 336)))
    colour = shade.clip(0, SHADES - 1).astype(np.intp) * BLUSHES + blush
    return np.asarray(_palette(view.pose).take(colour, axis=0))


def _palette(pose: Pose) -> Image:
    """Colour by shade and blush. One small table per frame does the work of tinting every pixel."""
    step, share = divmod(min(pose.bile, 0.999) * (len(TINTS) - 1), 1.0)
    ramp = TINTS[int(step)] * (1.0 - share) + TINTS[int(step) + 1] * share
    ramp = ramp * (1.0 + (TURBID - 1.0) * pose.haze)
    shade = np.linspace(0.0, len(ramp) - 1.0, LIT)
    lit = np.stack([np.interp(shade, np.arange(len(ramp)), channel) for channel in ramp.T], axis=-1)[:, None]
    lit = lit * (1.0 + np.linspace(-0.5, 0.5, BLUSHES)[:, None] * BLUSH_TINT)
    glare = np.linspace(0.0, 1.0, SHADES - LIT)[:, None, None]
    glint = lit[-1] + (HIGHLIGHT - lit[-1]) * glare
    return np.concatenate([lit, glint]).clip(0, 255).astype(np.uint8).reshape(-1, 3)


def _softened(plane: Floats, passes: int) -> Floats:
    """No lens is as sharp as a pixel, nor are the texels of a wall that touches the dome."""
    for _ in range(passes):
        plane[1:-1] = 0.25 * (plane[:-2] + plane[2:]) + 0.5 * plane[1:-1]
        plane[:, 1:-1] = 0.25 * (plane[:, :-2] + plane[:, 2:]) + 0.5 * plane[:, 1:-1]
    return plane


def _defocused(image: NDArray[np.int16], passes: int) -> NDArray[np.int16]:
    for _ in range(passes):
        image[1:-1] = (image[:-2] + 2 * image[1:-1] + image[2:]) >> 2
        image[:, 1:-1] = (image[:, :-2] + 2 * image[:, 1:-1] + image[:, 2:]) >> 2
    return image
