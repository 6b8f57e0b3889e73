"""KID, Rhode Island and AI-KODA: what each layout says, by hand."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest

from dice_ce.datasets.ai_koda import import_ai_koda
from dice_ce.datasets.kid import import_kid
from dice_ce.datasets.rhode_island import import_rhode_island
from dice_ce.datasets.tables import Box, Event
from dice_ce.errors import InputError
from tests.datasets.test_importers import KODA, by_name, remark, touch, write_ai_koda, write_kid, write_rhode_island


def test_kid_classes_come_from_the_file_name_or_else_from_its_folder(tmp_path: Path) -> None:
    frames = by_name(import_kid(write_kid(tmp_path)))
    assert {name: (frame.words, frame.labels) for name, frame in frames.items()} == {
        "vascular1.png": (("vascular",), ()),
        "vascular2.png": (("vascular",), ()),
        "inflammatory7.png": (("inflammatory",), ()),
        "polypoid4~0.png": (("polypoid",), ("polyp",)),
        "ampulla 1.png": (("ampulla of vater",), ()),
        "normalsb12.png": (("normal", "small bowel"), ("normal",)),
        "0001.png": (("normal", "esophagus"), ("normal",)),
        "angioectasia-P0-1.png": (("angioectasia",), ("angioectasia",)),
        "bleeding3.png": (("bleeding",), ("hematocele",)),
        "c1.png": (("chylous cyst",), ()),
    }
    assert {frame.case for frame in frames.values()} == {""}


def test_kid_masks_are_boxes_and_no_frames(tmp_path: Path) -> None:
    tables = import_kid(write_kid(tmp_path))
    boxes = {frame.path.name: frame.boxes for frame in tables.frames if frame.boxes}
    assert boxes == {"vascular1.png": (Box(0, 0.25, 0.5, 0.5),), "inflammatory7.png": (Box(0.25, 35 / 36, 1, 1),)}
    assert "1 masks have no image (first: vascular99m.png)" in remark(tables, "have no image")
    assert "3 images are only called inflammatory or vascular" in remark(tables, "only called")


def test_kid_needs_images_and_not_only_masks(tmp_path: Path) -> None:
    touch(tmp_path / "vascular" / "vascular1m.png")
    with pytest.raises(InputError, match=r"no images such as vascular/vascular1\.png in it; unpack KID here"):
        import_kid(tmp_path)


def test_rhode_island_studies_are_timelines_of_organs(tmp_path: Path) -> None:
    tables = import_rhode_island(write_rhode_island(tmp_path))
    first, last = tables.timelines
    assert (first.exam_id, last.exam_id) == ("s001", "s424")
    assert first.events == (
        Event(26, 28, ("esophagus",)),
        Event(29, 29, ("stomach",)),
        Event(31, 31, ("stomach",)),
        Event(32, 32, ("stomach", "small bowel")),
        Event(33, 33, ("small bowel",)),
        Event(34, 34, ("colon",)),
    )
    assert last.events == (Event(7, 7, ("small bowel",)),)
    assert not tables.frames
    assert "1 stretches of images stand in two organs" in remark(tables, "two organs")


def test_rhode_island_studies_without_images_are_said_and_if_all_are_it_is_refused(tmp_path: Path) -> None:
    (write_rhode_island(tmp_path / "data") / "s002").mkdir()
    assert "1 studies have no images (first: s002)" in remark(import_rhode_island(tmp_path / "data"), "no images")
    (tmp_path / "zipped" / "s001").mkdir(parents=True)
    with pytest.raises(InputError, match="s001: no images in it; expected s001/1_esophagus/image-00001"):
        import_rhode_island(tmp_path / "zipped")


def test_ai_koda_most_ratings_decide_and_a_tie_goes_to_the_worse_view(tmp_path: Path) -> None:
    frames = by_name(import_ai_koda(write_ai_koda(tmp_path)))
    assert {name: frame.words for name, frame in frames.items()} == {
        "cleanliness_1.jpg": ("visualized mucosa 50%-75%", "obstructed view <5%"),
        "cleanliness_2.jpg": ("visualized mucosa 25%-49%", "obstructed view >50%"),
    }
    assert all(frame.labels == () for frame in frames.values())
    assert frames["cleanliness_1.jpg"].path == tmp_path / "test_images" / "cleanliness_1.jpg"


def test_ai_koda_readers_are_counted_and_never_named(tmp_path: Path) -> None:
    tables = import_ai_koda(write_ai_koda(tmp_path))
    assert "6 ratings of 2 frames by 3 readers" in remark(tables, "ratings of")
    assert "1 ratings leave a question unanswered" in remark(tables, "unanswered")
    assert "1 of 2 images are not here" in remark(tables, "not here")
    assert "@" not in repr(tables)


def test_ai_koda_tables_without_any_answer_or_column_are_refused(tmp_path: Path) -> None:
    header, *_, unanswered = KODA.strip().split("\n")
    touch(tmp_path / "ratings.csv", f"{header}\n{unanswered}\n")
    with pytest.raises(InputError, match=r"ratings\.csv: no frame is rated; download"):
        import_ai_koda(tmp_path)
    openpyxl.Workbook().save(tmp_path / "notes.xlsx")
    with pytest.raises(InputError, match=r"notes\.xlsx, line 1: no column 'imagePath' on the first sheet; expected"):
        import_ai_koda(tmp_path)
