"""Assembly by hand, the JSON contract against its schema, and the byte-for-byte promise."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce import DISCLAIMER
from dice_ce.cli.describe import summary_table
from dice_ce.errors import InputError
from dice_ce.exam.clock import ClockOptions
from dice_ce.exam.open import Exam, open_exam
from dice_ce.features.store import ExtractionReport, Features
from dice_ce.method.chain import Diagnosed, Woven
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.pipeline import diagnose_contexts, judge_contexts, weave_contexts
from dice_ce.method.reliability import Reliability
from dice_ce.method.selector import Screened, SelectorSettings, select
from dice_ce.method.settings import Settings
from dice_ce.method.summary import (
    SCHEMA_FILE,
    Counts,
    Identity,
    Provenance,
    Summary,
    assemble,
    json_schema,
)
from dice_ce.method.weaver import Context
from dice_ce.outputs.findings import findings_csv
from dice_ce.settings import values_of
from dice_ce.taxonomy import Taxonomy
from tests.material import numbered_video

LABELS = Taxonomy("three", ("ulcer", "polyp", "normal"))
PROVENANCE = Provenance(
    software="dice-ce",
    version="0",
    exam_digest="1" * 64,
    crop=(0, 0, 96, 96),
    bundle=Identity("b", "2" * 64),
    encoder=Identity("e", "3" * 64),
    profile="default",
    settings=values_of(Settings()),
    gate=None,
    packages={},
    command=None,
)


@pytest.fixture
def exam(tmp_path: Path) -> Exam:
    return open_exam(numbered_video(tmp_path / "e.mp4", 10), clock=ClockOptions(exam_fps=Fraction(1, 2)))


def example(exam: Exam) -> Summary:
    """Ten frames, eight of them candidates, in three contexts: an ulcer, a normal one and a doubtful one."""
    vectors = np.eye(10, 4, dtype=np.float16) + 0.5
    report = ExtractionReport(10, 10, 0, (), 0, 0.0)
    features = Features(exam.frames, vectors, np.ones(10, np.bool_), "e", "0" * 64, report)
    seconds = np.arange(10) * 2.0
    score = np.float32([0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.1])
    screened = Screened(exam.frames, seconds, vectors, score)
    candidates = select(screened, SelectorSettings())
    p = np.float32([[0.8, 0.1, 0.1]] * 3 + [[0.1, 0.8, 0.1]] + [[0.0, 0.1, 0.9]] * 2 + [[0.4, 0.35, 0.25]] * 2)
    contexts = (Context(0, 0, np.arange(4)), Context(0, 1, np.arange(4, 6)), Context(1, 0, np.arange(6, 8)))
    diagnosed = Diagnosed(Woven(candidates, contexts, Keyframes(candidates)), p, LABELS)
    settings = Settings(converger=ConvergerSettings(tau_agree=0.3, tau_min=0.5))
    known = {
        "ulcer": Reliability.of_counts(310, 4, 12, 3, (0.0, 0.02), (0.1, 0.5)),
        "polyp": Reliability.of_counts(0, 0, 7, 0),
    }
    return assemble(exam, features, screened, judge_contexts(diagnosed, settings), PROVENANCE, known)


def test_kept_contexts_become_items_and_dropped_ones_stay_beside_them(exam: Exam) -> None:
    summary = example(exam)
    assert [(item.id, item.label, item.verdict) for item in summary.items] == [("1.1", "ulcer", "kept")]
    assert [(item.id, item.verdict) for item in summary.dropped] == [("1.2", "normal"), ("2.1", "low_confidence")]
    assert summary.counts == Counts(
        frames=10,
        decoded=10,
        candidates=8,
        diagnosed=8,
        coarse_contexts=2,
        contexts=3,
        not_looked_at=0,
        kept=1,
        dropped_normal=1,
        dropped_low_confidence=1,
        dropped_beside_surer=0,
        dropped_beyond_limit=0,
    )


def test_an_item_carries_its_reasons(exam: Exam) -> None:
    (item,) = example(exam).items
    assert [frame.frame for frame in item.support] == [1, 2, 3]
    assert [frame.frame for frame in item.dissent] == [4]
    assert (item.first_seconds, item.last_seconds) == (2.0, 8.0)
    assert item.keyframe in item.support
    assert item.keyframe.seconds == 2.0 * item.keyframe.frame
    assert item.evidence == pytest.approx((0.8, 0.1, 0.1))
    assert item.evidence_before == pytest.approx((0.625, 0.275, 0.1))
    assert item.reason == "Ulcer with 80 % of the evidence of 3 of 4 frames; next is polyp, 70 points behind."


def test_dropped_contexts_say_why(exam: Exam) -> None:
    normal, doubtful = example(exam).dropped
    assert normal.reason.startswith("Set aside as normal: normal with 90 % of the evidence of 2 of 2 frames")
    assert doubtful.reason.startswith("Set aside as too doubtful: ulcer with 40 %")


def test_the_contract_is_that_of_the_schema(exam: Exam) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA_FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    content = json.loads(example(exam).to_json())
    jsonschema.validate(content, schema)
    assert content["disclaimer"] == DISCLAIMER


def test_the_schema_file_is_what_the_dataclasses_say() -> None:
    assert SCHEMA_FILE.read_text() == json_schema(), "run: python -m dice_ce.method.summary"


SPOILED: dict[str, Callable[[Any], object]] = {
    "schema of another version": lambda c: c.update(schema="dice-ce/summary/1"),
    "no schema": lambda c: c.pop("schema"),
    "no disclaimer": lambda c: c.pop("disclaimer"),
    "no provenance": lambda c: c.pop("provenance"),
    "a count is missing": lambda c: c["counts"].pop("kept"),
    "a count below zero": lambda c: c["counts"].update(kept=-1),
    "more than certain": lambda c: c["items"][0].update(confidence=1.5),
    "unknown verdict": lambda c: c["items"][0].update(verdict="outranked"),
    "no keyframe": lambda c: c["items"][0].update(keyframe=None),
    "no digest": lambda c: c["provenance"]["bundle"].update(digest="abc"),
    "unknown grade": lambda c: c["reliability"]["ulcer"].update(grade="superb"),
    "no cases": lambda c: c["reliability"]["ulcer"].pop("cases"),
    "time before the exam": lambda c: c["items"][0]["keyframe"].update(seconds=-1),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_schema_and_reader_refuse_the_same(exam: Exam, spoil: Callable[[Any], object]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads(example(exam).to_json())
    spoil(content)
    with pytest.raises(InputError, match=r"summary: .*; make it again"):
        Summary.from_json(json.dumps(content))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json.loads(json_schema()))


def test_the_schema_allows_no_field_that_nobody_declared(exam: Exam) -> None:
    """What could tell who the patient is must not slip in."""
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads(example(exam).to_json())
    content["exam"]["path"] = "/home/somebody"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json.loads(json_schema()))


def test_a_summary_reads_back_as_it_was_written(exam: Exam) -> None:
    summary = example(exam)
    assert Summary.from_json(summary.to_json()) == summary
    assert Summary.from_json(summary.to_json()).to_json() == example(exam).to_json()


def test_every_label_says_how_well_it_is_recognised(exam: Exam) -> None:
    summary = example(exam)
    told = json.loads(summary.to_json())["reliability"]
    assert {label: row["grade"] for label, row in told.items()} == {
        "ulcer": "hardly recognised",
        "polyp": "not measured",
        "normal": "not measured",
    }
    assert (told["ulcer"]["recall"], told["ulcer"]["precision"]) == (0.0097, 0.25)
    assert (told["normal"]["recall"], told["normal"]["precision"]) == (None, None)
    assert "keyframe 1; hardly recognised" in summary_table(summary)
    assert findings_csv(summary).splitlines()[1].endswith(",hardly recognised")


def test_frames_that_went_unread_are_told_in_the_terminal(exam: Exam) -> None:
    summary = example(exam)
    assert "decoded" not in summary_table(summary)
    damaged = replace(summary, exam=replace(summary.exam, undecodable=(3, 4), doubtful=1))
    last = summary_table(damaged).splitlines()[-2:]
    assert last == [
        "  warning: 2 frames could not be decoded and went unread: 3, 4.",
        "  warning: 1 frame decoded after a damaged one may show its damage.",
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "other/1"}'])
def test_what_is_no_summary_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="summary: "):
        Summary.from_json(text)


def test_an_empty_candidate_set_gives_an_empty_summary(exam: Exam) -> None:
    report = ExtractionReport(10, 10, 0, (), 0, 0.0)
    vectors = np.zeros((10, 4), np.float16)
    features = Features(exam.frames, vectors, np.ones(10, np.bool_), "e", "0" * 64, report)
    screened = Screened(exam.frames, np.arange(10) * 2.0, vectors, np.zeros(10, np.float32))

    def look(_: Screened) -> np.ndarray:
        return np.empty((0, 3), np.float32)

    woven = weave_contexts(screened, Settings())
    judged = judge_contexts(diagnose_contexts(woven, look, LABELS, Settings()), Settings())
    summary = assemble(exam, features, screened, judged, PROVENANCE)
    assert summary.items == ()
    assert summary.counts.candidates == 0
    assert Summary.from_json(summary.to_json()) == summary


def test_activity_counts_every_candidate(exam: Exam) -> None:
    activity = example(exam).activity
    assert sum(activity.candidates) == 8
    assert (activity.first_seconds, activity.last_seconds) == (0.0, 18.0)
