"""Commands that score methods: evaluate, benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import DRAWING, a_folder, needs, writes
from dice_ce.cli.shared import (
    add_bundle_options,
    add_folds_option,
    command,
    command_line,
    emit,
    positive_int,
    print_json,
    progress_bars,
)

if TYPE_CHECKING:
    from dice_ce.benchmark.vlm import VlmOptions


def add_commands(commands: Any) -> None:
    """Describe the commands of this module."""
    evaluate = command(commands, "evaluate", run_evaluate, "score summaries or plain CSVs against a dataset's findings")
    evaluate.add_argument(
        "--pred",
        action="append",
        required=True,
        metavar="[NAME=]DIR",
        help="summaries, or CSVs with exam_id,seconds,label; once per method",
    )
    evaluate.add_argument("--truth", type=Path, required=True, metavar="DATASET", help="folder with exams.csv")
    evaluate.add_argument("--split", help="score the exams of one split only")
    evaluate.add_argument("--compare", action="store_true", help="test the first method against each of the others")
    evaluate.add_argument("--count-normal", action="store_true", help="findings called normal are to be found, too")
    evaluate.add_argument("--missing-as-empty", action="store_true", help="an exam without a summary selected nothing")
    evaluate.add_argument(
        "--allow-playback", action="store_true", help="score playback times as if they were exam times"
    )

    benchmark = command(commands, "benchmark", run_benchmark, "run DiCE, its ablations and all baselines on a dataset")
    data_help = "folders with exams.csv; several are scored together"
    benchmark.add_argument("--data", type=Path, nargs="+", required=True, metavar="DATASET", help=data_help)
    place = a_folder("results.md", "predictions")
    writes(benchmark, "--out", place, required=True, metavar="DIR", help="tables, plots and predictions")
    needs(benchmark, DRAWING)
    add_bundle_options(benchmark)
    add_folds_option(benchmark)
    benchmark.add_argument("--split", default="test", help="exams to score (default: test)")
    benchmark.add_argument("--methods", nargs="+", help="some methods only, for instance dice aks vilamp uniform-raw")
    model = benchmark.add_argument_group("other diagnosers", "Each labels the frames that the baselines choose.")
    names = "Qwen3-VL, LingShu, …, a hub id, or a folder, also one that finetune wrote"
    model.add_argument("--diagnoser", "--diagnosers", nargs="+", default=(), metavar="NAME|PATH", help=names)
    model.add_argument("--device", help="cpu or cuda (default: cuda if there is one)")
    model.add_argument("--permutations", type=positive_int, help="orders of the options to average (default: all)")
    model.add_argument("--batch", type=positive_int, default=8, help="images at once (default: 8)")
    model.add_argument("--allow-remote-code", action="store_true", help="run the authors' code: read it first")


def run_evaluate(options: argparse.Namespace) -> int:
    """Score one or several methods."""
    from dice_ce.benchmark.evaluation import Protocol
    from dice_ce.benchmark.scorecard import parse_methods, score

    card = score(
        parse_methods(options.pred),
        options.truth,
        split=options.split,
        comparing=options.compare,
        missing_as_empty=options.missing_as_empty,
        allow_playback=options.allow_playback,
        protocol=Protocol(count_normal_findings=options.count_normal),
    )
    emit(options, card.to_json(), card.text())
    return 0


def _vlm_options(options: argparse.Namespace) -> VlmOptions:
    from dice_ce.benchmark.vlm import VlmOptions

    return VlmOptions(
        device=options.device,
        permutations=options.permutations,
        batch=options.batch,
        allow_remote_code=options.allow_remote_code,
    )


def run_benchmark(options: argparse.Namespace) -> int:
    """Run every method and write tables and plots; what is in the cache is not computed again."""
    from dice_ce.benchmark.diagnosers import list_diagnosers
    from dice_ce.benchmark.networks import Networks
    from dice_ce.benchmark.report import write_report
    from dice_ce.benchmark.run import choose, list_rows, run_benchmark
    from dice_ce.datasets.folder import load_dataset, together

    networks = Networks.load(options.bundle, options.folds)
    bundle = networks.bundle
    dataset = together(
        [networks.exams(load_dataset(folder, bundle.taxonomy), options.split) for folder in options.data]
    )
    # Names are understood before hours of work and gigabytes of weights.
    choose(list_rows(bundle, options.profile, is_truth_known=True), options.methods)
    diagnosers = list_diagnosers(options.diagnoser, _vlm_options(options), dataset) if options.diagnoser else ()
    with progress_bars() as watch:
        results = run_benchmark(
            dataset,
            networks,
            options.out,
            profile=options.profile,
            wanted=options.methods,
            diagnosers=diagnosers,
            watch=watch,
        )
    page = write_report(results, options.out, command=command_line(options))
    if options.json:
        figures = {outcome.row.key: outcome.evaluation.to_json()["figures"] for outcome in results.outcomes}
        print_json({"disclaimer": DISCLAIMER, "page": str(page), "figures": figures})
        return 0
    print((options.out / "tables" / "main.md").read_text())
    print(f"{page}: all tables and plots\n{DISCLAIMER}")
    return 0
