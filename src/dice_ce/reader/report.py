"""The report that a person signs: HTML that is complete in itself, and the same as PDF."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from dice_ce import DISCLAIMER, __version__
from dice_ce.errors import require
from dice_ce.exam.clock import hms
from dice_ce.outputs.report.pages import environment
from dice_ce.outputs.report.words import heading
from dice_ce.outputs.signed import SignedFinding, SignedImage, SignedReview
from dice_ce.reader.actions import MOST_IMAGES
from dice_ce.reader.contract import Measures
from dice_ce.reader.measures import Clock, work_out
from dice_ce.reader.state import Signed, State, fold
from dice_ce.reader.storage import Loaded, SignedReport
from dice_ce.reader.track import draw_track
from dice_ce.reader.views import section_views
from dice_ce.reader.wording import cleanliness_words, duration

TEMPLATES = Path(__file__).parent / "templates"
IMAGE_SIZE = 384


@dataclass(frozen=True)
class _ReportImage:
    title: str
    about: str
    by: str
    data: str | None
    """JPEG in base64."""


def frames_shown(state: State) -> tuple[int, ...]:
    """List the frames whose images a report shows."""
    shown = [frame for one in state.confirmed for frame in one.shown_images]
    return tuple(dict.fromkeys(shown[:MOST_IMAGES]))


def render_html(loaded: Loaded, clock: Clock, images: Mapping[int, bytes], signature: Signed | None) -> str:
    """Write the report as HTML: a draft, or the version that was signed.

    The same review and images give the same bytes.
    """
    state, reading = loaded.state, loaded.reading
    version = signature.version if signature else len(state.signatures) + (0 if state.is_signed else 1)
    summary = loaded.summary
    model = f", bundle {summary.provenance.bundle.name} {summary.provenance.bundle.digest[:12]}" if summary else ""
    return (
        environment(TEMPLATES)
        .get_template("signed.html.jinja")
        .render(
            name=reading.name,
            version=version,
            signature=signature,
            reason=signature.reason if signature else state.reason,
            sections=section_views(loaded, clock),
            measures=_measures(state, work_out(state, clock)),
            images=_images(loaded, clock, images),
            track=draw_track(state, clock),
            disclaimer=DISCLAIMER,
            made_with=f"Made with dice-ce {__version__}{model}. Exam content {reading.exam_digest[:12]}.",
            css=Markup((TEMPLATES / "signed.css").read_text()),
        )
    )


def render_pdf(html: str) -> bytes:
    """Lay the HTML out as PDF; nothing is fetched from anywhere but the page itself."""
    weasyprint = require("weasyprint", extra="reader", purpose="writing PDF")
    fetcher = weasyprint.URLFetcher(allowed_protocols=["data"])
    pdf: bytes = weasyprint.HTML(string=html, url_fetcher=fetcher).write_pdf()
    return pdf


def signed_report(loaded: Loaded, clock: Clock, images: Mapping[int, bytes]) -> SignedReport:
    """Make the files of the version that was signed last."""
    signature = loaded.state.signatures[-1]
    html = render_html(loaded, clock, images, signature)
    pdf = render_pdf(html)
    return SignedReport(signature.version, html.encode(), pdf, hashlib.sha256(pdf).hexdigest())


def as_signed(loaded: Loaded, version: int) -> Loaded:
    """Return a review as it was when a version was signed."""
    events = loaded.events[: loaded.state.signatures[version - 1].sequence]
    return replace(loaded, events=events, state=fold(loaded.initial, events))


def signed_review(loaded: Loaded, clock: Clock, images: Mapping[int, bytes], pdf: bytes) -> SignedReview:
    """Say for other systems what the version that was signed last says; an image that is gone is only in the PDF."""
    state, summary, signature = loaded.state, loaded.summary, loaded.state.signatures[-1]
    bundle = summary.provenance.bundle if summary else None
    shown = [(number, frame) for number, one in enumerate(state.confirmed, start=1) for frame in one.shown_images]
    return SignedReview(
        exam_digest=loaded.reading.exam_digest,
        version=signature.version,
        by=signature.by,
        at=signature.at,
        pdf=pdf,
        impression=next(one.text for one in section_views(loaded, clock) if one.name == "impression"),
        findings=tuple(
            SignedFinding(one.label, one.keyframe, clock.seconds(one.keyframe), one.note) for one in state.confirmed
        ),
        images=tuple(
            SignedImage(place, number, frame, images[frame])
            for place, (number, frame) in enumerate(shown[:MOST_IMAGES], start=1)
            if frame in images
        ),
        is_exam_time=loaded.reading.is_exam_time,
        model=f"{bundle.name} {bundle.digest[:12]}" if bundle else "",
    )


def _images(loaded: Loaded, clock: Clock, images: Mapping[int, bytes]) -> list[_ReportImage]:
    found: list[_ReportImage] = []
    wanted = frames_shown(loaded.state)
    for number, one in enumerate(loaded.state.confirmed, start=1):
        for frame in one.shown_images:
            if frame in wanted:
                jpeg = images.get(frame)
                when = one.at.strftime("%Y-%m-%d") if one.at else ""
                found.append(
                    _ReportImage(
                        title=f"{number}. {heading(one.label)}",
                        about=f"{hms(clock.seconds(frame))}, frame {frame}",
                        by=f"decided by {one.by}, {when}",
                        data=base64.b64encode(jpeg).decode() if jpeg else None,
                    )
                )
    return found[:MOST_IMAGES]


def _measures(state: State, measures: Measures) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if measures.gastric_seconds is not None:
        rows.append(("Gastric transit time", duration(measures.gastric_seconds)))
    if measures.small_bowel_seconds is not None:
        rows.append(("Small-bowel transit time", duration(measures.small_bowel_seconds)))
    if said := cleanliness_words(state.cleanliness, measures):
        rows.append(("Small-bowel cleanliness (Brotz)", said))
    if measures.lewis_score is not None:
        tertiles = ", ".join(map(str, measures.lewis_tertiles or ()))
        rows.append(("Lewis score", f"{measures.lewis_score}, {measures.lewis_grade} (tertiles {tertiles})"))
    if measures.cecdai_score is not None:
        segments = " + ".join(map(str, measures.cecdai_segments or ()))
        rows.append(("CECDAI", f"{measures.cecdai_score} of 36 ({segments})"))
    return rows
