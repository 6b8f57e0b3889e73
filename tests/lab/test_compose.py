"""Composed exams: what is planned is what the video shows, and nothing crosses splits."""

from __future__ import annotations

import colorsys
import csv
import json
import shutil
import zlib
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean

import av
import cv2
import numpy as np
import pytest

from dice_ce.datasets.folder import load_dataset
from dice_ce.datasets.galar import import_galar
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.splits import split_cases
from dice_ce.datasets.tables import Box, Event, LabelledFrame, Timeline
from dice_ce.errors import InputError, UsageError
from dice_ce.exam.field import FULL, Field
from dice_ce.lab.compose import ExamPlan, compose, plan_exams, plan_facts, plan_text
from dice_ce.lab.compose.casting import draw_window, follows
from dice_ce.lab.compose.chart import draw_plan
from dice_ce.lab.compose.life import Episode, Motion, walk
from dice_ce.lab.compose.playing import Played, keep_in_sight, play_reel
from dice_ce.lab.compose.render import look
from dice_ce.lab.compose.reported import NEARBY, best_views, gather, report
from dice_ce.lab.compose.sightings import APART, FEWEST, Sighting, fit_sightings, organs
from dice_ce.lab.compose.windows import SourceImages

SIDE = 64
CLASSES = {
    "Normal": "normal",
    "Ulcer": "ulcer",
    "Erosion": "erosion",
    "Bleeding": "hematocele",
    "Polyp": "polyp",
    "Worms": "parasite",
    "Foreign Body": "",
}
"""Folders of the pool; polyps have only SEE-AI images, worms only AIIMS ones."""


def colour(name: str) -> tuple[int, int, int]:
    """Every class has a hue of its own, which light cannot change."""
    red, green, blue = colorsys.hsv_to_rgb(list(CLASSES).index(name) / len(CLASSES), 0.75, 0.7)
    return round(blue * 255), round(green * 255), round(red * 255)


def write_pool(folder: Path) -> Path:
    """Plain coloured images in the layout of the Capsule Vision challenge."""

    def add(name: str, source: str, file: str) -> None:
        path = folder / "capsule-vision-2024" / "training" / name / source / file
        path.parent.mkdir(parents=True, exist_ok=True)
        grain = np.random.default_rng(zlib.crc32(f"{name} {file}".encode())).integers(-9, 10, (SIDE, SIDE, 1))
        image = (np.array(colour(name)) + grain).clip(0, 255).astype(np.uint8)
        assert cv2.imwrite(str(path), image, [cv2.IMWRITE_JPEG_QUALITY, 95])

    for case in range(6):
        for number in (*range(100, 140), *range(900, 915)):
            add("Normal", "KVASIR", f"{case:016x}_{number}.jpg")
        for name, first in (("Erosion", 200), ("Ulcer", 300), ("Bleeding", 400)):
            for number in (*range(first, first + 12), first + 50):
                add(name, "KVASIR", f"{case:016x}_{number}.jpg")
        for number in range(3):
            add("Foreign Body", "KVASIR", f"{case:016x}_{700 + 10 * number}.jpg")
        for i, name in enumerate(("Normal", "Erosion", "Polyp")):
            for number in range(6):
                add(name, "SEE-AI", f"image{500 * case + 30 + 100 * i + number:05d}.jpg")
    for case in range(1, 4):
        for number in range(4):
            add("Worms", "AIIMS", f"worm{case}_{number}.jpg")
    return folder


