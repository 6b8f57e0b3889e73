"""How an archive stands: counts, speed, time left, what failed and why. Works while a run goes on."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dice_ce.archive.manifest import Manifest, Row, RunFacts, archive_id
from dice_ce.archive.tables import EXAMS, FINDINGS, FRAMES
from dice_ce.errors import InputError, StoreError, UsageError, require

MOST_FAILURES = 20


@dataclass(frozen=True)
class Status:
    """Everything that `dice-ce archive status` says."""

    counts: dict[str, int]
    frames: int
    findings: dict[str, dict[str, int]]
    """Findings by label and month."""
    failed: tuple[Row, ...]
    run: RunFacts | None
    is_running: bool
    ended_in_run: int
    """Exams that the latest run has ended so far."""
    run_seconds: float
    """How long it has been running, or ran."""
    work_seconds: float
    """Working time of all exams that are done, over all workers."""

    @property
    def per_hour(self) -> float | None:
        """Exams per hour of the latest run."""
        return 3600 * self.ended_in_run / self.run_seconds if self.ended_in_run and self.run_seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Time until the latest run is through, at the speed it has had; None if it is not running."""
        if not self.is_running or self.run is None or not self.per_hour:
            return None
        return 3600 * max(0, self.run.wanted - self.ended_in_run) / self.per_hour


def read_status(folder: Path, now: float | None = None) -> Status:
    """Look at an archive."""
    archive_id(folder)
    manifest = Manifest(folder, read_only=True)
    try:
        run = manifest.last_run()
        # `now` is later than anything that stands in the manifest; a driver that was killed has not written its end.
        now = time.time() if now is None else now
        is_running = run is not None and run.ended is None and _is_held(folder)
        since = run.started if run else now
        ended = manifest.one("select count(*), max(finished) from exams where finished >= ?", (since,))
        until = now if is_running else (run.ended if run and run.ended else ended[1]) or now
        totals = manifest.one("select sum(frames), sum(seconds) from exams where state = 'done'")
        findings: dict[str, dict[str, int]] = {}
        query = (
            "select label, substr(date, 1, 7), count(*) from exams join findings using (content_digest) "
            "where state = 'done' group by 1, 2 order by 1, 2"
        )
        for batch in manifest.batches(query):
            for label, month, count in batch:
                findings.setdefault(label, {})[month or "unknown"] = count
        return Status(
            counts=manifest.counts(),
            frames=int(totals[0] or 0),
            findings=findings,
            failed=tuple(manifest.rows("state = 'failed'")),
            run=run,
            is_running=is_running,
            ended_in_run=int(ended[0]),
            run_seconds=max(0.0, until - since),
            work_seconds=float(totals[1] or 0),
        )
    finally:
        manifest.close()


def _is_held(folder: Path) -> bool:
    """Whether a driver holds the lock of the archive."""
    from dice_ce.archive.manifest import driver_lock

    try:
        with driver_lock(folder):
            return False
    except UsageError:
        return True
    except StoreError:  # a share that only lets us read
        return True


def status_facts(status: Status) -> dict[str, Any]:
    """Say it for programs."""
    return {
        "exams": {"total": sum(status.counts.values()), **status.counts},
        "frames": status.frames,
        "running": status.is_running,
        "exams_per_hour": status.per_hour,
        "seconds_left": status.seconds_left,
        "work_seconds": status.work_seconds,
        "findings": status.findings,
        "failed": [{"place": row.place, "reason": row.reason} for row in status.failed],
    }


def status_text(status: Status) -> str:
    """Say it for people."""
    counts = status.counts
    total = sum(counts.values())
    lines = [
        f"{total:,} exams: {counts['done']:,} done, {counts['failed']:,} failed, {counts['skipped']:,} skipped, "
        f"{counts['waiting']:,} waiting; {status.frames:,} frames read"
    ]
    if status.run is not None:
        speed = f"{status.per_hour:,.1f} exams per hour" if status.per_hour else "no exam ended yet"
        left = f", about {_duration(status.seconds_left)} left" if status.seconds_left is not None else ""
        doing = "running" if status.is_running else "not running" if counts["waiting"] else "complete"
        lines.append(f"{doing} ({status.run.engine}): {speed}{left}")
    if counts["waiting"] and not status.is_running:
        lines.append("the same command goes on where the last one stopped")
    if status.findings:
        lines += ["", findings_table(status)]
    if status.failed:
        lines += ["", "failed:"]
        lines += [f"  {row.reason}" for row in status.failed[:MOST_FAILURES]]
        if len(status.failed) > MOST_FAILURES:
            lines.append(f"  and {len(status.failed) - MOST_FAILURES:,} more (--json names all)")
    return "\n".join(lines)


def findings_table(status: Status) -> str:
    """Draw findings by kind and month; the latest twelve months each in a column."""
    from dice_ce.table import Table

    months = sorted({month for found in status.findings.values() for month in found})
    shown, hidden = months[-12:], months[:-12]
    rows = [
        [label, *([sum(found.get(month, 0) for month in hidden)] if hidden else [])]
        + [found.get(month, 0) for month in shown]
        + [sum(found.values())]
        for label, found in sorted(status.findings.items(), key=lambda one: -sum(one[1].values()))
    ]
    return Table.of(["finding", *(["earlier"] if hidden else []), *shown, "all"], rows).text()


def group_reasons(failed: tuple[Row, ...]) -> list[tuple[str, int]]:
    """Count failures by what went wrong, whatever the exam is called."""
    return Counter(_without_place(row) for row in failed).most_common()


def _without_place(row: Row) -> str:
    return re.sub(r"\d+", "N", row.reason.replace(row.place, "").lstrip(": ")) or "unknown"


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours / 24:.1f} days"


def query_archive(folder: Path, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Ask the tables in SQL: `exams`, `findings` and `frames` are views of the Parquet files."""
    archive_id(folder)
    duckdb = require("duckdb", extra="archive", purpose="asking an archive in SQL")
    files = {"exams": folder / EXAMS, "findings": folder / FINDINGS, "frames": folder / FRAMES / "*.parquet"}
    with duckdb.connect(":memory:") as connection:
        try:
            for name, path in files.items():
                if name != "frames" or any((folder / FRAMES).glob("*.parquet")):
                    place = str(path.absolute()).replace("'", "''")
                    connection.execute(f"create view {name} as select * from read_parquet('{place}')")
            # The tables are all that a query may read, and it writes nothing.
            connection.execute(f"set allowed_directories = ['{str(folder.absolute()).replace(chr(39), chr(39) * 2)}']")
            connection.execute("set enable_external_access = false")
            connection.execute("set lock_configuration = true")
            answer = connection.execute(query)
            header = [column[0] for column in answer.description or ()]
            return header, answer.fetchall()
        except duckdb.Error as error:
            raise InputError(f"query: {str(error).partition(chr(10))[0]}; tables: {', '.join(files)}") from error
