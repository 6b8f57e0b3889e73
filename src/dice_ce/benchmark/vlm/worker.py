"""Runs a model through its authors' own code, in a process and an environment of its own.

    python worker.py NAME SOURCE DEVICE

Reads lines {"image": base64 of a PNG, "question": text} and writes lines {"answer": text}; the first line it writes
says that the model is loaded. It imports nothing of dice_ce, because the environment it needs is another one.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = Callable[[Any, str], str]

IMAGE_TOKEN = -200
"""Stands for the image in what ColonGPT is fed."""
NEW_TOKENS = 256


def load_colongpt(source: str, device: str) -> Answer:
    """Load ColonGPT, whose code lies beside its weights."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    torch.set_default_device(device)
    dtype = torch.float32 if device == "cpu" else torch.float16
    model = transformers.AutoModelForCausalLM.from_pretrained(source, torch_dtype=dtype, trust_remote_code=True)
    model = model.to(device).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=True)

    def answer(image: Any, question: str) -> str:
        before, after = (tokenizer(part).input_ids for part in ("USER: ", f"\n{question} ASSISTANT:"))
        tokens = torch.tensor([[*before, IMAGE_TOKEN, *after]], device=device)
        pixels = model.process_images([image], model.config).to(dtype=dtype, device=device)
        with torch.inference_mode():
            said = model.generate(tokens, images=pixels, do_sample=False, max_new_tokens=NEW_TOKENS, use_cache=True)
        return str(tokenizer.decode(said[0, tokens.shape[1] :], skip_special_tokens=True))

    return answer


def load_huatuogpt(source: str, device: str) -> Answer:
    """Load HuatuoGPT-Vision, whose code is a repository of its own: PYTHONPATH must lead to a copy of it."""
    bot = importlib.import_module("cli").HuatuoChatbot(source, device)
    bot.gen_kwargs.pop("temperature", None)
    bot.gen_kwargs.update(do_sample=False, max_new_tokens=NEW_TOKENS)
    return lambda image, question: str(bot.inference(question, [image])[0])


LOADERS: dict[str, Callable[[str, str], Answer]] = {"ColonGPT": load_colongpt, "HuatuoGPT": load_huatuogpt}


def main(name: str, source: str, device: str) -> None:
    """Load the model, then answer until there are no more questions."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]  # its modules are not for that code
    # Foreign code prints what it likes; only our own lines go where they are read.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        if isinstance(sys.stdout, io.TextIOWrapper):  # or its last words are lost if it is killed
            sys.stdout.reconfigure(line_buffering=True)
        answer = LOADERS[name](source, device)
        open_image = importlib.import_module("PIL.Image").open
        print(json.dumps({"ready": name}), file=replies, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            image = open_image(io.BytesIO(base64.b64decode(asked["image"]))).convert("RGB")
            print(json.dumps({"answer": answer(image, asked["question"])}), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
