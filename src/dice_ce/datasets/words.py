"""What the public datasets call things, and which label of VideoCAP-12 that is, if any."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache

from dice_ce.errors import InputError
from dice_ce.taxonomy import ALIASES, NORMAL, VIDEOCAP_12

HARMLESS = frozenset(
    {
        "ampulla of vater",
        "bubbles",
        "colon",
        "dirt",
        "esophagus",
        "good view",
        "ileocecal valve",
        "mouth",
        "no view",
        "pylorus",
        "reduced mucosal view",
        "obstructed view 26%-50%",
        "obstructed view 5%-25%",
        "obstructed view <5%",
        "obstructed view >50%",
        "reduced view",
        "small intestine",
        "stomach",
        "vein",
        "visualized mucosa 25%-49%",
        "visualized mucosa 50%-75%",
        "visualized mucosa <25%",
        "visualized mucosa >75%",
        "z-line",
    }
)
"""Organs, landmarks and poor views: outside VideoCAP-12, and no finding either."""

DISTRACTORS = frozenset(
    {
        "aphtha",
        "cancer",
        "celiac",
        "chylous cyst",
        "diverticulum",
        "esophagitis",
        "foreign body",
        "ibd",
        "inflammatory",
        "stenosis",
        "unknown",
        "varices",
        "vascular",
        "villous oedema",
    }
)
"""Findings, and what may look like one, that VideoCAP-12 does not name, or not so broadly: KID calls both
angioectasias and blood vascular, and aphthae, ulcers, erythema and stenoses inflammatory."""

SPELLINGS = {
    "aphthae": "aphtha",
    "ced": "ibd",
    "foreign bodies": "foreign body",
    "ileo-cecal valve": "ileocecal valve",
    "small bowel": "small intestine",
}
"""Other names of the words above: Kvasir's official splits, Galar's earlier tables, KID, Rhode Island."""


@lru_cache(maxsize=1024)
def plain(word: str) -> str:
    """Spell a word as the lists here do: lower case, single blanks, one name for one thing."""
    key = " ".join(word.replace("_", " ").casefold().split())
    return SPELLINGS.get(key, key)


@lru_cache(maxsize=1024)
def label_of(word: str) -> str | None:
    """Translate one word; none if it is known and outside VideoCAP-12, an error with a suggestion if it is unknown."""
    key = plain(word)
    key = ALIASES.get(key, key)
    if key in VIDEOCAP_12:
        return key
    if key in HARMLESS or key in DISTRACTORS:
        return None
    close = difflib.get_close_matches(key, [*VIDEOCAP_12, *ALIASES, *HARMLESS, *DISTRACTORS, *SPELLINGS], n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"use one of {', '.join(VIDEOCAP_12)}"
    raise InputError(f"unknown class '{word}'; {hint}")


def check_word(word: str, where: object) -> str:
    """Return the word if it is known; otherwise say where it stands."""
    try:
        label_of(word)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return word


def labels_of(words: Iterable[str]) -> tuple[str, ...]:
    """Translate all words of one frame, in the order of VideoCAP-12. Any finding beside `normal` overrules it."""
    words = list(words)
    found = {label for word in words if (label := label_of(word))}
    if len(found) > 1 or any(plain(word) in DISTRACTORS for word in words):
        found.discard(NORMAL)
    return tuple(label for label in VIDEOCAP_12 if label in found)


def unique(words: Iterable[str]) -> tuple[str, ...]:
    """Keep the first of words that differ only in spelling, in the order given."""
    kept: dict[str, str] = {}
    for word in words:
        kept.setdefault(plain(word), word.strip())
    return tuple(kept.values())
