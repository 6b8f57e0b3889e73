"""The engine of a cluster: tasks of Ray. Placing, retrying, moving data and noticing dead nodes are Ray's affair."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import Any

from dice_ce.archive.engine import describe_death
from dice_ce.archive.items import Died, Result, Task
from dice_ce.errors import InputError, one_line, require

AHEAD = 2
"""Tasks in flight per core: enough that no core waits for the driver, few enough that nothing piles up."""
OBJECT_STORE = 100 * 2**20
"""Bytes; what goes through Ray is small, since features go through the store on shared storage."""


class RayEngine:
    """Ray's own scheduler, with one task per core."""

    name = "ray"

    def __init__(self, address: str | None, workers: int | None, *, retries: int = 3, threads: int = 1) -> None:
        # Before the import: nothing is reported to anybody, and an exam that fills the memory is not tried for ever.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(retries)}
        self._ray: Any = require("ray", extra="ray", purpose="running on a cluster")
        self._retries = retries
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if address is None:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would write one into the user's home
            options |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        try:
            self._ray.init(address=address or "local", **options)
        except Exception as error:  # Ray also raises plain exceptions
            reason = one_line(str(error).partition("\n")[0])
            if address is None:
                raise InputError(f"--engine ray: Ray does not start ({reason}); use --engine local") from error
            raise InputError(f"--ray-address {address}: no cluster there ({reason}); see 'ray status'") from error
        from dice_ce.archive.worker import perform

        # By name, not by value: every node has the package installed.
        self._perform = self._ray.remote(num_cpus=threads, max_retries=retries)(perform)
        self._threads = threads
        self._tasks: dict[Any, Task] = {}

    @property
    def capacity(self) -> int:
        """Some tasks per core of the cluster as it is now; nodes may come and go."""
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return max(1, AHEAD * cores // self._threads)

    def submit(self, task: Task) -> None:
        """Hand a task to Ray."""
        self._tasks[self._perform.remote(task)] = task

    def wait(self, seconds: float) -> Sequence[tuple[Task, Result]]:
        """Collect what has ended; an exception is the death of workers, as often as Ray has tried."""
        if not self._tasks:
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        ended: list[tuple[Task, Result]] = []
        for reference in ready:
            task = self._tasks.pop(reference)
            try:
                ended.append((task, self._ray.get(reference)))
            except self._ray.exceptions.RayError as error:
                how = type(error).__name__
                ended.append((task, Died(describe_death(task.item, how, self._retries + 1))))
        return ended

    def close(self) -> None:
        """Cancel what runs, and leave the cluster."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        self._tasks.clear()
        self._ray.shutdown()
