"""dicom-validator with the tables of PS3.3 that the package dicom-standard carries.

Left to itself, dicom-validator downloads the standard. The tables come from PyPI instead, and are put into the form
that it makes of its download: what a module consists of, which of it is required, and when.
"""

from __future__ import annotations

import functools
import html
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

from dicom_validator.spec_reader.condition_parser import ConditionParser
from dicom_validator.validator.dicom_info import DicomInfo
from dicom_validator.validator.error_handler import NullValidationResultHandler
from dicom_validator.validator.iod_validator import IODValidator
from pydicom.dataset import Dataset

IODS = (
    "Comprehensive SR",
    "Encapsulated PDF",
    "Key Object Selection Document",
    "Secondary Capture Image",
    "Video Endoscopic Image",
    "Multi-frame True Color SC Image",
)
"""What is written here; all of them would take long to parse."""
OPTIONAL = ("sr-document-content", "overlay-plane")
"""Not validated: the tables do not say for which Value Type each part of an SR's content is required."""
Table = list[dict[str, Any]]


def problems(dataset: Dataset) -> list[str]:
    """Validate an object, and return what is wrong with it, one line for each attribute."""
    result = IODValidator(dataset, standard(), error_handler=NullValidationResultHandler()).validate()
    found = [f"{result.status.name}: {dataset.SOPClassUID}"] if result.module_errors is None else []
    return found + [
        f"{module}: {tag} {error.code.name}"
        for module, errors in (result.module_errors or {}).items()
        for tag, error in errors.items()
    ]


def read_table(name: str) -> Table:
    """Read a table of the package dicom-standard."""
    files = importlib.metadata.files("dicom-standard") or []
    (path,) = {Path(str(file.locate())).resolve() for file in files if file.name == f"{name}.json"}
    table: Table = json.loads(path.read_text())
    return table


@functools.cache
def standard() -> DicomInfo:
    """Read the tables, once."""
    dictionary = {
        row["tag"]: {"name": row["name"], "vr": row["valueRepresentation"], "vm": row["valueMultiplicity"], "prop": ""}
        for row in read_table("attributes")
    }
    parser = ConditionParser(dictionary)

    @functools.cache
    def condition(text: str) -> dict[str, Any] | None:
        parsed = parser.parse(text)
        return None if parsed.type.user_defined else parsed.result_dict()

    iods = {row["name"]: row["id"] for row in read_table("ciods") if row["name"] in IODS}
    used = [row for row in read_table("ciod_to_modules") if row["ciodId"] in iods.values()]
    modules: dict[str, dict[str, Any]] = {row["moduleId"]: {} for row in used}
    for row in read_table("module_to_attributes"):  # a sequence stands before what it contains
        if row["moduleId"] in OPTIONAL and row["path"].count(":") == 1 and "x" not in row["tag"]:
            modules[row["moduleId"]][row["tag"].upper()] = {"name": row["tag"], "type": "3"}
        elif row["moduleId"] in modules and row["moduleId"] not in OPTIONAL:
            _add(modules[row["moduleId"]], row, condition)
    of_class = {}
    for row in read_table("sops"):
        if row["ciod"] in iods:
            mine = [use for use in used if use["ciodId"] == iods[row["ciod"]]]
            of_class[row["id"]] = {
                "title": row["name"],
                "modules": {use["moduleId"]: _use(use, condition) for use in mine},
                "group_macros": {},
            }
    return DicomInfo(dictionary, of_class, modules)


def _add(module: dict[str, Any], row: dict[str, Any], condition: Any) -> None:
    place = module
    for inner in row["path"].split(":")[1:-1]:
        place = place[_tag(inner)].setdefault("items", {})
    entry: dict[str, Any] = {"name": row["tag"], "type": row["type"]}
    if row["type"] in ("1C", "2C") and (rule := condition(_text(row["description"]))):
        entry["cond"] = rule
    place[row["tag"].upper()] = entry


def _use(row: dict[str, Any], condition: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"ref": row["moduleId"], "use": row["usage"]}
    if row["usage"] == "C" and row["conditionalStatement"] and (rule := condition(row["conditionalStatement"])):
        entry["cond"] = rule
    return entry


def _tag(digits: str) -> str:
    return f"({digits[:4]},{digits[4:]})".upper()


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())
