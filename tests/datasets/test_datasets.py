"""The dataset format, splitting by patient, and `dice-ce data check`."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.cli import main
from dice_ce.datasets.check import check_dataset
from dice_ce.datasets.folder import load_dataset, write_dataset
from dice_ce.datasets.splits import SPLITS, fold_cases, some_cases, split_cases, split_patients
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.errors import InputError
from tests.material import moving_dots, numbered_folder, write_video

EXAMS = "exam_id,patient_id,split,video,exam_fps\n"
FINDINGS = "exam_id,finding_id,seconds,label\n"


def dataset(folder: Path, exams: str, findings: str = "", *, seeds: dict[str, int] | None = None) -> Path:
    """A dataset with a short video per exam; equal seeds give equal videos."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "exams.csv").write_text(EXAMS + exams)
    (folder / "findings.csv").write_text(FINDINGS + findings)
    for name, seed in (seeds or {}).items():
        write_video(folder / f"{name}.mp4", moving_dots(30, seed=seed))
    return folder


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return dataset(
        tmp_path / "good",
        "a,p1,train,a.mp4,1/10\nb,p2,validation,b.mp4,1/10\nc,p3,test,c.mp4,1/10\n",
        "a,1,00:01:40,Angiectasia\na,2,12.5,ulcer\nc,1,250,polyp\n",
        seeds={"a": 1, "b": 2, "c": 3},
    )


def test_a_dataset_is_read_with_aliases_and_clock_times(good: Path) -> None:
    data = load_dataset(good)
    assert [(f.id, f.seconds, f.label) for f in data.annotations["a"].findings] == [
        ("2", 12.5, "ulcer"),
        ("1", 100.0, "angioectasia"),
    ]
    assert data.annotations["b"].findings == ()
    with data.exams[0].open() as exam:
        assert exam.id == "a"
        assert float(exam.clock.seconds(29)) == 290


def test_writing_a_dataset_and_reading_it_gives_the_same(good: Path, tmp_path: Path) -> None:
    data = load_dataset(good)
    write_dataset(good, data.exams, data.annotations)
    assert load_dataset(good) == data


def test_only_the_exams_of_one_split_are_kept(good: Path) -> None:
    assert [row.exam_id for row in load_dataset(good).of("test").exams] == ["c"]
    (good / "exams.csv").write_text(EXAMS + "a,p1,train,a.mp4,1\n")
    (good / "findings.csv").unlink()
    with pytest.raises(InputError, match="no exam in the split 'test'; there is train"):
        load_dataset(good).of("test")


