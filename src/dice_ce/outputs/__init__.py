"""What a summary becomes in a folder. OUTPUTS lists everything that can be written; a new one is a file and a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dice_ce.exam.open import Exam
from dice_ce.files import atomic_folder
from dice_ce.method.summary import Summary
from dice_ce.outputs import findings, keyframes, report
from dice_ce.outputs.places import check_place


@dataclass(frozen=True)
class Output:
    """One kind of output."""

    name: str
    """File or folder that it writes, and so may replace, in the folder of an exam."""
    about: str
    write: Callable[[Summary, Exam, Path], None]
    """Takes the summary, the exam, and the path to write to."""


OUTPUTS: dict[str, Output] = {
    "keyframes": Output("keyframes", "the image of every finding", keyframes.write),
    "summary": Output("summary.json", "everything, for programs", lambda summary, exam, path: summary.write(path)),
    "findings": Output("findings.csv", "a row per finding, for spreadsheets and `evaluate`", findings.write),
    "report": Output("report.html", "one page for people, complete in itself", report.write),
}
DEFAULT_OUTPUTS = tuple(OUTPUTS)


def write_outputs(
    summary: Summary, exam: Exam, out: Path, *, kinds: Sequence[str] = DEFAULT_OUTPUTS, force: bool = False
) -> Path:
    """Write everything into `out/<exam>`; an earlier result there is replaced whole, once the new one is complete.

    What is there but is not an earlier result of the same exam is refused, unless `force` is given. Files of other
    people beside ours are kept in any case.
    """
    folder = out / exam.id
    check_place(folder, exam.source.path, lambda: exam.digest, force)
    with atomic_folder(folder, {output.name for output in OUTPUTS.values()}) as draft:
        for kind in kinds:
            OUTPUTS[kind].write(summary, exam, draft / OUTPUTS[kind].name)
    return folder
