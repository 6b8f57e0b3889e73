"""f_theta: the frozen encoder that turns a frame I_t into its visual feature u_t (paper, eq. 1).

An encoder owns its preprocessing: it says how large and how smoothly resized its frames must be, takes them
as the uint8 pixels the reader produced, and normalises them itself (in ONNX encoders, inside the graph).
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib.util
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dice_ce.errors import DiceError, EncoderError, UsageError
from dice_ce.features.runtime import AUTO, available_providers, choose_device, start_session
from dice_ce.files import is_same, write_atomically
from dice_ce.types import Resize

BATCH_TOLERANCE = 1e-4
"""Largest difference, relative to the feature's norm, that another batch size may make."""

RESIZES: tuple[Resize, ...] = ("area", "bilinear", "bicubic")


class Encoder(Protocol):
    """What every stage after this one may rely on; `tests/features/test_encoder.py` holds each entry to it."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def digest(self) -> str:
        """SHA-256 over everything that shapes the features; features of other digests never mix."""

    @property
    def input_size(self) -> int:
        """Side of the square frames it wants."""

    @property
    def dim(self) -> int:
        """Length d of a feature."""

    @property
    def resize(self) -> Resize:
        """How the reader should resize frames to `input_size`."""

    def encode(self, batch: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Turn RGB frames [n, input_size, input_size, 3] into features [n, dim]; callable from several threads."""


def check_batch(batch: npt.NDArray[np.uint8], encoder: Encoder) -> None:
    """Refuse anything but uint8 RGB frames of the encoder's size: a silent cast would change every feature."""
    size = encoder.input_size
    if not isinstance(batch, np.ndarray):
        raise EncoderError(f"{encoder.name}: expected a numpy array of frames, got {type(batch).__name__}")
    if batch.dtype != np.uint8:
        raise EncoderError(
            f"{encoder.name}: expected uint8 pixels (0-255), got {batch.dtype}; "
            "pass the frames as they were decoded: the encoder normalises them itself"
        )
    if batch.ndim != 4 or batch.shape[1:] != (size, size, 3):
        raise EncoderError(
            f"{encoder.name}: expected frames of shape [n, {size}, {size}, 3] (RGB), got {list(batch.shape)}; "
            "a grey image must be repeated over three channels, other sizes resized by the reader"
        )


