"""Docs cannot drift: the README's tree, commands and settings are compared with the package.

`python -m tests.test_docs` writes the references of commands and settings anew.
"""

import argparse
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dice_ce
from dice_ce.cli import build_parser
from dice_ce.method.bundle import load_bundle, shipped_bundles
from dice_ce.method.settings import Settings
from dice_ce.settings import declarations, values_of
from dice_ce.table import Table

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference" / "cli.md"
SETTINGS = ROOT / "docs" / "reference" / "settings.md"


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


def settings_reference() -> str:
    """Describe every setting and every shipped profile, from their declarations and the bundle."""
    known = declarations(Settings)
    rows = [
        (f"`{name}`", one.help, one.expected, one.off if one.rule else "", ", ".join(map(str, one.search)) or "–")
        for name, one in known.items()
    ]
    lines = [
        "# Settings",
        "",
        "Written by `python -m tests.test_docs`; a test compares it with the declarations, which stand beside their",
        "algorithms. Every setting is an option of `dice-ce summarize` (`tau_s` is `--tau-s`), a value in a profile,",
        "and part of the provenance.",
        "",
        Table.of(("setting", "meaning", "value", "paper (where the rule is ours)", "`tune` tries"), rows).markdown(),
    ]
    for bundle in shipped_bundles():
        profiles = load_bundle(bundle).profiles
        values = {name: values_of(profile.settings) for name, profile in profiles.items()}
        chosen = [(f"`{name}`", *(values[profile][name] for profile in values)) for name in known]
        abouts = (f"- `{name}`: {profile.about}" for name, profile in profiles.items())
        lines += ["", f"## Profiles of the bundle `{bundle}`", ""]
        lines += [textwrap.fill(about, 120, subsequent_indent="  ", break_on_hyphens=False) for about in abouts]
        lines += ["", Table.of(("setting", *(f"`{name}`" for name in values)), chosen).markdown()]
    return "\n".join(lines) + "\n"


def test_the_settings_reference_describes_the_settings() -> None:
    assert SETTINGS.read_text() == settings_reference(), "run: python -m tests.test_docs"


def test_the_command_reference_describes_the_command() -> None:
    assert REFERENCE.read_text() == reference(), "run: python -m tests.test_docs"


def test_every_option_says_what_it_does() -> None:
    """In words of its own: a default alone, or a remark on the option's name, is no help."""
    for command in commands(build_parser()):
        for action in command._actions:
            assert action.help, f"{command.prog} {action.dest}"
            assert not action.help.startswith(("default:", "of ", "on ", "with ")), f"{command.prog} {action.dest}"


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


PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"(?<![\w/.-])((?:tests|benchmarks|tools|src|deploy)/[\w./-]*\w)", text)
    named += [f"{module.replace('.', '/')}.py" for module in re.findall(r"python -m (tests\.[\w.]*\w)", text)]
    assert [file for file in named if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_and_blocks_of_a_page_are_whole(page: Path) -> None:
    """A row on its own and a block on one line are shown as they stand."""
    lines = ["", *page.read_text().splitlines(), ""]
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if line.startswith("|") and not before.startswith("|"):
            assert re.match(r"\|\s*:?-", after), line
        assert not re.search(r"```.+```", line), line


@pytest.mark.parametrize("page", [page for page in PAGES if page != REFERENCE], ids=lambda page: page.name)
def test_prose_has_lines_that_can_be_read(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.S | re.M)
    assert [line for line in prose.splitlines() if len(line) > 130 and not re.match(r"\||    |!\[", line)] == []


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text()))
    assert {page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md")} <= linked


def test_getting_started_names_every_extra_once() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (ROOT / "docs" / "getting-started.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.M)) == sorted(extras)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_docs_exist_and_take_their_options(page: Path) -> None:
    known = {command.prog: command for command in commands(build_parser())}
    text = page.read_text().replace("\\\n", " ")
    inline = (code.replace("\n", " ") for code in re.findall(r"`(dice-ce [a-z][^`]*)`", text))
    for line in [*re.findall(r"^\s*(?:\$ )?(dice-ce [a-z][^\n`]*)", text, re.M), *inline]:
        words = line.split("#")[0].split()
        name = next((" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in known), None)
        if name is None and len(words) == 2:
            assert any(command.startswith(line) for command in known), line  # a group: `dice-ce archive`
            continue
        assert name, line
        taken = {option for action in known[name]._actions for option in action.option_strings}
        assert {word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2} <= taken, line


def test_the_changelog_knows_this_version() -> None:
    assert f"## {dice_ce.__version__}" in (ROOT / "CHANGELOG.md").read_text()


if __name__ == "__main__":
    REFERENCE.write_text(reference())
    SETTINGS.write_text(settings_reference())
