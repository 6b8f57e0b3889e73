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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from dice_ce.features.extraction import cpu_count
from dice_ce.method.selector import Candidates
from dice_ce.method.tokens import TokenSettings, half_weights, time_steps, token_halves, weigh
from dice_ce.settings import setting
from dice_ce.types import Doubles, Floats, Ints

CHUNK = 512
"""Candidates whose tokens are in memory at once; few enough to stay in the processor's cache."""
ATOM_LENGTH = 16
"""Most candidates in one atom."""
ATOM_SHARE = 0.1
"""Neighbours nearer than this share of `delta_fine` always become one atom."""
MOST_ATOMS = 16384
"""From here on the most alike neighbours are joined as well, to bound time and memory."""
MOST_FINE_ATOMS = 1024
"""The same within one anatomical context, where average linkage needs all pairs."""
WOVEN = ("contexts", "woven")
"""Without which most of the settings do nothing."""


@dataclass(frozen=True)
class WeaverSettings:
    """How finely to divide."""

    contexts: Literal["woven", "windows"] = setting(
        "woven", "how candidates are grouped: by the weaver, or (the paper's ablation) in windows of 300 s"
    )
    coarse_minutes: float = setting(
        20.0,
        "exam time per anatomical context, on average",
        low=0.1,
        search=(10.0, 20.0, 30.0, 45.0),
        only_with=WOVEN,
    )
    alpha_coarse: float = setting(
        0.35,
        "weight of appearance against time in anatomical contexts",
        low=0,
        high=1,
        search=(0.2, 0.35, 0.5),
        only_with=WOVEN,
    )
    alpha_fine: float = setting(
        0.6,
        "weight of appearance against time in lesion contexts",
        low=0,
        high=1,
        search=(0.4, 0.5, 0.6, 0.8),
        only_with=WOVEN,
    )
    delta_fine: float = setting(
        0.3,
        "token distance 1 - v . v' at which glimpses are no longer of one lesion",
        low=0,
        high=2,
        search=(0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
        only_with=WOVEN,
    )
    max_span: float | None = setting(
        None,
        "most seconds between the first and the last frame of a lesion context",
        low=0,
        search=(None, 300.0, 900.0),
        only_with=WOVEN,
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

    def __getitem__(self, stretch: slice) -> Atoms:
        rows, sums, sizes = self.rows[stretch], self.sums[stretch], self.sizes[stretch]
        return Atoms(rows, sums, sizes, self.first[stretch], self.last[stretch])

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

    def alike(start: int) -> Floats:
        return _neighbour_products(halves(start, min(start + CHUNK + 1, count)), settings.alpha_fine)

    with ThreadPoolExecutor(cpu_count()) as pool:  # numpy computes outside the interpreter lock
        products = [np.empty(0, np.float32), *pool.map(alike, range(0, count - 1, CHUNK))]
        starts = _starts(np.concatenate(products), 1 - ATOM_SHARE * settings.delta_fine, MOST_ATOMS)
        bounds = np.append(starts, count)
        sums = np.empty((len(starts), 2 * candidates.vectors.shape[1]), np.float32)

        def add_up(first: int, after: int) -> None:
            runs = bounds[first : after + 1]
            sums[first:after] = _sum_runs(halves(runs[0], runs[-1]), runs - runs[0])

        cuts = np.unique(np.append(np.searchsorted(bounds, np.arange(0, count, CHUNK)), len(starts))).tolist()
        list(pool.map(add_up, cuts[:-1], cuts[1:]))
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
    weights = half_weights(settings.alpha_coarse, atoms.sums.shape[1])
    label = chain_ward(atoms.sums, atoms.sizes, min(count, len(atoms.rows)), weights)
    bounds = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), len(label)]
    return [atoms[start:stop] for start, stop in pairwise(bounds)]


