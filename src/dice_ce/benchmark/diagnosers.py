"""Other diagnosers for the frames that baselines choose: a vision-language model, or what was fine-tuned here.

One word names any of them: a model of the paper, a hub id, or a folder. They are opened one after the other, since two
rarely fit on one GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dice_ce.benchmark.classifiers import ClassifierDiagnoser, Learnt, read_learnt
from dice_ce.benchmark.vlm.diagnoser import VlmDiagnoser
from dice_ce.benchmark.vlm.loading import VlmOptions, choose_device, find_family, load_vlm
from dice_ce.benchmark.vlm.registry import VLMS, check_permission, choose_vlm
from dice_ce.datasets.folder import Dataset, ExamRow
from dice_ce.errors import InputError, UsageError, require
from dice_ce.taxonomy import Taxonomy

Labeller = Callable[[ExamRow, Sequence[int]], Mapping[int, int]]
"""Labels of those frames of an exam that can be decoded, by ordinal."""


@dataclass(frozen=True)
class OpenDiagnoser:
    """A diagnoser that is loaded and labels frames."""

    label: Labeller
    parameters: int | None
    """How many weights it has, where that is known."""


@dataclass(frozen=True)
class Diagnoser:
    """One that was asked for, not loaded yet."""

    name: str
    """As it stands in the tables."""
    spec: str
    learnt: Learnt | None
    """What a fine-tuned one says about itself."""
    options: VlmOptions

    @contextmanager
    def open(self, taxonomy: Taxonomy) -> Iterator[OpenDiagnoser]:
        """Load it; say at the end how often a vision-language model gave no answer."""
        if self.learnt is not None and self.learnt.head:
            options = self.options
            model = ClassifierDiagnoser.load(Path(self.spec), taxonomy, device=options.device, batch=options.batch)
            yield OpenDiagnoser(_labeller(model, model.size), model.classifier.parameters)
            return
        with load_vlm(self.spec, taxonomy, self.options) as asked:
            known = VLMS.get(asked.name)
            count = asked.parameters or (round(known.parameters * 1e9) if known else None)
            yield OpenDiagnoser(_labeller(asked, None), count)
            report = asked.report
        print(
            f"{self.name}: {report.images:,} frames, {report.questions:,} questions, {report.unparsable:,} without "
            "a usable answer",
            file=sys.stderr,
        )


def _labeller(model: VlmDiagnoser | ClassifierDiagnoser, size: int | None) -> Labeller:
    def label(row: ExamRow, frames: Sequence[int]) -> dict[int, int]:
        with row.open() as exam:
            images = dict(exam.images(frames, size=size))
        return dict(zip(images, model.diagnose(images.values(), len(images)).argmax(axis=1).tolist(), strict=True))

    return label


def list_diagnosers(specs: Sequence[str], options: VlmOptions, dataset: Dataset) -> list[Diagnoser]:
    """Understand the names before any work is done, and refuse what learnt from the patients to be scored."""
    found: dict[str, Diagnoser] = {}
    for spec in specs:
        learnt = read_learnt(Path(spec)) if Path(spec).is_dir() else None
        name = _check(spec, learnt, options)
        if name in found:
            raise UsageError(f"two diagnosers are called '{name}'; rename the folder of one")
        if learnt and (seen := sorted({row.patient_id for row in dataset.exams} & set(learnt.cases))):
            raise InputError(
                f"{spec}: it learnt from patient '{seen[0]}' of these exams ({len(seen)} in all); "
                "score it on patients that it never saw"
            )
        found[name] = Diagnoser(name, spec, learnt, options)
    return list(found.values())


def _check(spec: str, learnt: Learnt | None, options: VlmOptions) -> str:
    """Say what a diagnoser is called, and raise now what loading it would raise hours later."""
    chosen = choose_vlm(spec)
    check_permission(chosen, options.allow_remote_code)
    if chosen.entry is None or chosen.entry.own_code is None:
        choose_device(require("torch", extra="vlm", purpose=f"the diagnoser {spec}"), options.device)
    folder = Path(chosen.source)
    if folder.is_dir() and not (learnt and learnt.head) and not (chosen.entry and chosen.entry.own_code):
        find_family(chosen.source, folder)
    return chosen.name if chosen.entry or not folder.is_dir() else folder.resolve().name
