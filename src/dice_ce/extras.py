"""How to add an extra to the installation that is running: from the folder, file or repository that it came from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

PACKAGE = "dice-ce"


def install_command(extra: str) -> str:
    """Write the command that installs an extra, ready to be pasted into a shell.

    It calls the Python that is running, because the `pip` on the path may belong to another environment.
    """
    words = [sys.executable or "python", "-m", "pip", "install", *_target(extra)]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _target(extra: str) -> Sequence[str]:
    """Say to pip where this package came from; only what was installed from an index is on an index."""
    folder = Path(__file__).resolve().parents[2]
    if (folder / "pyproject.toml").is_file():  # runs from its sources: editable, or by PYTHONPATH
        return "-e", f"{folder}[{extra}]"
    origin = _origin()
    if origin is None:
        return (f"{PACKAGE}[{extra}]",)
    return (f"FOLDER_OF_DICE_CE[{extra}]" if _is_gone(origin) else f"{PACKAGE}[{extra}] @ {origin}",)


def _origin() -> str | None:
    """Return the URL that pip installed this package from (PEP 610), or None if that was an index."""
    try:
        recorded = importlib.metadata.distribution(PACKAGE).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    if recorded is None:
        return None
    facts = json.loads(recorded)
    if "vcs_info" in facts:
        return f"{facts['vcs_info']['vcs']}+{facts['url']}@{facts['vcs_info']['commit_id']}"
    return str(facts["url"])


def _is_gone(origin: str) -> bool:
    """Whether the folder or file that this package was installed from has been moved or removed since."""
    parts = urlsplit(origin)
    return parts.scheme == "file" and not Path(url2pathname(parts.path)).exists()
