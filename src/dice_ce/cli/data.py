"""Commands about data: data check, split, import, compare, recordings, splice, compose."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import COMPOSING, DRAWING, a_file, a_folder, a_table, an_image, needs, writes
from dice_ce.cli.shared import add_seed_option, command, emit, positive_int, shares
from dice_ce.datasets import IMPORTERS
from dice_ce.errors import UsageError


def add_commands(commands: Any) -> None:
    """Describe the commands of this module."""
    data = commands.add_parser(
        "data",
        help="datasets: check, split, import, compare, recordings, splice, compose",
        description="Work on datasets.",
    )
    parts = data.add_subparsers(title="commands", metavar="COMMAND", required=True)

    check = command(parts, "check", run_check, "look for everything that is wrong with a dataset, and sum it up")
    check.add_argument("dataset", type=Path, metavar="DIR", help="folder with exams.csv, findings.csv and the videos")
    plot = an_image(".png", ".svg", ".pdf")
    writes(check, "--plot", plot, metavar="PNG", help="also draw the statistics (.png, .svg or .pdf)")
    needs(check, DRAWING, when=lambda options: options.plot is not None)

    split = command(parts, "split", run_split, "deal the patients of a dataset into train, validation and test")
    split.add_argument("dataset", type=Path, metavar="DIR", help="folder with exams.csv; its split column is filled")
    split.add_argument("--shares", type=shares, default=(160, 40, 40), help="three parts (default: 160,40,40)")
    add_seed_option(split)
    split.add_argument("--force", action="store_true", help="deal again where splits are decided already")

    importer = command(parts, "import", run_import, "read a public dataset in its own layout into one table of frames")
    importer.add_argument("name", help=f"one of {', '.join(IMPORTERS)}")
    layouts = "; ".join(f"{name}: {one.expects}" for name, one in IMPORTERS.items())
    importer.epilog = f"What the folder holds. {layouts}. {DISCLAIMER}"
    importer.add_argument("folder", type=Path, metavar="DIR", help="the dataset as it was downloaded")
    writes(importer, "--out", a_file, metavar="CSV", help="write path, source, case, frame_number, label, split")

    compare = command(parts, "compare", run_compare, "put datasets side by side: exams, frames, labels, reports, time")
    places = "folder with exams.csv, or NAME=DIR for a public dataset as it was downloaded"
    compare.add_argument("datasets", nargs="+", metavar="DIR|NAME=DIR", help=places)
    compare.add_argument("--published", action="store_true", help="also the rows of the paper's table")
    writes(compare, "--out", a_table, metavar="FILE", help="write the table there (.md, .csv or .tex)")

    recordings = command(parts, "recordings", run_recordings, "put the labelled frames of real videos back in order")
    recordings.add_argument("--frames", type=Path, required=True, metavar="DATA", help="folder with labelled frames")
    writes(recordings, "--out", a_folder("exams.csv"), required=True, metavar="DIR", help="dataset to write")

    splice = command(
        parts, "splice", run_splice, "splice exams like real ones from real frames, without drawing videos"
    )
    splice.add_argument("--frames", type=Path, required=True, metavar="DATA", help="folder with labelled frames")
    splice.add_argument("--timelines", type=Path, required=True, metavar="JSON", help="Galar's events.json")
    writes(splice, "--out", a_folder("exams.csv"), required=True, metavar="DIR", help="dataset to write")
    splice.add_argument("--exams", type=positive_int, default=15, help="how many, dealt to the folds (default: 15)")
    splice.add_argument("--frames-per-exam", type=positive_int, default=30_000, help="length (default: 30000)")
    add_seed_option(splice)

    compose = command(parts, "compose", run_compose, "compose whole exams from real frames on real timelines")
    compose.add_argument("--frames", type=Path, required=True, metavar="DATA", help="folder with labelled frames")
    compose.add_argument("--timelines", type=Path, required=True, metavar="JSON", help="Galar's events.json")
    writes(compose, "--out", a_folder("composition.json"), required=True, metavar="DIR", help="dataset to write")
    needs(compose, COMPOSING)
    compose.add_argument("--exams", type=positive_int, default=68, help="how many (default: 68)")
    compose.add_argument("--frames-per-exam", type=positive_int, default=8000, help="length of an exam (default: 8000)")
    compose.add_argument("--shares", type=shares, default=(32, 12, 24), help="three parts (default: 32,12,24)")
    compose.add_argument("--size", type=positive_int, default=336, help="side in pixels (default: 336)")
    add_seed_option(compose)
    compose.add_argument("--workers", type=positive_int, help="threads to use (default: all cores)")


def run_check(options: argparse.Namespace) -> int:
    """Check a dataset; problems give exit code 1."""
    from dice_ce.datasets.check import check_dataset, check_facts, check_text
    from dice_ce.progress import ProgressBar

    with ProgressBar("checking", unit="exams") as bar:
        check = check_dataset(options.dataset, progress=bar)
    if options.plot:
        from dice_ce.datasets.statistics import draw_statistics

        draw_statistics(check.dataset, {facts.exam_id: facts.seconds for facts in check.exams}, options.plot)
    emit(options, {"disclaimer": DISCLAIMER, **check_facts(check)}, check_text(check))
    if options.plot and not options.json:
        print(f"plot  {options.plot}")
    return 1 if check.problems else 0


def run_split(options: argparse.Namespace) -> int:
    """Fill the split column, all exams of a patient on one side."""
    from dice_ce.datasets.folder import load_dataset, write_splits
    from dice_ce.datasets.splits import SPLITS, split_patients

    dataset = load_dataset(options.dataset)
    decided = sum(bool(row.split) for row in dataset.exams)
    if decided and not options.force:
        raise UsageError(f"{options.dataset}: {decided} exams have a split already; --force deals them again")
    splits = split_patients((row.patient_id for row in dataset.exams), options.shares, options.seed)
    write_splits(options.dataset, splits)
    counts = {name: sum(split == name for split in splits.values()) for name in SPLITS}
    emit(
        options,
        {"patients": counts},
        f"{options.dataset}: " + ", ".join(f"{count} patients in {name}" for name, count in counts.items()),
    )
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Read a public dataset, say what was odd, and write its table."""
    from dice_ce.datasets import import_dataset
    from dice_ce.datasets.frametable import tables_facts, tables_text, write_frames

    tables = import_dataset(options.name, options.folder)
    emit(options, tables_facts(tables), tables_text(tables))
    if options.out:
        rows = write_frames(options.out, tables.frames)
        print(f"{options.out}: {rows:,} frames", file=sys.stderr if options.json else sys.stdout)
    return 0


