"""What is fine-tuned as a diagnoser: a vision backbone with a head, or a vision-language model with adapters."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.classifiers import (
    Classifier,
    Learnt,
    require_hub,
    save_classifier,
    start_classifier,
    write_learnt,
)
from dice_ce.benchmark.vlm.chat import ChatModel, enough_memory, letter_tokens, same_shape
from dice_ce.benchmark.vlm.families import FAMILIES
from dice_ce.benchmark.vlm.loading import CONFIG_FILES, VlmOptions, choose_device, load_chat_model
from dice_ce.benchmark.vlm.prompts import BY_LETTER, letters_for, rotations, write_question
from dice_ce.benchmark.vlm.registry import VLMS, Chosen, choose_vlm
from dice_ce.errors import UsageError, require
from dice_ce.features.backbones.hub import fetch, quiet, read_json, without_progress_bars
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats

Pixels = npt.NDArray[np.uint8]
Groups = list[tuple[list[Any], float]]
"""Weights that are trained, and their learning rate as a multiple of the run's."""
HEAD_FACTOR = 20.0
"""How many times faster a fresh head learns than the backbone."""
DROPOUT = 0.05
"""Dropout in the adapters."""
PURPOSE = "fine-tuning"


class Learner(Protocol):
    """A model in training."""

    @property
    def base(self) -> str:
        """What it began as."""

    @property
    def size(self) -> int:
        """Side of the images that it is given."""

    @property
    def network(self) -> Any:
        """The torch module."""

    @property
    def groups(self) -> Groups:
        """What is trained."""

    @property
    def rate(self) -> float:
        """Largest learning rate, unless another is asked for."""

    @property
    def has_head(self) -> bool:
        """Whether it is a backbone with a head."""

    def loss(self, pixels: Pixels, targets: Floats, step: int, smoothing: float) -> Any:
        """Return the mean cross-entropy of some images, to be differentiated."""

    def logits(self, pixels: Pixels) -> Floats:
        """Return [images, labels]."""

    def save(self, folder: Path, learnt: Learnt) -> None:
        """Write a folder that `--diagnoser` takes."""


def start_learner(
    spec: str, taxonomy: Taxonomy, *, device: str | None, dtype: str | None, size: int, rank: int, seed: int
) -> Learner:
    """Load a model of the paper, a hub id or a folder; its config.json says what kind it is."""
    torch = require("torch", extra="finetune", purpose=PURPOSE)
    chosen_device = choose_device(torch, device)
    if is_vision_language(spec):
        require("peft", extra="finetune", purpose="adapters of a vision-language model")
        chosen = choose_vlm(spec)
        model = load_chat_model(chosen, VlmOptions(device=chosen_device, dtype=dtype))
        return ChatLearner.start(chosen, model, taxonomy, size, rank, seed)
    classifier = start_classifier(spec, taxonomy.labels, seed)
    classifier.network.to(chosen_device).requires_grad_(True)
    return BackboneLearner(spec, classifier, chosen_device)


def is_vision_language(spec: str) -> bool:
    """Tell a vision-language model from a backbone, by its name or its config.json."""
    word = spec.partition("=")[0].strip().casefold()
    entry = next((entry for name, entry in VLMS.items() if word in (name.casefold(), entry.hub_id.casefold())), None)
    if entry is not None and entry.own_code is not None:
        raise UsageError(f"{spec}: it runs on code of its authors, and cannot be trained here; use theirs")
    if entry is not None:
        return True
    if not Path(spec).is_dir() and "/" not in spec:
        choose_vlm(spec)  # says which names there are
    with quiet("huggingface_hub"):
        folder = fetch(require_hub(spec), spec, ("config.json",))
    return read_json(folder / "config.json").get("model_type") in FAMILIES


@dataclass(frozen=True, eq=False)
class BackboneLearner:
    """A backbone that is trained whole, with its head."""

    base: str
    classifier: Classifier
    device: str
    rate: float = 5e-5
    has_head: bool = True

    @property
    def network(self) -> Any:
        """The torch module."""
        return self.classifier.network

    @property
    def size(self) -> int:
        """Side of the images."""
        return self.classifier.preprocessing.size

    @property
    def groups(self) -> Groups:
        """Backbone and head."""
        return [(list(self.network.tower.parameters()), 1.0), (list(self.network.head.parameters()), HEAD_FACTOR)]

    def loss(self, pixels: Pixels, targets: Floats, step: int, smoothing: float) -> Any:
        """Cross-entropy with the shares of the labels."""
        torch = require("torch", extra="finetune", purpose=PURPOSE)
        with enough_memory(torch, _too_much(self.base, len(pixels))), self._half(torch):
            logits = self.network(torch.from_numpy(pixels).to(self.device))
        wanted = torch.from_numpy(targets).to(self.device)
        return torch.nn.functional.cross_entropy(logits.float(), wanted, label_smoothing=smoothing)

    def logits(self, pixels: Pixels) -> Floats:
        """What the head says."""
        torch = require("torch", extra="finetune", purpose=PURPOSE)
        with torch.inference_mode():
            return np.asarray(self.network(torch.from_numpy(pixels).to(self.device)).float().cpu().numpy(), np.float32)

    def save(self, folder: Path, learnt: Learnt) -> None:
        """Write backbone, head and note."""
        save_classifier(self.classifier, learnt, folder)

    def _half(self, torch: Any) -> AbstractContextManager[Any]:
        """Compute in bfloat16 on a GPU; weights stay in float32."""
        kind = torch.device(self.device).type
        context: AbstractContextManager[Any] = torch.autocast(kind, torch.bfloat16) if kind == "cuda" else nullcontext()
        return context


