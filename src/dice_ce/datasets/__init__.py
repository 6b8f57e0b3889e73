"""Datasets: the folder format for whole exams, importers of public datasets, composed exams."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dice_ce.datasets.tables import Tables
from dice_ce.errors import UsageError


@dataclass(frozen=True)
class Importer:
    """A way to read one public dataset in its own layout."""

    load: Callable[[Path], Tables]
    expects: str
    """What must lie in the folder, for people."""


def _kvasir(folder: Path) -> Tables:
    from dice_ce.datasets.kvasir import import_kvasir

    return import_kvasir(folder)


def _capsule_vision(folder: Path) -> Tables:
    from dice_ce.datasets.capsule_vision import import_capsule_vision

    return import_capsule_vision(folder)


def _see_ai(folder: Path) -> Tables:
    from dice_ce.datasets.see_ai import import_see_ai

    return import_see_ai(folder)


def _galar(folder: Path) -> Tables:
    from dice_ce.datasets.galar import import_galar

    return import_galar(folder)


def _pool(folder: Path) -> Tables:
    from dice_ce.datasets.pool import load_pool

    return load_pool(folder)


IMPORTERS: dict[str, Importer] = {
    "kvasir-capsule": Importer(
        _kvasir,
        "metadata.csv or labelled_images/<class>/; also metadata.json, labelled_videos/, split_0.csv, split_1.csv",
    ),
    "capsule-vision": Importer(
        _capsule_vision, "training|validation/<Class>/<source>/; also training_data.xlsx, validation_data.xlsx"
    ),
    "see-ai": Importer(_see_ai, "all_annotation.csv or box files imageNNNNN.txt; also images imageNNNNN.jpg"),
    "galar": Importer(_galar, "Labels/<video>.csv or events.json, or that file itself"),
    "pool": Importer(
        _pool, "capsule-vision-2024/ with kvasir-capsule/ and see-ai/ beside it, or training|validation/, or frames.csv"
    ),
}


def import_dataset(name: str, folder: Path) -> Tables:
    """Read a public dataset by the name of its importer."""
    if name not in IMPORTERS:
        close = difflib.get_close_matches(name, IMPORTERS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"choose one of {', '.join(IMPORTERS)}"
        raise UsageError(f"there is no importer '{name}'; {hint}")
    return IMPORTERS[name].load(folder)
