"""Real recordings: the labelled frames of a capsule video, put back at their true places.

Kvasir-Capsule names its images by video and frame number. One patient, the true order and the true times, with gaps
where nothing is labelled, make an exam that no composition can stand in for. What a report would have said is read off
the labels, in two ways:

1. findings: runs of one lesion label at most 300 s apart, the protocol's window, are one finding, timed at the middle
   frame of the longest run. A lesion that comes and goes is reported once.
2. runs: every run is a finding of its own.

A run are frames of one label at most 10 s apart, without another label between them.
"""

from __future__ import annotations

import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dice_ce.csvfile import table_text
from dice_ce.datasets.folder import ExamRow, write_dataset
from dice_ce.datasets.splits import fold_cases, fold_name
from dice_ce.datasets.tables import Annotation, Finding, LabelledFrame
from dice_ce.errors import InputError
from dice_ce.exam.clock import ClockOptions
from dice_ce.files import atomic_file, write_atomically
from dice_ce.table import bars
from dice_ce.taxonomy import NORMAL
from dice_ce.types import Progress

RATE = 2
"""Frames per exam second of Kvasir-Capsule's recorder."""
RUN_SECONDS = 10.0
FINDING_SECONDS = 300.0
SOURCE = "KVASIR"
RUNS = "runs"
"""Folder of the second reading, beside the exams of the first."""
FEWEST = 30
"""Labelled frames without which a video is no recording."""


@dataclass(frozen=True)
class Run:
    """Frames of one lesion label in a row."""

    label: str
    frames: tuple[int, ...]
    """Frame numbers in the video."""

    @property
    def middle(self) -> int:
        """The frame that stands for it."""
        return self.frames[len(self.frames) // 2]


@dataclass(frozen=True)
class Recording:
    """One video: its labelled frames in order, and what they show."""

    case: str
    split: str
    frames: tuple[LabelledFrame, ...]
    runs: tuple[Run, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a report would say: lesions, each once."""
        groups: list[list[Run]] = []
        last: dict[str, list[Run]] = {}
        for run in self.runs:
            group = last.get(run.label)
            if group and run.frames[0] - group[-1].frames[-1] <= FINDING_SECONDS * RATE:
                group.append(run)
            else:
                last[run.label] = [run]
                groups.append(last[run.label])
        return _numbered((group[0].label, max(group, key=lambda run: len(run.frames)).middle) for group in groups)

    @property
    def every_run(self) -> tuple[Finding, ...]:
        """The second reading."""
        return _numbered((run.label, run.middle) for run in self.runs)


def _numbered(found: Iterable[tuple[str, int]]) -> tuple[Finding, ...]:
    return tuple(Finding(f"f{i + 1}", number / RATE, label) for i, (label, number) in enumerate(found))


def find_recordings(frames: Sequence[LabelledFrame]) -> list[Recording]:
    """Put the frames of every video back in order; each recording has the fold of its case."""
    cases: dict[str, dict[int, LabelledFrame]] = defaultdict(dict)
    for frame in frames:
        if frame.source == SOURCE and frame.case and frame.number is not None:
            cases[frame.case][frame.number] = frame
    folds = fold_cases(frames)
    return [
        Recording(case, fold_name(folds[case]), tuple(ordered), tuple(find_runs(ordered)))
        for case, found in sorted(cases.items())
        if len(ordered := [found[number] for number in sorted(found)]) >= FEWEST
    ]


def find_runs(frames: Sequence[LabelledFrame]) -> list[Run]:
    """Find the runs of lesions; a frame that shows several belongs to a run of each."""
    runs: list[tuple[str, list[int]]] = []
    open_runs: dict[str, list[int]] = {}
    for frame in frames:
        assert frame.number is not None
        lesions = [label for label in frame.labels if label != NORMAL]
        open_runs = {label: numbers for label, numbers in open_runs.items() if label in lesions}
        for label in lesions:
            numbers = open_runs.get(label)
            if numbers is None or frame.number - numbers[-1] > RUN_SECONDS * RATE:
                numbers = open_runs[label] = []
                runs.append((label, numbers))
            numbers.append(frame.number)
    return [Run(label, tuple(numbers)) for label, numbers in runs]


def write_recordings(frames: Sequence[LabelledFrame], out: Path, progress: Progress | None = None) -> list[Recording]:
    """Write all recordings as a dataset, and in its folder `runs` the same exams with every run a finding."""
    recordings = find_recordings(frames)
    if not recordings:
        raise InputError(
            f"no video of {SOURCE} has {FEWEST} labelled frames with numbers; give Kvasir-Capsule's images"
        )
    rows = []
    for done, recording in enumerate(recordings):
        video = out / "exams" / f"{recording.case}.zip"
        _write_frames(video, recording)
        clock = video.with_suffix(".clock.csv")
        seconds = [(i, float(Fraction(frame.number or 0, RATE))) for i, frame in enumerate(recording.frames)]
        write_atomically(clock, table_text(("frame", "seconds"), seconds).encode())
        shown = [(i, time, _main_label(frame)) for (i, time), frame in zip(seconds, recording.frames, strict=True)]
        truth = video.with_suffix(".truth.csv")
        write_atomically(truth, table_text(("frame", "seconds", "label"), shown).encode())
        rows.append(ExamRow(recording.case, recording.case, recording.split, video, ClockOptions(sidecar=clock)))
        if progress:
            progress(done + 1, len(recordings))
    readings = ((out, "findings"), (out / RUNS, "every_run"))
    for folder, reading in readings:
        found = {one.case: Annotation(one.case, getattr(one, reading)) for one in recordings}
        write_dataset(folder, rows, found)
    return recordings


def _main_label(frame: LabelledFrame) -> str:
    """Name the one label that a model should say; what is outside the taxonomy is nothing to report."""
    return next((label for label in frame.labels if label != NORMAL), NORMAL)


def _write_frames(target: Path, recording: Recording) -> None:
    """Store the images unchanged, named by their place in the video; the same frames give the same bytes."""
    if target.exists():
        return
    with atomic_file(target) as file, zipfile.ZipFile(file, "w") as archive:
        for frame in recording.frames:
            name = zipfile.ZipInfo(f"{frame.number:06d}{frame.path.suffix.lower()}")
            archive.writestr(name, frame.path.read_bytes())


def recordings_text(recordings: Sequence[Recording]) -> str:
    """Sum the recordings up."""
    with_findings = [one for one in recordings if one.findings]
    labels = Counter(finding.label for one in recordings for finding in one.findings)
    hours = sum((one.frames[-1].number or 0) - (one.frames[0].number or 0) for one in recordings) / RATE / 3600
    return (
        f"{len(recordings)} recordings, {sum(len(one.frames) for one in recordings):,} frames over {hours:.1f} hours; "
        f"{len(with_findings)} with {sum(labels.values())} findings in "
        f"{sum(len(one.runs) for one in recordings)} runs, {len(recordings) - len(with_findings)} with none\n"
        + bars(dict(labels.most_common()))
    )
