"""The pictures of the paper, from the results of a benchmark."""

from .plots_case import draw_case_study
from .plots_exam import choose_patient
from .plots_methods import draw_figures, draw_inconsistency, draw_switches
from .plots_timeline import draw_timeline

__all__ = [
    "choose_patient",
    "draw_case_study",
    "draw_figures",
    "draw_inconsistency",
    "draw_switches",
    "draw_timeline",
]
