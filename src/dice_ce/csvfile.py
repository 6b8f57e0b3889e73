"""Reading the tables people fill by hand: any delimiter, with or without BOM, errors that name file and line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from dice_ce.errors import InputError

Row = dict[str, str]


def read_text(path: Path) -> str:
    """Read a text file, with or without byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path and the permissions") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8; save it as UTF-8") from error


def read_table(path: Path, needed: Sequence[str]) -> list[tuple[int, Row]]:
    """Read a CSV with a header; return (line number, row) with stripped cells, empty lines left out."""
    text = read_text(path)
    lines = text.splitlines()
    if not lines:
        raise InputError(f"{path}: is empty; expected a header with {', '.join(needed)}")
    try:
        header, rows = _cells(lines)
    except csv.Error as error:
        raise InputError(f"{path}: not a table ({error}); look for a quotation mark that is not closed") from error
    if missing := [name for name in needed if name not in header]:
        raise InputError(f"{path}: the column '{missing[0]}' is missing; expected {', '.join(needed)}")
    if len(set(header)) < len(header):
        raise InputError(f"{path}: a column stands there twice; remove one")
    for line, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{path}, line {line}: {len(cells)} cells where the header has {len(header)}")
    return [(line, dict(zip(header, cells, strict=True))) for line, cells in rows]


def _cells(lines: Sequence[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header in lower case, and the other lines that are not empty with their numbers."""
    reader = csv.reader(lines, delimiter=_delimiter(lines), strict=True)
    header = [cell.strip().casefold() for cell in next(reader)]
    rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    return header, [(line, cells) for line, cells in rows if any(cells)]


def _delimiter(lines: Sequence[str]) -> str:
    return max(",;\t", key=lines[0].count)


def fill_column(path: Path, column: str, value: Callable[[Row], str]) -> str:
    """Return the text of a table that `read_table` can read, with other values in one column and all else as it was."""
    lines = read_text(path).splitlines()
    first, *others = csv.reader(lines, delimiter=_delimiter(lines), strict=True)
    header = [cell.strip().casefold() for cell in first]
    place = header.index(column)
    for cells in others:
        if any(cell.strip() for cell in cells):
            cells[place] = value(dict(zip(header, (cell.strip() for cell in cells), strict=True)))
    return table_text(first, others, _delimiter(lines))


def table_text(header: Sequence[str], rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    """Write a CSV with plain newlines."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
