"""Tiny random vision-language models go through what published ones go through: files, images, prompts, answers."""

from __future__ import annotations

import importlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import huggingface_hub  # noqa: E402
from transformers.processing_utils import ProcessorMixin  # noqa: E402

from dice_ce.benchmark.vlm import VLMS, VlmOptions, load_vlm  # noqa: E402
from dice_ce.benchmark.vlm.chat import ChatModel, letter_tokens, same_shape  # noqa: E402
from dice_ce.benchmark.vlm.loading import load_chat_model  # noqa: E402
from dice_ce.benchmark.vlm.pixels import (  # noqa: E402
    CLIP_MEAN,
    CLIP_STD,
    Levels,
    Patches,
    Square,
    fit_grid,
    resize,
)
from dice_ce.benchmark.vlm.prompts import AFTER_THINKING, BY_LETTER, LETTERS, write_question  # noqa: E402
from dice_ce.benchmark.vlm.registry import Chosen  # noqa: E402
from dice_ce.errors import DiceError, InputError, MissingExtraError, UsageError  # noqa: E402
from dice_ce.exam.open import open_exam  # noqa: E402
from dice_ce.extras import install_command  # noqa: E402
from dice_ce.method.selector import Candidates  # noqa: E402
from dice_ce.taxonomy import VIDEOCAP_12, Taxonomy  # noqa: E402
from tests.material import numbered_video  # noqa: E402
from tests.tiny_models import HALF, IMAGENET, VLM_CASES, save_tiny_vlm, train_tokenizer  # noqa: E402

FEW = Taxonomy("few", ("ulcer", "erosion", "polyp", "normal"))

each_family = pytest.mark.parametrize("kind", VLM_CASES)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Models this small are slowed down by more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders as `hf download` would leave them."""
    root = tmp_path_factory.mktemp("vlms")
    return {kind: save_tiny_vlm(kind, root / kind) for kind in VLM_CASES}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, ChatModel]:
    return {kind: chat_model(folder) for kind, folder in folders.items()}


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A checkpoint to spoil."""
    return Path(shutil.copytree(folders["qwen2_5_vl"], tmp_path / "copied"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The hub offline with an empty cache, and no socket may open."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("touched the network")

    for opening in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, opening, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def chat_model(folder: Path, **options: Any) -> ChatModel:
    return load_chat_model(Chosen(folder.name, str(folder), None), VlmOptions(**options))


def noise(count: int, height: int = 60, width: int = 90, seed: int = 0) -> list[Any]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), np.uint8))


def edit_json(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **changes}))


def refusal(spec: Path | str, kind: type[DiceError] = InputError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        load_vlm(str(spec), FEW, VlmOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- images -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("resample", "mode"), [(2, "bilinear"), (3, "bicubic")])
@pytest.mark.parametrize("new", [(336, 308), (160, 160)])
def test_resizing_is_nearly_that_of_torchvision(new: tuple[int, int], resample: int, mode: str) -> None:
    image = noise(1, 330, 310)[0]
    planes = torch.from_numpy(image.transpose(2, 0, 1).copy())[None]
    wanted = torch.nn.functional.interpolate(planes, new, mode=mode, antialias=True)[0].numpy().transpose(1, 2, 0)
    difference = np.abs(resize(image, *new, resample).astype(int) - wanted)
    assert difference.max() <= 2  # levels of 255, because torch rounds its weights more coarsely
    assert (difference > 0).mean() < 0.02


PUBLISHED: list[tuple[str, str, dict[str, Any], Any]] = [
    (
        "qwen2_vl.image_processing_pil_qwen2_vl",
        "Qwen2VLImageProcessorPil",
        {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16, "image_mean": HALF[0]}
        | {"image_std": HALF[1]},
        Patches(Levels(3, *HALF), patch=16, merge=2, times=2, least=65536, most=16777216),
    ),
    (
        "qwen2_vl.image_processing_pil_qwen2_vl",
        "Qwen2VLImageProcessorPil",
        {"min_pixels": 3136, "max_pixels": 12845056},
        Patches(Levels(3, CLIP_MEAN, CLIP_STD), patch=14, merge=2, times=2, least=3136, most=12845056),
    ),
    (
        "got_ocr2.image_processing_pil_got_ocr2",
        "GotOcr2ImageProcessorPil",
        {"size": {"height": 448, "width": 448}, "image_mean": IMAGENET[0], "image_std": IMAGENET[1]},
        Square(Levels(3, *IMAGENET), 448, 448, tokens=256),
    ),
    (
        "gemma3.image_processing_pil_gemma3",
        "Gemma3ImageProcessorPil",
        {"size": {"height": 896, "width": 896}, "image_mean": HALF[0], "image_std": HALF[1]},
        Square(Levels(2, *HALF), 896, 896, tokens=256),
    ),
]


@pytest.mark.parametrize(
    ("module", "name", "given", "feeding"), PUBLISHED, ids=["qwen3", "qwen2.5", "internvl", "gemma"]
)
@pytest.mark.parametrize("size", [(336, 336), (576, 576)])
def test_pixels_at_published_sizes(module: str, name: str, given: Any, feeding: Any, size: tuple[int, int]) -> None:
    pytest.importorskip("PIL")
    processor = getattr(importlib.import_module(f"transformers.models.{module}"), name)(**given)
    image = noise(1, *size)[0]
    wanted = processor([image], return_tensors="np")
    found = feeding(image)
    values = wanted["pixel_values"] if found.grid else wanted["pixel_values"][0]
    assert found.values.shape == values.shape
    assert np.abs(found.values - values).max() < 1e-6
    if found.grid:
        assert list(found.grid) == wanted["image_grid_thw"][0].tolist()


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 400), st.integers(2, 400), st.sampled_from([28, 32]), st.integers(1, 60), st.integers(60, 300))
def test_grid_is_that_of_transformers(height: int, width: int, unit: int, least: int, most: int) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    limits = least * unit**2, most * unit**2
    assert fit_grid(height, width, unit, *limits) == smart_resize(height, width, unit, *limits)


