"""Families of models in transformers: how each wants its images, and where in the prompt they go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dice_ce.benchmark.vlm.pixels import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Feeding,
    Levels,
    Patches,
    Square,
    read_patches,
    read_square,
)

BILINEAR, BICUBIC = 2, 3


@dataclass(frozen=True)
class Place:
    """Where an image stands in a prompt."""

    marker: str
    """What the chat template leaves for an image."""
    before: str
    token: str
    """Stands there once for every vector of the image."""
    after: str

    def fill(self, text: str, tokens: int) -> str:
        """Make room for an image of so many tokens."""
        return text.replace(self.marker, self.before + self.token * tokens + self.after)


@dataclass(frozen=True)
class Family:
    """Models of one type, by the `model_type` of their config.json."""

    model_class: str
    feeding: Callable[[dict[str, Any], Any], Feeding]
    """From the preprocessor file and the config."""
    place: Callable[[Any, Any], Place]
    """From the tokenizer and the config."""
    image_mask: str | None
    """Name of the input that says which tokens belong to an image, where the model wants to know."""


def _qwen(least: int, most: int, levels: Levels) -> Callable[[dict[str, Any], Any], Feeding]:
    default = Patches(levels, patch=0, merge=0, times=0, least=least, most=most)
    return lambda given, config: read_patches(given, config.vision_config, default)


def _internvl(given: dict[str, Any], config: Any) -> Feeding:
    height, width = config.vision_config.image_size
    levels = Levels(BICUBIC, IMAGENET_MEAN, IMAGENET_STD)
    return read_square(given, Square(levels, height, width, int(config.image_seq_length)))


def _gemma(given: dict[str, Any], config: Any) -> Feeding:
    side = int(config.vision_config.image_size)
    return read_square(given, Square(Levels(BILINEAR, HALF, HALF), side, side, int(config.mm_tokens_per_image)))


def _place_qwen(tokenizer: Any, config: Any) -> Place:
    token = tokenizer.convert_ids_to_tokens(config.image_token_id)
    return Place(marker=token, before="", token=token, after="")


def _place_internvl(tokenizer: Any, config: Any) -> Place:
    token = tokenizer.convert_ids_to_tokens(config.image_token_id)
    before, after = (getattr(tokenizer, f"{end}_image_token", None) for end in ("start", "end"))
    return Place(marker=token, before=before or "<img>", token=token, after=after or "</img>")


def _place_gemma(tokenizer: Any, config: Any) -> Place:
    indices = (config.boi_token_index, config.image_token_index, config.eoi_token_index)
    start, token, end = (tokenizer.convert_ids_to_tokens(index) for index in indices)
    return Place(marker=start, before=f"\n\n{start}", token=token, after=f"{end}\n\n")


FAMILIES: dict[str, Family] = {
    "qwen3_vl": Family(
        "Qwen3VLForConditionalGeneration",
        _qwen(256 * 256, 4096 * 4096, Levels(BICUBIC, HALF, HALF)),
        _place_qwen,
        "mm_token_type_ids",
    ),
    "qwen2_5_vl": Family(
        "Qwen2_5_VLForConditionalGeneration",
        _qwen(56 * 56, 3584 * 3584, Levels(BICUBIC, CLIP_MEAN, CLIP_STD)),
        _place_qwen,
        "mm_token_type_ids",
    ),
    "internvl": Family("InternVLForConditionalGeneration", _internvl, _place_internvl, None),
    "gemma3": Family("Gemma3ForConditionalGeneration", _gemma, _place_gemma, "token_type_ids"),
}
