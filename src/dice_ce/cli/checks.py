"""What is found out before any work starts: a missing package, an output that cannot be written or must not be.

Commands declare what they write and what they need; `check_before_work` looks at it, for all of them in the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dice_ce.errors import UsageError, require
from dice_ce.files import check_file, check_folder, is_same

Place = Callable[[Path], None]
Condition = Callable[[argparse.Namespace], bool]


class Extra(NamedTuple):
    """Packages that a command cannot do without, and what installs them."""

    modules: tuple[str, ...]
    extra: str
    purpose: str


TABLES = (".md", ".csv", ".tex")
DRAWING = Extra(("matplotlib",), "plots", "drawing results")
TRAINING = Extra(("torch", "onnx", "cv2", "matplotlib"), "train", "training")
TRAINING_HEADS = Extra(("torch",), "train", "training")
FINETUNING = Extra(("torch", "transformers", "cv2", "PIL"), "finetune", "fine-tuning published models")
READING_TEXT = Extra(("rapidocr",), "hospital", "reading text in images")
COMPOSING = Extra(("cv2",), "datasets", "composing exams")


def an_image(*endings: str) -> Place:
    """Expect a file with one of these endings."""

    def check(target: Path) -> None:
        if target.suffix.lower() not in endings:
            raise UsageError(f"{target}: images are written as {', '.join(endings)}; give one of these endings")
        check_file(target)

    return check


def a_table(target: Path) -> None:
    """Expect a file for a table."""
    check_file(target)
    if target.suffix.lower() not in TABLES:
        raise UsageError(f"{target}: tables are written as {', '.join(TABLES)}; give one of these endings")


def a_folder(*marks: str) -> Place:
    """Expect a folder; with marks, one that is new, empty or ours by one of these names in it."""
    return partial(check_folder, marks=marks)


def a_bundle(target: Path) -> None:
    """Expect a zip, or a folder that is new, empty or a bundle."""
    check_file(target) if target.suffix == ".zip" else a_bundle_folder(target)


def a_new_place(target: Path) -> None:
    """Expect a name under which nothing is, whether a file or a folder will be written."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target}: is there already; give another --out, nothing is replaced")
    check_file(target)


a_file: Place = check_file
a_file_with_neighbours: Place = partial(check_file, with_neighbours=True)
a_bundle_folder = a_folder("bundle.json")


def writes(parser: argparse.ArgumentParser, option: str, place: Place, **settings: Any) -> None:
    """Add an option that says where to write."""
    action = parser.add_argument(option, type=Path, **settings)
    parser.set_defaults(outputs={**(parser.get_default("outputs") or {}), action.dest: (option, place)})


def needs(parser: argparse.ArgumentParser, extra: Extra, when: Condition = lambda options: True) -> None:
    """Say that a command needs optional packages, always or with some options only."""
    parser.set_defaults(extras=(*(parser.get_default("extras") or ()), (extra, when)))


def check_before_work(options: argparse.Namespace) -> None:
    """Raise now what would otherwise be raised after hours of work."""
    outputs = getattr(options, "outputs", {})
    for name, (option, place) in outputs.items():
        target = getattr(options, name)
        if target is not None:
            for other in _paths(options, besides=name):
                if is_same(target, other) and (other.is_file() or other.is_dir()):
                    raise UsageError(f"{option} {target}: would replace what the command reads; give another name")
            place(target)
    for extra, is_needed in getattr(options, "extras", ()):
        if is_needed(options):
            for module in extra.modules:
                require(module, extra=extra.extra, purpose=extra.purpose)


def _paths(options: argparse.Namespace, besides: str) -> Iterator[Path]:
    """Yield all paths among the options but one."""
    for name, value in vars(options).items():
        if name != besides:
            yield from (path for path in (value if isinstance(value, list) else [value]) if isinstance(path, Path))
