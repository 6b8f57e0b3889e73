"""What readers decided becomes a dataset, and agreement is counted rightly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dice_ce.cli import main
from dice_ce.datasets.folder import load_dataset
from dice_ce.reader.compare import agreement, compare_reviews
from dice_ce.reader.reviews import open_reviews
from tests.reader.conftest import Guest, Reader, make_accounts
from tests.reader.material import write_result


def decide(who: Guest, exam: str, *actions: dict[str, object]) -> None:
    """Act in turn."""
    version = who.get(f"/api/exams/{exam}/review").json()["version"]
    for action in actions:
        answer = who.act(exam, version, **action)
        assert answer.status_code == 200, answer.text
        version = answer.json()["version"]


@pytest.fixture
def read_twice(tmp_path: Path) -> tuple[Path, str]:
    """Results of one exam that anna and ben have read, and the database."""
    results, database = write_result(tmp_path / "results"), str(tmp_path / "reviews.sqlite")
    with Reader(results, database) as reader:
        make_accounts(reader.service.storage)
        anna, ben = reader.stranger().log_in("anna"), reader.stranger().log_in("ben")
        exam = anna.exam()
        decide(
            anna,
            exam,
            {"kind": "confirm", "finding": "1.1"},
            {"kind": "reject", "finding": "1.2"},
            {"kind": "relabel", "finding": "2.1", "label": "ulcer"},
            {"kind": "confirm", "finding": "2.1"},
            {"kind": "confirm", "finding": "2.2"},
            {"kind": "add", "frame": 5, "label": "diverticulum"},
            {"kind": "add", "frame": 96, "label": "bleeding"},
            {"kind": "sign"},
            {"kind": "addendum", "reason": "still thinking"},
            {"kind": "reject", "finding": "1.1"},
        )
        anna.post(f"/api/exams/{exam}/time", json={"seconds": 90})
        second = ben.post(f"/api/exams/{exam}/second-reading", json={}).json()["id"]
        decide(
            ben,
            second,
            {"kind": "confirm", "finding": "1.1"},
            {"kind": "confirm", "finding": "1.2"},
            {"kind": "confirm", "finding": "2.1"},
            {"kind": "add", "frame": 90, "label": "hematocele"},
            {"kind": "sign"},
        )
    return results, database


def test_signed_reviews_become_a_dataset_that_can_be_loaded(
    read_twice: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, database = read_twice
    out = tmp_path / "dataset"
    assert main(["reviews", "export", "--database", database, "--out", str(out)]) == 0
    assert "'diverticulum' is not in videocap-12" in capsys.readouterr().err
    dataset = load_dataset(out)
    (row,) = dataset.exams
    found = [(one.id, one.seconds, one.label) for one in dataset.annotations["exam"].findings]
    assert found == [
        ("1.1", 20.0, "polyp"),  # the addendum is not signed yet
        ("2.1", 60.0, "ulcer"),
        ("2.2", 75.0, "angioectasia"),
        ("own-7", 96.0, "hematocele"),
    ]
    with row.open() as exam:
        assert exam.clock.is_exam_time
        assert len(exam) == 100


def test_an_exam_whose_clock_was_an_option_takes_it_along(tmp_path: Path) -> None:
    results, database = write_result(tmp_path / "results"), str(tmp_path / "reviews.sqlite")
    (results / "exam.clock.csv").unlink()
    with Reader(results, database) as reader:
        me = reader.browser()
        decide(me, me.exam(), {"kind": "confirm", "finding": "2.1"}, {"kind": "sign", "despite_undecided": True})
        assert me.get(f"/api/exams/{me.exam()}").json()["knots"] == [[0, 0.0], [99, 99.0]], "not the playback time"
    assert main(["reviews", "export", "--database", database, "--out", str(tmp_path / "dataset")]) == 0
    (row,) = load_dataset(tmp_path / "dataset").exams
    with row.open() as exam:
        assert exam.clock.seconds(60) == 60


def test_agreement_is_counted_between_readers_and_with_the_software(
    read_twice: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, database = read_twice
    comparison = compare_reviews(open_reviews(database))
    anna, ben = comparison.software
    assert (anna.kept, anna.confirmed, anna.rejected, anna.relabelled, anna.restored, anna.own) == (3, 2, 1, 1, 1, 2)
    assert (anna.presence.agreed, anna.presence.units) == (3, 7)  # 1.1, 2.1 and 3.1 out of five contexts and two own
    assert anna.seconds_per_exam == 90
    assert (ben.confirmed, ben.rejected, ben.own, ben.seconds_per_exam) == (3, 0, 1, None)
    (pair,) = comparison.readers
    # Both: 1.1, 2.1 and the own findings at 96 and 90 s; only anna: 2.2 and diverticulum; only ben: 1.2.
    assert (pair.both, pair.only_first, pair.only_second) == (3, 2, 1)
    assert (pair.labels.agreed, pair.labels.units) == (1, 3), "polyp; ulcer is erosion to ben, bleeding hematocele"
    assert main(["reviews", "compare", "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["readers"][0]["both"] == 3
    assert main(["reviews", "compare", "--database", database]) == 0
    assert "Readers with each other" in capsys.readouterr().out


def test_kappa_by_hand() -> None:
    # Cohen's own kind of table: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: 0.7 observed, 0.5 by chance.
    table = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert agreement(table).kappa == 0.4
    assert agreement([("y", "y")]).kappa is None
    assert agreement([]).units == 0


@pytest.mark.parametrize("verb", ["export", "compare"])
def test_without_signed_reviews_there_is_one_line(
    verb: str, reader: Reader, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    me = reader.browser()
    me.act(me.exam(), 0, kind="confirm", finding="1.1")
    words = ["reviews", verb, "--database", str(tmp_path / "reviews.sqlite")]
    words += ["--out", str(tmp_path / "dataset")] if verb == "export" else []
    assert main(words) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*words, "--unsigned"]) == 0
    assert main(["reviews", verb, "--database", str(tmp_path / "nothing.sqlite"), *words[4:]]) == 1
    assert not (tmp_path / "nothing.sqlite").exists()


def test_accounts_are_made_listed_and_closed_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    database = ["--database", str(tmp_path / "reviews.sqlite")]

    def run(*words: str, password: str = "") -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
        return main(["accounts", *words, *database])

    assert run("add", "anna", "--role", "admin", password="correct horse 1") == 0
    assert run("add", "anna", password="correct horse 1") == 2
    assert run("add", "ben", password="short") == 2
    assert run("add", "b e n", password="correct horse 1") == 2
    assert run("close", "nobody") == 2
    assert run("close", "anna") == 2, "an admin is always left"
    assert run("add", "chief", "--role", "admin", password="correct horse 1") == 0
    assert run("close", "anna") == 0
    capsys.readouterr()
    assert run("list") == 0
    assert capsys.readouterr().out == "anna  admin  closed\nchief  admin\n"
