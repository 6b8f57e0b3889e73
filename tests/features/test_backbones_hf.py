"""Tiny random models of every family go through what the published ones go through: config, weights, features, ONNX."""

from __future__ import annotations

import json
import logging
import pickle
import re
import shutil
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import huggingface_hub  # noqa: E402

from dice_ce.errors import EncoderError, MissingExtraError  # noqa: E402
from dice_ce.extras import install_command  # noqa: E402
from dice_ce.features.backbones import hf  # noqa: E402
from dice_ce.features.encoder import OnnxEncoder, load_encoder  # noqa: E402
from tests.tiny_models import CASES, IMAGENET, MLP, randomised  # noqa: E402

EXPORTED = ("dinov3", "dinov2", "siglip")

each_case = pytest.mark.parametrize("kind", CASES)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {kind: randomised(case.build(), 1) for kind, case in CASES.items()}


@pytest.fixture(scope="module")
def folders(models: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders as `hf download` would leave them."""
    root = tmp_path_factory.mktemp("checkpoints")
    for kind, model in models.items():
        model.save_pretrained(root / kind)
    return {kind: root / kind for kind in models}


@pytest.fixture(scope="module")
def encoders(folders: dict[str, Path]) -> dict[str, Any]:
    return {kind: load_encoder(str(folder)) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def exports(encoders: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("exports")
    for kind in EXPORTED:
        hf.export_onnx(encoders[kind], root / f"file-of-{kind}.onnx")
    return {kind: root / f"file-of-{kind}.onnx" for kind in EXPORTED}


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A DINOv3 checkpoint to spoil."""
    return Path(shutil.copytree(folders["dinov3"], tmp_path / "copied"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The hub offline with an empty cache; its environment variables are read at import, and no socket may open."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("touched the network")

    for opening in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, opening, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def frames_for(encoder: Any, count: int = 3, seed: int = 0) -> Any:
    size = encoder.input_size
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, 3), np.uint8)


def relative_difference(features: Any, wanted: Any) -> float:
    return float((np.linalg.norm(features - wanted, axis=1) / np.linalg.norm(wanted, axis=1)).max())


def edit_json(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **changes}))


def refusal(spec: Path | str) -> str:
    with pytest.raises(EncoderError) as caught:
        load_encoder(str(spec))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(spec))
    return message


# --- the encoder's contract -------------------------------------------------------------------------------------------


@each_case
def test_describes_itself(encoders: dict[str, Any], kind: str) -> None:
    encoder, case = encoders[kind], CASES[kind]
    assert (encoder.name, encoder.input_size, encoder.dim, encoder.resize) == (
        kind,
        case.size,
        32,
        case.resize,
    )
    assert len(encoder.digest) == 64


def test_read_only_and_flipped_frames(encoders: dict[str, Any]) -> None:
    encoder = encoders["dinov3"]
    flipped = frames_for(encoder)[:, ::-1]
    flipped.flags.writeable = False
    assert np.array_equal(encoder.encode(flipped), encoder.encode(flipped.copy()))


