"""Importers of public datasets: one conformance suite over small copies of the real layouts with all their quirks, and
the documented numbers on the real files where they are on this machine.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from dice_ce.cli import main
from dice_ce.datasets import IMPORTERS, import_dataset
from dice_ce.datasets.capsule_vision import import_capsule_vision, read_sheet
from dice_ce.datasets.galar import ORGANS, WORDS, import_galar, organ_of
from dice_ce.datasets.kvasir import import_kvasir
from dice_ce.datasets.see_ai import import_see_ai, read_counts, see_ai_case
from dice_ce.datasets.tables import Box, Event, LabelledFrame, Tables, Timeline
from dice_ce.datasets.timelines import disjoint, runs
from dice_ce.datasets.words import DISTRACTORS, HARMLESS, label_of, labels_of, unique
from dice_ce.errors import InputError, MissingExtraError, UsageError
from dice_ce.exam.codec import write_image
from dice_ce.extras import install_command
from dice_ce.taxonomy import VIDEOCAP_12

VIDEO, OTHER = "0728084c8da942d9", "64440803f87b4843"


def touch(path: Path, content: str | None = None) -> Path:
    """Write a stand-in for an image; importers never decode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((content or str(path)).encode())
    return path


def write_kvasir(folder: Path) -> Path:
    """Two videos: rows of 12 and 13 fields, CRLF, a file in three rows, a box beyond the edge, a leaking split."""
    rows = [
        "filename;video_id;frame_number;finding_category;finding_class;x1;y1;x2;y2;x3;y3;x4;y4",
        f"{VIDEO}_10.jpg;{VIDEO};10;Luminal;Normal clean mucosa;;;;;;;",
        f"{VIDEO}_11.jpg;{VIDEO};11;Luminal;Erosion;138;3;311;3;311;73;138;73",
        f"{VIDEO}_11.jpg;{VIDEO};11;Anatomy;Pylorus;;;;;;;",
        f"{VIDEO}_11.jpg;{VIDEO};11;Luminal;Erosion;0;0;42;0;42;42;0;42",
        f"{OTHER}_7.jpg;{OTHER};7;Luminal;Angiectasia;168;168;349;168;349;336;168;336",
        f"{OTHER}_8.jpg;{OTHER};8;Luminal;Reduced Mucosal View;;;;;;;",
        f"{OTHER}_9.jpg;{OTHER};9;Luminal;Blood - hematin;;;;;;;",
    ]
    touch(folder / "metadata.csv", "\r\n".join(rows) + "\r\n")
    touch(folder / "labelled_images" / "Erosion" / f"{VIDEO}_11.jpg")
    touch(folder / "labelled_images" / "Pylorus" / f"{VIDEO}_11.jpg")
    touch(folder / "labelled_images" / "blood_fresh" / f"{OTHER}_99.jpg")
    touch(folder / "labelled_images" / ".DS_Store")
    touch(folder / "split_0.csv", f"filename,label\n{VIDEO}_11.jpg,Erosion\n{OTHER}_7.jpg,Angiectasia\n")
    touch(
        folder / "split_1.csv",
        f"filename,label\n{VIDEO}_10.jpg,Normal\n" + 2 * f"{OTHER}_8.jpg,Reduced Mucosal View\n",
    )
    square = [{"x": 1.0, "y": 1.0}, {"x": 9.0, "y": 1.0}, {"x": 9.0, "y": 9.0}, {"x": 1.0, "y": 9.0}]
    videos = {
        VIDEO: {
            "segments": {
                "1": {
                    "metadata": {"pillcam_subtype": None, "segment_type": "Normal clean mucosa"},
                    "seen": [[0, 9], [20, 29]],
                },
                "2": {"metadata": {"pillcam_subtype": "Pylorus", "segment_type": "Anatomy"}, "seen": [[8, 12]]},
            },
            "findings": {
                "1": {
                    "metadata": {"pillcam_subtype": "Erosion"},
                    "frames": {str(number): {"shape": square} for number in (12, 10, 11, 25)},
                },
                "2": {"metadata": {"pillcam_subtype": None}, "frames": {"3": {"shape": square}}},
            },
        },
        OTHER: {"segments": {}, "findings": {}},
    }
    touch(folder / "metadata.json", json.dumps(videos))
    touch(folder / "labelled_videos" / f"{VIDEO}.mp4")
    return folder


CLASSES = (
    "Angioectasia",
    "Bleeding",
    "Erosion",
    "Erythema",
    "Foreign Body",
    "Lymphangiectasia",
    "Normal",
    "Polyp",
    "Ulcer",
    "Worms",
)


