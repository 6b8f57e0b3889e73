"""Spliced exams: real images in a plausible order, judged by networks that never saw their cases."""

from __future__ import annotations

import csv
import shutil
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dice_ce.benchmark.methods import METHODS, prepare
from dice_ce.benchmark.networks import Networks
from dice_ce.benchmark.spliced import other_view
from dice_ce.cli import main
from dice_ce.datasets.folder import load_dataset
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.spliced import VIEWS, read_images_table, read_splice
from dice_ce.datasets.splits import fold_cases, fold_name
from dice_ce.errors import InputError, UsageError
from dice_ce.features import images as image_features
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.compose.splice import LONGEST, SplicedExam, splice_exams, splices_text
from dice_ce.lab.training.tuning import make_ground
from dice_ce.method.bundle import load_bundle
from dice_ce.method.diagnoser import NetworkDiagnoser, softmax
from dice_ce.method.settings import Settings
from dice_ce.settings import values_of
from dice_ce.taxonomy import Taxonomy
from tests.lab.test_compose import data, files  # noqa: F401  a fixture
from tests.material import tiny_head, write_tiny_encoder

FRAMES = 1500


def spliced(data: Path, out: Path, **changes: int) -> list[SplicedExam]:  # noqa: F811
    wanted = {"exams": 5, "frames_per_exam": FRAMES, "seed": 0} | changes
    return splice_exams(data, data / "events.json", out, progress=lambda done, total: None, **wanted)


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SplicedExam]]:  # noqa: F811
    out = tmp_path_factory.mktemp("spliced")
    return out, spliced(data, out)


def test_every_frame_shows_an_image_of_the_fold_that_judges_it(
    data: Path,  # noqa: F811
    made: tuple[Path, list[SplicedExam]],
) -> None:
    out, exams = made
    folds = fold_cases([frame for frame in load_pool(data).frames if frame.case])
    images = read_images_table(out)
    for row, exam in zip(load_dataset(out).exams, exams, strict=True):
        splice = read_splice(row.video, len(images), Taxonomy())
        assert len(splice) == FRAMES
        assert {fold_name(folds[images[i].case]) for i in np.unique(splice.image)} == {row.split}
        assert row.patient_id == exam.case
        assert (np.diff(splice.seconds) > 0).all()


def test_an_image_shows_what_its_frame_says(data: Path, made: tuple[Path, list[SplicedExam]]) -> None:  # noqa: F811
    out, exams = made
    shows = {str(frame.path): frame.labels for frame in load_pool(data).frames}
    images, taxonomy = read_images_table(out), Taxonomy()
    for exam in exams:
        for image, label in set(zip(exam.splice.image.tolist(), exam.splice.label.tolist(), strict=True)):
            # A foreign body has no label: nothing to report.
            assert taxonomy.labels[label] in (shows[str(images[image].path)] or ("normal",))


def test_lesions_are_rare_short_and_seen_in_several_images(made: tuple[Path, list[SplicedExam]]) -> None:
    normal = Taxonomy().normal
    seen = 0
    for exam in made[1]:
        label = exam.splice.label
        assert 0 < np.count_nonzero(label != normal) <= 0.02 * FRAMES + LONGEST
        starts = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), FRAMES]
        for first, stop in pairwise(starts):
            if label[first] != normal:
                assert stop - first <= LONGEST
                seen = max(seen, len(set(exam.splice.image[first:stop].tolist())))
        assert set(exam.splice.view.tolist()) == set(range(VIEWS))
    assert seen > 2


def test_findings_are_timed_where_their_lesion_is_in_view(made: tuple[Path, list[SplicedExam]]) -> None:
    assert any(exam.findings for exam in made[1])
    for exam in made[1]:
        for finding in exam.findings:
            frame = int(np.argmin(np.abs(exam.splice.seconds - finding.seconds)))
            assert Taxonomy().labels[exam.splice.label[frame]] == finding.label


def test_most_of_an_exam_is_one_patient(made: tuple[Path, list[SplicedExam]]) -> None:
    images = read_images_table(made[0])
    for exam in made[1]:
        cases = np.array([images[i].case for i in exam.splice.image])
        assert np.mean(cases == exam.case) > 0.5


def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(
    data: Path,  # noqa: F811
    made: tuple[Path, list[SplicedExam]],
    tmp_path: Path,
) -> None:
    spliced(data, tmp_path / "again")
    assert files(tmp_path / "again") == files(made[0])
    spliced(data, tmp_path / "other", seed=1)
    assert len(files(tmp_path / "other")) == len(files(made[0]))
    assert files(tmp_path / "other") != files(made[0])