def test_threads_get_their_own_features(encoders: dict[str, Any]) -> None:
    encoder = encoders["siglip"]
    batches = [frames_for(encoder, seed=seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(encoder.encode, batches))
    assert all(np.array_equal(one, encoder.encode(batch)) for one, batch in zip(together, batches, strict=True))


# --- fidelity: the same numbers as the model itself -------------------------------------------------------------------


def pooled_by_hand(model: Any, pixels: Any) -> Any:
    tower = getattr(model, "vision_model", model)
    with torch.no_grad():
        return tower(torch.tensor(pixels.transpose(0, 3, 1, 2).astype(np.float32))).pooler_output.numpy()


@each_case
def test_equals_the_model_on_frames_normalised_by_hand(
    models: dict[str, Any], encoders: dict[str, Any], kind: str
) -> None:
    case, frames = CASES[kind], frames_for(encoders[kind])
    mean, std = (np.float32(values) for values in case.statistics)
    edge = (case.size - case.crop) // 2
    centre = frames[:, edge : edge + case.crop, edge : edge + case.crop]
    wanted = pooled_by_hand(models[kind], (centre / np.float32(255) - mean) / std)
    assert relative_difference(encoders[kind].encode(frames), wanted) < 1e-6


@each_case
def test_equals_the_model_on_frames_normalised_by_transformers(
    models: dict[str, Any], encoders: dict[str, Any], kind: str
) -> None:
    """Whole image processors need Pillow or torchvision; the arithmetic they are made of does not."""
    transforms = pytest.importorskip("transformers.image_transforms")
    case, frames = CASES[kind], frames_for(encoders[kind])
    mean, std = case.statistics
    edge = (case.size - case.crop) // 2
    centre = frames[:, edge : edge + case.crop, edge : edge + case.crop]
    pixels = np.stack([transforms.normalize(transforms.rescale(image, 1 / 255), mean, std) for image in centre])
    assert relative_difference(encoders[kind].encode(frames), pooled_by_hand(models[kind], pixels)) < 1e-6


def test_dinov2_looks_at_the_centre_only(encoders: dict[str, Any]) -> None:
    encoder = encoders["dinov2"]
    frames = frames_for(encoder)
    reframed = np.zeros_like(frames)
    reframed[:, 16:240, 16:240] = frames[:, 16:240, 16:240]
    assert np.array_equal(encoder.encode(frames), encoder.encode(reframed))


def test_half_precision_checkpoints_compute_in_single(models: dict[str, Any], tmp_path: Path) -> None:
    model = randomised(CASES["dinov3"].build(), 1).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "half")
    encoder = load_encoder(str(tmp_path / "half"))
    assert {weight.dtype for weight in encoder.network.state_dict().values()} == {torch.float32}
    assert encoder.encode(frames_for(encoder)).dtype == np.float32


# --- digest -----------------------------------------------------------------------------------------------------------


@each_case
def test_digest_is_stable(encoders: dict[str, Any], folders: dict[str, Path], kind: str, tmp_path: Path) -> None:
    moved = shutil.copytree(folders[kind], tmp_path / "under another name")
    assert load_encoder(str(moved)).digest == encoders[kind].digest


def test_digests_of_families_differ(encoders: dict[str, Any]) -> None:
    assert len({encoder.digest for encoder in encoders.values()}) == len(encoders)


def test_digest_follows_the_weights(models: dict[str, Any], encoders: dict[str, Any], tmp_path: Path) -> None:
    randomised(CASES["dinov3"].build(), 2).save_pretrained(tmp_path / "others")
    assert load_encoder(str(tmp_path / "others")).digest != encoders["dinov3"].digest


@pytest.mark.parametrize("change", [{"layer_norm_eps": 1e-3}, {"rope_theta": 50.0}])
def test_digest_follows_the_config(encoders: dict[str, Any], copied: Path, change: dict[str, float]) -> None:
    edit_json(copied / "config.json", **change)
    assert load_encoder(str(copied)).digest != encoders["dinov3"].digest


def test_digest_of_a_whole_siglip_is_that_of_its_vision_part(
    models: dict[str, Any], encoders: dict[str, Any], tmp_path: Path
) -> None:
    models["siglip"].vision_model.save_pretrained(tmp_path / "part")
    part = load_encoder(str(tmp_path / "part"))
    assert part.digest == encoders["siglip"].digest
    assert np.array_equal(part.encode(frames_for(part)), encoders["siglip"].encode(frames_for(part)))


# --- preprocessor files -----------------------------------------------------------------------------------------------

PUBLISHED_DINOV2 = {
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": IMAGENET[0],
    "image_std": IMAGENET[1],
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"shortest_edge": 256},
}
OTHER = {
    "crop_size": None,
    "do_center_crop": None,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.3, 0.4],
    "resample": 4,
    "size": {"height": 64, "width": 64},
}


