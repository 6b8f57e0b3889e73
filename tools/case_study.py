"""Draws the case study of docs/explanation/case-study.md: simulated exams, the shipped bundle, the usual benchmark.

    python tools/case_study.py --out case

writes a dataset of two simulated exams (no patient is in them), runs `dice-ce benchmark` on it, and leaves
`case/results/case-study.png`. Exams that are there already are not rendered again.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from dice_ce.cli import main

EXAMS = ("exam-1", "exam-2")
FRAMES, LESIONS = "1500", "8"
EXAM_FPS = "1/4"


def make_dataset(folder: Path) -> Path:
    """Render the exams, and write what a report would say about them."""
    findings = []
    for seed, name in enumerate(EXAMS, start=1):
        video = folder / f"{name}.mp4"
        words = ["simulate", "--out", str(video), "--frames", FRAMES, "--lesions", LESIONS]
        if not video.is_file() and main([*words, "--seed", str(seed), "--exam-fps", EXAM_FPS]):
            raise SystemExit(f"{video}: could not be made")
        with (folder / f"{name}.findings.csv").open(encoding="utf-8", newline="") as file:
            findings += [(name, row["finding_id"], row["seconds"], row["label"]) for row in csv.DictReader(file)]
    exams = [(name, f"patient of {name}", "test", f"{name}.mp4", EXAM_FPS) for name in EXAMS]
    _write(folder / "exams.csv", [("exam_id", "patient_id", "split", "video", "exam_fps"), *exams])
    _write(folder / "findings.csv", [("exam_id", "finding_id", "seconds", "label"), *findings])
    return folder


def _write(path: Path, rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    place = parser.parse_args().out
    data = make_dataset(place / "exams")
    words = ["benchmark", "--data", str(data), "--out", str(place / "results")]
    raise SystemExit(main([*words, "--methods", "dice", "uniform", "aks", "vilamp"]))
