"""What other systems take: the software's results as PDF, DICOM and FHIR, made as `dice-ce export` makes them."""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from dice_ce.outputs import EXPORTS, OUTPUTS, export_results, is_installed
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
    """Make one export from results; several files come as one zip."""
    with tempfile.TemporaryDirectory() as place:
        (made,) = export_results(folder, Path(place) / "out", kinds=(kind,))
        if made.is_dir():
            return Download(f"{_file_name(exam)}-{kind}.zip", "application/zip", _zipped(made))
        return Download(f"{_file_name(exam)}{made.suffix}", "application/pdf", made.read_bytes())


def _file_name(exam: str) -> str:
    """Name a file after an exam; names of exams are anything that a folder may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", exam).strip("._")[:80] or "exam"


def _zipped(folder: Path) -> bytes:
    """Pack a folder; the same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder.parent).as_posix()
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
