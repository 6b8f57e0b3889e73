"""Datasets: the folder format for whole exams, importers of public datasets, composed exams."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from pathlib import Path

from dice_ce.datasets.tables import Tables
from dice_ce.errors import UsageError


@dataclass(frozen=True)
class Importer:
    """A way to read one public dataset in its own layout."""

    function: str
    """`module:function` in this room, imported when it is used; takes the folder and returns tables."""
    expects: str
    """What must lie in the folder, for people."""

    def load(self, folder: Path) -> Tables:
        """Read the dataset."""
        module, name = self.function.split(":")
        tables: Tables = getattr(importlib.import_module(f"dice_ce.datasets.{module}"), name)(folder)
        return tables


IMPORTERS: dict[str, Importer] = {
    "kvasir-capsule": Importer(
        "kvasir:import_kvasir",
        "metadata.csv or labelled_images/<class>/; also metadata.json, labelled_videos/, split_0.csv, split_1.csv",
    ),
    "capsule-vision": Importer(
        "capsule_vision:import_capsule_vision",
        "training|validation/<Class>/<source>/; also training_data.xlsx, validation_data.xlsx",
    ),
    "see-ai": Importer(
        "see_ai:import_see_ai", "all_annotation.csv or box files imageNNNNN.txt; also images imageNNNNN.jpg"
    ),
    "galar": Importer("galar:import_galar", "Labels/<video>.csv or events.json, or that file itself"),
    "kid": Importer("kid:import_kid", "images such as vascular/vascular1.png; also masks vascular1m.png"),
    "rhode-island": Importer("rhode_island:import_rhode_island", "s001/1_esophagus/image-00001.png and so on"),
    "ai-koda": Importer("ai_koda:import_ai_koda", "tables of ratings (.csv or .xlsx) and images"),
    "pool": Importer(
        "pool:load_pool",
        "capsule-vision-2024/ with kvasir-capsule/ and see-ai/ beside it, or training|validation/, or frames.csv",
    ),
}


def import_dataset(name: str, folder: Path) -> Tables:
    """Read a public dataset by the name of its importer."""
    if name not in IMPORTERS:
        close = difflib.get_close_matches(name, IMPORTERS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"choose one of {', '.join(IMPORTERS)}"
        raise UsageError(f"there is no importer '{name}'; {hint}")
    return IMPORTERS[name].load(folder)
