"""The Context Weaver: candidates into anatomical contexts G_i, those into lesion contexts H_ij (paper, 4.4, eq. 4).

Coarse, neighbours in time are merged by Ward's rule until N_c contiguous stretches are left. Fine, inside each
stretch, average linkage on 1 - v . v' joins glimpses of one lesion, gaps or not, up to the distance `delta_fine`.
Both work on *atoms*, short runs of near-identical neighbours, so that the cost stays near-linear in the number of
candidates. The sum of an atom's tokens is all that either rule needs: the mean product of two groups is the product
of their means.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from dice_ce.method.selector import Candidates
from dice_ce.method.tokens import TokenSettings, time_steps, token_halves, weigh
from dice_ce.settings import setting
from dice_ce.types import Doubles, Floats, Ints

CHUNK = 4096
"""Candidates whose tokens are in memory at once."""
ATOM_LENGTH = 16
"""Most candidates in one atom."""
ATOM_SHARE = 0.1
"""Neighbours nearer than this share of `delta_fine` always become one atom."""
MOST_ATOMS = 16384
"""From here on the most alike neighbours are joined as well, to bound time and memory."""
MOST_FINE_ATOMS = 1024
"""The same within one anatomical context, where average linkage needs all pairs."""


@dataclass(frozen=True)
class WeaverSettings:
    """How finely to divide."""

    contexts: Literal["woven", "windows"] = setting(
        "woven", "how candidates are grouped: by the weaver, or (the paper's ablation) in windows of 300 s"
    )
    coarse_minutes: float = setting(
        20.0, "exam time per anatomical context, on average", low=0.1, search=(10.0, 20.0, 30.0, 45.0)
    )
    alpha_coarse: float = setting(
        0.35, "weight of appearance against time in anatomical contexts", low=0, high=1, search=(0.2, 0.35, 0.5)
    )
    alpha_fine: float = setting(
        0.6, "weight of appearance against time in lesion contexts", low=0, high=1, search=(0.4, 0.5, 0.6, 0.8)
    )
    delta_fine: float = setting(
        0.3,
        "token distance 1 - v . v' at which glimpses are no longer of one lesion",
        low=0,
        high=2,
        search=(0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    )
    max_span: float | None = setting(
        None,
        "most seconds between the first and the last frame of a lesion context",
        low=0,
        search=(None, 300.0, 900.0),
    )
    tokens: TokenSettings = field(default_factory=TokenSettings)


@dataclass(frozen=True, eq=False)
class Context:
    """A lesion context H_ij: rows of the candidates that may show one finding."""

    coarse: int
    fine: int
    rows: Ints


def weave(candidates: Candidates, settings: WeaverSettings) -> list[Context]:
    """Divide the candidates; every one is in exactly one context (eq. 4)."""
    if not len(candidates):
        return []
    if settings.contexts == "windows":
        return fixed_windows(candidates)
    atoms = make_atoms(candidates, settings)
    contexts = []
    for i, group in enumerate(weave_coarse(atoms, coarse_count(candidates.seconds, settings), settings)):
        contexts += [Context(i, j, rows) for j, rows in enumerate(weave_fine(group, settings))]
    return contexts


def fixed_windows(candidates: Candidates, seconds: float = 300.0) -> list[Context]:
    """Return what stands in for the weaver in the ablation: windows of equal length from time 0."""
    window = np.floor(candidates.seconds / seconds).astype(np.int64)
    starts = np.flatnonzero(np.diff(window, prepend=-1))
    return [Context(i, 0, rows) for i, rows in enumerate(np.split(np.arange(len(candidates)), starts[1:])) if len(rows)]


# --- atoms ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Atoms:
    """Runs of neighbouring candidates, in exam order, by the sums of their tokens."""

    rows: Sequence[Ints]
    sums: Floats
    """Sums of both halves of the tokens, not yet weighed against each other."""
    sizes: Doubles
    first: Doubles
    """Seconds of the first candidate."""
    last: Doubles

    def __getitem__(self, chosen: Ints) -> Atoms:
        rows = [self.rows[k] for k in chosen]
        return Atoms(rows, self.sums[chosen], self.sizes[chosen], self.first[chosen], self.last[chosen])

    def joined(self, starts: Ints) -> Atoms:
        """Join neighbours into fewer atoms that begin at `starts`."""
        return Atoms(
            rows=[np.concatenate(self.rows[i:j]) for i, j in pairwise([*starts.tolist(), len(self.rows)])],
            sums=np.add.reduceat(self.sums, starts, axis=0),
            sizes=np.add.reduceat(self.sizes, starts),
            first=self.first[starts],
            last=self.last[[*(starts[1:] - 1), -1]],
        )


def make_atoms(candidates: Candidates, settings: WeaverSettings) -> Atoms:
    """Join near-identical neighbours, and if there are too many, the most alike ones."""
    steps = time_steps(candidates.seconds, candidates.frames.index, settings.tokens)
    count = len(candidates)

    def halves(start: int, stop: int) -> Floats:
        return token_halves(candidates.vectors[start:stop], steps[start:stop], settings.tokens.token_base)

    alike = [np.empty(0, np.float32)]
    alike += [
        _neighbour_products(halves(i, min(i + CHUNK + 1, count)), settings.alpha_fine)
        for i in range(0, count - 1, CHUNK)
    ]
    starts = _starts(np.concatenate(alike), 1 - ATOM_SHARE * settings.delta_fine, MOST_ATOMS)
    bounds = np.append(starts, count)
    sums = np.empty((len(starts), 2 * candidates.vectors.shape[1]), np.float32)
    cuts = np.unique(np.append(np.searchsorted(bounds, np.arange(0, count, CHUNK)), len(starts)))
    for k, after in pairwise(cuts.tolist()):
        sums[k:after] = _sum_runs(halves(bounds[k], bounds[after]), bounds[k : after + 1] - bounds[k])
    return Atoms(
        rows=np.split(np.arange(count), starts[1:]),
        sums=sums,
        sizes=np.diff(bounds).astype(np.float64),
        first=candidates.seconds[starts],
        last=candidates.seconds[bounds[1:] - 1],
    )


def _sum_runs(rows: Floats, bounds: Ints) -> Floats:
    """Add up runs of rows. Runs are short, and adding their k-th rows at once beats numpy's reduceat several times."""
    total = rows[bounds[:-1]]
    sizes = np.diff(bounds)
    for k in range(1, int(sizes.max())):
        longer = np.flatnonzero(sizes > k)
        total[longer] += rows[bounds[longer] + k]
    return total


