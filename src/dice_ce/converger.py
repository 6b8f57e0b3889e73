"""The Evidence Converger: many doubtful frames into one judgment per context (paper, section 4.5, eq. 7-11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dice_ce.frames import Ints
from dice_ce.weaver import Context

Floats = npt.NDArray[np.float32]
Verdict = Literal["kept", "normal", "low_confidence", "outranked"]
"""The last one is given by the condenser."""


@dataclass(frozen=True)
class ConvergerConfig:
    """When frames agree, and when a context is believed."""

    tau_agree: float = 0.3
    """Probability of the provisional label from which a frame supports it."""
    tau_min: float = 0.4
    """Confidence below which a context is dropped."""
    least_support: int = 1
    """Frames that must support a context, or it is dropped as doubtful. 1 is the paper's rule, more is ours."""


@dataclass(frozen=True, eq=False)
class Judgment:
    """What the frames of one context say together, and everything that led to it."""

    context: Context
    retained: Ints
    """Rows of the candidates that support the judgment: H_ret."""
    dissent: Ints
    """Rows removed because they contradict the provisional label."""
    evidence_before: npt.NDArray[np.float64]
    """P of all frames, normalised."""
    evidence: npt.NDArray[np.float64]
    """P_ref of the retained frames, normalised."""
    provisional: int
    label: int
    confidence: float
    runner_up: int
    margin: float
    """Confidence minus that of the runner-up."""
    fell_back: bool
    """No frame reached tau_agree, so all were kept."""
    verdict: Verdict
    joined: tuple[Context, ...] = ()
    """Contexts that the condenser put to this one."""


def converge(
    contexts: Sequence[Context], distributions: Floats, normal: int, config: ConvergerConfig
) -> list[Judgment]:
    """Judge every context."""
    return [judge(context, distributions, normal, config) for context in contexts]


def judge(context: Context, distributions: Floats, normal: int, config: ConvergerConfig) -> Judgment:
    """Fuse, refine and prune one context; ties go to the lowest label index."""
    p = distributions[context.rows].astype(np.float64)
    fused = p.sum(axis=0)  # eq. 7
    provisional = int(fused.argmax())
    agrees = p[:, provisional] >= config.tau_agree  # eq. 8
    fell_back = not agrees.any()
    retained = np.ones_like(agrees) if fell_back else agrees  # eq. 9
    refined = p[retained].sum(axis=0)  # eq. 10
    evidence = refined / refined.sum()
    label = int(refined.argmax())
    verdict: Verdict = "kept"
    if label == normal:  # eq. 11
        verdict = "normal"
    elif evidence[label] < config.tau_min or retained.sum() < config.least_support:
        verdict = "low_confidence"
    return judgment(context, retained, fused / fused.sum(), evidence, provisional, label, fell_back, verdict)


def most_confident_frame(
    context: Context, distributions: Floats, normal: int, tau_min: float | None = None
) -> Judgment:
    """Return what stands in for the converger in the ablation: the label of the single most confident frame."""
    p = distributions[context.rows].astype(np.float64)
    best = int(p.max(axis=1).argmax())
    label = int(p[best].argmax())
    verdict: Verdict = "kept"
    if label == normal:
        verdict = "normal"
    elif tau_min is not None and p[best, label] < tau_min:
        verdict = "low_confidence"
    retained = np.arange(len(p)) == best
    fused = p.sum(axis=0)
    return judgment(context, retained, fused / fused.sum(), p[best], int(fused.argmax()), label, False, verdict)


def judgment(
    context: Context,
    retained: npt.NDArray[np.bool_],
    before: npt.NDArray[np.float64],
    evidence: npt.NDArray[np.float64],
    provisional: int,
    label: int,
    fell_back: bool,
    verdict: Verdict,
) -> Judgment:
    """Add what follows from the evidence: confidence, runner-up and margin."""
    others = np.where(np.arange(len(evidence)) == label, -1.0, evidence)
    runner_up = int(others.argmax())
    return Judgment(
        context=context,
        retained=context.rows[retained],
        dissent=context.rows[~retained],
        evidence_before=before,
        evidence=evidence,
        provisional=provisional,
        label=label,
        confidence=float(evidence[label]),
        runner_up=runner_up,
        margin=float(evidence[label] - evidence[runner_up]),
        fell_back=fell_back,
        verdict=verdict,
    )
