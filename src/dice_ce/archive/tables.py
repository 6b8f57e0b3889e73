"""The archive as tables: Parquet files that are always whole, for DuckDB, pandas and everything else.

exams.parquet      a row per exam: place, state, reason, digests, counts, timings
findings.parquet   a row per finding of every exam that is done
frames/            a file per exam: Selector score of every decoded frame
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce.archive.items import FindingRow
from dice_ce.archive.manifest import Manifest
from dice_ce.errors import require
from dice_ce.exam.open import Exam
from dice_ce.files import atomic_file
from dice_ce.method.selector import Screened

if TYPE_CHECKING:
    import pyarrow

EXAMS, FINDINGS, FRAMES = "exams.parquet", "findings.parquet", "frames"
SHORTEST_INTERVAL = 10.0
"""Seconds between two versions of the tables while a run goes on."""
LARGEST_SHARE = 0.02
"""Of the driver's time that may go into writing them."""


def _arrow() -> Any:
    require("pyarrow.parquet", extra="archive", purpose="writing tables")
    import pyarrow

    return pyarrow


def _exam_columns() -> dict[str, tuple[str, Any]]:
    """Columns of exams.parquet: where each comes from in the manifest, and its type."""
    arrow = _arrow()
    text, number = arrow.string(), arrow.int64()
    plain = (
        "place",
        "exam_id",
        "state",
        "reason",
        "date",
        "content_digest",
        "bundle_digest",
        "settings_digest",
        "node",
    )
    return {
        **{name: (name, text) for name in plain},
        "results": ("case state when 'done' then 'results/' || target else '' end", text),
        "bytes": ("size", number),
        **{name: (name, number) for name in ("frames", "decoded", "findings")},
        "is_exam_time": ("is_exam_time <> 0", arrow.bool_()),
        "seconds": ("seconds", arrow.float64()),
        "finished": ("case when finished > 0 then cast(finished * 1000 as integer) end", arrow.timestamp("ms", "UTC")),
    }


def _finding_columns() -> dict[str, tuple[str, Any]]:
    """Columns of findings.parquet."""
    arrow = _arrow()
    kinds = {"int": arrow.int64(), "float": arrow.float64(), "str": arrow.string()}
    return {
        **{name: (f"exams.{name}", arrow.string()) for name in ("exam_id", "content_digest", "date")},
        "results": ("'results/' || target", arrow.string()),
        "is_exam_time": ("is_exam_time <> 0", arrow.bool_()),
        **{field.name: (f"findings.{field.name}", kinds[str(field.type)]) for field in fields(FindingRow)},
    }


def write_tables(folder: Path, manifest: Manifest) -> None:
    """Write exams.parquet and findings.parquet anew, from what the manifest says now."""
    _write(folder / EXAMS, manifest, _exam_columns(), "exams order by place")
    joined = "exams join findings using (content_digest) where state = 'done' order by place, findings.rowid"
    _write(folder / FINDINGS, manifest, _finding_columns(), joined)


def _write(path: Path, manifest: Manifest, columns: Mapping[str, tuple[str, Any]], origin: str) -> None:
    arrow = _arrow()
    import pyarrow.parquet

    schema = arrow.schema([(name, kind) for name, (_, kind) in columns.items()])
    query = f"select {', '.join(expression for expression, _ in columns.values())} from {origin}"
    with atomic_file(path) as file, pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in manifest.batches(query):
            values = zip(*batch, strict=True)
            arrays = [_array(column, field.type) for column, field in zip(values, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _array(values: Sequence[Any], kind: Any) -> Any:
    arrow = _arrow()
    return arrow.array(map(bool, values) if kind == arrow.bool_() else values, kind)


def write_frames(folder: Path, exam: Exam, screened: Screened) -> None:
    """Write the scores of one exam; a later reading of the same content replaces them."""
    arrow = _arrow()
    count = len(screened)
    table = arrow.table(
        {
            "exam_id": arrow.array([exam.id] * count, arrow.string()).dictionary_encode(),
            "content_digest": arrow.array([exam.digest] * count, arrow.string()).dictionary_encode(),
            "frame": arrow.array(screened.frames.index),
            "seconds": arrow.array(screened.seconds.round(3)),
            "score": arrow.array(screened.score.round(6)),
        }
    )
    _publish(frames_path(folder, exam), table)


def frames_path(folder: Path, exam: Exam) -> Path:
    """Where the scores of an exam are."""
    return folder / FRAMES / f"{exam.digest[:32]}.parquet"


def _publish(path: Path, table: pyarrow.Table) -> None:
    import pyarrow.parquet

    with atomic_file(path) as file:
        pyarrow.parquet.write_table(table, file, compression="zstd")


class TableClock:
    """Says when the tables are due: seldom enough that writing them costs next to nothing, however many rows."""

    def __init__(self) -> None:
        self._due = time.monotonic() + SHORTEST_INTERVAL

    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self._due

    def written(self, seconds: float) -> None:
        """Take note of what writing them took."""
        self._due = time.monotonic() + max(SHORTEST_INTERVAL, seconds / LARGEST_SHARE)
