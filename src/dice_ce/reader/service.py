"""What the routes do, free of HTTP: reading and deciding on one exam at a time."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dice_ce.errors import InputError
from dice_ce.exam.codec import encode_image
from dice_ce.method.summary import Summary, unfinished_text
from dice_ce.outputs.signed import SignedReview
from dice_ce.reader import contract as c
from dice_ce.reader.accounts import Accounts, Person
from dice_ce.reader.actions import Sign
from dice_ce.reader.exports import Download, export_choices, export_signed, make_export
from dice_ce.reader.frames import MissingVideoError, UndecodableError, VideoFacts, Videos, summary_clock
from dice_ce.reader.marks import Marker, mark_in_summary
from dice_ce.reader.measures import Clock, find_knots
from dice_ce.reader.report import IMAGE_SIZE, as_signed, frames_shown, render_html, signed_report, signed_review
from dice_ce.reader.state import RefusedError, Signed, add_event
from dice_ce.reader.storage import ConflictError, Loaded, Reading, SignedReport, Storage, now
from dice_ce.reader.timeline import Timelines
from dice_ce.reader.views import LEAST_DECISIONS, exam_view, history_view, review_view


class NotFoundError(Exception):
    """There is no such thing, or it is not for this person; which of the two is not told."""


@dataclass(frozen=True)
class Service:
    """Everything that a server holds."""

    storage: Storage
    accounts: Accounts
    videos: Videos
    timelines: Timelines
    marker: Marker
    local_key: str
    """Opens a session where there are no accounts."""
    local_user: str
    public_url: str | None = None

    def close(self) -> None:
        """Stop background work and let go of files."""
        self.timelines.close()
        self.videos.close()
        self.storage.close()

    def reading(self, exam: str, person: Person) -> tuple[Reading, Summary | None]:
        """Find an exam without adding its decisions up, if this person may see it: enough for its frames."""
        reading = self.storage.reading(exam)
        if reading is None or not reading.may_be_seen_by(person.user, person.role):
            raise NotFoundError("there is no such exam")
        return reading, self.storage.summary(reading.summary)

    def load(self, exam: str, person: Person) -> Loaded:
        """Read a review, if this person may see it."""
        loaded = self.storage.load(exam)
        if loaded is None or not loaded.reading.may_be_seen_by(person.user, person.role):
            raise NotFoundError("there is no such exam")
        return loaded

    def clock(self, loaded: Loaded, facts: VideoFacts | None = None) -> Clock:
        """Tell the times of an exam: by its own clock, or as far as the summary knows them."""
        facts = facts or self.videos.facts(loaded.reading, loaded.summary)
        if facts.clock is not None:
            return facts.clock
        if loaded.summary is not None:
            return summary_clock(loaded.summary)
        last = max(1, loaded.reading.frames - 1)
        return find_knots((0, last), (0.0, loaded.reading.duration))

    def pace(self) -> float | None:
        """Return the measured seconds per decision."""
        return self.storage.decision_pace(LEAST_DECISIONS)

    def review(self, loaded: Loaded, person: Person) -> c.Review:
        """Show a review."""
        digests = self.storage.report_digests(loaded.reading.id) if loaded.state.signatures else {}
        return review_view(loaded, self.clock(loaded), digests, person.user)

    def details(self, loaded: Loaded, person: Person) -> c.ExamDetails:
        """Show an exam."""
        # An exam without results is known by its video only, so that it is worth waiting for.
        look = self.videos.facts if loaded.summary else self.videos.wait
        facts = look(loaded.reading, loaded.summary)
        return exam_view(loaded, self.clock(loaded, facts), facts, self.review(loaded, person), self.pace())

    def history(self, loaded: Loaded) -> c.History:
        """Show the audit trail."""
        name = loaded.reading.id
        return history_view(loaded, self.storage.trail(name), self.storage.deeds(name), self.clock(loaded))

    def timeline(self, loaded: Loaded) -> c.Timeline:
        """Show the exam at a glance."""
        return self.timelines.of(loaded.reading, loaded.summary, self.clock(loaded))

    def evidence(self, loaded: Loaded, frame: int, label: str) -> c.Evidence:
        """Say where in a frame the evidence for a label lies."""
        summary = loaded.summary
        if summary is None:
            raise NotFoundError("this exam was not summarised, so that there is no evidence")
        if label not in summary.taxonomy.labels:
            raise NotFoundError(f"'{label[:80]}' is not a label of the software")
        mark = mark_in_summary(summary, frame, label)
        if mark is None:
            facts = self.videos.wait(loaded.reading, summary)
            if facts.video is None:
                raise MissingVideoError(facts.message)
            mark = self.marker.mark(facts.video.exam, summary, frame, label)
        return c.Evidence(label=label, mark=c.Mark(**asdict(mark)) if mark else None)

    def decide(self, loaded: Loaded, person: Person, decide: c.Decide) -> Loaded:
        """Add a decision; a signature comes with the report that it makes final."""
        name, at, report = loaded.reading.id, now(), None
        if isinstance(decide.action, Sign) and loaded.summary is not None and loaded.summary.exam.read < 1:
            raise RefusedError(f"{unfinished_text(loaded.summary.exam.read)}; sign it then", "unfinished")
        if isinstance(decide.action, Sign) and len(loaded.events) == decide.expected_version:
            event, state = add_event(loaded.initial, loaded.events, decide.action, person.user, at)
            signed = replace(loaded, events=(*loaded.events, event), state=state)
            report = signed_report(signed, self._report_clock(loaded), self._report_images(loaded))
        return self.storage.append(
            name, decide.action, by=person.user, key=decide.key, expected=decide.expected_version, at=at, report=report
        )

    def report(self, loaded: Loaded, version: int | None) -> SignedReport | str:
        """Return a signed report, or the HTML of the draft."""
        signatures = loaded.state.signatures
        if version is None and loaded.state.is_signed:
            version = len(signatures)
        if version is None or (version == len(signatures) + 1 and not loaded.state.is_signed):
            return render_html(loaded, self._report_clock(loaded), self._report_images(loaded), None)
        found = self.storage.report(loaded.reading.id, version)
        if found is None:
            raise NotFoundError(f"there is no version {version} of this report")
        return found

    def export(self, loaded: Loaded, kind: str, version: int | None) -> Download:
        """Make what other systems take of a signed version, or of the results that this reading is about."""
        if kind not in {one.kind for one in export_choices() if one.missing is None}:
            raise NotFoundError(f"'{kind}' cannot be made here")
        reading = loaded.reading
        if version is not None:
            return export_signed(self._signed(loaded, version), kind, reading.name)
        if reading.folder is None or reading.summary is None:
            raise NotFoundError("this exam was not summarised, so that there is nothing to export")
        folder, gone = Path(reading.folder), "the results that this reading began with are not there any more"
        try:
            if hashlib.sha256((folder / "summary.json").read_bytes()).hexdigest() != reading.summary:
                raise NotFoundError(gone)
            return make_export(folder, kind, reading.name)
        except (OSError, InputError) as error:  # the line would name a place on the server
            raise NotFoundError(f"{gone}, or not complete") from error

    def _signed(self, loaded: Loaded, version: int) -> SignedReview:
        """Collect what a version said when it was signed."""
        found = self.storage.report(loaded.reading.id, version)
        if found is None:
            raise NotFoundError(f"there is no version {version} of this report")
        then = as_signed(loaded, version)
        return signed_review(then, self._report_clock(then), self._report_images(then), found.pdf)

    def _report_clock(self, loaded: Loaded) -> Clock:
        return self.clock(loaded, self.videos.wait(loaded.reading, loaded.summary))

    def _report_images(self, loaded: Loaded) -> dict[int, bytes]:
        """Fetch what the report shows; without the video, what lies beside the summary."""
        wanted = frames_shown(loaded.state)
        try:
            found = self.videos.images(loaded.reading, loaded.summary, wanted, IMAGE_SIZE)
            return {frame: encode_image(image, ".jpg") for frame, image in found.items()}
        except MissingVideoError:
            kept: dict[int, bytes] = {}
            for frame in wanted:
                try:
                    kept[frame] = self.videos.jpeg(loaded.reading, loaded.summary, frame, None)
                except (MissingVideoError, UndecodableError):
                    continue
            return kept


__all__ = ["ConflictError", "NotFoundError", "Service", "Signed"]
