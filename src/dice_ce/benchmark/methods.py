"""Methods on exams whose expensive part is done: DiCE, its ablations, and the baselines, as selections to be scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.baselines import BUDGET, Pool, Rule
from dice_ce.bundle import Bundle, Settings
from dice_ce.clock import ExamClock
from dice_ce.converger import Judgment
from dice_ce.datasets.folder import ExamRow
from dice_ce.diagnoser import HeadDiagnoser, leave_out_unseen
from dice_ce.errors import InputError
from dice_ce.extraction import Progress, extract
from dice_ce.frames import Ints
from dice_ce.gate import GateConfig
from dice_ce.keyframes import Keyframes
from dice_ce.pipeline import Ablation, judge_candidates
from dice_ce.prior import PriorConfig, adapt
from dice_ce.selector import Candidates, candidate_rows, score_frames, take
from dice_ce.store import Features
from dice_ce.taxonomy import Taxonomy

from .match import Selection, Selections, milliseconds
from .truth import read_truth_labels, truth_beside


class Diagnoses:
    """Distributions of an exam's frames, each computed when it is first asked for, and only once.

    A diagnoser that looks at images is slow, and no method needs what it says about frames that were not chosen.
    """

    def __init__(self, frames: int, labels: int, diagnose: Callable[[Ints], npt.NDArray[np.float32]]) -> None:
        self._known = np.zeros(frames, np.bool_)
        self._table = np.empty((frames, labels), np.float32)
        self._diagnose = diagnose

    def __getitem__(self, rows: Ints) -> npt.NDArray[np.float32]:
        missing = np.unique(rows[~self._known[rows]])
        if len(missing):
            self._table[missing] = self._diagnose(missing)
            self._known[missing] = True
        return self._table[rows]


@dataclass(frozen=True, eq=False)
class Prepared:
    """An exam with features, scores and distributions: what remains takes a fraction of a second."""

    exam_id: str
    features: Features
    clock: ExamClock
    score: npt.NDArray[np.float32]
    distributions: Diagnoses | npt.NDArray[np.float32]
    """[frames, labels], by rows."""
    truth: Ints | None = None
    """What every frame shows, where that is known."""

    @property
    def seconds(self) -> float:
        """Length of the exam."""
        return float(self.clock.seconds(len(self.clock.ticks) - 1) - self.clock.seconds(0))

    def candidates(self, tau_s: float, share: float = 1.0) -> tuple[Candidates, Ints]:
        """Return the frames that the Selector keeps, and which rows they are."""
        rows = candidate_rows(self.score, tau_s, share)
        return take(self.features, self.score, self.clock, rows), rows

    def diagnosed(self, tau_s: float, share: float = 1.0) -> tuple[Candidates, npt.NDArray[np.float32]]:
        """Return the frames that the Selector keeps, with their distributions."""
        candidates, rows = self.candidates(tau_s, share)
        return leave_out_unseen(candidates, self.distributions[rows])


def prepare(
    row: ExamRow,
    bundle: Bundle,
    *,
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen
    progress: Progress | None = None,
) -> Prepared:
    """Compute features and scores of one exam as `summarize` does; what is in the cache is not computed again."""
    with row.open() as exam:
        if not exam.clock.is_exam_time:
            raise InputError(f"exam '{row.exam_id}': only playback time is known; fill the clock columns in exams.csv")
        features = extract(exam, bundle.encoder, gate=gate, progress=progress)
        score = score_frames(features, bundle.selector)
        clock = exam.clock

    def diagnose(rows: Ints) -> npt.NDArray[np.float32]:
        with row.open() as exam:
            return bundle.diagnoser(exam, take(features, score, clock, rows))

    if isinstance(bundle.diagnoser, HeadDiagnoser):
        distributions: Diagnoses | npt.NDArray[np.float32] = bundle.diagnoser.judge(features.vectors)
    else:
        distributions = Diagnoses(len(features), len(bundle.taxonomy), diagnose)
    truth = truth_beside(row)
    labels = read_truth_labels(truth, features.frames.index, bundle.taxonomy) if truth else None
    return Prepared(row.exam_id, features, clock, score, distributions, labels)


# --- DiCE ----------------------------------------------------------------------------------------------------------


def judgments(
    prepared: Prepared, taxonomy: Taxonomy, settings: Settings, without: Sequence[Ablation] = ()
) -> tuple[Candidates, list[Judgment]]:
    """Weave and converge, or leave one of them out as in the paper's ablations."""
    candidates, distributions = prepared.diagnosed(settings.tau_s, settings.candidate_share)
    adapted = adapt(distributions, candidates.score, taxonomy.normal, settings.prior)
    return candidates, judge_candidates(candidates, adapted, taxonomy.normal, settings, without)


def run_dice(
    prepared: Prepared, taxonomy: Taxonomy, settings: Settings, without: Sequence[Ablation] = ()
) -> Selections:
    """Return the keyframes and labels of the contexts that were kept."""
    candidates, judged = judgments(prepared, taxonomy, settings, without)
    return select_keyframes(candidates, judged, Keyframes(candidates))


def select_keyframes(candidates: Candidates, judged: Iterable[Judgment], keyframes: Keyframes) -> Selections:
    """Take the keyframe of every context that was kept (eq. 12)."""
    return Selections.of(
        _selection(candidates, keyframes.row(judgment), judgment.label)
        for judgment in judged
        if judgment.verdict == "kept"
    )


def _selection(candidates: Candidates, row: int, label: int) -> Selection:
    return Selection(milliseconds(float(candidates.seconds[row])), int(candidates.frames.index[row]), label)


# --- oracles -------------------------------------------------------------------------------------------------------

Oracle = Literal["selector", "diagnoser"]


def knowing(prepared: Prepared, taxonomy: Taxonomy, oracles: Sequence[Oracle]) -> Prepared:
    """Let the truth speak for the Selector or the diagnoser: what is still missed then, the other stages miss."""
    assert prepared.truth is not None, "oracles are only asked where the truth is known"
    score, distributions = prepared.score, prepared.distributions
    if "selector" in oracles:
        score = (prepared.truth != taxonomy.normal).astype(np.float32)
    if "diagnoser" in oracles:
        distributions = np.eye(len(taxonomy), dtype=np.float32)[prepared.truth]
    return replace(prepared, score=score, distributions=distributions)


# --- baselines -----------------------------------------------------------------------------------------------------


def run_baseline(
    prepared: Prepared,
    rule: Rule,
    tau_s: float,
    *,
    share: float = 1.0,
    budget: int = BUDGET,
    prior: tuple[PriorConfig, int] | None = None,
) -> Selections:
    """Choose a fixed number of candidates; each is labelled on its own, normal or not, with its likeliest label.

    With `tau_s` 0 the pool is the raw video. With a prior (and the number of the normal label) a baseline is labelled
    by what we added to the diagnoser, too. A frame that cannot be decoded for the diagnoser is not selected.
    """
    if prior:  # it is estimated from all candidates, so all are diagnosed
        candidates, distributions = prepared.diagnosed(tau_s, share)
        chosen = rule(Pool.of(candidates), budget)
        distributions = adapt(distributions, candidates.score, prior[1], prior[0])[chosen]
    else:
        candidates, rows = prepared.candidates(tau_s, share)
        chosen = rule(Pool.of(candidates), budget)
        distributions = prepared.distributions[rows[chosen]]
    labelled = zip(chosen.tolist(), distributions, strict=True)
    return Selections.of(_selection(candidates, row, int(p.argmax())) for row, p in labelled if not np.isnan(p).any())
