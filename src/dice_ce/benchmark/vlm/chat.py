"""A transformers model with its tokenizer: one turn with an image and a question, and what it makes of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from dice_ce.benchmark.vlm.families import Family, Place
from dice_ce.benchmark.vlm.pixels import Feeding, Prepared
from dice_ce.errors import InputError, require
from dice_ce.types import Floats, Image


@dataclass(frozen=True, eq=False)
class ChatModel:
    """Asks about several images at once. Their prompts are of one length, so nothing is ever padded."""

    name: str
    family: Family
    network: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    template: str = field(repr=False)
    """Jinja source of the chat template."""
    feeding: Feeding
    place: Place
    new_tokens: int
    """Most tokens of an answer."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def prepare(self, image: Image) -> Prepared:
        """Resize and normalise one image."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise InputError(
                f"{self.name}: expected RGB images of bytes [height, width, 3], "
                f"got {image.dtype} {list(image.shape)}; pass the frames as they were decoded"
            )
        try:
            return self.feeding(image)
        except ValueError as error:
            raise InputError(f"{self.name}: {error}; crop it") from error

    def letter_logits(self, prepared: Sequence[Prepared], question: str, letters: str) -> Floats:
        """Return the logits of the letters where the answer begins."""
        text = self.render(question)
        chosen = letter_tokens(self.tokenizer, text, letters, self.name)
        torch = require("torch", extra="vlm", purpose=f"the diagnoser {self.name}")
        found = []
        for group in same_shape(prepared):
            with self.lock, torch.inference_mode(), enough_memory(torch, self._too_much(group)):
                logits = self.answer_logits(group, text)
            found.append(logits[:, chosen].float().cpu().numpy())
        logits = np.concatenate(found)
        if not np.isfinite(logits).all():
            raise InputError(f"{self.name}: its numbers overflow in {self.network.dtype}; use bfloat16 or float32")
        return np.asarray(logits, np.float32)

    def answer_logits(self, group: Sequence[Prepared], text: str) -> Any:
        """Return the logits [images, tokens] where the answer begins, for images of one shape."""
        return self.network(**self.inputs(group, text), logits_to_keep=1, use_cache=False).logits[:, -1]

    def reply(self, prepared: Sequence[Prepared], question: str) -> list[str]:
        """Return what the model says, always its likeliest words."""
        text = self.render(question)
        torch = require("torch", extra="vlm", purpose=f"the diagnoser {self.name}")
        answers: list[str] = []
        for group in same_shape(prepared):
            inputs = self.inputs(group, text)
            with self.lock, torch.inference_mode(), enough_memory(torch, self._too_much(group)):
                tokens = self.network.generate(**inputs, generation_config=self._greedy())
            answers += self.tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        return answers

    def render(self, question: str) -> str:
        """Write one user turn with an image and a question, up to where the answer begins."""
        jinja2 = require("jinja2", extra="vlm", purpose=f"the diagnoser {self.name}")
        turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}
        try:
            text = self.tokenizer.apply_chat_template(
                [turn], chat_template=self.template, tokenize=False, add_generation_prompt=True
            )
        except jinja2.TemplateError as error:
            raise InputError(f"{self.name}: unusable chat template ({error}); download the model again") from error
        if text.count(self.place.marker) != 1:
            raise InputError(
                f"{self.name}: its chat template leaves {text.count(self.place.marker)} places for one image "
                f"('{self.place.marker}'); download the model again, with chat_template.jinja or chat_template.json"
            )
        return str(text)

    def inputs(self, group: Sequence[Prepared], text: str) -> dict[str, Any]:
        """Return the tensors for images of one shape under one prompt."""
        torch = require("torch", extra="vlm", purpose=f"the diagnoser {self.name}")
        ids = torch.tensor([encode(self.tokenizer, self.place.fill(text, group[0].tokens))] * len(group))
        values = [torch.from_numpy(image.values) for image in group]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.family.image_mask:
            token = self.tokenizer.convert_tokens_to_ids(self.place.token)
            inputs[self.family.image_mask] = (ids == token).long()
        if group[0].grid is None:
            inputs["pixel_values"] = torch.stack(values)
        else:
            inputs["pixel_values"] = torch.cat(values)
            inputs["image_grid_thw"] = torch.tensor([image.grid for image in group])
        inputs["pixel_values"] = inputs["pixel_values"].to(self.network.dtype)
        return {name: tensor.to(self.network.device) for name, tensor in inputs.items()}

    def _too_much(self, group: Sequence[Prepared]) -> str:
        return f"{self.name}: no memory left for {len(group)} images at once; use a smaller batch, or a larger GPU"

    def _greedy(self) -> Any:
        """Decode greedily whatever the checkpoint says about sampling, and stop where it says."""
        transformers = require("transformers", extra="vlm", purpose=f"the diagnoser {self.name}")
        own = self.network.generation_config
        stop = own.eos_token_id if own.eos_token_id is not None else self.tokenizer.eos_token_id
        first_stop = stop[0] if isinstance(stop, list) else stop
        fill = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else first_stop
        return transformers.GenerationConfig(
            max_new_tokens=self.new_tokens, do_sample=False, eos_token_id=stop, pad_token_id=fill
        )


@contextmanager
def enough_memory(torch: ModuleType, message: str) -> Iterator[None]:
    """Turn pages of allocator statistics into one line."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(message) from error


def same_shape(prepared: Sequence[Prepared]) -> list[list[Prepared]]:
    """Divide into runs that can go through the model together."""
    runs = itertools.groupby(prepared, key=lambda image: (image.values.shape, image.grid))
    return [list(run) for _, run in runs]


def encode(tokenizer: Any, text: str) -> list[int]:
    """Tokenize a rendered prompt; special tokens are added only where the template did not."""
    bos = tokenizer.bos_token
    return list(tokenizer(text, add_special_tokens=not (bos and text.startswith(bos))).input_ids)


def letter_tokens(tokenizer: Any, text: str, letters: str, name: str) -> list[int]:
    """Find the token of each letter as the first of an answer; each must be one token and change none before it."""
    before = encode(tokenizer, text)
    tokens = []
    for letter in letters:
        after = encode(tokenizer, text + letter)
        if after[:-1] != before:
            raise InputError(
                f"{name}: the letter '{letter}' is not one token of its own where the answer begins, "
                "so letters cannot be scored; let the model talk instead (method 'talk')"
            )
        tokens.append(after[-1])
    if len(set(tokens)) < len(letters):
        raise InputError(
            f"{name}: some of the letters {letters} are the same token, so they cannot be scored; "
            "let the model talk instead (method 'talk')"
        )
    return tokens