def write_sheet(path: Path, images: Sequence[str]) -> Path:
    """Write a spreadsheet like the challenge's: backslashes, ones and zeros, and a second sheet with totals."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["image_path", "Dataset", *CLASSES])
    for image in images:
        _, name, source, _ = image.split("/")
        sheet.append([image.replace("/", "\\"), source, *(int(name == each) for each in CLASSES)])
    book.create_sheet("Sheet2").append(["Total for KID", "KID", *([0] * len(CLASSES))])
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
    return path


TREE = {
    f"training/Normal/KVASIR/{VIDEO}_10.jpg": "a",
    f"training/Erosion/KVASIR/{OTHER}_7.jpg": "b",
    f"validation/Normal/KVASIR/{OTHER}_8.jpg": "c",
    "training/Erosion/SEE-AI/image00612.jpg": "d",
    "training/Erythema/SEE-AI/image00612.jpg": "d",
    "validation/Polyp/SEE-AI/image00613.jpg": "e",
    "training/Erosion/SEE-AI/image00613.jpg": "e",
    "training/Polyp/SEE-AI/image13495.jpg": "f",
    "validation/Polyp/SEE-AI/image00240.jpg": "f",
    "training/Foreign Body/SEE-AI/image01010.jpg": "g",
    "training/Worms/AIIMS/worm1_1306.jpg": "h",
    "validation/Worms/AIIMS/worm1_1310.jpg": "i",
    "training/Polyp/KID/polyp-P0-1.jpg": "j",
}


def write_capsule_vision(folder: Path) -> Path:
    """Images in two class folders, byte-identical ones of another name and side, spreadsheets that name more."""
    for name, content in TREE.items():
        touch(folder / name, content)
    touch(folder / "training" / "Normal" / "KVASIR" / "Thumbs.db")
    for split, more in (("training", ["training/Ulcer/AIIMS/ulcer1_1.jpg"]), ("validation", [])):
        write_sheet(folder / f"{split}_data.xlsx", [name for name in TREE if name.startswith(split)] + more)
    return folder


COUNTS = """\
annotation_class_name,image_number,angiodysplasia,erosion,stenosis,lymphangiectasia,lymph follicle,SMT,polyp-like,\
bleeding,diverticulum,erythema,foreign body,vein,annotation_number
annotation_class_number,,0,1,2,3,4,5,6,7,8,9,10,11,
,612,0,2,0,0,0,0,0,0,0,1,0,0,3
,613,0,1,0,0,0,0,1,0,0,0,0,0,2
,614,0,0,0,0,0,0,0,0,0,0,0,0,0
,1010,0,0,0,0,4,0,0,0,0,0,1,0,5
,1011,0,0,0,0,0,0,0,0,0,0,0,2,2
annotation_sum,,0,4,2,3,8,5,7,7,8,10,11,13,
"""


def write_see_ai(folder: Path) -> Path:
    """The table with its byte order mark, ids in line 2 and wrong sums, and images and boxes as Kaggle packs them."""
    touch(folder / "all_annotation.csv", "\ufeff" + COUNTS.replace("\n", "\r\n"))
    images = folder / "SEE_AI_project_all_images" / "SEE_AI_project_all_images"
    boxes = folder / "SEE_AI_project_all_txt" / "SEE_AI_project_all_txt"
    for number in (612, 614, 1010):
        touch(images / f"image{number:05d}.jpg")
    touch(boxes / "image00612.txt", "1 0.5 0.5 0.25 0.5\n1 0.9 0.5 0.4 0.2\n9 0.5 0.5 0.9 0.9\n")
    touch(boxes / "image00614.txt", "\n")
    touch(boxes / "image01010.txt", "4 0.1 0.1 0.1 0.1\n")
    return folder


GALAR_COLUMNS = (
    *("index", "z-line", "pylorus", "ampulla of vater", "ileocecal valve", "section", "mouth", "esophagus", "stomach"),
    *("small intestine", "colon", "ulcer", "polyp", "active bleeding", "blood", "erythema", "erosion", "angiectasia"),
    *("IBD", "foreign body", "esophagitis", "varices", "hematin", "celiac", "cancer", "lymphangioectasis", "frame"),
)

GALAR = {
    "2": [
        Event(20, 24, ("mouth",)),
        Event(25, 25, ("esophagus", "z-line")),
        Event(26, 40, ("stomach",)),
        Event(50, 59, ("small intestine", "blood", "erosion")),
        Event(60, 60, ("small intestine", "foreign body", "ibd")),
        Event(61, 90, ("colon", "hematin")),
    ],
    "10": [Event(0, 3, ("stomach",)), Event(5, 9, ("stomach",))],
}
"""What both layouts say, in the form it has after import."""


def write_galar_labels(folder: Path) -> Path:
    """A table per video; one has the columns of the six videos whose view was judged."""
    for video, events in GALAR.items():
        header = ["bubbles", "dirt", "no view", "reduced view", "good view", *GALAR_COLUMNS]
        if video == "2":
            header = list(GALAR_COLUMNS)
        lines = [",".join(header)]
        labelled = {index: event.words for event in events for index in range(event.first, event.last + 1)}
        for index in range(min(labelled), max(labelled) + 3):
            if index in (4, 44):  # frames that were not published
                continue
            words = labelled.get(index, ())
            cells = {name: str(int(name.casefold() in words)) for name in header}
            cells |= {"index": str(index), "frame": str(5 * index), "section": words[0] if words else ""}
            cells |= {"good view": str(index % 2)} if "good view" in header else {}
            lines.append(",".join(cells[name] for name in header))
        touch(folder / "Labels" / f"{video}.csv", "\n".join(lines) + "\n")
    touch(folder / "metadata.csv", "File Name,Capsule System,Gender,Age\n2,PillCam SB3,f,50\n10,Olympus,m,60\n")
    return folder


def write_galar_events(folder: Path) -> Path:
    """One JSON: words in any order and case, an event without a label, two that overlap, one cut in two."""
    videos = []
    for video, events in GALAR.items():
        listed = [{"start": e.first, "end": e.last, "label": list(reversed(e.words))} for e in events]
        videos.append({"video_id": video, "events": listed})
    first, second = videos[0]["events"][3], videos[0]["events"][2]
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    first["label"] = ["Small Intestine"]
    second["end"] = 30
    events_of_2 = videos[0]["events"]
    assert isinstance(events_of_2, list)
    events_of_2 += [
        {"start": 50, "end": 59, "label": ["erosion", "blood"]},
        {"start": 31, "end": 40, "label": ["stomach"]},
        {"start": 41, "end": 44, "label": []},
    ]
    touch(folder / "events.json", json.dumps({"videos": videos}))
    return folder


def write_pool(folder: Path) -> Path:
    """The challenge's tree with the annotations of two of its sources beside it."""
    write_capsule_vision(folder / "capsule-vision-2024")
    write_see_ai(folder / "see-ai")
    write_kvasir(folder / "kvasir-capsule")
    return folder


def write_kid(folder: Path) -> Path:
    """Both datasets: a mask in a folder of its own, one beside its image, one that is empty, one without an image."""
    for name in (
        "vascular/vascular1.png",
        "vascular/vascular2.png",
        "inflammatory/inflammatory7.png",
        "polypoid/polypoid4~0.png",
        "ampulla-of-vater/ampulla 1.png",
        "normal-small-bowel/normalsb12.png",
        "normal-esophagus/0001.png",
        "dataset-1/Angioectasias/angioectasia-P0-1.png",
        "dataset-1/bleeding3.png",
        "dataset-1/Chylous-cysts/c1.png",
    ):
        touch(folder / name)
    write_mask(folder / "vascular-annotations" / "vascular1m.png", rows=(9, 18), columns=(0, 24))
    write_mask(folder / "vascular-annotations" / "vascular2m.png", rows=(0, 0), columns=(0, 0))
    write_mask(folder / "inflammatory" / "inflammatory7m.png", rows=(35, 36), columns=(12, 48))
    write_mask(folder / "vascular-annotations" / "vascular99m.png", rows=(0, 1), columns=(0, 1))
    return folder


