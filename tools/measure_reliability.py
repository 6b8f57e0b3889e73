"""Measure how well a bundle recognises each label on its validation cases, and write that into the bundle.

    python tools/measure_reliability.py --data DATA --bundle src/dice_ce/bundles/default

`dice-ce train` does this by itself; this tool is for bundles that exist already. Their weights and settings stay as
they are: only `reliability.json`, the model card and the digests change. DATA holds the labelled real frames that the
bundle was trained with (see docs/how-to/datasets.md); its cases are dealt as they were then.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dice_ce.benchmark.frames import measure_reliability
from dice_ce.cli.shared import progress_bars
from dice_ce.lab.training.card import reliability_text, with_reliability
from dice_ce.lab.training.data import gather
from dice_ce.lab.training.simulated import SOURCE as SIMULATED
from dice_ce.method.bundle import Bundle, export_bundle, load_bundle
from dice_ce.method.predict import predict_images
from dice_ce.method.reliability import Reliability
from dice_ce.types import Progress


def measure(data: Path, bundle: Bundle, progress: Progress | None = None) -> dict[str, Reliability]:
    """Ask the bundle about every labelled real frame of its validation cases."""
    labels = bundle.taxonomy.labels
    frames = [
        frame for frame in gather([data], labels).frames["validation"] if frame.labels and frame.source != SIMULATED
    ]
    stated = next((line for line in bundle.card.splitlines() if line.startswith("- validation cases: ")), "")
    if strange := sorted({frame.case for frame in frames} - set(stated.partition(": ")[2].split(", "))):
        raise SystemExit(
            f"{data}: '{strange[0]}' is no validation case of the bundle; give the data it was trained with"
        )
    scores = predict_images([frame.path for frame in frames], bundle, progress)
    if scores.undecodable:
        raise SystemExit(f"{scores.undecodable[0]}: cannot be decoded; copy it again")
    truth = np.array([[label in frame.labels for label in labels] for frame in frames], np.bool_)
    cases = np.array([frame.case for frame in frames], np.str_)
    return measure_reliability(scores.distributions.argmax(axis=1), truth, cases, labels)


def main() -> None:
    """Measure, and write the bundle anew in its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--bundle", type=Path, required=True, help="folder of the bundle, which is changed")
    options = parser.parse_args()
    bundle = load_bundle(options.bundle)
    with progress_bars() as watch:
        table = measure(options.data, bundle, watch("validation frames"))
    export_bundle(options.bundle, options.bundle, reliability=table, card=with_reliability(bundle.card, table))
    print(reliability_text(table))


if __name__ == "__main__":
    main()
