"""Vision-language models as diagnosers, so that any baseline can be labelled by one of them.

registry    which there are        prompts, answers    what is asked, and what was meant
pixels      images as numbers    families, chat      one question to a transformers model
loading     from hub or folder     isolated, worker    models with code of their own, in another process
"""

from __future__ import annotations

from dice_ce.benchmark.vlm.diagnoser import VlmDiagnoser, VlmReport
from dice_ce.benchmark.vlm.loading import VlmOptions, load_vlm
from dice_ce.benchmark.vlm.registry import VLMS, VlmEntry

__all__ = ["VLMS", "VlmDiagnoser", "VlmEntry", "VlmOptions", "VlmReport", "load_vlm"]