def test_too_few_exams_or_frames_are_refused(data: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(UsageError, match="at least 5, one for every fold, got 4"):
        spliced(data, tmp_path / "few", exams=4)
    with pytest.raises(UsageError, match="--frames-per-exam must be at least 200, got 100"):
        spliced(data, tmp_path / "few", frames_per_exam=100)
    assert not (tmp_path / "few").exists()


def test_the_exams_can_be_summed_up(made: tuple[Path, list[SplicedExam]]) -> None:
    text = splices_text(made[1])
    assert text.startswith(f"5 exams, {5 * FRAMES:,} frames, 5 patients")
    assert f"{sum(len(exam.findings) for exam in made[1])} findings reported" in text


def test_features_are_those_of_the_images_in_their_views(
    made: tuple[Path, list[SplicedExam]], bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, exams = made
    bundle = load_bundle(bundle_folder)
    rows = load_dataset(out).exams
    ready = prepare(rows[0], bundle)
    splice, images = exams[0].splice, read_images_table(out)
    assert (ready.screened.seconds == read_splice(rows[0].video, len(images), Taxonomy()).seconds).all()
    assert ready.truth is not None
    assert (ready.truth == splice.label).all()
    plain = int(np.flatnonzero(splice.view == 0)[0])
    (expected,) = image_features.encode_images([images[splice.image[plain]].path], bundle.encoder)
    np.testing.assert_allclose(ready.screened.vectors[plain], expected, rtol=2e-3)
    by_view = defaultdict(set)
    for image, view, vector in zip(splice.image, splice.view, ready.screened.vectors, strict=True):
        by_view[int(image)].add((int(view), vector.tobytes()))
    assert max(len({view for view, _ in found}) for found in by_view.values()) > 1
    # the same image in the same view has one feature, in another view another one
    assert all(len(found) == len({view for view, _ in found}) for found in by_view.values())
    assert sum(len(found) - len({vector for _, vector in found}) for found in by_view.values()) == 0
    monkeypatch.setattr(image_features, "read_images", None)  # nothing is decoded a second time
    assert (prepare(rows[0], bundle).screened.vectors == ready.screened.vectors).all()


def test_a_network_sees_the_very_views_that_the_encoder_sees(
    made: tuple[Path, list[SplicedExam]], bundle_folder: Path, tmp_path: Path
) -> None:
    """Means of the same cells of the same views: what the encoder gives scaled by 1/255 the network gives by 0.01."""
    bundle = load_bundle(bundle_folder)
    encoder = OnnxEncoder.open(write_tiny_encoder(tmp_path / "e.onnx", size=16))
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx", size=16, scale=0.01))
    selector = tiny_head(12, 1)
    both = replace(bundle, encoder=encoder, selector=selector, diagnoser=NetworkDiagnoser((network,)))
    ready = prepare(load_dataset(made[0]).exams[0], both)
    rows = np.array([0, 5, FRAMES - 1])
    said = ready.diagnose(ready.screened[rows])
    wanted = softmax(2.55 * ready.screened.vectors[rows].astype(np.float32))
    assert wanted.std(axis=1).min() > 0.001
    np.testing.assert_allclose(said, wanted, atol=2e-3)


def test_methods_and_tuning_take_them_like_any_exam(made: tuple[Path, list[SplicedExam]], bundle_folder: Path) -> None:
    bundle = load_bundle(bundle_folder)
    networks = Networks(bundle, {fold_name(fold): bundle for fold in range(5)})
    dataset = networks.exams(load_dataset(made[0]), "")
    assert {row.split for row in dataset.exams} == {fold_name(fold) for fold in range(5)}
    ground = make_ground(dataset, networks, 1.0, lambda label, unit="": lambda done, total: None)
    chosen = METHODS["dice"].run(ground.exams[0], values_of(Settings()), budget=4)
    assert len(chosen) <= 4


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("image", "999999", "names an image or a view that there is not"),
        ("view", "99", "names an image or a view that there is not"),
        ("image", "x", "invalid literal"),
        ("seconds", "nan", "times must be finite"),
        ("label", "dragon", "dragon"),
    ],
)
def test_a_damaged_list_is_named_with_the_remedy(
    made: tuple[Path, list[SplicedExam]], tmp_path: Path, column: str, value: str, message: str
) -> None:
    original = next((made[0] / "exams").glob("*.splice.csv"))
    with original.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[3][column] = value
    damaged = tmp_path / "damaged.splice.csv"
    with damaged.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(InputError, match=message) as error:
        read_splice(damaged, 10_000, Taxonomy())
    assert "damaged.splice.csv" in str(error.value)
    assert "splice the exam again" in str(error.value)


def test_a_missing_list_of_images_is_said(made: tuple[Path, list[SplicedExam]], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"images\.csv: no such file; spliced exams need it"):
        read_images_table(tmp_path)


def test_another_view_keeps_what_is_seen() -> None:
    image = np.zeros((64, 64, 3), np.uint8)
    image[16:48, 16:48] = (200, 80, 60)
    chance = np.random.default_rng(0)
    views = [other_view(image, chance) for _ in range(8)]
    assert len({view.tobytes() for view in views}) == 8
    for view in views:
        middle = view[24:40, 24:40].reshape(-1, 3).mean(axis=0)
        assert middle[0] > middle[1] > middle[2] > 0


def test_a_dataset_of_them_can_be_checked(
    made: tuple[Path, list[SplicedExam]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "check", str(made[0])]) == 0
    told = capsys.readouterr().out
    assert "no problems found" in told
    assert ["fold-0", "1", "1", f"{FRAMES:,}"] in [line.split()[:4] for line in told.splitlines()]
    copy = tmp_path / "copy"
    shutil.copytree(made[0], copy)
    first = next((copy / "exams").iterdir())
    first.write_text(first.read_text().replace(",normal", ",dragon"))
    assert main(["data", "check", str(copy)]) == 1
    assert "1 problems" in capsys.readouterr().out


def test_whoever_needs_a_video_says_that_there_is_none(made: tuple[Path, list[SplicedExam]]) -> None:
    with pytest.raises(InputError, match="is a list of images without a video; only benchmark and tune can read it"):
        load_dataset(made[0]).exams[0].open()


def test_the_command_splices(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    words = ["data", "splice", "--frames", str(data), "--timelines", str(data / "events.json"), "--exams", "5"]
    assert main([*words, "--frames-per-exam", "400", "--out", str(tmp_path / "out")]) == 0
    assert "5 exams, 2,000 frames" in capsys.readouterr().out
    assert len(load_dataset(tmp_path / "out").exams) == 5
