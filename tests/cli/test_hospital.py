"""summarize --also, export and inspect on DICOM, as commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dice_ce.cli import main
from dice_ce.cli.hospital import KINDS
from dice_ce.outputs import EXPORTS, OUTPUTS
from tests.dicom_material import INSTANCE, PATIENT, SECRETS, capsule_video, video_object
from tests.material import moving_dots, write_video


def exam_of(folder: Path) -> Path:
    return capsule_video(folder / "exam.dcm", 60, FrameTime="10000")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_summarize_also_writes_what_export_writes(tmp_path: Path, bundle_folder: Path) -> None:
    exam, out = exam_of(tmp_path), tmp_path / "out"
    words = ["summarize", str(exam), "--out", str(out), "--bundle", str(bundle_folder)]
    assert main([*words, "--also", ",".join(EXPORTS)]) == 0
    assert main(["export", str(out / "exam"), "--format", ",".join(EXPORTS), "--out", str(tmp_path / "again")]) == 0
    again = files(tmp_path / "again")
    assert {name.split("/")[0] for name in again} == {OUTPUTS[kind].name for kind in EXPORTS}
    assert {name: content for name, content in files(out / "exam").items() if name in again} == again
    for name, content in files(out).items():
        for secret in SECRETS:
            assert secret.encode() not in content, name
    assert main(words) == 0
    assert not (out / "exam" / "report.pdf").exists(), "an export of an earlier summary would be stale"


def test_identity_is_kept_only_when_asked_for(tmp_path: Path, bundle_folder: Path) -> None:
    out = tmp_path / "out"
    words = ["summarize", str(exam_of(tmp_path)), "--out", str(out), "--bundle", str(bundle_folder)]
    assert main([*words, "--also", "dicom", "--keep-identity"]) == 0
    assert PATIENT["PatientID"].encode() in (out / "exam" / "dicom" / "report.dcm").read_bytes()
    for name in ("summary.json", "findings.csv", "report.html"):
        content = (out / "exam" / name).read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in content]


def test_identity_is_not_kept_where_there_is_none_or_no_place(
    tmp_path: Path, bundle_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = write_video(tmp_path / "exam.mp4", moving_dots(20))
    words = ["summarize", str(video), "--out", str(tmp_path / "out"), "--bundle", str(bundle_folder)]
    assert main([*words, "--keep-identity"]) == 2
    assert "--keep-identity needs --also" in capsys.readouterr().err
    assert main([*words, "--keep-identity", "--also", "fhir"]) == 2
    assert "is for DICOM exams" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_uid_in_a_file_name_is_in_no_result(tmp_path: Path, bundle_folder: Path) -> None:
    exam = capsule_video(tmp_path / f"{INSTANCE}.dcm", 40)
    assert main(["summarize", str(exam), "--out", str(tmp_path / "out"), "--bundle", str(bundle_folder)]) == 0
    for name, content in files(tmp_path / "out").items():
        assert INSTANCE not in name
        assert INSTANCE.encode() not in content, name


def test_a_patient_in_a_file_name_is_in_no_result(tmp_path: Path, bundle_folder: Path) -> None:
    exam = capsule_video(tmp_path / "Confidential_SECRET-4711.dcm", 40)
    words = ["summarize", str(exam), "--out", str(tmp_path / "out"), "--bundle", str(bundle_folder)]
    assert main([*words, "--also", "dicom,fhir"]) == 0
    for name, content in files(tmp_path / "out").items():
        for secret in (b"Confidential", b"SECRET", b"4711"):
            assert secret not in name.encode() + content, name


@pytest.mark.parametrize("kind", [kind for kind in EXPORTS if OUTPUTS[kind].modules])
def test_a_missing_extra_is_noticed_before_any_work(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, OUTPUTS[kind].modules[0], None)
    video = write_video(tmp_path / "exam.mp4", moving_dots(20))
    assert main(["summarize", str(video), "--out", str(tmp_path / "out"), "--also", kind]) == 1
    said = capsys.readouterr().err
    assert "[hospital]" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_dicom_without_the_extra_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exam = video_object(tmp_path / "exam.dcm", 10)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    assert main(["inspect", str(exam)]) == 1
    assert "[hospital]" in capsys.readouterr().err


def test_inspect_tells_where_the_times_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(exam_of(tmp_path)), "--json"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said)["clock"]["source"] == "DICOM"
    assert not [secret for secret in SECRETS if secret in said]


@pytest.mark.parametrize("text", ["", "word", "pdf,word", "keyframes"])
def test_an_unknown_format_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path), "--format", text])
    assert ended.value.code == 2
    assert f"is none of {KINDS}; see" in capsys.readouterr().err
