"""What the commands share: how options are read, exams opened, results printed."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dice_ce import DISCLAIMER
from dice_ce.errors import DiceError, ExamError, UsageError, error_line
from dice_ce.exam.dicom.detect import UID
from dice_ce.files import printable

if TYPE_CHECKING:
    from dice_ce.exam.clock import ClockOptions
    from dice_ce.exam.open import Exam
    from dice_ce.method.bundle import Bundle
    from dice_ce.method.settings import Settings
    from dice_ce.progress import ProgressBar, Watch

T = TypeVar("T")
SETTING = "setting_"
"""What the names of the method's settings begin with among the options."""
BURNED_IN = "burned-in"
"""Value of `--clock`, as in dice_ce.exam.clock, which is not imported for the sake of `--help`."""
UNSET = object()
"""Default of an option whose value may be None."""


def command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=DISCLAIMER
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=run)
    return parser


def add_exam_options(parser: argparse.ArgumentParser) -> None:
    clock = parser.add_argument_group("exam clock", "Playback time is not exam time. The first of these wins:")
    clock.add_argument(
        "--clock",
        type=clock_source,
        metavar="CSV",
        help="frame,seconds or frame,HH:MM:SS per row; or burned-in: read the time in the images [hospital]",
    )
    clock.add_argument("--exam-fps", type=fraction, help="frames the capsule took per second, e.g. 2 or 0.7 or 1/3")
    clock.add_argument("--exam-duration", type=exam_time, help="length of the exam in seconds or HH:MM:SS")
    clock.add_argument("--container-clock", action="store_true", help="the file's own timestamps are exam time")
    clock.add_argument("--exam-start", type=exam_time, help="exam time of the first frame, beside one of the above")
    image = parser.add_argument_group("image")
    image.add_argument("--crop", metavar="X,Y,W,H", help="one camera out of a multi-camera layout")
    image.add_argument(
        "--no-mask", action="store_true", help="keep burned-in text, outside the field of view and in it"
    )


def add_bundle_options(parser: Any) -> None:
    parser.add_argument(
        "--bundle",
        help="name of a shipped bundle, or a folder or zip (default: 'default'); default@fast sees frames smaller",
    )
    parser.add_argument("--profile", default="default", help="named settings of the bundle (see: bundle show)")


def add_device_option(parser: Any) -> None:
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "tensorrt", "auto"),
        default="cpu",
        help="where networks compute (default: cpu); others need onnxruntime-gpu",
    )


def add_seed_option(parser: Any) -> None:
    parser.add_argument("--seed", type=int, default=0, help="seed of everything that is drawn at random (default: 0)")


