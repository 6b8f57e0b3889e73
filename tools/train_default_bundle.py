"""Train the bundle that ships: heads on the fine-tuned encoder, calibrated and tuned on cases that were held out.

    for f in 0 1 2 3 4; do
      python tools/finetune_diagnoser.py --start vit_s_focus.onnx --data DATA --out WORK/teacher-$f.onnx --fold $f
      python tools/finetune_encoder.py --teacher WORK/teacher-$f.onnx --data DATA --out WORK/fold-$f.onnx --fold $f
      python tools/diagnoser_head.py --network WORK/teacher-$f.onnx --data DATA --out WORK/diagnoser-$f.onnx --fold $f
    done
    and all three without --fold: WORK/teacher.onnx, WORK/encoder.onnx, WORK/diagnoser.onnx
    python tools/train_default_bundle.py --data DATA --work WORK

DATA holds labelled real frames (see docs/how-to/datasets.md). The networks that ship learn from all cases. Thresholds,
temperature, reliabilities and settings come from networks of five folds, each asked about cases it never saw; settings
are tuned from those of the bundle that is there on: all methods on real recordings, then DiCE on recordings and spliced
exams of these cases together, the recordings counting double. Everything is resumable: features are kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dice_ce.cli import main as dice_ce
from dice_ce.method.bundle import export_bundle, load_bundle

FAST_SIDE = 128
"""Of all frames for the fast Selector."""


def main() -> None:
    """Put recordings together, train, then tune."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--work", type=Path, required=True, help="where the encoders are, and where all else is kept")
    parser.add_argument("--out", type=Path, default=Path("src/dice_ce/bundles/default"))
    parser.add_argument("--trials", type=int, default=160)
    options = parser.parse_args()
    data, work = str(options.data), options.work
    recordings, folds, tuned = work / "recordings", work / "folds", work / "tuned"
    notes = Path(__file__).with_name("default_bundle_notes.md")
    encoders = ["--encoder", str(work / "encoder.onnx"), "--fold-encoders", str(work / "fold-{fold}.onnx")]
    networks = ["--diagnoser", str(work / "diagnoser.onnx"), "--fold-diagnosers", str(work / "diagnoser-{fold}.onnx")]
    how = ["--fast-side", str(FAST_SIDE), "--views", "0"]
    bundle = ["--name", "default", "--notes", str(notes), *how, "--out", str(work / "untuned")]
    run(["data", "recordings", "--frames", data, "--out", str(recordings)])
    run(["train", "--data", data, *encoders, *networks, "--folds-out", str(folds), *bundle])
    networks_of_folds = ["--folds", str(folds), "--trials", str(options.trials)]
    recorded = work / "tuned-on-recordings"
    export_bundle(work / "untuned", work / "start", profiles=load_bundle(options.out).profiles)
    first = ["--data", str(recordings), "--bundle", str(work / "start"), "--out", str(recorded)]
    run(["tune", *first, *networks_of_folds])
    spliced, timelines = work / "spliced-0", options.data / "galar" / "events.json"
    splices = ["--timelines", str(timelines), "--out", str(spliced), "--seed", "0", "--exams", "10"]
    run(["data", "splice", "--frames", data, *splices])
    both = ["--data", str(recordings), str(spliced), "--weights", "2", "1", "--bundle", str(recorded)]
    run(["tune", *both, *networks_of_folds, "--methods", "dice", "--out", str(tuned)])
    export_bundle(tuned, options.out)


def run(words: list[str]) -> None:
    """Run a command; stop if it fails."""
    if code := dice_ce(words):
        raise SystemExit(code)


if __name__ == "__main__":
    main()
