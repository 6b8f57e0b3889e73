"""Exams like real ones, spliced from real images: what is seen when, by which images, and what a report would say.

Against composed exams: about 30,000 frames, lesion events of 4 to 30 frames that fill one or two frames in a hundred,
one patient's mucosa through most of an exam, real runs in their own order, several images for every lesion, and
findings reported by importance and best view, never by how long they are seen. Nothing is drawn: see
`dice_ce.datasets.spliced`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dice_ce.datasets.folder import ExamRow, write_dataset
from dice_ce.datasets.galar import import_galar
from dice_ce.datasets.pool import load_pool
from dice_ce.datasets.spliced import SUFFIX, VIEWS, Splice, splice_text, write_images
from dice_ce.datasets.splits import FOLDS, fold_cases, fold_name
from dice_ce.datasets.tables import Annotation, Finding, LabelledFrame, Timeline
from dice_ce.errors import InputError, UsageError
from dice_ce.files import write_atomically
from dice_ce.lab.compose.casting import DISTRACTOR, Cast, Reel, Stock, cast_frames, draw_case, draw_window, turned
from dice_ce.lab.compose.plan import FEWEST_FRAMES, draw_lot
from dice_ce.lab.compose.reported import Sight, choose_reported, framing, gather
from dice_ce.lab.compose.sightings import FEWEST, IMPORTANCE, Sighting, fit_sightings
from dice_ce.table import bars
from dice_ce.taxonomy import NORMAL, Taxonomy
from dice_ce.types import Progress

HOURS = (7.5, 10.5)
"""Length of an exam."""
LONGEST = 30
"""Frames of one event, at most."""
LESION_SHARE = (0.01, 0.02)
"""Share of the frames that all events together may take: drawn between these."""
OWN = 0.7
"""Share of normal stretches that show the exam's own patient; the others are of the same make."""
NORMAL_STRETCH = (20, 120)
"""Frames of normal mucosa that come from one place."""
FLANK = (10, 40)
"""Frames of normal mucosa beside a lesion that come from the lesion's own case."""
DISTRACTORS = 4.0
"""Mean number of events that show a foreign body."""
STAY = 0.6
"""Chance that the next frame shows the same image again; the capsule moves slowly."""
TURN = 0.5
"""Chance that it shows it in another view."""
ENOUGH = 50
"""Normal images that a case needs to fill an exam."""
THRESHOLD = 1.0
"""Score from which a finding is reported; about as many findings an exam as in VideoCAP (136 in 40)."""
PLENTY = 8
"""Events that a timeline should have of what the exam's make can show; else another one is taken."""


@dataclass(frozen=True, eq=False)
class SplicedExam:
    """One exam, and what its report says."""

    exam_id: str
    case: str
    """Whose mucosa fills most of it."""
    fold: int
    splice: Splice
    findings: tuple[Finding, ...]
    events: int


@dataclass(frozen=True)
class _Piece:
    """Frames that one reel plays."""

    frames: int
    label: str
    reel: Reel


def splice_exams(
    frames: Path, timelines: Path, out: Path, *, exams: int, frames_per_exam: int, seed: int, progress: Progress
) -> list[SplicedExam]:
    """Write a dataset of spliced exams, dealt evenly to the folds; the same arguments give the same bytes."""
    if exams < FOLDS:
        raise UsageError(f"--exams must be at least {FOLDS}, one for every fold, got {exams}")
    if frames_per_exam < FEWEST_FRAMES:
        raise UsageError(f"--frames-per-exam must be at least {FEWEST_FRAMES}, got {frames_per_exam}")
    pool = [frame for frame in load_pool(frames).frames if frame.case]
    lines = [line for line in import_galar(timelines).timelines if fit_sightings(line, frames_per_exam)]
    if not lines:
        raise InputError(f"{timelines}: no timeline shows a lesion; give Galar's events.json")
    made = []
    for exam in plan_splices(pool, lines, exams, frames_per_exam, seed):
        write_atomically(out / "exams" / f"{exam.exam_id}{SUFFIX}", splice_text(exam.splice, Taxonomy()).encode())
        made.append(exam)
        progress(len(made), exams)
    write_images(out, pool)
    rows = [
        ExamRow(exam.exam_id, exam.case, fold_name(exam.fold), out / "exams" / f"{exam.exam_id}{SUFFIX}")
        for exam in made
    ]
    write_dataset(out, rows, {exam.exam_id: Annotation(exam.exam_id, exam.findings) for exam in made})
    return made


