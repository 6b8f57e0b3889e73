"""DICOM out: a structured report, key frames, a key object selection and the PDF, as objects of one study."""

from __future__ import annotations

from pathlib import Path

from dice_ce.errors import require
from dice_ce.files import write_atomically
from dice_ce.outputs.results import Results

__all__ = ["export"]


def export(results: Results, folder: Path) -> None:
    """Write every object as a file; the same results give the same bytes."""
    for module in ("pydicom", "highdicom"):
        require(module, extra="hospital", purpose="writing DICOM")
    from dice_ce.outputs.dicom.objects import dicom_files

    for name, content in dicom_files(results).items():
        write_atomically(folder / name, content)
