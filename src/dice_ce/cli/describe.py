"""What the commands say about exams, features and the installation: as facts for programs, as text for people."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dice_ce import DISCLAIMER, __version__
from dice_ce.errors import DiceError
from dice_ce.exam.burned_in import spot_clock
from dice_ce.exam.clock import hms
from dice_ce.exam.codec import write_image
from dice_ce.exam.ocr import can_read
from dice_ce.exam.open import Exam
from dice_ce.extras import install_command
from dice_ce.features.encoder import ENCODERS
from dice_ce.features.extraction import cpu_count
from dice_ce.features.store import Features, list_cache
from dice_ce.files import cache_root
from dice_ce.method.bundle import DEFAULT_BUNDLE, bundle_facts, load_bundle, shipped_bundles, try_bundle
from dice_ce.method.summary import Summary
from dice_ce.outputs.lettering import write_text
from dice_ce.outputs.report.overview import troubles
from dice_ce.outputs.report.words import plural

PROPOSAL_LOOKS = 3
"""Whole frames in which `inspect` looks for a running time."""
LEAST_PROPOSAL_SIDE = 160
"""Pixels: digits in smaller images could not be told apart."""
SHEET_COLUMNS, SHEET_ROWS, SHEET_TILE = 6, 4, 224


def exam_facts(exam: Exam) -> dict[str, Any]:
    """Describe an exam for programs; exact times are given as fractions beside the rounded ones."""
    clock, last = exam.clock, len(exam) - 1
    shown = (int(exam.frames.pts[-1] - exam.frames.pts[0]) + exam.source.last_duration) * exam.frames.time_base
    return {
        "id": exam.id,
        "digest": exam.digest,
        "frames": len(exam),
        "width": exam.width,
        "height": exam.height,
        "crop": list(exam.crop) if exam.crop else None,
        "keyframes": len(exam.source.keyframes),
        "playback_seconds": float(shown),
        "clock": {
            "source": clock.source,
            "detail": clock.detail,
            "is_exam_time": clock.is_exam_time,
            "first_seconds": float(clock.seconds(0)),
            "last_seconds": float(clock.seconds(last)),
            "last_seconds_exact": str(clock.seconds(last)),
        },
        "covers": [list(cover) for cover in exam.covers],
        "field": {"kind": exam.field.kind, "polygon": exam.field.polygon, "share": _field_share(exam)},
        "warnings": list(exam.warnings),
        "disclaimer": DISCLAIMER,
    }


def _field_share(exam: Exam) -> float:
    return round(float(exam.field.mask(exam.width, exam.height).mean()), 4)


def shown_clock(exam: Exam) -> str | None:
    """Say which running time the images show, if the exam has no other clock and text can be read here."""
    if exam.clock.is_exam_time or min(exam.image_size) < LEAST_PROPOSAL_SIDE or not can_read():
        return None
    sighting = spot_clock(exam, looks=PROPOSAL_LOOKS)
    return sighting.describe() if sighting else None


def exam_text(exam: Exam, shown: str | None = None) -> str:
    """Describe an exam for people; `shown` is the running time that its images show."""
    facts = exam_facts(exam)
    clock, last = exam.clock, len(exam) - 1
    field = "whole image, nothing blacked"
    if exam.field.kind != "full":
        field = f"{exam.field.kind}, {100 * facts['field']['share']:.0f} % of the image; the rest is blacked"
    lines = {
        "frames": f"{len(exam):,} of {exam.width}x{exam.height} pixels, {plural(facts['keyframes'], 'keyframe')}",
        "playback": f"{hms(facts['playback_seconds'])} long",
        "exam clock": f"{clock.show(0)} to {clock.show(last)}, from {clock.source}: {clock.detail}",
        "field of view": field,
        "sha256": exam.digest,
    }
    text = [exam.id, *(f"  {key:<13}  {value}" for key, value in lines.items())]
    if shown:
        text.append(f"  note           the image shows a running time ({shown}); use --clock burned-in")
    elif not clock.is_exam_time:
        text.append("  note           exam times need --clock, --exam-fps, --exam-duration or --container-clock")
    return "\n".join([*text, *(f"  warning        {warning}" for warning in exam.warnings), DISCLAIMER])


def contact_sheet(exam: Exam, path: Path) -> None:
    """Write frames from all over the exam, with their times, as one image."""
    count = min(SHEET_COLUMNS * SHEET_ROWS, len(exam))
    rows = -(-count // SHEET_COLUMNS)
    margin, label = 8, 20
    height, width = SHEET_TILE + label + margin, SHEET_TILE + margin
    sheet = np.full((rows * height + margin + label, SHEET_COLUMNS * width + margin, 3), 24, np.uint8)
    wanted = np.linspace(0, len(exam) - 1, count).astype(int)
    for place, (ordinal, image) in enumerate(exam.images(wanted.tolist(), size=SHEET_TILE)):
        top, left = margin + place // SHEET_COLUMNS * height, margin + place % SHEET_COLUMNS * width
        sheet[top : top + SHEET_TILE, left : left + SHEET_TILE] = image
        write_text(sheet, exam.clock.show(ordinal), left + 2, top + SHEET_TILE + 4, scale=2)
    clock = f"exam clock: {exam.clock.source}" if exam.clock.is_exam_time else "playback time, not exam time"
    write_text(sheet, f"{exam.id}  {clock}  {DISCLAIMER}", margin, len(sheet) - label, colour=(160, 160, 160))
    write_image(path, sheet)


def extraction_facts(exam: Exam, features: Features) -> dict[str, Any]:
    """Describe an extraction for programs."""
    return {
        "id": exam.id,
        "digest": exam.digest,
        "encoder": features.encoder,
        "encoder_digest": features.encoder_digest,
        "dim": features.vectors.shape[1],
        "clock_source": exam.clock.source,
        "warnings": list(exam.warnings),
        **asdict(features.report),
    }


def extraction_text(exam: Exam, features: Features) -> str:
    """Describe an extraction for people."""
    report = features.report
    lines = [
        f"{exam.id}: {len(features):,} features of {features.vectors.shape[1]} numbers by {features.encoder}; "
        f"{report.exact:,} computed, {report.reused:,} reused from near-identical neighbours"
        + (f" (cosine distance at most {report.gate_error:.4f})" if report.reused else "")
    ]
    if report.undecodable:
        some = ", ".join(str(i) for i in report.undecodable[:5]) + (" ..." if len(report.undecodable) > 5 else "")
        lines.append(
            f"  warning: {len(report.undecodable):,} of {report.frames:,} frames could not be decoded (frame {some}), "
            f"and {report.doubtful:,} after them may show damage"
        )
    if not exam.clock.is_exam_time:
        lines.append("  note: times of this exam are playback times")
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in exam.warnings)])


def summary_table(summary: Summary) -> str:
    """Write the findings as a compact table for the terminal."""
    clock = "" if summary.exam.clock.is_exam_time else " (playback)"
    counts = summary.counts
    lines = [
        f"{summary.exam.id}: {counts.kept} finding{'s' * (counts.kept != 1)} in {counts.frames:,} frames "
        f"({counts.candidates:,} candidates, {counts.contexts:,} contexts)"
    ]
    for number, item in enumerate(summary.items, start=1):
        lines.append(
            f"  {number:>3}  {hms(item.keyframe.seconds)}{clock}  {item.label:<32} {100 * item.confidence:3.0f} %  "
            f"{plural(len(item.support), 'frame'):>11}, keyframe {item.keyframe.frame}"
            + (f" ({item.keyframe.file})" if item.keyframe.file else "")
            + f"; {summary.reliability_of(item.label).grade}"
        )
    return "\n".join([*lines, *(f"  warning: {trouble}" for trouble in troubles(summary.exam))])


def doctor_facts() -> dict[str, Any]:
    """Report what is installed and where things are."""
    root = cache_root()
    entries = list_cache()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    return {
        "dice_ce": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in ("numpy", "av", "onnxruntime", "onnx", "torch", "transformers")},
        "ffmpeg": _ffmpeg_versions(),
        "cpu_threads": cpu_count(),
        "cache": {
            "path": str(root),
            "writable": os.access(existing, os.W_OK),
            "entries": len(entries),
            "megabytes": round(sum(entry.bytes for entry in entries) / 1e6, 1),
            "free_gigabytes": round(shutil.disk_usage(existing).free / 1e9, 1),
        },
        "bundles": {name: _bundle_facts(name) for name in shipped_bundles()},
        "default_bundle": DEFAULT_BUNDLE,
        "encoders": {name: entry.status for name, entry in ENCODERS.items()},
        "disclaimer": DISCLAIMER,
    }


def _bundle_facts(name: str) -> dict[str, Any]:
    """Run a bundle once, and say which encoder it works with."""
    try:
        bundle = load_bundle(name)
        try_bundle(bundle)
    except DiceError as error:
        return {"status": str(error), "encoder": None}
    return {"status": "ready", "encoder": bundle_facts(bundle)["encoder"]}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _ffmpeg_versions() -> dict[str, str]:
    import av

    return {name: ".".join(map(str, version)) for name, version in av.library_versions.items()}


def doctor_text(facts: Mapping[str, Any]) -> str:
    """Write the report for people."""
    cache = facts["cache"]
    lines = {
        "dice-ce": facts["dice_ce"],
        "python": f"{facts['python']} on {facts['platform']}",
        "packages": ", ".join(f"{name} {version or 'not installed'}" for name, version in facts["packages"].items()),
        "ffmpeg": ", ".join(f"{name} {version}" for name, version in facts["ffmpeg"].items()),
        "cpu threads": facts["cpu_threads"],
        "cache": f"{cache['path']} ({'writable' if cache['writable'] else 'NOT WRITABLE'}): "
        f"{cache['entries']} entries, {cache['megabytes']} MB, {cache['free_gigabytes']} GB free",
    }
    text = [f"{key:<12}  {value}" for key, value in lines.items()]
    for name, bundle in facts["bundles"].items():
        default = " (default)" if name == facts["default_bundle"] else ""
        encoder = f", with its encoder: {bundle['encoder']}" if bundle["encoder"] else ""
        text.append(f"{'bundle':<12}  {name:<20}{bundle['status']}{default}{encoder}")
    for number, (name, status) in enumerate(facts["encoders"].items()):
        text.append(f"{'other' if number == 0 else 'encoders' if number == 1 else '':<12}  {name:<20}{status}")
    text.append(f"{'extras':<12}  {install_command('NAME')}")
    return "\n".join([*text, facts["disclaimer"]])
