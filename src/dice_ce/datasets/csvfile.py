"""Reading the tables people fill by hand: any delimiter, with or without BOM, errors that name file and line."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from dice_ce.errors import InputError

Row = dict[str, str]


def read_table(path: Path, needed: Sequence[str]) -> list[tuple[int, Row]]:
    """Read a CSV with a header; return (line number, row) with stripped cells, empty lines left out."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save it as CSV in UTF-8") from error
    lines = text.splitlines()
    if not lines:
        raise InputError(f"{path}: is empty; expected a header with {', '.join(needed)}")
    reader = csv.reader(lines, delimiter=max(",;\t", key=lines[0].count))
    header = [cell.strip().casefold() for cell in next(reader)]
    if missing := [name for name in needed if name not in header]:
        raise InputError(f"{path}: the column '{missing[0]}' is missing; expected {', '.join(needed)}")
    if len(set(header)) < len(header):
        raise InputError(f"{path}: a column stands there twice; remove one")
    rows = []
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise InputError(f"{path}, line {reader.line_num}: {len(cells)} cells where the header has {len(header)}")
        rows.append((reader.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=True))))
    return rows


def table_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a CSV with plain newlines."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