def test_image_that_is_too_elongated(models: dict[str, ChatModel]) -> None:
    with pytest.raises(InputError, match="an image of 402x2 pixels is too elongated; crop it"):
        models["qwen3_vl"].prepare(noise(1, 2, 402)[0])


@pytest.mark.parametrize("image", [np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.float32)])
def test_image_of_the_wrong_kind(models: dict[str, ChatModel], image: Any) -> None:
    with pytest.raises(InputError, match=r"expected RGB images of bytes \[height, width, 3\], got"):
        models["gemma3"].prepare(image)


def reference_processor(kind: str, model: ChatModel, folder: Path) -> Any:
    """The family's own processor with the image processor that does without torchvision, and no video processor."""
    given = json.loads((folder / "preprocessor_config.json").read_text())
    module = {"internvl": "got_ocr2", "gemma3": "gemma3"}.get(kind, "qwen2_vl")
    pillow = importlib.import_module(f"transformers.models.{module}.image_processing_pil_{module}")
    own = {"internvl": "GotOcr2", "gemma3": "Gemma3"}.get(kind, "Qwen2VL")
    cutting = {"patch_size": 16 if kind == "qwen3_vl" else 14} if own == "Qwen2VL" else {}
    images = getattr(pillow, f"{own}ImageProcessorPil")(**given, **cutting)
    tokenizer = model.tokenizer
    if kind == "gemma3":
        return transformers.Gemma3Processor(images, tokenizer, model.template, image_seq_length=4)

    parent = {
        "internvl": "InternVLProcessor",
        "qwen3_vl": "Qwen3VLProcessor",
        "qwen2_5_vl": "Qwen2_5_VLProcessor",
    }[kind]

    class WithoutVideos(getattr(transformers, parent)):  # type: ignore[misc]
        def __init__(self, image_processor: Any, tokenizer: Any, chat_template: Any) -> None:
            names = {"image": model.place.token, "video": VLM_CASES[kind].specials[6]}
            names |= {"start_image": "<img>", "end_image": "</img>"}
            for name, token in names.items():
                setattr(self, f"{name}_token", token)
                setattr(self, f"{name}_token_id", tokenizer.convert_tokens_to_ids(token))
            self.video_processor = None
            self.image_seq_length = 4
            self.multimodal_pattern = f"(?P<image>{model.place.token})"
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    return WithoutVideos(images, tokenizer, model.template)


def reference_inputs(kind: str, model: ChatModel, folder: Path, image: Any, question: str) -> Any:
    processor = reference_processor(kind, model, folder)
    content = [{"type": "image", "image": image}, {"type": "text", "text": question}]
    options = {"crop_to_patches": False} if kind == "internvl" else {}
    return processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs=options,
    )


