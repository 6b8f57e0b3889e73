"""Composed exams: real frames of public datasets on the real timelines of whole exams.

No public dataset has whole exams with the findings of their reports. This builds the nearest honest thing; what is real
in it and what is not stands in docs/explanation/composed-exams.md.

    sightings.py   timeline -> what is seen when, in an exam of so many frames
    casting.py     which real frames play which stretch
    life.py        pace, clock, camera motion, what passes before the lens
    playing.py     which source frame at which frame
    reported.py    what a report would say of it
    plan.py        all of that, in order: plan_exams()
    windows.py     fields of view, and images continued beyond theirs
    sprites.py     bubbles and debris
    render.py      plan -> frames
    write.py       frames -> a dataset: compose()
    truth.py       what every frame shows
    facts.py       a plan in figures
    chart.py       a plan as an image
"""

from __future__ import annotations

from dice_ce.lab.compose.facts import plan_facts, plan_text
from dice_ce.lab.compose.plan import ExamPlan, plan_exams
from dice_ce.lab.compose.write import Composition, compose

__all__ = ["Composition", "ExamPlan", "compose", "plan_exams", "plan_facts", "plan_text"]
