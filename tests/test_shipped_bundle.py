"""The bundle inside the package, on a simulated exam it was not trained on: what `make demo` shows, in small."""

from pathlib import Path

import dice_ce
from dice_ce.bundle import shipped_bundles
from dice_ce.simulator import simulate
from dice_ce.taxonomy import VIDEOCAP_12

TOLERANCE = 60.0


def test_most_lesions_of_a_simulated_exam_are_found_with_the_right_label(tmp_path: Path) -> None:
    labels = ["ulcer", "polyp", "parasite", "hematocele", "angioectasia", "intestinal fluid accumulation"]
    made = simulate(tmp_path / "exam.mp4", frames=500, seed=4711, lesions=labels)
    summary = dice_ce.summarize(tmp_path / "exam.mp4")
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
    assert summary.exam["clock"]["source"] == "sidecar"


def test_the_shipped_bundle_says_what_it_is_not() -> None:
    assert shipped_bundles() == ["simulated"]
    bundle = dice_ce.load_bundle()
    assert bundle.taxonomy.labels == VIDEOCAP_12
    assert "never seen a real" in bundle.card.replace("\n", " ")
    assert "not a medical device" in bundle.card
