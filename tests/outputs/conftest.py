"""One summarised exam for all tests of exports: a DICOM video with a patient in it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dice_ce.exam.dicom.identity import read_identity
from dice_ce.exam.open import open_exam
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import Profile, save_bundle
from dice_ce.method.diagnoser import HeadDiagnoser
from dice_ce.method.pipeline import summarize
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.outputs import write_outputs
from dice_ce.outputs.results import Results, read_results
from dice_ce.taxonomy import Taxonomy
from tests.dicom_material import capsule_video
from tests.material import tiny_head, write_tiny_encoder


@dataclass(frozen=True)
class Summarised:
    """An exam and its results."""

    exam: Path
    folder: Path

    @functools.cache  # noqa: B019  one for the whole session, so that the PDF is laid out once
    def results(self, *, with_identity: bool = False) -> Results:
        """Read the results, with the patient of the exam if asked for."""
        return self.read(with_identity=with_identity)

    def read(self, *, with_identity: bool = False) -> Results:
        """Read the results anew: nothing is rendered yet."""
        return read_results(self.folder, read_identity(self.exam) if with_identity else None)


@pytest.fixture(scope="session")
def summarised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Summarised]:
    """Results of a tiny bundle; tests must not change them."""
    folder = tmp_path_factory.mktemp("summarised")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DICE_CE_CACHE", str(folder / "cache"))
        encoder = OnnxEncoder.open(write_tiny_encoder(folder / "tiny.onnx"))
        save_bundle(
            folder / "bundle",
            name="tiny",
            taxonomy=Taxonomy(),
            encoder=encoder,
            selector=tiny_head(encoder.dim, 1),
            diagnoser=HeadDiagnoser(tiny_head(encoder.dim, 12, seed=1)),
            profiles={"default": Profile(Settings(SelectorSettings(tau_s=0.4)), "made for tests")},
            card="# tiny\n",
        )
        path = capsule_video(folder / "exam.dcm", 80, FrameTime="10000")
        with open_exam(path) as exam:
            summary = summarize(exam, bundle=folder / "bundle", command="dice-ce summarize exam.dcm")
            assert len(summary.items) > 2
            yield Summarised(path, write_outputs(summary, exam, folder / "results"))
