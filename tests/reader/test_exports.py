"""What other systems take: what was signed, and the software's results as `dice-ce export` makes them."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pydicom
import pytest

from dice_ce.outputs import EXPORTS, OUTPUTS, export_results
from dice_ce.reader import exports
from tests.reader.conftest import Guest, Reader
from tests.reader.material import write_result


@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_is_that_of_the_command(reader: Reader, shared_results: Path, tmp_path: Path, kind: str) -> None:
    me = reader.browser()
    answer = me.get(f"/api/exams/{me.exam()}/exports/{kind}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith('attachment; filename="exam')
    export_results(shared_results / "exam", tmp_path / "by-command", kinds=(kind,))
    made = tmp_path / "by-command" / OUTPUTS[kind].name
    if made.is_file():
        assert answer.content == made.read_bytes()
        return
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    files = {path.relative_to(made.parent).as_posix(): path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert packed == files


def test_what_is_not_installed_is_explained_and_not_made(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "is_installed", lambda kind: kind != "dicom")
    me = reader.browser()
    missing = {one["kind"]: one["missing"] for one in me.get("/api/exports").json()["exports"]}
    assert "dice-ce[hospital]" in missing.pop("dicom")
    assert set(missing.values()) == {None}
    assert me.get(f"/api/exams/{me.exam()}/exports/dicom").status_code == 404


@pytest.mark.parametrize("kind", ["report", "keyframes", "summary", "etc", "..%2fpdf"])
def test_only_exports_are_made(reader: Reader, kind: str) -> None:
    me = reader.browser()
    assert me.get(f"/api/exams/{me.exam()}/exports/{kind}").status_code in (404, 422)


def test_results_that_were_changed_or_are_gone_are_not_exported(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        path = f"/api/exams/{me.exam()}/exports/fhir"
        for damage in (
            lambda: next((results / "exam" / "keyframes").iterdir()).unlink(),
            lambda: (results / "exam" / "summary.json").write_text("{}"),
            lambda: (results / "exam" / "summary.json").unlink(),
        ):
            damage()
            answer = me.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
            assert str(tmp_path) not in answer.text, "no place on the server"


def unpacked(me: Guest, exam: str, kind: str, version: int) -> dict[str, bytes]:
    """Files of a signed version."""
    answer = me.get(f"/api/exams/{exam}/exports/{kind}", params={"version": version})
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def findings_of(files: dict[str, bytes]) -> list[str]:
    """What the bundle says was found."""
    entries: list[dict[str, Any]] = [one["resource"] for one in json.loads(files["fhir/bundle-r4.json"])["entry"]]
    return [one["valueCodeableConcept"]["text"] for one in entries if one["resourceType"] == "Observation"]


def test_what_was_signed_is_exported_version_by_version(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    assert me.get(f"/api/exams/{exam}/exports/pdf", params={"version": 1}).status_code == 404, "not signed yet"
    steps = [
        {"kind": "confirm", "finding": "1.1"},
        {"kind": "reject", "finding": "1.2"},
        {"kind": "relabel", "finding": "2.1", "label": "ulcer"},
        {"kind": "confirm", "finding": "2.1"},
        {"kind": "images", "finding": "2.1", "frames": [59, 60]},
        {"kind": "sign"},
        {"kind": "addendum", "reason": "one more"},
        {"kind": "add", "frame": 50, "label": "diverticulum"},
    ]
    for version, step in enumerate(steps):
        assert me.act(exam, version, **step).status_code == 200
    first = {kind: unpacked(me, exam, kind, 1) for kind in ("dicom", "fhir")}
    assert findings_of(first["fhir"]) == ["polyp", "ulcer"], "what was rejected or added later is not in it"
    assert sorted(first["dicom"]) == ["dicom/document.dcm", *(f"dicom/images/{i:02d}.dcm" for i in (1, 2, 3))]
    pdf = me.get(f"/api/exams/{exam}/report.pdf", params={"version": 1}).content
    assert me.get(f"/api/exams/{exam}/exports/pdf", params={"version": 1}).content == pdf
    document = pydicom.dcmread(io.BytesIO(first["dicom"]["dicom/document.dcm"]))
    assert document.EncapsulatedDocument[: len(pdf)] == pdf, "byte for byte"
    assert me.act(exam, len(steps), kind="sign").status_code == 200
    assert {kind: unpacked(me, exam, kind, 1) for kind in ("dicom", "fhir")} == first, "the addendum changes nothing"
    assert findings_of(unpacked(me, exam, "fhir", 2)) == ["polyp", "diverticulum", "ulcer"]


def test_what_was_signed_is_exported_without_results_and_after_the_video_has_gone(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    for path in sorted((results / "exam").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam()
        me.act(exam, 0, kind="add", frame=7, label="polyp")
        assert me.act(exam, 1, kind="sign").status_code == 200
        assert "dicom/images/01.dcm" in unpacked(me, exam, "dicom", 1)
    (results / "exam.mp4").unlink()
    write_result(results, "other", 110)
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        assert list(unpacked(me, exam, "dicom", 1)) == ["dicom/document.dcm"], "its images are in the PDF"
        assert findings_of(unpacked(me, exam, "fhir", 1)) == ["polyp"]
