"""Programs that tests meet for real, such as a browser: skipped where they are missing, unless they must be there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

CHROMIUM = Path("/usr/bin/chromium")


def miss(what: str) -> NoReturn:
    """Skip a test for want of a peer; in `.ci/run`, which installs them all, that is a failure."""
    if os.environ.get("DICE_CE_PEERS") == "required":
        pytest.fail(f"{what}, which DICE_CE_PEERS=required asks for")
    pytest.skip(what)
