"""Every test has a cache of its own, and finds real capsule frames only where DICE_CE_DATA says they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dice_ce.encoder import OnnxEncoder
from tests.material import write_tiny_encoder

# Examples are the same in every run, however slow the machine; `python -m tests.hard` draws others.
settings.register_profile(
    "drawn", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("steady", settings.get_profile("drawn"), derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DICE_CE_CACHE", str(folder))
    return folder


@pytest.fixture
def tiny_encoder(tmp_path: Path) -> OnnxEncoder:
    """A real ONNX encoder that is small enough to run thousands of times."""
    return OnnxEncoder.open(write_tiny_encoder(tmp_path / "tiny.onnx"))


@pytest.fixture
def real_data() -> Path:
    """The folder with real capsule frames; tests that ask for it are skipped without it."""
    folder = os.environ.get("DICE_CE_DATA")
    if not folder or not (Path(folder) / "frames.csv").is_file():
        pytest.skip("set DICE_CE_DATA to the folder with real capsule frames to run this")
    return Path(folder)
