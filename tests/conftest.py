"""Every test has a cache of its own, and finds real capsule frames only where DICE_CE_DATA says they are."""

from __future__ import annotations

import os
import signal
from collections.abc import MutableMapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import Profile, save_bundle
from dice_ce.method.diagnoser import HeadDiagnoser
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.taxonomy import Taxonomy
from tests.material import moving_dots, tiny_head, write_tiny_encoder, write_video

# Examples are the same in every run, however slow the machine; `python -m tests.hard` draws others.
settings.register_profile(
    "drawn", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("steady", settings.get_profile("drawn"), derandomize=True)
settings.load_profile("steady")


ASKED_FOR = ("DICE_CE_DATA", "DICE_CE_PEERS", "DICE_CE_EXAMPLES", "DICE_CE_FAULTS")
"""What somebody says to the tests; everything else in the environment is said to other programs."""


def forget_the_machine(environment: MutableMapping[str, str]) -> None:
    """Remove settings that belong to the machine: a proxy would stand between a test and the server it has started."""
    for name in list(environment):
        is_of_others = name.startswith(("DICE_CE_", "AWS_")) and name not in ASKED_FOR
        if is_of_others or name.lower().endswith("_proxy"):
            del environment[name]


forget_the_machine(os.environ)
# Whoever runs the tests in the background may ignore interrupts, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
def bundle_folder(tmp_path: Path) -> Path:
    """A bundle with random heads that call about half of all frames abnormal."""
    encoder = OnnxEncoder.open(write_tiny_encoder(tmp_path / "tiny.onnx"))
    save_bundle(
        tmp_path / "bundle",
        name="tiny",
        taxonomy=Taxonomy(),
        encoder=encoder,
        selector=tiny_head(encoder.dim, 1),
        diagnoser=HeadDiagnoser(tiny_head(encoder.dim, 12, seed=1)),
        profiles={"default": Profile(Settings(SelectorSettings(tau_s=0.4)), "made for tests")},
        card="# tiny\n",
    )
    return tmp_path / "bundle"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Four exams of eighty frames, one every ten seconds."""
    folder = tmp_path / "data"
    folder.mkdir()
    splits = {"a": "validation", "b": "validation", "c": "test", "d": "test"}
    for seed, name in enumerate(splits):
        write_video(folder / f"{name}.mp4", moving_dots(80, seed=seed))
    rows = "".join(f"{name},p{name},{split},{name}.mp4,1/10\n" for name, split in splits.items())
    (folder / "exams.csv").write_text("exam_id,patient_id,split,video,exam_fps\n" + rows)
    findings = "a,1,100,ulcer\na,2,600,polyp\nb,1,300,hematocele\nc,1,200,erosion\nd,1,700,polyp\nd,2,100,ulcer\n"
    (folder / "findings.csv").write_text("exam_id,finding_id,seconds,label\n" + findings)
    return folder


@pytest.fixture
def real_data() -> Path:
    """The folder with real capsule frames; tests that ask for it are skipped without it."""
    folder = os.environ.get("DICE_CE_DATA")
    if not folder or not (Path(folder) / "frames.csv").is_file():
        pytest.skip("set DICE_CE_DATA to the folder with real capsule frames to run this")
    return Path(folder)