def write_mask(path: Path, rows: tuple[int, int], columns: tuple[int, int]) -> None:
    """Write a mask of 48x36 pixels that is white in some rows and columns."""
    image = np.zeros((36, 48, 3), np.uint8)
    image[slice(*rows), slice(*columns)] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    write_image(path, image)


def write_rhode_island(folder: Path) -> Path:
    """Two studies, one still in the folder of its zip file; a gap in the numbers, and a number in two organs."""
    organs = {"1_esophagus": (26, 27, 28), "2_stomach": (29, 31, 32), "3_small_bowel": (32, 33), "4_colon": (34,)}
    for organ, numbers in organs.items():
        for number in numbers:
            touch(folder / "s001" / organ / f"image-{number:05d}.png")
    touch(folder / "s001" / "1_esophagus" / ".DS_Store")
    touch(folder / "Study 401-424" / "s424" / "3_small_bowel" / "image-00007.png")
    touch(folder / "readme.txt")
    return folder


KODA = """\
imagePath,>75%,50%-75%,25%-49%,<25%,<5%,5%-25%,26%-50%,>50%,Date,User
img/cleanliness_1.jpg,1,0,0,0,1,0,0,0,2023-01-01,a@x.org
img/cleanliness_1.jpg,0,1,0,0,1,0,0,0,2023-01-02,b@x.org
img\\cleanliness_2.jpg,0,0,0,1,0,0,0,1,2023-01-02,b@x.org
img/cleanliness_3.jpg,0,0,0,0,0,0,0,0,2023-01-02,b@x.org
"""


def write_ai_koda(folder: Path) -> Path:
    """A table of two readers who disagree, and one in a spreadsheet; one of the images is here."""
    touch(folder / "ratings.csv", KODA)
    touch(folder / "test_images" / "cleanliness_1.jpg")
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(KODA.split("\n")[0].split(","))
    sheet.append(["cleanliness_2.jpg", 0, 0, 1, 0, 0, 0, 0, 1, None, "c@x.org"])
    sheet.append(["cleanliness_2.jpg", 0, 0, 1, 0, 0, 0, None, 1, None, "c@x.org"])
    book.save(folder / "ratings of c.xlsx")
    return folder


LAYOUTS: dict[str, list[Callable[[Path], Path]]] = {
    "kvasir-capsule": [write_kvasir],
    "capsule-vision": [write_capsule_vision],
    "see-ai": [write_see_ai],
    "galar": [write_galar_labels, write_galar_events],
    "kid": [write_kid],
    "rhode-island": [write_rhode_island],
    "ai-koda": [write_ai_koda],
    "pool": [write_pool, write_capsule_vision],
}
CASES = [(name, write) for name, writers in LAYOUTS.items() for write in writers]

every_layout = pytest.mark.parametrize(
    ("name", "write"), CASES, ids=[f"{name}-{write.__name__}" for name, write in CASES]
)
every_importer = pytest.mark.parametrize("name", IMPORTERS)


# Conformance: what holds for every importer, and for the next one.


def test_every_importer_has_a_layout_to_be_tested_on() -> None:
    assert set(LAYOUTS) == set(IMPORTERS)


@every_importer
def test_help_says_what_an_importer_expects(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["data", "import", "--help"])
    shown = capsys.readouterr().out
    assert "".join(f"{name}: {IMPORTERS[name].expects}".split()) in "".join(shown.split())


@every_layout
def test_frames_and_events_keep_their_promises(name: str, write: Callable[[Path], Path], tmp_path: Path) -> None:
    tables = import_dataset(name, write(tmp_path / "data"))
    assert tables.frames or tables.timelines
    for frame in tables.frames:
        check_frame(frame, tmp_path / "data")
    assert len({frame.path for frame in tables.frames}) == len(tables.frames)
    for timeline in tables.timelines:
        check_timeline(timeline)
    assert len({timeline.exam_id for timeline in tables.timelines}) == len(tables.timelines)
    assert all("\n" not in remark and len(remark) > 20 for remark in tables.remarks)


def check_frame(frame: LabelledFrame, folder: Path) -> None:
    assert frame.path.is_relative_to(folder)
    assert frame.source in ("KVASIR", "SEE-AI", "AIIMS", "KID", "AI-KODA")
    assert frame.words
    assert frame.labels == tuple(label for label in VIDEOCAP_12 if label in frame.labels)
    assert frame.labels == ("normal",) or "normal" not in frame.labels
    assert frame.labels or all(label_of(word) in (None, "normal") for word in frame.words)
    for box in frame.boxes:
        assert 0 <= box.left < box.right <= 1
        assert 0 <= box.top < box.bottom <= 1


def check_timeline(timeline: Timeline) -> None:
    assert timeline.exam_id
    for event in timeline.events:
        assert 0 <= event.first <= event.last
        assert event.words
        assert len(set(event.words)) == len(event.words)
    for before, after in zip(timeline.events, timeline.events[1:], strict=False):
        assert before.last < after.first
        assert before.words != after.words or before.last + 1 < after.first


@every_layout
def test_a_second_import_gives_the_same(name: str, write: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    assert import_dataset(name, folder) == import_dataset(name, folder)


@every_importer
def test_a_missing_folder_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/nowhere: no such .*; give ") as error:
        import_dataset(name, tmp_path / "nowhere")
    assert "\n" not in str(error.value)


@every_importer
def test_an_empty_folder_is_refused_with_what_is_expected(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"; (unpack|give|expected) .*") as error:
        import_dataset(name, tmp_path)
    assert str(tmp_path) in str(error.value)


@every_importer
def test_a_file_in_the_place_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"notes\.txt"):
        import_dataset(name, touch(tmp_path / "notes.txt", "hello"))


