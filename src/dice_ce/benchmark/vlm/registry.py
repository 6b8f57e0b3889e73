"""The vision-language models of the paper, as a literal dict; nothing heavy is imported to list them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dice_ce.errors import UsageError

Method = Literal["letters", "talk"]


@dataclass(frozen=True)
class VlmEntry:
    """One model, as published."""

    hub_id: str
    model_class: str
    """In transformers."""
    parameters: float
    """Billions."""
    licence: str
    about: str
    method: Method = "letters"
    """Whether it is scored by the letters of the options or has to be listened to."""
    is_gated: bool = False
    """Whether its licence must be accepted on the hub before the download."""
    thinks: bool = False
    """Whether it was trained to reason between <think> tags first."""
    own_code: str | None = None
    """Where the code of its authors is, without which it does not run; then in another process, and only on request."""


VLMS: dict[str, VlmEntry] = {
    "Qwen3-VL": VlmEntry(
        "Qwen/Qwen3-VL-8B-Instruct", "Qwen3VLForConditionalGeneration", 8.8, "Apache-2.0", "general purpose"
    ),
    "InternVL3.5": VlmEntry(
        "OpenGVLab/InternVL3_5-8B-HF", "InternVLForConditionalGeneration", 8.5, "Apache-2.0", "general purpose"
    ),
    "LingShu": VlmEntry(
        "lingshu-medical-mllm/Lingshu-7B", "Qwen2_5_VLForConditionalGeneration", 8.3, "MIT", "medical images and text"
    ),
    "ColonX": VlmEntry(
        "ai4colonoscopy/ColonR1",
        "Qwen2_5_VLForConditionalGeneration",
        3.8,
        "Apache-2.0",
        "colonoscopy; reasons before it answers",
        method="talk",
        thinks=True,
    ),
    "MedGemma": VlmEntry(
        "google/medgemma-4b-it",
        "Gemma3ForConditionalGeneration",
        4.3,
        "Health AI Developer Foundations terms",
        "medical images and text",
        is_gated=True,
    ),
    "ColonGPT": VlmEntry(
        "ai4colonoscopy/ColonGPT",
        "its own, beside the weights",
        1.8,
        "Apache-2.0",
        "colonoscopy; its code wants transformers 4.46",
        method="talk",
        own_code="https://huggingface.co/ai4colonoscopy/ColonGPT",
    ),
    "HuatuoGPT": VlmEntry(
        "FreedomIntelligence/HuatuoGPT-Vision-7B",
        "its own, on GitHub (LLaVA with Qwen2)",
        7.9,
        "Apache-2.0",
        "medical images and text; its code wants a transformers of 2024",
        method="talk",
        own_code="https://github.com/FreedomIntelligence/HuatuoGPT-Vision",
    ),
}
"""By their names in the paper."""


@dataclass(frozen=True)
class Chosen:
    """A model to load."""

    name: str
    source: str
    """Folder or hub id."""
    entry: VlmEntry | None
    """What is known about it; nothing of a model that is not registered."""


def choose_vlm(spec: str) -> Chosen:
    """Understand a registered name, NAME=FOLDER for its weights on this machine, a hub id, or a folder."""
    known = {name.casefold(): name for name in VLMS}
    by_hub_id = {entry.hub_id.casefold(): name for name, entry in VLMS.items()}
    word, _, folder = spec.partition("=")
    name = known.get(word.strip().casefold()) or (None if folder else by_hub_id.get(spec.casefold()))
    if name is not None:
        return Chosen(name, folder or VLMS[name].hub_id, VLMS[name])
    is_misspelt = bool(folder) and "/" not in word
    if Path(spec).is_dir() or ("/" in spec and not is_misspelt):
        return Chosen(spec, spec, None)
    close = difflib.get_close_matches(word.casefold(), known, n=1, cutoff=0.5)
    hint = f"did you mean '{known[close[0]]}'? " if close else ""
    raise UsageError(
        f"unknown diagnoser '{word}'; {hint}Give one of {', '.join(VLMS)}, NAME=FOLDER, a hub id, or a folder"
    )


def check_permission(chosen: Chosen, is_allowed: bool) -> None:
    """Refuse to run foreign code unasked; say what the risk is, and how to take it."""
    if chosen.entry is not None and chosen.entry.own_code is not None and not is_allowed:
        raise UsageError(
            f"{chosen.name}: it runs Python code of its authors, with all your rights on this machine; read that code "
            f"({chosen.entry.own_code}), then pass --allow-remote-code (in Python: allow_remote_code=True)"
        )
