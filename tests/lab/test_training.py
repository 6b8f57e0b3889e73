"""Training heads on frozen features, calibrating them, and the commands train, predict and bundle, on tiny material."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce.benchmark.frames import roc_auc
from dice_ce.benchmark.networks import Networks
from dice_ce.cli import main
from dice_ce.datasets.splits import fold_name
from dice_ce.datasets.tables import Annotation, Finding
from dice_ce.errors import InputError
from dice_ce.exam.codec import write_image
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training.calibration import Calibration, best_temperature, fit_slope, recall_threshold
from dice_ce.lab.training.examples import Examples
from dice_ce.lab.training.finetune import finetune
from dice_ce.lab.training.folds import hold_out
from dice_ce.lab.training.heads import (
    HeadConfig,
    balanced_weights,
    merged,
    train_diagnoser,
    train_selector,
    with_normal_share,
)
from dice_ce.lab.training.network import with_open_size
from dice_ce.lab.training.run import LOOKS
from dice_ce.lab.training.samples import Samples, label_frames
from dice_ce.method.bundle import load_bundle
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser
from dice_ce.method.selector import sigmoid
from dice_ce.taxonomy import VIDEOCAP_12, Taxonomy
from tests.lab.test_finetune import tiny_lite
from tests.material import tiny_head, write_tiny_encoder, write_video

COLOURS = {"ulcer": (220, 220, 120), "hematocele": (150, 10, 10), "normal": (200, 120, 90)}
SIZE = 32


def image(label: str, chance: np.random.Generator) -> np.ndarray:
    """An image whose colour tells its label, if one looks closely."""
    noise = chance.normal(0, 12, (SIZE, SIZE, 3))
    return np.clip(np.array(COLOURS[label]) + noise, 0, 255).astype(np.uint8)


def write_frames(folder: Path) -> Path:
    """A table of labelled frames: six cases of each label, eight frames each."""
    chance = np.random.default_rng(0)
    folder.mkdir()
    rows = ["path,label,source,case,frame_number"]
    for label in COLOURS:
        for case in range(6):
            for number in range(8):
                name = f"{label}-{case}-{number}.png"
                write_image(folder / name, image(label, chance))
                rows.append(f"{name},{label},tiny,{label}{case},{number}")
    (folder / "frames.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    return write_frames(tmp_path / "frames")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle trained on such frames by the command; tests must not change it."""
    folder = tmp_path_factory.mktemp("trained")
    encoder = write_tiny_encoder(folder / "tiny.onnx", size=SIZE)
    data, out = write_frames(folder / "frames"), folder / "bundle"
    arguments = ["train", "--data", str(data), "--encoder", str(encoder), "--out", str(out), "--views", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DICE_CE_CACHE", str(folder / "cache"))
        assert main([*arguments, "--learning-rate", "0.01", "--hidden", "16"]) == 0
    return out


def samples(count: int = 40, *, seed: int = 0, labels: tuple[str, ...] = tuple(COLOURS)) -> Samples:
    chance = np.random.default_rng(seed)
    taxonomy = Taxonomy()
    which = chance.integers(len(labels), size=count)
    table = np.zeros((count, len(taxonomy)), np.bool_)
    table[np.arange(count), [taxonomy.index(labels[k]) for k in which]] = True
    centres = np.eye(len(labels), 6)[which]
    return Samples(
        (centres + chance.normal(0, 0.3, (count, 6))).astype(np.float16),
        table,
        np.array([labels[k] != "normal" for k in which]),
        np.ones(count, np.float32),
        np.array([f"case{k}" for k in which]),
        np.full(count, "tiny"),
        np.arange(count).astype(np.str_),
        np.full(count, ""),
        np.full(count, ""),
        np.zeros(count, np.int64),
    )


def test_heads_learn_what_can_be_learnt_and_a_seed_gives_the_same_weights() -> None:
    train, others = samples(200), samples(80, seed=1)
    config = HeadConfig(hidden=16, learning_rate=2e-2, epochs=20)
    selector, again = (train_selector(train, config).head for _ in range(2))
    np.testing.assert_array_equal(selector.weight1, again.weight1)
    said = selector(others.vectors)[:, 0] > 0
    assert (said == others.abnormal).mean() > 0.9
    diagnoser = train_diagnoser(train, config).head
    assert others.labels[np.arange(80), diagnoser(others.vectors).argmax(axis=1)].mean() > 0.9


def test_pairs_inside_a_case_tell_more_than_what_tells_cases_apart() -> None:
    """In cases of the first number lesions are many, in the others few; the second number tells them inside a case."""

    def draw(chance: np.random.Generator) -> Samples:
        case = np.arange(480) // 60
        many = case % 2 == 0
        lesion = chance.random(480) < np.where(many, 0.75, 0.25)
        numbers = chance.normal(0, 0.5, (480, 6))
        numbers[:, 0] += np.where(many, 1, -1)
        numbers[:, 1] += np.where(lesion, 0.4, -0.4)
        names = np.char.add("case", case.astype(np.str_))
        return dataclasses.replace(samples(480), vectors=numbers.astype(np.float16), abnormal=lesion, case=names)

    chance = np.random.default_rng(0)
    learnt, others, found = draw(chance), draw(chance), {}
    for inside in (0.0, 0.9):
        head = train_selector(learnt, HeadConfig(hidden=16, learning_rate=1e-2, epochs=8, inside=inside)).head
        score = head(others.vectors)[:, 0]
        rows = [others.case == case for case in np.unique(others.case)]
        found[inside] = np.mean([roc_auc(score[some], others.abnormal[some]) for some in rows])
    assert found[0.9] > found[0.0] + 0.02


def test_merged_heads_are_one_head_that_gives_their_mean() -> None:
    heads = [tiny_head(6, 3, seed=seed) for seed in range(3)]
    vectors = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    mean = np.mean([head(vectors) for head in heads], axis=0)
    np.testing.assert_allclose(merged(heads)(vectors), mean, atol=5e-3)


def test_every_case_is_judged_once_by_heads_that_never_saw_it() -> None:
    """A case whose labels are all wrong is judged by what the others teach."""
    table = samples(300, labels=("normal", "ulcer"))
    case = np.array([f"case{i % 6}" for i in range(300)])
    wrong = case == "case3"
    table = dataclasses.replace(table, case=case, abnormal=table.abnormal ^ wrong)
    fold = np.array([int(name[-1]) % 3 for name in case])
    held_out = hold_out(lambda _: (table, fold), 3, HeadConfig(hidden=16, learning_rate=2e-2, epochs=20))
    assert sorted(held_out.samples.origin.tolist()) == sorted(table.origin.tolist())
    said = held_out.suspicion > 0
    lied = held_out.samples.case == "case3"
    assert (said == held_out.samples.abnormal)[~lied & (held_out.fold != 0)].mean() > 0.9
    assert (said == held_out.samples.abnormal)[lied].mean() < 0.2
    assert not (held_out.without(0).samples.case == "case3").any()


def test_one_kind_of_frame_alone_cannot_be_trained_on() -> None:
    with pytest.raises(InputError, match="the training frames show no normal at all"):
        train_selector(samples(labels=("ulcer",)))
    with pytest.raises(InputError, match="the training frames show no lesion at all"):
        train_selector(samples(labels=("normal",)))
    with pytest.raises(InputError, match="one label only"):
        train_diagnoser(samples(labels=("ulcer",)))


def test_features_that_are_not_finite_are_refused() -> None:
    good = samples(3)
    vectors = good.vectors.copy()
    vectors[1, 2] = np.nan
    with pytest.raises(InputError, match="not finite"):
        dataclasses.replace(good, vectors=vectors)


def test_a_rare_label_weighs_more_and_weak_evidence_less() -> None:
    many, few = samples(90, labels=("normal",)), samples(10, labels=("ulcer",))
    weight = balanced_weights(Samples.join([many, few]))
    assert weight[95] == pytest.approx(9 * weight[5], rel=1e-4)  # sqrt(90 * 90) frames against sqrt(10 * 10)
    assert weight.mean() == pytest.approx(1, rel=1e-5)
    weak = dataclasses.replace(many, weight=many.weight * 0.5)
    both = balanced_weights(Samples.join([weak[np.arange(45)], many[np.arange(45)]]))
    assert both[0] == pytest.approx(both[50] / 2)


def test_every_source_with_both_kinds_has_the_same_share_of_normal_frames() -> None:
    def part(count: int, label: str, source: str) -> Samples:
        some = samples(count, labels=(label,))
        return dataclasses.replace(some, source=np.full(count, source))

    mixed = Samples.join(
        [
            part(90, "normal", "a"),
            part(10, "ulcer", "a"),
            part(5, "normal", "b"),
            part(20, "polyp", "b"),
            part(7, "polyp", "c"),
        ]
    )
    before = balanced_weights(mixed)
    weight = with_normal_share(mixed, before, 0.45)
    for source in "abc":
        rows = mixed.source == source
        assert weight[rows].sum() == pytest.approx(before[rows].sum(), rel=1e-5)
        normal = weight[rows & ~mixed.abnormal].sum() / weight[rows].sum()
        assert normal == pytest.approx(0.0 if source == "c" else 0.45, rel=1e-5)


def test_frames_around_keyframes_are_labelled_and_far_ones_are_weak_normals() -> None:
    seconds = np.arange(0, 2000, 1.0)
    taxonomy = Taxonomy()
    annotation = Annotation("e", (Finding("1", 500, "ulcer"), Finding("2", 502, "polyp"), Finding("3", 520, "normal")))
    rows, labels, weight, stretched = label_frames(seconds, annotation, taxonomy, near=2.0)
    assert not stretched.any()
    at = {int(row): i for i, row in enumerate(rows)}
    names = lambda second: [taxonomy.labels[k] for k in np.flatnonzero(labels[at[second]])]  # noqa: E731
    assert names(498) == ["ulcer"]
    assert names(501) == ["ulcer", "polyp"]
    assert names(504) == ["polyp"]
    assert names(521) == ["normal"]
    assert weight[at[521]] == 1
    assert 510 not in at  # near a finding, but not near enough to show it
    assert 300 not in at
    assert names(10) == ["normal"]
    assert weight[at[10]] < 1


def test_a_finding_between_frames_is_shown_by_the_nearest_one() -> None:
    """A frame every five seconds: a fifth of all findings have none within two, until the nearest is taken."""
    seconds, taxonomy = np.arange(0, 2000, 5.0), Taxonomy()
    findings = tuple(Finding(str(i), 100 + 31.1 * i, "polyp") for i in range(50))
    _, labels, weight, stretched = label_frames(seconds, Annotation("e", findings), taxonomy, near=2.0)
    assert labels[:, taxonomy.index("polyp")].sum() == 50
    assert stretched.sum() == sum(abs(f.seconds - 5 * round(f.seconds / 5)) > 2 for f in findings) > 0
    two = (Finding("1", 102.4, "ulcer"), Finding("2", 97.6, "polyp"))
    rows, labels, weight, stretched = label_frames(seconds, Annotation("e", two), taxonomy, near=2.0)
    strong = np.flatnonzero(weight == 1)
    assert rows[strong].tolist() == [20]
    assert np.flatnonzero(labels[strong[0]]).tolist() == [taxonomy.index("ulcer"), taxonomy.index("polyp")]
    assert stretched[strong].tolist() == [2]


def test_a_finding_far_from_every_frame_is_shown_by_none() -> None:
    """The nearest frame is taken for normal there; it cannot be both."""
    gap = np.concatenate([np.arange(0, 100, 5.0), np.arange(2000, 3000, 5.0)])
    annotation = Annotation("e", (Finding("1", 1000, "ulcer"),))
    _, labels, weight, stretched = label_frames(gap, annotation, Taxonomy(), near=2.0)
    assert labels[:, Taxonomy().normal].all()
    assert (weight < 1).all()
    assert not stretched.any()
    assert len(label_frames(np.empty(0), annotation, Taxonomy(), near=2.0)[0]) == 0


def test_the_threshold_reaches_the_wanted_recall_and_no_more() -> None:
    logits = np.arange(100, dtype=np.float32)
    abnormal = np.ones(100, np.bool_)
    threshold = recall_threshold(logits, abnormal, np.ones(100, np.float32), 0.95)
    assert (logits >= threshold).mean() == pytest.approx(0.95)


def test_a_calibrated_selector_says_a_half_where_the_recall_is_reached() -> None:
    head = tiny_head(6, 1)
    chance = np.random.default_rng(0)
    vectors = chance.normal(size=(400, 6)).astype(np.float32)
    logits = head(vectors)[:, 0]
    abnormal = logits + chance.normal(0, 1, 400) > np.median(logits)
    calibration = Calibration.fit(logits, abnormal, np.ones(400, np.float32), np.full(400, "one"))
    score = sigmoid(calibration.of(head)(vectors)[:, 0])
    np.testing.assert_allclose(calibration.scores(logits), score, atol=5e-3)
    assert (score[abnormal] >= 0.5).mean() == pytest.approx(0.97, abs=0.01)
    assert (np.argsort(score, kind="stable") == np.argsort(logits, kind="stable")).mean() > 0.9


def test_every_case_counts_alike_for_the_recall() -> None:
    """One case has 900 easy lesion frames, the other 100 hard ones: all but 6 % of the hard ones must be found, too."""
    head = tiny_head(6, 1)
    vectors = np.random.default_rng(0).normal(size=(1000, 6)).astype(np.float32)
    logits = np.sort(head(vectors)[:, 0])
    order = np.argsort(head(vectors)[:, 0])
    cases = np.where(np.arange(1000) < 100, "hard", "easy")
    calibration = Calibration.fit(logits, np.ones(1000, np.bool_), np.ones(1000, np.float32), cases)
    found = sigmoid(calibration.of(head)(vectors[order])[:, 0]) >= 0.5
    assert found[:100].mean() == pytest.approx(0.94, abs=0.015)


def test_the_slope_is_steep_where_the_scores_are_reliable() -> None:
    logits = np.linspace(-3, 3, 200).astype(np.float32)
    weight = np.ones(200, np.float32)
    sure = fit_slope(logits, logits > 0, weight, 0.0)
    unsure = fit_slope(logits, np.random.default_rng(0).random(200) > 0.5, weight, 0.0)
    assert sure > 2 > 0.3 > unsure


def test_the_temperature_undoes_overconfidence() -> None:
    chance = np.random.default_rng(0)
    logits = chance.normal(size=(3000, 4))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.eye(4, dtype=np.bool_)[[chance.choice(4, p=row) for row in p]]
    weight = np.ones(3000, np.float32)
    assert best_temperature((3 * logits).astype(np.float32), labels, weight) == pytest.approx(3, rel=0.1)


def test_training_writes_a_bundle_that_predicts(tmp_path: Path, trained: Path) -> None:
    out, bundle = trained, load_bundle(trained)
    assert "## Single frames, held-out cases" in bundle.card
    assert "| ulcer | tiny 48 (6) |" in bundle.card
    assert "AUC inside patients" in bundle.card
    assert list(bundle.reliability) == list(VIDEOCAP_12)
    ulcer = bundle.reliability["ulcer"]
    assert (ulcer.frames, ulcer.cases, ulcer.grade) == (48, 6, "well recognised")
    assert bundle.reliability["polyp"].grade == "not measured"
    assert f"| ulcer | 48 (6) | {ulcer.recall:.2f} [" in bundle.card
    assert (out / "training.csv").read_text().startswith("part,epoch,training_loss\nselector,0,")
    (tmp_path / "new" / "deep").mkdir(parents=True)
    chance = np.random.default_rng(9)
    for i, label in enumerate(COLOURS):
        write_image(tmp_path / "new" / "deep" / f"{i} {label}.png", image(label, chance))
    scores = tmp_path / "scores.csv"
    assert main(["predict", str(tmp_path / "new"), "--out", str(scores), "--bundle", str(out)]) == 0
    with scores.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["path", "seconds", "score", *VIDEOCAP_12]
    assert [row["path"] for row in rows] == ["deep/0 ulcer.png", "deep/1 hematocele.png", "deep/2 normal.png"]
    for row, label in zip(rows, COLOURS, strict=True):
        assert max(VIDEOCAP_12, key=lambda name: float(row[name])) == label
        assert sum(float(row[name]) for name in VIDEOCAP_12) == pytest.approx(1, abs=1e-4)
    ulcer, hematocele, normal = (float(row["score"]) for row in rows)
    assert min(ulcer, hematocele) > normal


def test_predicting_a_video_gives_a_row_per_frame_with_exam_seconds(tmp_path: Path, trained: Path) -> None:
    out = trained
    chance = np.random.default_rng(1)
    video = write_video(tmp_path / "v.mp4", [np.kron(image("ulcer", chance), np.ones((3, 3, 1), np.uint8))] * 5)
    scores = tmp_path / "scores.csv"
    assert main(["predict", str(video), "--out", str(scores), "--bundle", str(out), "--exam-fps", "1/2"]) == 0
    with scores.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["frame"], row["seconds"]) for row in rows] == [(str(i), f"{2 * i}.000") for i in range(5)]


