"""The server as a person meets it: worklist, frames, decisions, report."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import av
import numpy as np
import pytest

from tests.material import read_number
from tests.reader.conftest import Guest, Reader
from tests.reader.material import BUNDLE, write_result


def decode(jpeg: bytes) -> np.ndarray:
    """Pixels of a JPEG."""
    codec = av.CodecContext.create("mjpeg", "r")
    (frame,) = [*codec.decode(av.Packet(jpeg)), *codec.decode(None)][:1]
    return frame.to_ndarray(format="rgb24")


def test_a_whole_reading_from_worklist_to_signed_pdf(reader: Reader) -> None:
    me = reader.browser()
    (row,) = me.get("/api/worklist").json()["rows"]
    assert (row["name"], row["state"], row["findings"]) == ("exam", "new", 3)
    assert row["kinds"] == {"erosion": 1, "polyp": 1, "ulcer": 1}
    exam = row["id"]
    details = me.get(f"/api/exams/{exam}").json()
    assert [rung["context"] for rung in details["slider"]] == ["1.1", "1.2", "2.1", "2.2", "3.1"]
    assert details["slider_start"] == 3

    steps = [
        {"kind": "confirm", "finding": "1.1"},
        {"kind": "reject", "finding": "1.2"},
        {"kind": "relabel", "finding": "2.1", "label": "ulcer"},
        {"kind": "confirm", "finding": "2.1"},
        {"kind": "confirm", "finding": "2.2"},
        {"kind": "add", "frame": 50, "label": "diverticulum", "note": "wide neck <b>"},
        {"kind": "landmark", "name": "first_duodenal", "frame": 10},
        {"kind": "landmark", "name": "ileocaecal", "frame": 90},
        {"kind": "cleanliness", "value": {"overall": "adequate"}},
    ]
    for version, step in enumerate(steps):
        answer = me.act(exam, version, **step)
        assert answer.status_code == 200, answer.text
    review = answer.json()
    assert review["state"] == "in_work"
    assert review["undecided"] == 0
    assert review["measures"]["small_bowel_seconds"] == 80
    assert {one["id"]: one["position"] for one in review["findings"]}["own-6"] == 0.5
    made = next(one["text"] for one in review["report"] if one["name"] == "findings")
    assert "3. Ulcer at 00:01:00, at 62 % of small-bowel transit." in made
    assert "Unsigned draft" in me.get(f"/api/exams/{exam}/report.html").text

    signed = me.act(exam, len(steps), kind="sign").json()
    assert signed["state"] == "signed"
    (signature,) = signed["signatures"]
    pdf = me.get(f"/api/exams/{exam}/report.pdf").content
    assert pdf.startswith(b"%PDF-")
    assert hashlib.sha256(pdf).hexdigest() == signature["digest"]
    html = me.get(f"/api/exams/{exam}/report.html").text
    assert "Signed by" in html
    assert "wide neck &lt;b&gt;" in html
    assert html.count("data:image/jpeg") == 4


def test_findings_outside_the_small_bowel_say_so(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    marks = [("first_duodenal", 30), ("ileocaecal", 50)]
    steps = [{"kind": "landmark", "name": name, "frame": frame} for name, frame in marks]
    steps += [{"kind": "confirm", "finding": name} for name in ("1.1", "1.2", "2.1")]
    for version, step in enumerate(steps):
        review = me.act(exam, version, **step).json()
    made = next(one["text"] for one in review["report"] if one["name"] == "findings")
    assert made.splitlines() == [
        "1. Polyp at 00:00:20, before the small bowel.",
        "2. Ulcer at 00:00:40, at 50 % of small-bowel transit.",
        "3. Erosion at 00:01:00, beyond the ileo-caecal valve.",
    ]
    assert next(one["text"] for one in review["report"] if one["name"] == "procedure").endswith("over 1 min 39 s.")
    review = me.act(exam, len(steps), kind="landmark", name="first_duodenal", frame=60).json()
    assert review["measures"]["remarks"], "the landmarks contradict each other"
    made = next(one["text"] for one in review["report"] if one["name"] == "findings")
    assert made.splitlines()[0] == "1. Polyp at 00:00:20."


def test_a_signed_exam_is_listed_with_what_was_signed(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    me.act(exam, 0, kind="confirm", finding="1.1")
    me.act(exam, 1, kind="reject", finding="1.2")
    (row,) = me.get("/api/worklist").json()["rows"]
    assert (row["kinds"], row["undecided"]) == ({"erosion": 1, "polyp": 1}, 1)
    me.act(exam, 2, kind="sign", despite_undecided=True)
    (row,) = me.get("/api/worklist").json()["rows"]
    assert (row["kinds"], row["findings"], row["undecided"], row["predicted_seconds"]) == ({"polyp": 1}, 1, 0, 0)


def test_a_signed_report_stays_and_an_addendum_is_a_new_version(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    assert me.act(exam, 0, kind="sign").json()["error"]["code"] == "undecided"
    assert me.act(exam, 0, kind="sign", despite_undecided=True).status_code == 200
    first = me.get(f"/api/exams/{exam}/report.pdf").content
    assert me.act(exam, 1, kind="confirm", finding="1.1").json()["error"]["code"] == "signed"
    assert me.act(exam, 1, kind="undo").status_code == 409
    assert me.act(exam, 1, kind="addendum", reason="histology came back").json()["draft"] == 2
    assert me.act(exam, 2, kind="confirm", finding="1.1").status_code == 200
    draft = me.get(f"/api/exams/{exam}/report.html").text
    assert "histology came back" in draft
    assert "Unsigned draft" in draft
    assert me.act(exam, 3, kind="sign", despite_undecided=True).status_code == 200
    assert me.get(f"/api/exams/{exam}/report.pdf", params={"version": 1}).content == first
    assert me.get(f"/api/exams/{exam}/report.pdf", params={"version": 2}).content != first
    assert me.get(f"/api/exams/{exam}/report.pdf", params={"version": 3}).status_code == 404


def test_every_frame_is_exactly_the_one_asked_for(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    for frame in (0, 99, 57, 58, 59, 58, 57, 3):
        answer = me.get(f"/api/exams/{exam}/frames/{frame}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert read_number(decode(answer.content)) == frame
        tag = {"If-None-Match": answer.headers["etag"]}
        assert me.get(f"/api/exams/{exam}/frames/{frame}", headers=tag).status_code == 304
    small = decode(me.get(f"/api/exams/{exam}/frames/77", params={"size": "128"}).content)
    assert small.shape == (128, 128, 3)
    assert read_number(small) == 77
    strip = decode(me.get(f"/api/exams/{exam}/strip", params={"frames": "5,80,6"}).content)
    assert [read_number(strip[:, i * 128 : (i + 1) * 128]) for i in range(3)] == [5, 80, 6]
    assert me.get(f"/api/exams/{exam}/frames/100").json()["error"]["code"] == "not_found"


def test_the_audit_trail_says_who_did_what_with_which_software(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    me.act(exam, 0, kind="relabel", finding="1.1", label="erosion")
    me.act(exam, 1, kind="undo")
    relabel, undo = me.get(f"/api/exams/{exam}/events").json()["events"]
    assert relabel["about"] == "call polyp at 00:00:20 erosion"
    assert relabel["is_undone"]
    assert relabel["before"]["findings"]["1.1"]["label"] == "polyp"
    assert relabel["after"]["findings"]["1.1"]["label"] == "erosion"
    assert (relabel["bundle"], relabel["by"]) == (BUNDLE, me.get("/api/session").json()["user"])
    assert undo["about"] == "undo: call polyp at 00:00:20 erosion"


def test_a_repeated_key_acts_once_and_a_stale_version_is_told_the_present_state(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    for _ in range(2):
        assert me.act(exam, 0, "same-key-1", kind="confirm", finding="1.1").json()["version"] == 1
    stale = me.act(exam, 0, kind="reject", finding="1.1")
    assert stale.status_code == 409
    assert stale.json()["error"]["code"] == "conflict"
    assert stale.json()["review"]["version"] == 1


def test_without_the_video_keyframes_are_shown_and_the_rest_is_said(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    (results / "exam.mp4").unlink()
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam()
        video = me.get(f"/api/exams/{exam}").json()["video"]
        assert video["state"] == "missing"
        assert "not there" in video["message"]
        assert read_number(decode(me.get(f"/api/exams/{exam}/frames/20").content)) == 20
        assert me.get(f"/api/exams/{exam}/frames/21").json()["error"]["code"] == "video_missing"
        assert me.get(f"/api/exams/{exam}/timeline").json()["colour_state"] == "missing"
        me.act(exam, 0, kind="confirm", finding="1.1")
        assert me.get(f"/api/exams/{exam}/report.html").text.count("data:image/jpeg") == 1


def test_another_video_of_the_same_name_is_not_shown(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    write_result(tmp_path / "other", frames=90)
    (tmp_path / "other" / "exam.mp4").replace(results / "exam.mp4")
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam()
        assert me.get(f"/api/exams/{exam}/frames/21").json()["error"]["code"] == "video_missing"
        assert me.get(f"/api/exams/{exam}").json()["video"]["state"] == "different"


def test_a_renamed_video_is_found_by_its_content(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    (results / "exam.mp4").rename(results / "renamed.mp4")
    (results / "exam.clock.csv").rename(results / "renamed.clock.csv")
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        assert me.get("/api/worklist").json()["total"] == 1
        assert read_number(decode(me.get(f"/api/exams/{me.exam()}/frames/21").content)) == 21


def test_an_exam_without_results_can_be_read(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    with Reader(results / "exam.mp4", tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam()
        details = me.get(f"/api/exams/{exam}").json()
        assert not details["is_summarised"]
        assert details["knots"] == [[0, 0.0], [99, 99.0]]
        assert me.act(exam, 0, kind="add", frame=9, label="polyp").status_code == 200


def test_results_made_again_do_not_change_a_review_that_has_begun(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        exam = me.exam()
        me.act(exam, 0, kind="confirm", finding="1.1")
        path = results / "exam" / "summary.json"
        path.write_text(path.read_text().replace('"label": "polyp"', '"label": "parasite"'))
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        details = reader.browser().get(f"/api/exams/{exam}").json()
        assert details["has_newer_results"]
        assert next(one for one in details["review"]["findings"] if one["id"] == "1.1")["label"] == "polyp"


def test_colours_and_changes_come_from_the_video(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    timeline = wait_for_colours(me, exam)
    assert len(timeline["colours"]) == len(timeline["bin_frames"]) == 400
    assert timeline["bin_frames"][200] == 49
    assert all(one.startswith("#") for one in timeline["colours"])


def wait_for_colours(me: Guest, exam: str) -> dict[str, list[str]]:
    """Ask until the background work is done; it takes a moment."""
    for _ in range(10_000):
        timeline = me.get(f"/api/exams/{exam}/timeline").json()
        if timeline["colour_state"] != "working":
            assert timeline["colour_state"] == "ready"
            return timeline
    pytest.fail("the colours never came")


def test_what_is_still_being_read_is_shown_and_cannot_be_signed(tmp_path: Path) -> None:
    results = write_result(tmp_path / "results")
    summary = results / "exam" / "summary.json"
    facts = json.loads(summary.read_text())
    facts["exam"]["read"] = 0.5
    summary.write_text(json.dumps(facts))
    with Reader(results, tmp_path / "reviews.sqlite") as reader:
        me = reader.browser()
        refused = me.act(me.exam(), 0, kind="sign", despite_undecided=True)
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "unfinished"
        assert "only 50 % of the exam has been read" in refused.json()["error"]["message"]
