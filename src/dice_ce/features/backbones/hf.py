"""Vision transformers in the format of Hugging Face transformers: DINOv3, DINOv2 and SigLIP(2).

A feature is the model's `pooler_output`: the normalised CLS token of DINO, the attention-pooled token of SigLIP.
The reader resizes; cropping and normalisation are the few lines below, because the processors of transformers need
torchvision. A checkpoint's own preprocessor_config.json has the last word on all three.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import EncoderError, require
from dice_ce.features.backbones.hub import (
    CONFIG_FILES,
    WEIGHT_FILES,
    fetch,
    load_weights,
    quiet,
    read_json,
    read_preprocessor,
    reason,
    without_progress_bars,
)
from dice_ce.features.encoder import OnnxEncoder, check_batch
from dice_ce.files import atomic_file
from dice_ce.types import Resize

RESAMPLING: dict[int, Resize] = {2: "bilinear", 3: "bicubic", 4: "area"}
"""Pillow's numbers, which preprocessor files use."""
NOT_IN_FEATURES = {"_name_or_path", "architectures", "dtype", "transformers_version"}
"""Config entries that differ between copies of one model without changing a feature."""
EXPORT_TOLERANCE = 1e-4
"""Largest difference, relative to the feature's norm, between an exported encoder and its original."""
ONNX_LIMIT = 2**31 - 2**24
"""Bytes of weights that fit into one ONNX file, with room for the graph: protocol buffers end at 2 GB."""


