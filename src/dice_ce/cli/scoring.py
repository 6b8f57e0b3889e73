"""Commands that score methods: evaluate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dice_ce.cli.shared import command, print_json


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
    print_json(card.to_json()) if options.json else print(card.text())
    return 0
