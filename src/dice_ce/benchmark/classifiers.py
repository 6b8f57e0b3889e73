"""Fine-tuned vision backbones as diagnosers: any vision model of transformers with a linear head on its features.

A folder of one is what `save_pretrained` writes, so that everything that loads models from the hub loads it, and beside
it the head and a note of what was learnt:

    config.json, model.safetensors, preprocessor_config.json     the backbone
    head.safetensors                                             weight and bias
    diagnoser.json                                               labels, and the cases it learnt from
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from dice_ce.benchmark.vlm.chat import enough_memory
from dice_ce.benchmark.vlm.loading import choose_device
from dice_ce.errors import InputError, UsageError, require
from dice_ce.features.backbones.hf import RESAMPLING, Preprocessing, load_tower, read_preprocessing
from dice_ce.features.backbones.hub import (
    CONFIG_FILES,
    WEIGHT_FILES,
    fetch,
    quiet,
    reason,
    without_progress_bars,
)
from dice_ce.method.diagnoser import softmax
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats, Image, Progress

NOTE, HEAD = "diagnoser.json", "head.safetensors"


class Learnt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a fine-tuned folder says about itself."""

    base: str
    """The model it began as."""
    labels: tuple[str, ...]
    cases: tuple[str, ...]
    """Patients it learnt from: it must not be scored on them."""
    steps: int
    head: bool
    """Whether it is a backbone with a head; otherwise a vision-language model."""


def read_learnt(folder: Path) -> Learnt | None:
    """Read the note of a fine-tuned folder; None for any other."""
    path = folder / NOTE
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Learnt)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{path}: not the note of a fine-tuned diagnoser ({reason(error)}); train it again") from error


@dataclass(frozen=True, eq=False)
class Classifier:
    """A backbone with its head: images in, logits out."""

    preprocessing: Preprocessing
    network: Any = field(repr=False)
    """Torch module with the parts `tower` and `head`: uint8 [n, s, s, 3] in, float32 [n, labels] out."""

    @property
    def parameters(self) -> int:
        """Count the weights."""
        return sum(int(value.numel()) for value in self.network.parameters())


def start_classifier(spec: str, labels: Sequence[str], seed: int = 0) -> Classifier:
    """Load a published backbone, by hub id or from a folder, and put a fresh head on it."""
    torch, transformers, folder = _fetch(spec)
    with quiet("transformers"), without_progress_bars(transformers, require_hub(spec)):
        tower = load_tower(torch, transformers, spec, folder, needs_pooling=False)
    preprocessing = read_preprocessing(spec, folder, getattr(tower.config, "image_size", None) or 224)
    dim = _probe(torch, tower, preprocessing, spec)
    head = torch.nn.Linear(dim, len(labels))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        head.weight.normal_(0, 0.02, generator=generator)
        head.bias.zero_()
    return Classifier(preprocessing, _join(torch, tower, head, preprocessing))


def load_classifier(folder: Path) -> tuple[Classifier, Learnt]:
    """Load a fine-tuned folder: its backbone as any other, and the head that belongs to it."""
    learnt = read_learnt(folder)
    if learnt is None or not learnt.head:
        remedy = "write one with: dice-ce finetune MODEL --data DATA --out DIR"
        raise InputError(f"{folder}: no fine-tuned backbone ({NOTE} and {HEAD}); {remedy}")
    classifier = start_classifier(str(folder), learnt.labels)
    tensors = require("safetensors.torch", extra="vlm", purpose="fine-tuned diagnosers")
    try:
        classifier.network.head.load_state_dict(tensors.load_file(folder / HEAD))
    except Exception as error:  # safetensors and torch share no base but Exception
        raise InputError(f"{folder / HEAD}: unusable head ({reason(error)}); train it again") from error
    classifier.network.eval().requires_grad_(False)
    return classifier, learnt


def save_classifier(classifier: Classifier, learnt: Learnt, folder: Path) -> None:
    """Write a fine-tuned folder, its note last."""
    tensors = require("safetensors.torch", extra="vlm", purpose="fine-tuned diagnosers")
    how = classifier.preprocessing
    transformers = require("transformers", extra="vlm", purpose="fine-tuned diagnosers")
    with quiet("transformers"), without_progress_bars(transformers, require_hub(learnt.base)):
        classifier.network.tower.save_pretrained(folder)
    state = {name: value.detach().cpu().contiguous() for name, value in classifier.network.head.state_dict().items()}
    tensors.save_file(state, folder / HEAD)
    numbers = {name: number for number, name in RESAMPLING.items()}
    given = {
        "size": {"height": how.size, "width": how.size},
        "do_center_crop": how.crop != how.size,
        "crop_size": {"height": how.crop, "width": how.crop},
        "image_mean": how.mean,
        "image_std": how.std,
        "rescale_factor": how.rescale,
        "resample": numbers[how.resize],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(given, indent=1) + "\n")
    write_learnt(learnt, folder)


