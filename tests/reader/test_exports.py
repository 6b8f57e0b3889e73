"""What other systems take, made in the reader as `dice-ce export` makes it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from dice_ce.outputs import EXPORTS, OUTPUTS, export_results
from dice_ce.reader import exports
from tests.reader.conftest import Reader
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
