"""Remedies work as printed: every command in a message is read by the parser, every option in one exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dice_ce.cli import build_parser
from tests.test_docs import commands

PACKAGE = Path(__file__).parent.parent / "src" / "dice_ce"
ELSEWHERE = re.compile(r"hf download \S+ --local-dir|--label:")
"""An option of another program, and a variable of the report's style."""


def messages() -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every text in the package that is no documentation; values in it become X."""
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if id(node) in documentation | inside:
                continue
            where = f"{file.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield where, node.value
            elif isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values]
                yield where, "".join(parts)


def printed_commands() -> list[tuple[str, str]]:
    """Find `dice-ce COMMAND ...` in messages, up to the mark or the line end that closes it."""
    return [
        (where, found)
        for where, text in messages()
        for found in re.findall(r"\bdice-ce( [a-z][^'`;)\n]*)", text)
        if not found.startswith(" commands")
    ]


def known_options() -> set[str]:
    actions = [action for command in commands(build_parser()) for action in command._actions]
    return {"--version"} | {option for action in actions for option in action.option_strings}


def test_the_scan_finds_the_remedies() -> None:
    found = {text.split()[0] for _, text in printed_commands()}
    assert {"tune", "encoder", "cache", "data"} <= found


@pytest.mark.parametrize(("where", "words"), printed_commands(), ids=lambda value: value.strip())
def test_a_command_in_a_message_is_one_that_the_parser_reads(where: str, words: str) -> None:
    try:
        build_parser().parse_args(words.split())
    except SystemExit:
        pytest.fail(f"{where} prints a command that is refused: dice-ce{words}")


def test_every_option_in_a_message_exists() -> None:
    known = known_options()
    unknown = [
        (where, option)
        for where, text in messages()
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", ELSEWHERE.sub("", text))
        if option not in known
    ]
    assert unknown == []
