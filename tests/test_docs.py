"""Docs cannot drift: the README's tree and the command reference are compared with the package.

`python -m tests.test_docs` writes the command reference anew.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dice_ce
from dice_ce.cli import build_parser

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference" / "cli.md"


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not children:
        yield parser
    for action in children:
        for child in action.choices.values():
            yield from commands(child)


def reference() -> str:
    """Describe every command, its arguments and options, from the parser itself."""
    lines = [
        "# Command reference",
        "",
        "Written by `python -m tests.test_docs`; a test compares it with the command.",
        "",
        "Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted (finished work is kept), 141 nobody "
        "reads the output any more (`| head`).",
        f"Errors are one line on stderr. {dice_ce.DISCLAIMER}",
    ]
    for command in commands(build_parser()):
        lines += ["", f"## `{command.prog}`", "", str(command.description), "", "| argument | meaning |", "|---|---|"]
        for action in command._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            value = (
                "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or action.dest.upper()}"
            )
            choices = f" ({' or '.join(action.choices)})" if action.choices else ""
            lines.append(f"| `{name}{value}` | {action.help or action.dest}{choices} |")
    return "\n".join(lines) + "\n"


def test_the_command_reference_describes_the_command() -> None:
    assert REFERENCE.read_text() == reference(), "run: python -m tests.test_docs"


def test_the_tree_in_the_readme_is_the_tree_of_the_package() -> None:
    tree = re.search(r"```\nsrc/dice_ce/\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert tree is not None
    named = {line.split()[0].rstrip("/") for line in tree.group(1).splitlines() if line.strip() and "#" not in line[:4]}
    package = ROOT / "src" / "dice_ce"
    real = {
        path.name
        for path in package.iterdir()
        if path.name != "__pycache__" and (path.is_dir() or path.suffix == ".py")
    }
    assert named == real


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_commands_in_the_docs_exist() -> None:
    known = {command.prog for command in commands(build_parser())}
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
        for line in re.findall(r"^\s*(?:\$ )?(dice-ce [a-z][^\n]*)", page.read_text(), re.M):
            words = line.split()
            assert " ".join(words[:2]) in known or " ".join(words[:3]) in known, f"{page.name}: {line}"


def test_the_changelog_knows_this_version() -> None:
    assert f"## {dice_ce.__version__}" in (ROOT / "CHANGELOG.md").read_text()


if __name__ == "__main__":
    REFERENCE.write_text(reference())