@pytest.mark.parametrize(
    ("exams", "findings", "message"),
    [
        ("", "", "names no exam"),
        ("a,p1,train\n", "", "line 2: 3 cells where the header has 5"),
        ("a,,train,a.mp4,1\n", "", "line 2: 'patient_id' is empty"),
        ("a,p1,training,a.mp4,1\n", "", "split 'training' is none of train, validation, test"),
        ("a,p1,train,a.mp4,1\na,p1,train,a.mp4,1\n", "", "line 3: the exam 'a' stands there twice"),
        ("a,p1,train,a.mp4,fast\n", "", "correct the clock columns"),
        ("a,p1,train,a.mp4,0\n", "", "correct the clock columns"),
        ("a,p1,train,a.mp4,1\n", "b,1,5,ulcer\n", "the exam 'b' is not in exams.csv"),
        ("a,p1,train,a.mp4,1\n", "a,1,5,ulcre\n", "did you mean 'ulcer'"),
        ("a,p1,train,a.mp4,1\n", "a,1,noon,ulcer\n", "line 2: 'noon' is neither seconds nor HH:MM:SS"),
        ("a,p1,train,a.mp4,1\n", "a,1,5,ulcer\na,1,9,ulcer\n", "line 3: '1' stands twice in exam 'a'"),
        ("a,p1,train,a.mp4,1\n", "a,,5,ulcer\n", "'finding_id' is empty"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, exams: str, findings: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_dataset(dataset(tmp_path / "bad", exams, findings))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_column_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a dataset: there is no exams\.csv"):
        load_dataset(tmp_path)
    (tmp_path / "exams.csv").write_text("exam_id,split,video\na,train,a.mp4\n")
    with pytest.raises(InputError, match="the column 'patient_id' is missing"):
        load_dataset(tmp_path)


def test_spreadsheets_that_write_semicolons_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "exams.csv").write_bytes("\ufeffexam_id;patient_id;split;video\r\na;p1;test;a.mp4\r\n".encode())
    assert load_dataset(tmp_path).exams[0].video == tmp_path / "a.mp4"


def test_a_good_dataset_has_no_problems_and_is_summed_up(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(good), "--plot", str(good / "statistics.png")]) == 0
    printed = capsys.readouterr().out
    assert "no problems found" in printed
    assert f"{'angioectasia':<33}{1:>8}  " in printed
    assert (good / "statistics.png").read_bytes().startswith(b"\x89PNG")
    assert main(["data", "check", str(good), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["splits"]["train"]["labels"] == {"ulcer": 1, "angioectasia": 1}
    assert facts["splits"]["test"]["frames"] == 30


def test_all_problems_are_listed_and_not_only_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = dataset(
        tmp_path / "bad",
        "a,p1,train,a.mp4,1/10\nb,p1,test,b.mp4,1/10\nc,p2,test,missing.mp4,1/10\nd,p3,test,d.mp4,\n",
        "a,1,5,ulser\na,2,9999,ulcer\n",
        seeds={"a": 1, "b": 2, "d": 3},
    )
    assert main(["data", "check", str(folder)]) == 1
    printed = capsys.readouterr().out
    for problem in (
        "label 'ulser' is not in the taxonomy 'videocap-12'; did you mean 'ulcer'?",
        "finding '2' at 02:46:39 lies outside the exam (00:00:00 to 00:04:50)",
        "exam 'c': ",
        "exam 'd': the exam time is not known, only playback time",
        "patient 'p1' stands in more than one split",
        "5 problems",
    ):
        assert problem in printed


def test_identical_images_in_two_splits_are_found(tmp_path: Path) -> None:
    folder = dataset(
        tmp_path / "leak", "a,p1,train,a.mp4,1\nb,p2,test,b.mp4,1\nc,p3,test,c.mp4,1\n", seeds={"a": 7, "b": 7, "c": 8}
    )
    problems = check_dataset(folder).problems
    assert len(problems) == 1
    assert "byte-identical images stand in test and train" in problems[0]
    assert "a at 0" in problems[0]


def test_identical_files_in_two_folders_of_frames_are_found(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "leak", "a,p1,train,a,1\nb,p2,validation,b,1\n")
    for name in "ab":
        numbered_folder(folder / name, [f"{i}.bmp" for i in range(3)])
    (problem,) = check_dataset(folder).problems
    assert problem.startswith("3 byte-identical images stand in train and validation (for instance a 0.bmp = b 0.bmp)")


def test_splitting_fills_the_column_and_does_not_redo_it_unasked(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "split", str(good)]) == 2
    assert "--force deals them again" in capsys.readouterr().err
    (good / "exams.csv").write_text(EXAMS + "".join(f"{name},p{i},,{name}.mp4,1\n" for i, name in enumerate("abc")))
    assert main(["data", "split", str(good), "--shares", "1,1,1", "--seed", "3"]) == 0
    assert sorted(row.split for row in load_dataset(good).exams) == sorted(SPLITS)


def test_240_patients_are_dealt_160_40_40_and_equally_by_equal_seeds() -> None:
    patients = [f"p{i}" for i in range(240)]
    splits = split_patients(patients)
    assert Counter(splits.values()) == {"train": 160, "validation": 40, "test": 40}
    assert split_patients(reversed(patients)) == splits
    assert split_patients(patients, seed=1) != splits


@given(st.sets(st.text(min_size=1, max_size=4), max_size=40), st.integers(0, 5))
def test_every_patient_has_exactly_one_split(patients: set[str], seed: int) -> None:
    assert set(split_patients(patients, seed=seed)) == patients


def frames_of(case: str, label: str, count: int, source: str = "S") -> list[LabelledFrame]:
    return [LabelledFrame(Path(f"{case}{i}"), source, case, i, (label,), (label,)) for i in range(count)]


def test_a_label_with_one_case_is_trained_on_and_one_with_two_is_tested() -> None:
    frames = [
        *frames_of("only", "parasite", 5),
        *frames_of("large", "polyp", 50),
        *frames_of("small", "polyp", 10),
        *(frame for i in range(10) for frame in frames_of(f"n{i}", "normal", 20)),
    ]
    splits = split_cases(frames)
    assert splits["only"] == "train"
    assert (splits["large"], splits["small"]) == ("train", "test")
    assert Counter(splits[f"n{i}"] for i in range(10)) == {"train": 6, "validation": 2, "test": 2}


def test_a_second_source_of_a_label_serves_the_split_that_has_none_of_it() -> None:
    frames = [
        *frames_of("k1", "ulcer", 90, "K"),
        *frames_of("k2", "ulcer", 40, "K"),
        *frames_of("a1", "ulcer", 20, "A"),
        *frames_of("a2", "ulcer", 10, "A"),
    ]
    assert split_cases(frames) == {"k1": "train", "k2": "test", "a1": "train", "a2": "validation"}


def test_frames_without_a_case_are_in_no_split() -> None:
    assert split_cases(frames_of("", "ulcer", 5)) == {}


def test_folds_spread_every_label_of_every_source_and_split_no_case() -> None:
    frames = [
        *(frame for i in range(5) for frame in frames_of(f"k{i}", "ulcer", 10 + i, "K")),
        *(frame for i in range(10) for frame in frames_of(f"a{i}", "normal", 20, "A")),
    ]
    folds = fold_cases(frames)
    assert sorted(folds[f"k{i}"] for i in range(5)) == [0, 1, 2, 3, 4]
    assert Counter(folds[f"a{i}"] for i in range(10)) == dict.fromkeys(range(5), 2)
    assert fold_cases(reversed(frames)) == folds
    assert fold_cases(frames_of("", "ulcer", 5)) == {}


def test_a_share_of_the_cases_keeps_every_source_and_label_and_grows_with_the_share() -> None:
    frames = [
        *frames_of("rare", "parasite", 5, "A"),
        *(frame for i in range(20) for frame in frames_of(f"a{i}", "normal", 3, "A")),
        *(frame for i in range(8) for frame in frames_of(f"k{i}", "ulcer", 3, "K")),
    ]
    fewer, more = some_cases(frames, 0.25), some_cases(frames, 0.5)
    assert fewer < more < some_cases(frames, 1.0) == {frame.case for frame in frames}
    assert "rare" in fewer
    assert Counter(case[0] for case in fewer) == {"r": 1, "a": 4, "k": 2}
    assert some_cases(frames, 0.25, seed=1) != fewer
    assert len(some_cases(frames, 0.0)) == 3