@dataclass(frozen=True)
class Preprocessing:
    """What happens to a frame before the network sees it."""

    resize: Resize
    size: int
    crop: int
    """Side of the centre that is kept; equal to `size` where nothing is cut off."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rescale: float = 1 / 255

    def __post_init__(self) -> None:
        if self.crop > self.size:
            raise ValueError(f"cannot crop {self.crop} pixels out of {self.size}")
        if not len(self.mean) == len(self.std) == 3:
            raise ValueError(f"expected mean and std of three colours, got {self.mean} and {self.std}")


@dataclass(frozen=True)
class Family:
    """How models of one type are fed, where their preprocessor file does not say otherwise."""

    preprocessing: Preprocessing
    sized_by_config: bool
    """Whether `image_size` is the size to feed. Not for DINOv2: it says 518, but was published to see 224."""
    options: tuple[str, ...] = ()
    """Options of the forward pass to switch on."""


IMAGENET_MEAN, IMAGENET_STD, HALF = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), (0.5, 0.5, 0.5)
_DINOV3 = Family(Preprocessing("bilinear", 224, 224, IMAGENET_MEAN, IMAGENET_STD), sized_by_config=True)
_DINOV2 = Family(Preprocessing("bicubic", 256, 224, IMAGENET_MEAN, IMAGENET_STD), sized_by_config=False)
# DINO always interpolates its positions, SigLIP on request; at the size of the config it changes nothing.
_SIGLIP = Family(Preprocessing("bicubic", 224, 224, HALF, HALF), True, ("interpolate_pos_encoding",))
FAMILIES = {
    "dinov3_vit": _DINOV3,
    "dinov2": _DINOV2,
    "dinov2_with_registers": _DINOV2,
    "siglip": _SIGLIP,
    "siglip_vision_model": _SIGLIP,
}
"""By the `model_type` of config.json; SigLIP2 checkpoints of fixed resolution call themselves siglip."""


@dataclass(frozen=True, eq=False)
class TransformersEncoder:
    """A transformers model with its preprocessing around it, computing in float32 on the CPU."""

    name: str
    digest: str
    input_size: int
    dim: int
    resize: Resize
    network: Any = field(repr=False)
    """Torch module: uint8 [n, s, s, 3] in, float32 [n, d] out."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """One call at a time: torch spreads each over all cores, and two at once only get in each other's way."""

    def encode(self, batch: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Turn frames into features."""
        check_batch(batch, self)
        if not len(batch):
            return np.empty((0, self.dim), np.float32)
        torch = require("torch", extra="hf", purpose=f"the encoder {self.name}")
        # A copy, because torch takes neither read-only nor flipped arrays.
        frames = torch.from_numpy(np.array(batch, order="C"))
        with self.lock, torch.inference_mode():
            return np.asarray(self.network(frames).numpy(), np.float32)


def load_hf(spec: str) -> TransformersEncoder:
    """Load a model by its hub id (downloaded once, then from the hub's cache) or from its folder."""
    torch, transformers, hub = (
        require(package, extra="hf", purpose=f"the encoder {spec}")
        for package in ("torch", "transformers", "huggingface_hub")
    )
    with quiet("transformers", "huggingface_hub"), without_progress_bars(transformers, hub):
        # The weights come second: nobody should wait for gigabytes to hear that the model is not supported.
        family = _find_family(spec, fetch(hub, spec, CONFIG_FILES))
        folder = fetch(hub, spec, CONFIG_FILES + WEIGHT_FILES)
        tower = load_tower(torch, transformers, spec, folder)
    preprocessing = _read_preprocessing(folder, family, tower.config.image_size)
    network = _wrap(torch, tower, preprocessing, family.options)
    return TransformersEncoder(
        name=Path(spec).resolve().name if Path(spec).is_dir() else spec,
        digest=_digest(tower, preprocessing),
        input_size=preprocessing.size,
        dim=_probe_dim(torch, network, preprocessing.size, spec),
        resize=preprocessing.resize,
        network=network,
    )


def _find_family(spec: str, folder: Path) -> Family:
    facts = read_json(folder / "config.json")
    if not facts:
        raise EncoderError(
            f"{spec}: not a transformers model: there is no config.json in it; "
            "give the folder that 'hf download' or save_pretrained() wrote"
        )
    model_type = str(facts.get("model_type"))
    if model_type not in FAMILIES:
        raise EncoderError(
            f"{spec}: models of type '{model_type}' are not supported; "
            f"give one of type {', '.join(FAMILIES)}, or an .onnx file"
        )
    return FAMILIES[model_type]


def load_tower(
    torch: ModuleType, transformers: ModuleType, spec: str, folder: Path, *, needs_pooling: bool = True
) -> Any:
    """Load the vision part, and refuse to make up weights that the file does not have.

    Without `needs_pooling` those of the pooling layer may be missing, which is then left out of the model.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise EncoderError(f"{spec}: damaged model ({reason(error)}); download it again") from error

    def is_optional(name: str) -> bool:  # the mask token is for training only
        return name.endswith("mask_token") or (not needs_pooling and name.startswith("pooler."))

    tower, missing = load_weights(
        transformers.AutoModel,
        spec,
        folder,
        EncoderError,
        is_optional,
        config=getattr(config, "vision_config", config),
        dtype=torch.float32,
    )
    if any(name.startswith("pooler.") for name in missing):
        tower.pooler = None
    return tower


def read_preprocessing(spec: str, folder: Path, image_size: object) -> Preprocessing:
    """Read how a model of any type wants its images; of types that are not ours, a preprocessor file must say so."""
    family = FAMILIES.get(str(read_json(folder / "config.json").get("model_type")))
    if family is None and not read_preprocessor(folder):
        raise EncoderError(f"{spec}: there is no preprocessor_config.json in it; download the model again, with it")
    return _read_preprocessing(folder, family or _DINOV3, image_size)


def _read_preprocessing(folder: Path, family: Family, image_size: object) -> Preprocessing:
    """Combine the family's way with what the checkpoint's files say."""
    given = read_preprocessor(folder)
    default = family.preprocessing
    try:
        if family.sized_by_config:
            default = replace(default, size=_side(image_size), crop=_side(image_size))
        return _override(default, given)
    except (AttributeError, TypeError, ValueError) as error:
        raise EncoderError(
            f"{folder}: unusable preprocessing ({reason(error)}); correct its preprocessor_config.json"
        ) from error


def _override(default: Preprocessing, given: dict[str, Any]) -> Preprocessing:
    size = _side(given.get("size", default.size))
    is_cropped = given.get("do_center_crop", default.crop != default.size)
    is_normalised = given.get("do_normalize", True)
    if "resample" in given and given["resample"] not in RESAMPLING:
        raise ValueError(f"resample {given['resample']} is none of {', '.join(map(str, RESAMPLING))}")
    return Preprocessing(
        resize=RESAMPLING[given["resample"]] if "resample" in given else default.resize,
        size=size,
        crop=_side(given.get("crop_size", default.crop)) if is_cropped else size,
        mean=tuple(map(float, given.get("image_mean", default.mean) if is_normalised else (0, 0, 0))),
        std=tuple(map(float, given.get("image_std", default.std) if is_normalised else (1, 1, 1))),
        rescale=float(given.get("rescale_factor", default.rescale)) if given.get("do_rescale", True) else 1.0,
    )


def _side(value: Any) -> int:
    """Reduce 224, [224, 224], {"height": 224, "width": 224} or {"shortest_edge": 224} to 224: frames are square."""
    sides = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
    distinct = {side for side in sides if side is not None}
    if len(distinct) != 1 or not all(isinstance(side, int) and side > 0 for side in distinct):
        raise ValueError(f"expected the side of a square, got {value}")
    return int(distinct.pop())


def _wrap(torch: ModuleType, tower: Any, preprocessing: Preprocessing, options: tuple[str, ...]) -> Any:
    """Put crop and normalisation in front of the model, as one module that can be exported whole."""
    margin = (preprocessing.size - preprocessing.crop) // 2
    centre = slice(margin, margin + preprocessing.crop)
    switched_on = dict.fromkeys(options, True)

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is imported late
        def __init__(self) -> None:
            super().__init__()
            self.tower = tower
            self.register_buffer("mean", torch.tensor(preprocessing.mean).reshape(3, 1, 1))
            self.register_buffer("std", torch.tensor(preprocessing.std).reshape(3, 1, 1))

        def forward(self, frames: Any) -> Any:
            pixels = frames[:, centre, centre].permute(0, 3, 1, 2).to(torch.float32) * preprocessing.rescale
            return self.tower((pixels - self.mean) / self.std, **switched_on).pooler_output

    return Network().eval()


def _probe_dim(torch: ModuleType, network: Any, size: int, spec: str) -> int:
    """Encode one black frame: a model that cannot work should say so now and not in the middle of an exam."""
    try:
        with torch.inference_mode():
            return int(network(torch.zeros((1, size, size, 3), dtype=torch.uint8)).shape[1])
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise EncoderError(
            f"{spec}: gives no pooled feature for RGB frames of {size} pixels ({reason(error)}); "
            "give a model with its pooling head"
        ) from error


def _digest(tower: Any, preprocessing: Preprocessing) -> str:
    config = {key: value for key, value in tower.config.to_dict().items() if key not in NOT_IN_FEATURES}
    facts = {"config": config, "preprocessing": asdict(preprocessing)}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    for name, tensor in sorted(tower.state_dict().items()):
        values = tensor.contiguous().numpy()
        digest.update(f"{name} {values.dtype} {values.shape}".encode())
        digest.update(values.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def export_onnx(encoder: TransformersEncoder, target: Path) -> None:
    """Write one ONNX file that needs neither torch nor transformers, if it computes the same as the encoder."""
    content = _as_onnx(encoder)
    with atomic_file(target) as file:
        file.write(content)
        file.flush()
        _check_export(encoder, OnnxEncoder.open(Path(file.name)), target)


def _as_onnx(encoder: TransformersEncoder) -> bytes:
    torch, _, passes = (
        require(package, extra="hf", purpose="exporting an encoder")
        for package in ("torch", "onnxscript", "onnx_ir.passes.common")
    )
    if sum(tensor.nbytes for tensor in encoder.network.state_dict().values()) > ONNX_LIMIT:
        raise EncoderError(f"{encoder.name}: over 2 GB do not fit into an ONNX file; use the model as it is")
    size = encoder.input_size
    # Two frames, because from one the exporter would take the batch to be always 1.
    frames = torch.zeros((2, size, size, 3), dtype=torch.uint8)
    with quiet("torch.onnx", "onnxscript", "onnx_ir"), torch.no_grad():
        try:
            program = torch.onnx.export(
                encoder.network,
                (frames,),
                dynamo=True,
                input_names=["frames"],
                output_names=["features"],
                dynamic_shapes={"frames": {0: torch.export.Dim("n")}},
                external_data=False,
                verbose=False,
            )
        except RuntimeError as error:
            raise EncoderError(f"{encoder.name}: no export ({reason(error)}); use the model as it is") from error
        # The exporter notes at every node which line of which file on this computer it comes from.
        passes.ClearMetadataAndDocStringPass()(program.model)
        program.model.metadata_props.update({"dice_ce.name": encoder.name, "dice_ce.resize": encoder.resize})
        return bytes(program.model_proto.SerializeToString(deterministic=True))


def _check_export(encoder: TransformersEncoder, exported: OnnxEncoder, target: Path) -> None:
    size = encoder.input_size
    frames = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), np.uint8)
    wanted = encoder.encode(frames)
    worst = (np.linalg.norm(exported.encode(frames) - wanted, axis=1) / np.linalg.norm(wanted, axis=1)).max()
    if not worst <= EXPORT_TOLERANCE:  # so that NaN fails, too
        raise EncoderError(
            f"{target}: not written, its features would differ by {worst:.1e} from those of {encoder.name}; "
            "use the model as it is"
        )
