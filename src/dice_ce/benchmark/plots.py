"""The pictures of the paper, from the results of a benchmark."""

from .plots_case import draw_case_study
from .plots_exam import Span, choose_patient, read_truth_spans
from .plots_methods import draw_figures, draw_inconsistency, draw_switches
from .plots_timeline import draw_timeline

__all__ = [
    "Span",
    "choose_patient",
    "draw_case_study",
    "draw_figures",
    "draw_inconsistency",
    "draw_switches",
    "draw_timeline",
    "read_truth_spans",
]
