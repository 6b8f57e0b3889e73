"""Findings with all their evidence, and what was dropped with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dice_ce.exam.clock import hms
from dice_ce.method.reliability import Reliability
from dice_ce.method.summary import Frame, Summary, SummaryItem
from dice_ce.outputs.report.markup import Material, anchor, duration, grade_class, number, percent, plural, title

KEYFRAME_SIZE, THUMBNAIL_SIZE, DROPPED_SIZE = 420, 112, 160
MOST_SUPPORT, MOST_DISSENT = 12, 6
MOST_DROPPED_IMAGES = 60
STRIPS = {"support": "Supporting frames", "dissent": "Frames that disagree"}
GROUPS = (
    ("beside_likelier", "Beside a likelier one", "Convincing, but a likelier finding lies next to it."),
    ("unlikely", "Unlikely to be reported", "Convincing by itself, but a report would hardly mention it."),
    ("low_confidence", "Too doubtful", "Not normal, but no label gathered enough evidence."),
    ("normal", "Normal", "Most of the evidence says normal."),
)


def findings_section(summary: Summary, material: Material) -> str:
    """List the findings in exam order."""
    cards = "".join(
        _finding(item, rank, summary.reliability_of(item.label), material)
        for rank, item in enumerate(summary.items, start=1)
    )
    heading = plural(len(summary.items), "finding") if summary.items else "No findings"
    return f"""<section class="findings" aria-labelledby="findings-title">
<h2 id="findings-title">{heading}</h2>
{"" if summary.items else _nothing(summary)}<ol id="findings">
{cards}</ol>
</section>"""


def _nothing(summary: Summary) -> str:
    below = (
        f" {plural(len(summary.dropped), 'possible finding')} set aside can be looked at below."
        if summary.dropped
        else ""
    )
    return (
        '<p class="nothing"><strong>Nothing was found abnormal with enough certainty.</strong> '
        f"This does not show that the exam is normal.{below}</p>\n"
    )


def spread(frames: Sequence[Frame], most: int, always: Frame | None = None) -> list[Frame]:
    """Choose at most so many frames evenly, with one that is never left out."""
    kept = {*frames} if always is None else {*frames, always}
    ordered = sorted(kept, key=lambda frame: (frame.seconds, frame.frame))
    last = len(ordered) - 1
    if last < most:
        return ordered
    chosen = [round(i * last / (most - 1)) for i in range(most)]
    if always is not None:
        place = ordered.index(always)
        chosen[min(range(most), key=lambda i: abs(chosen[i] - place))] = place
    return [ordered[i] for i in chosen]


def _finding(item: SummaryItem, rank: int, reliability: Reliability, material: Material) -> str:
    alt = f"Keyframe of {item.label} at {material.time(item.keyframe.seconds)}"
    return f"""<li id="{anchor(item)}" class="context finding {material.colour(item.label)}" tabindex="0"
 data-seconds="{item.keyframe.seconds:g}" aria-labelledby="{anchor(item)}-title">
<button type="button" class="keyframe" aria-label="Enlarge the keyframe">
{material.image(item.keyframe.frame, KEYFRAME_SIZE, alt)}</button>
<div class="said">
<h3 id="{anchor(item)}-title"><span class="rank">{rank}</span> {material.glyph(item.label)} {title(item.label)}</h3>
<p class="when"><time>{material.time(item.keyframe.seconds)}</time> <span>{_name(item.keyframe)}</span></p>
{_numbers(item, material)}
{_caution(item.label, reliability)}
<p class="reason">{escape(item.reason)}</p>
</div>
{_evidence(item, material)}
{_strips(item, material)}
</li>
"""


def _name(frame: Frame) -> str:
    """Say which frame this is: its number and, in a folder or zip, its file."""
    return f"frame {frame.frame}" + (f", {escape(frame.file)}" if frame.file else "")


def _numbers(item: SummaryItem, material: Material) -> str:
    ahead = f"{100 * item.margin:.0f}\u00a0points<small>next: {escape(item.runner_up)}</small>"
    facts = (
        ("How sure", f"{percent(item.confidence)}<small>of the evidence</small>"),
        ("Ahead by", ahead),
        ("Seen", _seen(item, material)),
    )
    return (
        '<dl class="facts">' + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"
    )


def _caution(label: str, reliability: Reliability) -> str:
    """Say beside the confidence what it is worth."""
    grade = reliability.grade
    return (
        f'<p class="reliability {grade_class(grade)}"><strong>{title(label)}: {grade} on unseen cases</strong> '
        f"<span>{reliability.explain()}</span></p>"
    )


def _seen(item: SummaryItem, material: Material) -> str:
    length = item.last_seconds - item.first_seconds
    span = f"{material.time(item.first_seconds)} – {material.time(item.last_seconds)}"
    return (
        f"for {duration(length)}<small>{span}</small>"
        if length >= 1
        else f"once<small>{material.time(item.first_seconds)}</small>"
    )


def _evidence(item: SummaryItem, material: Material) -> str:
    """Draw what all frames say and what those that agree say, label by label."""
    rows = "".join(
        f'<tr class="{_role(label, item)}"><th scope="row">{escape(label)}</th>'
        f'<td class="{material.colour(label)}"><div class="track">'
        f'<span class="before" style="width:{100 * before:.1f}%"></span>'
        f'<span class="after" style="width:{100 * after:.1f}%"></span></div></td>'
        f"<td>{percent(before)}</td><td>{percent(after)}</td></tr>\n"
        for label, before, after in zip(material.taxonomy.labels, item.evidence_before, item.evidence, strict=True)
    )
    return f"""<table class="evidence">