@each_family
@pytest.mark.parametrize("size", [(60, 90), (64, 64), (20, 25)])
def test_inputs_are_those_of_the_processor(
    models: dict[str, ChatModel], folders: dict[str, Path], kind: str, size: tuple[int, int]
) -> None:
    model, image, question = models[kind], noise(1, *size)[0], write_question(FEW.labels, BY_LETTER)
    wanted = dict(reference_inputs(kind, model, folders[kind], image, question))
    found = model.inputs([model.prepare(image)], model.render(question))
    assert set(found) == set(wanted)
    for name in found:
        assert found[name].shape == wanted[name].shape, name
        assert torch.allclose(found[name].double(), wanted[name].double(), rtol=0, atol=1e-6), name


@each_family
def test_letters_are_scored_from_the_logits_at_the_last_position(
    models: dict[str, ChatModel], folders: dict[str, Path], kind: str
) -> None:
    model, image, question = models[kind], noise(1)[0], write_question(FEW.labels, BY_LETTER)
    with torch.inference_mode():
        inputs = reference_inputs(kind, model, folders[kind], image, question)
        logits = model.network(**inputs).logits[0, -1]
    wanted = [float(logits[model.tokenizer.convert_tokens_to_ids(letter)]) for letter in "ABCD"]
    found = model.letter_logits([model.prepare(image)], question, "ABCD")[0]
    assert np.allclose(found, wanted, atol=1e-5)


