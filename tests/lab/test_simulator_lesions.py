"""The lesions of a simulated exam: all classes can be seen, and the truth says what was painted."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dice_ce.lab.simulator import (
    LESIONS,
    ExamScript,
    Pose,
    Scene,
    Shot,
    SimulatedExam,
    build_scene,
    capsule_path,
    lesion_frames,
    render,
    shoot,
    simulate,
)
from dice_ce.lab.simulator.lesions import make_lesion
from dice_ce.lab.simulator.plan import in_sight, wanted_labels
from dice_ce.lab.simulator.scene import LEAST_DRAWN, LEAST_VISIBLE
from dice_ce.lab.simulator.view import look
from dice_ce.taxonomy import NORMAL

Image = NDArray[np.uint8]

SIZE, FRAMES_EACH = 96, 60
RAISED = ("eminence lesion", "polyp")


@pytest.fixture(scope="module")
def exam(tmp_path_factory: pytest.TempPathFactory) -> SimulatedExam:
    """Every class once."""
    target = tmp_path_factory.mktemp("exam") / "exam.mp4"
    return simulate(target, frames=FRAMES_EACH * len(LESIONS), size=SIZE, seed=1, exam_fps=0.3, lesions=LESIONS)


@pytest.fixture(scope="module")
def truth(exam: SimulatedExam) -> list[dict[str, str]]:
    with exam.truth_file.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def scene() -> Scene:
    return replace(build_scene(SIZE, seed=1), layers=())


def posed(scene: Scene, label: str, seed: int = 0) -> tuple[Scene, Pose, Shot]:
    """A sharp view of such a lesion."""
    rng, path = np.random.default_rng(seed), capsule_path(ExamScript(frames=500, seed=1))
    while True:
        pose = replace(path.at(int(rng.integers(500))), speed=0.0, defocus=0.0)
        spot = in_sight(look(scene.mucosa, scene.optics, pose), rng)
        if spot is not None:
            ill = replace(scene, lesions=(make_lesion(label, rng, *spot),))
            shot = shoot(ill, pose)
            if shot.glimpses and shot.glimpses[0].visible > 0.02:
                return ill, pose, shot


def change(image: Image, other: Image) -> NDArray[np.intp]:
    return np.abs(image.astype(int) - other).max(axis=-1)


def test_the_classes_are_the_eleven_of_videocap() -> None:
    assert len(set(LESIONS)) == 11
    assert NORMAL not in LESIONS


def test_every_class_can_be_placed_and_is_clearly_seen(exam: SimulatedExam, truth: list[dict[str, str]]) -> None:
    assert sorted(finding.label for finding in exam.findings) == sorted(LESIONS)
    for finding in exam.findings:
        assert float(truth[finding.frame]["visible"]) > 0.015, finding


def test_the_files_are_exact(exam: SimulatedExam, truth: list[dict[str, str]]) -> None:
    lines = exam.findings_file.read_text().splitlines()
    assert exam.findings_file.name == "exam.findings.csv"
    assert lines[0] == "finding_id,label,seconds,frame,first_frame,last_frame"
    assert lines[1:] == [
        f"{f.finding_id},{f.label},{_text(f.seconds)},{f.frame},{f.first},{f.last}" for f in exam.findings
    ]
    assert exam.truth_file.name == "exam.truth.csv"
    assert exam.truth_file.read_text().startswith("frame,label,finding_id,visible\n0,")
    assert [int(row["frame"]) for row in truth] == list(range(len(exam.path)))
    finding = {frame: f for f in exam.findings for frame in f.frames}
    for frame, row in enumerate(truth):
        expected = (finding[frame].label, finding[frame].finding_id) if frame in finding else (NORMAL, "")
        assert (row["label"], row["finding_id"]) == expected
        assert len(row["visible"]) == 5
        assert (float(row["visible"]) >= LEAST_VISIBLE) == (frame in finding)


def _text(seconds: Fraction) -> str:
    return str(seconds) if seconds.denominator == 1 else repr(float(seconds))


def test_a_finding_is_dated_by_its_best_view(exam: SimulatedExam, truth: list[dict[str, str]]) -> None:
    for finding in exam.findings:
        shares = [float(truth[frame]["visible"]) for frame in finding.frames]
        assert float(truth[finding.frame]["visible"]) == max(shares)
        assert (finding.first, finding.last) == (finding.frames[0], finding.frames[-1])
        assert finding.seconds == finding.frame / Fraction("0.3")
    assert [f.finding_id for f in exam.findings] == [f"F{i:03d}" for i in range(1, 12)]
    assert [f.first for f in exam.findings] == sorted(f.first for f in exam.findings)


def test_the_same_seed_gives_the_same_findings(tmp_path: Path) -> None:
    a, b = (
        simulate(tmp_path / name / "exam.mp4", frames=60, size=SIZE, seed=3, lesions=["polyp", "hematocele"])
        for name in "ab"
    )
    assert a.findings == b.findings
    for kind in ("video", "findings_file", "truth_file"):
        assert getattr(a, kind).read_bytes() == getattr(b, kind).read_bytes()
    assert sorted(file.name for file in a.video.parent.iterdir()) == [
        "exam.clock.csv",
        "exam.findings.csv",
        "exam.mp4",
        "exam.truth.csv",
    ]


@pytest.mark.parametrize("label", LESIONS)
def test_the_truth_is_the_painted_difference(scene: Scene, label: str) -> None:
    _, pose, shot = posed(scene, label)
    (glimpse,) = shot.glimpses
    assert glimpse.lesion.label == label
    assert glimpse.visible == pytest.approx(glimpse.mask.sum() / scene.field.sum())
    assert not glimpse.mask[~scene.field].any()
    difference = change(shot.image, render(scene, pose))
    assert difference[glimpse.mask].mean() > 8
    elsewhere = scene.field & ~_grown(glimpse.mask)
    assert difference[glimpse.mask].mean() > 3 * difference[elsewhere].mean()
    if label not in RAISED:  # what stands into the lumen is lit more, so that the exposure of all changes
        assert (difference[elsewhere] == 0).mean() > 0.8


def _grown(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """With the blurred margin of a lesion."""
    wide = np.pad(mask, 3)
    return np.any([np.roll(wide, (y, x), (0, 1)) for y in range(-3, 4) for x in range(-3, 4)], axis=0)[3:-3, 3:-3]


@pytest.mark.parametrize("label", LESIONS)
def test_where_the_truth_says_nothing_nothing_is_painted(scene: Scene, label: str) -> None:
    ill, pose, _ = posed(scene, label)
    unseen = 0
    for turn in np.linspace(0.0, 2 * np.pi, 12):
        other = replace(pose, roll=pose.roll + float(turn), speed=0.3)
        shot = shoot(ill, other)
        if not shot.glimpses:
            unseen += 1
            assert np.array_equal(shot.image, render(scene, other))
        else:
            assert shot.glimpses[0].visible >= LEAST_DRAWN
            assert not np.array_equal(shot.image, render(scene, other))
    assert unseen > 0


def test_a_lesion_far_away_changes_nothing(scene: Scene) -> None:
    for label in LESIONS:
        ill, pose, _ = posed(scene, label)
        for travelled in (-8.0, 6.0):
            there = replace(pose, depth=pose.depth + travelled)
            assert np.array_equal(render(ill, there), render(scene, there))


def test_without_lesions_all_is_normal_and_the_pixels_are_those_of_the_plain_scene(tmp_path: Path) -> None:
    none, short = (simulate(tmp_path / f"{n}.mp4", frames=30, size=SIZE, seed=2, lesions=n) for n in (0, None))
    assert none.findings == short.findings == ()
    assert none.video.read_bytes() == short.video.read_bytes()
    assert none.findings_file.read_text().count("\n") == 1
    assert none.truth_file.read_text().splitlines()[1:] == [f"{frame},normal,,0.000" for frame in range(30)]


def test_an_unknown_label_names_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'tumour'.*ulcer, erosion.*intestinal fluid accumulation"):
        simulate(tmp_path / "exam.mp4", frames=20, size=SIZE, lesions=["ulcer", "tumour"])
    with pytest.raises(ValueError, match=r"'tumour'.*ulcer"):
        next(lesion_frames("tumour", 1))
    for wrong in ("ulcer", -1):
        with pytest.raises(ValueError, match="lesions must"):
            simulate(tmp_path / "exam.mp4", frames=20, size=SIZE, lesions=wrong)
    assert not any(tmp_path.iterdir())


def test_classes_are_drawn_evenly() -> None:
    rng = np.random.default_rng(0)
    assert len(wanted_labels(None, 3000, rng)) == 12
    labels = wanted_labels(25, 100, rng)
    assert {labels.count(label) for label in LESIONS} == {2, 3}
    assert sorted(wanted_labels(["polyp", "ulcer", "polyp"], 10, rng)) == ["polyp", "polyp", "ulcer"]


def test_training_images_are_repeatable_and_of_both_shapes() -> None:
    first, second = (list(lesion_frames("ulcer", 4, size=SIZE, seed=5)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert {image.shape for image in first} == {(SIZE, SIZE, 3)}
    black = [(image == 0).all(axis=-1).sum() for image in first]
    assert black[0] == pytest.approx(black[2], rel=0.05) != pytest.approx(black[1], rel=0.05)
    other = next(lesion_frames("ulcer", 1, size=SIZE, seed=6))
    assert not np.array_equal(first[0], other)


def test_training_images_without_lesions() -> None:
    images = list(islice(lesion_frames(NORMAL, 9, size=SIZE, seed=5, field="round"), 3))
    assert len({image.tobytes() for image in images}) == 3
