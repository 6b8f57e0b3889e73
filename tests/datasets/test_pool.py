"""The pool of labelled frames, byte-identical files, and the plain frame table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dice_ce.datasets.duplicates import Duplicate, duplicates_across, identical_files
from dice_ce.datasets.frametable import read_frame_table, tables_facts, tables_text, write_frames
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.tables import Box, Event, LabelledFrame, Tables, Timeline
from dice_ce.errors import InputError
from tests.datasets.test_importers import OTHER, VIDEO, by_name, remark, touch, write_capsule_vision, write_pool


def test_an_image_in_two_class_folders_is_one_frame_with_both_labels(tmp_path: Path) -> None:
    tables = load_pool(write_capsule_vision(tmp_path))
    frame = by_name(tables)["image00612.jpg"]
    assert (frame.words, frame.labels) == (("Erosion", "Erythema"), ("erosion", "mucosal erythema"))
    assert frame.split == "training"
    assert "2 images stand in several class folders" in remark(tables, "several class folders")


def test_an_image_on_both_sides_counts_as_training(tmp_path: Path) -> None:
    frame = by_name(load_pool(write_capsule_vision(tmp_path)))["image00613.jpg"]
    assert frame.split == "training"
    assert frame.labels == ("erosion", "polyp")


def test_of_byte_identical_images_one_is_kept_and_their_cases_are_joined(tmp_path: Path) -> None:
    folder = write_capsule_vision(tmp_path)
    touch(folder / "training" / "Polyp" / "SEE-AI" / "image13400.jpg", "another of the same block")
    tables = load_pool(folder)
    frames = by_name(tables)
    assert "image00240.jpg" in frames
    assert "image13495.jpg" not in frames
    assert frames["image00240.jpg"].case == frames["image13400.jpg"].case == "SEE-AI-00"
    assert "1 images are byte-identical to one of another name" in remark(tables, "byte-identical")
    assert remark(tables, "one case") == "SEE-AI-26 shares images with SEE-AI-00, so that they are one case"


def test_cases_that_share_images_in_a_chain_are_one(tmp_path: Path) -> None:
    names = {"image02200": "a", "image01200": "a", "image02201": "b", "image00200": "b", "image03300": "c"}
    for name, content in names.items():
        touch(tmp_path / "training" / "Polyp" / "SEE-AI" / f"{name}.jpg", content)
    assert {frame.case for frame in load_pool(tmp_path).frames} == {"SEE-AI-00", "SEE-AI-06"}


def test_a_copy_in_a_case_is_kept_rather_than_one_between_cases(tmp_path: Path) -> None:
    for name in ("image00501", "image00600"):
        touch(tmp_path / "training" / "Polyp" / "SEE-AI" / f"{name}.jpg", "same")
    (frame,) = load_pool(tmp_path).frames
    assert (frame.path.name, frame.case) == ("image00600.jpg", "SEE-AI-01")


def test_cases_and_numbers_follow_the_habit_of_the_source(tmp_path: Path) -> None:
    frames = by_name(load_pool(write_capsule_vision(tmp_path)))
    assert (frames[f"{OTHER}_7.jpg"].case, frames[f"{OTHER}_7.jpg"].number) == (OTHER, 7)
    assert (frames["worm1_1306.jpg"].case, frames["worm1_1306.jpg"].number) == ("AIIMS-worm1", 1306)
    assert (frames["image00612.jpg"].case, frames["image00612.jpg"].number) == ("SEE-AI-01", None)
    assert (frames["image01010.jpg"].case, frames["polyp-P0-1.jpg"].case) == ("", "")


def test_annotations_beside_the_tree_add_labels_and_boxes(tmp_path: Path) -> None:
    tables = load_pool(write_pool(tmp_path))
    frames = by_name(tables)
    assert frames[f"{OTHER}_7.jpg"].labels == ("erosion", "angioectasia")
    assert frames[f"{OTHER}_7.jpg"].boxes == (Box(0.5, 0.5, 1.0, 1.0),)
    distractor = frames["image01010.jpg"]
    assert (distractor.words, distractor.labels) == (
        ("Foreign Body", "lymph follicle"),
        ("lymphoid follicular hyperplasia",),
    )
    assert "all_annotation.csv gives 1 frames labels" in remark(tables, "all_annotation.csv gives")
    assert "metadata.csv gives 1 frames labels" in remark(tables, "metadata.csv gives")


def test_foreign_bodies_are_distractors(tmp_path: Path) -> None:
    frame = by_name(load_pool(write_capsule_vision(tmp_path)))["image01010.jpg"]
    assert (frame.labels, frame.words) == ((), ("Foreign Body",))


@pytest.mark.parametrize(("word", "labels"), [("Ulcer", ("ulcer",)), ("Foreign Body", ()), ("Pylorus", ("normal",))])
def test_a_normal_frame_with_a_finding_in_the_annotations_is_not_normal(
    word: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    folder = write_pool(tmp_path)
    table = folder / "kvasir-capsule" / "metadata.csv"
    text = table.read_text().replace("10;Luminal;Normal clean mucosa", f"10;Luminal;{word}")
    table.write_text(text)
    tables = load_pool(folder)
    assert by_name(tables)[f"{VIDEO}_10.jpg"].labels == labels
    said = [text for text in tables.remarks if "1 frames lie in a folder of normal ones, but metadata.csv" in text]
    assert bool(said) == (labels != ("normal",))


def test_the_tree_wins_over_an_index_beside_it(tmp_path: Path) -> None:
    folder = write_pool(tmp_path)
    touch(folder / "frames.csv", "path,label\nnowhere.jpg,ulcer\n")
    assert len(load_pool(folder).frames) > 5


def test_the_real_pool(real_data: Path) -> None:
    tables = load_pool(real_data)
    labels = Counter(label for frame in tables.frames for label in frame.labels)
    assert len(tables.frames) == 25_040
    assert labels["lymphoid follicular hyperplasia"] == 146
    assert labels["eminence lesion"] == 61
    assert labels["normal"] == 15_071
    assert sum(len(frame.boxes) for frame in tables.frames) == 3_700
    assert Counter(frame.words for frame in tables.frames if not frame.labels) == {("Foreign Body",): 986}
    assert len({frame.case for frame in tables.frames if frame.case}) == 57
    assert "SEE-AI-26 shares images with SEE-AI-00" in remark(tables, "one case")
    assert not [text for text in tables.remarks if "normal" in text]
    several = Counter(len(frame.labels) for frame in tables.frames)
    assert several[2] > 600
    assert all(frame.path.is_file() for frame in tables.frames[::500])


# Byte-identical files.


def test_identical_files_are_found_by_content_not_by_size_or_name(tmp_path: Path) -> None:
    a, b = touch(tmp_path / "a.jpg", "same"), touch(tmp_path / "x" / "b.jpg", "same")
    other, longer = touch(tmp_path / "c.jpg", "emas"), touch(tmp_path / "d.jpg", "same again")
    assert identical_files([a, b, other, longer]) == [(a, b)]
    assert identical_files([a, other]) == []


def test_duplicates_across_groups_name_all_places(tmp_path: Path) -> None:
    one, two, three = (touch(tmp_path / f"{name}.jpg", "same") for name in "abc")
    alone = touch(tmp_path / "d.jpg", "lonely")
    found = duplicates_across({"train": [one, alone], "test": [two, three], "validation": []})
    assert found == [Duplicate((("test", two), ("test", three), ("train", one)))]
    assert found[0].groups == ("test", "train")


def test_duplicates_inside_one_group_are_no_leak(tmp_path: Path) -> None:
    one, two = (touch(tmp_path / f"{name}.jpg", "same") for name in "ab")
    assert duplicates_across({"train": [one, two]}) == []


def test_one_file_listed_in_two_groups_is_a_duplicate_too(tmp_path: Path) -> None:
    one, copy = touch(tmp_path / "a.jpg", "same"), touch(tmp_path / "b.jpg", "same")
    assert duplicates_across({"train": [one], "test": [one]}) == [Duplicate((("test", one), ("train", one)))]
    assert duplicates_across({"train": [one, copy], "test": [one]}) == [
        Duplicate((("test", one), ("train", one), ("train", copy)))
    ]


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jpg: cannot be read \(No such file or directory\); check"):
        identical_files([tmp_path / "gone.jpg"])


# The frame table.


def test_a_frame_table_needs_only_path_and_label(tmp_path: Path) -> None:
    touch(tmp_path / "images" / "a.jpg")
    touch(tmp_path / "frames.csv", "Path;Label\nimages\\a.jpg;Ulcer|bleeding\n")
    (frame,) = load_pool(tmp_path).frames
    assert frame.path == tmp_path / "images" / "a.jpg"
    assert (frame.labels, frame.words) == (("ulcer", "hematocele"), ("Ulcer", "bleeding"))
    assert (frame.source, frame.case, frame.number, frame.split) == ("", "", None, "")


def test_a_frame_table_survives_being_written_and_read(tmp_path: Path) -> None:
    elsewhere, beside = touch(tmp_path / "far" / "a.jpg"), touch(tmp_path / "out" / "p" / "b.jpg")
    frames = (
        LabelledFrame(elsewhere, "Ours", "patient-7", 12, ("ulcer", "polyp"), ("ulcer", "polyp"), split="train"),
        LabelledFrame(beside, "", "", None, (), ("foreign body",)),
    )
    absent = LabelledFrame(tmp_path / "gone.jpg", "", "", None, ("ulcer",), ("ulcer",))
    table = tmp_path / "out" / "frames.csv"
    assert write_frames(table, [*frames, absent]) == 2
    assert read_frame_table(table).frames == frames
    assert "\np/b.jpg," in table.read_text()


def test_a_frame_table_without_any_image_is_not_written(tmp_path: Path) -> None:
    absent = LabelledFrame(tmp_path / "gone.jpg", "", "", None, ("ulcer",), ("ulcer",))
    with pytest.raises(InputError, match=r"frames\.csv: not written, because none of the images is on this disk"):
        write_frames(tmp_path / "frames.csv", [absent])
    assert not (tmp_path / "frames.csv").exists()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("b.jpg,ulcer,", "line 2: there is no image 'b.jpg'; give its path relative to the table"),
        (",ulcer,", "line 2: there is no image ''"),
        ("a.jpg,ulcr,", r"line 2: unknown class 'ulcr'; did you mean 'ulcer'\?"),
        ("a.jpg,|,", "line 2: no label; write one of VideoCAP-12"),
        ("a.jpg,ulcer,x", "line 2: frame_number 'x' is not a whole number"),
        ("", "no frame is listed; add a row per image"),
    ],
)
def test_wrong_rows_of_a_frame_table_are_named(row: str, message: str, tmp_path: Path) -> None:
    touch(tmp_path / "a.jpg")
    table = touch(tmp_path / "frames.csv", f"path,label,frame_number\n{row}\n")
    with pytest.raises(InputError, match=message) as error:
        read_frame_table(table)
    assert str(table) in str(error.value)


def test_what_was_read_is_summed_up_for_people_and_programs(tmp_path: Path) -> None:
    frames = (
        LabelledFrame(touch(tmp_path / "a.jpg"), "KVASIR", "v", 1, ("ulcer",), ("Ulcer",), (Box(0, 0, 1, 1),)),
        LabelledFrame(tmp_path / "gone.jpg", "KVASIR", "v", 2, (), ("Pylorus",)),
    )
    tables = Tables(frames, (Timeline("7", (Event(0, 4, ("stomach", "blood")),)),), ("something was odd",))
    facts = tables_facts(tables)
    assert (facts["frames"], facts["images_here"], facts["cases"], facts["boxes"]) == (2, 1, 1, 1)
    assert facts["labels"] == {"ulcer": 1}
    assert facts["outside"] == {"Pylorus": 1}
    assert (facts["timelines"], facts["event_words"]) == (1, {"stomach": 1, "blood": 1})
    text = tables_text(tables)
    assert "2 frames of 1 cases, 1 boxes; 1 images are here" in text
    assert "(Pylorus)" in text
    assert "1 timelines, 1 events" in text
    assert text.endswith("remark   something was odd")
