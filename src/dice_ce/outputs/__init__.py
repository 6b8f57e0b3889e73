"""What a summary becomes in a folder. OUTPUTS lists everything that can be written; a new one is a file and a line."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dice_ce.errors import UsageError, require
from dice_ce.exam.dicom.identity import Identity
from dice_ce.exam.open import Exam
from dice_ce.files import atomic_folder
from dice_ce.method.summary import Summary
from dice_ce.outputs import dicom, fhir, findings, keyframes, pdf, report
from dice_ce.outputs.images import FrameImage, Wanted, load_images
from dice_ce.outputs.places import check_place, holds_finished
from dice_ce.outputs.results import Results, read_results


@dataclass(frozen=True)
class Output:
    """One kind of output: made from the exam, or from the results that are there already."""

    name: str
    """File or folder that it writes, and so may replace, in the folder of an exam."""
    about: str
    write: Callable[[Summary, FrameImage, Path], None] | None = None
    """Takes the summary, images of the exam, and the path to write to."""
    images: Callable[[Summary], Iterable[Wanted]] = lambda summary: ()
    """The images that `write` will ask for."""
    export: Callable[[Results, Path], None] | None = None
    """Takes summary and keyframes as they are in the folder, and the path to write to."""
    modules: tuple[str, ...] = ()
    """Packages of the extra `hospital` that it cannot do without."""


_PDF = ("weasyprint", "jinja2")
OUTPUTS: dict[str, Output] = {
    "keyframes": Output("keyframes", "the image of every finding", keyframes.write, keyframes.images_needed),
    "summary": Output("summary.json", "everything, for programs", lambda summary, jpeg, path: summary.write(path)),
    "findings": Output("findings.csv", "a row per finding, for spreadsheets and `evaluate`", findings.write),
    "report": Output("report.html", "one page for people, complete in itself", report.write, report.images_needed),
    "pdf": Output("report.pdf", "one to three pages to file and to sign", export=pdf.export, modules=_PDF),
    "dicom": Output(
        "dicom",
        "structured report, key frames, key object selection and PDF as DICOM objects",
        export=dicom.export,
        modules=("pydicom", "highdicom", "PIL", *_PDF),
    ),
    "fhir": Output(
        "fhir", "transaction bundles of FHIR R4 and R5", export=fhir.export, modules=("fhir.resources", *_PDF)
    ),
}
DEFAULT_OUTPUTS = tuple(kind for kind, output in OUTPUTS.items() if output.write is not None)
EXPORTS = tuple(kind for kind, output in OUTPUTS.items() if output.export is not None)


def read_kinds(text: str) -> tuple[str, ...]:
    """Read `pdf,dicom,fhir`; ValueError if one of them is not among the exports."""
    kinds = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    unknown = [kind for kind in kinds if kind not in EXPORTS]
    if unknown or not kinds:
        raise ValueError(f"'{unknown[0] if unknown else text}' is none of {', '.join(EXPORTS)}")
    return kinds


def is_installed(kind: str) -> bool:
    """Whether the packages that an output needs are there, without loading them."""
    try:
        return all(importlib.util.find_spec(module) is not None for module in OUTPUTS[kind].modules)
    except ModuleNotFoundError:  # not even the package that the module is in
        return False


def check_installed(kinds: Sequence[str]) -> None:
    """Say before any work what is not installed."""
    for kind in kinds:
        for module in OUTPUTS[kind].modules:
            require(module, extra="hospital", purpose=f"the output '{kind}'")


def write_outputs(
    summary: Summary,
    exam: Exam,
    out: Path,
    *,
    kinds: Sequence[str] = DEFAULT_OUTPUTS,
    also: Sequence[str] = (),
    identity: Identity | None = None,
    force: bool = False,
    workers: int | None = None,
) -> Path:
    """Write everything into `out/<exam>`; an earlier result there is replaced whole, once the new one is complete.

    `also` names further outputs, such as "pdf"; `identity` is whose exam it is, which nothing says otherwise.
    What is there but is not an earlier result of the same exam is refused, unless `force` is given. Files of other
    people beside ours are kept in any case. `workers` is how many threads make images: one for every core by default.
    """
    folder = out / exam.id
    check_place(folder, exam.source.path, lambda: exam.digest, force)
    check_installed(also)
    with atomic_folder(folder, {output.name for output in OUTPUTS.values()}) as draft:
        jpeg = load_images(exam, (wanted for kind in kinds for wanted in OUTPUTS[kind].images(summary)), workers)
        for kind in kinds:
            write = OUTPUTS[kind].write
            assert write is not None, kind
            write(summary, jpeg, draft / OUTPUTS[kind].name)
        if also:
            export_kinds(read_results(draft, identity), draft, also)
    return folder


def remove_outputs(folder: Path) -> None:
    """Remove what `write_outputs` has written into the folder of an exam; files of other people are kept."""
    for output in OUTPUTS.values():
        path = folder / output.name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it holds something else, or is not there
        folder.rmdir()


def write_unfinished(summary: Summary, exam: Exam, out: Path, *, force: bool = False) -> None:
    """Write summary and report of what has been read so far, unless something finished is there: that is worth more."""
    if not holds_finished(out / exam.id):
        write_outputs(summary, exam, out, kinds=("summary", "report"), force=force)


def export_results(
    folder: Path, out: Path, *, kinds: Sequence[str], identity: Identity | None = None, force: bool = False
) -> list[Path]:
    """Make exports from results that are there, all of them or none; return what was written."""
    results = read_results(folder, identity)
    names = [OUTPUTS[kind].name for kind in kinds]
    there = [name for name in names if (out / name).exists()]
    if there and not force and out.resolve() != folder.resolve():
        raise UsageError(f"{out / there[0]}: is there already; give another --out, or replace it with --force")
    check_installed(kinds)
    with atomic_folder(out, set(names)) as draft:
        export_kinds(results, draft, kinds)
    return [out / name for name in names]


def export_kinds(results: Results, folder: Path, kinds: Sequence[str]) -> None:
    """Make exports into a folder."""
    for kind in kinds:
        export = OUTPUTS[kind].export
        assert export is not None, kind
        export(results, folder / OUTPUTS[kind].name)
