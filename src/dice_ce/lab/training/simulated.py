"""Simulated exams to train on beside real frames, so that the demonstration works and every label occurs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from dice_ce.lab.simulator import simulate
from dice_ce.progress import ProgressBar
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12

SEEDS = {"train": range(100, 110), "validation": range(200, 203), "test": range(300, 303)}
"""No bowel, path or lesion is shared between two seeds."""
FRAMES = 1200
STEP = 3
"""Every how many frames one is taken: neighbours are alike."""
SOURCE = "SIMULATED"
FIELDS: tuple[Literal["octagon"], Literal["round"]] = ("octagon", "round")


def training_exam(work: Path, seed: int) -> tuple[Path, list[str]]:
    """Render (once) an exam with two events of every class; return it with the label of every frame."""
    path = work / f"train-{seed}.mp4"
    if not path.exists():
        lesions = [label for label in VIDEOCAP_12 if label != NORMAL] * 2
        with ProgressBar(f"rendering {path.name}") as bar:
            simulate(path, frames=FRAMES, seed=seed, lesions=lesions, field=FIELDS[seed % 2], progress=bar)
    with path.with_name(f"{path.stem}.truth.csv").open() as file:
        return path, [row["label"] for row in csv.DictReader(file)]