def test_an_unknown_importer_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no importer 'kvasir-capsul'; did you mean 'kvasir-capsule'"):
        import_dataset("kvasir-capsul", tmp_path)
    with pytest.raises(UsageError, match=f"there is no importer 'xyz'; choose one of {', '.join(IMPORTERS)}"):
        import_dataset("xyz", tmp_path)


# Broken files: one line that names the file, the line and the remedy.

HEADER = "filename;video_id;frame_number;finding_category;finding_class;x1;y1;x2;y2;x3;y3;x4;y4"
EVENT = '{"videos":[{"video_id":"1","events":[%s]}]}'

BROKEN = [
    ("kvasir-capsule", "metadata.csv", "", "metadata.csv: the file is empty; download"),
    ("kvasir-capsule", "metadata.csv", HEADER, "metadata.csv: no image is listed; download"),
    ("kvasir-capsule", "metadata.csv", HEADER.replace(";", ","), "line 1: columns are separated by ','; save the file"),
    ("kvasir-capsule", "metadata.csv", "a;b\n1;2\n", "line 1: no column 'filename'; expected filename;video_id"),
    ("kvasir-capsule", "metadata.csv", HEADER + ";x1\n", "line 1: the column 'x1' stands there twice; remove"),
    ("kvasir-capsule", "metadata.csv", f"{HEADER}\nv_1.jpg;v;1;Luminal\n", "line 2: 4 fields, expected 13; download"),
    ("kvasir-capsule", "metadata.csv", f"{HEADER}\nv_1.jpg;v;2;L;Ulcer;;;;;;;\n", "line 2: 'v_1.jpg' is not frame 2"),
    (
        "kvasir-capsule",
        "metadata.csv",
        f"{HEADER}\nv_x.jpg;v;x;L;Ulcer;;;;;;;\n",
        "line 2: 'x' in column 'frame_number'",
    ),
    (
        "kvasir-capsule",
        "metadata.csv",
        f"{HEADER}\nv_1.jpg;v;1;L;Ulcr;;;;;;;\n",
        "line 2: unknown class 'Ulcr'; did you mean 'ulcer'?",
    ),
    (
        "kvasir-capsule",
        "metadata.csv",
        f"{HEADER}\nv_1.jpg;v;1;L;Ulcer;1;2;3;4;5;x;7;8\n",
        "line 2: the corners '1;2;3;4",
    ),
    (
        "kvasir-capsule",
        "split_0.csv",
        "filename,label\nv_1.jpg,Erosin\n",
        "line 2: unknown class 'Erosin'; did you mean",
    ),
    (
        "kvasir-capsule",
        "split_0.csv",
        "filename;label\n",
        "line 1: columns are separated by ';'; save the file with ','",
    ),
    ("kvasir-capsule", "split_1.csv", "filename,label\n", "split_1.csv: no image is listed"),
    ("kvasir-capsule", "metadata.json", "[]", "metadata.json: expected an object with an entry per video"),
    ("kvasir-capsule", "metadata.json", '{"v": 1}', "metadata.json, video 'v': expected its segments"),
    ("kvasir-capsule", "metadata.json", '{"v": {"segments": []}', "metadata.json, line 1: not JSON"),
    ("kvasir-capsule", "metadata.json", '{"v": {"segments": [1]}}', "video 'v': its segments are no object"),
    ("kvasir-capsule", "metadata.json", '{"v": {"segments": {"7": {}}}}', "video 'v': '7' of its segments cannot be"),
    (
        "kvasir-capsule",
        "metadata.json",
        '{"v": {"segments": {"7": {"metadata": {"pillcam_subtype": "Ulcer"}, "seen": [[9, 3]]}}}}',
        "video 'v': '7' of its segments cannot be",
    ),
    ("kvasir-capsule", "labelled_images/Ulcr/v_1.jpg", "x", "Ulcr: unknown class 'Ulcr'; did you mean 'ulcer'?"),
    (
        "kvasir-capsule",
        "labelled_images/Ulcer/scan.jpg",
        "x",
        "scan.jpg: expected a name like <video>_<frame number>.jpg",
    ),
    (
        "capsule-vision",
        "training/Ulcr/AIIMS/u_1.jpg",
        "x",
        "training/Ulcr: unknown class 'Ulcr'; did you mean 'ulcer'?",
    ),
    ("capsule-vision", "training_data.xlsx", "", "training_data.xlsx: not a readable .xlsx file; download it again"),
    ("capsule-vision", "training_data.xlsx", "image_path,Dataset", "training_data.xlsx: not a readable .xlsx file"),
    ("see-ai", "all_annotation.csv", "", "all_annotation.csv: the file is empty; download"),
    ("see-ai", "all_annotation.csv", COUNTS.replace(",", ";"), "line 1: columns are separated by ';'; save"),
    ("see-ai", "all_annotation.csv", COUNTS.split("\n")[0], "line 2: expected the class ids"),
    ("see-ai", "all_annotation.csv", "\n".join(COUNTS.split("\n")[:2]), "all_annotation.csv: no image is listed"),
    ("see-ai", "all_annotation.csv", COUNTS.replace("10,11,\n", "10,10,\n"), "line 2: class ids must be 0 to 11"),
    ("see-ai", "all_annotation.csv", COUNTS.replace(",613,0", ",613,x"), "line 4: 'x' in column 'angiodysplasia'"),
    ("see-ai", "all_annotation.csv", COUNTS.replace(",613,", ",612,"), "line 4: image 612 stands there twice"),
    (
        "see-ai",
        "all_annotation.csv",
        COUNTS.replace("polyp-like", "polp-like"),
        "line 1: unknown class 'polp-like'; did",
    ),
    (
        "see-ai",
        "image00001.txt",
        "12 0.5 0.5 0.1 0.1",
        r"image00001.txt, line 1: '12 0.5 .*' is not a class id below 12",
    ),
    ("see-ai", "image00001.txt", "1 0.5 0.5 0.1 0.1\n1 50 50 10 10", "image00001.txt, line 2: '1 50 50 10 10' is not"),
    ("see-ai", "image00001.txt", "1 a b c d", "image00001.txt, line 1: '1 a b c d' is not"),
    ("kid", "odds/thing1.png", "x", "thing1.png: neither its name nor its folder is a class of KID; KID's are ampulla"),
    ("kid", "odds/vasculr1.png", "x", "vasculr1.png: neither .* did you mean 'vascular'?"),
    ("kid", "vascular-annotations/vascular1m.png", "x", "vascular1m.png: not a readable image; download"),
    ("kid", "vascular-annotations/zz1m.png", "", "zz1m.png: not a readable image; download"),
    ("rhode-island", "s001/5_rectum/image-00001.png", "x", "5_rectum: not an organ of this dataset; expected 1_esoph"),
    ("rhode-island", "s001/4_colon/frame1.png", "x", "frame1.png: expected a name like image-00001.png; rename"),
    ("rhode-island", "Study 1/s001/4_colon/image-00001.png", "x", "study 's001' stands there twice; remove one"),
    ("ai-koda", "ratings.csv", "", "ratings.csv: the file is empty; download"),
    ("ai-koda", "ratings.csv", KODA.replace("<25%", "<24%"), "ratings.csv, line 1: no column '<25%'; expected"),
    (
        "ai-koda",
        "ratings.csv",
        KODA.replace(",1,0,0,0,2023-01-01", ",x,0,0,0,2023-01-01"),
        "line 2: 'x' in column '<5%'",
    ),
    ("ai-koda", "ratings.csv", KODA.replace("1.jpg,1,0", "1.jpg,1,1"), "line 2: >75% and 50%-75% both answer 'visual"),
    (
        "ai-koda",
        "ratings.csv",
        KODA.replace("img/cleanliness_3.jpg", ""),
        "line 5: no image in column 'imagePath'; add",
    ),
    ("ai-koda", "more.xlsx", "PK", "more.xlsx: not a readable .xlsx file; download"),
    ("galar", "events.json", "", "events.json: the file is empty; download"),
    ("galar", "events.json", '{"videos": [', "events.json, line 1: not JSON"),
    ("galar", "events.json", '{"exams": []}', "events.json: no list of 'videos' in it"),
    ("galar", "events.json", '{"videos": [{"events": []}]}', "video 1 of the list needs a 'video_id'"),
    (
        "galar",
        "events.json",
        '{"videos": [{"video_id": 1, "events": []}, {"video_id": "1", "events": []}]}',
        "'1' stands",
    ),
    (
        "galar",
        "events.json",
        EVENT % '{"start": 3, "end": 2, "label": ["colon"]}',
        "event 0: start 3 and end 2 are not",
    ),
    (
        "galar",
        "events.json",
        EVENT % '{"start": 0.5, "end": 2, "label": ["colon"]}',
        "event 0: start 0.5 and end 2 are",
    ),
    (
        "galar",
        "events.json",
        EVENT % '{"start": 0, "end": 2, "label": "colon"}',
        "event 0: expected 'start', 'end' and",
    ),
    (
        "galar",
        "events.json",
        EVENT % '{"start": 0, "end": 2, "label": ["polp"]}',
        "unknown label 'polp'; did you mean 'polyp",
    ),
    ("galar", "Labels/3.csv", "index,colon,frame\n", "3.csv: no frame is listed; download"),
    ("galar", "Labels/3.csv", "colon,polyp\n0,1\n", "3.csv, line 1: no column 'index'"),
    ("galar", "Labels/3.csv", "index,frame\n0,1\n", "3.csv, line 1: no column of labels"),
    ("galar", "Labels/3.csv", "index,collon\n0,1\n", "3.csv, line 1: unknown label 'collon'; did you mean 'colon'?"),
    ("galar", "Labels/3.csv", "index,colon\n0,1\nx,1\n", "3.csv, line 3: the frame has no whole number as index"),
    ("galar", "Labels/3.csv", "index,colon\n0,2\n", "3.csv, line 2: '2' in column 'colon' is neither 0 nor 1"),
    ("galar", "Labels/3.csv", "index,colon\n0\n", "3.csv, line 2: 'missing' in column 'colon' is neither"),
]


