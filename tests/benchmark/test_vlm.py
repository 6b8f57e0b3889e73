"""Vision-language models as diagnosers: which there are, what they are asked, and what is made of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dice_ce.benchmark.vlm import VLMS, VlmDiagnoser
from dice_ce.benchmark.vlm.answers import SMOOTHING, final_answer, smoothed, understand
from dice_ce.benchmark.vlm.diagnoser import ask_by_letter, ask_by_talking
from dice_ce.benchmark.vlm.families import FAMILIES
from dice_ce.benchmark.vlm.prompts import BY_LETTER, BY_NAME, letters_for, rotations, write_question
from dice_ce.benchmark.vlm.registry import choose_vlm
from dice_ce.errors import InputError, UsageError
from dice_ce.taxonomy import VIDEOCAP_12, Taxonomy

FEW = Taxonomy("few", ("ulcer", "erosion", "polyp", "normal"))
ALL = Taxonomy()


def noise(count: int) -> list[Any]:
    return list(np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), np.uint8))


# --- the registry ---------------------------------------------------------------------------------------------------


def test_registry_names_the_models_of_the_paper() -> None:
    assert {name: entry.hub_id for name, entry in VLMS.items()} == {
        "Qwen3-VL": "Qwen/Qwen3-VL-8B-Instruct",
        "InternVL3.5": "OpenGVLab/InternVL3_5-8B-HF",
        "LingShu": "lingshu-medical-mllm/Lingshu-7B",
        "ColonX": "ai4colonoscopy/ColonR1",
        "MedGemma": "google/medgemma-4b-it",
        "ColonGPT": "ai4colonoscopy/ColonGPT",
        "HuatuoGPT": "FreedomIntelligence/HuatuoGPT-Vision-7B",
    }


@pytest.mark.parametrize("entry", [entry for entry in VLMS.values() if not entry.own_code], ids=lambda e: e.hub_id)
def test_registered_classes_are_those_of_the_families(entry: Any) -> None:
    assert entry.model_class in {family.model_class for family in FAMILIES.values()}
    assert hasattr(pytest.importorskip("transformers"), entry.model_class)


@pytest.mark.parametrize(
    ("spec", "name", "source"),
    [
        ("LingShu", "LingShu", "lingshu-medical-mllm/Lingshu-7B"),
        ("lingshu", "LingShu", "lingshu-medical-mllm/Lingshu-7B"),
        ("ai4colonoscopy/ColonR1", "ColonX", "ai4colonoscopy/ColonR1"),
        ("colonx=somewhere/else", "ColonX", "somewhere/else"),
        ("someone/tiny", "someone/tiny", "someone/tiny"),
        ("runs/lr=3/model", "runs/lr=3/model", "runs/lr=3/model"),
    ],
)
def test_model_can_be_named_in_several_ways(spec: str, name: str, source: str) -> None:
    chosen = choose_vlm(spec)
    assert (chosen.name, chosen.source) == (name, source)
    assert (chosen.entry is VLMS[name]) if name in VLMS else (chosen.entry is None)


@pytest.mark.parametrize("spec", ["Lingshoe", "Lingshoe=some/folder"])
def test_unknown_name_gets_a_hint(spec: str) -> None:
    with pytest.raises(
        UsageError, match=r"^unknown diagnoser 'Lingshoe'; did you mean 'LingShu'\? Give one of Qwen3-VL"
    ):
        choose_vlm(spec)


# --- prompts --------------------------------------------------------------------------------------------------------


def test_question_lists_the_labels_by_letter() -> None:
    lines = write_question(FEW.labels, BY_LETTER).splitlines()
    assert lines[1:] == ["A. ulcer", "B. erosion", "C. polyp", "D. normal", BY_LETTER]


def test_all_rotations_put_every_label_everywhere_once() -> None:
    table = rotations(VIDEOCAP_12, 12)
    assert table[0] == VIDEOCAP_12
    for column in zip(*table, strict=True):
        assert sorted(column) == sorted(VIDEOCAP_12)


def test_fewer_rotations_are_spread_evenly() -> None:
    assert [order[0] for order in rotations("abcdefghijkl", 4)] == ["a", "d", "g", "j"]


@pytest.mark.parametrize("count", [0, 5, -1])
def test_impossible_number_of_permutations(count: int) -> None:
    with pytest.raises(UsageError, match=f"{count} permutations of 4 options make no sense; give 1 to 4"):
        rotations(FEW.labels, count)


def test_more_labels_than_letters() -> None:
    with pytest.raises(InputError, match="27 labels are more than there are letters"):
        letters_for([str(i) for i in range(27)])


# --- letters --------------------------------------------------------------------------------------------------------


@dataclass
class Fancier:
    """Wants one letter, or one word, whatever it sees."""

    likes: str

    def prepare(self, image: Any) -> Any:
        return image

    def letter_logits(self, prepared: Sequence[Any], question: str, letters: str) -> Any:
        options = dict(line.split(". ", 1) for line in question.splitlines() if line[1:3] == ". ")
        wanted = [5.0 if self.likes in (letter, options[letter]) else 0.0 for letter in letters]
        return np.tile(np.array(wanted, np.float32), (len(prepared), 1))


def letter_diagnoser(likes: str, permutations: int, taxonomy: Taxonomy = ALL) -> VlmDiagnoser:
    model = Fancier(likes)
    return VlmDiagnoser("fancier", "letters", model.prepare, ask_by_letter(model), taxonomy, permutations)


@pytest.mark.parametrize("letter", ["A", "B", "L"])
def test_all_rotations_remove_position_bias(letter: str) -> None:
    found = letter_diagnoser(letter, 12).diagnose(noise(2))
    assert np.allclose(found, 1 / 12, atol=1e-6)


def test_one_order_keeps_position_bias() -> None:
    assert letter_diagnoser("A", 1).diagnose(noise(1))[0].argmax() == 0
    assert letter_diagnoser("C", 1).diagnose(noise(1))[0].argmax() == 2


def test_a_third_of_the_rotations_spreads_it_over_a_third_of_the_labels() -> None:
    found = letter_diagnoser("A", 4).diagnose(noise(1))[0]
    assert np.allclose(found[[0, 3, 6, 9]], found[0])
    assert found[0] > 10 * found[1]


@pytest.mark.parametrize("permutations", [1, 5, 12])
def test_label_is_found_wherever_it_stands(permutations: int) -> None:
    found = letter_diagnoser("parasite", permutations).diagnose(noise(1))[0]
    assert ALL.labels[found.argmax()] == "parasite"
    assert found.max() == pytest.approx(np.exp(5) / (np.exp(5) + 11), rel=1e-5)


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>an ulcer?</think><answer>polyp</answer>", "polyp"),
        ("<think>a</think>\n<ANSWER> polyp\n</ANSWER>", "polyp"),
        ("<answer>ulcer</answer> no, <answer>polyp</answer>", "polyp"),
        ("<think>long</think>\nPolyp.", "Polyp."),
        ("Polyp.", "Polyp."),
        ("<think>cut off in the middle, ulcer", ""),
        ("<think>a</think><answer>poly", "poly"),
        ("", ""),
    ],
)
def test_reasoning_is_cut_off(text: str, answer: str) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *((label, label) for label in VIDEOCAP_12),
        ("Ulcers.", "ulcer"),
        ("The frame shows an ULCERATION of the mucosa", "ulcer"),
        ("<think>ulcer, erosion, polyp</think><answer>Angiodysplasia</answer>", "angioectasia"),
        ("angiectasias", "angioectasia"),
        ("This is erythematous mucosa", "mucosal erythema"),
        ("mucosal erythema (erythema)", "mucosal erythema"),
        ("SMT", "eminence lesion"),
        ("active bleeding with fresh blood", "hematocele"),
        ("polyp-like", "polyp"),
        ("a worm", "parasite"),
        ("Fluid accumulation", "intestinal fluid accumulation"),
        ("no abnormalities", "normal"),
        ("Normal small intestinal mucosa, no bleeding, without any signs of erosion", "normal"),
        ("lymphangiectasia", "lymphangiectasia"),
        ("A", "ulcer"),
        ("b.", "erosion"),
        ("(L)", "normal"),
        ("The answer is I", "polyp"),
        ("Option C: angioectasia", "angioectasia"),
        ("A polyp", "polyp"),
    ],
)
def test_answer_is_understood(text: str, label: str) -> None:
    place = understand(text, ALL)
    assert place is not None
    assert ALL.labels[place] == label


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        "abnormal",
        "no ulcer",
        "ulcer or erosion",
        "M",
        "AB",
        "<think>an ulcer, surely",
        "lorem ipsum dolor sit amet",
        "<answer></answer>",
    ],
)
def test_answer_that_cannot_be_understood(text: str) -> None:
    assert understand(text, ALL) is None


def test_letter_means_the_option_that_stood_there() -> None:
    rotated = Taxonomy("options", rotations(VIDEOCAP_12, 12)[3])
    place = understand("A", rotated)
    assert place is not None
    assert rotated.labels[place] == VIDEOCAP_12[3]


def test_words_for_labels_that_are_not_options_mean_nothing() -> None:
    assert understand("bleeding", FEW) is None


def test_smoothed_answers_are_distributions() -> None:
    certain, none = smoothed(2, 4), smoothed(None, 4)
    assert certain.sum() == pytest.approx(1)
    assert certain[2] == pytest.approx(1 - SMOOTHING + SMOOTHING / 4)
    assert np.allclose(none, 1 / 4)


@dataclass
class Parrot:
    """Says what it was told to say, in turn."""

    lines: list[str]
    heard: list[str]

    def prepare(self, image: Any) -> Any:
        return image

    def reply(self, prepared: Sequence[Any], question: str) -> list[str]:
        self.heard.append(question)
        return [self.lines.pop(0) for _ in prepared]


def test_talk_is_counted_and_nonsense_is_uniform() -> None:
    parrot = Parrot(["<think>?</think><answer>Polyps</answer>", "?", "both ulcer and polyp"], [])
    diagnoser = VlmDiagnoser("parrot", "talk", parrot.prepare, ask_by_talking(parrot, BY_NAME), FEW, 1, batch=2)
    found = diagnoser.diagnose(noise(3))
    assert found[0].argmax() == 2
    assert np.allclose(found[1:], 1 / 4)
    assert np.allclose(found.sum(axis=1), 1)
    report = diagnoser.report
    assert (report.images, report.questions, report.unparsable) == (3, 3, 2)
    assert (report.name, report.method, report.permutations) == ("parrot", "talk", 1)


def test_talk_can_be_averaged_over_rotations_as_well() -> None:
    parrot = Parrot(["A"] * 4, [])
    diagnoser = VlmDiagnoser("parrot", "talk", parrot.prepare, ask_by_talking(parrot, BY_NAME), FEW, 4)
    assert np.allclose(diagnoser.diagnose(noise(1)), 1 / 4)
    assert [question.splitlines()[1] for question in parrot.heard] == [f"A. {label}" for label in FEW.labels]


def test_reports_of_two_diagnosers_are_their_own() -> None:
    first, second = (letter_diagnoser("A", 12) for _ in range(2))
    first.diagnose(noise(2))
    assert (first.report.images, first.report.questions) == (2, 24)
    assert second.report.images == 0
