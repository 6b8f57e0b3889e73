"""The golden summary: `python -m tests.golden` writes it anew; look at the difference before committing it."""

from __future__ import annotations

import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import dice_ce
from dice_ce.exam.codec import write_image

GOLDEN = Path(__file__).parent / "golden" / "summary.json"


def golden_summary(frames: list[np.ndarray], bundle: Path) -> dict[str, Any]:
    """Summarise lossless frames; what belongs to the machine rather than to the method is left out."""
    with tempfile.TemporaryDirectory() as folder:
        for i, frame in enumerate(frames):
            write_image(Path(folder) / "exam" / f"{i:04d}.png", frame)
        clock = dice_ce.ClockOptions(exam_fps=Fraction(1, 10))
        with dice_ce.open_exam(Path(folder) / "exam", clock=clock) as exam:
            summary = json.loads(dice_ce.summarize(exam, bundle=bundle).to_json())
    for machine in ("packages", "version", "bundle", "encoder"):
        del summary["provenance"][machine]
    return dict(summary)


if __name__ == "__main__":
    from tests.method.test_pipeline import colour_frames, save_colour_bundle

    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.parent.mkdir(exist_ok=True)
        content = golden_summary(colour_frames(), save_colour_bundle(Path(folder)))
        GOLDEN.write_text(json.dumps(content, indent=1) + "\n")
