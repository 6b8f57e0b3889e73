"""Where results go, and when that is refused: nothing of a user's is replaced by accident."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dice_ce.errors import ExamError, UsageError
from dice_ce.exam.open import exam_name
from dice_ce.exam.readers import open_source


def check_places(exams: Sequence[Path], out: Path, *, force: bool = False) -> None:
    """Refuse, before any work, exams that share a name and places that hold something else."""
    named: dict[str, Path] = {}
    for path in exams:
        name = exam_name(path)
        if name in named:
            raise UsageError(
                f"{path}: {named[name]} is called '{name}', too; summarise them into different folders (--out)"
            )
        named[name] = path
        check_place(out / name, path, lambda path=path: open_source(path).digest(), force)  # type: ignore[misc]


def check_place(folder: Path, exam: Path, digest: Callable[[], str], force: bool) -> None:
    """Refuse a folder that holds something else than an earlier result of the same exam."""
    real, source = Path(os.path.realpath(folder)), Path(os.path.realpath(exam))
    if source.is_relative_to(real) and source.exists():
        raise UsageError(f"{exam}: its results would replace the exam, or the folder it lies in; give another --out")
    if not real.exists():
        return
    if not real.is_dir():
        raise UsageError(f"{folder}: is there already and is not a folder; give another --out")
    if force or not any(real.iterdir()):
        return
    stored = stored_digest(real)
    if stored is None:
        raise UsageError(f"{folder}: is there already and holds no summary; give another --out, or insist with --force")
    try:
        own = digest()
    except ExamError:  # cannot be read, so nothing will be written; told when its turn comes
        return
    if own != stored:
        raise UsageError(
            f"{exam}: {folder} holds the summary of another exam of the same name (content {stored[:12]}, this one has "
            f"{own[:12]}); give another --out, or replace it with --force"
        )


def holds_finished(folder: Path) -> bool:
    """Whether a folder holds the summary of a whole exam."""
    stored = _stored_exam(folder)
    return stored is not None and stored.get("read", 1) == 1


def stored_digest(folder: Path) -> str | None:
    """Read of which exam a folder holds the summary; None if it holds none that can be read."""
    stored = _stored_exam(folder)
    return None if stored is None else str(stored["digest"])


def _stored_exam(folder: Path) -> dict[str, Any] | None:
    """Read the exam's facts; None where there is no summary, or not one that can be read."""
    try:
        exam = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["exam"]
        return dict(exam) if "digest" in exam else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