@pytest.mark.parametrize(("name", "file", "content", "message"), BROKEN, ids=[f"{b[1]}-{b[3][-24:]}" for b in BROKEN])
def test_broken_files_are_refused_in_one_line(name: str, file: str, content: str, message: str, tmp_path: Path) -> None:
    folder = LAYOUTS[name][0](tmp_path / "data")
    touch(folder / file, content or " ")
    with pytest.raises(InputError, match=message) as error:
        import_dataset(name, folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_binary_rubbish_is_not_taken_for_text(tmp_path: Path) -> None:
    folder = write_kvasir(tmp_path)
    (folder / "metadata.csv").write_bytes(b"\xff\xfe\x00\x81" * 100)
    with pytest.raises(InputError, match=r"metadata\.csv: not a text file in UTF-8; save"):
        import_kvasir(folder)
    see_ai = write_see_ai(tmp_path / "see-ai")
    (see_ai / "image00001.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"image00001\.txt: not a text file in UTF-8"):
        import_see_ai(see_ai)


# Words.


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (("Foreign Body",), ()),
        (("Pylorus", "Erosion"), ("erosion",)),
        (("polyp-like", "Ulcer"), ("ulcer", "polyp")),
        (("active bleeding", "hematin", "blood"), ("hematocele",)),
        (("lymphangioectasis", "angiectasia", "erythema"), ("angioectasia", "mucosal erythema", "lymphangiectasia")),
        (("SMT", "lymph follicle"), ("eminence lesion", "lymphoid follicular hyperplasia")),
        (("Normal", "Ulcer"), ("ulcer",)),
        (("Normal", "vein"), ("normal",)),
        (("Normal", "stenosis"), ()),
        (("Worms", "angiodysplasia"), ("angioectasia", "parasite")),
        (("blood_fresh", " Erythematous "), ("mucosal erythema", "hematocele")),
    ],
)
def test_words_of_the_datasets_mean_labels_of_videocap(words: tuple[str, ...], labels: tuple[str, ...]) -> None:
    assert labels_of(words) == labels


