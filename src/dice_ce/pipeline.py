"""summarize(): the only file that knows the order of the stages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dice_ce import __version__
from dice_ce.bundle import Bundle, Settings, load_bundle
from dice_ce.clock import ClockOptions, Number
from dice_ce.condenser import condense
from dice_ce.converger import Judgment, converge, most_confident_frame
from dice_ce.diagnoser import leave_out_unseen
from dice_ce.errors import UsageError
from dice_ce.exam import Exam, open_exam
from dice_ce.extraction import Progress, extract
from dice_ce.gate import GateConfig
from dice_ce.keyframes import Keyframes
from dice_ce.prior import adapt
from dice_ce.selector import Candidates, score_frames, select
from dice_ce.summary import Summary, assemble
from dice_ce.weaver import Context, fixed_windows, weave

Ablation = Literal["weaver", "converger", "fusion"]
"""Stages that can be left out. Without fusion a context is its most confident frame, as without the converger, but
still dropped below tau_min."""


def summarize(
    exam: str | Path | Exam,
    *,
    clock: ClockOptions | str | Path | None = None,
    exam_fps: Number | None = None,
    exam_duration: Number | None = None,
    exam_start: Number | None = None,
    bundle: Bundle | str | Path | None = None,
    settings: Settings | None = None,
    without: Sequence[Ablation] = (),
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen, so sharing it is safe
    progress: Progress | None = None,
    command: str | None = None,
) -> Summary:
    """Read a whole exam and return the few frames that matter, each with a label, a time and the reasons.

    The exam time comes from `exam_duration="8:30:00"`, `exam_fps=2` or `clock="clock.csv"`, as for `open_exam`.
    `settings` override those of the bundle; `without` leaves out a stage, as in the paper's ablations.
    """
    if not isinstance(exam, Exam):
        with open_exam(
            exam, clock=clock, exam_fps=exam_fps, exam_duration=exam_duration, exam_start=exam_start
        ) as opened:
            return summarize(
                opened,
                bundle=bundle,
                settings=settings,
                without=without,
                gate=gate,
                progress=progress,
                command=command,
            )
    if any(value is not None for value in (clock, exam_fps, exam_duration, exam_start)):
        raise UsageError(f"{exam.id}: the exam is open and has its clock already; give the clock to open_exam()")
    if not isinstance(bundle, Bundle):
        bundle = load_bundle(bundle)
    settings = settings or bundle.settings
    features = extract(exam, bundle.encoder, gate=gate, progress=progress)
    score = score_frames(features, bundle.selector)
    selected = select(features, score, exam.clock, settings.tau_s, settings.candidate_share)
    candidates, diagnosed = leave_out_unseen(selected, bundle.diagnoser(exam, selected))
    if len(candidates) < len(selected):
        missing = sorted(set(selected.frames.index.tolist()) - set(candidates.frames.index.tolist()))
        warning = f"candidates that could not be decoded for the diagnoser: {', '.join(map(str, missing))}"
        exam = replace(exam, warnings=(*exam.warnings, warning))
    distributions = adapt(diagnosed, candidates.score, bundle.taxonomy.normal, settings.prior)
    judgments = judge_candidates(candidates, distributions, bundle.taxonomy.normal, settings, without)
    return assemble(
        exam,
        features,
        score,
        candidates,
        distributions,
        judgments,
        bundle.taxonomy,
        provenance(exam, bundle, settings, without, gate, command),
        bundle.reliability,
    )


def judge_candidates(
    candidates: Candidates,
    distributions: npt.NDArray[np.float32],
    normal: int,
    settings: Settings,
    without: Sequence[Ablation] = (),
) -> list[Judgment]:
    """Weave, converge and condense: everything between candidates and summary. The benchmark runs it by itself."""
    contexts = fixed_windows(candidates) if "weaver" in without else weave(candidates, settings.weaver)
    return judge_contexts(contexts, Keyframes(candidates), distributions, normal, settings, without)


def judge_contexts(
    contexts: Sequence[Context],
    keyframes: Keyframes,
    distributions: npt.NDArray[np.float32],
    normal: int,
    settings: Settings,
    without: Sequence[Ablation] = (),
) -> list[Judgment]:
    """Converge and condense. Tuning runs it again and again on contexts that were woven once."""
    if "converger" in without or "fusion" in without:
        tau_min = None if "converger" in without else settings.converger.tau_min
        judgments = [most_confident_frame(context, distributions, normal, tau_min) for context in contexts]
    else:
        judgments = converge(contexts, distributions, normal, settings.converger)
    return condense(judgments, keyframes.seconds, settings.condenser)


def provenance(
    exam: Exam,
    bundle: Bundle,
    settings: Settings,
    without: Sequence[Ablation],
    gate: GateConfig | None,
    command: str | None,
) -> dict[str, Any]:
    """Say what to repeat to get the same summary; no user names, no absolute paths, no dates."""
    return {
        "software": "dice-ce",
        "version": __version__,
        "exam_digest": exam.digest,
        "crop": list(exam.crop) if exam.crop else None,
        "bundle": {"name": bundle.name, "digest": bundle.digest},
        "encoder": {"name": bundle.encoder.name, "digest": bundle.encoder.digest},
        "settings": asdict(settings),
        "gate": asdict(gate) if gate else None,
        "without": list(without),
        "packages": {name: importlib.metadata.version(name) for name in ("numpy", "av", "onnxruntime")},
        "command": command,
    }
