"""A vision-language model as g_phi: a distribution over the labels for every frame, from letters or from words."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from dice_ce.benchmark.vlm.answers import smoothed, understand
from dice_ce.benchmark.vlm.prompts import BY_LETTER, letters_for, rotations, write_question
from dice_ce.benchmark.vlm.registry import Method
from dice_ce.errors import InputError
from dice_ce.exam.open import Exam
from dice_ce.method.diagnoser import softmax
from dice_ce.method.selector import Candidates
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats, Image, Progress

BATCH = 8
"""Frames that are asked about at once."""


class ScoringModel(Protocol):
    """A model whose next token can be looked at."""

    def prepare(self, image: Image) -> Any:
        """Turn an RGB image into what the model takes, once for all questions about it."""

    def letter_logits(self, prepared: Sequence[Any], question: str, letters: str) -> Floats:
        """Return [images, letters]: how strongly the answer wants to begin with each letter."""


class TalkingModel(Protocol):
    """A model that can only be listened to."""

    def prepare(self, image: Image) -> Any:
        """Turn an RGB image into what the model takes, once for all questions about it."""

    def reply(self, prepared: Sequence[Any], question: str) -> list[str]:
        """Return one answer in free text for each image."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What came of one question about some images."""

    distributions: Floats
    """[images, options]"""
    unparsable: int = 0
    """Answers that named no option, or more than one; they count as uniform."""


Ask = Callable[[Sequence[Any], Sequence[str]], Asked]
"""Asks about prepared images, with the labels in the order in which they are to be listed."""


def ask_by_letter(model: ScoringModel) -> Ask:
    """Softmax over the letters' logits where the answer begins: one forward pass, no generation."""

    def ask(prepared: Sequence[Any], labels: Sequence[str]) -> Asked:
        question = write_question(labels, BY_LETTER)
        return Asked(softmax(model.letter_logits(prepared, question, letters_for(labels))))

    return ask


def ask_by_talking(model: TalkingModel, instruction: str) -> Ask:
    """Let the model answer in its own words, and understand them."""

    def ask(prepared: Sequence[Any], labels: Sequence[str]) -> Asked:
        options = Taxonomy("options", tuple(labels))
        understood = [understand(text, options) for text in model.reply(prepared, write_question(labels, instruction))]
        return Asked(np.stack([smoothed(label, len(labels)) for label in understood]), understood.count(None))

    return ask


@dataclass(frozen=True)
class VlmReport:
    """What a diagnoser did so far, in counts; for the provenance of a table."""

    name: str
    method: Method
    permutations: int
    images: int
    questions: int
    """Images times permutations."""
    unparsable: int
    """Answers that were not understood and count as uniform."""


@dataclass(frozen=True, eq=False)
class VlmDiagnoser:
    """Asks a vision-language model about every frame, with the options in rotating order to remove position bias."""

    name: str
    method: Method
    prepare: Callable[[Image], Any]
    ask: Ask
    taxonomy: Taxonomy
    permutations: int
    """Rotations of the options to average over; as many as labels, and no position is preferred."""
    batch: int = BATCH
    close: Callable[[], None] = field(default=lambda: None, repr=False)
    parameters: int | None = None
    """How many weights it has, where that can be counted."""
    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def report(self) -> VlmReport:
        """Everything since this diagnoser was made."""
        counts = {key: self._counts[key] for key in ("images", "questions", "unparsable")}
        return VlmReport(self.name, self.method, self.permutations, **counts)

    def __call__(self, exam: Exam | None, candidates: Candidates, progress: Progress | None = None) -> Floats:
        """Return p_t for every candidate, seen in the size it was recorded in; NaN where it cannot be decoded."""
        if exam is None:
            raise InputError(f"{self.name}: it looks at frames: give the exam, not only its features")
        ordinals = candidates.frames.index.tolist()
        return diagnose_images(
            ordinals, exam.images(ordinals), lambda images: self.diagnose(images, len(ordinals), progress)
        )

    def diagnose(self, images: Iterable[Image], total: int = 0, progress: Progress | None = None) -> Floats:
        """Return p for RGB images of any size; `total` is only for the progress."""
        rows: list[Floats] = []
        remaining = iter(images)
        while chunk := list(itertools.islice(remaining, self.batch)):
            rows.append(self._diagnose_batch(chunk))
            if progress:
                progress(sum(map(len, rows)), total)
        return np.concatenate([np.empty((0, len(self.taxonomy)), np.float32), *rows])

    def _diagnose_batch(self, images: Sequence[Image]) -> Floats:
        prepared = [self.prepare(image) for image in images]
        total = np.zeros((len(images), len(self.taxonomy)))
        for labels in rotations(self.taxonomy.labels, self.permutations):
            asked = self.ask(prepared, labels)
            total += asked.distributions[:, [labels.index(label) for label in self.taxonomy.labels]]
            self._counts.update(questions=len(images), unparsable=asked.unparsable)
        self._counts.update(images=len(images))
        return np.asarray(total / total.sum(axis=1, keepdims=True), np.float32)


def diagnose_images(
    ordinals: Sequence[int], images: Iterable[tuple[int, Image]], diagnose: Callable[[Iterable[Image]], Floats]
) -> Floats:
    """Diagnose those of some frames whose images there are; the rows of the others are NaN."""
    found: list[int] = []

    def note(image: tuple[int, Image]) -> Image:
        found.append(image[0])
        return image[1]

    of_found = diagnose(map(note, images))
    distributions = np.full((len(ordinals), of_found.shape[1]), np.nan, np.float32)
    distributions[np.isin(ordinals, found)] = of_found
    return distributions