def _neighbour_products(halves: Floats, alpha: float) -> Floats:
    """Return v . v' of each row and the next, as unit vectors."""
    d = halves.shape[1] // 2
    visual, temporal = (np.einsum("nd,nd->n", half[:-1], half[1:]) for half in (halves[:, :d], halves[:, d:]))
    return np.asarray(alpha * visual + (1 - alpha) * temporal, np.float32)


def _starts(alike: Floats, threshold: float, most: int) -> Ints:
    """Decide where runs of alike neighbours begin, so that hardly more than `most` are left."""
    joined = alike >= threshold
    excess = len(alike) + 1 - most
    if excess > 0:
        joined[np.argsort(-alike, kind="stable")[:excess]] = True  # stable: among equals the earliest
    places = np.arange(len(alike) + 1)
    begins = np.concatenate([[True], ~joined])
    position = places - np.maximum.accumulate(np.where(begins, places, 0))
    return np.flatnonzero(position % ATOM_LENGTH == 0)


# --- coarse --------------------------------------------------------------------------------------------------------


def weave_coarse(atoms: Atoms, count: int, settings: WeaverSettings) -> list[Atoms]:
    """Find the anatomical contexts G_i, in exam order."""
    label = chain_ward(weigh(atoms.sums, settings.alpha_coarse), atoms.sizes, min(count, len(atoms.rows)))
    return [atoms[members] for members in _members(label)]


def _members(label: Ints) -> list[Ints]:
    """List the members of each group, groups in the order of their first members."""
    firsts = np.sort(np.unique(label, return_index=True)[1])
    return [np.flatnonzero(label == label[first]) for first in firsts]


def coarse_count(seconds: Doubles, settings: WeaverSettings) -> int:
    """N_c = clip(round(duration / dT), 4, 64), at most one per candidate."""
    wanted = round(float(seconds[-1] - seconds[0]) / (60 * settings.coarse_minutes))
    return min(max(4, min(64, wanted)), len(seconds))