def _members(label: Ints) -> list[Ints]:
    """List the members of each group, groups in the order of their first members."""
    firsts = np.sort(np.unique(label, return_index=True)[1])
    return [np.flatnonzero(label == label[first]) for first in firsts]


def coarse_count(seconds: Doubles, settings: WeaverSettings) -> int:
    """N_c = clip(round(duration / dT), 4, 64), at most one per candidate."""
    wanted = round(float(seconds[-1] - seconds[0]) / (60 * settings.coarse_minutes))
    return min(max(4, min(64, wanted)), len(seconds))


def chain_ward(sums: Floats, sizes: Doubles, count: int, weights: Floats) -> Ints:
    """Merge neighbours on the time line by Ward's rule until `count` groups are left; ties go to the earliest.

    `weights` are the dimensions' shares of a product; a weighed copy of all sums would take as long as the merging.
    """
    number = len(sums)
    following, before = list(range(1, number + 1)), list(range(-1, number - 1))
    version = [0] * number
    total, weight = list(sums), sizes.tolist()  # of each group, at the place of its first member

    def product(left: int, right: int) -> float:
        return float((total[left] * weights) @ total[right])

    def entry(left: int, right: int) -> tuple[float, int, int, int]:
        (m, n), mean_product = (weight[left], weight[right]), product(left, right) / (weight[left] * weight[right])
        cost = m * n / (m + n) * (squares[left] + squares[right] - 2 * mean_product)
        return cost, left, version[left], version[right]

    squares = [product(k, k) / weight[k] ** 2 for k in range(number)]
    heap = [entry(left, left + 1) for left in range(number - 1)]
    heapq.heapify(heap)
    parent, left_over = list(range(number)), number
    while left_over > count:
        _, left, left_version, right_version = heapq.heappop(heap)
        right = following[left]
        if left_version != version[left] or right >= number or right_version != version[right]:
            continue
        total[left] = total[left] + total[right]  # not in place: `sums` belongs to the caller
        weight[left] += weight[right]
        squares[left] = product(left, left) / weight[left] ** 2
        parent[right], version[left], version[right] = left, version[left] + 1, -1
        following[left] = following[right]
        if following[left] < number:
            before[following[left]] = left
            heapq.heappush(heap, entry(left, following[left]))
        if before[left] >= 0:
            heapq.heappush(heap, entry(before[left], left))
        left_over -= 1
    for k in range(number):  # parents come first on the time line
        parent[k] = parent[parent[k]]
    return np.unique(parent, return_inverse=True)[1]


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
    removed = np.zeros(len(sizes))  # infinite where a group was joined to an earlier one

    def distances(group: int) -> Doubles:
        row = 1 - products[group] / (sizes[group] * sizes) + removed
        if settings.max_span is not None:
            row[np.maximum(last, last[group]) - np.minimum(first, first[group]) > settings.max_span] = np.inf
        row[group] = np.inf
        return np.asarray(row)

    def find_nearest(group: int, row: Doubles) -> None:
        nearest[group] = row.argmin()
        least[group] = row[nearest[group]]

    label, nearest, least = np.arange(len(sizes)), np.empty(len(sizes), np.int64), np.empty(len(sizes))
    for group in range(len(sizes)):
        find_nearest(group, distances(group))
    while least[(keep := int(least.argmin()))] <= settings.delta_fine:
        keep, gone = sorted((keep, int(nearest[keep])))
        products[keep] += products[gone]
        products[:, keep] = products[keep]
        sizes[keep] += sizes[gone]
        first[keep], last[keep] = min(first[keep], first[gone]), max(last[keep], last[gone])
        label[label == gone] = keep
        nearest[gone], least[gone], removed[gone] = -1, np.inf, np.inf
        row = distances(keep)
        find_nearest(keep, row)
        # Only rounding brings a joined group nearer than its parts were.
        for other in ((nearest == keep) | (nearest == gone) | (row < least)).nonzero()[0].tolist():
            find_nearest(other, distances(other))
    return label
