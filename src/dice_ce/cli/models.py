"""Commands about models: train, tune, predict, backbones, bundle."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.cli.checks import TRAINING, TRAINING_HEADS, a_bundle, a_bundle_folder, a_file, a_folder, needs, writes
from dice_ce.cli.shared import (
    add_bundle_options,
    add_exam_options,
    add_folds_option,
    add_seed_option,
    amount,
    command,
    emit,
    open_input,
    positive,
    positive_int,
    print_json,
    progress_bars,
    whole,
)
from dice_ce.errors import InputError, UsageError

if TYPE_CHECKING:
    from dice_ce.datasets.folder import Dataset
    from dice_ce.features.encoder import Encoder, OnnxEncoder
    from dice_ce.taxonomy import Taxonomy

FOLD = "{fold}"
BUNDLE_HELP = "name of a shipped bundle, or a folder or zip (default: 'default')"
DATA_HELP = "datasets of exams (folders with exams.csv), folders of labelled frames, or tables frames.csv"


def add_commands(commands: Any) -> None:
    """Describe the commands of this module."""
    predict = command(commands, "predict", run_predict, "score single frames: Selector and every label")
    predict.add_argument("input", type=Path, metavar="FRAMES_DIR|VIDEO", help="folder of images (and below), or exam")
    writes(predict, "--out", a_file, required=True, metavar="CSV", help="one row per frame, in the order given")
    add_bundle_options(predict)
    add_exam_options(predict)

    train = command(commands, "train", run_train, "train Selector and diagnoser into a bundle (needs the extra train)")
    train.add_argument("--data", type=Path, nargs="+", required=True, metavar="DATA", help=DATA_HELP)
    writes(train, "--out", a_bundle_folder, required=True, metavar="BUNDLE", help="folder to write the bundle to")
    needs(train, TRAINING)
    train.add_argument("--name", help="name of the bundle (default: that of the folder)")
    train.add_argument("--encoder", help="name, .onnx file, model folder or hub id (default: the shipped bundle's)")
    train.add_argument(
        "--fold-encoders", metavar="PATTERN", help="encoders that learnt without a fold: 'f-{fold}.onnx'"
    )
    writes(train, "--folds-out", a_folder(), metavar="DIR", help="write the bundles of the held-out folds there")
    train.add_argument(
        "--diagnoser",
        default="head",
        metavar="head|network|ONNX",
        help="head on features, a network trained here, or a head and a network trained before (default: head)",
    )
    train.add_argument("--fold-diagnosers", metavar="PATTERN", help="the latter, without each fold: 'd-{fold}.onnx'")
    train.add_argument("--views", type=whole, default=3, help="augmented views of every image (default: 3)")
    train.add_argument("--near", type=amount, default=2.0, help="seconds around a keyframe with its label (default: 2)")
    train.add_argument("--hidden", type=positive_int, default=256, help="hidden units of the heads (default: 256)")
    train.add_argument("--learning-rate", type=positive, default=6e-4, help="for the heads (default: 6e-4)")
    train.add_argument("--epochs", type=positive_int, default=8, help="passes over the features (default: 8)")
    train.add_argument("--steps", type=positive_int, default=1400, help="fine-tuning steps; network diagnoser only")
    train.add_argument(
        "--fast-side",
        type=positive_int,
        metavar="PIXELS",
        help="also train a Selector for frames of this side, smaller and faster: --bundle NAME@fast",
    )
    add_seed_option(train)
    train.add_argument("--notes", type=Path, metavar="MD", help="text for the model card: sources, licences, limits")

    tune = command(commands, "tune", run_tune, "choose thresholds and the weaver's settings on validation exams")
    tune.add_argument("--data", type=Path, nargs="+", required=True, metavar="DATASET", help="folders with exams.csv")
    tune.add_argument("--weights", type=positive, nargs="+", help="how much each dataset counts (default: all alike)")
    add_bundle_options(tune)
    add_folds_option(tune)
    writes(tune, "--out", a_bundle, metavar="BUNDLE", help="write the bundle with the chosen settings there")
    tune.add_argument("--split", default="validation", help="exams to tune on (default: validation; never test)")
    tune.add_argument("--trials", type=positive_int, default=200, help="for DiCE and each baseline (default: 200)")
    tune.add_argument("--methods", nargs="+", help="some methods only, for instance dice aks (default: all)")
    tune.add_argument("--workers", type=positive_int, help="processes to use (default: all cores)")
    add_seed_option(tune)
    writes(tune, "--log", a_file, metavar="CSV", help="write all trials of all methods there")

    backbones = command(commands, "backbones", run_backbones, "compare encoders as the Selector's backbone")
    backbones.add_argument("--data", type=Path, nargs="+", required=True, metavar="DATA", help=DATA_HELP)
    backbones.add_argument(
        "--encoders", nargs="+", help="'f-{fold}.onnx' for one per fold (default: all that would load here, and ours)"
    )
    writes(backbones, "--out", a_file, metavar="MD", help="also write the table there")
    needs(backbones, TRAINING_HEADS)

    bundle = commands.add_parser("bundle", help="show, check or export bundles", description="Work on model bundles.")
    bundles = bundle.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = command(bundles, "show", run_bundle_show, "show a bundle's settings and its model card")
    check = command(bundles, "check", run_bundle_check, "check a bundle's files and run it once")
    export = command(bundles, "export", run_bundle_export, "copy a bundle to a folder or a zip")
    for parser in (show, check, export):
        parser.add_argument("bundle", nargs="?", help=BUNDLE_HELP)
    writes(export, "--out", a_bundle, required=True, metavar="DIR|ZIP", help="ends in .zip for a zip")


def run_predict(options: argparse.Namespace) -> int:
    """Score frames; images that cannot be decoded keep their row, empty, and give exit code 1."""
    from dice_ce.features.images import find_images
    from dice_ce.files import printable
    from dice_ce.method.bundle import load_bundle
    from dice_ce.method.predict import predict_exam, predict_images, write_scores
    from dice_ce.progress import ProgressBar

    bundle = load_bundle(options.bundle)
    tau_s = bundle.settings(options.profile).selector.tau_s
    is_images = options.input.is_dir() and not (options.clock or options.exam_fps or options.exam_duration)
    if is_images:
        with ProgressBar(options.input.name) as bar:
            paths = find_images(options.input)
            scores = predict_images(paths, bundle, progress=bar)
        scores = scores.named([printable(path.relative_to(options.input).as_posix()) for path in paths])
    else:
        with open_input(options.input, options) as exam, ProgressBar(exam.id) as bar:
            scores = predict_exam(exam, bundle, progress=bar)
        for warning in exam.warnings:
            print(f"dice-ce: warning: {warning}", file=sys.stderr)
    write_scores(options.out, scores, bundle.taxonomy.labels, first_column="path" if is_images else "frame")
    damaged = scores.undecodable
    facts = {
        "out": str(options.out),
        "frames": len(scores.names),
        "abnormal": int((scores.score >= tau_s).sum()),
        "tau_s": tau_s,
        "bundle": bundle.name,
        "undecodable": damaged,
    }
    emit(
        options,
        {"disclaimer": DISCLAIMER, **facts},
        f"{options.out}: {facts['frames']:,} frames, {facts['abnormal']:,} with a score of at least "
        f"{tau_s:g} (bundle {bundle.name})\n{DISCLAIMER}",
    )
    if damaged:
        print(f"dice-ce: {len(damaged)} frames cannot be decoded, for instance {damaged[0]}", file=sys.stderr)
    return 1 if damaged else 0


def run_train(options: argparse.Namespace) -> int:
    """Train a bundle."""
    from dice_ce.csvfile import read_text
    from dice_ce.features.encoder import load_encoder
    from dice_ce.lab.training.card import figures_text
    from dice_ce.lab.training.heads import HeadConfig
    from dice_ce.lab.training.run import TrainConfig, train
    from dice_ce.method.bundle import load_bundle

    encoder = load_encoder(options.encoder) if options.encoder else load_bundle().encoder
    fold_encoders = _encoders(options.fold_encoders) if options.fold_encoders else ()
    network, fold_networks = _diagnosers(options.diagnoser, options.fold_diagnosers)
    config = TrainConfig(
        head=HeadConfig(
            hidden=options.hidden, learning_rate=options.learning_rate, epochs=options.epochs, seed=options.seed
        ),
        near=options.near,
        views=options.views,
        diagnoser="head" if network else options.diagnoser,
        steps=options.steps,
        fast_side=options.fast_side,
    )
    name = options.name or options.out.resolve().name
    notes = read_text(options.notes) if options.notes else ""
    with progress_bars() as watch:
        bundle, figures = train(
            options.data,
            options.out,
            name=name,
            notes=notes,
            encoder=encoder,
            fold_encoders=fold_encoders,
            diagnoser=network,
            fold_diagnosers=fold_networks,
            folds_out=options.folds_out,
            config=config,
            watch=watch,
        )
    if options.json:
        facts = {
            split: {source: asdict(row) for source, row in part.selector.items()} for split, part in figures.items()
        }
        print_json({"disclaimer": DISCLAIMER, "bundle": str(options.out), "digest": bundle.digest, "selector": facts})
        return 0
    for split, part in figures.items():
        print(f"\n{split} cases\n\n{figures_text(part, bundle.taxonomy)}")
    print(f"\n{options.out}: bundle '{bundle.name}'; tune its thresholds on validation exams next, with")
    print(f"  dice-ce tune --data DATASET --bundle {options.out} --out TUNED_BUNDLE\n{DISCLAIMER}")
    return 0


def _encoders(pattern: str) -> list[Encoder]:
    """Load an encoder, or where the name has a place for it, one for each fold."""
    from dice_ce.datasets.splits import FOLDS
    from dice_ce.features.encoder import load_encoder

    if FOLD not in pattern:
        return [load_encoder(pattern)]
    return [load_encoder(pattern.replace(FOLD, str(fold))) for fold in range(FOLDS)]


def _diagnosers(chosen: str, of_folds: str | None) -> tuple[OnnxEncoder | None, list[OnnxEncoder]]:
    """Load networks that were trained before, if some are given: one for all cases, and one for each fold."""
    from dice_ce.features.encoder import OnnxEncoder

    if chosen in ("head", "network"):
        if of_folds:
            raise UsageError(f"--fold-diagnosers goes with --diagnoser FILE.onnx, not with --diagnoser {chosen}")
        return None, []
    if not chosen.endswith(".onnx"):
        raise UsageError(f"--diagnoser {chosen}: give head, network, or the ONNX file of a network")
    if not of_folds:
        raise UsageError(f"--diagnoser {chosen}: figures need networks without each fold; give --fold-diagnosers")
    networks = [one for one in _encoders(of_folds) if isinstance(one, OnnxEncoder)]
    return OnnxEncoder.open(Path(chosen)), networks


def run_tune(options: argparse.Namespace) -> int:
    """Tune DiCE and the baselines."""
    from dice_ce.benchmark.methods import METHODS
    from dice_ce.benchmark.networks import Networks
    from dice_ce.features.extraction import cpu_count
    from dice_ce.lab.training.tuning import (
        make_ground,
        make_profiles,
        trial_facts,
        tune_all,
        tuned_text,
        write_trials,
    )
    from dice_ce.method.bundle import check_export, export_bundle
    from dice_ce.settings import values_of

    if options.split == "test":
        raise UsageError("--split test: thresholds are never chosen on test exams; use the validation split")
    weights = options.weights or [1.0] * len(options.data)
    if len(weights) != len(options.data):
        raise UsageError(f"--weights: {len(weights)} for {len(options.data)} datasets; give one for each")
    if options.out:
        check_export(options.bundle, options.out)
    if unknown := [name for name in options.methods or () if name not in METHODS]:
        raise UsageError(f"--methods {unknown[0]}: no such method; there are {', '.join(METHODS)}")
    networks = Networks.load(options.bundle, options.folds)
    chosen = [networks.exams(dataset, options.split) for dataset in _datasets(options.data, networks.bundle.taxonomy)]
    with progress_bars() as watch:
        grounds = [
            make_ground(dataset, networks, weight, watch) for dataset, weight in zip(chosen, weights, strict=True)
        ]
        tuned = tune_all(
            grounds,
            networks.bundle,
            options.profile,
            methods=options.methods,
            trials=options.trials,
            seed=options.seed,
            workers=options.workers or cpu_count(),
            watch=watch,
        )
    where = " and ".join(f"{len(one.exams)} exams of '{one.folder.resolve().name}'" for one in chosen)
    profiles = make_profiles(where, tuned)
    if options.log:
        write_trials(options.log, tuned)
    if options.out:
        others = {name: result.best.settings for name, result in tuned.items() if name != "dice"}
        export_bundle(options.bundle, options.out, profiles=profiles, tuned={**networks.bundle.tuned, **others})
    facts = {
        "disclaimer": DISCLAIMER,
        "best": {name: trial_facts(result) for name, result in tuned.items()},
        "profiles": {name: values_of(profile.settings) for name, profile in profiles.items()},
    }
    lines = [tuned_text(tuned, options.trials)]
    lines += [f"profile {name}: {profile.about}" for name, profile in profiles.items()]
    lines += [f"written: {options.out}" if options.out else "nothing written: --out BUNDLE keeps these settings"]
    emit(options, facts, "\n".join(lines))
    return 0


def _datasets(folders: Sequence[Path], taxonomy: Taxonomy) -> list[Dataset]:
    """Load datasets; refuse one that was not split by patient."""
    from dice_ce.datasets.folder import load_dataset

    datasets = [load_dataset(folder, taxonomy) for folder in folders]
    for dataset in datasets:
        if leaking := dataset.leaking_patients():
            raise InputError(
                f"{dataset.folder}: patient '{leaking[0]}' stands in more than one split; split by patient"
            )
    return datasets


def run_backbones(options: argparse.Namespace) -> int:
    """Print the Selector table."""
    from dice_ce.features.encoder import ENCODERS
    from dice_ce.files import write_atomically
    from dice_ce.lab.training.backbones import backbones_text, compare_backbones
    from dice_ce.method.bundle import load_bundle

    names = options.encoders or [name for name, entry in ENCODERS.items() if entry.status == "ready"]
    encoders = [_encoders(name) for name in names]
    shipped = load_bundle().encoder
    if not options.encoders and shipped.name not in names:
        encoders.append([shipped])
    with progress_bars() as watch:
        rows = list(compare_backbones(options.data, encoders, watch=watch))
    text = backbones_text(rows)
    if options.out:
        write_atomically(options.out, (text + "\n").encode())
    emit(options, [asdict(row) for row in rows], f"{text}\n{DISCLAIMER}")
    return 0


def run_bundle_show(options: argparse.Namespace) -> int:
    """Show what is in a bundle."""
    from dice_ce.method.bundle import bundle_facts, load_bundle

    bundle = load_bundle(options.bundle)
    facts = bundle_facts(bundle)
    if options.json:
        known = {"reliability": {label: asdict(one) for label, one in bundle.reliability.items()}, "card": bundle.card}
        print_json({"disclaimer": DISCLAIMER, **facts, **known})
        return 0
    for name, value in facts.items():
        if name != "profiles":
            print(f"{name:<12}{value}")
    for name, profile in bundle.profiles.items():
        print(f"profile     {name}: {profile.about}")
    print(f"\n{bundle.card}")
    return 0


def run_bundle_check(options: argparse.Namespace) -> int:
    """Load a bundle, which checks its digests, and run it on an image."""
    from dice_ce.method.bundle import bundle_facts, load_bundle, try_bundle

    bundle = load_bundle(options.bundle)
    try_bundle(bundle)
    emit(
        options,
        {"ok": True, **bundle_facts(bundle)},
        f"bundle '{bundle.name}' ({bundle.digest[:12]}): files unchanged, encoder, Selector and diagnoser run",
    )
    return 0


def run_bundle_export(options: argparse.Namespace) -> int:
    """Copy a bundle."""
    from dice_ce.method.bundle import export_bundle

    bundle = export_bundle(options.bundle, options.out)
    emit(
        options,
        {"out": str(options.out), "name": bundle.name, "digest": bundle.digest},
        f"{options.out}: bundle '{bundle.name}' ({bundle.digest[:12]})",
    )
    return 0