@dataclass(frozen=True, eq=False)
class OnnxEncoder:
    """An encoder that is one ONNX file: uint8 [n, s, s, 3] in, float32 [n, d] out, preprocessing in the graph.

    It may have a second output, the map [n, d, h, w] whose maximum over the image is the feature. Where the file leaves
    the side open and only notes the encoder's own (`dice_ce.size`), the map of larger frames shows finer parts.
    """

    name: str
    digest: str
    input_size: int
    dim: int
    resize: Resize
    content: bytes = field(repr=False)
    """The file itself, to be written elsewhere."""
    session: Any = field(repr=False)
    device: str = "cpu"

    @classmethod
    def open(cls, path: Path, *, threads: int = 1) -> OnnxEncoder:
        """Load the file; with `threads=1` the caller's own thread computes, so several workers can share it."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise EncoderError(f"{path}: cannot be read ({error.strerror}); check the path") from error
        return cls.from_bytes(content, str(path), threads=threads)

    @classmethod
    def from_bytes(cls, content: bytes, origin: str, *, threads: int = 1, device: str = "cpu") -> OnnxEncoder:
        """Load what was read already; `origin` names it in errors."""
        session = _load_model(content, origin, threads, device)
        facts = session.get_modelmeta().custom_metadata_map
        size, dim = _check_contract(session, origin, facts.get("dice_ce.size", ""))
        resize = facts.get("dice_ce.resize", "area")
        if resize not in RESIZES:
            raise EncoderError(f"{origin}: unknown resize '{resize}'; one of {', '.join(RESIZES)}")
        return cls(
            name=facts.get("dice_ce.name", Path(origin).stem),
            digest=_digest(content, device),
            input_size=size,
            dim=dim,
            resize=resize,
            content=content,
            session=session,
            device=device,
        )

    def encode(self, batch: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Turn frames into features."""
        check_batch(batch, self)
        if not len(batch):
            return np.empty((0, self.dim), np.float32)
        features = self._run(batch, 0)
        if features.shape != (len(batch), self.dim):
            given, wanted = features.shape, (len(batch), self.dim)
            raise EncoderError(f"{self.name}: gives features of shape {given} instead of {wanted}; export it again")
        return np.asarray(features, np.float32)

    @property
    def has_map(self) -> bool:
        """Whether it can tell what it saw where."""
        return len(self.session.get_outputs()) > 1

    @property
    def takes_any_size(self) -> bool:
        """Whether it could see frames of another size than its own."""
        return not isinstance(self.session.get_inputs()[0].shape[1], int)

    @property
    def own_size(self) -> int:
        """Side of the frames that it was made for."""
        return int(self.session.get_modelmeta().custom_metadata_map.get("dice_ce.size", self.input_size))

    def at(self, side: int) -> OnnxEncoder:
        """Return the same encoder for frames of another side, if it takes any; features of two sides never mix."""
        if side == self.input_size:
            return self
        if not self.takes_any_size:
            raise EncoderError(
                f"{self.name}: takes frames of {self.input_size} pixels only, not of {side}; "
                "give an encoder whose file leaves the side open"
            )
        plain = _digest(self.content, self.device)
        digest = plain if side == self.own_size else hashlib.sha256(f"{plain} at {side}".encode()).hexdigest()
        return dataclasses.replace(self, input_size=side, digest=digest)

    def encode_map(self, batch: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return what it saw in every part of the frames, [n, d, h, w]; they may be larger if it takes any size."""
        if not self.takes_any_size:
            check_batch(batch, self)
        return np.asarray(self._run(batch, 1), np.float32)

    def _run(self, batch: npt.NDArray[np.uint8], output: int) -> Any:
        """Ask the model; one that was made for single frames is asked about each."""
        frames, wanted = self.session.get_inputs()[0], self.session.get_outputs()[output].name
        if frames.shape[0] == 1 and len(batch) > 1:
            return np.concatenate([self._run(batch[i : i + 1], output) for i in range(len(batch))])
        try:
            (values,) = self.session.run([wanted], {frames.name: batch})
        except Exception as error:  # onnxruntime's exception classes share no base but Exception
            reason = str(error).splitlines()[0]
            raise EncoderError(f"{self.name}: the ONNX model does not run ({reason}); export it again") from error
        return values


def _digest(content: bytes, device: str) -> str:
    """Another device rounds differently, and features of different digests never mix."""
    return hashlib.sha256(content if device == "cpu" else content + device.encode()).hexdigest()


def _load_model(content: bytes, path: str, threads: int, device: str) -> Any:
    try:
        return start_session(content, threads, device)
    except DiceError:
        raise
    except Exception as error:  # onnxruntime's exception classes share no base but Exception
        reason = str(error).splitlines()[0]
        raise EncoderError(f"{path}: not a usable ONNX model ({reason}); export it again") from error


def _check_contract(session: Any, path: str, noted: str) -> tuple[int, int]:
    """Read input size and dimension off the graph, or say what an encoder's graph must look like.

    `noted` is the size of an encoder that takes any.
    """
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) == 1 and 1 <= len(outputs) <= 2:
        frames, features = inputs[0], outputs[0]
        is_frames = frames.type == "tensor(uint8)" and len(frames.shape) == 4 and frames.shape[3] == 3
        is_square = is_frames and frames.shape[1] == frames.shape[2]
        side = frames.shape[1] if is_square and isinstance(frames.shape[1], int) else noted
        is_features = features.type == "tensor(float)" and len(features.shape) == 2
        is_map = all(one.type == "tensor(float)" and len(one.shape) == 4 for one in outputs[1:])
        if is_square and str(side).isdecimal() and is_features and is_map and isinstance(features.shape[1], int):
            return int(side), features.shape[1]
    raise EncoderError(
        f"{path}: not an encoder: expected one input uint8 [n, s, s, 3] and one output float32 [n, d], got "
        f"{[(i.type, i.shape) for i in inputs]} -> {[(o.type, o.shape) for o in outputs]}; "
        "make one with 'dice-ce encoder export NAME --out FILE.onnx'"
    )


@dataclass(frozen=True)
class EncoderEntry:
    """One line of the registry; nothing heavy is imported until `build` is called."""

    build: Callable[[], Encoder]
    about: str
    licence: str
    extra: str
    """The optional dependency group that it needs."""
    packages: tuple[str, ...]
    """Importable modules without which it cannot be built."""
    hub_id: str | None = None
    """Where its weights come from, if not from a package."""

    @property
    def status(self) -> str:
        """Whether it would load here and now, found out without importing anything heavy."""
        if any(importlib.util.find_spec(package) is None for package in self.packages):
            return f"needs the extra {self.extra}"
        if self.hub_id is not None and not _is_in_hub_cache(self.hub_id):
            return "weights not on this machine"
        return "ready"


def _is_in_hub_cache(hub_id: str) -> bool:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    return any((hub / f"models--{hub_id.replace('/', '--')}" / "snapshots").glob("*/config.json"))


def _hub(hub_id: str, about: str, licence: str) -> EncoderEntry:
    def build() -> Encoder:
        from dice_ce.features.backbones.hf import load_hf

        return load_hf(hub_id)

    return EncoderEntry(build, about, licence, "hf", ("torch", "transformers"), hub_id)


ENCODERS: dict[str, EncoderEntry] = {
    "dinov3-vits16": _hub("facebook/dinov3-vits16-pretrain-lvd1689m", "DINOv3 ViT-S/16, 384-d", "DINOv3, gated"),
    "dinov3-vitb16": _hub("facebook/dinov3-vitb16-pretrain-lvd1689m", "DINOv3 ViT-B/16, 768-d", "DINOv3, gated"),
    "dinov3-vitl16": _hub("facebook/dinov3-vitl16-pretrain-lvd1689m", "DINOv3 ViT-L/16, 1024-d", "DINOv3, gated"),
    "dinov2-small": _hub("facebook/dinov2-small", "DINOv2 ViT-S/14, 384-d", "Apache-2.0"),
    "dinov2-base": _hub("facebook/dinov2-base", "DINOv2 ViT-B/14, 768-d", "Apache-2.0"),
    "dinov2-large": _hub("facebook/dinov2-large", "DINOv2 ViT-L/14, 1024-d", "Apache-2.0"),
    "siglip2-base": _hub("google/siglip2-base-patch16-224", "SigLIP2 ViT-B/16, 768-d", "Apache-2.0"),
}


def load_encoder(spec: str) -> Encoder:
    """Load by registry name, path of an .onnx file, folder of a transformers model, or hub id."""
    if spec in ENCODERS:
        return ENCODERS[spec].build()
    path = Path(spec)
    if path.suffix == ".onnx":
        return OnnxEncoder.open(path)
    if path.is_dir() or spec.count("/") == 1:
        from dice_ce.features.backbones.hf import load_hf

        return load_hf(spec)
    close = difflib.get_close_matches(spec, ENCODERS, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise EncoderError(
        f"unknown encoder '{spec}'; {hint}Give one of {', '.join(ENCODERS)}, "
        "an .onnx file, or a folder or hub id of a transformers model"
    )


def on_device(encoder: Encoder, wanted: str) -> Encoder:
    """Return the encoder computing on `cpu`, `cuda`, `tensorrt` or, with `auto`, on what works here."""
    device = choose_device(wanted, available_providers())
    if device == "cpu":
        return encoder
    if not isinstance(encoder, OnnxEncoder):
        raise UsageError(
            f"--device {wanted}: {encoder.name} is no ONNX encoder; "
            "make one with: dice-ce encoder export NAME --out FILE.onnx"
        )
    try:
        return OnnxEncoder.from_bytes(encoder.content, encoder.name, device=device).at(encoder.input_size)
    except EncoderError:
        if wanted == AUTO:
            return encoder
        raise


def count_weights(encoder: Encoder) -> int | None:
    """Count the weights of an ONNX encoder; None where nothing is installed that can tell."""
    if not isinstance(encoder, OnnxEncoder) or importlib.util.find_spec("onnx") is None:
        return None
    import onnx

    graph = onnx.load_from_string(encoder.content).graph
    return int(sum(math.prod(value.dims) for value in graph.initializer))


def export_encoder(spec: str, target: Path) -> OnnxEncoder:
    """Write an encoder to one ONNX file, and return it as loaded back from there."""
    if spec not in ENCODERS and is_same(Path(spec), target):
        raise UsageError(f"--out {target}: would replace the encoder it is made from; give another name")
    encoder = load_encoder(spec)
    if isinstance(encoder, OnnxEncoder):
        write_atomically(target, encoder.content)
    else:
        from dice_ce.features.backbones.hf import TransformersEncoder, export_onnx

        assert isinstance(encoder, TransformersEncoder)
        export_onnx(encoder, target)
    return OnnxEncoder.open(target)