@each_family
def test_image_and_question_both_matter(models: dict[str, ChatModel], kind: str) -> None:
    model = models[kind]
    dark, bright = (model.prepare(image) for image in (noise(1)[0] // 4, 255 - noise(1)[0] // 4))
    first, second = model.letter_logits([dark, bright], "What?", "ABCD")
    other = model.letter_logits([dark], "Who?", "ABCD")[0]
    assert np.abs(first - second).max() > 1e-3
    assert np.abs(first - other).max() > 1e-3


@each_family
def test_answers_are_the_likeliest_words(models: dict[str, ChatModel], folders: dict[str, Path], kind: str) -> None:
    model, image = chat_model(folders[kind], new_tokens=5), noise(1)[0]
    inputs = reference_inputs(kind, model, folders[kind], image, "What?")
    tokens = model.network.generate(**inputs, max_new_tokens=5, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    said = model.tokenizer.decode(tokens, skip_special_tokens=True)
    assert said
    assert model.reply([model.prepare(image)] * 2, "What?") == [said] * 2


def test_sampling_in_the_checkpoint_is_ignored(copied: Path) -> None:
    edit_json(copied / "generation_config.json", do_sample=True, temperature=2.0, top_k=5)
    model = chat_model(copied, new_tokens=4)
    prepared = [model.prepare(image) for image in noise(2)]
    assert model.reply(prepared, "What?") == model.reply(prepared, "What?")


# --- letters as tokens -----------------------------------------------------------------------------------------------


def test_letters_are_one_token_where_the_answer_begins(models: dict[str, ChatModel]) -> None:
    for model in models.values():
        tokens = letter_tokens(model.tokenizer, model.render("What?"), LETTERS, "x")
        assert model.tokenizer.convert_ids_to_tokens(tokens) == list(LETTERS)


def test_letters_that_are_not_one_token_of_their_own() -> None:
    merging = train_tokenizer(["<pad>", "<s>", "</s>"], {}, ["assistant\nC"] * 9, splits=False)
    assert len(merging("assistant\nC").input_ids) < len(merging("assistant\n").input_ids) + 1
    with pytest.raises(InputError, match=r"^x: the letter 'C' is not one token of its own where the answer begins"):
        letter_tokens(merging, "assistant\n", "ABC", "x")


def test_letters_that_the_tokenizer_cannot_tell_apart() -> None:
    class Deaf:
        bos_token = None

        def __call__(self, text: str, add_special_tokens: bool) -> Any:
            return transformers.BatchEncoding({"input_ids": [0] * len(text)})

    with pytest.raises(InputError, match="some of the letters AB are the same token"):
        letter_tokens(Deaf(), "x", "AB", "x")


# --- the diagnoser --------------------------------------------------------------------------------------------------


@each_family
def test_distributions_sum_to_one(folders: dict[str, Path], kind: str) -> None:
    diagnoser = load_vlm(str(folders[kind]), FEW)
    found = diagnoser.diagnose(noise(3))
    assert found.shape == (3, 4)
    assert found.dtype == np.float32
    assert np.allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found > 0).all()
    assert diagnoser.report.questions == 12


@each_family
def test_batch_size_and_order_of_sizes_change_nothing(folders: dict[str, Path], kind: str) -> None:
    images = [*noise(2), *noise(2, 64, 64), *noise(1, seed=1)]
    one, many = (load_vlm(str(folders[kind]), FEW, VlmOptions(batch=batch, permutations=2)) for batch in (1, 4))
    singly = one.diagnose(images)
    assert np.allclose(singly, many.diagnose(images), atol=1e-5)
    assert np.allclose(singly[::-1], many.diagnose(images[::-1]), atol=1e-5)
    assert np.abs(singly - singly[0]).max() > 1e-6


@each_family
def test_the_same_twice(folders: dict[str, Path], kind: str) -> None:
    first, second = (load_vlm(str(folders[kind]), FEW, VlmOptions(permutations=1)) for _ in range(2))
    assert np.array_equal(first.diagnose(noise(2)), second.diagnose(noise(2)))


@each_family
def test_talk_of_a_random_model_is_uniform_where_it_means_nothing(folders: dict[str, Path], kind: str) -> None:
    diagnoser = load_vlm(str(folders[kind]), FEW, VlmOptions(method="talk", new_tokens=3))
    found = diagnoser.diagnose(noise(2))
    assert np.allclose(found.sum(axis=1), 1)
    assert diagnoser.report.unparsable == np.isclose(found, 1 / 4).all(axis=1).sum()
    assert diagnoser.report.questions == 2


def test_images_of_one_shape_go_together(models: dict[str, ChatModel]) -> None:
    model = models["qwen2_5_vl"]
    prepared = [model.prepare(image) for image in [*noise(2), *noise(1, 90, 60), *noise(1)]]
    assert [len(run) for run in same_shape(prepared)] == [2, 1, 1]


def test_nothing_to_judge(folders: dict[str, Path]) -> None:
    assert load_vlm(str(folders["gemma3"]), FEW).diagnose([]).shape == (0, 4)


def test_candidates_of_an_exam_are_judged_as_they_were_recorded(folders: dict[str, Path], tmp_path: Path) -> None:
    diagnoser = load_vlm(str(folders["internvl"]), FEW, VlmOptions(batch=2, permutations=1))
    with open_exam(numbered_video(tmp_path / "exam.mp4", 12)) as exam:
        rows = np.array([1, 5, 9])
        candidates = Candidates(exam.frames[rows], rows * 1.0, np.zeros((3, 2), np.float32), np.ones(3, np.float32))
        steps: list[tuple[int, int]] = []
        found = diagnoser(exam, candidates, lambda done, total: steps.append((done, total)))
        assert np.array_equal(found, diagnoser.diagnose([exam.image(int(row)) for row in rows]))
    assert steps == [(2, 3), (3, 3)]
    with pytest.raises(InputError, match="it looks at frames: give the exam"):
        diagnoser(None, candidates)


def test_thinking_model_is_asked_for_tags(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def reply(_: ChatModel, prepared: Sequence[Any], question: str) -> list[str]:
        heard.append(question)
        return ["<think>an ulcer?</think><answer>erosion</answer>"] * len(prepared)

    monkeypatch.setattr(ChatModel, "reply", reply)
    diagnoser = load_vlm(f"ColonX={folders['qwen2_5_vl']}", FEW)
    assert diagnoser.diagnose(noise(1))[0].argmax() == 1
    assert (diagnoser.name, diagnoser.method, diagnoser.permutations) == ("ColonX", "talk", 1)
    assert heard[0].splitlines()[-1] == AFTER_THINKING


def test_by_default_all_rotations_of_twelve_labels(folders: dict[str, Path]) -> None:
    diagnoser = load_vlm(f"MedGemma={folders['gemma3']}")
    assert (diagnoser.name, diagnoser.method, diagnoser.permutations) == ("MedGemma", "letters", 12)
    assert diagnoser.taxonomy.labels == VIDEOCAP_12


# --- loading --------------------------------------------------------------------------------------------------------


def put_into_hub_cache(cache: Path, hub_id: str, folder: Path) -> Path:
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    return Path(shutil.copytree(folder, repository / "snapshots" / ("0" * 40)))


def test_name_loads_from_the_cache_of_the_hub(offline: Path, folders: dict[str, Path]) -> None:
    put_into_hub_cache(offline, VLMS["Qwen3-VL"].hub_id, folders["qwen3_vl"])
    options = VlmOptions(permutations=1)
    from_hub, from_folder = (load_vlm(spec, FEW, options) for spec in ("Qwen3-VL", str(folders["qwen3_vl"])))
    assert np.array_equal(from_hub.diagnose(noise(1)), from_folder.diagnose(noise(1)))


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", [name for name, entry in VLMS.items() if not entry.own_code])
def test_weights_that_are_not_here(name: str) -> None:
    message, hub_id = refusal(name), VLMS[name].hub_id
    assert message.startswith(f"{hub_id}: the weights are not on this machine and cannot be downloaded")
    assert message.endswith(f"run 'hf download {hub_id} --local-dir DIR' and give the folder DIR instead")


def test_only_the_config_is_in_the_cache(offline: Path, folders: dict[str, Path]) -> None:
    snapshot = put_into_hub_cache(offline, "someone/tiny", folders["gemma3"])
    (snapshot / "model.safetensors").unlink()
    assert "run 'hf download someone/tiny --local-dir DIR'" in refusal("someone/tiny")


@pytest.mark.parametrize("package", ["torch", "transformers", "huggingface_hub", "jinja2"])
def test_missing_package(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    message = refusal(folders["gemma3"], MissingExtraError)
    assert f"'{package}'" in message
    assert message.endswith(f"install it with: {install_command('vlm')}")


def test_package_imports_without_torch_or_transformers() -> None:
    code = "import sys, dice_ce.benchmark.vlm; sys.exit(bool({'torch', 'transformers', 'jinja2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_folder_without_config(tmp_path: Path) -> None:
    assert "there is no config.json in it; give the folder that 'hf download'" in refusal(tmp_path)


@pytest.mark.parametrize("model_type", ["llava", None, ["gemma3"]])
def test_unsupported_type(copied: Path, model_type: object) -> None:
    edit_json(copied / "config.json", model_type=model_type)
    assert "are not supported; give one of type qwen3_vl, qwen2_5_vl, internvl, gemma3" in refusal(copied)


def test_weights_that_are_missing_are_not_made_up(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["text_config"].update(num_hidden_layers=3, layer_types=["full_attention"] * 3)
    edit_json(copied / "config.json", **config)
    assert "the weights do not fit config.json" in refusal(copied)


def test_damaged_weights(copied: Path) -> None:
    (copied / "model.safetensors").write_bytes(b"?" * 500)
    assert refusal(copied).endswith("download it again")


def test_folder_without_tokenizer(copied: Path) -> None:
    for file in copied.glob("tokenizer*"):
        file.unlink()
    assert "there is no tokenizer.json in it" in refusal(copied)


def test_damaged_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").write_text("{")
    assert "no usable tokenizer" in refusal(copied)


def test_tokenizer_of_another_model(copied: Path, folders: dict[str, Path]) -> None:
    edit_json(copied / "config.json", image_token_id=4000)
    assert "its tokenizer has no token for images" in refusal(copied)


def test_code_in_the_folder_is_not_run(copied: Path) -> None:
    (copied / "custom.py").write_text("raise SystemExit('foreign code was run')")
    edit_json(copied / "config.json", auto_map={"AutoConfig": "custom.C", "AutoModelForImageTextToText": "custom.M"})
    assert load_vlm(str(copied), FEW, VlmOptions(permutations=1)).diagnose(noise(1)).shape == (1, 4)


def test_template_in_json_as_older_models_have_it(copied: Path, folders: dict[str, Path]) -> None:
    template = (copied / "chat_template.jinja").read_text()
    (copied / "chat_template.jinja").unlink()
    (copied / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert chat_model(copied).render("What?") == chat_model(folders["qwen2_5_vl"]).render("What?")


def test_template_of_the_tokenizer_alone(copied: Path, folders: dict[str, Path]) -> None:
    template = (copied / "chat_template.jinja").read_text()
    (copied / "chat_template.jinja").unlink()
    edit_json(copied / "tokenizer_config.json", chat_template=template)
    assert chat_model(copied).render("What?") == chat_model(folders["qwen2_5_vl"]).render("What?")


def test_no_template_at_all(copied: Path) -> None:
    (copied / "chat_template.jinja").unlink()
    assert "it has no chat template; download it again" in refusal(copied)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ messages[0].content[1].text }}", "leaves 0 places for one image"),
        ("<|image_pad|><|image_pad|>", "leaves 2 places for one image"),
        ("{{ raise_exception('no images') }}", r"unusable chat template \(no images\)"),
    ],
)
def test_template_that_cannot_be_used(copied: Path, template: str, reason: str) -> None:
    (copied / "chat_template.jinja").write_text(template)
    with pytest.raises(InputError, match=reason):
        load_vlm(str(copied), FEW).diagnose(noise(1))


def test_newer_files_nest_the_preprocessing(copied: Path) -> None:
    given = json.loads((copied / "preprocessor_config.json").read_text())
    (copied / "preprocessor_config.json").unlink()
    wanted = chat_model(copied).feeding
    edit_json(copied / "processor_config.json", image_processor={**given, "max_pixels": 28 * 28 * 5})
    assert wanted.most == 3584 * 3584  # type: ignore[union-attr]
    assert chat_model(copied).feeding.most == 28 * 28 * 5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"resample": 1}, "resample 1 is none of 2, 3"),
        ({"image_mean": [0.5]}, "mean and std of three colours"),
        ({"image_std": 0.5}, "not iterable"),
    ],
)
def test_unusable_preprocessor_file(copied: Path, given: dict[str, Any], reason: str) -> None:
    edit_json(copied / "preprocessor_config.json", **given)
    message = refusal(copied)
    assert reason in message
    assert message.endswith("correct its preprocessor_config.json")


