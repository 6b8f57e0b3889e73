"""Progress of long work: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

BAR_WIDTH = 24
TERMINAL_INTERVAL = 0.1
LOG_INTERVAL = 10.0


class Watch(Protocol):
    """Starts watching a piece of work: gives what takes note of its progress."""

    def __call__(self, label: str, unit: str = "frames") -> Callable[[int, int], None]:
        """Name the work and what it is counted in."""


class ProgressBar:
    """Shows done/total, rate and time left on stderr; what was done by the first call does not count for the rate."""

    def __init__(self, label: str, unit: str = "frames", stream: TextIO | None = None) -> None:
        self._label, self._unit = label, unit
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._shown = time.monotonic()
        self._first: tuple[int, int, float] | None = None
        """Of the work that goes on: its total, what was done when it began, and when that was."""
        self._line = ""
        self._printed = ""

    def __call__(self, done: int, total: int) -> None:
        """Take note of the state; print it if it is time. Another total is other work, with a rate of its own."""
        now = time.monotonic()
        if self._first is None or self._first[0] != total:
            self._first = (total, done, now)
        _, before, began = self._first
        self._line = self._describe(done, total, done - before, now - began)
        interval = TERMINAL_INTERVAL if self._is_terminal else LOG_INTERVAL
        if now - self._shown >= interval:
            self._shown = now
            self._print()

    def _describe(self, done: int, total: int, new: int, elapsed: float) -> str:
        rate = new / elapsed if elapsed > 0 else 0.0
        left = f"{_minutes((total - done) / rate)} left" if rate > 0 and done < total else _minutes(elapsed)
        filled = round(BAR_WIDTH * done / total) if total else BAR_WIDTH
        bar = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] " if self._is_terminal else ""
        share = f"{100 * done / total:3.0f} %" if total else "100 %"
        return f"{self._label}  {bar}{share}  {done:,}/{total:,} {self._unit}  {_rate(rate)}  {left}"

    def _print(self) -> None:
        self._printed = self._line
        if self._is_terminal:
            self._stream.write(f"\r\x1b[2K{self._line}")
        else:
            self._stream.write(f"{self._line}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line != self._printed:
            self._print()
        if self._printed and self._is_terminal:
            self._stream.write("\n")
            self._stream.flush()


def _rate(rate: float) -> str:
    """Write slow rates with a decimal, slower ones by the hour: work that goes on is not 0/s."""
    if 0 < rate < 0.1:
        return f"{3600 * rate:,.0f}/h"
    return f"{rate:.1f}/s" if 0 < rate < 9.95 else f"{rate:,.0f}/s"


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
