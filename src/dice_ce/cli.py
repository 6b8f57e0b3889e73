"""The command `dice-ce`: thin subcommands, each importing what it needs when it runs.

Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted (finished work is kept).
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dice_ce import DISCLAIMER, __version__
from dice_ce.errors import DiceError, UsageError

if TYPE_CHECKING:
    from dice_ce.bundle import Settings
    from dice_ce.exam import Exam

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    options.words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: int = options.run(options)
        return code
    except DiceError as error:
        print(f"dice-ce: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("dice-ce: interrupted; finished work is kept, the same command goes on from there", file=sys.stderr)
        return 130


# --- what can be asked ---------------------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    """Describe all commands; nothing heavy is imported for that."""
    parser = argparse.ArgumentParser(
        prog="dice-ce",
        description="Short, trustworthy summaries of whole capsule-endoscopy exams.",
        epilog=f"{DISCLAIMER} Exit codes: 0 fine, 1 an input failed, 2 wrong usage, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"dice-ce {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    inspect = _command(commands, "inspect", run_inspect, "show what an exam is: frames, times, field of view")
    inspect.add_argument("exam", type=Path, help="video file, or folder or zip of frames")
    _add_exam_options(inspect)
    inspect.add_argument("--sheet", type=Path, metavar="PNG", help="also write a contact sheet of the exam")

    summary = _command(commands, "summarize", run_summarize, "summarise exams: findings, keyframes and a report")
    summary.add_argument(
        "exams", type=Path, nargs="+", metavar="exam", help="video files, or folders or zips of frames"
    )
    summary.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="each exam gets a folder of its own there"
    )
    _add_exam_options(summary)
    model = summary.add_argument_group("model")
    model.add_argument("--bundle", help="name of a shipped bundle, or a folder or zip (see: doctor)")
    model.add_argument("--tau-s", type=_share, help="selector score from which a frame is a candidate")
    model.add_argument("--tau-agree", type=_share, help="probability from which a frame supports its context's label")
    model.add_argument("--tau-min", type=_share, help="confidence below which a context is dropped")
    model.add_argument("--coarse-minutes", type=float, help="exam time per anatomical context")
    model.add_argument("--delta-fine", type=float, help="token distance at which glimpses are of different lesions")
    model.add_argument("--weaver", choices=("ward", "kmeans"), help="how anatomical contexts are found")
    model.add_argument("--tokens", choices=("seconds", "frame_index"), help="what the temporal half of a token counts")
    model.add_argument(
        "--without",
        action="append",
        choices=("weaver", "converger"),
        help="leave out a stage, as the paper's ablations",
    )
    model.add_argument("--no-gate", action="store_true", help="encode every frame, also near-identical ones")

    extract = _command(commands, "extract", run_extract, "compute the features of exams into the cache")
    extract.add_argument(
        "exams", type=Path, nargs="+", metavar="exam", help="video files, or folders or zips of frames"
    )
    _add_exam_options(extract)
    extract.add_argument("--encoder", default=None, help="name, .onnx file, model folder or hub id (see: encoder list)")
    extract.add_argument("--no-gate", action="store_true", help="encode every frame, also near-identical ones")
    extract.add_argument("--workers", type=_positive_int, help="threads to use (default: all cores)")

    encoder = commands.add_parser("encoder", help="list or export encoders", description="List or export encoders.")
    encoders = encoder.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _command(encoders, "list", run_encoder_list, "list the registered encoders and whether they would load here")
    export = _command(encoders, "export", run_encoder_export, "write an encoder to one ONNX file")
    export.add_argument("encoder", help="name, model folder or hub id")
    export.add_argument("--out", type=Path, required=True, metavar="ONNX", help="file to write")

    cache = commands.add_parser("cache", help="list or clear the cache", description="List or clear the cache.")
    caches = cache.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _command(caches, "list", run_cache_list, "list stored features and encoders")
    clear = _command(caches, "clear", run_cache_clear, "remove stored features (what is in use stays)")
    clear.add_argument("--partial", action="store_true", help="remove only what interrupted runs left")
    clear.add_argument("--all", action="store_true", help="also remove exported encoders")

    simulate = _command(commands, "simulate", run_simulate, "render a procedural exam, to try things without data")
    simulate.add_argument(
        "--out", type=Path, required=True, metavar="MP4", help="video to write; its clock and truth go beside it"
    )
    simulate.add_argument("--frames", type=_positive_int, default=3000)
    simulate.add_argument("--size", type=_positive_int, default=336, help="side in pixels (default: 336)")
    simulate.add_argument("--seed", type=int, default=0)
    simulate.add_argument("--exam-fps", type=_fraction, default=Fraction(1), help="frames per exam second (default: 1)")
    simulate.add_argument("--lesions", type=_whole, help="lesion events (default: about one in 250 frames)")
    simulate.add_argument("--field", choices=("octagon", "round"), default="octagon", help="shape of the window")

    _command(commands, "doctor", run_doctor, "report versions, encoders, cache and CPU threads")
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=DISCLAIMER
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=run)
    return parser


def _add_exam_options(parser: argparse.ArgumentParser) -> None:
    clock = parser.add_argument_group("exam clock", "Playback time is not exam time. The first of these wins:")
    clock.add_argument("--clock", type=Path, metavar="CSV", help="frame,seconds or frame,HH:MM:SS per row")
    clock.add_argument("--exam-fps", type=_fraction, help="frames the capsule took per second, e.g. 2 or 0.7 or 1/3")
    clock.add_argument("--exam-duration", type=_time, help="length of the exam in seconds or HH:MM:SS")
    clock.add_argument("--container-clock", action="store_true", help="the file's own timestamps are exam time")
    clock.add_argument("--exam-start", type=_time, help="exam time of the first frame, beside one of the above")
    picture = parser.add_argument_group("picture")
    picture.add_argument("--crop", metavar="X,Y,W,H", help="one camera out of a multi-camera layout")
    picture.add_argument("--no-mask", action="store_true", help="keep burned-in text outside the field of view")


def _parsed_by(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Let argparse show the message of a ValueError instead of its own."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except (ValueError, ZeroDivisionError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def _read_time(text: str) -> Fraction:
    from dice_ce.clock import parse_time

    return parse_time(text)


def _read_whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"'{text}' is not a whole number")
    return int(text)


def _read_positive(text: str) -> int:
    if _read_whole(text) == 0:
        raise ValueError(f"'{text}' is not positive")
    return int(text)


def _read_share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"'{text}' is not between 0 and 1")
    return value


_share = _parsed_by(_read_share)
_time = _parsed_by(_read_time)
_fraction = _parsed_by(Fraction)
_whole = _parsed_by(_read_whole)
_positive_int = _parsed_by(_read_positive)


# --- what happens then ---------------------------------------------------------------------------------------------


def _open(path: Path, options: argparse.Namespace) -> Exam:
    from dice_ce.clock import ClockOptions
    from dice_ce.exam import Crop, open_exam

    clock = ClockOptions(
        sidecar=options.clock,
        exam_fps=options.exam_fps,
        exam_duration=options.exam_duration,
        exam_start=options.exam_start,
        container_is_exam_time=options.container_clock,
    )
    crop = Crop.parse(options.crop) if options.crop else None
    return open_exam(path, clock=clock, crop=crop, mask=not options.no_mask)


def run_inspect(options: argparse.Namespace) -> int:
    """Show what an exam is."""
    from dice_ce.describe import contact_sheet, exam_facts, exam_text

    with _open(options.exam, options) as exam:
        if options.sheet:
            contact_sheet(exam, options.sheet)
        _print_json(exam_facts(exam)) if options.json else print(exam_text(exam))
    if options.sheet and not options.json:
        print(f"  contact sheet  {options.sheet}")
    return 0


def run_extract(options: argparse.Namespace) -> int:
    """Compute features; one exam that fails does not stop the others."""
    from dice_ce.describe import extraction_facts, extraction_text
    from dice_ce.encoder import DEFAULT_ENCODER, load_encoder
    from dice_ce.extraction import extract
    from dice_ce.gate import GateConfig
    from dice_ce.progress import ProgressBar

    encoder = load_encoder(options.encoder or DEFAULT_ENCODER)
    gate = None if options.no_gate else GateConfig()

    def work(path: Path) -> dict[str, Any]:
        with _open(path, options) as exam, ProgressBar(exam.id) as bar:
            features = extract(exam, encoder, gate=gate, workers=options.workers, progress=bar)
        if not options.json:
            print(extraction_text(exam, features))
        return extraction_facts(exam, features)

    return _for_each(options, work)


def run_summarize(options: argparse.Namespace) -> int:
    """Summarise exams; one that fails does not stop the others."""
    from dice_ce.bundle import load_bundle
    from dice_ce.describe import summary_table
    from dice_ce.gate import GateConfig
    from dice_ce.outputs import write_outputs
    from dice_ce.pipeline import summarize
    from dice_ce.progress import ProgressBar

    bundle = load_bundle(options.bundle)
    settings = _override(bundle.settings, options)
    folders: list[dict[str, Any]] = []

    def work(path: Path) -> dict[str, Any]:
        with _open(path, options) as exam, ProgressBar(exam.id) as bar:
            if any(done.get("id") == exam.id for done in folders):
                raise UsageError(
                    f"{path}: another input is called '{exam.id}', too; summarise them into different folders"
                )
            summary = summarize(
                exam,
                bundle=bundle,
                settings=settings,
                without=tuple(options.without or ()),
                gate=None if options.no_gate else GateConfig(),
                progress=bar,
                command=_command_line(options),
            )
            folder = write_outputs(summary, exam, options.out)
        if not options.json:
            print(summary_table(summary))
            print(f"  report  {folder / 'report.html'}")
        folders.append({"id": exam.id, "folder": str(folder), **summary.counts})
        return folders[-1]

    return _for_each(options, work)


def _override(settings: Settings, options: argparse.Namespace) -> Settings:
    """Take the bundle's settings, except where the command line says otherwise."""

    def given(names: dict[str, str]) -> dict[str, Any]:
        values = {field: getattr(options, option) for field, option in names.items()}
        return {field: value for field, value in values.items() if value is not None}

    weaver = given({"coarse_minutes": "coarse_minutes", "delta_fine": "delta_fine", "method": "weaver"})
    tokens = replace(settings.weaver.tokens, **given({"time": "tokens"}))
    return replace(
        settings,
        **given({"tau_s": "tau_s"}),
        weaver=replace(settings.weaver, tokens=tokens, **weaver),
        converger=replace(settings.converger, **given({"tau_agree": "tau_agree", "tau_min": "tau_min"})),
    )


