"""The methods of the benchmark on tiny exams with a random bundle, and that DiCE among them is the pipeline."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce.benchmark.baselines.pool import BUDGET
from dice_ce.benchmark.methods import (
    METHODS,
    Method,
    Oracle,
    ReadyExam,
    Values,
    ablations,
    fixed_budget,
    prepare,
    selections_of,
    with_oracle,
)
from dice_ce.benchmark.run import Row
from dice_ce.datasets.folder import ExamRow, load_dataset
from dice_ce.errors import InputError
from dice_ce.exam.codec import write_image
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.beyond.listing import ListingSettings
from dice_ce.method.beyond.looks import LooksSettings
from dice_ce.method.beyond.prior import PriorSettings
from dice_ce.method.bundle import Bundle, load_bundle
from dice_ce.method.chain import Diagnosed
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser
from dice_ce.method.pipeline import judge_contexts, summarize
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.method.weaver import WeaverSettings
from dice_ce.settings import declarations, values_of, with_values, without_rules
from dice_ce.taxonomy import Taxonomy
from tests.material import moving_dots, write_tiny_encoder

START = Settings(SelectorSettings(tau_s=0.4), converger=ConvergerSettings(tau_min=0.2))
RULES = [
    {name: value}
    for name, one in declarations(Settings).items()
    if one.rule
    for value in one.search
    if value != one.off
]
"""Every rule beyond the paper with every value that is searched: a new one is tested because it is declared."""
ALL_RULES: Values = {name: value for rule in RULES for name, value in rule.items()}
CASES: list[Values] = [
    {},
    {"tau_s": 0.0, "tau_agree": 0.6},
    {"tau_min": 0.5},
    {"delta_fine": 0.05, "alpha_fine": 0.8},
    {"max_span": 60.0, "coarse_minutes": 1.0},
    {"token_time": "frame_index"},
    *(changed for _, changed in ablations(with_values(START, ALL_RULES)).values()),
    *RULES,
    ALL_RULES,
]


@pytest.fixture
def row(dataset: Path) -> ExamRow:
    """An exam of eighty images, one every ten seconds: no codec, whose pixels depend on the processor."""
    (folder := dataset / "images").mkdir()
    for number, image in enumerate(moving_dots(80, seed=5)):
        write_image(folder / f"{number:02}.png", image)
    return replace(load_dataset(dataset).exams[0], video=folder)


@pytest.fixture
def bundle(bundle_folder: Path, row: ExamRow) -> Bundle:
    """The random bundle, with a diagnoser that gives the frames of this exam many different labels."""
    loaded = load_bundle(bundle_folder)
    assert isinstance(loaded.diagnoser, HeadDiagnoser)
    head = loaded.diagnoser.head
    mean = head(prepare(row, loaded).screened.vectors).mean(axis=0)
    return replace(loaded, diagnoser=HeadDiagnoser(replace(head, bias2=head.bias2 - mean), temperature=0.3))


@pytest.fixture
def exam(row: ExamRow, bundle: Bundle) -> ReadyExam:
    return prepare(row, bundle)


def shown_by(row: ExamRow, bundle: Bundle, settings: Settings) -> list[tuple[int, int, str]]:
    """Milliseconds, frame and label of everything in the summary."""
    with row.open() as opened:
        summary = summarize(opened, bundle=bundle, settings=settings)
    return [(round(1000 * one.keyframe.seconds), one.keyframe.frame, one.label) for one in summary.items]


def chosen_by(exam: ReadyExam, method: Method, values: Values) -> list[tuple[int, int, str]]:
    """The same of what a method selects."""
    chosen = method.run(exam, values)
    rows = zip(chosen.times.tolist(), chosen.frames.tolist(), chosen.labels.tolist(), strict=True)
    return [(time, frame, exam.taxonomy.labels[label]) for time, frame, label in rows]


def test_there_is_one_pipeline(row: ExamRow, bundle: Bundle, exam: ReadyExam) -> None:
    """The benchmark scores what `summarize` shows, whatever the settings, and whatever was tried before."""
    seen = {}
    for case in CASES:
        settings = with_values(START, case)
        shown = shown_by(row, bundle, settings)
        assert chosen_by(exam, METHODS["dice"], values_of(settings)) == shown, case
        seen[repr(sorted(case.items()))] = tuple(shown)
    assert sum(map(bool, seen.values())) > len(seen) / 2, "most settings show something, or this proves little"
    assert len(set(seen.values())) > len(seen) / 3, "many settings make a difference, or this proves little"


@pytest.mark.parametrize("key", [key for key, method in METHODS.items() if method.is_ours])
def test_every_variant_of_dice_is_the_pipeline_with_what_it_fixes(
    key: str, row: ExamRow, bundle: Bundle, exam: ReadyExam
) -> None:
    """What is fixed cannot be set otherwise."""
    settings = with_values(START, ALL_RULES)
    expected = shown_by(row, bundle, with_values(settings, METHODS[key].fixed))
    assert chosen_by(exam, METHODS[key], values_of(settings)) == expected
    plain = without_rules(settings)
    paper = chosen_by(exam, METHODS["dice-paper"], values_of(settings))
    assert paper == chosen_by(exam, METHODS["dice"], values_of(plain))


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_share_of_all_frames_are_candidates(exam: ReadyExam, share: float) -> None:
    diagnosed = exam.diagnosed(Settings(SelectorSettings(0.0, share)))
    assert len(diagnosed.woven.candidates) == share * 80


# --- every method --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", METHODS)
def test_every_entry_is_sound(key: str, exam: ReadyExam) -> None:
    method = METHODS[key]
    assert method.key == key
    assert method.title
    assert METHODS["dice"].run(exam, {}).labels.max(initial=0) < len(exam.taxonomy)
    chosen = method.run(exam, {"tau_s": 0.0})
    assert method.is_ours or len(chosen) == BUDGET
    np.testing.assert_array_equal(chosen.frames, method.run(exam, {"tau_s": 0.0}).frames)
    with pytest.raises(ValueError, match=f"method '{key}' has no setting 'tau_x'"):
        method.run(exam, {"tau_x": 0.5})
    with pytest.raises(ValueError, match=r"tau_s: 1\.5 is not a number from 0 to 1"):
        method.run(exam, {"tau_s": 1.5})


def test_readers_can_tell_the_methods_apart() -> None:
    for look in ("title", "colour", "mark"):
        assert len({getattr(method, look) for method in METHODS.values()}) == len(METHODS)


# --- baselines -----------------------------------------------------------------------------------------------------


def taking(*rows: int) -> Callable[..., Any]:
    """A method that chooses these candidates."""
    return fixed_budget(lambda pool, budget: np.array(rows))


ALL_FRAMES = SelectorSettings(tau_s=0.0)


def test_a_baseline_labels_each_frame_on_its_own(exam: ReadyExam) -> None:
    chosen = taking(0, 3)(exam, ALL_FRAMES, PriorSettings())
    assert chosen.frames.tolist() == [0, 3]
    assert chosen.times.tolist() == [0, 30_000]
    alone = exam.diagnose(exam.screened[np.array([0, 3])])
    np.testing.assert_array_equal(chosen.labels, alone.argmax(axis=1))


def test_a_baseline_chooses_among_the_candidates(exam: ReadyExam) -> None:
    candidates = np.flatnonzero(exam.screened.score >= 0.6)
    assert 2 < len(candidates) < 80
    chosen = taking(0, 2)(exam, SelectorSettings(tau_s=0.6), PriorSettings())
    assert chosen.frames.tolist() == candidates[[0, 2]].tolist()


def test_a_frame_that_the_diagnoser_cannot_see_is_neither_labelled_nor_selected(exam: ReadyExam) -> None:
    blind = exam.distributions.copy()
    blind[exam.screened.frames.index == 3] = np.nan
    unseen = replace(exam, distributions=blind, _known={})
    assert taking(0, 3, 7)(unseen, ALL_FRAMES, PriorSettings()).frames.tolist() == [0, 7]
    with_prior = taking(*range(80))(unseen, ALL_FRAMES, PriorSettings(0.5))
    assert with_prior.frames.tolist() == [0, 1, 2, *range(4, 80)]
    judged = judge_contexts(unseen.diagnosed(Settings(ALL_FRAMES)), Settings(ALL_FRAMES))
    assert judged.diagnosed.unseen == (3,)
    assert np.flatnonzero(np.isnan(judged.distributions).any(axis=1)).tolist() == [3]
    assert sum(len(one.retained) + len(one.dissent) for one in judged.judgments) == 79


def test_with_our_prior_all_candidates_have_a_say(exam: ReadyExam) -> None:
    """The same frames, but labels may follow the frames that were not chosen."""
    frames = range(0, 80, 4)
    plain, heard = (taking(*frames)(exam, ALL_FRAMES, PriorSettings(strength)) for strength in (0.0, 1.0))
    np.testing.assert_array_equal(plain.frames, heard.frames)
    assert (plain.labels != heard.labels).any()


def test_a_network_is_asked_about_every_frame_once_and_never_again(
    row: ExamRow, bundle: Bundle, tmp_path: Path
) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx", scale=0.02))
    seen: list[int] = []

    class Counting:
        name, digest, dim = network.name, network.digest, network.dim
        input_size, resize = network.input_size, network.resize

        def encode(self, batch: np.ndarray) -> np.ndarray:
            seen.append(len(batch))
            return network.encode(batch)

    cells = Taxonomy("cells", (*map(str, range(network.dim - 1)), "normal"))
    second = replace(bundle, diagnoser=NetworkDiagnoser((Counting(),)), taxonomy=cells)
    exam = prepare(row, second)
    assert sum(seen) == 80
    chosen = taking(3, 17, 60)(exam, ALL_FRAMES, PriorSettings())
    with row.open() as opened:
        alone = [network.encode(opened.image(int(frame), size=32)[None]).argmax() for frame in chosen.frames]
    assert chosen.labels.tolist() == alone
    METHODS["dice"].run(exam, {"tau_s": 0.4})
    prepare(row, second)
    assert sum(seen) == 80, "what it said is kept"


# --- ready exams ---------------------------------------------------------------------------------------------------


def test_an_exam_without_exam_time_is_refused(row: ExamRow, bundle: Bundle) -> None:
    with pytest.raises(InputError, match=r"exam 'a': only playback time is known; fill the clock columns"):
        prepare(ExamRow("a", "p", "test", row.video), bundle)


def contexts_of(diagnosed: Diagnosed) -> list[list[int]]:
    return [one.rows.tolist() for one in diagnosed.woven.contexts]


def test_contexts_are_woven_again_only_if_they_may_differ(exam: ReadyExam) -> None:
    first = exam.diagnosed(START)
    for same in (
        replace(START, converger=ConvergerSettings("best-frame", 0.1, 0.9)),
        replace(START, prior=PriorSettings(0.5), listing=ListingSettings(apart_seconds=60.0)),
    ):
        assert exam.diagnosed(same) is first
    for other in (
        replace(START, selector=SelectorSettings(0.4, 0.2)),
        replace(START, weaver=WeaverSettings(contexts="windows")),
        replace(START, looks=LooksSettings(1)),
    ):
        again = exam.diagnosed(START)
        assert exam.diagnosed(other) is not again
        assert contexts_of(again) == contexts_of(first)


@pytest.mark.parametrize("tau_min", [0.0, 1.0])
def test_keyframes_of_dropped_contexts_are_not_selected(exam: ReadyExam, tau_min: float) -> None:
    settings = replace(START, converger=ConvergerSettings(tau_agree=0.3, tau_min=tau_min))
    judged = judge_contexts(exam.diagnosed(settings), settings)
    kept = [one for one in judged.judgments if one.verdict == "kept"]
    assert list(judged.kept) == kept
    chosen = selections_of(judged)
    expected = sorted(judged.candidates.frames.index[judged.keyframe(one)] for one in kept)
    assert chosen.frames.tolist() == expected
    assert (len(kept) == 0) == (tau_min == 1.0)


# --- oracles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracles", [("selector",), ("diagnoser",), ("selector", "diagnoser")])
def test_an_oracle_speaks_for_its_stage_alone(exam: ReadyExam, oracles: tuple[Oracle, ...]) -> None:
    truth = np.full(80, exam.taxonomy.normal)
    truth[10:15], truth[40:42] = exam.taxonomy.index("ulcer"), exam.taxonomy.index("polyp")
    known = replace(exam, truth=truth)
    before = METHODS["dice"].run(known, values_of(START))
    told = with_oracle(known, oracles)
    score = (truth != exam.taxonomy.normal).astype(np.float32) if "selector" in oracles else exam.screened.score
    np.testing.assert_array_equal(told.screened.score, score)
    rows = np.array([0, 12, 41, 79])
    labels = np.eye(12)[truth[rows]] if "diagnoser" in oracles else exam.diagnose(exam.screened[rows])
    np.testing.assert_array_equal(told.diagnose(told.screened[rows]), labels)
    after = METHODS["dice"].run(told, values_of(START))
    if len(oracles) == 2:
        assert len(after)
        np.testing.assert_array_equal(after.labels, truth[after.frames])
        assert set(after.labels) == set(truth) - {exam.taxonomy.normal}
    again = METHODS["dice"].run(known, values_of(START))
    np.testing.assert_array_equal(again.frames, before.frames, "what was told is forgotten")
    row = Row("x", "X", "oracle", METHODS["dice"], values_of(START), oracles)
    np.testing.assert_array_equal(row.run(known).frames, after.frames)


# --- ablations -----------------------------------------------------------------------------------------------------


def test_the_paper_s_ablations_are_always_there() -> None:
    found = {key: changed for key, (_, changed) in ablations(START).items()}
    start = values_of(START)
    assert found == {
        "weaver": {**start, "contexts": "windows"},
        "converger": {**start, "evidence": "best-frame", "tau_min": 0.0},
        "converger-keeping-tau-min": {**start, "evidence": "best-frame"},
    }


def test_every_rule_that_is_used_gets_an_ablation_of_its_own() -> None:
    used = replace(
        START,
        selector=SelectorSettings(0.4, candidate_share=0.1),
        prior=PriorSettings(0.5),
        listing=ListingSettings(apart_seconds=60.0),
    )
    found = {key: changed for key, (_, changed) in ablations(used).items()}
    values = values_of(used)
    assert list(found)[3:] == ["share-of-candidates", "exam-prior", "one-item-at-a-time", "all-rules"]
    assert found["share-of-candidates"] == {**values, "candidate_share": 1.0}
    assert found["exam-prior"] == {**values, "prior_strength": 0.0}
    assert found["one-item-at-a-time"] == {**values, "apart_seconds": 0.0}
    assert found["all-rules"] == values_of(without_rules(used)) == values_of(START)
    assert "all-rules" not in ablations(replace(START, prior=PriorSettings(0.5))), "one rule has one row"


@pytest.mark.parametrize("key", METHODS)
def test_a_budget_limits_every_method_whatever_its_settings(key: str, exam: ReadyExam) -> None:
    values = {"tau_s": 0.0}
    assert len(METHODS[key].run(exam, values).frames) > 2
    assert len(METHODS[key].run(exam, values, budget=2).frames) == 2
