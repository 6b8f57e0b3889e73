"""Commands that work on exams: inspect, summarize, extract, simulate."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from dice_ce.cli.checks import a_file_with_neighbours, a_folder, an_image, writes
from dice_ce.cli.hospital import KINDS, kinds
from dice_ce.cli.shared import (
    add_bundle_options,
    add_device_option,
    add_exam_options,
    add_seed_option,
    add_setting_options,
    chosen_settings,
    command,
    command_line,
    emit,
    expand_folders,
    for_each,
    fraction,
    open_input,
    positive_int,
    whole,
)
from dice_ce.errors import UsageError


def add_commands(commands: Any, *, with_settings: bool = True) -> None:
    """Describe the commands of this module; the settings of `summarize` take importing the method."""
    inspect = command(commands, "inspect", run_inspect, "show what an exam is: frames, times, field of view")
    inspect.add_argument("exam", type=Path, help="video file, or folder or zip of frames")
    add_exam_options(inspect)
    sheet = an_image(".png", ".jpg", ".bmp")
    writes(inspect, "--sheet", sheet, metavar="PNG", help="also write a contact sheet of the exam")

    summary = command(commands, "summarize", run_summarize, "summarise exams: findings, keyframes and a report")
    summary.add_argument(
        "exams",
        type=Path,
        nargs="+",
        metavar="exam",
        help="video files, folders or zips of frames, or folders of these",
    )
    writes(summary, "--out", a_folder(), required=True, metavar="DIR", help="each exam gets a folder of its own there")
    summary.add_argument(
        "--also", type=kinds, default=(), metavar="LIST", help=f"further outputs, some of {KINDS}, such as pdf,dicom"
    )
    summary.add_argument(
        "--keep-identity",
        action="store_true",
        help="write patient and study of DICOM exams into what --also makes (default: nowhere)",
    )
    summary.add_argument(
        "--follow", action="store_true", help="also write summary and report, marked as unfinished, while reading on"
    )
    summary.add_argument("--force", action="store_true", help="replace what is there, even the results of another exam")
    add_exam_options(summary)
    model = summary.add_argument_group("model")
    add_bundle_options(model)
    add_device_option(model)
    model.add_argument("--no-gate", action="store_true", help="encode every frame, also near-identical ones")
    if with_settings:
        add_setting_options(summary)

    extract = command(commands, "extract", run_extract, "compute the features of exams ahead of summarize")
    extract.add_argument(
        "exams",
        type=Path,
        nargs="+",
        metavar="exam",
        help="video files, folders or zips of frames, or folders of these",
    )
    add_exam_options(extract)
    encoder = extract.add_mutually_exclusive_group()
    encoder.add_argument("--bundle", help="the bundle whose encoder is used (default: 'default')")
    encoder.add_argument(
        "--encoder", help="another encoder: name, .onnx file, model folder or hub id (see: encoder list)"
    )
    add_device_option(extract)
    extract.add_argument("--no-gate", action="store_true", help="encode every frame, also near-identical ones")
    extract.add_argument("--workers", type=positive_int, help="threads to use (default: all cores)")

    simulate = command(commands, "simulate", run_simulate, "render a procedural exam, to try things without data")
    help_text = "video to write; its clock and truth go beside it"
    writes(simulate, "--out", a_file_with_neighbours, required=True, metavar="MP4", help=help_text)
    simulate.add_argument("--frames", type=positive_int, default=3000, help="how many (default: 3000)")
    simulate.add_argument("--size", type=positive_int, default=336, help="side in pixels (default: 336)")
    add_seed_option(simulate)
    simulate.add_argument("--exam-fps", type=fraction, default=Fraction(1), help="frames per exam second (default: 1)")
    simulate.add_argument("--lesions", type=whole, help="lesion events (default: about one in 250 frames)")
    simulate.add_argument("--field", choices=("octagon", "round"), default="octagon", help="shape of the window")


def run_inspect(options: argparse.Namespace) -> int:
    """Show what an exam is."""
    from dice_ce.cli.describe import contact_sheet, exam_facts, exam_text, shown_clock

    with open_input(options.exam, options) as exam:
        if options.sheet:
            contact_sheet(exam, options.sheet)
        shown = shown_clock(exam)
        emit(options, exam_facts(exam) | {"burned_in_clock": shown}, exam_text(exam, shown))
    if options.sheet and not options.json:
        print(f"  contact sheet  {options.sheet}")
    return 0


def run_summarize(options: argparse.Namespace) -> int:
    """Summarise exams; one that fails does not stop the others."""
    from dice_ce.cli.describe import summary_table
    from dice_ce.exam.dicom.identity import Identity, read_identity
    from dice_ce.exam.readers import is_dicom_input
    from dice_ce.features.gate import GateConfig
    from dice_ce.method.bundle import bundle_on_device, load_bundle
    from dice_ce.method.pipeline import summarize
    from dice_ce.method.summary import Summary
    from dice_ce.outputs import OUTPUTS, check_installed, write_outputs, write_unfinished
    from dice_ce.outputs.places import check_places
    from dice_ce.progress import ProgressBar

    check_installed(options.also)
    if options.keep_identity and not options.also:
        raise UsageError("--keep-identity needs --also: no other output says who the patient is")
    expand_folders(options)
    check_places(options.exams, options.out, force=options.force)
    bundle = bundle_on_device(load_bundle(options.bundle), options.device)
    settings = chosen_settings(options, bundle)

    def identity_of(path: Path) -> Identity | None:
        if not options.keep_identity:
            return None
        if not is_dicom_input(path):
            raise UsageError(
                f"{path}: --keep-identity is for DICOM exams; use: dice-ce export RESULTS --format pdf --identity FILE"
            )
        return read_identity(path)

    def work(path: Path) -> dict[str, Any]:
        identity = identity_of(path)
        with open_input(path, options) as exam, ProgressBar(exam.id) as bar:

            def write_so_far(summary: Summary) -> None:
                write_unfinished(summary, exam, options.out, force=options.force)

            summary = summarize(
                exam,
                bundle=bundle,
                settings=settings,
                profile=options.profile,
                gate=None if options.no_gate else GateConfig(),
                progress=bar,
                command=command_line(options),
                follow=write_so_far if options.follow else None,
            )
            folder = write_outputs(
                summary, exam, options.out, also=options.also, identity=identity, force=options.force
            )
        if not options.json:
            print(summary_table(summary))
            print(f"  report  {folder / 'report.html'}")
            for kind in options.also:
                print(f"  {kind:<6}  {folder / OUTPUTS[kind].name}")
        return {"id": exam.id, "folder": str(folder), **asdict(summary.counts)}

    return for_each(options, work)


def run_extract(options: argparse.Namespace) -> int:
    """Compute features; one exam that fails does not stop the others."""
    from dice_ce.cli.describe import extraction_facts, extraction_text
    from dice_ce.features.encoder import load_encoder, on_device
    from dice_ce.features.extraction import extract
    from dice_ce.features.gate import GateConfig
    from dice_ce.method.bundle import load_bundle
    from dice_ce.progress import ProgressBar

    expand_folders(options)
    encoder = load_encoder(options.encoder) if options.encoder else load_bundle(options.bundle).encoder
    encoder = on_device(encoder, options.device)
    gate = None if options.no_gate else GateConfig()

    def work(path: Path) -> dict[str, Any]:
        with open_input(path, options) as exam, ProgressBar(exam.id) as bar:
            features = extract(exam, encoder, gate=gate, workers=options.workers, progress=bar)
        if not options.json:
            print(extraction_text(exam, features))
        return extraction_facts(exam, features)

    return for_each(options, work)


def run_simulate(options: argparse.Namespace) -> int:
    """Render a procedural exam."""
    from dice_ce.lab.simulator import simulate
    from dice_ce.progress import ProgressBar

    try:
        with ProgressBar(options.out.name) as bar:
            made = simulate(
                options.out,
                frames=options.frames,
                size=options.size,
                seed=options.seed,
                exam_fps=options.exam_fps,
                field=options.field,
                lesions=options.lesions,
                progress=bar,
            )
    except ValueError as error:
        raise UsageError(f"simulate: {error}") from error
    facts = {
        "video": str(made.video),
        "clock": str(made.clock),
        "findings": str(made.findings_file),
        "truth": str(made.truth_file),
        "frames": options.frames,
        "lesions": len(made.findings),
    }
    emit(
        options,
        facts,
        f"{made.video}: {options.frames:,} frames, {len(made.findings)} lesion events; clock and truth beside it",
    )
    return 0
