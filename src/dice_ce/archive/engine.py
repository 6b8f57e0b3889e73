"""What the driver asks of an engine: take tasks, give results back, survive whatever a task does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dice_ce.archive.items import Item, Result, Task


class Engine(Protocol):
    """Runs tasks somewhere."""

    @property
    def name(self) -> str:
        """What the manifest calls it."""

    @property
    def capacity(self) -> int:
        """Tasks that it can use now; the driver gives it no more, so that nothing piles up."""

    def submit(self, task: Task) -> None:
        """Start a task."""

    def wait(self, seconds: float) -> Sequence[tuple[Task, Result]]:
        """Return what has ended; none if nothing does in that time."""

    def close(self) -> None:
        """End everything at once; whatever was being done is left for the next run."""


def describe_death(item: Item, how: str, tries: int) -> str:
    """Say in one line that workers died of an exam, and what the user can do."""
    often = "" if tries == 1 else f", {tries} times"
    return f"{item.place}: its worker died{often} ({how}); play the exam to check it, then export it again"
