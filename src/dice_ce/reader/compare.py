"""Agreement between readers, and between readers and the software; counts first, ratios last."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dice_ce.errors import InputError
from dice_ce.reader.reviews import ReadReview
from dice_ce.reader.state import Finding
from dice_ce.reader.wording import duration
from dice_ce.table import Table
from dice_ce.taxonomy import NORMAL

OWN_WINDOW = 60.0
"""Seconds within which two readers' own findings are taken for the same one."""


@dataclass(frozen=True)
class Agreement:
    """How two judged the same things."""

    units: int
    agreed: int
    kappa: float | None
    """Cohen's; None where chance alone would agree always, or there is nothing to judge."""


@dataclass(frozen=True)
class SoftwareAgreement:
    """One reader and the software, over all exams of that reader."""

    reader: str
    exams: int
    kept: int
    """Findings of the software."""
    confirmed: int
    rejected: int
    undecided: int
    relabelled: int
    """Of the confirmed."""
    restored: int
    """Set aside by the software, confirmed by the reader."""
    own: int
    """Found by the reader alone."""
    presence: Agreement
    """Is it a finding? Over all contexts and the reader's own findings."""
    labels: Agreement
    """What is it? Over contexts that the reader confirmed."""
    seconds_per_exam: float | None
    """Active reading time; None if it was not measured."""


@dataclass(frozen=True)
class ReaderAgreement:
    """Two readers, over the exams that both have read."""

    first: str
    second: str
    exams: int
    both: int
    only_first: int
    only_second: int
    presence: Agreement
    labels: Agreement


@dataclass(frozen=True)
class Comparison:
    """Everything."""

    software: tuple[SoftwareAgreement, ...]
    readers: tuple[ReaderAgreement, ...]


def agreement(pairs: Iterable[tuple[str, str]]) -> Agreement:
    """Count agreement and correct it for chance (Cohen, Educ Psychol Meas 1960;20:37-46)."""
    pairs = list(pairs)
    total, agreed = len(pairs), sum(one == two for one, two in pairs)
    if not total:
        return Agreement(0, 0, None)
    first, second = Counter(one for one, _ in pairs), Counter(two for _, two in pairs)
    by_chance = sum(first[name] * second[name] for name in first) / total**2
    kappa = None if by_chance == 1 else round((agreed / total - by_chance) / (1 - by_chance), 4)
    return Agreement(total, agreed, kappa)


def compare_reviews(reviews: Sequence[ReadReview], *, with_unsigned: bool = False) -> Comparison:
    """Compare every reader with the software, and every two who have read the same exams."""
    counted = [one for one in reviews if one.is_signed or with_unsigned]
    if not counted:
        raise InputError("reviews: none is signed yet; sign one first, or add --unsigned")
    by_reader: dict[str, list[ReadReview]] = defaultdict(list)
    by_exam: dict[str, dict[str, ReadReview]] = defaultdict(dict)
    for one in counted:
        by_reader[one.reader].append(one)
        by_exam[one.loaded.reading.exam_digest].setdefault(one.reader, one)
    software = tuple(_with_software(reader, by_reader[reader]) for reader in sorted(by_reader))
    pairs: dict[tuple[str, str], list[tuple[ReadReview, ReadReview]]] = defaultdict(list)
    for readings in by_exam.values():
        for first, second in itertools.combinations(sorted(readings), 2):
            pairs[first, second].append((readings[first], readings[second]))
    readers = tuple(_two_readers(first, second, both) for (first, second), both in sorted(pairs.items()))
    return Comparison(software, readers)


def _is_finding(card: Finding) -> bool:
    return card.decision == "confirmed" and card.label != NORMAL


def _by_context(review: ReadReview) -> dict[str, str | None]:
    """Return for every context what the reader calls it, or None if it is no finding."""
    judged: dict[str, str | None] = dict.fromkeys(review.loaded.initial.findings)
    for card in review.state.confirmed:
        if _is_finding(card):
            judged |= {name: card.label for name in card.contexts if judged.get(name) is None}
    return judged


def _own(review: ReadReview) -> list[Finding]:
    return [card for card in review.state.confirmed if not card.contexts and _is_finding(card)]


