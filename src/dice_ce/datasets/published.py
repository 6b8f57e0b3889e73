"""Files of public datasets as they were published: errors name file and line, and say what to do.

Unlike the tables that people fill by hand, these have one known delimiter, and some have rows that are too short.
"""

from __future__ import annotations

import csv
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dice_ce import csvfile
from dice_ce.errors import InputError, require

DELIMITERS = ",;\t|"
IMAGES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    path: Path
    line: int
    cells: list[str]
    columns: dict[str, int]

    def __getitem__(self, column: str) -> str:
        """Text of a cell; empty if the row is too short to have it."""
        place = self.columns[column]
        return self.cells[place].strip() if place < len(self.cells) else ""

    @property
    def where(self) -> str:
        """The place to name in an error."""
        return f"{self.path}, line {self.line}"

    def whole(self, column: str) -> int:
        """Read a cell as a whole number that is not negative."""
        text = self[column]
        if not (text.isascii() and text.isdigit()):
            raise InputError(f"{self.where}: '{text}' in column '{column}' is not a whole number; correct it")
        return int(text)


def existing_folder(folder: Path, dataset: str, contents: str) -> Path:
    """Refuse a folder that is not there, saying what is expected in it."""
    if not folder.is_dir():
        problem = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {problem}; give the folder of {dataset}, with {contents}")
    return folder


def find_images(folder: Path) -> Iterator[Path]:
    """List the images below a folder, sorted; hidden files and folders are left out."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}); check the permissions") from error
    for entry in listed:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from find_images(Path(entry.path))
        elif entry.name.lower().endswith(IMAGES):
            yield Path(entry.path)


def read_text(path: Path) -> str:
    """Read a text file that must not be empty."""
    if not (text := csvfile.read_text(path)).strip():
        raise InputError(f"{path}: the file is empty; download it again")
    return text


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not JSON ({error.msg}); download the file again") from error
    except (ValueError, RecursionError) as error:  # numbers or nesting beyond all bounds
        raise InputError(f"{path}: not usable JSON ({error}); download the file again") from error


def read_table(path: Path, required: Sequence[str], delimiter: str = ",") -> list[Row]:
    """Read a table whose header names the required columns; lines without any text are left out."""
    columns, lines = open_table(path, required, delimiter)
    return [Row(path, line, cells, columns) for line, cells in lines]


def open_table(
    path: Path, required: Sequence[str], delimiter: str = ","
) -> tuple[dict[str, int], Iterable[tuple[int, list[str]]]]:
    """Read a table as its columns and its lines, for tables of millions of lines."""
    lines = csv.reader(read_text(path).splitlines(), delimiter=delimiter)
    header = [cell.strip() for cell in next(lines)]
    _check_header(path, header, required, delimiter)
    columns = {name: place for place, name in enumerate(header) if name}
    return columns, _numbered(path, lines)


def read_workbook(path: Path) -> list[tuple[Any, ...]]:
    """Read the rows of a spreadsheet's first sheet."""
    openpyxl = require("openpyxl", extra="datasets", purpose=f"reading {path.name}")
    broken = (
        zipfile.BadZipFile,
        zlib.error,
        openpyxl.utils.exceptions.InvalidFileException,
        EOFError,
        KeyError,
        SyntaxError,  # XML parsers derive theirs from it
        ValueError,
    )
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            return list(book.worksheets[0].iter_rows(values_only=True)) if book.worksheets else []
        finally:
            book.close()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error
    except broken as error:
        raise InputError(f"{path}: not a readable .xlsx file; download it again, or remove it") from error


def _numbered(path: Path, lines: Any) -> Iterator[tuple[int, list[str]]]:
    try:
        for cells in lines:
            if any(cells):
                yield lines.line_num, cells
    except csv.Error as error:
        raise InputError(f"{path}, line {lines.line_num}: not a table ({error}); download it again") from error


def _check_header(path: Path, header: Sequence[str], required: Sequence[str], delimiter: str) -> None:
    missing = [name for name in required if name not in header]
    if missing:
        for other in DELIMITERS:
            if other != delimiter and set(required) <= {cell.strip() for cell in delimiter.join(header).split(other)}:
                raise InputError(
                    f"{path}, line 1: columns are separated by {other!r}; save the file with {delimiter!r} between them"
                )
        raise InputError(f"{path}, line 1: no column '{missing[0]}'; expected {delimiter.join(required)}")
    doubled = next((name for name in header if name and header.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"{path}, line 1: the column '{doubled}' stands there twice; remove one")
