"""What a vision-language model is asked: one question with lettered options, in rotating order."""

from __future__ import annotations

import string
from collections.abc import Sequence

from dice_ce.errors import InputError, UsageError

LETTERS = string.ascii_uppercase

SCENE = "This is one frame of a capsule endoscopy of the gastrointestinal tract."
BY_LETTER = "Reply with the letter of the one option that fits best, and nothing else."
BY_NAME = "Reply with the name of the one option that fits best, and nothing else."
AFTER_THINKING = (
    "First think step by step, between <think> and </think>. "
    "Then give the name of the one option that fits best, between <answer> and </answer>. Write nothing outside."
)


def rotations(labels: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Rotate the labels `count` times, evenly; as many times as there are labels, and each is everywhere once."""
    if not 1 <= count <= len(labels):
        raise UsageError(f"{count} permutations of {len(labels)} options make no sense; give 1 to {len(labels)}")
    starts = [i * len(labels) // count for i in range(count)]
    return [(*labels[start:], *labels[:start]) for start in starts]


def letters_for(labels: Sequence[str]) -> str:
    """Give every option a letter."""
    if len(labels) > len(LETTERS):
        raise InputError(f"{len(labels)} labels are more than there are letters; use a taxonomy of at most 26 labels")
    return LETTERS[: len(labels)]


def write_question(labels: Sequence[str], instruction: str) -> str:
    """List the options by letter."""
    options = [f"{letter}. {label}" for letter, label in zip(letters_for(labels), labels, strict=True)]
    return "\n".join([f"{SCENE} What does it show?", *options, instruction])
