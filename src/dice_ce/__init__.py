"""DiCE-CE: short, trustworthy summaries of whole capsule-endoscopy exams. Research software, not a medical device.

    import dice_ce

    summary = dice_ce.summarize("exam.mp4", exam_duration="8:30:00")

or one step at a time:

    bundle = dice_ce.load_bundle()
    with dice_ce.open_exam("exam.mp4", exam_duration="8:30:00") as exam:
        features = dice_ce.extract(exam, bundle.encoder)
        summary = dice_ce.summarize(exam, bundle=bundle)

Names are imported when they are first used, so that importing the package costs nothing. All it does is tell packages
that would report to their makers not to.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

DISCLAIMER = "Research software, not a medical device: not for diagnosis or treatment."

# They look when they are imported, so this must come first: see docs/explanation/privacy.md.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

if TYPE_CHECKING:
    from dice_ce.errors import DiceError
    from dice_ce.exam.clock import ClockOptions, ExamClock
    from dice_ce.exam.field import Field
    from dice_ce.exam.frames import FrameTable
    from dice_ce.exam.open import Crop, Exam, open_exam
    from dice_ce.features.encoder import ENCODERS, Encoder, OnnxEncoder, load_encoder
    from dice_ce.features.extraction import extract
    from dice_ce.features.gate import GateConfig
    from dice_ce.features.store import ExtractionReport, Features
    from dice_ce.method.bundle import Bundle, load_bundle
    from dice_ce.method.pipeline import summarize
    from dice_ce.method.settings import Settings
    from dice_ce.method.summary import Summary, SummaryItem
    from dice_ce.taxonomy import Taxonomy

_HOME = {
    "ClockOptions": "exam.clock",
    "ExamClock": "exam.clock",
    "ENCODERS": "features.encoder",
    "Encoder": "features.encoder",
    "OnnxEncoder": "features.encoder",
    "load_encoder": "features.encoder",
    "DiceError": "errors",
    "Crop": "exam.open",
    "Exam": "exam.open",
    "open_exam": "exam.open",
    "extract": "features.extraction",
    "Field": "exam.field",
    "FrameTable": "exam.frames",
    "GateConfig": "features.gate",
    "ExtractionReport": "features.store",
    "Features": "features.store",
    "Bundle": "method.bundle",
    "Settings": "method.settings",
    "load_bundle": "method.bundle",
    "summarize": "method.pipeline",
    "Summary": "method.summary",
    "SummaryItem": "method.summary",
    "Taxonomy": "taxonomy",
}

__all__ = [
    "DISCLAIMER",
    "ENCODERS",
    "Bundle",
    "ClockOptions",
    "Crop",
    "DiceError",
    "Encoder",
    "Exam",
    "ExamClock",
    "ExtractionReport",
    "Features",
    "Field",
    "FrameTable",
    "GateConfig",
    "OnnxEncoder",
    "Settings",
    "Summary",
    "SummaryItem",
    "Taxonomy",
    "__version__",
    "extract",
    "load_bundle",
    "load_encoder",
    "open_exam",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dice_ce' has no attribute '{name}'")
    return getattr(importlib.import_module(f"dice_ce.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