def add_folds_option(parser: Any) -> None:
    parser.add_argument(
        "--folds",
        type=Path,
        metavar="DIR",
        help="bundles of held-out folds (train --folds-out): each exam is judged by the one of its split",
    )


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Give every setting of the method an option, made from its declaration."""
    from dice_ce.method.settings import Settings
    from dice_ce.settings import declarations

    group = parser.add_argument_group("settings", "Instead of those of the profile.")
    for one in declarations(Settings).values():
        off = f"{one.off:g}" if isinstance(one.off, float) else one.off
        paper = f" (paper: {off})" if one.rule else ""
        values = "{" + ",".join(one.choices) + "}" if one.choices else one.name.upper()
        read, dest = parsed_by(one.parse), SETTING + one.name
        group.add_argument(one.option, dest=dest, type=read, metavar=values, default=UNSET, help=one.help + paper)


def chosen_settings(options: argparse.Namespace, bundle: Bundle) -> Settings:
    """Take the settings of the profile, except where the command line says otherwise."""
    from dice_ce.settings import with_values

    given = {name.removeprefix(SETTING): value for name, value in vars(options).items() if name.startswith(SETTING)}
    return with_values(
        bundle.settings(options.profile), {name: value for name, value in given.items() if value is not UNSET}
    )


def parsed_by(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Let argparse show the message of a ValueError instead of its own."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except (ValueError, ZeroDivisionError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _read_time(text: str) -> Fraction:
    from dice_ce.exam.clock import parse_time

    return parse_time(text)


def _read_rate(text: str) -> Fraction:
    from dice_ce.exam.clock import parse_rate

    return parse_rate(text)


def _read_whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"'{text}' is not a whole number")
    return int(text)


def _read_positive(text: str) -> int:
    if _read_whole(text) == 0:
        raise ValueError(f"'{text}' is not positive")
    return int(text)


def _read_amount(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"'{text}' is not a number of zero or more")
    return value


def _read_positive_amount(text: str) -> float:
    if _read_amount(text) == 0:
        raise ValueError(f"'{text}' is not positive")
    return float(text)


def _read_share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"'{text}' is not between 0 and 1")
    return value


def _read_shares(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(","))
    if len(values) != 3 or min(values) < 0 or sum(values) == 0:
        raise ValueError(f"'{text}' is not three shares such as 160,40,40")
    return values


def clock_source(text: str) -> Path | str:
    """Take a clock file, or the word that stands for the images themselves."""
    return text if text == BURNED_IN else Path(text)


share = parsed_by(_read_share)
shares = parsed_by(_read_shares)
exam_time = parsed_by(_read_time)
fraction = parsed_by(_read_rate)
whole = parsed_by(_read_whole)
positive_int = parsed_by(_read_positive)
amount = parsed_by(_read_amount)
positive = parsed_by(_read_positive_amount)


def expand_folders(options: argparse.Namespace) -> None:
    """Put the exams in place of every folder of exams among the inputs, and say which they are."""
    from dice_ce.exam.readers import exams_of_folder, name_some

    exams: list[Path] = []
    for path in options.exams:
        content = exams_of_folder(path)
        exams += [path] if content is None else content.exams
        if content is not None:
            ignored = f"; not read: {name_some(content.others)}" if content.others else ""
            count = f"{len(content.exams)} exam{'' if len(content.exams) == 1 else 's'}"
            print(f"dice-ce: {path}: {count}{ignored}", file=sys.stderr)
    options.exams = exams


def clock_options(options: argparse.Namespace) -> ClockOptions:
    """Gather what the options say about time."""
    from dice_ce.exam.clock import ClockOptions

    is_burned_in = options.clock == BURNED_IN
    return ClockOptions(
        sidecar=None if is_burned_in else options.clock,
        burned_in=is_burned_in,
        exam_fps=options.exam_fps,
        exam_duration=options.exam_duration,
        exam_start=options.exam_start,
        container_is_exam_time=options.container_clock,
    )


def open_input(path: Path, options: argparse.Namespace) -> Exam:
    from dice_ce.exam.open import Crop, open_exam

    if path.is_fifo():
        raise ExamError(f"{path}: is a pipe, and an exam is read more than once; save it as a file first")
    clock = clock_options(options)
    crop = Crop.parse(options.crop) if options.crop else None
    if not clock.burned_in:
        return open_exam(path, clock=clock, crop=crop, mask=not options.no_mask)
    with progress_bars() as start:
        bar = start(f"{printable(path.name)}: burned-in time")
        return open_exam(path, clock=clock, crop=crop, mask=not options.no_mask, progress=bar)


def command_line(options: argparse.Namespace) -> str:
    """Repeat the command for the provenance, with names instead of paths and without what changes no result."""
    words = (word for word in options.words if len(word) < 5 or not "--follow".startswith(word))
    return shlex.join(["dice-ce", *(_without_folders(word) for word in words)])


def _without_folders(word: str) -> str:
    from dice_ce.exam.open import exam_name
    from dice_ce.exam.readers import is_dicom_input

    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    is_path = ("/" in value or "\\" in value) and not re.fullmatch(r"[\d.]+/[\d.]+", value)  # 1/3 is a rate
    name = Path(value).name if is_path else value
    if os.path.exists(value) and is_dicom_input(Path(value)):  # noqa: PTH110  no error if the word is too long
        hidden = exam_name(Path(value))
        name = name if name.startswith(hidden) else hidden  # a name that leads to the patient
    return printable(option + equals + UID.sub("UID", name))


@contextmanager
def progress_bars() -> Iterator[Watch]:
    """Give a function that starts a progress bar, closing the one before."""
    from dice_ce.progress import ProgressBar

    with ExitStack() as stack:

        def start(label: str, unit: str = "frames") -> ProgressBar:
            stack.close()
            return stack.enter_context(ProgressBar(label, unit))

        yield start


def for_each(options: argparse.Namespace, work: Callable[[Path], dict[str, Any]]) -> int:
    """Do the same with every input; one that fails is named at the end and does not stop the others."""
    results, failed = [], []
    for path in options.exams:
        try:
            results.append(work(path))
        except UsageError:
            raise
        except DiceError as error:
            failed.append(printable(str(path)))
            results.append({"input": str(path), "error": str(error)})
            print(f"dice-ce: error: {error_line(error)}", file=sys.stderr)
    if options.json:
        print_json({"disclaimer": DISCLAIMER, "exams": results})
    else:
        print(DISCLAIMER)
    if failed:
        print(f"dice-ce: {len(failed)} of {len(options.exams)} inputs failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def emit(options: argparse.Namespace, facts: object, text: str) -> None:
    """Print facts for programs, or text for people."""
    print_json(facts) if options.json else print(text)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(rows: list[dict[str, Any]]) -> None:
    from dice_ce.table import Table

    print(Table.of(list(rows[0]), [list(row.values()) for row in rows]).text())
