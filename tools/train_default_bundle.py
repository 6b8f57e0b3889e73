"""Train the bundle that ships: heads on the fine-tuned encoder, calibrated, and tuned on composed validation exams.

    python tools/finetune_encoder.py --data DATA --out encoder.onnx
    python tools/train_default_bundle.py --data DATA --encoder encoder.onnx --exams COMPOSED

DATA holds labelled real frames (see docs/how-to/datasets.md); COMPOSED is made from it by `dice-ce data compose`, whose
validation exams show validation cases only. Simulated frames are added so that the demonstration works. Everything is
resumable: rendered exams, features and exams are kept.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.match import Selections
from dice_ce.benchmark.methods import prepare, run_dice
from dice_ce.bundle import export_bundle, load_bundle
from dice_ce.cli import main as dice_ce
from dice_ce.datasets.folder import ExamRow
from dice_ce.datasets.frametable import write_frames
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.exam import open_exam
from dice_ce.files import cache_root
from dice_ce.pictures import write_picture
from dice_ce.training.simulated import SEEDS, SOURCE, STEP, training_exam
from dice_ce.training.tuning import read_trials, with_tuned

SIDE = 224
LEAST_SIMULATED = 0.6
"""Share of the findings of simulated validation exams that the settings must find."""


def simulated_frames(work: Path) -> Path:
    """Render (once) exams with two events of every class, and write every third frame as a labelled picture."""
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
        for ordinal, picture in exam.read(size=SIDE):
            if ordinal % STEP == 0:
                path = folder / f"{seed}" / f"{ordinal:05d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_picture(path, picture)
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
    parser.add_argument("--views", type=int, default=0, help="augmented views of every picture (default: 0)")
    options = parser.parse_args()
    simulated = simulated_frames(options.work)
    notes = Path(__file__).with_name("default_bundle_notes.md")
    data = ["--data", str(options.data), str(simulated)]
    model = ["--encoder", str(options.encoder), "--name", "default", "--notes", str(notes)]
    run(["train", *data, *model, "--views", str(options.views), "--out", str(options.out)])
    if options.exams:
        log = options.work / "trials.csv"
        tuned = options.work / "tuned"
        exams = ["--data", str(options.exams), "--bundle", str(options.out)]
        run(["tune", *exams, "--out", str(tuned), "--log", str(log)])
        choose_settings(tuned, options.out, log, options.work)


def choose_settings(tuned: Path, out: Path, log: Path, work: Path) -> None:
    """Take the best trial on composed exams that also finds most of what simulated validation exams show."""
    bundle = load_bundle(tuned)
    exams = []
    for seed in SEEDS["validation"]:
        video, _ = training_exam(work, seed)
        with video.with_name(f"{video.stem}.findings.csv").open() as file:
            findings = [(bundle.taxonomy.index(row["label"]), float(row["seconds"])) for row in csv.DictReader(file)]
        exams.append((prepare(ExamRow(video.stem, video.stem, "", video), bundle), findings))
    for trial in read_trials(log, "dice"):
        settings = with_tuned(bundle.settings, trial.settings)
        found = items = 0
        for exam, findings in exams:
            chosen = run_dice(exam, bundle.taxonomy, settings)
            items += len(chosen)
            found += sum(bool((near(chosen, seconds) & (chosen.labels == label)).any()) for label, seconds in findings)
        wanted = sum(len(findings) for _, findings in exams)
        if found >= LEAST_SIMULATED * wanted:
            note = (
                "The best of the trials of `dice-ce tune` on composed validation exams "
                f"(LDR {trial.ldr:.3f}, sensitivity {trial.sensitivity:.3f}, {trial.items:.1f} items per exam) "
                f"that also finds {found} of {wanted} findings of simulated validation exams, with {items} items, "
                "so that the demonstration works: "
                + ", ".join(f"{name} {value}" for name, value in trial.settings.items())
                + ". Tune on your own data."
            )
            export_bundle(tuned, out, settings=settings, baselines=bundle.baselines, note=note)
            print(note)
            return
    export_bundle(tuned, out)
    print("no trial finds enough in simulated exams; the settings stay as tuned")


def near(chosen: Selections, seconds: float) -> npt.NDArray[np.bool_]:
    """Tell which selected frames lie within a minute of a finding."""
    return np.asarray(np.abs(chosen.times / 1000 - seconds) <= 60, np.bool_)


def run(words: list[str]) -> None:
    """Run a command; stop if it fails."""
    if code := dice_ce(words):
        raise SystemExit(code)


if __name__ == "__main__":
    main()
