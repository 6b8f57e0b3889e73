"""Devices: the choice is made among what there is, refused in one line, and never replaced silently."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from dice_ce.cli import main
from dice_ce.errors import EncoderError, UsageError
from dice_ce.features.encoder import Encoder, OnnxEncoder, on_device
from dice_ce.features.runtime import PROVIDERS, choose_device, has_vnni, start_session
from dice_ce.method.bundle import bundle_on_device, load_bundle
from tests.material import numbered_video

CPU, CUDA, TENSORRT = (PROVIDERS[device][0] for device in ("cpu", "cuda", "tensorrt"))


@pytest.mark.parametrize(
    ("wanted", "available", "chosen"),
    [
        ("cpu", [CPU], "cpu"),
        ("cpu", [TENSORRT, CUDA, CPU], "cpu"),
        ("cuda", [CUDA, CPU], "cuda"),
        ("tensorrt", [TENSORRT, CUDA, CPU], "tensorrt"),
        ("auto", [CPU], "cpu"),
        ("auto", [TENSORRT, CUDA, CPU], "cuda"),
    ],
)
def test_a_device_is_chosen_among_what_there_is(wanted: str, available: list[str], chosen: str) -> None:
    assert choose_device(wanted, available) == chosen


@pytest.mark.parametrize(("wanted", "available"), [("cuda", [CPU]), ("tensorrt", [CUDA, CPU])])
def test_a_device_that_is_not_there_is_refused_with_the_remedy(wanted: str, available: list[str]) -> None:
    with pytest.raises(UsageError, match=rf"--device {wanted}: .* \(it has .*CPU.*\); install onnxruntime-gpu"):
        choose_device(wanted, available)


@pytest.mark.skipif(CUDA in onnxruntime.get_available_providers(), reason="this ONNX Runtime can use CUDA")
def test_the_command_refuses_before_any_work(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    video = numbered_video(tmp_path / "exam.mp4", 5)
    for words in (["summarize", "--out", str(tmp_path / "out")], ["extract"]):
        assert main([words[0], str(video), *words[1:], "--device", "cuda"]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert "--device cuda" in line
        assert "or use --device cpu" in line
    assert not (tmp_path / "out").exists()


@pytest.fixture
def without_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX Runtime that says it can use CUDA, and then takes the CPU: built for it, on a machine without one."""
    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime can use CUDA")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])


@pytest.mark.usefixtures("without_the_gpu")
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_device_is_never_replaced_silently(tiny_encoder: OnnxEncoder) -> None:
    with pytest.raises(EncoderError, match=r"--device cuda: ONNX Runtime does not find it .*, or use --device cpu"):
        on_device(tiny_encoder, "cuda")
    assert on_device(tiny_encoder, "auto") is tiny_encoder


@pytest.mark.usefixtures("without_the_gpu")
def test_only_onnx_encoders_have_a_choice(tiny_encoder: OnnxEncoder) -> None:
    class Other:
        name = "another kind"

    other: Encoder = Other()  # type: ignore[assignment]
    with pytest.raises(UsageError, match="another kind is no ONNX encoder; make one with"):
        on_device(other, "cuda")
    assert on_device(other, "cpu") is other


def test_features_of_another_device_have_another_digest(
    tiny_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROVIDERS, "cuda", (CPU,))  # something that can be had here, under that name
    moved = OnnxEncoder.from_bytes(tiny_encoder.content, tiny_encoder.name, device="cuda")
    assert moved.digest != tiny_encoder.digest
    assert (moved.name, moved.dim) == (tiny_encoder.name, tiny_encoder.dim)


def test_all_networks_of_a_bundle_go_there_and_see_what_they_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "cuda", (CPU,))
    here = load_bundle("default@fast")
    there = bundle_on_device(here, "cuda")
    before, after = (
        [bundle.encoder, *(getattr(one, "encoder", one) for one in bundle.diagnoser.networks)]
        for bundle in (here, there)
    )
    assert [network.device for network in after] == ["cuda"] * 3
    assert [network.input_size for network in after] == [network.input_size for network in before] == [128, 160, 112]
    assert len({network.digest for network in (*before, *after)}) == 6


def test_sums_of_8_bits_do_not_overflow() -> None:
    """On processors without VNNI two such products no longer fit into the 16 bits that the fast way has for them."""
    weights = onnx.numpy_helper.from_array(np.full((8, 4), 127, np.int8), "weights")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["x", "weights"], ["y"])],
        "largest",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 8])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 4])],
        [weights],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (found,) = start_session(model.SerializeToString(), 1).run(None, {"x": np.full((1, 8), 255, np.uint8)})
    assert found.tolist() == [[8 * 127 * 255] * 4]


def test_the_slower_way_is_for_processors_that_need_it() -> None:
    assert has_vnni("processor\t: 0\nflags\t\t: fpu avx2 avx512_vnni sse\n")
    assert has_vnni("flags\t\t: fpu avx2 avx_vnni\n")
    assert not has_vnni("processor\t: 0\nflags\t\t: fpu avx2 avx512f\nbugs\t: vnni\n")
    assert not has_vnni("")