def plan_splices(
    pool: Sequence[LabelledFrame], timelines: Sequence[Timeline], exams: int, frames: int, seed: int
) -> Iterator[SplicedExam]:
    """Plan exam after exam, fold after fold; every case of a fold fills an exam before any fills a second."""
    folds = {case: fold_name(fold) for case, fold in fold_cases(pool).items()}
    number = {frame.path: i for i, frame in enumerate(pool)}
    lines = sorted(timelines, key=lambda line: draw_lot(f"{seed}:{line.exam_id}"))
    for fold in range(FOLDS):
        stock = cast_frames(pool, folds, fold_name(fold))
        patients = _patients(stock, seed)
        if not patients:
            raise InputError(f"{fold_name(fold)}: no case has {ENOUGH} normal frames to fill an exam; give more cases")
        for place in range(fold, exams, FOLDS):
            turn = place // FOLDS
            make, case = patients[turn % len(patients)]
            exam_id = f"splice-{seed}-{place:03d}"
            chance = np.random.default_rng(draw_lot(f"{seed}:{exam_id}"))
            sightings = _sightings(lines[place % len(lines) :] + lines[: place % len(lines)], make, stock, frames)
            yield _plan(exam_id, fold, make, case, sightings, stock, number, frames, chance)


def _sightings(timelines: Sequence[Timeline], make: str, stock: Stock, frames: int) -> list[Sighting]:
    """Take the first timeline with plenty of lesions that there are images of, or the one with most."""
    most: list[Sighting] = []
    for timeline in timelines:
        known = [one for one in fit_sightings(timeline, frames) if make in stock.casts.get(one.label, {})]
        most = max(most, known, key=len)
        if len(most) >= PLENTY:
            break
    return most


def _patients(stock: Stock, seed: int) -> list[tuple[str, str]]:
    """List makes and cases that can fill an exam, makes in turn."""
    cast = stock.casts.get(NORMAL, {})
    found = {
        make: sorted(
            (case for case, reel in cast[make].items() if len(reel) >= ENOUGH),
            key=lambda case: draw_lot(f"{seed}:{case}"),
        )
        for make in sorted(cast)
    }
    most = max(map(len, found.values()), default=0)
    return [(make, cases[i]) for i in range(most) for make, cases in found.items() if i < len(cases)]


def _plan(
    exam_id: str,
    fold: int,
    make: str,
    case: str,
    known: Sequence[Sighting],
    stock: Stock,
    number: Mapping[Path, int],
    frames: int,
    chance: np.random.Generator,
) -> SplicedExam:
    seconds = np.linspace(0, chance.uniform(*HOURS) * 3600, frames)
    sightings = _thinned(known, frames, chance)
    sights = gather(sightings, seconds)
    lesions = _cast_sights(sightings, sights, stock, make, case, chance)
    pieces = _pieces(sightings, lesions, stock.casts[NORMAL][make], case, frames, chance)
    foreign = stock.casts.get(DISTRACTOR, {})
    pieces = _with_foreign_bodies(pieces, foreign, make, chance) if make in foreign else pieces
    shown, views, labels = _play(pieces, chance)
    views_of_lesions = {event: [framing(image) for image in _shown(shown, sightings[event])] for event in lesions}
    rated = [_rate(sight, sightings, views_of_lesions) for sight in sights]
    reported = choose_reported(rated, seconds, THRESHOLD)
    taxonomy = Taxonomy()
    splice = Splice(
        seconds,
        np.array([number[image.path] for image in shown], np.int64),
        np.array(views, np.int64),
        np.array([taxonomy.index(label) for label in labels], np.int64),
    )
    findings = tuple(Finding(one.id, one.seconds, one.label) for one in reported)
    return SplicedExam(exam_id, case, fold, splice, findings, len(sightings))


def _shown(images: Sequence[LabelledFrame], one: Sighting) -> Sequence[LabelledFrame]:
    return images[one.first : one.stop]


def _rate(
    sight: Sight, sightings: Sequence[Sighting], views: Mapping[int, Sequence[float]]
) -> tuple[float, int, Sight]:
    """Rate what a reader would report: how important it is, and its best view, which is where it is timed."""
    best, place = max(
        (view, -(sightings[event].first + i)) for event in sight.events for i, view in enumerate(views[event])
    )
    return IMPORTANCE[sight.label] * (0.6 + 0.4 * best), -place, sight


def _thinned(sightings: Sequence[Sighting], frames: int, chance: np.random.Generator) -> list[Sighting]:
    """Shorten events to a passing capsule's, and leave out so many that lesions stay as rare as they are; of what an
    exam shows most, most is left out.
    """
    counts = Counter(one.label for one in sightings)
    short = [Sighting(one.label, one.first, int(np.clip(one.frames, FEWEST, LONGEST))) for one in sightings]
    room = chance.uniform(*LESION_SHARE) * frames
    # Keys of a weighted draw without replacement (Efraimidis and Spirakis).
    order = sorted(
        range(len(short)), key=lambda i: chance.random() ** (counts[short[i].label] / IMPORTANCE[short[i].label])
    )
    kept = []
    for i in reversed(order):
        if short[i].frames <= room:
            room -= short[i].frames
            kept.append(short[i])
    return sorted(kept, key=lambda one: one.first)