@dataclass(frozen=True, eq=False)
class ChatLearner:
    """A vision-language model with adapters that learns to begin its answer with the letter of the right option."""

    chosen: Chosen
    model: ChatModel
    adapted: Any = field(repr=False)
    """The model of `peft` around the network."""
    taxonomy: Taxonomy
    size: int
    rate: float = 2e-4
    has_head: bool = False

    @classmethod
    def start(
        cls, chosen: Chosen, model: ChatModel, taxonomy: Taxonomy, size: int, rank: int, seed: int
    ) -> ChatLearner:
        """Put fresh adapters beside all linear layers, of the eye and of the tongue."""
        torch, peft = (require(package, extra="finetune", purpose=PURPOSE) for package in ("torch", "peft"))
        config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=DROPOUT, target_modules="all-linear")
        with torch.random.fork_rng(devices=[]), quiet("peft", "transformers"):
            torch.manual_seed(seed)
            adapted = peft.get_peft_model(model.network, config)
            if torch.device(model.network.device).type == "cuda":  # or the activations alone fill it
                model.network.gradient_checkpointing_enable()
                model.network.enable_input_require_grads()
        return cls(chosen, model, adapted, taxonomy, size)

    @property
    def base(self) -> str:
        """What it began as."""
        return self.chosen.source

    @property
    def network(self) -> Any:
        """The torch module."""
        return self.adapted

    @property
    def groups(self) -> Groups:
        """The adapters only."""
        return [([value for value in self.adapted.parameters() if value.requires_grad], 1.0)]

    def loss(self, pixels: Pixels, targets: Floats, step: int, smoothing: float) -> Any:
        """Cross-entropy over the letters, with the options in another order at every step."""
        torch = require("torch", extra="finetune", purpose=PURPOSE)
        labels = self.taxonomy.labels
        order = rotations(labels, len(labels))[step % len(labels)]
        with enough_memory(torch, _too_much(self.base, len(pixels))):
            logits = self._letters(pixels, order)
        wanted = torch.from_numpy(targets[:, [labels.index(label) for label in order]]).to(logits.device)
        return torch.nn.functional.cross_entropy(logits, wanted, label_smoothing=smoothing)

    def logits(self, pixels: Pixels) -> Floats:
        """What it says with the options in their own order."""
        torch = require("torch", extra="finetune", purpose=PURPOSE)
        with torch.inference_mode():
            return np.asarray(self._letters(pixels, self.taxonomy.labels).cpu().numpy(), np.float32)

    def _letters(self, pixels: Pixels, order: Sequence[str]) -> Any:
        torch = require("torch", extra="finetune", purpose=PURPOSE)
        model, letters = self.model, letters_for(order)
        text = model.render(write_question(order, BY_LETTER))
        tokens = letter_tokens(model.tokenizer, text, letters, model.name)
        prepared = [model.prepare(image) for image in pixels]
        return torch.cat([model.answer_logits(group, text)[:, tokens].float() for group in same_shape(prepared)])

    def save(self, folder: Path, learnt: Learnt) -> None:
        """Merge the adapters, and write a folder like one from the hub."""
        hub = require_hub(self.base)
        transformers = require("transformers", extra="finetune", purpose=PURPOSE)
        with quiet("peft", "transformers", "huggingface_hub"), without_progress_bars(transformers, hub):
            merged = self.adapted.merge_and_unload()
            merged.save_pretrained(folder)
            self.model.tokenizer.save_pretrained(folder)
            source = fetch(hub, self.base, CONFIG_FILES)
        for name in ("preprocessor_config.json", "processor_config.json"):
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)
        (folder / "chat_template.jinja").write_text(self.model.template, encoding="utf-8")
        write_learnt(learnt, folder)


def _too_much(name: str, images: int) -> str:
    return f"{name}: no memory left to train on {images} images at once; give a smaller --at-once, or a larger GPU"