def some_timelines(count: int = 6) -> list[dict[str, object]]:
    """Exams of 6,000 frames: erosions that come back, an ulcer, a polyp, and blood for a third of the exam."""
    videos = []
    for video in range(1, count + 1):
        shift = 10 * video
        events = [
            (0, 40, ["mouth"]),
            (41, 700, ["stomach"]),
            (800, 801, ["small intestine", "ulcer"]),
            *((1000 + 120 * i + shift, 1006 + 120 * i + shift, ["small intestine", "erosion"]) for i in range(5)),
            (2500, 4500, ["small intestine", "blood"]),
            (5000, 5005, ["colon", "polyp"]),
            (5400, 5402, ["colon", "erosion"]),
            (5403, 5999, ["colon"]),
        ]
        listed = [{"start": first, "end": last, "label": words} for first, last, words in events]
        videos.append({"video_id": str(video), "events": listed})
    return videos


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small pool, and timelines beside it."""
    folder = write_pool(tmp_path_factory.mktemp("data"))
    (folder / "events.json").write_text(json.dumps({"videos": some_timelines()}))
    return folder


@pytest.fixture(scope="session")
def plans(data: Path) -> tuple[ExamPlan, ...]:
    return planned(data)


def planned(data: Path, **changes: int) -> tuple[ExamPlan, ...]:
    wanted = {"exams": 12, "frames_per_exam": 1000, "seed": 0} | changes
    return plan_exams(load_pool(data).frames, import_galar(data / "events.json").timelines, **wanted)


def composed(data: Path, out: Path, **changes: object) -> Path:
    wanted: dict[str, object] = {"exams": 3, "frames_per_exam": 240, "seed": 0, "size": SIDE, "workers": 1} | changes
    compose(data, data / "events.json", out, **wanted)  # type: ignore[arg-type]
    return out


@pytest.fixture(scope="session")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return composed(data, tmp_path_factory.mktemp("made") / "exams")


def truth(video: Path) -> list[dict[str, str]]:
    with video.with_suffix(".truth.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is seen when


def timeline(*events: tuple[int, int, str], frames: int = 10_000) -> Timeline:
    return Timeline("x", (*(Event(a, b, (word,)) for a, b, word in events), Event(frames - 1, frames - 1, ("colon",))))


def test_an_event_keeps_its_order_and_its_place() -> None:
    seen = fit_sightings(timeline((1000, 1099, "ulcer"), (5000, 5099, "polyp"), (9000, 9099, "ulcer")), 2000)
    assert [one.label for one in seen] == ["ulcer", "polyp", "ulcer"]
    assert [one.frames for one in seen] == [20, 20, 20]
    assert [one.first + one.frames / 2 for one in seen] == pytest.approx([210, 1010, 1810], abs=1)


def test_even_one_real_frame_is_seen_for_a_few_frames() -> None:
    (one,) = fit_sightings(timeline((5000, 5000, "ulcer")), 1000)
    assert one.frames == FEWEST


def test_every_coming_back_that_frames_can_tell_apart_is_kept() -> None:
    events = [(1000 + 100 * i, 1009 + 100 * i, "erosion") for i in range(20)]
    seen = fit_sightings(timeline(*events), 5000)
    assert len(seen) == 20
    assert all(after.first - before.stop >= APART for before, after in pairwise(seen))
    flicker = [(1000 + 2 * i, 1000 + 2 * i, "erosion") for i in range(20)]
    assert len(fit_sightings(timeline(*flicker), 5000)) == 1


def test_blood_in_most_of_an_exam_is_cut_down() -> None:
    events = [(1000 * i, 1000 * i + 900, "blood") for i in range(10)]
    seen = fit_sightings(timeline(*events), 4000)
    assert len(seen) == 10
    assert sum(one.frames for one in seen) == pytest.approx(0.2 * 4000, abs=10)
    assert max(one.frames for one in fit_sightings(timeline((0, 9000, "blood")), 4000)) == 0.03 * 4000


def test_crowded_events_push_each_other_aside_and_stay_in_the_exam() -> None:
    events = [(9900 + 5 * i, 9900 + 5 * i, word) for i, word in enumerate(("ulcer", "polyp", "erosion", "blood") * 4)]
    seen = fit_sightings(timeline(*events), 2000)
    assert all(after.first - before.stop >= APART for before, after in pairwise(seen))
    assert seen[0].first >= 0
    assert seen[-1].stop <= 2000


def test_more_events_than_fit_are_joined_with_their_nearest() -> None:
    events = [(50 * i, 50 * i + 4, "erosion") for i in range(199)]
    seen = fit_sightings(timeline(*events), 1000)
    assert len(seen) == 0.1 * 1000 / FEWEST
    assert sum(one.frames for one in seen) <= 0.2 * 1000


def test_of_two_lesions_at_once_the_more_important_names_the_event() -> None:
    (one,) = fit_sightings(Timeline("x", (Event(0, 9, ("blood", "ulcer")), Event(10, 99, ("colon",)))), 500)
    assert one.label == "ulcer"


def test_an_exam_without_lesions_shows_none() -> None:
    assert fit_sightings(timeline((0, 50, "stomach")), 1000) == ()


def test_the_organ_is_the_last_one_entered() -> None:
    named = organs(Timeline("x", (Event(2, 3, ("stomach",)), Event(6, 9, ("colon", "polyp")))), 20)
    assert named[:4] == ("",) * 4
    assert named[4:12] == ("stomach",) * 8
    assert named[12:] == ("colon",) * 8


# Which frames play it


def labelled(number: int | None, name: str = "", boxes: tuple[Box, ...] = ()) -> LabelledFrame:
    return LabelledFrame(Path(name or f"{number}.jpg"), "KVASIR", "a", number, ("ulcer",), ("Ulcer",), boxes)


def test_a_run_plays_frame_by_frame_in_order() -> None:
    reel = tuple(labelled(number) for number in range(50))
    places, _, in_run = play_reel(reel, np.ones(40), np.random.default_rng(0))
    assert places.tolist() == list(range(40))
    assert in_run.all()


def test_nothing_plays_while_the_capsule_rests() -> None:
    pace = np.array([1.0] * 5 + [0.0] * 20 + [1.0] * 5)
    places, _, _ = play_reel(tuple(labelled(number) for number in range(50)), pace, np.random.default_rng(0))
    assert len(set(places[4:25])) == 1
    assert places[-1] == 9


def test_a_lone_still_is_looked_at_for_a_while() -> None:
    reel = tuple(labelled(None, f"image{i:05d}.jpg") for i in range(9))
    places, progress, in_run = play_reel(reel, np.ones(60), np.random.default_rng(0))
    assert (np.diff(places) >= 0).all()
    assert 3 <= len(set(places)) <= 9
    assert not in_run.any()
    assert 0 <= progress.min() < progress.max() <= 1


def test_a_lesion_is_shown_by_whole_runs_from_their_start() -> None:
    reel = tuple(labelled(number) for number in (*range(20), *range(100, 120)))
    for seed in range(10):
        window = draw_window(reel, 30, np.random.default_rng(seed))
        assert window in (reel[:20], reel[20:])


def test_stretches_cover_every_frame_once_and_each_has_one_case(plans: tuple[ExamPlan, ...]) -> None:
    for plan in plans:
        assert [stretch.first for stretch in plan.stretches] == [0, *(stretch.stop for stretch in plan.stretches[:-1])]
        assert plan.stretches[-1].stop == len(plan) == 1000
        for stretch in plan.stretches:
            shown = {plan.image(frame).case for frame in range(stretch.first, stretch.stop)}
            assert shown == {stretch.case}


def test_runs_are_kept_in_order(plans: tuple[ExamPlan, ...]) -> None:
    followed = 0
    for plan in plans:
        for stretch in plan.stretches:
            images = [plan.image(frame) for frame in range(stretch.first, stretch.stop)]
            changes = [(a, b) for a, b in pairwise(images) if a != b and a.number is not None]
            # Back only from the last image of a case to its first: the reel starts again, or began in the middle.
            backwards = sum((b.number or 0) < (a.number or 0) for a, b in changes)
            assert backwards <= 1 + len(images) // len(stretch.reel)
            followed += sum(follows(a, b) for a, b in changes)
    assert followed > 1000


def test_no_case_and_no_timeline_crosses_splits(data: Path, plans: tuple[ExamPlan, ...]) -> None:
    cases = split_cases(load_pool(data).frames)
    sides: dict[str, set[str]] = defaultdict(set)
    for plan in (*plans, *planned(data, seed=7, exams=30)):
        sides[plan.patient_id].add(plan.split)
        for image in plan.played.images:
            assert cases[image.case] == plan.split
    assert len(sides) == 6
    assert all(len(found) == 1 for found in sides.values())


def test_an_exam_shows_one_make_where_it_has_the_frames(data: Path) -> None:
    plans = planned(data, exams=40, frames_per_exam=300)
    assert {plan.make for plan in plans} == {"KVASIR", "SEE-AI"}
    for plan in plans:
        for stretch in plan.stretches:
            if plan.make == "KVASIR" and stretch.label in ("ulcer", "erosion", "hematocele", ""):
                assert stretch.source == "KVASIR"
            if stretch.label == "polyp":
                assert stretch.source == "SEE-AI"


def test_normal_mucosa_beside_a_lesion_is_of_its_own_case(plans: tuple[ExamPlan, ...]) -> None:
    for plan in plans:
        for before, after in pairwise(plan.stretches):
            if before.label not in ("normal", "parasite") and after.label == "normal":
                assert after.case == before.case


def test_lesions_that_no_timeline_has_come_in_some_exams(plans: tuple[ExamPlan, ...]) -> None:
    extra = [one for plan in plans for one in plan.sightings if one.kind == "extra"]
    assert {one.label for one in extra} == {"parasite"}
    assert len({plan.split for plan in plans if any(one.kind == "extra" for one in plan.sightings)}) > 1


# What the report says


def test_nearby_events_of_one_lesion_are_one_finding() -> None:
    seconds = np.arange(1000) * 10.0
    ulcer, polyp = (lambda first: Sighting("ulcer", first, 5)), (lambda first: Sighting("polyp", first, 5))
    seen = [ulcer(0), polyp(30), ulcer(60), Sighting("", 90, 5, "distractor"), ulcer(400)]
    assert [sight.events for sight in gather(seen, seconds)] == [(0, 2), (1,), (4,)]
    assert seconds[60] - seconds[4] <= NEARBY < seconds[400] - seconds[64]


def test_a_finding_is_timed_at_its_best_view() -> None:
    seconds = np.arange(100) * 60.0
    seen = [Sighting("ulcer", 10, 4), Sighting("ulcer", 18, 4)]
    views = {0: np.array([0.2, 0.3, 0.1, 0.2]), 1: np.array([0.5, 0.9, 0.9, 0.0])}
    (finding,) = report(seen, gather(seen, seconds), seconds, views)
    assert (finding.frame, finding.seconds) == (19, 19 * 60.0)


def test_the_best_view_is_clear_then_large_and_central() -> None:
    large, small, askew = Box(0.3, 0.3, 0.7, 0.7), Box(0.45, 0.45, 0.55, 0.55), Box(0.0, 0.0, 0.4, 0.4)
    frames = [labelled(1, boxes=(box,)) for box in (large, small, askew)]
    views = best_views(frames, np.ones(3), np.zeros(3, np.bool_))
    assert views.argmax() == 0
    assert best_views(frames, np.array([0.2, 1, 1]), np.zeros(3, np.bool_)).argmax() != 0
    assert best_views(frames[:1], np.ones(1), np.ones(1, np.bool_))[0] > views[0]


def test_a_report_does_not_repeat_one_lesion_forever() -> None:
    seconds = np.arange(4000) * 60.0
    seen = [Sighting("erosion", 100 * i, 5) for i in range(40)]
    findings = report(seen, gather(seen, seconds), seconds, {i: np.full(5, 0.8) for i in range(40)})
    assert 1 <= len(findings) <= 4


def test_a_short_glimpse_of_little_importance_goes_unsaid() -> None:
    seconds = np.arange(1000) * 4.0
    seen = [Sighting("mucosal erythema", 10, 4), Sighting("polyp", 500, 40)]
    findings = report(seen, gather(seen, seconds), seconds, {0: np.full(4, 0.8), 1: np.full(40, 0.8)})
    assert [finding.label for finding in findings] == ["polyp"]


def test_findings_lie_in_the_exam_at_frames_that_show_them(plans: tuple[ExamPlan, ...]) -> None:
    assert sum(len(plan.reported) for plan in plans) > len(plans)
    for plan in plans:
        for finding in plan.reported:
            assert finding.label in plan.image(finding.frame).labels
            assert finding.seconds == plan.walk.seconds[finding.frame] <= plan.walk.seconds[-1]
            assert any(plan.sightings[i].first <= finding.frame < plan.sightings[i].stop for i in finding.events)


def test_distractors_are_seen_and_never_reported(plans: tuple[ExamPlan, ...]) -> None:
    distractors = {
        (plan.exam_id, i) for plan in plans for i, one in enumerate(plan.sightings) if one.kind == "distractor"
    }
    reported = {(plan.exam_id, event) for plan in plans for finding in plan.reported for event in finding.events}
    assert distractors
    assert not distractors & reported
    for plan in plans:
        for stretch in plan.stretches:
            if stretch.sighting is not None and plan.sightings[stretch.sighting].kind == "distractor":
                assert all(frame.labels == () for frame in stretch.reel)


# How it moves


def test_an_exam_lasts_8_to_12_hours_and_its_clock_never_stands(plans: tuple[ExamPlan, ...]) -> None:
    hours = [plan.walk.seconds[-1] / 3600 for plan in plans]
    assert all(8 <= duration <= 12 for duration in hours)
    assert len(set(hours)) == len(hours)
    assert all((np.diff(plan.walk.seconds) > 0).all() for plan in plans)


def test_a_capsule_rests_for_long_and_then_takes_fewer_images() -> None:
    way = walk(8000, np.random.default_rng(0))
    resting = way.pace == 0
    assert 0.3 < resting.mean() < 0.5
    lengths = [len(run) for run in "".join("r" if rest else " " for rest in resting).split()]
    assert max(lengths) > 100
    intervals = np.diff(way.seconds)
    assert intervals[resting[1:]].min() > 1.9 * intervals[~resting[1:]].max()


def test_the_camera_moves_smoothly_except_where_the_case_changes(plans: tuple[ExamPlan, ...]) -> None:
    for plan in plans:
        calm = np.ones(len(plan) - 1, np.bool_)
        for stretch in plan.stretches[1:]:
            calm[max(0, stretch.first - 3) : stretch.first + 3] = False
        for way in (plan.motion.right, plan.motion.down):
            steps = np.abs(np.diff(way))[calm]
            assert steps.max() < 0.05
            assert steps.max() > 0.003
        assert np.abs(np.diff(plan.motion.light))[calm].max() < 0.1


def test_a_resting_camera_hardly_moves(plans: tuple[ExamPlan, ...]) -> None:
    for plan in plans:
        resting = (plan.walk.pace[1:] == 0) & (np.diff(plan.played.shown) == 0) & (np.diff(plan.played.turn) == 0)
        assert np.abs(np.diff(plan.motion.right))[resting].max() < 0.01
        assert np.abs(np.diff(plan.motion.zoom))[resting].max() < 0.01


def at_the_rim() -> tuple[Motion, Played]:
    """A box at the right edge, which a quarter turn, a zoom and a drift would take 0.565 from the middle."""
    images = (labelled(1, boxes=(Box(0.92, 0.45, 1.0, 0.55),)), labelled(2))
    zeros, shown = np.zeros(2), np.array([0, 1])
    moved = Motion(zeros + 1.1, zeros + 90.0, zeros + 0.1, zeros - 0.05, zeros + 1, zeros, zeros)
    return moved, Played(images, shown, shown * 0 - 1, zeros, zeros, zeros)


def test_the_camera_does_not_lose_a_lesion_at_the_rim() -> None:
    moved, played = at_the_rim()
    kept = keep_in_sight(moved, played)
    # It would lie at (0.1, -0.05 - 1.1 * 0.46); that way is shortened to 0.44.
    shortened = 0.44 / np.hypot(0.1, 0.556)
    assert (kept.right[0], kept.down[0] - 1.1 * 0.46) == pytest.approx((0.1 * shortened, -0.556 * shortened))
    assert (kept.right[1], kept.down[1]) == (0.1, -0.05)


def test_the_pixels_of_a_lesion_lie_where_the_plan_says(tmp_path: Path) -> None:
    moved, played = at_the_rim()
    image = np.full((200, 200, 3), 40, np.uint8)
    image[90:110, 184:196] = 255
    cv2.imwrite(str(tmp_path / "source.png"), image)
    frame = LabelledFrame(tmp_path / "source.png", "S", "a", None, ("ulcer",), ("Ulcer",))
    seen = look(SourceImages({"S": FULL}, 300)(frame), keep_in_sight(moved, played), 0, 300)[..., 0]
    rows, columns = np.nonzero(seen > 200)
    nearest = np.hypot(columns - 150, rows - 150) < 0.49 * 300  # beyond, the image goes on as its mirror image
    shortened = 0.44 / np.hypot(0.1, 0.556)
    assert columns[nearest].mean() / 300 - 0.5 == pytest.approx(0.1 * shortened, abs=0.02)
    assert rows[nearest].mean() / 300 - 0.5 == pytest.approx(-0.556 * shortened, abs=0.04)


def test_effects_come_and_go_smoothly() -> None:
    strengths = Episode("blur", 10, 9, 0.8, 0).envelope()
    assert strengths[0] < strengths[4] == 0.8 > strengths[8] > 0


def test_a_still_goes_on_beyond_its_window_as_its_mirror_image(tmp_path: Path) -> None:
    image = np.zeros((100, 100, 3), np.uint8)
    image[:, :, 2] = np.arange(100)[None] * 2
    image[(np.hypot(*(np.mgrid[:100, :100] - 49.5)) > 49)] = 0
    cv2.imwrite(str(tmp_path / "source.png"), image)
    turns = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    disc = Field("round", tuple((0.5 + 0.49 * np.cos(t), 0.5 + 0.49 * np.sin(t)) for t in turns))
    frame = LabelledFrame(tmp_path / "source.png", "S", "a", None, ("normal",), ("Normal",))
    seen = SourceImages({"S": disc}, 336)(frame)[:, :, 2].astype(int)
    middle = len(seen) // 2
    assert seen.min() >= 2
    assert seen[middle, middle - 30] == pytest.approx(2 * 20, abs=4)
    assert seen[middle, middle + 47 + 10] == pytest.approx(seen[middle, middle + 47 - 10], abs=8)


# The files


def test_the_video_shows_what_the_truth_says(made: Path) -> None:
    hues = {name: colour(name) for name in CLASSES}
    checked = 0
    for row in load_dataset(made).exams:
        said = truth(row.video)
        with av.open(str(row.video)) as container:
            images = [frame.to_ndarray(format="bgr24") for frame in container.decode(video=0)]
        assert len(images) == len(said) == 240
        for image, line in zip(images, said, strict=True):
            if line["effects"]:
                continue
            seen = image[12:-12, 12:-12].reshape(-1, 3).mean(axis=0)
            nearest = max(hues, key=lambda name: float(np.dot(seen, hues[name]) / np.linalg.norm(hues[name])))
            assert f"/{nearest}/" in line["path"]
            assert CLASSES[nearest] == line["labels"]
            assert line["label"] == (CLASSES[nearest] or "normal")
            checked += 1
    assert checked > 400


def test_a_composition_is_a_dataset_with_clocks_and_findings_inside(made: Path) -> None:
    dataset = load_dataset(made)
    assert [row.split for row in dataset.exams] == ["train", "validation", "test"]
    assert dataset.leaking_patients() == []
    for row in dataset.exams:
        exam = row.open()
        assert exam.clock.source == "sidecar"
        assert 8 * 3600 <= exam.clock.seconds(239) <= 12 * 3600
        said = {line["seconds"]: line for line in truth(row.video)}
        for finding in dataset.annotations[row.exam_id].findings:
            line = said[f"{finding.seconds:.3f}"]
            assert (line["label"], line["finding_id"]) == (finding.label, finding.id)


def test_the_truth_begins_like_that_of_the_simulator(made: Path) -> None:
    row = load_dataset(made).exams[0]
    first = row.video.with_suffix(".truth.csv").read_text().splitlines()[0]
    assert first.startswith("frame,label,finding_id,visible,seconds,")
    said = truth(row.video)
    assert [int(line["frame"]) for line in said] == list(range(240))
    assert {line["kind"] for line in said} >= {"normal", "timeline"}
    assert all((line["event_id"] == "") == (line["kind"] == "normal") for line in said)


def test_the_same_arguments_give_the_same_bytes_with_any_number_of_workers(
    data: Path, made: Path, tmp_path: Path
) -> None:
    assert files(composed(data, tmp_path / "again", workers=2)) == files(made)


def test_another_seed_gives_other_exams(data: Path, plans: tuple[ExamPlan, ...]) -> None:
    other = planned(data, seed=1)
    assert [plan.played.shown.tolist() for plan in other] != [plan.played.shown.tolist() for plan in plans]


def test_a_complete_exam_is_not_composed_again(data: Path, made: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(made, tmp_path / "out"))
    whole = files(out)
    videos = sorted(out.rglob("*.mp4"))
    videos[0].unlink()
    stamps = [path.stat().st_mtime_ns for path in videos[1:]]
    heard: list[tuple[int, int]] = []
    composed(data, out, progress=lambda done, total: heard.append((done, total)))
    assert [path.stat().st_mtime_ns for path in videos[1:]] == stamps
    assert heard[0] == (480, 720)
    assert heard[-1] == (720, 720)
    assert len(heard) == 241
    assert files(out) == whole


def test_an_interrupted_run_leaves_no_half_exam_and_can_go_on(data: Path, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt(done: int, total: int) -> None:
        if done == 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        composed(data, out, progress=interrupt)
    left = files(out)
    assert {name: files(made)[name] for name in left} == left
    assert "exams.csv" not in left
    assert files(composed(data, out)) == files(made)


def test_figures_of_a_plan_agree_with_it(plans: tuple[ExamPlan, ...]) -> None:
    facts = plan_facts(plans)
    assert facts["exams"] == {"train": 6, "validation": 2, "test": 4}
    assert facts["findings"] == sum(len(plan.reported) for plan in plans)
    assert facts["findings_per_exam"]["mean"] == pytest.approx(mean(len(plan.reported) for plan in plans), abs=1e-3)
    assert facts["lesion_share"]["most"] <= 0.25
    kinds: dict[tuple[str, int], set[str]] = {}
    for plan in plans:
        for one in plan.sightings:
            for frame in range(one.first, one.first + one.frames):
                window = plan.exam_id, int(plan.walk.seconds[frame] // 300)
                kinds.setdefault(window, set()).update({one.label} - {""})
    several = [len(labels) > 1 for labels in kinds.values() if labels]
    assert facts["crowded_windows"] == pytest.approx(mean(several), abs=1e-3)
    assert sum(own["findings"] for own in facts["labels"].values()) == facts["findings"]
    assert f"findings       {facts['findings']};" in plan_text(plans)


def test_a_plan_can_be_drawn_beside_its_timeline(data: Path, plans: tuple[ExamPlan, ...], tmp_path: Path) -> None:
    timelines = {f"galar-{line.exam_id}": line for line in import_galar(data / "events.json").timelines}
    draw_plan(plans[0], timelines[plans[0].patient_id], tmp_path / "plan.png")
    image = cv2.imread(str(tmp_path / "plan.png"))
    assert image is not None
    assert image.std() > 10
    with pytest.raises(UsageError, match=r"plan\.gif: plots are written as \.png"):
        draw_plan(plans[0], timelines[plans[0].patient_id], tmp_path / "plan.gif")


# Bad input


def test_other_arguments_do_not_mix_with_what_is_there(data: Path, made: Path) -> None:
    with pytest.raises(InputError, match=r"exams: holds exams composed from other arguments; give an empty folder"):
        composed(data, made, seed=1)


def test_a_folder_of_something_else_is_left_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no composed exams; give an empty or new folder"):
        composed(data, tmp_path)
    assert files(tmp_path) == {"notes.txt": b"mine"}


def test_missing_frames_and_timelines_are_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such folder"):
        compose(tmp_path / "nowhere", data / "events.json", tmp_path / "out", exams=3, frames_per_exam=240, seed=0)
    with pytest.raises(InputError, match=r"nothing\.json: no such file"):
        compose(data, tmp_path / "nothing.json", tmp_path / "out", exams=3, frames_per_exam=240, seed=0)
    assert not (tmp_path / "out").exists()


def test_a_pool_without_normal_frames_or_lesions_is_refused(data: Path, tmp_path: Path) -> None:
    pool = load_pool(data).frames
    timelines = import_galar(data / "events.json").timelines
    for frames, problem in (
        ([frame for frame in pool if frame.labels != ("normal",)], "no normal frame of a known case is left"),
        ([frame for frame in pool if frame.labels == ("normal",)], "has no frame of any lesion in the timelines"),
    ):
        with pytest.raises(InputError, match=rf"^pool: .*{problem}"):
            plan_exams(frames, timelines, exams=3, frames_per_exam=240, seed=0, named=("pool", "events"))


def test_too_few_timelines_are_refused(data: Path) -> None:
    pool, timelines = load_pool(data).frames, import_galar(data / "events.json").timelines
    with pytest.raises(InputError, match=r"^events: none is left for the split 'train' \(1 in all\)"):
        plan_exams(pool, timelines[:1], exams=3, frames_per_exam=240, seed=0, named=("pool", "events"))


def test_senseless_numbers_are_refused(data: Path, tmp_path: Path) -> None:
    for changes, problem in (
        ({"size": 63}, "--size must be even"),
        ({"frames_per_exam": 100}, "--frames-per-exam must be at least 200"),
        ({"exams": 0}, "--exams must be at least 1"),
    ):
        with pytest.raises(UsageError, match=problem):
            composed(data, tmp_path / "out", **changes)


def test_a_damaged_image_is_named(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "data"
    shutil.copytree(data, broken)
    for path in (broken / "capsule-vision-2024" / "training" / "Normal" / "KVASIR").iterdir():
        path.write_bytes(b"not an image " + path.name.encode())
    with pytest.raises(InputError, match=r"\.jpg: not an image that can be decoded"):
        composed(broken, tmp_path / "out")


# Real frames


def test_real_frames_on_real_timelines(real_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = compose(
        real_data, real_data / "galar" / "events.json", out, exams=3, frames_per_exam=200, seed=0, size=112, workers=2
    )
    assert made.kept == 0
    for plan, row in zip(made.plans, load_dataset(out).exams, strict=True):
        exam = row.open()
        assert len(exam) == 200
        assert all((real_data / line["path"]).is_file() for line in truth(row.video))
        if plan.make != "KVASIR":
            continue
        with av.open(str(row.video)) as container:
            corners = [frame.to_ndarray(format="gray")[:4, :4].max() for frame in container.decode(video=0)]
        assert max(corners) < 40


def test_real_timelines_give_about_as_many_findings_as_videocap(real_data: Path) -> None:
    pool, timelines = load_pool(real_data).frames, import_galar(real_data / "galar" / "events.json").timelines
    facts = plan_facts(plan_exams(pool, timelines, exams=68, frames_per_exam=8000, seed=0))
    assert facts["findings_per_exam"]["mean"] == pytest.approx(136 / 40, abs=0.25)
    assert facts["findings_per_exam"]["least"] <= 1
    assert 6 <= facts["findings_per_exam"]["most"] <= 8
    assert 0.05 < facts["lesion_share"]["mean"] < 0.15
    assert facts["lesion_share"]["most"] < 0.25
    assert facts["events_without_frames"] == 0
    assert len(facts["labels"]) == 10