def test_every_word_of_every_dataset_is_known() -> None:
    for word in (*WORDS, *HARMLESS, *DISTRACTORS, *CLASSES, *COUNTS.split("\n")[0].split(",")[2:-1]):
        label_of(word)
    with pytest.raises(InputError, match="unknown class 'qqq'; use one of ulcer, erosion"):
        label_of("qqq")


def test_words_that_differ_only_in_spelling_are_one() -> None:
    assert unique(["Foreign Body", "foreign body", "Foreign Bodies", "vein"]) == ("Foreign Body", "vein")


# Timelines.


def test_overlapping_events_are_cut_and_carry_the_words_of_both() -> None:
    events = [Event(0, 9, ("a",)), Event(5, 14, ("b",)), Event(7, 7, ("a", "c"))]
    assert disjoint(events) == (
        Event(0, 4, ("a",)),
        Event(5, 6, ("a", "b")),
        Event(7, 7, ("a", "b", "c")),
        Event(8, 9, ("a", "b")),
        Event(10, 14, ("b",)),
    )


def test_neighbours_with_the_same_words_are_joined_and_gaps_stay() -> None:
    assert disjoint([Event(4, 5, ("a",)), Event(0, 1, ("a",)), Event(2, 3, ("a",)), Event(7, 7, ("a",))]) == (
        Event(0, 5, ("a",)),
        Event(7, 7, ("a",)),
    )
    assert disjoint([]) == ()


def test_runs_of_numbers_are_found_in_any_order() -> None:
    assert runs([3, 1, 2, 9, 7, 2]) == [(1, 3), (7, 7), (9, 9)]


def test_galar_tables_and_events_of_the_same_exams_give_the_same_timelines(tmp_path: Path) -> None:
    labels = import_galar(write_galar_labels(tmp_path / "labels"))
    events = import_galar(write_galar_events(tmp_path / "events"))
    assert labels.timelines == events.timelines
    assert labels.timelines == tuple(Timeline(video, tuple(events)) for video, events in GALAR.items())
    assert labels.remarks == ()
    assert any("events without a label are left out (1)" in remark for remark in events.remarks)
    assert any("1 events overlap an earlier one" in remark for remark in events.remarks)


def test_galar_is_found_in_the_file_itself_and_one_folder_deeper(tmp_path: Path) -> None:
    events = import_galar(write_galar_events(tmp_path / "events") / "events.json")
    deeper = import_galar(write_galar_labels(tmp_path / "deep" / "Galar_labels_and_metadata").parent)
    flat = import_galar(write_galar_labels(tmp_path / "flat") / "Labels")
    assert events.timelines == deeper.timelines == flat.timelines


def test_the_organ_of_an_event_is_the_farthest_the_capsule_reached() -> None:
    assert ORGANS == ("mouth", "esophagus", "stomach", "small intestine", "colon")
    assert organ_of(Event(0, 1, ("stomach", "small intestine", "pylorus"))) == "small intestine"
    assert organ_of(Event(0, 1, ("blood",))) is None


# The quirks of each dataset, on the small copies.


def by_name(tables: Tables) -> dict[str, LabelledFrame]:
    return {frame.path.name: frame for frame in tables.frames}


def remark(tables: Tables, part: str) -> str:
    """The one remark that contains something."""
    (found,) = [remark for remark in tables.remarks if part in remark]
    return found


def test_kvasir_files_in_several_rows_carry_all_classes_and_boxes(tmp_path: Path) -> None:
    tables = import_kvasir(write_kvasir(tmp_path))
    frame = by_name(tables)[f"{VIDEO}_11.jpg"]
    assert (frame.words, frame.labels) == (("Erosion", "Pylorus"), ("erosion",))
    assert frame.boxes == (Box(138 / 336, 3 / 336, 311 / 336, 73 / 336), Box(0, 0, 0.125, 0.125))
    assert (frame.case, frame.number, frame.split) == (VIDEO, 11, "split_0")
    assert frame.path == tmp_path / "labelled_images" / "Erosion" / f"{VIDEO}_11.jpg"
    assert "4 rows have 12 fields instead of 13" in remark(tables, "12 fields")
    assert "1 images stand in several rows" in remark(tables, "several rows")


def test_kvasir_boxes_beyond_the_edge_are_cut_off(tmp_path: Path) -> None:
    tables = import_kvasir(write_kvasir(tmp_path))
    assert by_name(tables)[f"{OTHER}_7.jpg"].boxes == (Box(0.5, 0.5, 1.0, 1.0),)
    assert "1 boxes stick out" in remark(tables, "stick out")


def test_kvasir_images_without_a_row_get_the_class_of_their_folder(tmp_path: Path) -> None:
    tables = import_kvasir(write_kvasir(tmp_path))
    alone = by_name(tables)[f"{OTHER}_99.jpg"]
    assert (alone.words, alone.labels, alone.number) == (("blood_fresh",), ("hematocele",), 99)
    assert "1 images have no row" in remark(tables, "no row")
    assert "4 of 6 images are not in labelled_images/" in remark(tables, "are not in labelled_images/")
    (tmp_path / "metadata.csv").unlink()
    assert set(by_name(import_kvasir(tmp_path))) == {f"{VIDEO}_11.jpg", f"{OTHER}_99.jpg"}


def test_kvasir_rows_and_folders_that_disagree_are_both_kept(tmp_path: Path) -> None:
    folder = write_kvasir(tmp_path)
    touch(folder / "labelled_images" / "Ulcer" / f"{OTHER}_8.jpg")
    tables = import_kvasir(folder)
    assert by_name(tables)[f"{OTHER}_8.jpg"].labels == ("ulcer",)
    assert "1 images stand in a class folder" in remark(tables, "class folder that")


