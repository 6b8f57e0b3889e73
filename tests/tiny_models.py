"""Tiny random transformers models of every family the encoders know, as `save_pretrained` would leave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
HALF = ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])
WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
MLP = {**WIDTH, "intermediate_size": 64}
TOKENS = {"vocab_size": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@dataclass(frozen=True)
class Case:
    """One kind of checkpoint, and what its encoder must be like."""

    build: Callable[[], Any]
    size: int
    crop: int
    resize: str
    statistics: tuple[list[float], list[float]]


def dinov3() -> Any:
    config = transformers.DINOv3ViTConfig(**MLP, image_size=48, patch_size=16, num_register_tokens=4)
    return transformers.DINOv3ViTModel(config)


def dinov2() -> Any:
    return transformers.Dinov2Model(transformers.Dinov2Config(**WIDTH, image_size=56, patch_size=14))


def dinov2_with_registers() -> Any:
    config = transformers.Dinov2WithRegistersConfig(**WIDTH, image_size=56, patch_size=14)
    return transformers.Dinov2WithRegistersModel(config)


def siglip() -> Any:
    config = transformers.SiglipConfig(
        text_config={**MLP, **TOKENS}, vision_config={**MLP, "image_size": 48, "patch_size": 16}
    )
    return transformers.SiglipModel(config)


def siglip_vision() -> Any:
    config = transformers.SiglipVisionConfig(**MLP, image_size=32, patch_size=16)
    return transformers.SiglipVisionModel(config)


CASES = {
    "dinov3": Case(dinov3, 48, 48, "bilinear", IMAGENET),
    "dinov2": Case(dinov2, 256, 224, "bicubic", IMAGENET),
    "dinov2-registers": Case(dinov2_with_registers, 256, 224, "bicubic", IMAGENET),
    "siglip": Case(siglip, 48, 48, "bicubic", HALF),
    "siglip-vision": Case(siglip_vision, 32, 32, "bicubic", HALF),
}


def randomised(model: Any, seed: int) -> Any:
    """Spread the weights far enough that features differ clearly between frames; as initialised they hardly do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model.eval()


def save_tiny_model(kind: str, folder: Path) -> Path:
    """Save one of `CASES` and return its folder."""
    randomised(CASES[kind].build(), 1).save_pretrained(folder)
    return folder
