"""The command `dice-ce`: thin subcommands, each importing what it needs when it runs.

Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted (finished work is kept), 141 nobody reads the
output any more (`| head`).
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from dice_ce import DISCLAIMER, __version__
from dice_ce.cli import (
    archive,
    data,
    deidentify,
    exams,
    finetuning,
    hospital,
    installation,
    models,
    reader,
    scoring,
)
from dice_ce.cli.checks import check_before_work
from dice_ce.errors import DiceError, error_line, one_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names and signs that the terminal's encoding lacks
    try:
        try:
            return run(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where it can still be said that it fails
    except OSError as error:
        return _give_up(error)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; what its own output does is another matter."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = build_parser(with_settings=not {"summarize", "archive"}.isdisjoint(words)).parse_args(words)
    options.words = words
    try:
        check_before_work(options)
        code: int = options.run(options)
        return code
    except DiceError as error:
        print(f"dice-ce: error: {error_line(error)}", file=sys.stderr)
        return error.exit_code
    except MemoryError as error:  # numpy says how much it wanted
        what = f" ({one_line(str(error))})" if str(error) else ""
        print(f"dice-ce: error: not enough memory{what}; ask for less, or free some", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dice-ce: interrupted; finished work is kept, the same command goes on from there", file=sys.stderr)
        return 130


def _give_up(error: OSError) -> int:
    """End without a traceback when the system refuses something, quietly if it is only that nobody reads on."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # the interpreter would stumble over it once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if isinstance(error, BrokenPipeError):
        return 141
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    what = error.filename or ("the output" if is_full else "the system")
    print(f"dice-ce: error: {what}: {error.strerror or error}; check the disk and the permissions", file=sys.stderr)
    return 1


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, like everything else here: the list of all options would hide what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dice-ce: error: {message}; see {self.prog} --help\n")


def build_parser(*, with_settings: bool = True) -> argparse.ArgumentParser:
    """Describe all commands; nothing heavy is imported for that, except for the settings of the method."""
    parser = _Parser(
        prog="dice-ce",
        description="Short, trustworthy summaries of whole capsule-endoscopy exams.",
        epilog=f"{DISCLAIMER} Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted, 141 closed pipe.",
    )
    parser.add_argument("--version", action="version", version=f"dice-ce {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    exams.add_commands(commands, with_settings=with_settings)
    archive.add_commands(commands, with_settings=with_settings)
    for module in (reader, hospital, deidentify, models, finetuning, data, scoring, installation):
        module.add_commands(commands)
    return parser
