"""Single images of a class: material to train a classifier on, without rendering whole exams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.random import Generator

from dice_ce.lab.simulator.lesions import LESIONS, check_labels, make_lesion
from dice_ce.lab.simulator.motion import CapsulePath, ExamScript, capsule_path
from dice_ce.lab.simulator.plan import in_sight
from dice_ce.lab.simulator.scene import Field, Scene, build_scene, shoot, with_field
from dice_ce.lab.simulator.view import look
from dice_ce.taxonomy import NORMAL
from dice_ce.types import Image

PER_BOWEL = 40  # images from one bowel, since growing one takes as long as many images
POSES = 2000
LEAST_SHOWN = 0.022  # share of the field
DIRTY = 0.3  # share of images with more haze, and of those with more blur, than the exam has on average


def lesion_frames(
    label: str, count: int, size: int = 224, seed: int = 0, field: Field | None = None
) -> Iterator[Image]:
    """Make `count` images that each show such a lesion clearly, or no lesion if the label is "normal".

    Without a `field`, both shapes take turns. The same seed gives the same bowels to every label, so that
    nothing but the lesions tells the labels apart.
    """
    if label != NORMAL:
        check_labels((label,))
    fields: tuple[Field, ...] = get_args(Field) if field is None else (field,)
    chance = np.random.default_rng([seed, 8, (NORMAL, *LESIONS).index(label)])
    for start in range(0, count, PER_BOWEL):
        bowel = int(np.random.default_rng([seed, 9, start]).integers(2**31))
        path = capsule_path(ExamScript(frames=POSES, seed=bowel))
        scene = build_scene(size, bowel)
        scenes = [with_field(scene, shape) for shape in fields]
        for number in range(start, min(start + PER_BOWEL, count)):
            yield _image(scenes[number % len(scenes)], path, label, chance)


def _image(scene: Scene, path: CapsulePath, label: str, rng: Generator) -> Image:
    while True:
        frame = int(rng.integers(len(path)))
        haze, defocus = rng.uniform(0.0, 0.7, 2) * (rng.random(2) < DIRTY)
        pose = path.at(frame)
        pose = replace(pose, haze=max(pose.haze, float(haze)), defocus=max(pose.defocus, float(defocus)))
        if label == NORMAL:
            return shoot(scene, pose, frame).image
        spot = in_sight(look(scene.mucosa, scene.optics, pose), rng)
        if spot is None:
            continue
        shot = shoot(replace(scene, lesions=(make_lesion(label, rng, *spot),)), pose, frame)
        if shot.glimpses and shot.glimpses[0].visible >= LEAST_SHOWN:
            return shot.image
