"""Fully trained baselines: tiny random backbones and vision-language models, fine-tuned, saved, loaded and scored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from dice_ce.benchmark.classifiers import ClassifierDiagnoser, load_classifier, read_learnt  # noqa: E402
from dice_ce.benchmark.diagnosers import list_diagnosers  # noqa: E402
from dice_ce.benchmark.vlm import VlmOptions, load_vlm  # noqa: E402
from dice_ce.cli import main  # noqa: E402
from dice_ce.datasets.folder import load_dataset  # noqa: E402
from dice_ce.errors import DiceError, InputError, UsageError  # noqa: E402
from dice_ce.exam.codec import write_image  # noqa: E402
from dice_ce.lab.training.baseline import FinetuneConfig, finetune_baseline, run_steps  # noqa: E402
from dice_ce.lab.training.data import gather  # noqa: E402
from dice_ce.lab.training.examples import Examples, make_examples  # noqa: E402
from dice_ce.lab.training.images import read_labelled_images  # noqa: E402
from dice_ce.lab.training.learners import Learner, is_vision_language, start_learner  # noqa: E402
from dice_ce.taxonomy import Taxonomy  # noqa: E402
from tests.tiny_models import CASES, MLP, VLM_CASES, randomised, save_tiny_model, save_tiny_vlm  # noqa: E402

FEW = Taxonomy("few", ("ulcer", "polyp", "normal"))
ALL = Taxonomy()
COLOURS = {"ulcer": (200, 40, 40), "polyp": (40, 40, 200), "normal": (40, 180, 40)}
SHORT = FinetuneConfig(steps=25, batch=6, at_once=6, rate=2e-3, size=32, rank=4, device="cpu")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    """Six patients; the colour of a frame says what it shows."""
    chance = np.random.default_rng(0)
    rows = ["path,label,source,case"]
    for case in range(6):
        for label, colour in COLOURS.items():
            for number in range(2):
                image = np.clip(np.array(colour) + chance.normal(0, 15, (48, 48, 3)), 0, 255).astype(np.uint8)
                name = f"p{case}-{label}-{number}.png"
                write_image(tmp_path / name, image)
                rows.append(f"{name},{label},S,p{case}")
    (tmp_path / "frames.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "frames.csv"


def silent(label: str, unit: str = "") -> Callable[[int, int], None]:
    return lambda done, total: None


def preprocessed(folder: Path, size: int = 32) -> Path:
    """Say how images are fed, as the hub's checkpoints do."""
    facts = {"size": {"height": size, "width": size}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}
    facts["do_center_crop"] = False
    (folder / "preprocessor_config.json").write_text(json.dumps(facts))
    return folder


def vit() -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**MLP, image_size=32, patch_size=16))


def vit_without_pooling() -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**MLP, image_size=32, patch_size=16), add_pooling_layer=False)


def resnet() -> Any:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    return transformers.ResNetModel(transformers.ResNetConfig(**sizes))


def convnext() -> Any:
    return transformers.ConvNextModel(transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2))


def swin() -> Any:
    sizes = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]}
    return transformers.SwinModel(transformers.SwinConfig(**sizes, window_size=4))


BACKBONES = {
    "vit": vit,
    "vit-without-pooling": vit_without_pooling,
    "resnet": resnet,
    "convnext": convnext,
    "swin": swin,
}


def save_backbone(kind: str, folder: Path) -> Path:
    BACKBONES[kind]().save_pretrained(folder)
    return preprocessed(folder)


def examples_of(table: Path, size: int) -> Examples:
    data = gather([table], FEW.labels)
    return make_examples(read_labelled_images(data.frames, size), data.frames, FEW)


def started(spec: Path, **changed: Any) -> Learner:
    options = {"device": "cpu", "dtype": None, "size": 32, "rank": 4, "seed": 0, **changed}
    return start_learner(str(spec), FEW, **options)


# --- backbones -----------------------------------------------------------------------------------------------------


def test_a_vit_learns_and_judges_patients_that_it_never_saw(frames: Path, tmp_path: Path) -> None:
    done = finetune_baseline(
        str(save_backbone("vit", tmp_path / "vit")),
        [frames],
        tmp_path / "out",
        taxonomy=FEW,
        config=SHORT,
        watch=silent,
    )
    assert np.mean(done.losses[-5:]) < np.mean(done.losses[:5])
    assert done.held_out.value == 1
    assert done.frames + 6 * len(done.learnt.cases) == 36
    assert done.learnt == read_learnt(tmp_path / "out")
    assert done.learnt.base == str(tmp_path / "vit")
    assert not list((tmp_path / "out").glob("*.pt"))


