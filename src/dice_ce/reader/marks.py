"""Where in a frame the evidence lies: as the results say, or else as the bundle says that made them."""

from __future__ import annotations

import threading
from functools import lru_cache

from dice_ce.exam.open import Exam
from dice_ce.method.beyond.where import can_locate, mark_frames
from dice_ce.method.bundle import Bundle, load_bundle, shipped_bundles
from dice_ce.method.summary import Mark, Summary

REMEMBERED = 500


class NoMarkError(Exception):
    """Nobody can say where the evidence lies: the bundle is another one, or cannot tell."""


def mark_in_summary(summary: Summary, frame: int, label: str) -> Mark | None:
    """Find the mark that came with the results."""
    marks = (one.mark for one in summary.items if (one.keyframe.frame, one.label) == (frame, label))
    return next(marks, None)


class Marker:
    """Asks the bundle that made the results, one frame at a time; it is loaded when it is needed first."""

    def __init__(self, bundle: str | None = None) -> None:
        self._spec = bundle
        self._lock = threading.Lock()
        self._load = lru_cache(load_bundle)
        self._find = lru_cache(REMEMBERED)(find_mark)

    def mark(self, exam: Exam, summary: Summary, frame: int, label: str) -> Mark | None:
        """Return where the evidence for a label lies in a frame; None if no single place speaks for it."""
        made_by = summary.provenance.bundle
        named = f"the bundle {made_by.name} ({made_by.digest[:12]})"
        with self._lock:
            bundle = self._load(self._spec or (made_by.name if made_by.name in shipped_bundles() else None))
            if bundle.digest != made_by.digest:
                raise NoMarkError(f"these results were made by {named}; give it with --bundle")
            if not can_locate(bundle):
                raise NoMarkError(f"{named} cannot tell where it looks")
            return self._find(exam, frame, label, bundle)


def find_mark(exam: Exam, frame: int, label: str, bundle: Bundle) -> Mark | None:
    """Ask a bundle."""
    return mark_frames(exam, {frame: bundle.taxonomy.index(label)}, bundle).get(frame)
