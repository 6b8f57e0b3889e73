"""Train the bundle that ships: heads on the fine-tuned encoder, calibrated, and tuned on composed validation exams.

    python tools/finetune_encoder.py --data DATA --out encoder.onnx
    python tools/train_default_bundle.py --data DATA --encoder encoder.onnx --exams COMPOSED

DATA holds labelled real frames (see docs/how-to/datasets.md); COMPOSED is made from it by `dice-ce data compose`, whose
validation exams show validation cases only. Simulated frames are added so that the demonstration works. Everything is
resumable: rendered exams, features and exams are kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dice_ce.cli import main as dice_ce
from dice_ce.datasets.frametable import write_frames
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.exam.codec import write_image
from dice_ce.exam.open import open_exam
from dice_ce.files import cache_root
from dice_ce.lab.training.simulated import SEEDS, SOURCE, STEP, training_exam
from dice_ce.method.bundle import export_bundle

SIDE = 224


def simulated_frames(work: Path) -> Path:
    """Render (once) exams with two events of every class, and write every third frame as a labelled image."""
    folder = work / "simulated"
    if (folder / "frames.csv").is_file():
        return folder
    frames: list[LabelledFrame] = []
    for split, seeds in SEEDS.items():
        for seed in seeds:
            frames += _exam_frames(work, folder, split, seed)
    write_frames(folder / "frames.csv", frames)
    return folder


def _exam_frames(work: Path, folder: Path, split: str, seed: int) -> list[LabelledFrame]:
    video, labels = training_exam(work, seed)
    frames = []
    with open_exam(video) as exam:
        for ordinal, image in exam.read(size=SIDE):
            if ordinal % STEP == 0:
                path = folder / f"{seed}" / f"{ordinal:05d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_image(path, image)
                words = (labels[ordinal],)
                frames.append(LabelledFrame(path, SOURCE, f"simulated-{seed}", ordinal, words, words, split=split))
    return frames


def main() -> None:
    """Train, then tune."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--encoder", type=Path, required=True, help="what tools/finetune_encoder.py wrote")
    parser.add_argument("--exams", type=Path, help="composed exams, to tune on their validation split")
    parser.add_argument("--out", type=Path, default=Path("src/dice_ce/bundles/default"))
    parser.add_argument("--work", type=Path, default=cache_root() / "encoder-training", help="where exams are kept")
    parser.add_argument("--views", type=int, default=0, help="augmented views of every image (default: 0)")
    options = parser.parse_args()
    simulated = simulated_frames(options.work)
    notes = Path(__file__).with_name("default_bundle_notes.md")
    data = ["--data", str(options.data), str(simulated)]
    model = ["--encoder", str(options.encoder), "--name", "default", "--notes", str(notes)]
    run(["train", *data, *model, "--views", str(options.views), "--out", str(options.out)])
    if options.exams:
        tuned = options.work / "tuned"
        exams = ["--data", str(options.exams), "--bundle", str(options.out)]
        run(["tune", *exams, "--out", str(tuned), "--log", str(options.work / "trials.csv")])
        export_bundle(tuned, options.out)


def run(words: list[str]) -> None:
    """Run a command; stop if it fails."""
    if code := dice_ce(words):
        raise SystemExit(code)


if __name__ == "__main__":
    main()
