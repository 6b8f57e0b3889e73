"""Draws the frames of a planned exam from the real images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.exam.field import Field
from dice_ce.lab.compose.life import Episode, Motion
from dice_ce.lab.compose.plan import ExamPlan
from dice_ce.lab.compose.playing import MIX
from dice_ce.lab.compose.sprites import bubbles, debris, overlay
from dice_ce.lab.compose.windows import REACH, SourceImages, opencv
from dice_ce.types import Image

NOISE = 1.3
"""Grey levels: no sensor gives the same image twice."""
NOISE_STARTS = 64
DARKEST = 0.25
WORST_QUALITY = 8
"""JPEG quality of frames that the radio link squeezed."""
STRONGEST_BLUR = 0.011
"""Standard deviation as a share of the image."""


def render_exam(plan: ExamPlan, windows: Mapping[str, Field], size: int) -> Iterator[Image]:
    """Draw all frames in order, as planes of YUV 4:2:0, which is what the encoder takes."""
    cv2 = opencv()
    images = SourceImages(windows, size)
    inside = np.repeat(windows[plan.make].mask(size, size)[..., None] * np.uint8(255), 3, axis=-1)
    grain = _Grain(plan, size)
    active: list[Episode] = []
    coming = iter([*plan.episodes, None])
    following = next(coming)
    for frame in range(len(plan)):
        active = [episode for episode in active if episode.stop > frame]
        while following is not None and following.first <= frame:
            active.append(following)
            following = next(coming)
        image = look(images(plan.image(frame)), plan.motion, frame, size)
        if (partner := plan.played.partner[frame]) >= 0:
            other = look(images(plan.played.images[int(partner)]), plan.motion, frame, size)
            image = cv2.addWeighted(image, 1 - MIX, other, MIX, 0)
        for episode in active:
            image = _spoiled(image, plan, frame, episode)
        image = _lit(image, plan, frame, active)
        image = cv2.bitwise_and(image, inside)
        for episode in active:
            if episode.effect == "compression":
                image = cv2.bitwise_and(_squeezed(image, episode.at(frame)), inside)
        yield grain.added(cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420), frame)


def look(source: Image, moved: Motion, frame: int, size: int) -> Image:
    """Look at a continued source frame as the camera does at this frame."""
    cv2 = opencv()
    scale = size / (len(source) / REACH) * float(moved.zoom[frame])
    angle = math.radians(float(moved.turn[frame]))
    a, b = scale * math.cos(angle), scale * math.sin(angle)
    middle = len(source) / 2 - 0.5
    right = size * (0.5 + float(moved.right[frame])) - 0.5
    down = size * (0.5 + float(moved.down[frame])) - 0.5
    matrix = np.array([[a, b, right - a * middle - b * middle], [-b, a, down + b * middle - a * middle]])
    image = cv2.warpAffine(source, matrix, (size, size), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    image = cv2.cvtColor(image, cv2.COLOR_BGRA2BGR)
    smear = float(moved.smear[frame]) * size
    return _smeared(image, smear, float(moved.smear_turn[frame])) if smear >= 2 else np.asarray(image)


def _smeared(image: Image, length: float, turn: float) -> Image:
    """Blur along a direction."""
    cv2 = opencv()
    side = 2 * round(length / 2) + 1
    kernel = np.zeros((side, side), np.float32)
    middle = side // 2
    reach = (middle * math.cos(math.radians(turn)), middle * math.sin(math.radians(turn)))
    ends = [(round(middle + sign * reach[0]), round(middle + sign * reach[1])) for sign in (-1, 1)]
    cv2.line(kernel, ends[0], ends[1], 1.0)
    return np.asarray(cv2.filter2D(image, -1, kernel / kernel.sum()))


def _spoiled(image: Image, plan: ExamPlan, frame: int, episode: Episode) -> Image:
    """Add what passes before the lens, or takes the focus away."""
    size, strength = len(image), episode.at(frame)
    if episode.effect == "blur":
        return np.asarray(opencv().GaussianBlur(image, (0, 0), max(0.3, STRONGEST_BLUR * size * strength)))
    if episode.effect in ("bubbles", "debris"):
        lot = np.random.default_rng(episode.lot)
        bank = bubbles(size) if episode.effect == "bubbles" else debris(size)
        moved = plan.motion
        for _ in range(int(lot.integers(1, 4))):
            sprite = bank[int(lot.integers(len(bank)))]
            x, y = lot.uniform(0.15, 0.85, 2)
            # They swim: they go with the camera, but further than the wall behind them.
            x += 2 * float(moved.right[frame] - moved.right[episode.first])
            y += 2 * float(moved.down[frame] - moved.down[episode.first])
            overlay(image, sprite, float(x) * size, float(y) * size, min(1.0, 1.3 * strength))
    return image


def _lit(image: Image, plan: ExamPlan, frame: int, active: list[Episode]) -> Image:
    light = float(plan.motion.light[frame])
    for episode in active:
        if episode.effect == "darkness":
            light *= 1 - (1 - DARKEST) * episode.at(frame)
    return np.asarray(opencv().convertScaleAbs(image, alpha=light))


def _squeezed(image: Image, strength: float) -> Image:
    cv2 = opencv()
    quality = round(WORST_QUALITY + 30 * (1 - strength))
    _, content = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(content, cv2.IMREAD_COLOR))


class _Grain:
    """Sensor noise inside the field of view: one sheet, read from another start for every frame."""

    def __init__(self, plan: ExamPlan, size: int) -> None:
        rng = np.random.default_rng(3)
        sheet = np.rint(rng.normal(0.0, NOISE, (size + NOISE_STARTS, size + NOISE_STARTS)))
        self._lighter, self._darker = sheet.clip(0).astype(np.uint8), (-sheet).clip(0).astype(np.uint8)
        self._starts = rng.integers(NOISE_STARTS, size=(len(plan), 2))
        self._size = size

    def added(self, planes: npt.NDArray[Any], frame: int) -> Image:
        cv2 = opencv()
        top, left = self._starts[frame]
        part = np.s_[top : top + self._size, left : left + self._size]
        grey = planes[: self._size]
        cv2.add(grey, self._lighter[part], dst=grey)
        cv2.subtract(grey, self._darker[part], dst=grey)
        return planes
