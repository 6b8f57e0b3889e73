"""Loading vision-language models: a registered name, a hub id or a folder, all through the same code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dice_ce.benchmark.vlm.chat import ChatModel, enough_memory
from dice_ce.benchmark.vlm.diagnoser import BATCH, VlmDiagnoser, ask_by_letter, ask_by_talking
from dice_ce.benchmark.vlm.families import FAMILIES, Family
from dice_ce.benchmark.vlm.isolated import IsolatedModel
from dice_ce.benchmark.vlm.prompts import AFTER_THINKING, BY_NAME, letters_for, rotations
from dice_ce.benchmark.vlm.registry import Chosen, Method, check_permission, choose_vlm
from dice_ce.errors import InputError, UsageError, require
from dice_ce.features.backbones.hub import (
    WEIGHT_FILES,
    fetch,
    load_weights,
    quiet,
    read_json,
    read_preprocessor,
    reason,
    without_progress_bars,
)
from dice_ce.taxonomy import Taxonomy

CONFIG_FILES = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "chat_template.*",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
)
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class VlmOptions:
    """How a vision-language model is run."""

    device: str | None = None
    """cpu, cuda, cuda:1, …; by default the GPU if there is one."""
    dtype: str | None = None
    """One of DTYPES; by default bfloat16 on a GPU and float32 on a CPU."""
    method: Method | None = None
    """Score letters, or listen; by default what suits the model."""
    permutations: int | None = None
    """Rotations of the options; by default all of them for letters, and one for talking, which takes much longer."""
    batch: int = BATCH
    new_tokens: int = 1024
    """Most tokens of a spoken answer, reasoning included."""
    allow_remote_code: bool = False
    """Whether the code of a model's authors may be run."""

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"unknown dtype '{self.dtype}'; one of {', '.join(DTYPES)}")
        if min(self.batch, self.new_tokens) < 1:
            raise UsageError(f"batch {self.batch} and new_tokens {self.new_tokens}: both must be 1 or more")


def load_vlm(spec: str, taxonomy: Taxonomy | None = None, options: VlmOptions | None = None) -> VlmDiagnoser:
    """Load by the name in the paper, NAME=FOLDER, hub id or folder."""
    taxonomy, options, chosen = taxonomy or Taxonomy(), options or VlmOptions(), choose_vlm(spec)
    method = options.method or (chosen.entry.method if chosen.entry else "letters")
    usual = len(taxonomy) if method == "letters" else 1
    permutations = usual if options.permutations is None else options.permutations
    # Nobody should wait for gigabytes to hear that the question cannot be asked.
    letters_for(taxonomy.labels)
    rotations(taxonomy.labels, permutations)
    check_permission(chosen, options.allow_remote_code)
    if chosen.entry is not None and chosen.entry.own_code is not None:
        if method != "talk":
            raise UsageError(f"{chosen.name}: its own code only talks, its letters cannot be scored; use method 'talk'")
        own = IsolatedModel.start(chosen.name, chosen.source, options.device)
        return VlmDiagnoser(
            chosen.name,
            method,
            own.prepare,
            ask_by_talking(own, BY_NAME),
            taxonomy,
            permutations,
            options.batch,
            own.close,
        )
    model = load_chat_model(chosen, options)
    instruction = AFTER_THINKING if chosen.entry is not None and chosen.entry.thinks else BY_NAME
    ask = ask_by_letter(model) if method == "letters" else ask_by_talking(model, instruction)
    return VlmDiagnoser(
        chosen.name,
        method,
        model.prepare,
        ask,
        taxonomy,
        permutations,
        options.batch,
        parameters=sum(int(value.numel()) for value in model.network.parameters()),
    )


def load_chat_model(chosen: Chosen, options: VlmOptions) -> ChatModel:
    """Load a model of transformers, from the hub or its cache on this machine, or from a folder."""
    source, purpose = chosen.source, f"the diagnoser {chosen.name}"
    torch, transformers, hub, _ = (
        require(package, extra="vlm", purpose=purpose)
        for package in ("torch", "transformers", "huggingface_hub", "jinja2")
    )
    device = choose_device(torch, options.device)
    with quiet("transformers", "huggingface_hub"):
        # The weights come second, for the reason given above.
        family = find_family(source, fetch(hub, source, CONFIG_FILES))
        folder = fetch(hub, source, CONFIG_FILES + WEIGHT_FILES)
        with without_progress_bars(transformers, hub):
            tokenizer = _load_tokenizer(transformers, source, folder)
            model_class = getattr(transformers, family.model_class)
            dtype = getattr(torch, _dtype(options.dtype, device))
            network, _ = load_weights(model_class, source, folder, InputError, dtype=dtype)
    with enough_memory(
        torch, f"{chosen.name}: it does not fit into the memory of {device}; use a larger GPU or the CPU"
    ):
        network = network.to(device)
    place = family.place(tokenizer, network.config)
    if not all((place.marker, place.token)):
        raise InputError(f"{source}: its tokenizer has no token for images; download the model again")
    try:
        feeding = family.feeding(read_preprocessor(folder), network.config)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"{source}: unusable preprocessing ({reason(error)}); correct its preprocessor_config.json"
        ) from error
    return ChatModel(
        chosen.name,
        family,
        network,
        tokenizer,
        _read_template(source, folder, tokenizer),
        feeding,
        place,
        options.new_tokens,
    )


def choose_device(torch: ModuleType, wanted: str | None) -> str:
    """Take the GPU if there is one and nothing else is asked for."""
    has_gpu = bool(torch.cuda.is_available())
    if wanted is None:
        return "cuda" if has_gpu else "cpu"
    try:
        kind = torch.device(wanted).type
    except RuntimeError as error:
        raise UsageError(f"unknown device '{wanted}'; give cpu, cuda or cuda:NUMBER") from error
    if kind == "cuda" and not has_gpu:
        raise InputError(
            f"device '{wanted}': torch {torch.__version__} finds no GPU here; install a CUDA build of torch, "
            "or use the device 'cpu'"
        )
    return wanted


def _dtype(wanted: str | None, device: str) -> str:
    return wanted or ("float32" if device == "cpu" else "bfloat16")


def find_family(source: str, folder: Path) -> Family:
    """Tell by config.json what kind of model lies in a folder."""
    facts = read_json(folder / "config.json")
    if not facts:
        raise InputError(
            f"{source}: not a transformers model: there is no config.json in it; "
            "give the folder that 'hf download' or save_pretrained() wrote"
        )
    model_type = facts.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise InputError(
            f"{source}: models of type '{model_type}' are not supported; give one of type {', '.join(FAMILIES)}"
        )
    return FAMILIES[model_type]


def _load_tokenizer(transformers: ModuleType, source: str, folder: Path) -> Any:
    # Without this file transformers makes up a tokenizer that knows no words, and says nothing.
    if not (folder / "tokenizer.json").is_file():
        raise InputError(f"{source}: there is no tokenizer.json in it; download the model again")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # tokenizers and transformers share no base but Exception
        raise InputError(f"{source}: no usable tokenizer ({reason(error)}); download the model again") from error


def _read_template(source: str, folder: Path, tokenizer: Any) -> str:
    """Find the chat template; that of the processor knows about images, the tokenizer's own sometimes does not."""
    if (jinja := folder / "chat_template.jinja").is_file():
        return jinja.read_text(encoding="utf-8")
    template = read_json(folder / "chat_template.json").get("chat_template") or tokenizer.chat_template
    if not isinstance(template, str):
        raise InputError(f"{source}: it has no chat template; download it again, with chat_template.json")
    return template
