"""The truth about a composed exam, frame by frame: what it shows, where its pixels come from, and what lies over them.

frame        ordinal
label        what a model of the twelve labels should say; `normal` also for a distractor
finding_id   the reported finding it belongs to; empty for what the report passes over
visible      share of the image that the lesion's boxes take; empty where nobody drew one
seconds      exam time
labels       all that the source says about the image, `|` between several; empty for a distractor
organ        of the timeline; the pixels do not show it
event_id     one number for each coming-back
kind         normal, timeline, extra (a lesion that no timeline has) or distractor
source       dataset of the image
case         its case there
path         the image, relative to the folder of frames
effects      what spoils the view, `|` between several
"""

from __future__ import annotations

from pathlib import Path

from dice_ce.csvfile import table_text
from dice_ce.datasets.tables import LabelledFrame
from dice_ce.lab.compose.casting import Stretch
from dice_ce.lab.compose.plan import ExamPlan
from dice_ce.taxonomy import NORMAL

COLUMNS = (
    *("frame", "label", "finding_id", "visible", "seconds", "labels", "organ"),
    *("event_id", "kind", "source", "case", "path", "effects"),
)
"""The first four as the simulator writes them."""
BETWEEN = "|"


def truth_text(plan: ExamPlan, root: Path) -> str:
    """Write the table of an exam."""
    effects = _effects(plan)
    findings = {event: one.id for one in plan.reported for event in one.events}
    rows: list[tuple[object, ...]] = []
    for stretch in plan.stretches:
        finding, event, kind = _describe_stretch(plan, stretch, findings)
        for frame in range(stretch.first, stretch.stop):
            image = plan.image(frame)
            rows.append(
                (
                    frame,
                    stretch.label or NORMAL,
                    finding,
                    _visible(image, float(plan.motion.zoom[frame])),
                    f"{plan.walk.seconds[frame]:.3f}",
                    BETWEEN.join(image.labels),
                    plan.organs[frame],
                    event,
                    kind,
                    image.source,
                    image.case,
                    relative(image.path, root),
                    BETWEEN.join(effects[frame]),
                )
            )
    return table_text(COLUMNS, rows)


def _describe_stretch(plan: ExamPlan, stretch: Stretch, findings: dict[int, str]) -> tuple[str, str, str]:
    if stretch.sighting is None:
        return "", "", NORMAL
    kind = plan.sightings[stretch.sighting].kind
    return findings.get(stretch.sighting, ""), f"E{stretch.sighting + 1:04d}", kind


def _effects(plan: ExamPlan) -> list[list[str]]:
    """Name what spoils the view of each frame."""
    found: list[list[str]] = [[] for _ in range(len(plan))]
    for episode in plan.episodes:
        for frame in range(episode.first, episode.stop):
            if episode.effect not in found[frame]:
                found[frame].append(episode.effect)
    for frame, names in enumerate(found):
        if plan.motion.smear[frame]:
            names.append("motion blur")
        if plan.played.partner[frame] >= 0:
            names.append("change of frame")
    return found


def _visible(image: LabelledFrame, zoom: float) -> str:
    area = sum((box.right - box.left) * (box.bottom - box.top) for box in image.boxes)
    return f"{min(1.0, area * zoom**2):.3f}" if image.boxes else ""


def relative(path: Path, root: Path) -> str:
    """Name a file as seen from a folder, if it lies there."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