@pytest.mark.parametrize("kind", [*BACKBONES, *CASES])
def test_any_backbone_is_trained_saved_and_loaded_with_the_same_answers(
    kind: str, frames: Path, tmp_path: Path
) -> None:
    if kind in BACKBONES:
        save_backbone(kind, tmp_path / "base")
    else:
        preprocessed(save_tiny_model(kind, tmp_path / "base"), CASES[kind].crop if CASES[kind].crop < 64 else 56)
    learner = started(tmp_path / "base")
    examples = examples_of(frames, learner.size)
    before = [value.detach().clone() for value in learner.network.parameters()]
    run_steps(learner, examples, FinetuneConfig(steps=2, batch=4, at_once=2), tmp_path / "c.pt", silent(""))
    changed = [not torch.equal(a, b) for a, b in zip(before, learner.network.parameters(), strict=True)]
    assert np.mean(changed) > 0.6
    images = examples.images.masked(np.arange(5))
    learnt = finetuned_note(learner)
    (tmp_path / "out").mkdir()
    learner.save(tmp_path / "out", learnt)
    model = ClassifierDiagnoser.load(tmp_path / "out", FEW, device="cpu", batch=2)
    assert model.size == learner.size
    wanted = torch.softmax(torch.from_numpy(learner.logits(images)), 1).numpy()
    np.testing.assert_allclose(model.diagnose(list(images)), wanted, atol=1e-5)


def finetuned_note(learner: Learner) -> Any:
    from dice_ce.benchmark.classifiers import Learnt

    return Learnt(learner.base, FEW.labels, ("p1",), 2, learner.has_head)