def test_normalisation_can_be_off(copied: Path) -> None:
    edit_json(copied / "preprocessor_config.json", do_rescale=False, do_normalize=False)
    image = noise(1, 56, 56)[0]
    prepared = chat_model(copied).prepare(image)
    assert np.array_equal(np.sort(prepared.values.ravel()), np.sort(np.repeat(image.ravel(), 2)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpu_that_is_not_there(folders: dict[str, Path]) -> None:
    message = refusal(folders["gemma3"], device="cuda")
    assert message.startswith("device 'cuda': torch ")
    assert "finds no GPU here; install a CUDA build of torch, or use the device 'cpu'" in message


def test_impossible_options(folders: dict[str, Path]) -> None:
    folder = folders["gemma3"]
    assert "unknown device 'toaster'" in refusal(folder, UsageError, device="toaster")
    assert "unknown dtype 'int3'; one of float32, bfloat16, float16" in refusal(folder, UsageError, dtype="int3")
    assert "both must be 1 or more" in refusal(folder, UsageError, batch=0)
    assert "13 permutations of 4 options" in refusal(folder, UsageError, permutations=13)


def test_other_precision_gives_nearly_the_same(folders: dict[str, Path]) -> None:
    exact, rough = (chat_model(folders["gemma3"], dtype=dtype) for dtype in (None, "bfloat16"))
    assert (exact.network.dtype, rough.network.dtype) == (torch.float32, torch.bfloat16)
    image = noise(1)[0]
    first, second = (m.letter_logits([m.prepare(image)], "What?", "ABCD") for m in (exact, rough))
    assert second.dtype == np.float32
    assert np.abs(first - second).max() < 0.1


def test_full_memory_is_one_line(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = chat_model(folders["gemma3"])

    def fail(**_: object) -> None:
        raise torch.OutOfMemoryError("pages\nof\nstatistics")

    monkeypatch.setattr(model.network, "forward", fail)
    with pytest.raises(InputError, match=r"^gemma3: no memory left for 1 images at once; use a smaller batch"):
        model.letter_logits([model.prepare(noise(1)[0])], "What?", "AB")


def test_numbers_that_overflow(copied: Path) -> None:
    model = chat_model(copied)
    with torch.no_grad():
        model.network.lm_head.weight.fill_(float("nan"))
    with pytest.raises(InputError, match=r"its numbers overflow in torch.float32; use bfloat16 or float32"):
        model.letter_logits([model.prepare(noise(1)[0])], "What?", "AB")


def test_loading_and_judging_are_silent(folders: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    for method in ("letters", "talk"):
        options = VlmOptions(method=method, permutations=1, new_tokens=2)  # type: ignore[arg-type]
        load_vlm(str(folders["qwen3_vl"]), FEW, options).diagnose(noise(1))
    assert capfd.readouterr() == ("", "")
