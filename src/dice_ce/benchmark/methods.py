"""METHODS: everything that chooses frames of an exam, as selections to be scored.

An entry owns its key, title, look and settings; the benchmark, the tuner and the images know it by being registered.
A new baseline is a file in `baselines/` and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dice_ce.benchmark.baselines.aks import AksSettings, choose_aks
from dice_ce.benchmark.baselines.pool import BUDGET, Pool
from dice_ce.benchmark.baselines.simple import RandomSettings, choose_random, choose_top, choose_uniform
from dice_ce.benchmark.baselines.vilamp import VilampSettings, choose_vilamp
from dice_ce.benchmark.match import Selection, Selections, milliseconds
from dice_ce.benchmark.spliced import screen_spliced
from dice_ce.benchmark.truth import read_truth_labels, truth_beside
from dice_ce.datasets.folder import ExamRow
from dice_ce.datasets.spliced import is_spliced
from dice_ce.errors import InputError
from dice_ce.exam.open import Exam
from dice_ce.features.extraction import extract
from dice_ce.features.gate import GateConfig
from dice_ce.method.beyond.prior import PriorSettings, adapt
from dice_ce.method.beyond.standing import StandingSettings, lifted
from dice_ce.method.bundle import Bundle
from dice_ce.method.chain import Diagnosed, Judged
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser
from dice_ce.method.pipeline import diagnose_contexts, judge_contexts, weave_contexts
from dice_ce.method.selector import Candidates, Screened, SelectorSettings, screen, select
from dice_ce.method.settings import Settings
from dice_ce.settings import Value, declarations, rules_in_use, search_space, values_of, with_values, without_rules
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats, Ints, Progress

Values = Mapping[str, Value]
"""Settings of a method, by name."""


# --- exams ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ReadyExam:
    """An exam whose expensive part is done: what remains takes a fraction of a second."""

    exam_id: str
    seconds: float
    """Length of the exam."""
    screened: Screened
    distributions: Floats
    """What the diagnoser says about every screened frame; not a number where it cannot look."""
    taxonomy: Taxonomy
    truth: Ints | None = None
    """What every screened frame shows, where that is known."""
    _known: dict[object, Diagnosed] = field(default_factory=dict, repr=False)
    _lifted: dict[StandingSettings, Screened] = field(default_factory=dict, repr=False)

    def diagnose(self, frames: Screened) -> Floats:
        """Say what the diagnoser says about some of the frames."""
        return self.distributions[np.searchsorted(self.screened.frames.index, frames.frames.index)]

    def diagnosed(self, settings: Settings) -> Diagnosed:
        """Weave and diagnose, unless the last settings gave the same contexts: this is what tuning waits for."""
        key = settings.standing, settings.selector, settings.weaver, settings.looks
        if key not in self._known:
            self._known.clear()
            if settings.standing not in self._lifted:
                self._lifted[settings.standing] = lifted(self.screened, settings.standing)
            woven = weave_contexts(self._lifted[settings.standing], settings)
            self._known[key] = diagnose_contexts(woven, self.diagnose, self.taxonomy, settings)
        return self._known[key]


def prepare(
    row: ExamRow,
    bundle: Bundle,
    *,
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen
    progress: Progress | None = None,
) -> ReadyExam:
    """Do everything expensive for one exam, as `summarize` does it; features in the cache are not computed again."""
    if is_spliced(row.video):
        return _prepare_spliced(row, bundle, progress)
    with row.open() as exam:
        if not exam.clock.is_exam_time:
            raise InputError(f"exam '{row.exam_id}': only playback time is known; fill the clock columns in exams.csv")
        features = extract(exam, bundle.encoder, gate=gate, progress=progress)
        screened = screen(features, bundle.selector, exam.clock)
        distributions = _diagnose_all(exam, screened, bundle.diagnoser, progress)
        seconds = float(exam.clock.seconds(len(exam) - 1) - exam.clock.seconds(0))
    truth = truth_beside(row)
    labels = read_truth_labels(truth, screened.frames.index, bundle.taxonomy) if truth else None
    return ReadyExam(row.exam_id, seconds, screened, distributions, bundle.taxonomy, labels)


def _diagnose_all(
    exam: Exam, screened: Screened, diagnoser: HeadDiagnoser | NetworkDiagnoser, progress: Progress | None
) -> Floats:
    """Ask about every frame, whichever become candidates under some settings; what a network says is kept."""
    if isinstance(diagnoser, HeadDiagnoser):
        return diagnoser.diagnose(screened.vectors)
    heads, networks = diagnoser.split(screened.seen_by)
    logits = np.zeros((len(screened), diagnoser.networks[0].dim), np.float32)
    for head in heads:
        logits += head(screened.vectors)
    for network in networks:
        said = extract(exam, network, gate=None, progress=progress)
        is_seen = np.isin(screened.frames.index, said.frames.index)
        logits[~is_seen] = np.nan
        logits[is_seen] += said.vectors[np.isin(said.frames.index, screened.frames.index)]
    return diagnoser.diagnose(logits)


def _prepare_spliced(row: ExamRow, bundle: Bundle, progress: Progress | None) -> ReadyExam:
    """Do the same for an exam that is a list of images."""
    seen = screen_spliced(row, bundle, progress)
    seconds = float(seen.screened.seconds[-1] - seen.screened.seconds[0])
    return ReadyExam(row.exam_id, seconds, seen.screened, seen.distributions, bundle.taxonomy, seen.truth)


Oracle = Literal["selector", "diagnoser"]


def with_oracle(exam: ReadyExam, oracles: Sequence[Oracle]) -> ReadyExam:
    """Let the truth speak for the Selector or the diagnoser: what is still missed then, the other stages miss."""
    assert exam.truth is not None, "oracles are only asked where the truth is known"
    screened, distributions = exam.screened, exam.distributions
    if "selector" in oracles:
        screened = replace(screened, score=(exam.truth != exam.taxonomy.normal).astype(np.float32))
    if "diagnoser" in oracles:
        distributions = np.eye(len(exam.taxonomy), dtype=np.float32)[exam.truth]
    return replace(exam, screened=screened, distributions=distributions, _known={}, _lifted={})


# --- methods -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """One way to choose frames."""

    key: str
    title: str
    colour: str
    """After Okabe and Ito."""
    mark: str
    """Shape in images, for colour-blind readers."""
    groups: tuple[type, ...]
    """Its settings: groups of declarations."""
    choose: Callable[..., Selections]
    """Takes a ready exam and one instance of every group."""
    is_ours: bool = False
    fixed: Values = field(default_factory=dict)
    """Settings that tuning must not change: what makes a variant a variant."""

    @property
    def space(self) -> dict[str, tuple[Value, ...]]:
        """What tuning may try."""
        return {name: values for group in self.groups for name, values in search_space(group, self.fixed).items()}

    def run(self, exam: ReadyExam, values: Values, budget: int | None = None) -> Selections:
        """Choose frames with some settings; the others have their defaults. A budget is how many, at most."""
        values, more = {**values, **self.fixed}, {}
        if budget is not None and self.is_ours:
            values["most_items"] = budget
        elif budget is not None:
            more["budget"] = budget
        return self.choose(exam, *self.build(values), **more)

    def build(self, values: Values) -> tuple[Any, ...]:
        """Make settings of every group; refuse names that none declares."""
        known = [declarations(group).keys() for group in self.groups]
        if unknown := [name for name in values if not any(name in names for names in known)]:
            raise ValueError(f"method '{self.key}' has no setting '{unknown[0]}'")
        return tuple(
            with_values(group(), {name: value for name, value in values.items() if name in names})
            for group, names in zip(self.groups, known, strict=True)
        )


def choose_dice(exam: ReadyExam, settings: Settings) -> Selections:
    """Take keyframes and labels of the contexts that are kept."""
    return selections_of(judge_contexts(exam.diagnosed(settings), settings))


def selections_of(judged: Judged) -> Selections:
    """Take keyframes and labels of what was kept (eq. 12)."""
    return Selections.of(_selection(judged.candidates, judged.keyframe(one), one.label) for one in judged.kept)


def _selection(frames: Screened, row: int, label: int) -> Selection:
    return Selection(milliseconds(float(frames.seconds[row])), int(frames.frames.index[row]), label)


def fixed_budget(rule: Callable[..., Ints]) -> Callable[..., Selections]:
    """Make a method of a rule: a fixed number of candidates, each labelled on its own with its likeliest label."""

    def choose(
        exam: ReadyExam, selector: SelectorSettings, prior: PriorSettings, *own: Any, budget: int = BUDGET
    ) -> Selections:
        candidates = select(exam.screened, selector)
        rows = rule(Pool.of(candidates), budget, **({"settings": own[0]} if own else {}))
        return _labelled(exam, candidates, rows, prior)

    return choose


def _labelled(exam: ReadyExam, candidates: Candidates, rows: Ints, prior: PriorSettings) -> Selections:
    """Diagnose what was selected; only our exam prior needs all candidates for that.

    A frame that cannot be decoded for the diagnoser is not selected.
    """
    if prior.prior_strength > 0:
        distributions = adapt(exam.diagnose(candidates), candidates.score, exam.taxonomy.normal, prior)[rows]
    else:
        distributions = exam.diagnose(candidates[rows])
    return Selections.of(
        _selection(candidates, row, int(p.argmax()))
        for row, p in zip(rows.tolist(), distributions, strict=True)
        if not np.isnan(p).any()
    )


def _baseline(key: str, title: str, colour: str, mark: str, rule: Callable[..., Ints], *groups: type) -> Method:
    return Method(
        key,
        title,
        colour,
        mark,
        (SelectorSettings, PriorSettings, *groups),
        fixed_budget(rule),
        fixed={"prior_strength": 0.0},
    )


_NO_RULES: Values = {name: one.off for name, one in declarations(Settings).items() if one.rule} | {"most_items": None}

METHODS: dict[str, Method] = {
    "dice": Method("dice", "DiCE", "#d55e00", "o", (Settings,), choose_dice, is_ours=True),
    "dice-paper": Method(
        "dice-paper", "The paper's rules", "#8f7000", "X", (Settings,), choose_dice, is_ours=True, fixed=_NO_RULES
    ),
    "dice-windows": Method(
        "dice-windows",
        "Windows of 300 s",
        "#332288",
        "<",
        (Settings,),
        choose_dice,
        is_ours=True,
        fixed={"contexts": "windows"},
    ),
    "uniform": _baseline("uniform", "Uniform", "#7a858d", "s", choose_uniform),
    "random": _baseline("random", "Random", "#56b4e9", "v", choose_random, RandomSettings),
    "top-score": _baseline("top-score", "Top score", "#009e73", "D", choose_top),
    "aks": _baseline("aks", "AKS", "#0072b2", "^", choose_aks, AksSettings),
    "vilamp": _baseline("vilamp", "ViLAMP", "#b45a95", "P", choose_vilamp, VilampSettings),
}
BASELINES = tuple(key for key, method in METHODS.items() if not method.is_ours)


def ablations(settings: Settings) -> dict[str, tuple[str, dict[str, Value]]]:
    """List what can be taken away from DiCE: titles and changed settings, by key."""
    found: dict[str, tuple[str, dict[str, Value]]] = {
        "weaver": ("Context Weaver", {"contexts": "windows"}),
        "converger": ("Evidence Converger", {"evidence": "best-frame", "tau_min": 0.0}),
        "converger-keeping-tau-min": ("Evidence Converger, tau_min kept", {"evidence": "best-frame"}),
    }
    rules = rules_in_use(settings)
    for rule, off in rules.items():
        found[rule.lower().replace(" ", "-")] = f"{rule} (ours)", off
    if len(rules) > 1:
        found["all-rules"] = "All of ours", values_of(without_rules(settings))
    return {key: (title, {**values_of(settings), **changes}) for key, (title, changes) in found.items()}