def test_published_file_says_what_the_family_does(
    encoders: dict[str, Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders["dinov2"], tmp_path / "dinov2"))
    edit_json(folder / "preprocessor_config.json", **PUBLISHED_DINOV2)
    assert load_encoder(str(folder)).digest == encoders["dinov2"].digest


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("kind", ["dinov3", "siglip"])
def test_preprocessor_file_has_the_last_word(
    models: dict[str, Any],
    encoders: dict[str, Any],
    folders: dict[str, Path],
    tmp_path: Path,
    kind: str,
    is_nested: bool,
) -> None:
    folder = Path(shutil.copytree(folders[kind], tmp_path / kind))
    if is_nested:
        edit_json(folder / "processor_config.json", image_processor=OTHER)
    else:
        edit_json(folder / "preprocessor_config.json", **OTHER)
    encoder = load_encoder(str(folder))
    assert (encoder.input_size, encoder.resize) == (64, "area")
    assert encoder.digest != encoders[kind].digest
    frames = frames_for(encoder)
    pixels = (frames / np.float32(255) - np.float32([0.4, 0.5, 0.6])) / np.float32([0.2, 0.3, 0.4])
    tower = getattr(models[kind], "vision_model", models[kind])
    options = {"interpolate_pos_encoding": True} if kind == "siglip" else {}
    with torch.no_grad():
        wanted = tower(torch.tensor(pixels.transpose(0, 3, 1, 2)), **options).pooler_output.numpy()
    assert relative_difference(encoder.encode(frames), wanted) < 1e-6


@pytest.mark.parametrize(
    ("given", "size", "crop"),
    [
        ({}, 48, 48),
        ({"size": 64}, 64, 64),
        ({"size": {"shortest_edge": 64}, "do_center_crop": True, "crop_size": 32}, 64, 32),
        ({"do_center_crop": False, "crop_size": 32}, 48, 48),
    ],
)
def test_sizes_and_crops(copied: Path, given: dict[str, Any], size: int, crop: int) -> None:
    edit_json(copied / "preprocessor_config.json", **given)
    encoder = load_encoder(str(copied))
    assert encoder.input_size == size
    frames = frames_for(encoder)
    outside = np.ones((size, size), bool)
    margin = (size - crop) // 2
    outside[margin : margin + crop, margin : margin + crop] = False
    changed = np.where(outside[..., None], 255 - frames, frames)
    assert np.array_equal(encoder.encode(frames), encoder.encode(changed))


def test_normalisation_can_be_off(models: dict[str, Any], copied: Path) -> None:
    edit_json(copied / "preprocessor_config.json", do_rescale=False, do_normalize=False)
    encoder = load_encoder(str(copied))
    frames = frames_for(encoder)
    assert relative_difference(encoder.encode(frames), pooled_by_hand(models["dinov3"], frames)) < 1e-6


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"size": {"height": 64, "width": 48}}, "expected the side of a square"),
        ({"size": "large"}, "expected the side of a square"),
        ({"do_center_crop": True, "crop_size": 64}, "cannot crop 64 pixels out of 48"),
        ({"resample": 1}, "resample 1 is none of 2, 3, 4"),
        ({"image_mean": [0.5]}, "mean and std of three colours"),
        ({"image_std": 0.5}, "not iterable"),
    ],
)
def test_unusable_preprocessor_file(copied: Path, given: dict[str, Any], reason: str) -> None:
    edit_json(copied / "preprocessor_config.json", **given)
    message = refusal(copied)
    assert reason in message
    assert message.endswith("correct its preprocessor_config.json")


# --- export -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EXPORTED)
def test_export_computes_the_same(encoders: dict[str, Any], exports: dict[str, Path], kind: str) -> None:
    encoder, exported = encoders[kind], load_encoder(str(exports[kind]))
    assert isinstance(exported, OnnxEncoder)
    for fact in ("name", "input_size", "dim", "resize"):
        assert getattr(exported, fact) == getattr(encoder, fact)
    for count in (1, 5):
        frames = frames_for(encoder, count, seed=count)
        assert relative_difference(exported.encode(frames), encoder.encode(frames)) < 1e-4


