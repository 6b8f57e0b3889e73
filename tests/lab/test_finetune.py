"""Fine-tuning through the real code path, on a network of the shipped one's layout with a few channels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from tools.imagenet_encoder import lite_graph

from dice_ce.datasets.tables import Box, LabelledFrame
from dice_ce.errors import EncoderError, InputError
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training.augment import NONE
from dice_ce.lab.training.examples import Examples, draw_weights, make_examples, with_false_candidates
from dice_ce.lab.training.finetune import Recipe, _Drawer, finetune
from dice_ce.lab.training.images import Images, kept, read_labelled_images
from dice_ce.lab.training.network import (
    CLASSES,
    SELECTOR,
    Network,
    export_network,
    features,
    frozen_session,
    head,
    pooled,
    read_network,
    with_open_size,
)
from dice_ce.method.beyond.where import map_size
from dice_ce.taxonomy import NORMAL, VIDEOCAP_12, Taxonomy

WIDTH, SIZE = 8, 64
RECIPE = Recipe(steps=6, batch=8, sizes=((0.0, 32), (0.5, 64)), rate=3e-3, head_rate=3e-3)
THOROUGH = dataclasses.replace(
    RECIPE,
    steps=80,
    batch=16,
    rate=2e-2,
    head_rate=5e-2,
    smoothing=0.02,
    sizes=((0.0, 64),),
    average=0.5,
    dropout=0.0,
    swap_colours=0,
    counterfactual=0,
    inside=0,
    augmentation=NONE,
)
"""Enough to learn a few plain images."""


def tiny_lite(width: int = WIDTH) -> bytes:
    """EfficientNet-Lite0 with 8 channels everywhere, or as many as are given, and random weights."""
    chance = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}

    def add(conv: str, norm: str, *shape: int) -> None:
        fan_in = int(np.prod(shape[1:]))
        weights[f"{conv}.weight"] = (chance.normal(0, 1.4, shape) / np.sqrt(fan_in)).astype(np.float32)
        for part, value in (("weight", 1.0), ("bias", 0.1), ("running_mean", 0.0), ("running_var", 1.0)):
            weights[f"{norm}.{part}"] = np.full(shape[0], value, np.float32)

    add("_conv_stem", "_bn0", width, 3, 3, 3)
    for block in range(16):
        name = f"_blocks.{block}"
        if block:
            add(f"{name}._expand_conv", f"{name}._bn0", width, width, 1, 1)
        add(f"{name}._depthwise_conv", f"{name}._bn1", width, 1, 3, 3)
        add(f"{name}._project_conv", f"{name}._bn2", width, width, 1, 1)
    add("_conv_head", "_bn1", 16, width, 1, 1)
    return bytes(lite_graph(weights, 0).SerializeToString())


@pytest.fixture(scope="module")
def content() -> bytes:
    return tiny_lite()


@pytest.fixture
def network(content: bytes) -> Network:
    return read_network(content, {SELECTOR: 1, CLASSES: 12}, frozen=15)


def some_frames(count: int = 24) -> list[LabelledFrame]:
    words = (NORMAL, "ulcer", NORMAL, "polyp")
    return [
        LabelledFrame(
            Path(f"{i}.jpg"),
            "KVASIR" if i % 8 < 4 else "SEE-AI",
            f"case-{i % 8}",
            i,
            (words[i % 4],),
            (words[i % 4],),
            (Box(0.3, 0.3, 0.6, 0.6),) if words[i % 4] == "ulcer" else (),
        )
        for i in range(count)
    ]


def some_examples() -> Examples:
    """Ulcers are red, polyps blue, the rest is grey."""
    frames, chance = some_frames(), np.random.default_rng(1)
    pixels = chance.integers(90, 140, (len(frames), SIZE, SIZE, 3)).astype(np.uint8)
    for image, frame in zip(pixels, frames, strict=True):
        if frame.labels != (NORMAL,):
            image[16:48, 16:48, 0 if frame.labels == ("ulcer",) else 2] = 250
    images = Images(pixels, np.ones((1, SIZE, SIZE), np.uint8), np.zeros(len(frames), np.int64))
    return make_examples(images, frames, Taxonomy())


def whole_pass(network: Network, pixels: np.ndarray) -> torch.Tensor:
    (values,) = frozen_session(network, pixels.shape[1], threads=1).run(None, {"frames": pixels})
    with torch.no_grad():
        return features(network, torch.from_numpy(values))


def random_pixels(size: int = 224) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 255, (3, size, size, 3)).astype(np.uint8)


def test_an_untrained_network_gives_the_encoder_s_own_features(network: Network, content: bytes) -> None:
    pixels = random_pixels()
    expected = OnnxEncoder.from_bytes(content, "tiny").encode(pixels)
    np.testing.assert_allclose(whole_pass(network, pixels), expected, rtol=1e-4, atol=1e-4)


def test_an_interrupted_run_ends_with_the_weights_of_an_uninterrupted_one(network: Network, tmp_path: Path) -> None:
    examples, checkpoint = some_examples(), tmp_path / "run.pt"
    whole, curve = finetune(network, examples, RECIPE)

    def interrupt(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finetune(network, examples, RECIPE, checkpoint=checkpoint, every=0.0, progress=interrupt)
    steps: list[int] = []
    resumed, its_curve = finetune(
        network, examples, RECIPE, checkpoint=checkpoint, progress=lambda done, total: steps.append(done)
    )
    assert steps == [4, 5, 6]
    assert its_curve == curve
    for name, value in whole.parameters().items():
        assert torch.equal(value, resumed.parameters()[name]), name


def test_a_finished_run_is_not_trained_again(network: Network, tmp_path: Path) -> None:
    first, _ = finetune(network, some_examples(), RECIPE, checkpoint=tmp_path / "run.pt")
    steps: list[int] = []
    again, _ = finetune(
        network, some_examples(), RECIPE, checkpoint=tmp_path / "run.pt", progress=lambda *n: steps.append(n[0])
    )
    assert not steps
    assert all(torch.equal(value, again.parameters()[name]) for name, value in first.parameters().items())


def test_a_checkpoint_of_another_recipe_or_other_labels_is_refused(network: Network, tmp_path: Path) -> None:
    finetune(network, some_examples(), RECIPE, checkpoint=tmp_path / "run.pt")
    other = dataclasses.replace(RECIPE, rate=1e-4)
    with pytest.raises(InputError, match=r"run\.pt.*other settings"):
        finetune(network, some_examples(), other, checkpoint=tmp_path / "run.pt")
    shuffled = some_examples()
    shuffled.targets[[0, 1]] = shuffled.targets[[1, 0]]
    with pytest.raises(InputError, match="or images"):
        finetune(network, shuffled, RECIPE, checkpoint=tmp_path / "run.pt")


def pairs_of(recipe: Recipe, examples: Examples, steps: int = 6) -> list[tuple[tuple[np.ndarray, np.ndarray], ...]]:
    drawer = _Drawer(examples, recipe)
    return [tuple(drawer.draw(step, 2 * pair + i, SIZE) for i in (0, 1)) for step in range(steps) for pair in range(4)]


def test_counterfactual_pairs_differ_in_the_lesion_alone() -> None:
    recipe = dataclasses.replace(RECIPE, counterfactual=1.0, swap_colours=0, augmentation=NONE)
    examples = some_examples()
    for (image, target), (without, none) in pairs_of(recipe, examples):
        assert target[examples.normal] == 0
        assert none[examples.normal] == 1
        assert 0 < (image != without).any(axis=2).mean() < 0.5


def test_pairs_inside_a_case_are_a_lesion_and_normal_mucosa_of_it() -> None:
    examples = dataclasses.replace(some_examples(), case=np.repeat(["one", "two"], (20, 4)))
    recipe = dataclasses.replace(RECIPE, counterfactual=0.0, inside=1.0, swap_colours=0, augmentation=NONE)
    for pair in pairs_of(recipe, examples):
        rows = [np.flatnonzero((examples.images.pixels == image).all(axis=(1, 2, 3)))[0] for image, _ in pair]
        assert [bool(target[examples.normal]) for _, target in pair] == [False, True]
        assert examples.case[rows].tolist() == ["one", "one"]  # the other one has too few of either


def test_what_is_held_out_is_never_drawn() -> None:
    frames, whole = some_frames(), some_examples()
    in_training = np.array([frame.case != "case-1" for frame in frames])
    examples = make_examples(whole.images, frames, Taxonomy(), in_training)
    recipe = dataclasses.replace(RECIPE, counterfactual=0.0, swap_colours=0, augmentation=NONE)
    held_out = whole.images.pixels[~in_training]
    for image, _ in (sample for pair in pairs_of(recipe, examples, 20) for sample in pair):
        assert not (held_out == image).all(axis=(1, 2, 3)).any()


def test_training_learns_what_the_images_show(network: Network) -> None:
    examples = some_examples()
    trained, curve = finetune(network, examples, THOROUGH)
    assert curve[-1][1] < 0.7 * curve[0][1]
    logits = head(trained, CLASSES, whole_pass(trained, examples.images.pixels))
    assert (logits.argmax(1).numpy() == examples.targets.argmax(1)).mean() > 0.9


@pytest.mark.parametrize("logits", [None, CLASSES])
def test_the_exported_file_gives_what_torch_gives(network: Network, tmp_path: Path, logits: str | None) -> None:
    trained, _ = finetune(network, some_examples(), RECIPE)
    export_network(trained, tmp_path / "out.onnx", name="mine", logits=logits)
    encoder, pixels = OnnxEncoder.open(tmp_path / "out.onnx"), random_pixels()
    vectors = whole_pass(_rounded(trained), pixels)
    expected = vectors if logits is None else head(_rounded(trained), logits, vectors)
    assert encoder.name == "mine"
    assert encoder.dim == (16 if logits is None else 12)
    np.testing.assert_allclose(encoder.encode(pixels), expected, rtol=1e-4, atol=1e-4)


def _rounded(network: Network) -> Network:
    """Round all weights as they are stored."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    for value in model.graph.initializer:
        rounded = onnx.numpy_helper.to_array(value).astype(np.float16).astype(np.float32)
        if rounded.size > 1:
            value.CopyFrom(onnx.numpy_helper.from_array(rounded, value.name))
    start = {
        name: (value + network.scale[name] * network.change[name]).half().float()
        for name, value in network.start.items()
    }
    change = {name: torch.zeros_like(value) for name, value in start.items()}
    heads = {name: value.half().float() for name, value in network.heads.items()}
    return dataclasses.replace(network, model=model, start=start, change=change, heads=heads)


