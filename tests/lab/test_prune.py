"""An encoder without channels that say next to nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.lab.training.network import onnx
from dice_ce.lab.training.prune import GRAIN, find_blocks, pruned, without_the_least
from tests.lab.test_finetune import tiny_lite

WIDTH = 2 * GRAIN
"""Channels of the tiny network: what is left of a block may be half of them."""
BLOCKS = 15
"""Of the sixteen: what the first one widens goes around it, too, so nothing of it can be left out."""


def frames(count: int = 6) -> np.ndarray:
    """Smooth images, of which a random network makes smooth maps."""
    chance = np.random.default_rng(1)
    coarse = chance.integers(0, 255, (count, 7, 7, 3))
    return coarse.repeat(32, axis=1).repeat(32, axis=2).astype(np.uint8)


def weights_of(model: bytes) -> dict[str, np.ndarray]:
    return {v.name: onnx.numpy_helper.to_array(v) for v in onnx.load_from_string(model).graph.initializer}


def widths(model: bytes) -> list[int]:
    weights = weights_of(model)
    return [len(weights[block.each.input[1]]) for block in find_blocks(onnx.load_from_string(model))]


def with_silent(model: bytes, silent: slice) -> bytes:
    """Let some channels of every block say nothing: what they are limited to begins at 0."""
    made = onnx.load_from_string(model)
    weights = weights_of(model)
    for block in find_blocks(made):
        for value in made.graph.initializer:
            if value.name == block.each.input[2]:
                bias = weights[value.name].copy()
                bias[silent] = -1e4
                value.CopyFrom(onnx.numpy_helper.from_array(bias, value.name))
    return bytes(made.SerializeToString())


def test_channels_that_say_nothing_go_and_features_stay() -> None:
    before = with_silent(tiny_lite(WIDTH), slice(3, 3 + GRAIN))
    made = pruned(before, frames(), 1e-3)
    assert widths(before) == [WIDTH] * BLOCKS
    assert widths(made) == [GRAIN] * BLOCKS
    wanted, found = (OnnxEncoder.from_bytes(model, "tiny").encode(frames()[::-1]) for model in (before, made))
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.03)  # a channel that hardly says anything may go, too


def test_nothing_goes_that_is_needed() -> None:
    made = pruned(tiny_lite(WIDTH), frames(), 0.0)
    assert widths(made) == [WIDTH] * BLOCKS
    wanted, found = (OnnxEncoder.from_bytes(model, "tiny").encode(frames()) for model in (tiny_lite(WIDTH), made))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_more_may_be_lost_the_more_goes() -> None:
    total = [sum(widths(pruned(tiny_lite(WIDTH), frames(), lost))) for lost in (0.0, 0.05, 1.0)]
    assert total[0] > total[1] > total[2] == BLOCKS * GRAIN


@effort(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.001, 0.01, 0.1, 0.5]))
def test_no_more_is_lost_than_allowed_and_no_other_weights_lose_less(seed: int, share: float) -> None:
    chance = np.random.default_rng(seed)
    seen = chance.normal(0, 1, (400, 24)) @ chance.normal(0, 1, (24, 4 * GRAIN))
    seen += chance.normal(0, 0.3, seen.shape)
    weight = chance.normal(0, 1, (5, 4 * GRAIN))
    covariance = np.cov(seen.T, bias=True)
    wanted = seen @ weight.T
    kept, after = without_the_least(weight, covariance, share * wanted.var(axis=0).sum())
    assert len(kept) % GRAIN == 0
    found = (wanted - seen[:, kept] @ after.T).var(axis=0).sum() / wanted.var(axis=0).sum()
    assert found <= share
    centred = seen[:, kept] - seen[:, kept].mean(axis=0)
    best, *_ = np.linalg.lstsq(centred, wanted - wanted.mean(axis=0), rcond=None)
    least = (wanted - seen[:, kept] @ best).var(axis=0).sum() / wanted.var(axis=0).sum()
    assert found == pytest.approx(least, rel=0.02, abs=1e-6)


def test_one_of_two_that_say_the_same_goes_and_the_other_says_both() -> None:
    chance = np.random.default_rng(0)
    seen = chance.normal(0, 1, (500, GRAIN))
    both = np.concatenate([seen, seen], axis=1)
    weight = chance.normal(0, 1, (3, 2 * GRAIN))
    kept, after = without_the_least(weight, np.cov(both.T, bias=True), 0.1)
    assert sorted(kept % GRAIN) == list(range(GRAIN))
    together = weight[:, :GRAIN] + weight[:, GRAIN:]
    np.testing.assert_allclose(after, together[:, kept % GRAIN], rtol=0.01, atol=0.01)


def test_what_a_block_gives_is_the_sum_where_there_is_a_shortcut_around_it() -> None:
    made = onnx.load_from_string(tiny_lite())
    makers = {node.output[0]: node for node in made.graph.node}
    blocks = find_blocks(made)
    assert len(blocks) == BLOCKS
    around = [block for block in blocks if makers[block.result].op_type == "Add"]
    assert 0 < len(around) < BLOCKS
    assert all(block.add_up.output[0] in makers[block.result].input for block in around)
    assert all(block.add_up.output[0] == block.result for block in blocks if block not in around)
