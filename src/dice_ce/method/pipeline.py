"""The order of the stages: the only file that knows it.

Every command goes through these functions and starts at whichever stage it needs: `summarize` at the exam, `benchmark`
and `tune` at screened frames, with candidates, contexts and judgments made again as the settings change.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dice_ce import __version__
from dice_ce.errors import UsageError
from dice_ce.exam.clock import ClockOptions, Number
from dice_ce.exam.open import Exam, open_exam
from dice_ce.features.extraction import extract
from dice_ce.features.gate import GateConfig
from dice_ce.features.store import Features
from dice_ce.method.beyond.listing import list_items
from dice_ce.method.beyond.looks import rows_to_look_at
from dice_ce.method.beyond.prior import adapt
from dice_ce.method.beyond.standing import lifted
from dice_ce.method.beyond.where import locate_evidence
from dice_ce.method.bundle import DEFAULT_PROFILE, Bundle, load_bundle
from dice_ce.method.chain import Diagnosed, Judged, Woven
from dice_ce.method.converger import converge
from dice_ce.method.diagnoser import RememberedDiagnoser
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.selector import Screened, screen, select
from dice_ce.method.settings import Settings
from dice_ce.method.summary import Identity, Provenance, Summary, assemble
from dice_ce.method.weaver import weave
from dice_ce.settings import values_of
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Floats, Progress


def summarize(
    exam: str | Path | Exam,
    *,
    clock: ClockOptions | str | Path | None = None,
    exam_fps: Number | None = None,
    exam_duration: Number | None = None,
    exam_start: Number | None = None,
    bundle: Bundle | str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Settings | None = None,
    gate: GateConfig | None = GateConfig(),  # noqa: B008  frozen, so sharing it is safe
    workers: int | None = None,
    progress: Progress | None = None,
    command: str | None = None,
    follow: Callable[[Summary], None] | None = None,
) -> Summary:
    """Read a whole exam and return the few frames that matter, each with a label, a time and the reasons.

    The exam time comes from `exam_duration="8:30:00"`, `exam_fps=2` or `clock="clock.csv"`, as for `open_exam`.
    Settings are those of the bundle's profile, unless `settings` replace them. `workers` is how many threads compute:
    one for every core by default. `progress` counts frames; afterwards, if the diagnoser is a network of its own, the
    candidates that it looks at. `follow` is given unfinished summaries, of what has been read so far, while the rest is
    read; their `exam.read` says how much that is.
    """
    if not isinstance(exam, Exam):
        with open_exam(
            exam, clock=clock, exam_fps=exam_fps, exam_duration=exam_duration, exam_start=exam_start
        ) as opened:
            return summarize(
                opened,
                bundle=bundle,
                profile=profile,
                settings=settings,
                gate=gate,
                workers=workers,
                progress=progress,
                command=command,
                follow=follow,
            )
    if any(value is not None for value in (clock, exam_fps, exam_duration, exam_start)):
        raise UsageError(f"{exam.id}: the exam is open and has its clock already; give the clock to open_exam()")
    if not isinstance(bundle, Bundle):
        bundle = load_bundle(bundle)
    settings = settings or bundle.settings(profile)
    made = provenance(exam, bundle, profile, settings, gate, command)
    look = RememberedDiagnoser(
        lambda frames: bundle.diagnoser(exam, frames, progress, workers), len(exam), len(bundle.taxonomy)
    )

    def conclude(features: Features) -> Summary:
        return summarize_features(exam, features, bundle, settings, made, look)

    def follow_features(features: Features) -> None:
        if follow is not None:
            follow(conclude(features))

    return conclude(
        extract(
            exam,
            bundle.encoder,
            gate=gate,
            workers=workers,
            progress=progress,
            follow=follow_features if follow else None,
        )
    )


def summarize_features(
    exam: Exam,
    features: Features,
    bundle: Bundle,
    settings: Settings,
    made: Provenance,
    diagnoser: Callable[[Screened], Floats],
) -> Summary:
    """Go from features, of the whole exam or a part of it, to the summary."""
    screened = lifted(screen(features, bundle.selector, exam.clock), settings.standing)
    diagnosed = diagnose_contexts(weave_contexts(screened, settings), diagnoser, bundle.taxonomy, settings)
    judged = judge_contexts(diagnosed, settings)
    marks = locate_evidence(exam, judged, bundle)
    unfamiliar = bundle.familiarity.strangeness(exam) if bundle.familiarity else None
    return assemble(exam, features, screened, judged, made, bundle.reliability, marks, unfamiliar)


def weave_contexts(screened: Screened, settings: Settings) -> Woven:
    """Go from screened frames to contexts of candidates."""
    candidates = select(screened, settings.selector)
    return Woven(candidates, tuple(weave(candidates, settings.weaver)), Keyframes(candidates))


def diagnose_contexts(
    woven: Woven, diagnoser: Callable[[Screened], Floats], taxonomy: Taxonomy, settings: Settings
) -> Diagnosed:
    """Ask the diagnoser about the candidates; nothing can be said about those that it cannot look at."""
    candidates = woven.candidates
    rows = rows_to_look_at(woven.contexts, candidates.score, settings.looks)
    distributions = np.full((len(candidates), len(taxonomy)), np.nan, np.float32)
    distributions[rows] = diagnoser(candidates[rows])
    unseen = rows[np.isnan(distributions[rows]).any(axis=1)]
    return Diagnosed(woven, distributions, taxonomy, tuple(candidates.frames.index[unseen].tolist()))


def judge_contexts(diagnosed: Diagnosed, settings: Settings) -> Judged:
    """Fuse the evidence of every context; our own rules come before and after it."""
    woven, normal = diagnosed.woven, diagnosed.taxonomy.normal
    distributions = adapt(diagnosed.distributions, woven.candidates.score, normal, settings.prior)
    judgments = converge(woven.contexts, distributions, normal, settings.converger)
    return list_items(Judged(diagnosed, distributions, tuple(judgments)), settings.listing)


def provenance(
    exam: Exam, bundle: Bundle, profile: str, settings: Settings, gate: GateConfig | None, command: str | None
) -> Provenance:
    """Say what to repeat to get the same summary."""
    return Provenance(
        software="dice-ce",
        version=__version__,
        exam_digest=exam.digest,
        crop=(*exam.crop,) if exam.crop else None,
        bundle=Identity(bundle.name, bundle.digest),
        encoder=Identity(bundle.encoder.name, bundle.encoder.digest),
        profile=profile,
        settings=values_of(settings),
        gate=gate,
        packages={name: importlib.metadata.version(name) for name in ("numpy", "av", "onnxruntime")},
        command=command,
    )
