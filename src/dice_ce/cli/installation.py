"""Commands about the installation: encoder, cache, doctor."""

from __future__ import annotations

import argparse
from typing import Any

from dice_ce.cli.checks import a_file, writes
from dice_ce.cli.shared import command, emit, print_json, print_table


def add_commands(commands: Any) -> None:
    """Describe the commands of this module."""
    encoder = commands.add_parser("encoder", help="list or export encoders", description="List or export encoders.")
    encoders = encoder.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command(encoders, "list", run_encoder_list, "list the registered encoders and whether they would load here")
    export = command(encoders, "export", run_encoder_export, "write an encoder to one ONNX file")
    export.add_argument("encoder", help="name, model folder or hub id")
    writes(export, "--out", a_file, required=True, metavar="ONNX", help="file to write")

    cache = commands.add_parser("cache", help="list or clear the cache", description="List or clear the cache.")
    caches = cache.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command(caches, "list", run_cache_list, "list stored features")
    clear = command(caches, "clear", run_cache_clear, "remove stored features (what is in use stays)")
    clear.add_argument("--partial", action="store_true", help="remove only what interrupted runs left")

    command(commands, "doctor", run_doctor, "report versions, cache and CPU threads, and try the bundle")


def run_encoder_list(options: argparse.Namespace) -> int:
    """List the registered encoders."""
    from dice_ce.extras import install_command
    from dice_ce.features.encoder import ENCODERS

    rows = [
        {"name": name, "status": entry.status, "about": entry.about, "licence": entry.licence}
        for name, entry in ENCODERS.items()
    ]
    if options.json:
        print_json(rows)
        return 0
    print_table(rows)
    print("The shipped bundle has its own encoder, used wherever --encoder is not given; these here are alternatives.")
    print(f"To add an extra: {install_command('NAME')}")
    return 0


def run_encoder_export(options: argparse.Namespace) -> int:
    """Write an encoder to one ONNX file."""
    from dice_ce.features.encoder import export_encoder

    encoder = export_encoder(options.encoder, options.out)
    facts = {"name": encoder.name, "input_size": encoder.input_size, "dim": encoder.dim, "digest": encoder.digest}
    emit(
        options,
        facts,
        f"{options.out}: {encoder.name}, {encoder.dim}-d at {encoder.input_size}, sha256 {encoder.digest[:16]}",
    )
    return 0


def run_cache_list(options: argparse.Namespace) -> int:
    """List what is in the cache."""
    from dice_ce.features.store import list_cache

    return _show_entries(list_cache(), options, "the cache is empty")


def run_cache_clear(options: argparse.Namespace) -> int:
    """Remove what the cache holds."""
    from dice_ce.features.store import clear_cache

    kinds = {"partial"} if options.partial else {"partial", "features", "images", "clocks"}
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
        print_json([row | {"path": str(entry.path)} for row, entry in zip(rows, entries, strict=True)])
    elif rows:
        print_table(rows)
    else:
        print(empty)
    return 0


def run_doctor(options: argparse.Namespace) -> int:
    """Report what is installed and where things are."""
    from dice_ce.cli.describe import doctor_facts, doctor_text

    facts = doctor_facts()
    emit(options, facts, doctor_text(facts))
    return 0
