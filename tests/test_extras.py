"""The command that installs an extra, asked of installations of every kind: each a real folder that Python imports."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dice_ce
from dice_ce.errors import MissingExtraError, require
from dice_ce.extras import install_command
from dice_ce.features.encoder import ENCODERS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dice_ce"
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def test_a_package_that_runs_from_its_sources_is_installed_from_their_folder() -> None:
    assert shlex.split(install_command("train")) == [sys.executable, "-m", "pip", "install", "-e", f"{ROOT}[train]"]


def test_a_missing_package_is_answered_with_that_command() -> None:
    with pytest.raises(MissingExtraError) as refused:
        require("no_such_package", extra="plots", purpose="drawing")
    assert str(refused.value) == (
        "drawing needs the package 'no_such_package', which is not installed; "
        f"install it with: {install_command('plots')}"
    )


def test_every_extra_that_the_code_asks_for_exists() -> None:
    asked = {entry.extra for entry in ENCODERS.values()}
    for file in PACKAGE.rglob("*.py"):
        asked |= set(re.findall(r'extra="(\w+)"', file.read_text()))
    assert {"train", "datasets", "plots", "vlm", "hf"} <= asked <= EXTRAS


def command_of_an_installation(site: Path, recorded: dict[str, Any] | None) -> list[str]:
    """Install a copy of the module as pip would, with what pip records about its origin, and ask that copy."""
    (site / "dice_ce").mkdir(parents=True)
    for name in ("__init__.py", "extras.py"):
        shutil.copy(PACKAGE / name, site / "dice_ce" / name)
    facts = site / f"dice_ce-{dice_ce.__version__}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.4\nName: dice-ce\nVersion: {dice_ce.__version__}\n")
    if recorded:
        (facts / "direct_url.json").write_text(json.dumps(recorded))
    ask = "from dice_ce.extras import install_command; print(install_command('train'))"
    code = f"import sys; sys.path.insert(0, {str(site)!r}); {ask}"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    words = shlex.split(done.stdout)
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    return words[4:]


def test_what_was_installed_from_a_folder_is_installed_from_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "my downloads" / "dice-ce"
    folder.mkdir(parents=True)
    recorded = {"url": folder.as_uri(), "dir_info": {}}
    assert command_of_an_installation(tmp_path / "site", recorded) == [f"dice-ce[train] @ {folder.as_uri()}"]


def test_a_folder_that_is_gone_is_not_named(tmp_path: Path) -> None:
    recorded = {"url": (tmp_path / "gone").as_uri(), "dir_info": {}}
    assert command_of_an_installation(tmp_path / "site", recorded) == ["FOLDER_OF_DICE_CE[train]"]


def test_what_was_installed_from_a_repository_is_installed_from_the_same_commit(tmp_path: Path) -> None:
    recorded = {"url": "https://example.org/dice-ce.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}
    wanted = [f"dice-ce[train] @ git+https://example.org/dice-ce.git@{'0' * 40}"]
    assert command_of_an_installation(tmp_path / "site", recorded) == wanted


def test_what_was_installed_from_an_index_is_on_an_index(tmp_path: Path) -> None:
    assert command_of_an_installation(tmp_path / "site", None) == ["dice-ce[train]"]
