"""The command finetune: published models become diagnosers of baselines."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import FINETUNING, a_folder, needs, writes
from dice_ce.cli.models import DATA_HELP
from dice_ce.cli.shared import add_seed_option, amount, command, emit, positive, positive_int, progress_bars


def add_commands(commands: Any) -> None:
    """Describe the command of this module."""
    about = "fine-tune a published vision or vision-language model as a diagnoser (needs the extra finetune)"
    finetune = command(commands, "finetune", run_finetune, about)
    finetune.add_argument("model", metavar="MODEL", help="hub id or folder of a backbone; Qwen3-VL, LingShu, …")
    finetune.add_argument("--data", type=Path, nargs="+", required=True, metavar="DATA", help=DATA_HELP)
    place = a_folder("diagnoser.json")
    writes(finetune, "--out", place, required=True, metavar="DIR", help="folder for the model, for --diagnoser")
    needs(finetune, FINETUNING)
    finetune.add_argument("--steps", type=positive_int, default=2000, help="steps of training (default: 2000)")
    finetune.add_argument("--batch", type=positive_int, default=32, help="images per step (default: 32)")
    finetune.add_argument("--at-once", type=positive_int, help="images in memory at once (default: all of a batch)")
    rate = "step size (default: 5e-5 for a backbone, 2e-4 for adapters)"
    finetune.add_argument("--learning-rate", type=positive, help=rate)
    finetune.add_argument("--rank", type=positive_int, default=16, help="rank of the adapters (default: 16)")
    size = "side of the images for a vision-language model (default: 336)"
    finetune.add_argument("--size", type=positive_int, default=336, help=size)
    finetune.add_argument("--near", type=amount, default=2.0, help="seconds around a keyframe with its label")
    finetune.add_argument("--device", help="cpu or cuda (default: cuda if there is one)")
    finetune.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="for vision-language models")
    add_seed_option(finetune)


def run_finetune(options: argparse.Namespace) -> int:
    """Fine-tune a model; an interrupted run is taken up by the same command."""
    from dice_ce.lab.training.baseline import FinetuneConfig, finetune_baseline

    config = FinetuneConfig(
        steps=options.steps,
        batch=options.batch,
        at_once=options.at_once or options.batch,
        rate=options.learning_rate,
        rank=options.rank,
        size=options.size,
        near=options.near,
        device=options.device,
        dtype=options.dtype,
        seed=options.seed,
    )
    with progress_bars() as watch:
        done = finetune_baseline(options.model, options.data, options.out, config=config, watch=watch)
    figure = done.held_out
    facts = {
        "out": str(options.out),
        "base": done.learnt.base,
        "cases": len(done.learnt.cases),
        "steps": done.learnt.steps,
        "held_out_frames": done.frames,
        "balanced_accuracy": {"value": figure.value, "low": figure.low, "high": figure.high},
    }
    emit(
        options,
        {"disclaimer": DISCLAIMER, **facts},
        f"{options.out}: {done.learnt.base} after {config.steps:,} steps on {len(done.learnt.cases)} cases; balanced "
        f"accuracy {figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}] on {done.frames:,} frames of other cases\n"
        f"label what the baselines choose with it:\n"
        f"  dice-ce benchmark --data DATASET --out DIR --diagnoser {options.out}\n{DISCLAIMER}",
    )
    return 0
