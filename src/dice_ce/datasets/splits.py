"""Splits by case, never by frame: what one patient shows must not be on both sides."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dice_ce.datasets.tables import LabelledFrame

SPLITS = ("train", "validation", "test")
SHARES = (0.64, 0.16, 0.20)
"""Shares of cases, for labelled frames. VideoCAP has 160, 40 and 40 patients."""
FOLDS = 5
SEED = 0
"""Seed of the split on which the shipped bundle was trained; exams composed for its evaluation use the same."""


def fold_name(fold: int) -> str:
    """Name a fold as exams.csv and folders of bundles do."""
    return f"fold-{fold}"


FOLD_NAMES = tuple(fold_name(fold) for fold in range(FOLDS))

Key = tuple[str, str]
"""Source and label."""


def split_patients(
    patients: Iterable[str], shares: Sequence[float] = (160, 40, 40), seed: int = SEED
) -> dict[str, str]:
    """Deal patients at random into train, validation and test; the same seed gives the same split."""
    order = sorted(set(patients), key=lambda patient: _lot(patient, seed))
    total, start = sum(shares), 0.0
    splits: dict[str, str] = {}
    for name, share in zip(SPLITS, shares, strict=True):
        end = start + share / total * len(order)
        splits |= dict.fromkeys(order[round(start) : round(end)], name)
        start = end
    return splits


def split_cases(frames: Iterable[LabelledFrame], shares: Sequence[float] = SHARES, seed: int = SEED) -> dict[str, str]:
    """Deal cases so that every label of every source is on all sides, as far as it has cases for that.

    Greedy: the label with the fewest cases deals first, its largest case first. Training comes first, until it has a
    quarter of the label's frames, for what cannot be learnt cannot be tested; then test and validation get one case
    each, first the one that does not have the label from any source; every further case goes where most is lacking.
    """
    counts = _counts(frames)
    totals = sum(counts.values(), Counter[Key]())
    holders = _holders(counts)
    splits: dict[str, str] = {}
    for key in sorted(holders, key=lambda key: (len(holders[key]), -totals[key], key)):
        for case in sorted(holders[key], key=lambda case: (-counts[case][key], _lot(case, seed))):
            if case not in splits:
                splits[case] = _neediest(key, len(holders[key]), splits, counts, shares)
    return splits


def fold_cases(frames: Iterable[LabelledFrame], folds: int = FOLDS, seed: int = SEED) -> dict[str, int]:
    """Deal cases into folds for cross-validation, so that every label of every source is spread over them.

    Greedy: the label with the fewest cases deals first, its largest case first, to the fold that has fewest frames of
    it, then to the one with fewest frames in all. A case is never split.
    """
    counts = _counts(frames)
    holders = _holders(counts)
    totals = sum(counts.values(), Counter[Key]())
    dealt: dict[str, int] = {}
    of_key, of_fold = Counter[tuple[int, Key]](), Counter[int]()
    for key in sorted(holders, key=lambda key: (len(holders[key]), -totals[key], key)):
        for case in sorted(holders[key], key=lambda case: (-counts[case][key], _lot(case, seed))):
            if case not in dealt:
                fold = min(range(folds), key=lambda fold: (of_key[fold, key], of_fold[fold], fold))
                dealt[case] = fold
                of_fold[fold] += counts[case].total()
                of_key.update({(fold, kind): count for kind, count in counts[case].items()})
    return dealt


def some_cases(frames: Iterable[LabelledFrame], share: float, seed: int = SEED) -> set[str]:
    """Draw a share of the cases of every source: first one of every label that it has, then any.

    Fewer of the same seed are among more, so what more cases bring is not what other cases bring.
    """
    counts = _counts(frames)
    chosen = set[str]()
    for source in sorted({source for seen in counts.values() for source, _ in seen}):
        own = [case for case, seen in counts.items() if any(key[0] == source for key in seen)]
        order = sorted(own, key=lambda case: _lot(case, seed))
        keys = sorted({key for case in order for key in counts[case] if key[0] == source})
        first = dict.fromkeys(next(case for case in order if key in counts[case]) for key in keys)
        wanted = max(len(first), round(share * len(order)))
        chosen |= set(list(dict.fromkeys([*first, *order]))[:wanted])
    return chosen


def _counts(frames: Iterable[LabelledFrame]) -> dict[str, Counter[Key]]:
    """Count every label of every case whose name is known."""
    counts: dict[str, Counter[Key]] = defaultdict(Counter)
    for frame in frames:
        if frame.case:
            counts[frame.case].update((frame.source, word) for word in frame.labels or frame.words)
    return counts


def _holders(counts: Mapping[str, Counter[Key]]) -> dict[Key, list[str]]:
    """Tell which cases have a label."""
    holders: dict[Key, list[str]] = defaultdict(list)
    for case, seen in counts.items():
        for key in seen:
            holders[key].append(case)
    return holders


def _neediest(
    key: Key, cases: int, splits: Mapping[str, str], counts: Mapping[str, Counter[Key]], shares: Sequence[float]
) -> str:
    """Find the split that lacks most of a label of a source, among the cases dealt so far."""
    number, weight, anywhere = Counter[str](), Counter[str](), Counter[str]()
    for case, split in splits.items():
        anywhere[split] += any(word == key[1] for _, word in counts[case])
        number[split] += key in counts[case]
        weight[split] += counts[case][key]
    total = sum(seen[key] for seen in counts.values())
    if weight["train"] < total / 4:
        return "train"
    for name in sorted(("test", "validation"), key=lambda name: anywhere[name]):
        if not number[name]:
            return name
    wanted = {name: share / sum(shares) for name, share in zip(SPLITS, shares, strict=True)}
    return max(SPLITS, key=lambda name: wanted[name] * (cases + 1) - number[name] - weight[name] / total)


def _lot(name: str, seed: int) -> str:
    """Draw a lot that depends on nothing but the name and the seed, on any machine."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()
