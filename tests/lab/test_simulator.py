"""The simulated exam: repeatable, still and moving in turn, black outside its field, and whole or absent."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from dice_ce.errors import StoreError
from dice_ce.lab.simulator import (
    CapsulePath,
    ExamScript,
    Field,
    Scene,
    View,
    build_scene,
    capsule_path,
    render,
    simulate,
)
from dice_ce.lab.simulator.scene import field_mask
from dice_ce.lab.simulator.view import look
from dice_ce.lab.simulator.write import burn, text_pixels

Image = NDArray[np.uint8]

SIZE, FRAMES = 96, 40


@pytest.fixture(scope="module")
def scene() -> Scene:
    return build_scene(SIZE, seed=1)


@pytest.fixture(scope="module")
def path() -> CapsulePath:
    return capsule_path(ExamScript(frames=FRAMES, seed=1))


@pytest.fixture(scope="module")
def images(scene: Scene, path: CapsulePath) -> list[Image]:
    return [render(scene, path.at(frame), frame) for frame in range(FRAMES)]


def digest(images: list[Image]) -> str:
    return hashlib.sha256(b"".join(image.tobytes() for image in images)).hexdigest()


def decoded(video: Path) -> list[Image]:
    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24").astype(np.uint8) for frame in container.decode(video=0)]


def test_the_same_seed_gives_the_same_pixels(images: list[Image], path: CapsulePath) -> None:
    again = build_scene(SIZE, seed=1)
    assert digest([render(again, path.at(frame), frame) for frame in range(FRAMES)]) == digest(images)


def test_another_seed_gives_another_exam(images: list[Image]) -> None:
    other, other_path = build_scene(SIZE, seed=2), capsule_path(ExamScript(frames=FRAMES, seed=2))
    assert digest([render(other, other_path.at(frame), frame) for frame in range(FRAMES)]) != digest(images)


def test_video_and_clock_agree(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    exam = simulate(tmp_path / "exam.mp4", frames=FRAMES, size=SIZE, progress=lambda *c: calls.append(c))
    assert len(decoded(exam.video)) == FRAMES == len(exam.path)
    assert exam.clock == tmp_path / "exam.clock.csv"
    assert exam.clock.read_text() == "frame,seconds\n" + "".join(f"{i},{i}\n" for i in range(FRAMES))
    assert calls == [(done, FRAMES) for done in range(1, FRAMES + 1)]
    beside = ["exam.clock.csv", "exam.findings.csv", "exam.mp4", "exam.truth.csv"]
    assert sorted(file.name for file in tmp_path.iterdir()) == beside


@pytest.mark.parametrize(
    ("exam_fps", "seconds"),
    [(0.5, ["0", "2", "4", "6"]), (2, ["0", "0.5", "1", "1.5"]), (0.1, ["0", "10", "20", "30"])],
)
def test_the_clock_is_exact(tmp_path: Path, exam_fps: float, seconds: list[str]) -> None:
    exam = simulate(tmp_path / "exam.mp4", frames=4, size=SIZE, exam_fps=exam_fps)
    assert exam.clock.read_text().splitlines()[1:] == [f"{i},{s}" for i, s in enumerate(seconds)]


@pytest.mark.parametrize("field", ["octagon", "round"])
def test_outside_the_field_is_black(tmp_path: Path, field: Field) -> None:
    seen = field_mask(SIZE, field)
    pose = capsule_path(ExamScript(frames=1)).at(0)
    assert not render(build_scene(SIZE, field=field), pose)[~seen].any()
    exam = simulate(tmp_path / "exam.mp4", frames=5, size=SIZE, field=field, burn_in=False)
    for image in decoded(exam.video):
        assert image[~seen].mean() < 4
        assert image[:6, :6].max() < 16  # far from the edge, where compression leaves nothing
        assert image[seen].mean() > 40


@pytest.mark.parametrize("field", ["octagon", "round"])
def test_burnt_in_text_is_complete_and_outside_the_field(field: Field) -> None:
    image, seen = np.zeros((336, 336, 3), dtype=np.uint8), field_mask(336, field)
    burn(image, seen, Fraction(3 * 3600 + 25 * 60 + 45))
    white = image[..., 0] == 255
    assert not white[seen].any()
    for text, corner in (
        ("DEMO PATIENT", white[:40, :168]),
        ("2000-01-01", white[:40, 168:]),
        ("03:25:45", white[-40:]),
    ):
        assert corner.sum() == text_pixels(text).sum()


def test_burnt_in_text_reaches_the_video(tmp_path: Path) -> None:
    plain, burnt = (
        decoded(simulate(tmp_path / f"{burn_in}.mp4", frames=1, size=SIZE, burn_in=burn_in).video)[0]
        for burn_in in (False, True)
    )
    assert burnt[:10, :20].max() > 150
    assert plain[:10, :15].max() < 40


def test_letters_are_five_by_seven() -> None:
    assert text_pixels("DEMO PATIENT").shape == (7, 12 * 6 - 1)
    assert text_pixels("T").astype(int).tolist() == [[1, 1, 1, 1, 1], *[[0, 0, 1, 0, 0]] * 6]


def test_the_capsule_stands_still_and_moves(images: list[Image], path: CapsulePath) -> None:
    change = np.array([np.abs(b.astype(int) - a).mean() for a, b in pairwise(images)])
    still = path.still[1:]
    assert still.mean() >= 0.3
    assert change[still].max() < 2.5  # sensor noise and wobble
    assert np.median(change[~still]) > 2 * change[still].max()


@pytest.mark.parametrize("frames", [40, 1000, 20_000])
def test_the_share_of_standing_still_holds_at_any_length(frames: int) -> None:
    path = capsule_path(ExamScript(frames=frames))
    assert 0.35 < path.still.mean() < 0.5
    assert np.all(np.diff(path.depth) >= 0)
    assert path.speed.max() > 4 * np.median(path.speed[~path.still])  # it rushes, too


def test_a_layer_knows_which_point_of_the_wall_it_paints(scene: Scene, path: CapsulePath) -> None:
    class Spot:
        def paint(self, image: Image, view: View) -> None:
            image[np.hypot(view.angle - angle, view.ahead - ahead) < 0.15] = (0, 0, 255)

    pose = path.at(0)
    view = look(scene.mucosa, scene.optics, pose)
    angle, ahead = view.angle[30, 40], view.ahead[30, 40]
    image = render(replace(scene, layers=(Spot(),)), replace(pose, speed=0.0, defocus=0.0))
    assert image[30, 40, 2] > 200
    assert image[30, 40, 0] < 50


def test_points_of_the_wall_are_found_where_they_are_seen(scene: Scene, path: CapsulePath) -> None:
    view = look(scene.mucosa, scene.optics, path.at(20))
    y, x = (grid.ravel() for grid in np.mgrid[10:SIZE:15, 10:SIZE:15])
    angle = view.angle[y, x] + np.float32(view.pose.roll)
    found_x, found_y, _, in_sight = view.on_wall(angle, view.ahead[y, x])
    miss = np.hypot(found_x - x - 0.5, found_y - y - 0.5)
    assert in_sight.mean() > 0.9
    assert np.median(miss) < 1.5


def test_painting_the_skin_shows(scene: Scene, path: CapsulePath) -> None:
    pose = path.at(0)
    pale, red = (
        replace(scene, mucosa=replace(scene.mucosa, skin=np.full_like(scene.mucosa.skin, (128, blush, 0, 0))))
        for blush in (0, 31)
    )
    assert render(red, pose)[..., 1].mean() < render(pale, pose)[..., 1].mean()


def test_an_unknown_field_names_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"square.*octagon, round"):
        simulate(tmp_path / "exam.mp4", frames=2, size=SIZE, field="square")  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("size", [97, 64])
def test_a_size_that_cannot_be_encoded_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="even and at least 80"):
        simulate(tmp_path / "exam.mp4", size=size)


def test_a_target_that_cannot_be_written_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"exam\.mp4: cannot be written"):
        simulate(tmp_path / "file" / "exam.mp4", frames=2, size=SIZE)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interrupted_write_keeps_what_was_there(tmp_path: Path) -> None:
    def give_up(done: int, total: int) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "exam.mp4"
    simulate(target, frames=3, size=SIZE)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        simulate(target, frames=FRAMES, size=SIZE, progress=give_up)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
