"""The bundle inside the package, on a simulated exam it was not trained on: what `make demo` shows, in small."""

import re
from pathlib import Path

import numpy as np
import pytest

import dice_ce
from dice_ce.benchmark.frames import roc_auc
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import split_cases
from dice_ce.lab.simulator import simulate
from dice_ce.method.bundle import SHIPPED, shipped_bundles
from dice_ce.method.predict import predict_images
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12

TOLERANCE = 60.0


def test_most_lesions_of_a_simulated_exam_are_found_with_the_right_label(tmp_path: Path) -> None:
    labels = ["ulcer", "polyp", "parasite", "hematocele", "angioectasia", "intestinal fluid accumulation"]
    made = simulate(tmp_path / "exam.mp4", frames=500, seed=4711, lesions=labels)
    summary = dice_ce.summarize(tmp_path / "exam.mp4", bundle="simulated", profile="dense")
    found = [
        finding.label
        for finding in made.findings
        if any(
            item.label == finding.label and abs(item.keyframe.seconds - float(finding.seconds)) <= TOLERANCE
            for item in summary.items
        )
    ]
    assert len(found) >= 4, found
    assert len(summary.items) <= 20
    assert any(item.mark for item in summary.items), "the demonstration shows where the evidence lies"
    assert summary.exam.clock.source == "sidecar"


@pytest.mark.parametrize("name", shipped_bundles())
def test_profiles_of_shipped_bundles_say_what_was_measured_with_them(name: str) -> None:
    bundle = dice_ce.load_bundle(name)
    assert bundle.card.startswith(f"# Model card: `{name}`")
    for profile in bundle.profiles.values():
        assert re.search(r"detection rate, sensitivity, items[^:]*: 0\.\d+, [01]\.\d+, \d+", profile.about), (
            profile.about
        )


def test_the_shipped_bundle_says_what_it_is_not() -> None:
    assert shipped_bundles() == ["default", "simulated"]
    bundle = dice_ce.load_bundle()
    assert bundle.taxonomy.labels == VIDEOCAP_12
    card = bundle.card.replace("\n", " ")
    for words in (
        "intestinal fluid accumulation has none",
        "not a medical device",
        "CC BY 4.0",
        "Single frames, held-out cases",
    ):
        assert words in card
    for source in ("KVASIR", "SEE-AI", "AIIMS"):
        assert f"| {source} |" in card


def test_the_shipped_bundle_needs_nothing_but_the_package_and_is_small() -> None:
    files = [path for path in (SHIPPED / "default").iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 30e6
    assert {"bundle.json", "encoder.onnx", "diagnoser.onnx", "weights.npz", "MODEL_CARD.md"} <= {
        path.name for path in files
    }


def test_real_frames_of_test_cases_are_told_apart(real_data: Path) -> None:
    """A coarse check that the bundle belongs to its card: the recall on test cases, which it was not trained on."""
    pool = load_pool(real_data).frames
    splits = split_cases(pool)
    frames = [frame for frame in pool if splits.get(frame.case) == "test" and frame.labels][::20]
    scores = predict_images([frame.path for frame in frames], dice_ce.load_bundle())
    abnormal = np.array([frame.labels != (NORMAL,) for frame in frames])
    assert roc_auc(scores.score, abnormal) > 0.65
    assert (scores.score[abnormal] >= 0.5).mean() > 0.8


def test_the_shipped_bundle_knows_how_well_it_recognises_each_label() -> None:
    bundle = dice_ce.load_bundle()
    assert list(bundle.reliability) == list(VIDEOCAP_12)
    assert {label for label, row in bundle.reliability.items() if row.grade == "not measured"} == {
        "intestinal fluid accumulation"
    }
    for label, row in bundle.reliability.items():
        assert f"| {label} | {row.frames} ({row.cases}) | " in bundle.card


def test_its_reliability_was_measured_on_every_case(real_data: Path) -> None:
    """Each case was held out once, so the figures are of all frames of a label that have a case."""
    bundle, pool = dice_ce.load_bundle(), load_pool(real_data).frames
    for label in ("ulcer", "eminence lesion", "lymphoid follicular hyperplasia"):
        cases = [frame.case for frame in pool if frame.case and label in frame.labels]
        known = bundle.reliability[label]
        assert (len(cases), len(set(cases))) == (known.frames, known.cases)
        assert known.right <= known.called