def _with_software(reader: str, reviews: Sequence[ReadReview]) -> SoftwareAgreement:
    counts: Counter[str] = Counter()
    presence: list[tuple[str, str]] = []
    labels: list[tuple[str, str]] = []
    for review in reviews:
        said = _by_context(review)
        waiting = {
            name
            for card in review.state.findings.values()
            if card.decision == "undecided" and not card.set_aside
            for name in card.contexts
        }
        for name, card in review.loaded.initial.findings.items():
            is_kept, label = not card.set_aside, said[name]
            presence.append((str(is_kept), str(label is not None)))
            counts["kept"] += is_kept
            counts["confirmed" if is_kept else "restored"] += label is not None
            counts["undecided"] += is_kept and label is None and name in waiting
            if label is not None:
                labels.append((card.label, label))
                counts["relabelled"] += is_kept and label != card.label
        own = _own(review)
        counts["own"] += len(own)
        presence += [("False", "True")] * len(own)
    seconds = [review.seconds for review in reviews if review.seconds > 0]
    return SoftwareAgreement(
        reader=reader,
        exams=len(reviews),
        kept=counts["kept"],
        confirmed=counts["confirmed"],
        rejected=counts["kept"] - counts["confirmed"] - counts["undecided"],
        undecided=counts["undecided"],
        relabelled=counts["relabelled"],
        restored=counts["restored"],
        own=counts["own"],
        presence=agreement(presence),
        labels=agreement(labels),
        seconds_per_exam=round(sum(seconds) / len(seconds), 1) if seconds else None,
    )


def _two_readers(first: str, second: str, both: Sequence[tuple[ReadReview, ReadReview]]) -> ReaderAgreement:
    judged = [pair for one, two in both for pair in judge_together(one, two)]
    presence = [(str(one is not None), str(two is not None)) for one, two in judged]
    return ReaderAgreement(
        first=first,
        second=second,
        exams=len(both),
        both=presence.count(("True", "True")),
        only_first=presence.count(("True", "False")),
        only_second=presence.count(("False", "True")),
        presence=agreement(presence),
        labels=agreement((one, two) for one, two in judged if one is not None and two is not None),
    )


def judge_together(one: ReadReview, two: ReadReview) -> list[tuple[str | None, str | None]]:
    """Pair what two readers say: contexts by their ids, own findings by time, the nearest first."""
    first, second = _by_context(one), _by_context(two)
    pairs = [(first.get(name), second.get(name)) for name in sorted({*first, *second})]
    own_first, own_second = _own(one), _own(two)
    near = sorted(
        (abs(one.clock.seconds(a.keyframe) - two.clock.seconds(b.keyframe)), i, j)
        for i, a in enumerate(own_first)
        for j, b in enumerate(own_second)
    )
    met_first: set[int] = set()
    met_second: set[int] = set()
    for distance, i, j in near:
        if distance <= OWN_WINDOW and i not in met_first and j not in met_second:
            met_first.add(i)
            met_second.add(j)
            pairs.append((own_first[i].label, own_second[j].label))
    pairs += [(card.label, None) for i, card in enumerate(own_first) if i not in met_first]
    pairs += [(None, card.label) for j, card in enumerate(own_second) if j not in met_second]
    return pairs


def comparison_text(comparison: Comparison) -> str:
    """Write the comparison as tables for people."""

    def shown(one: Agreement) -> str:
        kappa = "–" if one.kappa is None else f"{one.kappa:.2f}"
        return f"{kappa} ({one.agreed}/{one.units})"

    columns = ["reader", "exams", "kept", "confirmed", "rejected", "undecided", "relabelled", "restored", "own"]
    columns += ["kappa", "kappa_labels", "time"]
    software = [
        (
            one.reader,
            one.exams,
            one.kept,
            one.confirmed,
            one.rejected,
            one.undecided,
            one.relabelled,
            one.restored,
            one.own,
            shown(one.presence),
            shown(one.labels),
            "–" if one.seconds_per_exam is None else duration(one.seconds_per_exam),
        )
        for one in comparison.software
    ]
    text = "Readers and the software\n" + Table.of(columns, software).text()
    if comparison.readers:
        columns = ["first", "second", "exams", "both", "only_first", "only_second", "kappa", "kappa_labels"]
        rows = [
            (
                one.first,
                one.second,
                one.exams,
                one.both,
                one.only_first,
                one.only_second,
                shown(one.presence),
                shown(one.labels),
            )
            for one in comparison.readers
        ]
        text += "\n\nReaders with each other\n" + Table.of(columns, rows).text()
    return text
