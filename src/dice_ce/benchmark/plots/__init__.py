"""The plots of the paper, from the results of a benchmark."""

from dice_ce.benchmark.plots.case import draw_case_study
from dice_ce.benchmark.plots.exam import choose_patient
from dice_ce.benchmark.plots.methods import draw_curves, draw_figures, draw_inconsistency, draw_switches
from dice_ce.benchmark.plots.timeline import draw_timeline

__all__ = [
    "choose_patient",
    "draw_case_study",
    "draw_curves",
    "draw_figures",
    "draw_inconsistency",
    "draw_switches",
    "draw_timeline",
]
