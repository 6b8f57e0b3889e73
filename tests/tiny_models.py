"""Tiny random transformers models of every family that encoders and diagnosers know, as `save_pretrained` leaves them.

Those of the diagnosers come with a tokenizer that is trained on the spot, a chat template and a preprocessor file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
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


# --- vision-language models -------------------------------------------------------------------------------------------

VOCABULARY = 320
TEXT = {**MLP, "vocab_size": VOCABULARY, "num_key_value_heads": 1, "head_dim": 16}
STOPS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
SECTIONS = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
SIDE = 56
LAYERS = ["sliding_attention", "full_attention"]
TURNS = (
    "{{% for message in messages %}}{start}{{{{ message.role }}}}\n{{% for part in message.content %}}"
    "{{% if part.type == 'image' %}}{image}{{% else %}}{{{{ part.text }}}}{{% endif %}}"
    "{{% endfor %}}{end}\n{{% endfor %}}"
    "{{% if add_generation_prompt %}}{start}{answerer}\n{{% endif %}}"
)


@dataclass(frozen=True)
class VlmCase:
    """One family of vision-language models."""

    build: Callable[[Any], Any]
    """From the tokenizer."""
    specials: tuple[str, ...]
    """Special tokens; the first is the padding, the third ends an answer."""
    template: str
    preprocessor: dict[str, Any]
    roles: dict[str, str]
    """Tokens that the family's processor looks for by name."""


QWEN_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
CHAT = {"start": "<|im_start|>", "end": "<|im_end|>", "answerer": "assistant"}
QWEN_TEMPLATE = TURNS.format(image="<|vision_start|><|image_pad|><|vision_end|>", **CHAT)


def _qwen_tokens(tokenizer: Any) -> dict[str, int]:
    names = {"image": "<|image_pad|>", "video": "<|video_pad|>", "vision_start": "<|vision_start|>"}
    names["vision_end"] = "<|vision_end|>"
    return {f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def qwen3_vl(tokenizer: Any) -> Any:
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32}
    config = transformers.Qwen3VLConfig(
        text_config={**TEXT, "rope_parameters": {**SECTIONS, "mrope_interleaved": True}},
        vision_config={**vision, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
        **_qwen_tokens(tokenizer),
    )
    return transformers.Qwen3VLForConditionalGeneration(config)


def qwen2_5_vl(tokenizer: Any) -> Any:
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32}
    text = {key: value for key, value in TEXT.items() if key != "head_dim"}
    config = transformers.Qwen2_5_VLConfig(
        text_config={**text, **STOPS, "rope_parameters": SECTIONS},
        vision_config={**vision, "fullatt_block_indexes": [1]},
        **_qwen_tokens(tokenizer),
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def internvl(tokenizer: Any) -> Any:
    config = transformers.InternVLConfig(
        text_config={**TEXT, **STOPS, "model_type": "qwen3"},
        vision_config={**MLP, "image_size": [SIDE, SIDE], "patch_size": [14, 14]},
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return transformers.InternVLForConditionalGeneration(config)


def gemma3(tokenizer: Any) -> Any:
    tokens = {"boi": "<start_of_image>", "image": "<image_soft_token>", "eoi": "<end_of_image>"}
    config = transformers.Gemma3Config(
        text_config={**TEXT, **STOPS, "query_pre_attn_scalar": 16, "sliding_window": 64, "layer_types": LAYERS},
        vision_config={**MLP, "image_size": SIDE, "patch_size": 14, "vision_use_head": False},
        mm_tokens_per_image=4,
        **{f"{name}_token_index": tokenizer.convert_tokens_to_ids(token) for name, token in tokens.items()},
    )
    return transformers.Gemma3ForConditionalGeneration(config)


VLM_CASES = {
    "qwen3_vl": VlmCase(
        qwen3_vl,
        (*QWEN_TOKENS, "<|video_pad|>"),
        QWEN_TEMPLATE,
        {"size": {"shortest_edge": 64 * 64, "longest_edge": 96 * 96}, "image_mean": HALF[0], "image_std": HALF[1]},
        {},
    ),
    "qwen2_5_vl": VlmCase(
        qwen2_5_vl,
        (*QWEN_TOKENS, "<|video_pad|>"),
        QWEN_TEMPLATE,
        {"min_pixels": 56 * 56, "max_pixels": 84 * 84},
        {},
    ),
    "internvl": VlmCase(
        internvl,
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
        TURNS.format(image="<IMG_CONTEXT>\n", **CHAT),
        {"size": {"height": SIDE, "width": SIDE}, "image_mean": IMAGENET[0], "image_std": IMAGENET[1]},
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    ),
    "gemma3": VlmCase(
        gemma3,
        ("<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<image_soft_token>", "<end_of_image>"),
        "{{ bos_token }}"
        + TURNS.format(start="<start_of_turn>", end="<end_of_turn>", answerer="model", image="<start_of_image>"),
        {"size": {"height": SIDE, "width": SIDE}, "image_mean": HALF[0], "image_std": HALF[1], "resample": 2},
        {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>", "eoi_token": "<end_of_image>"},
    ),
}


def train_tokenizer(specials: Sequence[str], roles: dict[str, str], corpus: Sequence[str], splits: bool = True) -> Any:
    """Train on a few words; without `splits`, tokens may reach across words and lines."""
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splits)
    core.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(specials),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(corpus, trainer)
    has_bos = specials[0] == "<bos>"
    if has_bos:
        core.post_processor = tokenizers.processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", 0)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=specials[0] if has_bos else None,
        pad_token=specials[0],
        eos_token=specials[2],
        extra_special_tokens=roles or list(specials[3:]),
    )


def save_tiny_vlm(kind: str, folder: Path, corpus: Sequence[str] = ("A. ulcer B. erosion C. polyp",) * 3) -> Path:
    """Save one of `VLM_CASES` with all that belongs to it, and return its folder."""
    case = VLM_CASES[kind]
    tokenizer = train_tokenizer(case.specials, case.roles, corpus)
    tokenizer.chat_template = case.template
    randomised(case.build(tokenizer), 1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"resample": 3, **case.preprocessor}))
    return folder