def chain_ward(sums: Floats, sizes: Doubles, count: int) -> Ints:
    """Merge neighbours on the time line by Ward's rule until `count` groups are left; ties go to the earliest."""
    sums, sizes = sums.copy(), sizes.copy()
    number = len(sums)
    following, before = list(range(1, number + 1)), list(range(-1, number - 1))
    version = [0] * number
    squares = np.einsum("nd,nd->n", sums, sums).astype(np.float64) / sizes**2
    products = np.einsum("nd,nd->n", sums[:-1], sums[1:]).astype(np.float64) / (sizes[:-1] * sizes[1:])
    costs = sizes[:-1] * sizes[1:] / (sizes[:-1] + sizes[1:]) * (squares[:-1] + squares[1:] - 2 * products)
    heap = [(float(cost), left, 0, 0) for left, cost in enumerate(costs)]
    heapq.heapify(heap)

    def push(left: int, right: int) -> None:
        product = float(sums[left] @ sums[right]) / (sizes[left] * sizes[right])
        weight = sizes[left] * sizes[right] / (sizes[left] + sizes[right])
        cost = weight * (squares[left] + squares[right] - 2 * product)
        heapq.heappush(heap, (float(cost), left, version[left], version[right]))

    label, left_over = np.arange(number), number
    parent = list(range(number))
    while left_over > count:
        _, left, left_version, right_version = heapq.heappop(heap)
        right = following[left]
        if left_version != version[left] or right >= number or right_version != version[right]:
            continue
        sums[left] += sums[right]
        sizes[left] += sizes[right]
        squares[left] = float(sums[left] @ sums[left]) / sizes[left] ** 2
        parent[right], version[left], version[right] = left, version[left] + 1, -1
        following[left] = following[right]
        if following[left] < number:
            before[following[left]] = left
            push(left, following[left])
        if before[left] >= 0:
            push(before[left], left)
        left_over -= 1
    for k in range(number):  # parents come first on the time line
        label[k] = label[parent[k]] if parent[k] != k else k
    return np.unique(label, return_inverse=True)[1]


# --- fine ----------------------------------------------------------------------------------------------------------


def weave_fine(atoms: Atoms, settings: WeaverSettings) -> list[Ints]:
    """Divide one anatomical context into lesion contexts H_ij, in the order of their first frames."""
    if len(atoms.rows) > MOST_FINE_ATOMS:
        alike = _neighbour_products(_means(atoms), settings.alpha_fine)
        atoms = atoms.joined(_starts(alike, 2.0, MOST_FINE_ATOMS))
    label = average_linkage(atoms, settings)
    return [np.concatenate([atoms.rows[k] for k in members]) for members in _members(label)]


def _means(atoms: Atoms) -> Floats:
    return np.asarray(atoms.sums / atoms.sizes[:, None], np.float32)


def average_linkage(atoms: Atoms, settings: WeaverSettings) -> Ints:
    """Join the two groups with the least mean distance 1 - v . v' until that exceeds `delta_fine`.

    Ties go to the earliest. The products of sums add up when groups are joined, so one table of them suffices.
    """
    sums = weigh(atoms.sums, settings.alpha_fine)
    products = (sums @ sums.T).astype(np.float64)
    sizes, first, last = atoms.sizes.copy(), atoms.first.copy(), atoms.last.copy()
    span = np.inf if settings.max_span is None else settings.max_span
    table = 1 - products / np.outer(sizes, sizes)
    table[np.maximum.outer(last, last) - np.minimum.outer(first, first) > span] = np.inf
    np.fill_diagonal(table, np.inf)
    label, is_left = np.arange(len(sizes)), np.ones(len(sizes), np.bool_)
    nearest = table.argmin(axis=1)
    least = table[label, nearest]
    while least[(keep := int(least.argmin()))] <= settings.delta_fine:
        keep, gone = sorted((keep, int(nearest[keep])))
        products[keep] += products[gone]
        products[:, keep] = products[keep]
        sizes[keep] += sizes[gone]
        first[keep], last[keep] = min(first[keep], first[gone]), max(last[keep], last[gone])
        label[label == gone] = keep
        is_left[gone] = False
        row = 1 - products[keep] / (sizes[keep] * sizes)
        row[~is_left | (np.maximum(last, last[keep]) - np.minimum(first, first[keep]) > span)] = np.inf
        row[keep] = np.inf
        table[keep] = table[:, keep] = row
        table[:, gone] = np.inf
        least[gone] = np.inf
        closer = row < least
        nearest[closer], least[closer] = keep, row[closer]
        for k in np.flatnonzero(is_left & ((nearest == gone) | (nearest == keep)) | (label == keep) & is_left):
            nearest[k] = table[k].argmin()
            least[k] = table[k, nearest[k]]
    return label
