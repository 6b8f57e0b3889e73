"""The command `dice-ce`: thin subcommands, each importing what it needs when it runs.

Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted (finished work is kept).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from dice_ce import DISCLAIMER, __version__
from dice_ce.cli import data, exams, installation, models, scoring
from dice_ce.errors import DiceError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    options.words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: int = options.run(options)
        return code
    except DiceError as error:
        print(f"dice-ce: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("dice-ce: interrupted; finished work is kept, the same command goes on from there", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, like everything else here: the list of all options would hide what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dice-ce: error: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Describe all commands; nothing heavy is imported for that."""
    parser = _Parser(
        prog="dice-ce",
        description="Short, trustworthy summaries of whole capsule-endoscopy exams.",
        epilog=f"{DISCLAIMER} Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"dice-ce {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (exams, models, data, scoring, installation):
        module.add_commands(commands)
    return parser