def test_the_leak_of_kvasirs_official_splits_is_reported_by_name(tmp_path: Path) -> None:
    tables = import_kvasir(write_kvasir(tmp_path))
    assert f"2 videos stand in both ({VIDEO}, {OTHER})" in remark(tables, "leak")
    assert "2 images are in neither official split (Blood - hematin, blood_fresh)" in remark(tables, "neither")
    assert not [text for text in tables.remarks if "differently" in text]
    touch(tmp_path / "official_splits" / "split_1.csv", f"filename,label\n{VIDEO}_10.jpg,Blood\nx_1.jpg,Normal\n")
    (tmp_path / "split_1.csv").unlink()
    tables = import_kvasir(tmp_path)
    assert f"1 videos stand in both ({VIDEO})" in remark(tables, "leak")
    assert "name 1 images differently" in remark(tables, "differently")
    assert "name 1 images that are not in the metadata" in remark(tables, "not in the metadata")


def test_kvasirs_videos_become_timelines(tmp_path: Path) -> None:
    tables = import_kvasir(write_kvasir(tmp_path))
    mucosa = "Normal clean mucosa"
    assert tables.timelines == (
        Timeline(
            VIDEO,
            (
                Event(0, 7, (mucosa,)),
                Event(8, 9, (mucosa, "Pylorus")),
                Event(10, 12, ("Erosion", "Pylorus")),
                Event(20, 24, (mucosa,)),
                Event(25, 25, ("Erosion", mucosa)),
                Event(26, 29, (mucosa,)),
            ),
        ),
        Timeline(OTHER, ()),
    )
    assert "without a class are left out (1)" in remark(tables, "without a class")
    assert "1 of 2 videos" in remark(tables, "videos of metadata.json")


def test_capsule_vision_reports_every_leak_of_its_split(tmp_path: Path) -> None:
    tables = import_capsule_vision(write_capsule_vision(tmp_path))
    assert "1 of 1 AIIMS videos" in remark(tables, "AIIMS")
    assert "1 of 2 KVASIR videos" in remark(tables, "KVASIR")
    assert "2 images stand byte for byte on both sides" in remark(tables, "byte for byte")


def test_capsule_vision_compares_its_spreadsheets_with_the_tree(tmp_path: Path) -> None:
    folder = write_capsule_vision(tmp_path)
    assert "training_data.xlsx names 10 images, of which 1 are not" in remark(import_capsule_vision(folder), "names")
    touch(folder / "validation" / "Ulcer" / "AIIMS" / "ulcer9_1.jpg")
    write_sheet(folder / "training_data.xlsx", [f"training/Worms/KVASIR/{VIDEO}_10.jpg"])
    wrong = openpyxl.load_workbook(folder / "training_data.xlsx")
    sheet = wrong.worksheets[0]
    sheet["A2"] = f"training\\Normal\\KVASIR\\{VIDEO}_10.jpg"
    wrong.save(folder / "training_data.xlsx")
    tables = import_capsule_vision(folder)
    assert "1 images in validation/ are not in validation_data.xlsx" in remark(tables, "in validation/")
    assert "training_data.xlsx puts 1 images into another class" in remark(tables, "another class")


def test_spreadsheets_may_lie_inside_the_splits(tmp_path: Path) -> None:
    folder = write_capsule_vision(tmp_path)
    (folder / "training_data.xlsx").rename(folder / "training" / "training_data.xlsx")
    assert "1 are not here" in remark(import_capsule_vision(folder), "training_data.xlsx")


def test_spreadsheets_that_say_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "training_data.xlsx"
    openpyxl.Workbook().save(path)
    with pytest.raises(InputError, match=r"training_data.xlsx, line 1: no columns 'image_path' and 'Dataset'"):
        read_sheet(path)
    write_sheet(path, ["training/Cats/AIIMS/a_1.jpg"])
    with pytest.raises(InputError, match=r"training_data.xlsx, line 2: no class is marked with 1"):
        read_sheet(path)


def test_truncated_spreadsheets_are_refused_wherever_they_end(tmp_path: Path) -> None:
    content = write_sheet(tmp_path / "whole.xlsx", list(TREE)).read_bytes()
    broken = tmp_path / "training_data.xlsx"
    for end in range(1, len(content), len(content) // 40):
        broken.write_bytes(content[:end])
        with pytest.raises(InputError, match="not a readable"):
            read_sheet(broken)


def test_without_openpyxl_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_capsule_vision(tmp_path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("datasets"))):
        import_capsule_vision(folder)


def test_see_ai_counts_are_read_without_ids_and_sums(tmp_path: Path) -> None:
    counts = read_counts(write_see_ai(tmp_path) / "all_annotation.csv")
    assert counts.by_image == {
        612: {"erosion": 2, "erythema": 1},
        613: {"erosion": 1, "polyp-like": 1},
        614: {},
        1010: {"lymph follicle": 4, "foreign body": 1},
        1011: {"vein": 2},
    }
    assert counts.classes[4:7] == ("lymph follicle", "SMT", "polyp-like")
    (only,) = counts.remarks
    assert "wrong for 11 of 12 classes because it includes the class ids of line 2 (erosion: 4, in truth 3)" in only


def test_see_ai_sums_that_are_right_or_otherwise_wrong(tmp_path: Path) -> None:
    lines = COUNTS.splitlines()
    right = "annotation_sum,,0,3,0,0,4,0,1,0,0,1,1,2,"
    path = touch(tmp_path / "counts.csv", "\n".join([*lines[:-1], right]))
    assert read_counts(path).remarks == ()
    touch(path, "\n".join([*lines[:-1], right.replace(",3,0", ",9,0")]))
    assert "wrong for 1 of 12 classes (erosion: 9, in truth 3)" in read_counts(path).remarks[0]
    touch(path, COUNTS.replace("0,1,0,0,3\n", "0,1,0,0,4\n"))
    assert "1 lines give another sum than their counts (first: line 3)" in read_counts(path).remarks[0]


def test_see_ai_boxes_are_fractions_cut_off_at_the_edge(tmp_path: Path) -> None:
    tables = import_see_ai(write_see_ai(tmp_path))
    frame = by_name(tables)["image00612.jpg"]
    assert frame.labels == ("erosion", "mucosal erythema")
    assert frame.boxes[:2] == (Box(0.375, 0.25, 0.625, 0.75), Box(0.9 - 0.2, 0.4, 1.0, 0.6))
    assert (frame.case, frame.number) == ("SEE-AI-01", None)


