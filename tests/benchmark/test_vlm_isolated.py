"""Models that bring code of their own: refused unless asked for, then run by another process.

The code of their authors is played by a few lines that take the same calls.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce.benchmark.vlm import VLMS, VlmOptions, load_vlm
from dice_ce.benchmark.vlm.isolated import PYTHON_VARIABLE, IsolatedModel
from dice_ce.errors import DiceError, InputError, UsageError
from dice_ce.taxonomy import Taxonomy

FEW = Taxonomy("few", ("ulcer", "erosion", "polyp", "normal"))


def refusal(spec: str, kind: type[DiceError] = InputError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        load_vlm(spec, FEW, VlmOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


FOREIGN = [name for name, entry in VLMS.items() if entry.own_code]

FAKE_TRANSFORMERS = """
import torch

print("noise that foreign code prints")


class Tokenizer:
    def __call__(self, text):
        self.asked = text if "ASSISTANT" in text else None
        return type("Encoding", (), {"input_ids": [ord(character) for character in text]})

    def decode(self, tokens, skip_special_tokens):
        return "".join(chr(token) for token in tokens.tolist())


class Model:
    config, dtype = None, torch.float32

    def to(self, device):
        return self

    def eval(self):
        return self

    def process_images(self, images, config):
        return torch.tensor([image.getpixel((0, 0)) for image in images])

    def generate(self, tokens, images, do_sample, max_new_tokens, use_cache):
        assert tokens[0].tolist().count(-200) == 1 and not do_sample
        said = "polyp" if images[0, 0] > 127 else "ulcer"
        return torch.cat([tokens, torch.tensor([[ord(character) for character in said]])], dim=1)


class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(source, torch_dtype, trust_remote_code):
        assert source == "somewhere/weights" and trust_remote_code
        return Model()


class AutoTokenizer:
    from_pretrained = staticmethod(lambda source, trust_remote_code: Tokenizer())
"""

FAKE_CLI = """
class HuatuoChatbot:
    def __init__(self, source, device):
        print("loading from", source)
        assert (source, device) == ("somewhere/weights", "cpu")
        self.gen_kwargs = {"do_sample": True, "temperature": 0.2}

    def inference(self, question, images):
        assert self.gen_kwargs == {"do_sample": False, "max_new_tokens": 256}
        if "crash" in question:
            raise RuntimeError("the model fell over")
        return ["polyp" if images[0].getpixel((0, 0))[0] > 127 else "ulcer"]
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for the environment in which the code of a model's authors runs."""
    pytest.importorskip("PIL")
    root = tmp_path / "foreign"
    root.mkdir()
    (root / "transformers.py").write_text(FAKE_TRANSFORMERS)
    (root / "cli.py").write_text(FAKE_CLI)
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    return root


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("way", ["{name}", "{hub_id}", "{name}=some/folder"])
def test_foreign_code_is_refused_unless_asked_for(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "Popen", fail)
    message = refusal(way.format(name=name, hub_id=VLMS[name].hub_id), UsageError)
    assert message.startswith(f"{name}: it runs Python code of its authors, with all your rights on this machine")
    assert message.endswith("then pass --allow-remote-code (in Python: allow_remote_code=True)")
    assert str(VLMS[name].own_code) in message


def test_foreign_code_cannot_be_scored_by_letters() -> None:
    message = refusal("ColonGPT", UsageError, allow_remote_code=True, method="letters")
    assert "its own code only talks" in message


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_code_answers_from_its_own_process(name: str) -> None:
    options = VlmOptions(allow_remote_code=True, device="cpu")
    with load_vlm(f"{name}=somewhere/weights", FEW, options) as diagnoser:
        bright, dark = np.full((8, 8, 3), 200, np.uint8), np.full((8, 8, 3), 20, np.uint8)
        assert diagnoser.diagnose([bright, dark]).argmax(axis=1).tolist() == [2, 0]
        assert diagnoser.report.unparsable == 0


@pytest.mark.usefixtures("foreign")
def test_process_ends_with_its_model() -> None:
    model = IsolatedModel.start("HuatuoGPT", "somewhere/weights", "cpu")
    assert model.process.poll() is None
    model.close()
    assert model.process.poll() == 0


@pytest.mark.usefixtures("foreign")
def test_process_that_ends_is_reported_in_its_last_words() -> None:
    model = IsolatedModel.start("HuatuoGPT", "somewhere/weights", "cpu")
    prepared = [model.prepare(np.zeros((8, 8, 3), np.uint8))]
    message = r"^HuatuoGPT: its process ended \(RuntimeError: the model fell over\); set DICE_CE_VLM_PYTHON to"
    with pytest.raises(InputError, match=message):
        model.reply(prepared, "crash")


@pytest.mark.usefixtures("foreign")
def test_process_that_was_killed_is_reported() -> None:
    model = IsolatedModel.start("HuatuoGPT", "somewhere/weights", "cpu")
    model.process.kill()
    model.process.wait()
    with pytest.raises(InputError, match=r"^HuatuoGPT: its process ended \(loading from somewhere/weights\)"):
        model.reply(["image"], "What?")


def test_environment_without_the_code(foreign: Path) -> None:
    (foreign / "cli.py").unlink()
    message = refusal("HuatuoGPT", allow_remote_code=True)
    assert "ModuleNotFoundError: No module named 'cli'" in message


def test_interpreter_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "no/such/python")
    message = refusal("ColonGPT", allow_remote_code=True)
    assert "cannot be started (No such file or directory); set DICE_CE_VLM_PYTHON to a Python interpreter" in message
