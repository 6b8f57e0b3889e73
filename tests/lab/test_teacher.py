"""An encoder that learns from a larger network, both of the shipped ones' layout with a few numbers each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from dice_ce.errors import EncoderError, InputError
from dice_ce.lab.training.finetune import finetune
from dice_ce.lab.training.network import CLASSES, SELECTOR, TEACHER, Network, head, read_network
from dice_ce.lab.training.teacher import Teacher
from dice_ce.lab.training.transformer import export_transformer
from tests.lab.test_finetune import RECIPE, THOROUGH, some_examples, tiny_lite, whole_pass
from tests.lab.test_transformer import SIZE, WIDTH, transformer


def pupil() -> Network:
    return read_network(tiny_lite(), {SELECTOR: 1, CLASSES: 12, TEACHER: 2 * WIDTH}, frozen=15)


def teaching_network(folder: Path, seed: int = 0) -> bytes:
    path = folder / f"diagnoser-{seed}.onnx"
    network = transformer(seed)
    with torch.no_grad():  # as it starts it says nearly the same of everything
        network.classes.weight *= 100
    export_transformer(network.eval(), path, name="teacher")
    return path.read_bytes()


@pytest.fixture
def teacher(tmp_path: Path) -> Teacher:
    return Teacher.load(teaching_network(tmp_path), some_examples().images.pixels)


def test_it_says_and_sees_what_its_network_does(teacher: Teacher) -> None:
    shown = np.random.default_rng(2).integers(0, 256, (5, SIZE, SIZE, 3), np.uint8)
    network = transformer()
    with torch.no_grad():
        seen = network.features(torch.from_numpy(shown)).numpy()
    lesson = teacher(shown)
    assert lesson.said.shape == (5, 12)
    assert np.allclose(lesson.said.sum(axis=1), 1)
    assert teacher.dim == 2 * WIDTH
    told = lesson.seen * teacher.spread + teacher.mean
    assert np.corrcoef(told.ravel(), seen.ravel())[0, 1] > 0.98, "it computes in 8 bits"
    typical = teacher(some_examples().images.pixels).seen
    assert np.allclose(typical.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(typical.std(axis=0), 1, atol=0.1)


def test_a_taught_encoder_sees_what_its_teacher_sees(teacher: Teacher) -> None:
    examples, network = (
        some_examples(),
        read_network(tiny_lite(), {SELECTOR: 1, CLASSES: 12, TEACHER: 2 * WIDTH}, frozen=15),
    )
    wanted = teacher(examples.images.pixels).seen
    missed = []
    for share in (0.0, 2.0):
        taught, _ = finetune(network, examples, dataclasses.replace(THOROUGH, seen_by_teacher=share), teacher=teacher)
        guessed = head(taught, TEACHER, whole_pass(taught, examples.images.pixels)).numpy()
        missed.append(float(((guessed - wanted) ** 2).mean()))
    assert missed[1] < 0.7 * missed[0]
    assert missed[1] < 0.7, "better than guessing the mean"


def test_what_the_teacher_says_counts_beside_the_labels(teacher: Teacher) -> None:
    """With nothing but its word, the encoder gives the teacher's opinion where the labels say something else."""
    recipe = dataclasses.replace(THOROUGH, smoothing=0.0, said_by_teacher=1.0)
    examples, network = (
        some_examples(),
        read_network(tiny_lite(), {SELECTOR: 1, CLASSES: 12, TEACHER: 2 * WIDTH}, frozen=15),
    )
    taught, _ = finetune(network, examples, recipe, teacher=teacher)
    logits = head(taught, CLASSES, whole_pass(taught, examples.images.pixels))
    said, labels = teacher(examples.images.pixels).said, examples.targets
    distance = [float(np.abs(logits.softmax(1).numpy() - wanted).sum(axis=1).mean()) for wanted in (said, labels)]
    assert distance[0] < 0.5 * distance[1]


def test_a_checkpoint_of_another_teacher_is_refused(teacher: Teacher, tmp_path: Path) -> None:
    examples, network = (
        some_examples(),
        read_network(tiny_lite(), {SELECTOR: 1, CLASSES: 12, TEACHER: 2 * WIDTH}, frozen=15),
    )
    recipe, checkpoint = dataclasses.replace(RECIPE, steps=2), tmp_path / "run.pt"
    finetune(network, examples, recipe, checkpoint=checkpoint, teacher=teacher)
    other = Teacher.load(teaching_network(tmp_path, seed=1), examples.images.pixels)
    with pytest.raises(InputError, match="remove it to start afresh"):
        finetune(network, examples, recipe, checkpoint=checkpoint, teacher=other)


def test_a_network_without_a_feature_cannot_teach() -> None:
    with pytest.raises(EncoderError, match="give a diagnoser's own network"):
        Teacher.load(tiny_lite(), some_examples().images.pixels)