def test_a_damaged_image_keeps_its_row_and_is_named(
    tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = trained
    (tmp_path / "new").mkdir()
    write_image(tmp_path / "new" / "a.png", image("ulcer", np.random.default_rng(0)))
    (tmp_path / "new" / "b.png").write_bytes(b"\x89PNG nonsense")
    scores = tmp_path / "scores.csv"
    assert main(["predict", str(tmp_path / "new"), "--out", str(scores), "--bundle", str(out)]) == 1
    assert "1 frames cannot be decoded, for instance b.png" in capsys.readouterr().err
    assert scores.read_text().splitlines()[2].startswith("b.png,,,")


def test_bundles_are_shown_checked_and_exported(
    tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = trained
    assert main(["bundle", "check", str(out)]) == 0
    for name in ("one", "two"):
        assert main(["bundle", "export", str(out), "--out", str(tmp_path / f"{name}.zip")]) == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert load_bundle(tmp_path / "one.zip").digest == load_bundle(out).digest
    capsys.readouterr()
    assert main(["bundle", "show", str(tmp_path / "one.zip"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["diagnoser"] == "head on features"
    assert facts["reliability"]["polyp"]["grade"] == "not measured"
    assert facts["card"].startswith("# Model card: `bundle`")
    assert main(["bundle", "export", str(out), "--out", str(tmp_path / "copy")]) == 0
    (tmp_path / "copy" / "weights.npz").write_bytes(b"x")
    assert main(["bundle", "check", str(tmp_path / "copy")]) == 1
    assert "weights.npz is missing or was changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(",ulcer,", ",ulzer,"), "did you mean 'ulcer'"),
        (lambda text: text.replace("tiny,", "tiny,").replace(",normal,", ",ulcer,"), "show no normal at all"),
        (lambda text: text.replace("ulcer0", "").replace("ulcer1", ""), None),
        (
            lambda text: "\n".join(
                line + (",split" if i == 0 else f",{('train', 'test')[i % 2]}")
                for i, line in enumerate(text.splitlines())
            ),
            "stands in more than one split",
        ),
    ],
)
def test_bad_training_data_is_refused_in_one_line(
    tmp_path: Path, frames: Path, change: object, message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    table = frames / "frames.csv"
    table.write_text(change(table.read_text()))  # type: ignore[operator]
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx", size=SIZE)
    arguments = ["train", "--data", str(table), "--encoder", str(encoder), "--out", str(tmp_path / "b"), "--views", "0"]
    code = main([*arguments, "--epochs", "2"])
    error = capsys.readouterr().err
    if message is None:
        assert code == 0
    else:
        assert code == 1
        assert message in error
        assert not (tmp_path / "b").exists()


def test_an_encoder_is_encoded_once_per_image(
    tmp_path: Path, frames: Path, tiny_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dice_ce.features.images import encode_images, find_images

    paths = find_images(frames)[:20]
    first = encode_images(paths, tiny_encoder)
    monkeypatch.setattr(OnnxEncoder, "encode", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(encode_images(paths, tiny_encoder), first)


def test_a_second_network_can_be_the_diagnoser(tmp_path: Path, frames: Path) -> None:
    encoder = tmp_path / "lite.onnx"
    encoder.write_bytes(tiny_lite())
    out = tmp_path / "bundle"
    arguments = ["train", "--data", str(frames), "--encoder", str(encoder), "--out", str(out), "--views", "0"]
    assert main([*arguments, "--diagnoser", "network", "--steps", "2", "--epochs", "2"]) == 0
    bundle = load_bundle(out)
    assert isinstance(bundle.diagnoser, NetworkDiagnoser)
    assert bundle.diagnoser.networks[0].dim == len(VIDEOCAP_12)
    scores = tmp_path / "scores.csv"
    assert main(["predict", str(frames), "--out", str(scores), "--bundle", str(out)]) == 0
    with scores.open() as file:
        row = next(csv.DictReader(file))
    assert sum(float(row[name]) for name in VIDEOCAP_12) == pytest.approx(1, abs=1e-4)
    assert main(["bundle", "check", str(out)]) == 0


def write_networks(folder: Path, count: int) -> tuple[list[str], list[OnnxEncoder]]:
    """Networks with twelve outputs, trained elsewhere: one for all cases, and one for each fold."""
    names = [folder / f"d-{name}.onnx" for name in ("all", *range(count))]
    for number, path in enumerate(names):
        write_tiny_encoder(path, size=16, scale=0.01 * (number + 1))
    words = ["--diagnoser", str(names[0]), "--fold-diagnosers", str(folder / "d-{fold}.onnx")]
    return words, [OnnxEncoder.open(path) for path in names]


def test_networks_that_were_trained_before_are_added_to_the_heads(tmp_path: Path, frames: Path) -> None:
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx", size=SIZE)
    common = ["train", "--data", str(frames), "--encoder", str(encoder), "--views", "0", "--epochs", "2"]
    assert main([*common, "--out", str(tmp_path / "head"), "--folds-out", str(tmp_path / "heads")]) == 0
    words, networks = write_networks(tmp_path, 5)
    assert main([*common, "--out", str(tmp_path / "both"), "--folds-out", str(tmp_path / "folds"), *words]) == 0
    bundle, plain = load_bundle(tmp_path / "both"), load_bundle(tmp_path / "head")
    assert isinstance(bundle.diagnoser, NetworkDiagnoser)
    assert bundle.diagnoser.networks[-1].digest == networks[0].digest
    assert isinstance(plain.diagnoser, HeadDiagnoser)
    assert bundle.diagnoser.headed is not None
    np.testing.assert_array_equal(bundle.diagnoser.headed.head.weight2, plain.diagnoser.head.weight2)
    assert bundle.diagnoser.temperature != plain.diagnoser.temperature, "both together are calibrated anew"
    assert "its logits are added to those of the head" in bundle.card
    assert bundle.settings().looks.looks == LOOKS, "a network's looks cost something"
    assert plain.settings().looks.looks is None
    for fold in range(5):
        of_fold = load_bundle(tmp_path / "folds" / fold_name(fold)).diagnoser
        assert isinstance(of_fold, NetworkDiagnoser)
        assert of_fold.networks[-1].digest == networks[fold + 1].digest
        assert of_fold.headed is not None


def test_a_fast_selector_sees_all_frames_smaller(tmp_path: Path, frames: Path) -> None:
    encoder = tmp_path / "open.onnx"
    encoder.write_bytes(with_open_size(tiny_lite()))
    side = OnnxEncoder.open(encoder).input_size // 2
    words, _ = write_networks(tmp_path, 5)
    common = ["train", "--data", str(frames), "--encoder", str(encoder), "--views", "0", "--epochs", "2", *words]
    folds = tmp_path / "folds"
    fast = ["--fast-side", str(side), "--folds-out", str(folds)]
    assert main([*common, *fast, "--out", str(tmp_path / "both")]) == 0
    assert main([*common, "--out", str(tmp_path / "plain")]) == 0
    plain, slow, fast_one = (load_bundle(f"{tmp_path}/{name}") for name in ("plain", "both", "both@fast"))
    np.testing.assert_array_equal(slow.selector.weight2, plain.selector.weight2)
    assert (slow.encoder.input_size, fast_one.encoder.input_size) == (2 * side, side)
    assert slow.encoder.digest != fast_one.encoder.digest, "features of two sides never mix"
    assert (fast_one.name, fast_one.digest != slow.digest) == ("both@fast", True)
    assert not np.array_equal(fast_one.selector.weight2, slow.selector.weight2)
    assert isinstance(fast_one.diagnoser, NetworkDiagnoser)
    assert fast_one.diagnoser.headed is not None
    assert fast_one.diagnoser.headed.input_size == 2 * side, "the diagnoser looks at frames in full size"
    assert f"All frames seen at {side} pixels" in slow.card
    assert main(["bundle", "check", f"{tmp_path}/both@fast"]) == 0
    networks = Networks.load(f"{tmp_path}/both@fast", folds)
    assert {one.encoder.input_size for one in networks.folds.values()} == {side}
    scores = tmp_path / "scores.csv"
    assert main(["predict", str(frames), "--out", str(scores), "--bundle", f"{tmp_path}/both@fast"]) == 0


def test_an_encoder_of_one_size_cannot_be_fast(
    tmp_path: Path, frames: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx", size=SIZE)
    arguments = ["train", "--data", str(frames), "--encoder", str(encoder), "--out", str(tmp_path / "b")]
    assert main([*arguments, "--views", "0", "--fast-side", "16"]) == 1
    assert "leaves the side open" in capsys.readouterr().err


def test_networks_that_were_trained_before_must_be_there_for_every_fold(
    tmp_path: Path, frames: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx", size=SIZE)
    words, _ = write_networks(tmp_path, 5)
    common = ["train", "--data", str(frames), "--encoder", str(encoder), "--out", str(tmp_path / "b")]
    for given, reason in (
        (words[:2], "figures need networks without each fold; give --fold-diagnosers"),
        ([*words[:2], "--fold-diagnosers", words[1]], "--fold-diagnosers: 1 networks for 5 folds"),
        (["--diagnoser", "network", *words[2:]], "--fold-diagnosers goes with --diagnoser FILE.onnx"),
        (["--diagnoser", "oracle"], "--diagnoser oracle: give head, network, or the ONNX file of a network"),
    ):
        assert main([*common, *given]) == 2
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def write_exams(folder: Path) -> Path:
    """Exams of one frame in five seconds: normal but for two frames of an ulcer and two of bleeding, in each."""
    chance = np.random.default_rng(0)
    folder.mkdir()
    exams, findings = ["exam_id,patient_id,split,video,exam_fps"], ["exam_id,finding_id,seconds,label"]
    for name, split in zip("abcd", ("train", "train", "validation", "test"), strict=True):
        shown = ["ulcer" if i in (8, 9) else "hematocele" if i in (101, 102) else "normal" for i in range(220)]
        write_video(folder / f"{name}.mp4", (image(label, chance) for label in shown), options={"crf": "1"})
        exams.append(f"{name},p{name},{split},{name}.mp4,1/5")
        findings += [f"{name},1,41,ulcer", f"{name},2,44,ulcer", f"{name},3,507.5,hematocele"]
    (folder / "exams.csv").write_text("\n".join(exams) + "\n")
    (folder / "findings.csv").write_text("\n".join(findings) + "\n")
    return folder


def test_training_on_whole_exams_says_which_findings_lie_between_frames(tmp_path: Path) -> None:
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx", size=SIZE)
    data, out = write_exams(tmp_path / "exams"), tmp_path / "bundle"
    assert main(["train", "--data", str(data), "--encoder", str(encoder), "--out", str(out), "--epochs", "1"]) == 0
    card = load_bundle(out).card
    assert "Findings without any frame within 2 s, which the nearest frame stands for: 4 of 12." in card
    assert "| ulcer | exams 6 (3) | exams 2 (1) |" in card
    assert "| hematocele | exams 3 (3) | exams 1 (1) |" in card
    assert "## Single frames, test cases" in card
    other = tmp_path / "other"
    assert main(["train", "--data", str(data), "--encoder", str(encoder), "--out", str(other), "--near", "3"]) == 0
    assert "which the nearest frame stands for" not in load_bundle(other).card


def test_a_second_network_learns_each_frame_of_an_exam_with_its_own_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frame 8 comes before frame 101, whatever the alphabet says."""
    encoder, data, out = tmp_path / "lite.onnx", write_exams(tmp_path / "exams"), tmp_path / "bundle"
    encoder.write_bytes(tiny_lite())
    given: list[Examples] = []

    def noting(network: Any, examples: Examples, *more: Any, **options: Any) -> Any:
        given.append(examples)
        return finetune(network, examples, *more, **options)

    monkeypatch.setattr("dice_ce.lab.training.second.finetune", noting)
    arguments = ["train", "--data", str(data), "--encoder", str(encoder), "--out", str(out), "--epochs", "1"]
    assert main([*arguments, "--diagnoser", "network", "--steps", "1"]) == 0
    (examples,) = given
    means = examples.images.pixels.mean(axis=(1, 2))
    colours = np.array([COLOURS[label] for label in COLOURS])
    looks_like = [list(COLOURS)[k] for k in np.abs(means[:, None] - colours).sum(axis=2).argmin(axis=1)]
    assert [VIDEOCAP_12[k] for k in examples.targets.argmax(axis=1)] == looks_like
    assert {"ulcer", "hematocele", "normal"} == set(looks_like)


def test_views_of_a_frame_are_one_frame_and_names_are_not_run_together() -> None:
    some = dataclasses.replace(
        samples(5), exam=np.array(["", "", "1", "11", "11"]), origin=np.array(["x", "x", "12", "2", "10"])
    )
    assert some.once().origin.tolist() == ["x", "12", "2", "10"]


def test_exams_of_one_name_in_two_datasets_are_not_mixed(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(write_exams(tmp_path / name)) for name in ("one", "two")]
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx", size=SIZE)
    arguments = ["train", "--data", *folders, "--encoder", str(encoder), "--out", str(tmp_path / "bundle")]
    assert main([*arguments, "--diagnoser", "network"]) == 1
    assert "the exam 'a' stands in two datasets" in capsys.readouterr().err
    assert not cache.exists(), "noticed before anything was encoded"