def test_an_encoder_can_be_written_for_frames_of_another_size(network: Network, tmp_path: Path) -> None:
    export_network(network, tmp_path / "small.onnx", name="mine", size=32)
    encoder, pixels = OnnxEncoder.open(tmp_path / "small.onnx"), random_pixels()[:, :32, :32]
    assert encoder.input_size == 32
    np.testing.assert_allclose(encoder.encode(pixels), whole_pass(_rounded(network), pixels), rtol=1e-4, atol=1e-4)
    with pytest.raises(EncoderError, match=r"frames of 40 pixels do not fit; take a multiple of 32"):
        export_network(network, tmp_path / "odd.onnx", name="mine", size=40)


def test_an_encoder_of_open_size_keeps_its_own_and_sees_finer_parts_of_larger_frames(
    network: Network, tmp_path: Path
) -> None:
    export_network(pooled(network, "max"), tmp_path / "fixed.onnx", name="mine", size=96)
    fixed = OnnxEncoder.open(tmp_path / "fixed.onnx")
    free = OnnxEncoder.from_bytes(with_open_size(fixed.content), "free")
    pixels = random_pixels()
    assert (free.name, free.input_size, free.dim) == ("mine", 96, fixed.dim)
    assert (fixed.takes_any_size, free.takes_any_size) == (False, True)
    assert (map_size(fixed), map_size(free)) == (96, 128)
    small = pixels[:, :96, :96]
    np.testing.assert_allclose(free.encode(small), fixed.encode(small), rtol=1e-4, atol=1e-5)
    assert free.encode_map(pixels[:, :128, :128]).shape == (len(pixels), free.dim, 4, 4)
    for one, call in ((free, free.encode), (fixed, fixed.encode_map)):
        with pytest.raises(EncoderError, match=rf"{one.name}: expected frames of shape \[n, 96, 96, 3\]"):
            call(pixels)


