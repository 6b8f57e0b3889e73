"""summarize(): the only file that knows the order of the stages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dice_ce import __version__
from dice_ce.bundle import Bundle, Settings, load_bundle
from dice_ce.condenser import condense
from dice_ce.converger import Judgment, converge, most_confident_frame
from dice_ce.exam import Exam, open_exam
from dice_ce.extraction import Progress, extract
from dice_ce.gate import GateConfig
from dice_ce.prior import adapt
from dice_ce.selector import Candidates, score_frames, select, threshold
from dice_ce.summary import Summary, assemble
from dice_ce.weaver import fixed_windows, weave

Ablation = Literal["weaver", "converger"]
ABLATIONS: tuple[Ablation, ...] = ("weaver", "converger")


def summarize(
    exam: str | Path | Exam,
    *,
    bundle: Bundle | str | Path | None = None,
    settings: Settings | None = None,
    without: Sequence[Ablation] = (),
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen, so sharing it is safe
    progress: Progress | None = None,
    command: str | None = None,
) -> Summary:
    """Read a whole exam and return the few frames that matter, each with a label, a time and the reasons.

    `settings` override those of the bundle; `without` leaves out a stage, as in the paper's ablations.
    """
    if not isinstance(exam, Exam):
        with open_exam(exam) as opened:
            return summarize(
                opened,
                bundle=bundle,
                settings=settings,
                without=without,
                gate=gate,
                progress=progress,
                command=command,
            )
    if not isinstance(bundle, Bundle):
        bundle = load_bundle(bundle)
    settings = settings or bundle.settings
    features = extract(exam, bundle.encoder, gate=gate, progress=progress)
    score = score_frames(features, bundle.selector)
    enough = threshold(score, settings.tau_s, settings.candidate_share)
    candidates = select(features, score, exam.clock, enough)
    distributions = adapt(bundle.diagnoser(exam, candidates), candidates.score, bundle.taxonomy.normal, settings.prior)
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
    if "converger" in without:
        judgments = [most_confident_frame(context, distributions, normal) for context in contexts]
    else:
        judgments = converge(contexts, distributions, normal, settings.converger)
    return condense(judgments, candidates.seconds, settings.condenser)


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