def _command_line(options: argparse.Namespace) -> str:
    """Repeat the command for the provenance, with names instead of paths."""
    words = [Path(word).name if "/" in word or "\\" in word else word for word in options.words]
    return shlex.join(["dice-ce", *words])


def _for_each(options: argparse.Namespace, work: Callable[[Path], dict[str, Any]]) -> int:
    """Do the same with every input; one that fails is named at the end and does not stop the others."""
    results, failed = [], []
    for path in options.exams:
        try:
            results.append(work(path))
        except UsageError:
            raise
        except DiceError as error:
            failed.append(str(path))
            results.append({"input": str(path), "error": str(error)})
            print(f"dice-ce: error: {error}", file=sys.stderr)
    if options.json:
        _print_json({"disclaimer": DISCLAIMER, "exams": results})
    else:
        print(DISCLAIMER)
    if failed:
        print(f"dice-ce: {len(failed)} of {len(options.exams)} inputs failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run_encoder_list(options: argparse.Namespace) -> int:
    """List the registered encoders."""
    from dice_ce.encoder import ENCODERS

    rows = [
        {"name": name, "status": entry.status, "about": entry.about, "licence": entry.licence}
        for name, entry in ENCODERS.items()
    ]
    _print_json(rows) if options.json else _print_table(rows)
    return 0


def run_encoder_export(options: argparse.Namespace) -> int:
    """Write an encoder to one ONNX file."""
    from dice_ce.encoder import export_encoder

    encoder = export_encoder(options.encoder, options.out)
    facts = {"name": encoder.name, "input_size": encoder.input_size, "dim": encoder.dim, "digest": encoder.digest}
    _print_json(facts) if options.json else print(
        f"{options.out}: {encoder.name}, {encoder.dim}-d at {encoder.input_size}, sha256 {encoder.digest[:16]}"
    )
    return 0


def run_cache_list(options: argparse.Namespace) -> int:
    """List what is in the cache."""
    from dice_ce.store import list_cache

    return _show_entries(list_cache(), options, "the cache is empty")


def run_cache_clear(options: argparse.Namespace) -> int:
    """Remove what the cache holds."""
    from dice_ce.store import clear_cache

    kinds = {"partial"} if options.partial else {"partial", "features"} | ({"encoder"} if options.all else set())
    return _show_entries(clear_cache(kinds), options, "nothing to remove")


def _show_entries(entries: list[Any], options: argparse.Namespace, empty: str) -> int:
    rows = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "encoder": entry.encoder,
            "frames": entry.frames,
            "megabytes": round(entry.bytes / 1e6, 1),
        }
        for entry in entries
    ]
    if options.json:
        _print_json([row | {"path": str(entry.path)} for row, entry in zip(rows, entries, strict=True)])
    elif rows:
        _print_table(rows)
    else:
        print(empty)
    return 0


def run_simulate(options: argparse.Namespace) -> int:
    """Render a procedural exam."""
    from dice_ce.progress import ProgressBar
    from dice_ce.simulator import simulate

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
    _print_json(facts) if options.json else print(
        f"{made.video}: {options.frames:,} frames, {len(made.findings)} lesion events; clock and truth beside it"
    )
    return 0


def run_doctor(options: argparse.Namespace) -> int:
    """Report what is installed and where things are."""
    from dice_ce.describe import doctor_facts, doctor_text

    facts = doctor_facts()
    _print_json(facts) if options.json else print(doctor_text(facts))
    return 0


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _print_table(rows: list[dict[str, Any]]) -> None:
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in rows[0]}, *rows]:
        print("  ".join(str(row[key]).ljust(width) for key, width in widths.items()).rstrip())


if __name__ == "__main__":
    sys.exit(main())