def test_an_exported_encoder_can_be_fine_tuned_again(network: Network, tmp_path: Path) -> None:
    export_network(network, tmp_path / "out.onnx", name="mine")
    again = read_network((tmp_path / "out.onnx").read_bytes(), {CLASSES: 12}, frozen=15)
    expected = OnnxEncoder.open(tmp_path / "out.onnx").encode(random_pixels())
    np.testing.assert_allclose(whole_pass(again, random_pixels()), expected, rtol=1e-4, atol=1e-4)


def test_half_of_the_weights_stored_takes_half_of_the_space(network: Network, content: bytes, tmp_path: Path) -> None:
    export_network(network, tmp_path / "out.onnx", name="mine")
    model = onnx.load(tmp_path / "out.onnx")
    assert {value.data_type for value in model.graph.initializer if value.dims} == {onnx.TensorProto.FLOAT16}


def test_the_pooling_can_be_changed_and_is_written_with_the_network(content: bytes, tmp_path: Path) -> None:
    network = pooled(read_network(content, {CLASSES: 12}, frozen=15), "max")
    export_network(network, tmp_path / "max.onnx", name="mine")
    by_max = OnnxEncoder.open(tmp_path / "max.onnx").encode(random_pixels())
    by_mean = OnnxEncoder.from_bytes(content, "tiny").encode(random_pixels())
    np.testing.assert_allclose(whole_pass(_rounded(network), random_pixels()), by_max, rtol=1e-4, atol=1e-4)
    assert (by_max >= by_mean - 1e-3).all()
    assert not np.allclose(by_max, by_mean, atol=1e-2)


