"""The conformance suite: an encoder is tested by being registered, and each family of hub models by a tiny one."""

import re
from pathlib import Path

import numpy as np
import pytest

from dice_ce.errors import EncoderError, MissingExtraError
from dice_ce.extras import install_command
from dice_ce.features.encoder import BATCH_TOLERANCE, ENCODERS, Encoder, OnnxEncoder, export_encoder, load_encoder
from tests.material import write_tiny_encoder

READY = [name for name, entry in ENCODERS.items() if entry.status == "ready"]
TINY = ["dinov3", "dinov2", "dinov2-registers", "siglip", "siglip-vision"]


@pytest.fixture(scope="module", params=["an .onnx file", *READY, *(f"a tiny {kind}" for kind in TINY)])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    name: str = request.param
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DICE_CE_CACHE", str(tmp_path_factory.getbasetemp() / "encoder-cache"))
        if name in ENCODERS:
            return load_encoder(name)
        if name == "an .onnx file":
            return load_encoder(str(write_tiny_encoder(folder / "tiny.onnx")))
        pytest.importorskip("transformers")
        from tests.tiny_models import save_tiny_model

        return load_encoder(str(save_tiny_model(name.removeprefix("a tiny "), folder)))


def test_every_registered_encoder_is_ready_or_says_what_is_missing() -> None:
    assert {entry.status for entry in ENCODERS.values()} <= {
        "ready",
        "weights not on this machine",
        "needs the extra imagenet",
        "needs the extra hf",
    }


def frames(encoder: Encoder, count: int, seed: int = 0) -> np.ndarray:
    """Smooth coloured frames: noise alone would leave most networks cold."""
    size, rng = encoder.input_size, np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (count, size // 16 + 1, size // 16 + 1, 3), dtype=np.uint8)
    return np.ascontiguousarray(coarse.repeat(16, axis=1).repeat(16, axis=2)[:, :size, :size])


class TestConformance:
    def test_features_have_the_declared_shape_and_type(self, encoder: Encoder) -> None:
        features = encoder.encode(frames(encoder, 3))
        assert features.shape == (3, encoder.dim)
        assert features.dtype == np.float32
        assert np.isfinite(features).all()

    def test_features_tell_frames_apart(self, encoder: Encoder) -> None:
        one, two = encoder.encode(frames(encoder, 2))
        assert np.linalg.norm(one - two) > 0.01 * np.linalg.norm(one)

    def test_the_same_frames_give_the_same_bytes(self, encoder: Encoder) -> None:
        batch = frames(encoder, 4)
        assert np.array_equal(encoder.encode(batch), encoder.encode(batch.copy()))

    def test_the_batch_size_does_not_matter(self, encoder: Encoder) -> None:
        batch = frames(encoder, 9)
        together = encoder.encode(batch)
        apart = np.concatenate([encoder.encode(batch[i : i + 1]) for i in range(9)])
        worst = np.linalg.norm(together - apart, axis=1) / np.linalg.norm(together, axis=1)
        assert worst.max() <= BATCH_TOLERANCE

    def test_grey_black_and_white_frames_are_frames(self, encoder: Encoder) -> None:
        size = encoder.input_size
        batch = np.stack([np.full((size, size, 3), level, np.uint8) for level in (0, 128, 255)])
        assert np.isfinite(encoder.encode(batch)).all()

    def test_an_empty_batch_gives_no_features(self, encoder: Encoder) -> None:
        assert encoder.encode(frames(encoder, 1)[:0]).shape == (0, encoder.dim)

    @pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint16, np.bool_])
    def test_another_type_is_refused(self, encoder: Encoder, dtype: type) -> None:
        with pytest.raises(EncoderError, match=r"expected uint8 pixels \(0-255\), got"):
            encoder.encode(frames(encoder, 1).astype(dtype))

    def test_another_shape_is_refused(self, encoder: Encoder) -> None:
        batch = frames(encoder, 2)
        for wrong in (batch[0], batch[:, :-1], batch[:, :, :, :1], batch[:, :, :, 0], batch.transpose(0, 3, 1, 2)):
            with pytest.raises(EncoderError, match="expected frames of shape"):
                encoder.encode(wrong)

    def test_something_else_is_refused(self, encoder: Encoder) -> None:
        with pytest.raises(EncoderError, match="expected a numpy array of frames, got list"):
            encoder.encode(frames(encoder, 1).tolist())

    def test_it_introduces_itself(self, encoder: Encoder) -> None:
        assert encoder.name
        assert len(encoder.digest) == 64
        assert encoder.resize in ("area", "bilinear", "bicubic")


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(EncoderError, match="unknown encoder 'dinov2-bse'; did you mean 'dinov2-base'"):
        load_encoder("dinov2-bse")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a))
    assert ENCODERS["dinov2-base"].status == "needs the extra hf"
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("hf"))):
        load_encoder("dinov2-base")


def test_an_exported_encoder_is_the_same_encoder(tmp_path: Path) -> None:
    original = OnnxEncoder.open(write_tiny_encoder(tmp_path / "tiny.onnx"))
    exported = export_encoder(str(tmp_path / "tiny.onnx"), tmp_path / "out" / "copy.onnx")
    assert (exported.name, exported.digest) == ("copy", original.digest)


def test_what_is_not_an_encoder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    with pytest.raises(EncoderError, match="cannot be read"):
        OnnxEncoder.open(path)
    path.write_bytes(b"not a model")
    with pytest.raises(EncoderError, match="not a usable ONNX model"):
        OnnxEncoder.open(path)


def test_a_graph_of_another_kind_is_refused(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 8, 8])],
    )
    path = tmp_path / "x.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(EncoderError, match=r"not an encoder: expected one input uint8 \[n, s, s, 3\]"):
        OnnxEncoder.open(path)


def test_other_weights_have_another_digest(tmp_path: Path) -> None:
    one = OnnxEncoder.open(write_tiny_encoder(tmp_path / "a.onnx"))
    two = OnnxEncoder.open(write_tiny_encoder(tmp_path / "b.onnx", scale=0.5))
    assert one.digest != two.digest
