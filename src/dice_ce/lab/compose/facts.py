"""A composition in figures, from its plan alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from dice_ce.datasets.splits import SPLITS
from dice_ce.lab.compose.life import hidden
from dice_ce.lab.compose.plan import ExamPlan
from dice_ce.taxonomy import VIDEOCAP_12

WINDOW = 300.0
"""Seconds: what stands in for the Context Weaver in the paper's ablation."""


def plan_facts(plans: Sequence[ExamPlan]) -> dict[str, Any]:
    """Count what a composition shows; shares are means over exams."""
    findings = [len(plan.reported) for plan in plans]
    lesions = [_share(plan, bool) for plan in plans]
    return {
        "exams": {split: sum(plan.split == split for plan in plans) for split in SPLITS},
        "patients": len({plan.patient_id for plan in plans}),
        "frames": sum(len(plan) for plan in plans),
        "images": len({frame.path for plan in plans for frame in plan.played.images}),
        "hours": _spread([float(plan.walk.seconds[-1]) / 3600 for plan in plans]),
        "findings": sum(findings),
        "findings_per_exam": _spread(findings),
        "findings_per_exam_by_split": {
            split: round(mean(counts), 4)
            for split in SPLITS
            if (counts := [len(plan.reported) for plan in plans if plan.split == split])
        },
        "exams_by_findings": [findings.count(n) for n in range(max(findings) + 1)],
        "events_per_exam": _spread([sum(bool(one.label) for one in plan.sightings) for plan in plans]),
        "crowded_windows": _crowded(plans),
        "lesion_share": _spread(lesions),
        "distractor_share": _spread([_share(plan, lambda label: not label) for plan in plans]),
        "resting_share": _spread([float(np.mean(plan.walk.pace == 0)) for plan in plans]),
        "spoiled_share": _spread([float(np.mean(hidden(len(plan), plan.episodes) > 0)) for plan in plans]),
        "other_make_share": _spread([_other_make(plan) for plan in plans]),
        "makes": dict(sorted(Counter(plan.make for plan in plans).items())),
        "events_without_frames": sum(plan.unfilled for plan in plans),
        "labels": {
            label: {"events": events, "findings": _count(plans, label)}
            for label in VIDEOCAP_12
            if (events := sum(one.label == label for plan in plans for one in plan.sightings))
        },
    }


def _crowded(plans: Sequence[ExamPlan]) -> float:
    """Return the share of the 300 s windows with lesions that show several kinds of them."""
    kinds: dict[tuple[str, int], set[str]] = defaultdict(set)
    for plan in plans:
        window = np.floor_divide(np.asarray(plan.walk.seconds, np.float64), WINDOW).astype(int)
        for one in plan.sightings:
            if one.label:
                for number in np.unique(window[one.first : one.first + one.frames]).tolist():
                    kinds[plan.exam_id, number].add(one.label)
    return round(mean(len(labels) > 1 for labels in kinds.values()), 4) if kinds else 0.0


def _share(plan: ExamPlan, which: Any) -> float:
    return sum(one.frames for one in plan.sightings if which(one.label)) / len(plan)


def _other_make(plan: ExamPlan) -> float:
    return sum(stretch.frames for stretch in plan.stretches if stretch.source != plan.make) / len(plan)


def _count(plans: Sequence[ExamPlan], label: str) -> int:
    return sum(one.label == label for plan in plans for one in plan.reported)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": round(mean(values), 4), "least": round(min(values), 4), "most": round(max(values), 4)}


def plan_text(plans: Sequence[ExamPlan]) -> str:
    """Tell the same to people."""
    facts = plan_facts(plans)

    def spread(name: str, unit: str = "", factor: float = 1.0, decimals: int = 1) -> str:
        low, middle, high = (f"{facts[name][key] * factor:.{decimals}f}" for key in ("least", "mean", "most"))
        return f"{middle}{unit} on average ({low} to {high})"

    crowded = 100 * facts["crowded_windows"]
    exams = ", ".join(f"{count} {split}" for split, count in facts["exams"].items())
    makes = ", ".join(f"{count} {make}" for make, count in facts["makes"].items())
    by_split = ", ".join(f"{count:.1f} {split}" for split, count in facts["findings_per_exam_by_split"].items())
    lines = [
        f"exams          {len(plans)} ({exams}) of {facts['patients']} timelines, {facts['frames']:,} frames",
        f"images       {facts['images']:,} real images",
        f"exam hours     {spread('hours')}",
        f"findings       {facts['findings']}; {spread('findings_per_exam')} per exam; {by_split}",
        f"lesion events  {spread('events_per_exam', decimals=0)} per exam",
        f"crowded        {crowded:.1f} % of the 300 s windows with lesions show more than one kind",
        f"lesion frames  {spread('lesion_share', ' %', 100)}",
        f"distractors    {spread('distractor_share', ' %', 100)} of frames",
        f"at rest        {spread('resting_share', ' %', 100, 0)} of frames",
        f"poor view      {spread('spoiled_share', ' %', 100)} of frames",
        f"makes          {makes}; {spread('other_make_share', ' %', 100)} of frames come from another make",
        f"left out       {facts['events_without_frames']} events of the timelines, for want of frames",
        "",
        *(
            f"  {label:34}{own['events']:6,} events {own['findings']:5,} findings"
            for label, own in facts["labels"].items()
        ),
    ]
    return "\n".join(lines)
