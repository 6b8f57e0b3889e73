"""What we write as DICOM has what PS3.3 wants of it, and nothing that it does not know."""

from __future__ import annotations

import io

import pydicom
import pytest

from dice_ce.outputs.dicom.objects import dicom_files
from dice_ce.outputs.signed import SignedReview
from dice_ce.outputs.signed import dicom_files as signed_files
from tests.outputs.conftest import Summarised
from tests.outputs.test_signed import BARE, SIGNED

pytest.importorskip("dicom_validator")
from tests.dicom_standard import problems


@pytest.mark.parametrize("with_identity", [False, True])
def test_dicom_validator_finds_nothing_wrong(summarised: Summarised, with_identity: bool) -> None:
    for name, content in dicom_files(summarised.results(with_identity=with_identity)).items():
        assert problems(pydicom.dcmread(io.BytesIO(content))) == [], name


@pytest.mark.parametrize("signed", [SIGNED, BARE], ids=["findings", "none"])
def test_dicom_validator_finds_nothing_wrong_with_a_signed_report(signed: SignedReview) -> None:
    for name, content in signed_files(signed).items():
        assert problems(pydicom.dcmread(io.BytesIO(content))) == [], name


def test_dicom_validator_can_refuse(summarised: Summarised) -> None:
    report = pydicom.dcmread(io.BytesIO(dicom_files(summarised.results())["report.dcm"]))
    del report.CompletionFlag
    report.ContentLabel = "RESEARCH"
    assert problems(report) == ["sr-document-general: (0040,A491) TagMissing", "General: (0070,0080) TagUnexpected"]