@pytest.mark.parametrize("kind", EXPORTED)
def test_export_is_one_file_that_tells_nothing_else(exports: dict[str, Path], kind: str) -> None:
    assert {file.name for file in exports[kind].parent.iterdir()} == {f"file-of-{kind}.onnx" for kind in EXPORTED}
    content = exports[kind].read_bytes()
    assert b"site-packages" not in content
    assert b"backbones/hf.py" not in content
    session = OnnxEncoder.open(exports[kind]).session
    assert [tensor.name for tensor in (*session.get_inputs(), *session.get_outputs())] == [
        "frames",
        "features",
    ]


@pytest.mark.parametrize("has_old_file", [False, True])
def test_export_that_computes_something_else_is_not_written(
    exports: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_old_file: bool
) -> None:
    randomised(CASES["dinov3"].build(), 2).save_pretrained(tmp_path / "others")
    monkeypatch.setattr(hf, "_as_onnx", lambda _: exports["dinov3"].read_bytes())
    target = tmp_path / "out" / "encoder.onnx"
    target.parent.mkdir()
    if has_old_file:
        target.write_bytes(b"old")
    with pytest.raises(
        EncoderError, match=r"encoder.onnx: not written, its features would differ by .*; use the model"
    ):
        hf.export_onnx(load_encoder(str(tmp_path / "others")), target)
    assert [file.read_bytes() for file in target.parent.iterdir()] == ([b"old"] if has_old_file else [])


def test_export_of_too_large_a_model(encoders: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf, "ONNX_LIMIT", 1000)
    with pytest.raises(EncoderError, match="2 GB do not fit into an ONNX file; use the model as it is"):
        hf.export_onnx(encoders["dinov3"], tmp_path / "encoder.onnx")
    assert not list(tmp_path.iterdir())


def test_export_that_torch_cannot_do(encoders: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.onnx.errors.OnnxExporterError("no such operator\nand much more")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(EncoderError, match=r"^dinov3: no export \(no such operator\); use the model as it is$"):
        hf.export_onnx(encoders["dinov3"], tmp_path / "encoder.onnx")
    assert not list(tmp_path.iterdir())


# --- manners ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_bars", [False, True])
def test_loading_and_exporting_are_silent_and_leave_no_trace(
    folders: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], has_bars: bool
) -> None:
    bars = transformers.utils.logging
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub", "torch.onnx", "onnxscript")]
    (bars.enable_progress_bar if has_bars else bars.disable_progress_bar)()
    levels = [logger.level for logger in loggers]
    try:
        encoder = hf.load_hf(str(folders["siglip"]))
        if has_bars:
            hf.export_onnx(encoder, tmp_path / "encoder.onnx")
        assert capfd.readouterr() == ("", "")
        assert [logger.level for logger in loggers] == levels
        assert bars.is_progress_bar_enabled() == has_bars
        assert huggingface_hub.utils.are_progress_bars_disabled() != has_bars
    finally:
        bars.enable_progress_bar()


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_missing_package(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"'{package}'.*{re.escape(install_command('hf'))}"):
        load_encoder(str(folders["dinov3"]))


# --- models that cannot be used ---------------------------------------------------------------------------------------


def test_folder_without_config(tmp_path: Path) -> None:
    assert "there is no config.json in it; give the folder that 'hf download'" in refusal(tmp_path)


@pytest.mark.parametrize("model_type", ["vit", "siglip2", "invented", None, ["dinov2"]])
def test_unsupported_type(copied: Path, model_type: object) -> None:
    edit_json(copied / "config.json", model_type=model_type)
    message = refusal(copied)
    assert "are not supported; give one of type dinov3_vit, dinov2, " in message
    assert "siglip_vision_model, or an .onnx file" in message


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
def test_damaged_json(copied: Path, name: str, content: bytes) -> None:
    (copied / name).write_bytes(content)
    with pytest.raises(EncoderError, match=rf"{name}: not a JSON object \(.*\); download it again$"):
        load_encoder(str(copied))


