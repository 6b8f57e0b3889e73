"""Train the head of the diagnoser's own network anew: on the frames themselves, like the head on the encoder.

    python tools/diagnoser_head.py --network teacher.onnx --data FOLDER --out diagnoser.onnx
    python tools/diagnoser_head.py --network teacher-0.onnx --data FOLDER --out diagnoser-0.onnx --fold 0

Normal frames are as large a share of what it learns from as of what the network learnt from, in every source; the head
on the encoder takes them as they come, so that both together say *normal* neither too readily nor too rarely.

The network comes from `tools/finetune_diagnoser.py`; with --fold here and there, nothing knows that fold. It sees all
frames once, which takes three minutes of one core. Resumable: what it saw is kept in the cache.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dice_ce.datasets.splits import FOLDS
from dice_ce.files import write_atomically
from dice_ce.lab.training.data import gather
from dice_ce.lab.training.examples import NORMAL_SHARE
from dice_ce.lab.training.heads import HeadConfig, train_diagnoser
from dice_ce.lab.training.rehead import with_head, without_head
from dice_ce.lab.training.samples import samples_of_images
from dice_ce.progress import ProgressBar
from dice_ce.taxonomy import Taxonomy


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=Path, required=True, metavar="ONNX")
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fold", type=int, choices=range(FOLDS), help="leave the cases of this fold out")
    options = parser.parse_args()
    taxonomy = Taxonomy()
    data = gather([options.data], taxonomy.labels)
    frames = [frame for frame in data.frames if data.fold[frame.case] != options.fold]
    network = without_head(options.network.read_bytes(), str(options.network))
    with ProgressBar("encoding frames") as bar:
        samples = samples_of_images(frames, network, taxonomy, progress=bar)
    trained = train_diagnoser(samples, HeadConfig(normal_share=NORMAL_SHARE))
    write_atomically(options.out, with_head(network, trained.head))


if __name__ == "__main__":
    main()