def test_see_ai_images_without_boxes_are_normal_and_veins_are_not(tmp_path: Path) -> None:
    frames = by_name(import_see_ai(write_see_ai(tmp_path)))
    assert frames["image00614.jpg"].labels == ("normal",)
    assert (frames["image01011.jpg"].labels, frames["image01011.jpg"].words) == ((), ("vein",))


def test_see_ai_believes_boxes_rather_than_counts_and_names_absent_images(tmp_path: Path) -> None:
    tables = import_see_ai(write_see_ai(tmp_path))
    assert by_name(tables)["image01010.jpg"].words == ("lymph follicle",)
    assert "disagree about 1 images (first: image 1010)" in remark(tables, "disagree")
    assert "2 of 5 images are not here" in remark(tables, "not here")
    touch(tmp_path / "image00777.jpg")
    assert "1 images have neither a row nor a box file" in remark(import_see_ai(tmp_path), "neither")


def test_see_ai_box_files_alone_are_enough(tmp_path: Path) -> None:
    folder = write_see_ai(tmp_path)
    (folder / "all_annotation.csv").unlink()
    tables = import_see_ai(folder)
    assert [frame.words for frame in tables.frames] == [("erosion", "erythema"), ("normal",), ("lymph follicle",)]


def test_see_ai_blocks_leave_a_gap_of_twenty_between_cases() -> None:
    assert see_ai_case(519) == ""
    assert see_ai_case(520) == see_ai_case(999) == "SEE-AI-01"
    assert see_ai_case(1000) == ""


# The real files.


def test_the_real_kvasir_metadata(real_data: Path) -> None:
    tables = import_kvasir(real_data / "kvasir-capsule")
    assert len(tables.frames) == 47_229
    assert len({frame.case for frame in tables.frames}) == 43
    assert sum(len(frame.boxes) for frame in tables.frames) == 4_235
    assert "43,013 rows have 12 fields" in remark(tables, "fields")
    assert "10 images stand in several rows" in remark(tables, "several rows")
    assert "7 videos stand in both (64440803f87b4843, 7a47e8eacea04e64, " in remark(tables, "leak")
    assert "76 images are in neither" in remark(tables, "neither")
    several = Counter(frame.words for frame in tables.frames if len(frame.words) > 1)
    assert sorted(map(sorted, several)) == [["Ampulla of Vater", "Pylorus"], ["Erosion", "Pylorus"]]
    assert sum(several.values()) == 9
    sides = Counter(frame.split for frame in tables.frames)
    assert sides == {"split_0": 23_061, "split_1": 24_092, "": 76}
    (box,) = by_name(tables)["64440803f87b4843_18235.jpg"].boxes
    assert box == Box(203 / 336, 301 / 336, 260 / 336, 1.0)


def test_the_real_capsule_vision_folder(real_data: Path) -> None:
    tables = import_capsule_vision(real_data / "capsule-vision-2024")
    assert len(tables.frames) == 25_040
    assert "348 images stand in several class folders" in remark(tables, "several class")
    assert "72 images are byte-identical" in remark(tables, "byte-identical")
    assert "26 of 26 KVASIR videos" in remark(tables, "KVASIR")
    assert "4 of 4 AIIMS videos" in remark(tables, "AIIMS")
    assert "170 images stand byte for byte on both sides" in remark(tables, "byte for byte")
    assert "training_data.xlsx names 37,607 images, of which 19,859 are not here" in remark(tables, "training_data")
    assert "validation_data.xlsx names 16,132 images, of which 8,413 are not" in remark(tables, "validation_data")


def test_the_real_see_ai_table(real_data: Path) -> None:
    tables = import_see_ai(real_data / "see-ai")
    labels = Counter(label for frame in tables.frames for label in frame.labels)
    assert len(tables.frames) == 18_481
    assert labels["normal"] == 6_161
    assert labels["lymphoid follicular hyperplasia"] == 1_788
    assert labels["eminence lesion"] == 528
    assert "wrong for 11 of 12 classes because it includes the class ids" in remark(tables, "sum")


def test_the_documented_counts_hold_for_the_whole_challenge(real_data: Path) -> None:
    """The spreadsheets name all 53,739 files of the challenge; fewer than half are on this disk."""
    named = []
    for split in ("training", "validation"):
        with zipfile.ZipFile(real_data / "capsule-vision-2024" / f"{split}_data.xlsx") as book:
            named += re.findall(rf"<t>({split}\\[^<]+)</t>", book.read("xl/sharedStrings.xml").decode())
    numbers = {int(path[-9:-4]) for path in named if "\\SEE-AI\\" in path}
    counts = read_counts(real_data / "see-ai" / "all_annotation.csv").by_image
    assert len(named) == 53_739
    assert sum("lymph follicle" in counts[number] for number in numbers) == 157
    assert sum("SMT" in counts[number] for number in numbers) == 80


def test_the_real_galar_events(real_data: Path) -> None:
    tables = import_galar(real_data / "galar")
    assert len(tables.timelines) == 60
    assert len({word for timeline in tables.timelines for event in timeline.events for word in event.words}) == 17
    assert sum(len(timeline.events) for timeline in tables.timelines) == 19_507
    assert tables.remarks == ("events.json: events without a label are left out (1)",)
    for timeline in tables.timelines:
        check_timeline(timeline)


def test_real_galar_events_survive_the_way_through_tables_of_labels(real_data: Path, tmp_path: Path) -> None:
    events = import_galar(real_data / "galar" / "events.json")
    shortest = sorted(events.timelines, key=lambda timeline: timeline.frames)[:5]
    for timeline in shortest:
        lines = ["index," + ",".join(WORDS)]
        for event in timeline.events:
            cells = ",".join(str(int(word in event.words)) for word in WORDS)
            lines += [f"{index},{cells}" for index in range(event.first, event.last + 1)]
        touch(tmp_path / "Labels" / f"{timeline.exam_id}.csv", "\n".join(lines))
    again = {timeline.exam_id: timeline for timeline in import_galar(tmp_path).timelines}
    assert again == {timeline.exam_id: timeline for timeline in shortest}
