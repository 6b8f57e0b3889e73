import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.gate import GateConfig, cell_means, cosine_distance, encode_block, find_runs


class Counting:
    """Counts the frames that really go through an encoder."""

    def __init__(self, encoder: OnnxEncoder) -> None:
        self._encoder, self.frames = encoder, 0

    def encode(self, batch: np.ndarray) -> np.ndarray:
        self.frames += len(batch)
        return self._encoder.encode(batch)


def clip(levels: list[int]) -> np.ndarray:
    """Frames of one colour gradient each, brighter by its level."""
    ramp = np.linspace(20, 120, 32).astype(np.uint8)
    return np.stack([np.broadcast_to((ramp + level)[:, None, None], (32, 32, 3)) for level in levels])


def test_cell_means_are_means_of_8x8_cells() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    assert np.allclose(cell_means(images), images.reshape(3, 4, 8, 4, 8, 3).mean(axis=(2, 4)))


def test_cell_means_also_see_the_rim_of_sizes_that_8_does_not_divide() -> None:
    images = np.zeros((2, 36, 36, 3), np.uint8)
    images[1, 35, 35] = 255
    assert np.abs(np.diff(cell_means(images), axis=0)).max() > 15


def test_runs_compare_with_their_first_frame_so_that_slow_drift_ends_them() -> None:
    cells = cell_means(clip([0, 3, 6, 9, 12, 15]))
    assert find_runs(cells, GateConfig(pixel=8.0, shortest=3)) == [(0, 2), (3, 5)]
    assert find_runs(cells, GateConfig(pixel=8.0)) == [(i, i) for i in range(6)], "too short to be standing still"


def test_without_a_gate_every_frame_is_encoded(tiny_encoder: OnnxEncoder) -> None:
    counting, images = Counting(tiny_encoder), clip([0] * 20)
    block = encode_block(images, counting.encode, None)
    assert counting.frames == 20
    assert block.exact.all()
    assert np.array_equal(block.vectors, tiny_encoder.encode(images))


def test_a_standing_capsule_is_encoded_at_both_ends_only(tiny_encoder: OnnxEncoder) -> None:
    counting = Counting(tiny_encoder)
    block = encode_block(clip([0] * 64), counting.encode, GateConfig())
    assert counting.frames == 2
    assert block.exact.nonzero()[0].tolist() == [0, 63]
    assert block.worst == pytest.approx(0, abs=1e-6)


def test_a_moving_capsule_is_encoded_frame_by_frame(tiny_encoder: OnnxEncoder) -> None:
    images = clip([0, 40, 80, 10, 90, 60])
    block = encode_block(images, tiny_encoder.encode, GateConfig())
    assert block.exact.all()
    assert np.array_equal(block.vectors, tiny_encoder.encode(images))


def test_a_small_spot_is_noticed(tiny_encoder: OnnxEncoder) -> None:
    images = np.array(clip([0] * 9))
    images[4, 10:16, 10:16] = (200, 30, 30)
    block = encode_block(images, tiny_encoder.encode, GateConfig())
    assert block.exact[4]
    assert np.array_equal(block.vectors[4], tiny_encoder.encode(images[4:5])[0])


def test_runs_whose_ends_disagree_are_halved(tiny_encoder: OnnxEncoder) -> None:
    images = np.array(clip([0] * 17))
    images[:, :, 16:] += np.arange(17, dtype=np.uint8)[:, None, None, None]  # drifts in look, not by much per cell
    strict = encode_block(images, tiny_encoder.encode, GateConfig(pixel=50, feature=1e-4))
    loose = encode_block(images, tiny_encoder.encode, GateConfig(pixel=50, feature=0.5))
    assert loose.exact.sum() == 2
    assert 2 < strict.exact.sum() < 17
    assert strict.worst <= 1e-4


@settings(max_examples=60, deadline=None)
@given(levels=st.lists(st.integers(0, 30), min_size=1, max_size=24), feature=st.sampled_from([1e-4, 1e-3, 0.02]))
def test_every_reused_feature_lies_between_exact_ones_that_agree(
    levels: list[int], feature: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.material import write_tiny_encoder

    encoder = OnnxEncoder.open(write_tiny_encoder(tmp_path_factory.getbasetemp() / "gate.onnx"))
    images = clip(levels)
    block = encode_block(images, encoder.encode, GateConfig(pixel=8, feature=feature, shortest=3))
    true, exact = encoder.encode(images), block.exact.nonzero()[0]
    assert np.allclose(block.vectors[exact], true[exact], atol=1e-6)
    for row in (~block.exact).nonzero()[0]:
        before, after = exact[exact < row].max(), exact[exact > row].min()
        assert cosine_distance(true[before], true[after]) <= feature + 1e-6
        nearer = before if row - before <= after - row else after
        assert np.allclose(block.vectors[row], true[nearer], atol=1e-6)


def test_cosine_distance_of_nothing_is_nothing() -> None:
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert cosine_distance(zero, zero) == 0
    assert cosine_distance(zero, one) == 1
    assert cosine_distance(one, 2 * one) == pytest.approx(0, abs=1e-6)