def _cast_sights(
    sightings: Sequence[Sighting],
    sights: Sequence[Sight],
    stock: Stock,
    make: str,
    case: str,
    chance: np.random.Generator,
) -> dict[int, Reel]:
    """Give each lesion to neighbouring images of one case, the exam's own where it has them; it is seen from another
    one whenever it comes back.
    """
    reels = {}
    for sight in sights:
        cast = stock.casts[sight.label]
        own = cast[make].get(case)
        length = sum(sightings[event].frames for event in sight.events)
        window = draw_window(own or draw_case(cast, make, chance), length, chance)
        for event in sight.events:
            reels[event] = turned(window, int(chance.integers(len(window))))
    return reels


def _pieces(
    sightings: Sequence[Sighting],
    lesions: Mapping[int, Reel],
    normal: Mapping[str, Reel],
    case: str,
    frames: int,
    chance: np.random.Generator,
) -> list[_Piece]:
    """Put normal mucosa between the lesions: beside a lesion that of its own case, elsewhere mostly the patient's."""
    cast: Cast = {"": normal}
    pieces: list[_Piece] = []
    at = 0
    for event, one in (*enumerate(sightings), (None, None)):
        gap = (one.first if one else frames) - at
        after = _flank(lesions[event], normal, gap, chance) if one and event is not None else None
        before = _flank(pieces[-1].reel, normal, gap, chance) if pieces else None
        rest = gap - sum(flank.frames for flank in (before, after) if flank)
        pieces += [before] if before else []
        while rest > 0:
            length = min(rest, int(chance.integers(*NORMAL_STRETCH)))
            reel = normal[case] if chance.random() < OWN else draw_case(cast, "", chance, avoid=case)
            pieces.append(_Piece(length, NORMAL, turned(reel, int(chance.integers(len(reel))))))
            rest -= length
        pieces += [after] if after else []
        if one and event is not None:
            pieces.append(_Piece(one.frames, one.label, lesions[event]))
            at = one.stop
    return pieces


def _flank(lesion: Reel, normal: Mapping[str, Reel], gap: int, chance: np.random.Generator) -> _Piece | None:
    """Show normal mucosa of a lesion's own case, so that the case alone gives nothing away."""
    reel = normal.get(lesion[0].case)
    length = min(int(chance.integers(*FLANK)), gap // 2)
    if reel is None or length < 1:
        return None
    return _Piece(length, NORMAL, turned(reel, int(chance.integers(len(reel)))))


def _with_foreign_bodies(
    pieces: Sequence[_Piece], foreign: Cast, make: str, chance: np.random.Generator
) -> list[_Piece]:
    """Let foreign bodies take the place of some normal stretches: nothing to report."""
    normal = [i for i, piece in enumerate(pieces) if piece.label == NORMAL]
    chosen = set(chance.choice(normal, min(len(normal), int(chance.poisson(DISTRACTORS))), replace=False).tolist())
    return [
        _Piece(piece.frames, NORMAL, draw_window(draw_case(foreign, make, chance), piece.frames, chance))
        if i in chosen
        else piece
        for i, piece in enumerate(pieces)
    ]


def _play(pieces: Sequence[_Piece], chance: np.random.Generator) -> tuple[list[LabelledFrame], list[int], list[str]]:
    """Play every reel in its order, staying with an image for a while; views change as the capsule turns."""
    images: list[LabelledFrame] = []
    views: list[int] = []
    labels: list[str] = []
    for piece in pieces:
        at, view = 0, int(chance.integers(VIEWS))
        for stays, turns, other in zip(
            chance.random(piece.frames) < STAY,
            chance.random(piece.frames) < TURN,
            chance.integers(VIEWS, size=piece.frames),
            strict=True,
        ):
            images.append(piece.reel[at % len(piece.reel)])
            views.append(view)
            labels.append(piece.label)
            at += not stays
            view = int(other) if turns else view
    return images, views, labels


def splices_text(made: Sequence[SplicedExam]) -> str:
    """Sum the exams up."""
    normal = Taxonomy().normal
    labels = Counter(finding.label for exam in made for finding in exam.findings)
    frames = sum(len(exam.splice) for exam in made)
    lesions = sum(int(np.count_nonzero(exam.splice.label != normal)) for exam in made)
    return (
        f"{len(made)} exams, {frames:,} frames, {len({exam.case for exam in made})} patients; "
        f"{sum(exam.events for exam in made):,} lesion events in {100 * lesions / frames:.1f} % of the frames, "
        f"{labels.total()} findings reported\n" + bars(dict(labels.most_common()))
    )