<caption>Evidence over all labels <span>thin bar: all frames; thick bar: refined{_change(item)}</span></caption>
<thead><tr><th scope="col">Label</th><th scope="col"><span class="unseen">Share</span></th>
<th scope="col">all frames</th><th scope="col">refined</th></tr></thead>
<tbody>
{rows}</tbody>
</table>"""


def _role(label: str, item: SummaryItem) -> str:
    return "winner" if label == item.label else "second" if label == item.runner_up else "other"


def _change(item: SummaryItem) -> str:
    return f"; before refinement: {escape(item.provisional)}" if item.provisional != item.label else ""


def _strips(item: SummaryItem, material: Material) -> str:
    time = "time" if material.is_exam_time else "playback time"
    support = _strip("support", item.support, spread(item.support, MOST_SUPPORT, item.keyframe), item, material)
    dissent = _strip("dissent", item.dissent, spread(item.dissent, MOST_DISSENT), item, material)
    what = f'<p class="note">Below each frame: its {time} and the probability it gives {escape(item.label)}.</p>'
    return f'<div class="strips">\n{support}{dissent}{what}\n</div>'


def _strip(kind: str, frames: Sequence[Frame], shown: Sequence[Frame], item: SummaryItem, material: Material) -> str:
    if not shown:
        return ""
    count = number(len(frames)) if len(shown) >= len(frames) else f"{len(shown)} of {number(len(frames))}"
    images = "".join(_thumbnail(frame, frame == item.keyframe, material) for frame in shown)
    return f"""<section class="{kind}"><h4>{STRIPS[kind]} <span>{count}</span></h4>
<ul class="strip">
{images}</ul></section>
"""


def _thumbnail(frame: Frame, is_keyframe: bool, material: Material) -> str:
    words = f"keyframe, {_name(frame)}" if is_keyframe else _name(frame)
    mark = ' class="key"' if is_keyframe else ""
    image = material.image(frame.frame, THUMBNAIL_SIZE, f"Frame {frame.frame}")
    return f'<li{mark} title="{words}">{image}<span>{hms(frame.seconds)}<br>{percent(frame.probability)}</span></li>\n'


# --- dropped -------------------------------------------------------------------------------------------------------


def dropped_section(summary: Summary, material: Material) -> str:
    """Fold away what was dropped, the doubtful before the normal."""
    if not summary.dropped:
        return '<section class="dropped-all"><h2>Set aside</h2><p class="lead">Nothing was set aside.</p></section>'
    imaged = set(map(id, most_worth_a_look(summary.dropped)[:MOST_DROPPED_IMAGES]))
    groups, counts = [], []
    for verdict, name, meaning in GROUPS:
        items = [item for item in summary.dropped if item.verdict == verdict]
        if not items:
            continue
        counts.append(f"{number(len(items))} {name.lower()}")
        rows = "".join(_dropped(item, id(item) in imaged, material) for item in items)
        groups.append(
            f'<section class="group"><h3>{name} <span>{number(len(items))}</span></h3>\n<p class="lead">{meaning}</p>\n'
            f'<ol class="dropped" data-verdict="{verdict}">\n{rows}</ol></section>\n'
        )
    return f"""<section class="dropped-all" aria-labelledby="dropped-title">
<h2 id="dropped-title">Set aside</h2>
<details id="dropped">
<summary>{plural(len(summary.dropped), "possible finding")} set aside: {", ".join(counts)}</summary>
{"".join(groups)}</details>
</section>"""


def most_worth_a_look(dropped: Sequence[SummaryItem]) -> list[SummaryItem]:
    """Order by how near each was to being kept: sure doubts first, then doubtful normals."""

    def nearness(item: SummaryItem) -> tuple[bool, float]:
        return (True, item.confidence) if item.verdict == "normal" else (False, -item.confidence)

    return sorted(dropped, key=nearness)


def _dropped(item: SummaryItem, has_image: bool, material: Material) -> str:
    alt = f"Keyframe of what was set aside at {material.time(item.keyframe.seconds)}"
    image = (
        f'<button type="button" class="keyframe" aria-label="Enlarge the keyframe">'
        f"{material.image(item.keyframe.frame, DROPPED_SIZE, alt)}</button>"
        if has_image
        else ""
    )
    return f"""<li id="{anchor(item)}" class="context {"pictured" if has_image else "bare"}"
 data-seconds="{item.keyframe.seconds:g}" data-verdict="{item.verdict}" aria-labelledby="{anchor(item)}-title">
{image}<div class="said">
<h4 id="{anchor(item)}-title">{material.glyph(item.label)} {title(item.label)} <b>{percent(item.confidence)}</b></h4>
<p class="when"><time>{material.time(item.keyframe.seconds)}</time> <span>{_name(item.keyframe)}</span>
<span class="badge" hidden>restored by the reader</span></p>
<p class="reason">{escape(item.reason)}</p>
<button type="button" class="back needs-js">Restore</button>
</div>
</li>
"""