def run_compare(options: argparse.Namespace) -> int:
    """Print the comparison of datasets."""
    from dice_ce.datasets.comparison import PUBLISHED, comparison_table, gather_facts
    from dice_ce.files import write_atomically
    from dice_ce.progress import ProgressBar

    with ProgressBar("reading datasets", unit="datasets") as bar:
        found = gather_facts(options.datasets, bar)
    published = PUBLISHED if options.published else ()
    table = comparison_table(found, published)
    if options.out:
        write = {".md": table.markdown, ".csv": table.csv, ".tex": table.latex}[options.out.suffix.lower()]
        write_atomically(options.out, (write().rstrip("\n") + "\n").encode())
    facts = {"found": [one.to_json() for one in found], "published": [one.to_json() for one in published]}
    emit(options, {"disclaimer": DISCLAIMER, **facts}, table.text())
    return 0


def run_recordings(options: argparse.Namespace) -> int:
    """Make real recordings of labelled frames, with two readings of what a report would say."""
    from dice_ce.datasets.pool import load_pool
    from dice_ce.datasets.recordings import RUNS, recordings_text, write_recordings
    from dice_ce.progress import ProgressBar

    with ProgressBar("writing recordings", unit="exams") as bar:
        made = write_recordings(load_pool(options.frames).frames, options.out, progress=bar)
    facts = [
        {"exam_id": one.case, "split": one.split, "frames": len(one.frames), "findings": len(one.findings)}
        for one in made
    ]
    text = f"{recordings_text(made)}\n{options.out}, and with every run a finding {options.out / RUNS}"
    emit(options, {"disclaimer": DISCLAIMER, "out": str(options.out), "recordings": facts}, text)
    return 0


def run_splice(options: argparse.Namespace) -> int:
    """Splice exams for held-out folds."""
    from dice_ce.lab.compose.splice import splice_exams, splices_text
    from dice_ce.progress import ProgressBar

    with ProgressBar("splicing", unit="exams") as bar:
        made = splice_exams(
            options.frames,
            options.timelines,
            options.out,
            exams=options.exams,
            frames_per_exam=options.frames_per_exam,
            seed=options.seed,
            progress=bar,
        )
    facts = [
        {"exam_id": one.exam_id, "patient_id": one.case, "events": one.events, "findings": len(one.findings)}
        for one in made
    ]
    text = f"{splices_text(made)}\n{options.out}"
    emit(options, {"disclaimer": DISCLAIMER, "out": str(options.out), "exams": facts}, text)
    return 0


def run_compose(options: argparse.Namespace) -> int:
    """Compose exams; those that are complete are not made again."""
    from dice_ce.lab.compose import compose, plan_facts, plan_text
    from dice_ce.progress import ProgressBar

    with ProgressBar("composing") as bar:
        made = compose(
            options.frames,
            options.timelines,
            options.out,
            exams=options.exams,
            frames_per_exam=options.frames_per_exam,
            shares=options.shares,
            seed=options.seed,
            size=options.size,
            workers=options.workers,
            progress=bar,
        )
    facts = {"out": str(made.folder), "complete_before": made.kept, **plan_facts(made.plans)}
    emit(
        options,
        {"disclaimer": DISCLAIMER, **facts},
        f"{plan_text(made.plans)}\n{made.folder}: {len(made.plans)} exams, {made.kept} of them complete before",
    )
    return 0
