"""What can be promised: does a list of so many items contain a frame of every finding that a report would name?

Counted by patient, because the findings of one patient are found or missed together. The bound is exact for a new
patient who is like these (Clopper and Pearson), and so is the length that conformal calibration gives: long enough for
the patient who needs the ceil((n + 1) 0.9)-th longest list. It is tried on every patient, calibrated on the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from dice_ce.benchmark.evaluation import Evaluation

CONFIDENCE = 0.9


def complete_patients(evaluation: Evaluation) -> dict[str, bool]:
    """Tell of every patient with findings whether all of them have a frame, whatever it is called."""
    missed: dict[str, int] = defaultdict(int)
    for patient, counts in zip(evaluation.patients, evaluation.counts, strict=True):
        if counts.findings:
            missed[patient] += counts.findings - counts.covered
    return {patient: not count for patient, count in missed.items()}


def at_least(successes: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the chance that is exceeded with this confidence, after so many successes (Clopper and Pearson)."""
    if not successes:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        tail = sum(
            math.comb(trials, k) * middle**k * (1 - middle) ** (trials - k) for k in range(successes, trials + 1)
        )
        low, high = (middle, high) if tail < 1 - confidence else (low, middle)
    return low


def conformal_length(needs: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Return the length that is enough for a new patient with this confidence; infinite where none can be promised."""
    rank = math.ceil((len(needs) + 1) * confidence)
    return sorted(needs)[rank - 1] if rank <= len(needs) else math.inf


def needed_lengths(curve: Mapping[int, Evaluation]) -> dict[str, float]:
    """Return the shortest list that was complete for every patient, also all longer ones; infinite if none was."""
    needs: dict[str, float] = {}
    open_still: set[str] | None = None
    for length in sorted(curve, reverse=True):
        complete = complete_patients(curve[length])
        open_still = set(complete) if open_still is None else open_still
        open_still &= {patient for patient, is_complete in complete.items() if is_complete}
        needs |= {patient: length if patient in open_still else needs.get(patient, math.inf) for patient in complete}
    return needs


def kept_promises(needs: Mapping[str, float], confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Calibrate on all patients but one and look at that one: how often the list was long enough, of how many."""
    kept = tried = 0
    for patient, need in needs.items():
        length = conformal_length([other for name, other in needs.items() if name != patient], confidence)
        if length < math.inf:
            tried += 1
            kept += need <= length
    return kept, tried
