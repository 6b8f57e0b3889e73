"""What goes to a worker and comes back: plain frozen values that any engine can send."""

from __future__ import annotations

import functools
import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from dice_ce import __version__
from dice_ce.exam.clock import BURNED_IN, ClockOptions
from dice_ce.exam.open import Crop, Exam
from dice_ce.features.gate import GateConfig
from dice_ce.files import printable
from dice_ce.method.bundle import DEFAULT_PROFILE
from dice_ce.method.settings import Settings
from dice_ce.settings import Value, declarations, values_of

State = Literal["waiting", "done", "failed", "skipped"]
NO_CLOCK = ClockOptions()


@dataclass(frozen=True)
class Item:
    """One exam that was found, before anybody has opened it."""

    place: str
    """Absolute path, or URL."""
    name: str
    """The exam's id: of its row in a table, or its file's name."""
    stamp: str
    """Changes when the file or its clock file changes, as far as that can be told without reading them."""
    size: int
    date: str
    """YYYY-MM-DD: of the exam where a table says so, otherwise of the file."""
    clock: ClockOptions = NO_CLOCK
    """From the table; without it, the run's own options count."""
    is_named: bool = False
    """Whether a table gave the name."""

    @property
    def is_remote(self) -> bool:
        """Whether it has to be fetched before it can be read."""
        return "://" in self.place


@dataclass(frozen=True)
class Recipe:
    """Everything but the exam that shapes its results."""

    bundle: str | None
    """Name or path, as the workers load it."""
    bundle_digest: str
    settings: Settings
    chosen: tuple[tuple[str, Value], ...] = ()
    """Settings that differ from the profile, for the command in the provenance."""
    profile: str = DEFAULT_PROFILE
    gate: GateConfig | None = field(default_factory=GateConfig)
    clock: ClockOptions = NO_CLOCK
    crop: Crop | None = None
    mask: bool = True

    def clock_of(self, item: Item) -> ClockOptions:
        """Return what is known about an exam's time before it is opened."""
        return item.clock if item.clock != NO_CLOCK else self.clock

    def digest(self, item: Item) -> str:
        """Hash what shapes the results beside content and bundle: settings, clock, crop, the program itself."""
        return _settings_digest(self, self.clock_of(item))

    def command(self, item: Item) -> str:
        """Write the command that gives the same bytes for this exam alone."""
        name = PurePosixPath(item.place).name
        if not (item.is_named or name.startswith(item.name)):  # it leads to the patient
            name = item.name
        words = ["dice-ce", "summarize", name, "--out", "results"]
        words += ["--bundle", Path(self.bundle).name] if self.bundle else []
        words += ["--profile", self.profile] if self.profile != DEFAULT_PROFILE else []
        words += _clock_words(self.clock_of(item))
        words += ["--crop", ",".join(map(str, self.crop))] if self.crop else []
        words += [] if self.mask else ["--no-mask"]
        words += [] if self.gate else ["--no-gate"]
        known = declarations(Settings)
        for name, value in self.chosen:
            words += [known[name].option, "none" if value is None else str(value)]
        return shlex.join(printable(word) for word in words)


@functools.lru_cache(maxsize=1024)
def _settings_digest(recipe: Recipe, clock: ClockOptions) -> str:
    """Remembered, because a hundred thousand exams of one run mostly have the same."""
    facts = {
        "version": __version__,
        "profile": recipe.profile,
        "settings": values_of(recipe.settings),
        "gate": asdict(recipe.gate) if recipe.gate else None,
        "clock": {name: str(value) for name, value in asdict(clock).items()},
        "crop": recipe.crop,
        "mask": recipe.mask,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _clock_words(clock: ClockOptions) -> list[str]:
    source = BURNED_IN if clock.burned_in else clock.sidecar.name if clock.sidecar else None
    words = ["--clock", source] if source else []
    for option, value in (
        ("--exam-fps", clock.exam_fps),
        ("--exam-duration", clock.exam_duration),
        ("--exam-start", clock.exam_start),
    ):
        words += [option, str(value) if value.denominator == 1 else _decimal(value)] if value is not None else []
    return [*words, *(["--container-clock"] if clock.container_is_exam_time else [])]


def _decimal(value: Any) -> str:
    """Write 7/10 as 0.7 where that is exact, otherwise as a fraction."""
    text = f"{float(value):.12g}"
    return text if type(value)(text) == value else str(value)


@dataclass(frozen=True)
class Places:
    """Where a run reads and writes, as every worker sees it."""

    archive: Path
    archive_id: str
    cache: Path
    scratch: Path
    scratch_bytes: int


@dataclass(frozen=True)
class Limits:
    """What one exam may take."""

    stall_seconds: int = 600
    """Seconds without progress after which a worker is ended."""
    memory_bytes: int | None = None
    """Memory of one worker; None leaves it to the engine."""
    threads: int = 1
    split_frames: int = 4000
    """Frames from which an exam is worked on in several tasks."""
    keep_features: bool = True


@dataclass(frozen=True, eq=False)
class Task:
    """One thing for a worker to do: a whole exam, some segments of a long one, or what comes after them."""

    item: Item
    recipe: Recipe
    places: Places
    limits: Limits
    target: str
    """Folder of the results below ARCHIVE/results."""
    kind: Literal["exam", "segments", "finish"] = "exam"
    segments: tuple[tuple[int, int], ...] = ()
    opened: Exam | None = None
    """The exam as another worker has opened it, so that its packets need not be read again."""
    is_apart: bool = False
    """Earlier results count only in its own folder; those of others are about to be replaced."""


@dataclass(frozen=True)
class FindingRow:
    """One finding, as the table of all findings has it."""

    label: str
    confidence: float
    abnormality: float
    margin: float
    runner_up: str
    frame: int
    seconds: float
    first_seconds: float
    last_seconds: float
    supporting_frames: int


@dataclass(frozen=True)
class Outcome:
    """How an exam ended; of those that are done, this is the receipt."""

    state: Literal["done", "failed"]
    reason: str = ""
    content_digest: str = ""
    exam_id: str = ""
    target: str = ""
    place: str = ""
    """Where the exam lay when it was worked on."""
    frames: int = 0
    decoded: int = 0
    is_exam_time: bool = False
    findings: tuple[FindingRow, ...] = ()
    seconds: float = 0.0
    """Working time, over all workers."""
    node: str = ""
    is_new: bool = True
    """False if a receipt of earlier work was found."""


@dataclass(frozen=True, eq=False)
class Split:
    """A long exam, opened: its segments are for several workers."""

    exam: Exam
    segments: tuple[tuple[int, int], ...]
    seconds: float


@dataclass(frozen=True)
class Partly:
    """Some segments of a long exam are in the store."""

    frames: int
    seconds: float


@dataclass(frozen=True)
class Trouble:
    """Something that may pass: storage that is full or gone. The same task is tried again."""

    reason: str


@dataclass(frozen=True)
class Died:
    """A worker died of this task, as often as it was tried."""

    reason: str


Result = Outcome | Split | Partly | Trouble | Died
