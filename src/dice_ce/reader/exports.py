"""What other systems take, as PDF, DICOM and FHIR: the report that was signed, or the software's own results."""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dice_ce.outputs import EXPORTS, OUTPUTS, export_results, is_installed
from dice_ce.outputs.signed import SignedReview, dicom_files, fhir_files
from dice_ce.reader.contract import Export


@dataclass(frozen=True)
class Download:
    """A file for the browser to keep."""

    name: str
    media_type: str
    content: bytes


def export_choices() -> tuple[Export, ...]:
    """List the exports, and say what those need that cannot be made."""
    needs = "Whoever runs the reader has to install the extra first: pip install 'dice-ce[hospital]'"
    return tuple(
        Export(
            kind=kind,
            title=kind.upper(),
            about=OUTPUTS[kind].about,
            missing=None if is_installed(kind) else needs,
        )
        for kind in EXPORTS
    )


def make_export(folder: Path, kind: str, exam: str) -> Download:
    """Make one export from results, as `dice-ce export` makes it."""
    with tempfile.TemporaryDirectory() as place:
        (made,) = export_results(folder, Path(place) / "out", kinds=(kind,))
        if made.is_file():
            return Download(f"{_file_name(exam)}-software.pdf", "application/pdf", made.read_bytes())
        files = {path.relative_to(made).as_posix(): path.read_bytes() for path in made.rglob("*") if path.is_file()}
        return Download(f"{_file_name(exam)}-software-{kind}.zip", "application/zip", _zipped(kind, files))


def export_signed(signed: SignedReview, kind: str, exam: str) -> Download:
    """Make one export of what was signed."""
    name = f"{_file_name(exam)}-signed-{signed.version}"
    if kind == "pdf":
        return Download(f"{name}.pdf", "application/pdf", signed.pdf)
    files = dicom_files(signed) if kind == "dicom" else fhir_files(signed)
    return Download(f"{name}-{kind}.zip", "application/zip", _zipped(kind, files))


def _file_name(exam: str) -> str:
    """Name a file after an exam; names of exams are anything that a folder may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", exam).strip("._")[:80] or "exam"


def _zipped(folder: str, files: Mapping[str, bytes]) -> bytes:
    """Pack files; the same ones give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}"), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