def test_taking_the_whole_change_back_gives_the_pretrained_features(network: Network, content: bytes) -> None:
    trained, _ = finetune(network, some_examples(), RECIPE)
    back = network.with_parameters(trained.parameters(), share=0.0)
    expected = OnnxEncoder.from_bytes(content, "tiny").encode(random_pixels())
    assert not np.allclose(whole_pass(trained, random_pixels()), expected, atol=1e-3)
    np.testing.assert_allclose(whole_pass(back, random_pixels()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("frozen", [0, 49])
def test_freezing_nothing_or_everything_is_refused(content: bytes, frozen: int) -> None:
    with pytest.raises(EncoderError, match="convolutions"):
        read_network(content, {CLASSES: 12}, frozen=frozen)


def test_an_encoder_of_other_layers_is_refused_by_name(tiny_encoder: OnnxEncoder) -> None:
    with pytest.raises(EncoderError, match="cannot be fine-tuned"):
        read_network(tiny_encoder.content, {CLASSES: 12}, frozen=1)


def test_each_source_draws_the_same_share_of_normals() -> None:
    domains = ["A"] * 90 + ["B"] * 30
    labels = [(NORMAL,)] * 80 + [("ulcer",)] * 10 + [(NORMAL,)] * 5 + [("polyp",)] * 25
    weight = draw_weights(domains, labels, ["a"] * 90 + ["b"] * 30, 0.45)
    assert weight.sum() == pytest.approx(1)
    for rows in (slice(0, 90), slice(90, 120)):
        normal = np.array([label == (NORMAL,) for label in labels[rows]])
        assert weight[rows][normal].sum() / weight[rows].sum() == pytest.approx(0.45)
    assert weight[:90].sum() / weight[90:].sum() == pytest.approx(np.sqrt(3))


def test_rare_labels_and_small_cases_are_drawn_by_square_roots() -> None:
    labels = [("ulcer",)] * 16 + [("polyp", "ulcer")] * 4 + [(NORMAL,)] * 5
    cases = ["x"] * 9 + ["y"] * 7 + ["x"] * 4 + ["z"] * 5
    weight = draw_weights(["A"] * 25, labels, cases)
    assert weight[:16].sum() / weight[16:20].sum() == pytest.approx(2)
    assert weight[:9].sum() / weight[9:16].sum() == pytest.approx(3 / np.sqrt(7))


def test_false_candidates_are_a_share_of_what_is_drawn_of_a_case_s_normal_images() -> None:
    examples = some_examples()
    examples = dataclasses.replace(examples, case=np.full(len(examples.case), "one"))
    normal = examples.targets[:, examples.normal] == 1
    suspicion = np.random.default_rng(2).normal(size=len(normal)).astype(np.float32)
    mined = with_false_candidates(examples, suspicion, 0.5)
    np.testing.assert_array_equal(mined.weight[~normal], examples.weight[~normal])
    rows = np.flatnonzero(normal)
    assert mined.weight[rows].sum() == pytest.approx(examples.weight[rows].sum())
    often = mined.weight[rows] > examples.weight[rows]
    assert suspicion[rows][often].min() > suspicion[rows][~often].max()
    assert np.count_nonzero(often) == len(rows) // 5
    extra = mined.weight[rows][often].sum() - 0.5 * examples.weight[rows][often].sum()
    assert extra == pytest.approx(0.5 * examples.weight[rows].sum())


def test_cases_with_hardly_any_normal_image_and_images_that_are_not_drawn_stay_as_they_are() -> None:
    examples = some_examples()
    normal = np.flatnonzero(examples.targets[:, examples.normal] == 1)
    weight = examples.weight.copy()
    weight[normal[5:]] = 0
    few = dataclasses.replace(examples, weight=weight, case=np.full(len(weight), "one"))
    mined = with_false_candidates(few, np.arange(len(weight), dtype=np.float32), 0.5)
    np.testing.assert_array_equal(mined.weight, weight)


def test_several_labels_share_the_target_and_a_distractor_is_nothing_to_report() -> None:
    frames = [dataclasses.replace(some_frames(1)[0], labels=labels) for labels in (("ulcer", "polyp"), (), (NORMAL,))]
    images = Images(np.ones((3, 8, 8, 3), np.uint8), np.ones((1, 8, 8), np.uint8), np.zeros(3, np.int64))
    targets = make_examples(images, frames, Taxonomy()).targets
    assert targets[0, VIDEOCAP_12.index("ulcer")] == targets[0, VIDEOCAP_12.index("polyp")] == 0.5
    assert targets[1, VIDEOCAP_12.index(NORMAL)] == targets[2, VIDEOCAP_12.index(NORMAL)] == 1


def test_one_kind_of_image_only_is_refused() -> None:
    examples = some_examples()
    with pytest.raises(InputError, match="both normal and abnormal"):
        dataclasses.replace(examples, targets=np.eye(12, dtype=np.float32)[np.full(24, 11)])
    with pytest.raises(InputError, match="sum to 1"):
        dataclasses.replace(examples, targets=np.full((24, 12), np.nan, np.float32))


def test_images_are_read_once_and_kept(tmp_path: Path) -> None:
    calls = []

    def make() -> Images:
        calls.append(1)
        return some_examples().images

    first, second = kept(tmp_path, ["a"], make), kept(tmp_path, ["a"], make)
    assert len(calls) == 1
    assert np.array_equal(first.pixels, second.pixels)
    kept(tmp_path, ["b"], make)
    assert len(calls) == 2


def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"0\.jpg: cannot be decoded"):
        read_labelled_images([dataclasses.replace(some_frames(1)[0], path=tmp_path / "0.jpg")], 32)


def test_real_frames_are_read_as_predict_reads_them(real_data: Path) -> None:
    from dice_ce.datasets.pool import load_pool
    from dice_ce.features.images import read_images

    frames = [frame for frame in load_pool(real_data).frames if frame.source == "KVASIR"][:20]
    images = read_labelled_images(frames, 224)
    for i, image in read_images([frame.path for frame in frames], 224):
        assert np.array_equal(images.pixels[i], image)
    octagon = images.windows[images.window[0]]
    assert octagon[112, 112]
    assert not octagon[2, 2]