def test_a_fine_tuned_backbone_is_an_encoder_too(frames: Path, tmp_path: Path) -> None:
    from dice_ce.features.encoder import load_encoder

    save_tiny_model("dinov3", tmp_path / "base")
    finetune_baseline(
        str(tmp_path / "base"),
        [frames],
        tmp_path / "out",
        taxonomy=FEW,
        config=FinetuneConfig(steps=1, batch=2, at_once=2),
        watch=silent,
    )
    encoder = load_encoder(str(tmp_path / "out"))
    assert (encoder.input_size, encoder.dim) == (48, 32)


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(frames: Path, tmp_path: Path) -> None:
    base, config = save_backbone("vit", tmp_path / "vit"), FinetuneConfig(steps=6, batch=4, at_once=3, rate=1e-3)
    examples = examples_of(frames, 32)
    whole = started(base)
    run_steps(whole, examples, config, tmp_path / "whole.pt", silent(""))

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_steps(started(base), examples, config, tmp_path / "part.pt", interrupt)
    resumed = started(base)
    assert len(run_steps(resumed, examples, config, tmp_path / "part.pt", silent(""))) == 3
    for one, other in zip(whole.network.parameters(), resumed.network.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(InputError, match=r"part\.pt: belongs to a run with other settings or images; remove it"):
        run_steps(
            started(base), examples, FinetuneConfig(steps=7, batch=4, at_once=3), tmp_path / "part.pt", silent("")
        )


def test_parts_of_a_batch_give_the_gradient_of_the_whole(frames: Path, tmp_path: Path) -> None:
    base, examples = save_backbone("vit", tmp_path / "vit"), examples_of(frames, 32)
    ends = []
    for at_once in (4, 3):
        learner = started(base)
        config = FinetuneConfig(steps=1, batch=4, at_once=at_once, rate=1e-3)
        run_steps(learner, examples, config, tmp_path / f"{at_once}.pt", silent(""))
        ends.append([value.detach().clone() for value in learner.network.head.parameters()])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


# --- vision-language models ----------------------------------------------------------------------------------------

QUESTION = (" ".join(f"{letter}. {label}" for letter, label in zip("ABC", FEW.labels, strict=True)),) * 3


@pytest.mark.parametrize("kind", VLM_CASES)
def test_adapters_learn_and_are_merged_into_an_ordinary_model(kind: str, frames: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    base = save_tiny_vlm(kind, tmp_path / "base", QUESTION)
    files = {path.name: path.read_bytes() for path in base.iterdir()}
    learner = started(base)
    assert not learner.has_head
    examples = examples_of(frames, 32)
    trained, _ = learner.groups[0]
    assert 0 < sum(value.numel() for value in trained) < sum(value.numel() for value in learner.network.parameters())
    run_steps(learner, examples, FinetuneConfig(steps=2, batch=4, at_once=2), tmp_path / "c.pt", silent(""))
    images, targets = examples.images.masked(np.array([0, 2, 4])), examples.targets[[0, 2, 4]]
    losses = [one_step(learner, images, targets) for _ in range(15)]
    assert losses[-1] < 0.9 * losses[0]
    wanted = learner.logits(images)
    (tmp_path / "out").mkdir()
    learner.save(tmp_path / "out", finetuned_note(learner))
    model = load_vlm(str(tmp_path / "out"), FEW, VlmOptions(permutations=1, device="cpu"))
    found = np.log(model.diagnose(list(images)))
    difference = found - wanted
    np.testing.assert_allclose(difference - difference.mean(axis=1, keepdims=True), 0, atol=1e-3)
    assert model.parameters == sum(value.numel() for value in load_parameters(base))
    assert {path.name: path.read_bytes() for path in base.iterdir()} == files


def one_step(learner: Learner, images: Any, targets: Any) -> float:
    """Go down the slope of a fixed batch, in steps that are seen and do not overshoot."""
    loss = learner.loss(images, targets, 0, 0.0)
    gradients = torch.autograd.grad(loss, learner.groups[0][0], allow_unused=True)
    with torch.no_grad():
        for value, gradient in zip(learner.groups[0][0], gradients, strict=True):
            if gradient is not None:
                value -= 0.005 * gradient.sign()
    return float(loss.detach())


def load_parameters(folder: Path) -> list[Any]:
    """Read the weights of a model."""
    config = transformers.AutoConfig.from_pretrained(folder)
    network = getattr(transformers, config.architectures[0]).from_pretrained(folder)
    return list(network.parameters())


def test_without_peft_the_extra_is_named_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(DiceError, match=r"finetune"):
        started(save_tiny_vlm("qwen3_vl", tmp_path / "base", QUESTION))


# --- what is refused -----------------------------------------------------------------------------------------------


def test_what_cannot_be_trained_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ColonGPT: it runs on code of its authors, and cannot be trained here"):
        is_vision_language("ColonGPT")
    with pytest.raises(UsageError, match="unknown diagnoser 'Qwen3VL'; did you mean 'Qwen3-VL'"):
        is_vision_language("Qwen3VL")
    assert is_vision_language("LingShu=weights/lingshu")
    BACKBONES["vit"]().save_pretrained(tmp_path / "vit")
    with pytest.raises(DiceError, match=r"vit: there is no preprocessor_config\.json in it; download"):
        started(tmp_path / "vit")
    text = transformers.BertModel(transformers.BertConfig(**MLP, vocab_size=16))
    randomised(text, 1).save_pretrained(tmp_path / "bert")
    with pytest.raises(DiceError, match="bert: gives no feature for RGB images of 32 pixels"):
        started(preprocessed(tmp_path / "bert"))


def test_damaged_folders_are_named(frames: Path, tmp_path: Path) -> None:
    learner = started(save_backbone("vit", tmp_path / "base"))
    (tmp_path / "out").mkdir()
    learner.save(tmp_path / "out", finetuned_note(learner))
    with pytest.raises(UsageError, match=r"out: it learnt the labels ulcer, polyp, normal, not those of the bundle"):
        ClassifierDiagnoser.load(tmp_path / "out", ALL)
    (tmp_path / "out" / "head.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"head\.safetensors: unusable head .* train it again"):
        load_classifier(tmp_path / "out")
    (tmp_path / "out" / "diagnoser.json").write_text('{"labels": 3}')
    with pytest.raises(InputError, match=r"diagnoser\.json: not the note of a fine-tuned diagnoser .* train it again"):
        load_classifier(tmp_path / "out")
    with pytest.raises(InputError, match=r"base: no fine-tuned backbone .* write one with: dice-ce finetune MODEL"):
        load_classifier(tmp_path / "base")


def test_a_diagnoser_is_not_scored_on_patients_it_learnt_from(dataset: Path, tmp_path: Path) -> None:
    learner = started(save_backbone("vit", tmp_path / "base"))
    (tmp_path / "out").mkdir()
    note = finetuned_note(learner)
    learner.save(tmp_path / "out", type(note)(note.base, ALL.labels, ("pa", "pc"), 1, True))
    data, options = load_dataset(dataset), VlmOptions(device="cpu")
    with pytest.raises(InputError, match=r"out: it learnt from patient 'pc' of these exams \(1 in all\); score it on"):
        list_diagnosers([str(tmp_path / "out")], options, data.of("test"))
    with pytest.raises(UsageError, match="two diagnosers are called 'Qwen3-VL'"):
        list_diagnosers(["Qwen3-VL", "qwen3-vl"], options, data)
    with pytest.raises(InputError, match="base: models of type 'vit' are not supported"):
        list_diagnosers([str(tmp_path / "base")], options, data)


def test_from_the_command_line_to_a_row_of_the_table(
    dataset: Path, bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_backbone("vit", tmp_path / "base")
    words = ["finetune", str(tmp_path / "base"), "--data", str(dataset), "--out", str(tmp_path / "my-vit")]
    assert main([*words, "--steps", "2", "--batch", "4", "--device", "cpu", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["cases"], facts["steps"]) == (1, 2)
    out = tmp_path / "results"
    words = ["benchmark", "--data", str(dataset), "--bundle", str(bundle_folder), "--out", str(out)]
    assert main([*words, "--methods", "aks", "--diagnosers", str(tmp_path / "my-vit"), "--device", "cpu"]) == 0
    table = (out / "tables" / "main.md").read_text().splitlines()
    assert [line.split(" | ")[:2] for line in table[2:]] == [
        ["| AKS", "own head"],
        ["| AKS", "my-vit"],
        ["| DiCE", "own head"],
    ]
    assert main([*words, "--diagnoser", str(tmp_path / "nowhere/x"), "--device", "cuda"]) in (1, 2)
