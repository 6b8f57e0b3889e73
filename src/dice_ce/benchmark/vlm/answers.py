"""What a talkative model meant: its answer in free text, as a label or as nothing that can be understood."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import numpy.typing as npt

from dice_ce.benchmark.vlm.prompts import letters_for
from dice_ce.errors import InputError
from dice_ce.taxonomy import ALIASES, NORMAL, Taxonomy

SMOOTHING = 0.1
"""Share of an understood answer that is spread over all labels: words carry no confidence, but are not certain."""

SPOKEN = {
    "ulceration": "ulcer",
    "angioectasis": "angioectasia",
    "erythematous mucosa": "mucosal erythema",
    "haematocele": "hematocele",
    "hemorrhage": "hematocele",
    "haemorrhage": "hematocele",
    "lymphangiectasis": "lymphangiectasia",
    "healthy": NORMAL,
    "normal mucosa": NORMAL,
    "unremarkable": NORMAL,
    "no abnormality": NORMAL,
    "no abnormalities": NORMAL,
    "no lesion": NORMAL,
    "no finding": NORMAL,
}
"""What people and models say beyond the words of the datasets."""

_NEGATED = re.compile(
    r"\b(?:no|not|nor|without|exclud\w+|rather than|absence of|negative for)"
    r"(?:\s+(?:an?|the|any|visible|active|signs? of|evidence of))*\s+$"
)
_ONE_LETTER = re.compile(r"\W*(?:(?:the\s+)?(?:correct\s+)?(?:answer|option|choice)(?:\s+is)?\W*)?([A-Z])\W*", re.I)


def final_answer(text: str) -> str:
    """Cut the reasoning off: what stands between answer tags, or after the thinking; nothing if it never ended."""
    answers = re.findall(r"<answer>(.*?)(?:</answer>|$)", text, re.S | re.I)
    if answers:
        return str(answers[-1]).strip()
    thought, ended, rest = text.rpartition("</think>")
    if not ended and "<think>" in rest:
        return ""
    return (rest if ended else thought + rest).strip()


def understand(text: str, options: Taxonomy) -> int | None:
    """Find the one option that an answer names, in words or by its letter; None if there is not exactly one."""
    answer = final_answer(text)
    named = _named(answer.casefold(), options)
    if len(named) == 1:
        return named.pop()
    letter = _ONE_LETTER.fullmatch(answer)
    place = letters_for(options.labels).find(letter[1].upper()) if letter and not named else -1
    return place if place >= 0 else None


def _named(answer: str, options: Taxonomy) -> set[int]:
    """Find the options that are named and not denied; of overlapping words the longest counts."""
    words = _vocabulary(options)
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile(r"(?<!\w)(" + "|".join(map(re.escape, longest_first)) + r")(?:e?s)?(?!\w)")
    return {words[match[1]] for match in pattern.finditer(answer) if not _NEGATED.search(answer[: match.start()])}


def _vocabulary(options: Taxonomy) -> dict[str, int]:
    """Map every word for one of the options to its place."""
    words = {label.casefold(): place for place, label in enumerate(options.labels)}
    for word in (*ALIASES, *SPOKEN):
        with contextlib.suppress(InputError):  # a word for something that these labels do not have
            words.setdefault(word, options.index(SPOKEN.get(word, word)))
    return words


def smoothed(label: int | None, count: int) -> npt.NDArray[np.float32]:
    """Return the distribution that an answer stands for: nearly certain, or uniform if it was not understood."""
    uniform = np.full(count, 1 / count, np.float32)
    if label is None:
        return uniform
    certain = np.zeros(count, np.float32)
    certain[label] = 1
    return (1 - SMOOTHING) * certain + SMOOTHING * uniform