def test_config_with_values_of_the_wrong_type(copied: Path) -> None:
    edit_json(copied / "config.json", hidden_size="wide")
    assert "damaged model" in refusal(copied)


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_damaged_weights(copied: Path, damage: str) -> None:
    weights = copied / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes({"truncated": content[: len(content) // 2], "garbage": b"?" * 500, "empty": b""}[damage])
    message = refusal(copied)
    assert "damaged model" in message
    assert message.endswith("download it again")


def test_weights_that_are_missing_are_not_made_up(copied: Path) -> None:
    edit_json(copied / "config.json", num_hidden_layers=3)
    assert "the weights do not fit config.json" in refusal(copied)


def test_weights_of_another_shape(copied: Path) -> None:
    edit_json(copied / "config.json", intermediate_size=48)
    assert "the weights do not fit config.json (6 missing or of another shape, first 'model.layer.0" in refusal(copied)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("pickled code was run",)


def test_pickled_weights_are_not_opened(copied: Path) -> None:
    (copied / "model.safetensors").unlink()
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    assert "pickled weights are not read because they can run code; download the model again" in refusal(copied)


def test_code_of_the_model_is_not_run(copied: Path, encoders: dict[str, Any]) -> None:
    (copied / "custom.py").write_text("raise SystemExit('foreign code was run')")
    edit_json(copied / "config.json", auto_map={"AutoConfig": "custom.Config", "AutoModel": "custom.Model"})
    encoder = load_encoder(str(copied))
    frames = frames_for(encoder)
    assert np.array_equal(encoder.encode(frames), encoders["dinov3"].encode(frames))


def test_model_without_pooling_head(tmp_path: Path) -> None:
    config = transformers.SiglipVisionConfig(**MLP, image_size=32, patch_size=16, vision_use_head=False)
    transformers.SiglipVisionModel(config).save_pretrained(tmp_path / "headless")
    assert "gives no pooled feature for RGB frames of 32 pixels" in refusal(tmp_path / "headless")


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("spec", ["facebook/dinov2-base", "no such/model"])
def test_hub_id_that_is_out_of_reach(spec: str) -> None:
    message = refusal(spec)
    assert "the weights are not on this machine and cannot be downloaded" in message
    assert message.endswith(f"run 'hf download {spec} --local-dir DIR' and give the folder DIR instead")


def put_into_hub_cache(cache: Path, hub_id: str, folder: Path) -> Path:
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    return Path(shutil.copytree(folder, repository / "snapshots" / ("0" * 40)))


def test_hub_id_in_the_cache(offline: Path, folders: dict[str, Path], encoders: dict[str, Any]) -> None:
    put_into_hub_cache(offline, "someone/tiny", folders["dinov3"])
    encoder = load_encoder("someone/tiny")
    assert encoder.name == "someone/tiny"
    assert encoder.digest == encoders["dinov3"].digest


def test_hub_id_with_only_its_config_in_the_cache(offline: Path, folders: dict[str, Path]) -> None:
    snapshot = put_into_hub_cache(offline, "someone/tiny", folders["dinov3"])
    (snapshot / "model.safetensors").unlink()
    assert "there is no model.safetensors" in refusal("someone/tiny")


@pytest.mark.usefixtures("offline")
def test_gated_hub_id(monkeypatch: pytest.MonkeyPatch) -> None:
    gated = huggingface_hub.errors.GatedRepoError

    def refuse(*_: object, **__: object) -> None:
        error = gated.__new__(gated)
        error.args = ("401 Client Error.\n\nCannot access gated repo",)
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    hub_id = "facebook/dinov3-vits16-pretrain-lvd1689m"
    message = refusal(hub_id)
    assert f"accept its licence at https://huggingface.co/{hub_id} and run 'hf auth login'" in message