def write_learnt(learnt: Learnt, folder: Path) -> None:
    """Write the note of a fine-tuned folder."""
    (folder / NOTE).write_text(json.dumps({key: getattr(learnt, key) for key in learnt.__struct_fields__}) + "\n")


def _fetch(spec: str) -> tuple[ModuleType, ModuleType, Path]:
    torch, transformers = (
        require(package, extra="vlm", purpose=f"the diagnoser {spec}") for package in ("torch", "transformers")
    )
    with quiet("transformers", "huggingface_hub"):
        return torch, transformers, fetch(require_hub(spec), spec, CONFIG_FILES + WEIGHT_FILES)


def require_hub(spec: str) -> ModuleType:
    """Return the library of the hub."""
    return require("huggingface_hub", extra="vlm", purpose=f"the diagnoser {spec}")


def pooled(output: Any) -> Any:
    """Reduce what a backbone gives to one vector per image: its pooled one, its first token, or the mean of its map."""
    vector = getattr(output, "pooler_output", None)
    if vector is not None:
        return vector.flatten(1)
    last = output.last_hidden_state
    return last[:, 0] if last.ndim == 3 else last.mean((2, 3))


def _join(torch: ModuleType, tower: Any, head: Any, preprocessing: Preprocessing) -> Any:
    margin = (preprocessing.size - preprocessing.crop) // 2
    centre = slice(margin, margin + preprocessing.crop)

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is imported late
        def __init__(self) -> None:
            super().__init__()
            self.tower, self.head = tower, head
            for name in ("mean", "std"):
                values = torch.tensor(asdict(preprocessing)[name]).reshape(3, 1, 1)
                self.register_buffer(name, values, persistent=False)

        def forward(self, frames: Any) -> Any:
            pixels = frames[:, centre, centre].permute(0, 3, 1, 2).to(torch.float32) * preprocessing.rescale
            return self.head(pooled(self.tower((pixels - self.mean) / self.std)))

    return Network()


def _probe(torch: ModuleType, tower: Any, preprocessing: Preprocessing, spec: str) -> int:
    """Show the backbone one black image: what cannot work should say so before hours of training."""
    side = preprocessing.crop
    try:
        with torch.inference_mode():
            return int(pooled(tower(torch.zeros((1, 3, side, side)))).shape[1])
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{spec}: gives no feature for RGB images of {side} pixels ({reason(error)}); give a vision backbone"
        ) from error


@dataclass(frozen=True, eq=False)
class ClassifierDiagnoser:
    """A fine-tuned backbone that labels frames."""

    name: str
    classifier: Classifier
    taxonomy: Taxonomy
    device: str
    batch: int

    @classmethod
    def load(
        cls, folder: Path, taxonomy: Taxonomy, *, device: str | None = None, batch: int = 8
    ) -> ClassifierDiagnoser:
        """Load a folder whose labels are those of the taxonomy."""
        classifier, learnt = load_classifier(folder)
        if learnt.labels != taxonomy.labels:
            raise UsageError(
                f"{folder}: it learnt the labels {', '.join(learnt.labels)}, not those of the bundle; train it again"
            )
        torch = require("torch", extra="vlm", purpose=f"the diagnoser {folder}")
        chosen = choose_device(torch, device)
        classifier.network.to(chosen)
        return cls(folder.resolve().name, classifier, taxonomy, chosen, batch)

    @property
    def size(self) -> int:
        """Side of the images that it takes."""
        return self.classifier.preprocessing.size

    def diagnose(self, images: Iterable[Image], total: int = 0, progress: Progress | None = None) -> Floats:
        """Return p for RGB images of its size; `total` is only for the progress."""
        torch = require("torch", extra="vlm", purpose=f"the diagnoser {self.name}")
        message = f"{self.name}: no memory left for {self.batch} images at once; use a smaller batch"
        rows: list[Floats] = []
        remaining = iter(images)
        while chunk := list(itertools.islice(remaining, self.batch)):
            with torch.inference_mode(), enough_memory(torch, message):
                logits = self.classifier.network(torch.from_numpy(np.stack(chunk)).to(self.device))
            rows.append(softmax(logits.float().cpu().numpy()))
            if progress:
                progress(sum(map(len, rows)), total)
        return np.concatenate([np.empty((0, len(self.taxonomy)), np.float32), *rows])
