"""The command that writes an exam again without anything that says whose it is."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import READING_TEXT, a_new_place, needs, writes
from dice_ce.cli.shared import (
    add_exam_options,
    clock_options,
    command,
    emit,
    open_input,
    parsed_by,
    positive_int,
    progress_bars,
)
from dice_ce.errors import UsageError

if TYPE_CHECKING:
    from dice_ce.deidentify.run import Report


def add_commands(commands: Any) -> None:
    """Describe the command of this module."""
    about = "write an exam again without names, dates and other text, and prove that none is left [hospital]"
    parser = command(commands, "deidentify", run_deidentify, about)
    parser.add_argument("exam", type=Path, help="video file, folder or zip of frames, DICOM file or folder of these")
    help_text = "what to write: .mp4 for a video, .zip for a zip, .dcm for a DICOM file, else a folder"
    writes(parser, "--out", a_new_place, required=True, metavar="PATH", help=help_text)
    hiding = parser.add_argument_group("hiding")
    hiding.add_argument("--cover", action="append", type=box, default=[], metavar="X,Y,W,H", help="also black this box")
    hiding.add_argument("--keep-inner-text", action="store_true", help="keep text inside the field of view")
    hiding.add_argument("--quality", choices=("high", "lossless"), default="high", help="compression (default: high)")
    hiding.add_argument(
        "--check", type=positive_int, default=48, metavar="N", help="frames searched again (default: 48)"
    )
    hiding.add_argument("--show-text", action="store_true", help="print what the text said: names, maybe")
    times = parser.add_argument_group("times")
    times.add_argument("--keep-times", action="store_true", help="keep the time of the first frame in the clock file")
    times.add_argument(
        "--shift-days", type=int, metavar="N", help="DICOM: move dates by N days instead of removing them"
    )
    add_exam_options(parser)
    needs(parser, READING_TEXT)


def _read_box(text: str) -> Any:
    from dice_ce.exam.ocr import Box

    try:
        found = Box(*(int(part) for part in text.split(",")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"'{text}' is not x,y,width,height in pixels") from error
    if min(found) < 0 or not found.width or not found.height:
        raise ValueError(f"'{text}' is not x,y,width,height in pixels")
    return found


box = parsed_by(_read_box)


def run_deidentify(options: argparse.Namespace) -> int:
    """De-identify one exam."""
    from dice_ce.deidentify.dicom_run import deidentify_dicom, dicom_files, is_one_exam
    from dice_ce.deidentify.run import Options, deidentify
    from dice_ce.exam.clock import ClockOptions

    if options.no_mask or options.crop:
        raise UsageError("deidentify works on whole images and hides what is around them: leave out --no-mask, --crop")
    chosen = Options(
        quality=options.quality,
        keep_inner_text=options.keep_inner_text,
        covers=tuple(options.cover),
        checks=options.check,
        keep_times=options.keep_times,
    )
    if dicom_files(options.exam):
        clock = None
        if is_one_exam(options.exam):
            with open_input(options.exam, options) as exam:
                clock = exam.clock
        elif clock_options(options) != ClockOptions():
            raise UsageError(f"{options.exam}: several recordings have no clock in common; give them one by one")
        with progress_bars() as watch:
            done = deidentify_dicom(
                options.exam, options.out, chosen, clock=clock, shift_days=options.shift_days, watch=watch
            )
        report, attributes = done.images, done.attributes
    elif options.shift_days is not None:
        raise UsageError("--shift-days moves the dates of DICOM files, and this is none; leave it out")
    else:
        with open_input(options.exam, options) as exam, progress_bars() as watch:
            report, attributes = deidentify(exam, options.out, chosen, watch=watch), None
    for note in report.notes:
        print(f"dice-ce: {options.out}: {note}", file=sys.stderr)
    facts = json.loads(report.to_json(with_text=options.show_text))
    text = report_text(report, options.out, with_text=options.show_text)
    if attributes is not None:
        facts["attributes"] = asdict(attributes)
        kept = f"{len(attributes.removed)} removed, {len(attributes.replaced)} replaced"
        text = f"{text}\n  DICOM    attributes by PS3.15 E: {kept}, {len(attributes.shifted)} dates moved"
    emit(options, facts, f"{text}\n{DISCLAIMER}")
    return 0


def report_text(report: Report, out: Path, *, with_text: bool) -> str:
    """Say what was found, removed and proved."""
    lines = [f"{out}: {report.frames:,} frames, {report.quality} quality"]
    for text in report.texts:
        place = "inside the field of view" if text.is_inside else "outside the field of view"
        said = f": {text.text}" if with_text else ""
        lines.append(f"  found    {text.kind} at {','.join(map(str, text.box))}, {place}{said}")
    if not report.texts:
        lines.append("  found    no text in the images")
    if report.covers:
        lines.append(f"  covered  {len(report.covers)} boxes inside the field of view")
    if report.removed.metadata or report.removed.other_streams:
        gone = [*report.removed.metadata, *(f"{kind} stream" for kind in report.removed.other_streams)]
        lines.append(f"  removed  {', '.join(gone)}")
    if report.renamed:
        lines.append(f"  renamed  {report.renamed:,} frames")
    if report.undecodable:
        lines.append(f"  damaged  {len(report.undecodable):,} frames could not be decoded and are black")
    lines.append(
        f"  proved   {report.frames_compared:,} frames at the same times, black outside; no text in "
        f"{report.frames_searched} of them that were searched"
    )
    return "\n".join(lines)
