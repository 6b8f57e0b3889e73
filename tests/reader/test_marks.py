"""The mark of where the evidence lies: that of the results, or that of the bundle which made them."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from dice_ce.method.beyond.where import mark_frames
from dice_ce.method.bundle import load_bundle
from dice_ce.method.summary import Identity, Summary
from dice_ce.reader.marks import Marker, NoMarkError
from tests.material import write_video
from tests.reader.conftest import Reader
from tests.reader.material import MARK, make_summary, open_numbered


def made_by(name: str, digest: str) -> Summary:
    summary = make_summary()
    return replace(summary, provenance=replace(summary.provenance, bundle=Identity(name, digest)))


def test_the_mark_of_a_keyframe_is_that_of_the_results_and_needs_no_bundle(reader: Reader) -> None:
    me = reader.browser()
    answer = me.get(f"/api/exams/{me.exam()}/frames/20/evidence", params={"label": "polyp"})
    assert answer.json() == {"label": "polyp", "mark": asdict(MARK)}


@pytest.mark.parametrize(("frame", "label"), [(21, "polyp"), (20, "ulcer")], ids=["another frame", "another label"])
def test_another_bundle_than_that_of_the_results_is_not_asked(reader: Reader, frame: int, label: str) -> None:
    me = reader.browser()
    answer = me.get(f"/api/exams/{me.exam()}/frames/{frame}/evidence", params={"label": label})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_mark")
    assert "--bundle" in answer.json()["error"]["message"]


def test_words_of_one_s_own_have_no_mark(reader: Reader) -> None:
    me = reader.browser()
    answer = me.get(f"/api/exams/{me.exam()}/frames/20/evidence", params={"label": "diverticulum"})
    assert answer.json()["error"]["code"] == "not_found"


def test_any_frame_is_marked_by_the_shipped_bundle_of_the_results_as_keyframes_are(tmp_path: Path) -> None:
    bundle = load_bundle("simulated")
    image = np.full((224, 224, 3), (150, 90, 70), np.uint8)
    image[30:70, 140:190] = (250, 250, 210)
    ulcer = bundle.taxonomy.index("ulcer")
    with open_numbered(write_video(tmp_path / "spot.mp4", [image] * 2)) as exam:
        found = Marker().mark(exam, made_by(bundle.name, bundle.digest), 1, "ulcer")
        assert found == mark_frames(exam, {1: ulcer}, bundle)[1]


def test_a_bundle_that_cannot_tell_says_so(tmp_path: Path, bundle_folder: Path) -> None:
    bundle = load_bundle(bundle_folder)
    with (
        open_numbered(write_video(tmp_path / "grey.mp4", [np.full((32, 32, 3), 90, np.uint8)])) as exam,
        pytest.raises(NoMarkError, match="cannot tell where it looks"),
    ):
        Marker(str(bundle_folder)).mark(exam, made_by(bundle.name, bundle.digest), 0, "ulcer")
