"""The comparison of datasets, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dice_ce.cli import main
from dice_ce.datasets.comparison import PUBLISHED, DatasetFacts, comparison_table, gather_facts
from dice_ce.errors import InputError, UsageError
from dice_ce.exam.codec import write_image
from tests.datasets.test_importers import (
    write_galar_events,
    write_kid,
    write_kvasir,
    write_rhode_island,
    write_see_ai,
)


def test_exams_are_counted_with_their_frames_patients_findings_and_clock(dataset: Path) -> None:
    (facts,) = gather_facts([str(dataset)])
    # Four exams of eighty frames at ten seconds each; six findings, of ulcer, polyp, hematocele and erosion.
    assert facts.name == "data"
    assert (facts.exams, facts.patients, facts.frames, facts.findings, facts.labels) == (4, 4, 320, 6, 4)
    assert (facts.is_video, facts.has_lesions, facts.has_time) == (True, True, True)
    assert len(facts.sizes) == 1


def test_two_exams_of_a_patient_are_one_patient_and_playback_is_no_time(dataset: Path) -> None:
    rows = (dataset / "exams.csv").read_text().replace("b,pb,", "b,pa,").replace(",b.mp4,1/10", ",b.mp4,")
    (dataset / "exams.csv").write_text(rows)
    (facts,) = gather_facts([str(dataset)])
    assert (facts.exams, facts.patients, facts.has_time) == (4, 3, False)


def test_public_datasets_are_counted_as_they_are_read(tmp_path: Path) -> None:
    kid = write_kid(tmp_path / "kid")
    for number, name in enumerate(("vascular/vascular1.png", "polypoid/polypoid4~0.png")):
        write_image(kid / name, np.zeros((36 + number, 48, 3), np.uint8))
    specs = {
        "kid": kid,
        "rhode-island": write_rhode_island(tmp_path / "rhode"),
        "galar": write_galar_events(tmp_path / "galar"),
        "kvasir-capsule": write_kvasir(tmp_path / "kvasir"),
        "see-ai": write_see_ai(tmp_path / "see-ai"),
    }
    found = {one.name: one for one in gather_facts([f"{name}={folder}" for name, folder in specs.items()])}
    # Ten images without a patient; polyp, normal, angioectasia and hematocele.
    assert (found["kid"].exams, found["kid"].frames, found["kid"].labels) == (None, 10, 4)
    assert found["kid"].sizes == ((48, 36), (48, 37))
    # 3 + 1 + 1 + 1 + 1 + 1 numbers of one study, and one of another; organs are no labels.
    rhode = found["rhode-island"]
    assert (rhode.exams, rhode.frames, rhode.labels, rhode.is_video, rhode.has_lesions) == (2, 9, 0, True, False)
    assert found["galar"].is_video
    assert found["galar"].has_lesions
    # Two videos; six images: five rows of the table and one that only its folder names.
    kvasir = found["kvasir-capsule"]
    assert (kvasir.exams, kvasir.frames, kvasir.is_video) == (2, 6, True)
    # Its cases are blocks of file names, and no exams.
    assert (found["see-ai"].exams, found["see-ai"].is_video) == (None, False)
    assert all(one.findings is None and not one.has_time for one in found.values())


def test_the_table_has_a_row_for_each_and_marks_what_is_only_published() -> None:
    facts = DatasetFacts("ours", 4, 3, 1320, ((336, 336), (512, 512)), 5, True, 6, True, True)
    table = comparison_table([facts], PUBLISHED)
    assert [cell.text for cell in table.rows[0]] == [
        *("ours", "yes", "yes", "4", "3", "336×336 – 512×512", "1,320", "5 of 12", "6", "yes")
    ]
    assert [cell.text for cell in table.rows[-1]] == [
        *("VideoCAP (paper)", "yes", "yes", "240", "–", "576×576", "7,245,249", "12 of 12", "yes", "yes")
    ]
    assert len(table.rows) == 1 + 7


def test_what_is_no_dataset_is_refused_before_any_is_read(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no dataset of exams \(exams\.csv\); for a public dataset give NAME="):
        gather_facts([str(dataset), str(tmp_path / "empty")])
    with pytest.raises(UsageError, match="there is no importer 'gallar'; choose one of kvasir-capsule"):
        gather_facts(["gallar=/somewhere"])


def test_the_command_prints_and_writes_the_table(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ending, start in (
        (".md", "| Dataset | Whole videos |"),
        (".csv", "Dataset,Whole videos"),
        (".tex", "\\begin{tab"),
    ):
        out = tmp_path / f"table{ending}"
        assert main(["data", "compare", str(dataset), "--published", "--out", str(out)]) == 0
        assert out.read_text().startswith(start)
        assert "7,245,249" in capsys.readouterr().out
    assert main(["data", "compare", str(dataset), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["found"][0]["frames"] == 320
    assert facts["published"] == []
    assert main(["data", "compare", str(dataset), "--out", str(tmp_path / "table.xlsx")]) == 2
    assert "tables are written as .md, .csv, .tex" in capsys.readouterr().err
