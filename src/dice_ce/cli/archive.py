"""Commands about archives of many exams: archive run, status, query, report."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import Extra, a_file, a_folder, needs, writes
from dice_ce.cli.shared import (
    add_bundle_options,
    add_exam_options,
    add_setting_options,
    amount,
    chosen_settings,
    clock_options,
    command,
    emit,
    positive,
    positive_int,
    whole,
)
from dice_ce.errors import UsageError

if TYPE_CHECKING:
    from dice_ce.archive.items import Item, Limits, Recipe
    from dice_ce.archive.manifest import Manifest
    from dice_ce.archive.run import Ended

TABLES = Extra(("pyarrow", "fsspec"), "archive", "working on archives")
QUERIES = Extra(("duckdb",), "archive", "asking an archive in SQL")
DRAWING = Extra(("matplotlib",), "archive", "drawing an archive")
CLUSTER = Extra(("ray",), "ray", "running on a cluster")
GIGABYTE = 2**30
MOST_FAILURES = 20


def add_commands(commands: Any, *, with_settings: bool = True) -> None:
    """Describe the commands of this module."""
    archive = commands.add_parser(
        "archive", help="many exams: run, status, query, report", description="Work on archives of many exams."
    )
    parts = archive.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(parts, with_settings)

    status = command(parts, "status", run_status, "say how an archive stands: done, failed and why, speed, time left")
    status.add_argument("archive", type=Path, metavar="ARCHIVE", help="folder that `archive run` writes")

    query = command(parts, "query", run_query, "ask an archive in SQL; the tables are exams, findings and frames")
    query.add_argument("archive", type=Path, metavar="ARCHIVE", help="folder that `archive run` writes")
    query.add_argument("sql", help="a query, for instance: select label, count(*) from findings group by label")
    query.add_argument("--csv", action="store_true", help="print CSV")
    needs(query, QUERIES)

    report = command(parts, "report", run_report, "write a page with plots about an archive")
    report.add_argument("archive", type=Path, metavar="ARCHIVE", help="folder that `archive run` writes")
    writes(report, "--out", a_file, metavar="HTML", help="where to write it (default: ARCHIVE/report.html)")
    needs(report, DRAWING)


def _add_run(parts: Any, with_settings: bool) -> None:
    run = command(parts, "run", run_run, "summarise all exams of an archive; what is done is not done again")
    run.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="folders, files, patterns, CSVs with a column 'video', or URLs (s3://…, sftp://…)",
    )
    writes(run, "--out", a_folder("archive.json"), required=True, metavar="ARCHIVE", help="new folder, or an archive")
    needs(run, TABLES)
    needs(run, CLUSTER, when=lambda options: options.engine == "ray")
    engine = run.add_argument_group("engine")
    engine.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="this machine, or Ray (default: local)"
    )
    engine.add_argument(
        "--workers", type=positive_int, help="processes (default: all cores); on a cluster, Ray decides"
    )
    engine.add_argument("--threads", type=positive_int, default=1, help="cores of one worker (default: 1)")
    engine.add_argument(
        "--ray-address", metavar="ADDRESS", help="auto, HOST:PORT or ray://HOST:PORT (default: start Ray)"
    )
    engine.add_argument("--memory", type=positive, metavar="GB", help="for one local worker (default: a fair share)")
    engine.add_argument("--retries", type=whole, default=2, help="tries again after a worker died (default: 2)")
    engine.add_argument(
        "--stall-limit", type=positive_int, default=600, metavar="SECONDS", help="end stuck workers (default: 600)"
    )
    engine.add_argument(
        "--patience", type=amount, default=600.0, metavar="SECONDS", help="wait for lost storage (default: 600)"
    )
    engine.add_argument(
        "--split-frames", type=positive_int, default=4000, help="longer exams are split (default: 4000)"
    )
    storage = run.add_argument_group("storage")
    storage.add_argument(
        "--cache", type=Path, metavar="DIR", help="features (default: ARCHIVE/cache); shared on a cluster"
    )
    storage.add_argument("--drop-features", action="store_true", help="remove the features of an exam once it is done")
    storage.add_argument("--scratch", type=Path, metavar="DIR", help="remote exams are staged here (default: in /tmp)")
    storage.add_argument("--scratch-size", type=positive, metavar="GB", help="limit on each machine (default: 20)")
    add_exam_options(run)
    model = run.add_argument_group("model")
    add_bundle_options(model)
    model.add_argument("--no-gate", action="store_true", help="encode every frame, also near-identical ones")
    if with_settings:
        add_setting_options(run)


def run_run(options: argparse.Namespace) -> int:
    """Summarise an archive; an exam that fails does not stop the others, and gives exit code 1."""
    from dice_ce.archive.manifest import ReplacedError
    from dice_ce.archive.sources import find_exams

    if options.ray_address and options.engine != "ray":
        raise UsageError("--ray-address: give --engine ray, too")
    recipe = _recipe(options)
    items = find_exams(options.sources, besides=options.out)
    print(f"dice-ce: {len(items):,} exams found", file=sys.stderr)
    while True:
        try:
            return _say(options, _run_once(options, recipe, items))
        except ReplacedError:  # begun in the empty folder under a share that was away
            _note(f"{options.out}: the archive has come back; beginning again with it")


def _run_once(options: argparse.Namespace, recipe: Recipe, items: Sequence[Item]) -> Ended:
    from dice_ce.archive.run import Run, patiently, places_of
    from dice_ce.progress import ProgressBar

    scratch_bytes = int(options.scratch_size * GIGABYTE) if options.scratch_size else None
    with contextlib.ExitStack() as stack:
        identity, manifest = patiently(lambda: _opened(options.out, stack), options.patience, _note)
        places = places_of(options.out, identity, options.cache, options.scratch, scratch_bytes)
        limits = _limits(options)
        heed = stack.enter_context(stopped_by_signals())
        engine = _engine(options, limits)
        with ProgressBar(options.out.name, unit="exams") as bar:
            means = {"patience": options.patience, "progress": bar, "note": _note, "heed": heed}
            return Run(manifest, engine, recipe, places, limits, **means).go(items)


def _opened(folder: Path, stack: contextlib.ExitStack) -> tuple[str, Manifest]:
    """Make or open the archive; the stack gives it back."""
    from dice_ce.archive.manifest import Manifest, create_archive, driver_lock

    with contextlib.ExitStack() as opening:
        identity = create_archive(folder)
        opening.enter_context(driver_lock(folder))
        manifest = opening.enter_context(contextlib.closing(Manifest(folder)))
        stack.enter_context(opening.pop_all())
        return identity, manifest


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Callable[[], None]]:
    """Stop as for Ctrl-C also by the signal that Slurm, Kubernetes and `ray job stop` send.

    Libraries may turn an interruption into errors of their own; it stays one. One that came where Python drops it, such
    as in a destructor, is raised again by what is yielded.
    """
    came: list[int] = []

    def stop(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    def heed() -> None:
        if came:
            raise KeyboardInterrupt

    is_ignored = signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # as shells have it with `&`
    caught = [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGINT]
    before = [signal.signal(one, stop) for one in caught]
    try:
        yield heed
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        for one, handler in zip(caught, before, strict=True):
            signal.signal(one, handler)


def _note(text: str) -> None:
    print(f"dice-ce: {text}", file=sys.stderr, flush=True)


def _recipe(options: argparse.Namespace) -> Recipe:
    from dice_ce.archive.items import Recipe
    from dice_ce.exam.open import Crop
    from dice_ce.features.gate import GateConfig
    from dice_ce.method.bundle import FAST, load_bundle, shipped_bundles
    from dice_ce.settings import values_of

    bundle = load_bundle(options.bundle)
    settings, clock = chosen_settings(options, bundle), clock_options(options)
    ordinary = values_of(bundle.settings(options.profile))
    spec = options.bundle
    if spec is not None and spec.removesuffix(FAST) not in shipped_bundles():
        spec = str(Path(spec).absolute())
    return Recipe(
        bundle=spec,
        bundle_digest=bundle.digest,
        settings=settings,
        chosen=tuple((name, value) for name, value in values_of(settings).items() if value != ordinary[name]),
        profile=options.profile,
        gate=None if options.no_gate else GateConfig(),
        clock=replace(clock, sidecar=clock.sidecar.absolute() if clock.sidecar else None),
        crop=Crop.parse(options.crop) if options.crop else None,
        mask=not options.no_mask,
    )


def _limits(options: argparse.Namespace) -> Limits:
    from dice_ce.archive.items import Limits
    from dice_ce.archive.local import default_memory
    from dice_ce.features.extraction import cpu_count

    memory = int(options.memory * GIGABYTE) if options.memory else None
    if memory is None and options.engine == "local":
        memory = default_memory(options.workers or cpu_count())
    return Limits(
        stall_seconds=options.stall_limit,
        memory_bytes=memory,
        threads=options.threads,
        split_frames=options.split_frames,
        keep_features=not options.drop_features,
    )


def _engine(options: argparse.Namespace, limits: Limits) -> Any:
    if options.engine == "ray":
        from dice_ce.archive.cluster import RayEngine

        return RayEngine(options.ray_address, options.workers, retries=options.retries, threads=options.threads)
    from dice_ce.archive.local import LocalEngine

    return LocalEngine(options.workers, limits, retries=options.retries)


def _say(options: argparse.Namespace, ended: Ended) -> int:
    for row in ended.failed[:MOST_FAILURES]:
        print(f"dice-ce: error: {row.reason}", file=sys.stderr)
    if len(ended.failed) > MOST_FAILURES:
        print(f"dice-ce: and {len(ended.failed) - MOST_FAILURES:,} more; see: archive status", file=sys.stderr)
    facts = {
        "disclaimer": DISCLAIMER,
        "found": ended.found,
        "known": ended.known,
        "done": ended.done,
        "skipped": ended.skipped,
        "failed": [{"place": row.place, "reason": row.reason} for row in ended.failed],
    }
    text = (
        f"{options.out}: {ended.found:,} exams found, {ended.known:,} known, {ended.done:,} done, "
        f"{ended.skipped:,} skipped, {len(ended.failed):,} failed\n{DISCLAIMER}"
    )
    emit(options, facts, text)
    return 1 if ended.failed else 0


def run_status(options: argparse.Namespace) -> int:
    """Say how an archive stands."""
    from dice_ce.archive.status import read_status, status_facts, status_text

    status = read_status(options.archive)
    emit(options, {"disclaimer": DISCLAIMER, **status_facts(status)}, f"{status_text(status)}\n{DISCLAIMER}")
    return 0


def run_query(options: argparse.Namespace) -> int:
    """Answer a query."""
    from dice_ce.archive.status import query_archive
    from dice_ce.csvfile import table_text
    from dice_ce.table import Table

    header, rows = query_archive(options.archive, options.sql)
    if options.json:
        emit(options, [dict(zip(header, map(_plain, row), strict=True)) for row in rows], "")
    elif options.csv:
        print(table_text(header, rows), end="")
    else:
        print(Table.of(header, [["" if value is None else value for value in row] for row in rows]).text())
    return 0


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def run_report(options: argparse.Namespace) -> int:
    """Write the page."""
    from dice_ce.archive.report import write_report

    target = options.out or options.archive / "report.html"
    write_report(options.archive, target)
    emit(options, {"report": str(target)}, f"report  {target}")
    return 0
