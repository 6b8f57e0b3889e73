"""The engine of a cluster: tasks of Ray. Placing, retrying, moving data and noticing dead nodes are Ray's affair."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
from collections.abc import Iterator, Sequence
from typing import Any

from dice_ce.archive.engine import describe_death
from dice_ce.archive.items import Died, Result, Task
from dice_ce.errors import InputError, one_line, require

AHEAD = 2
"""Tasks in flight per core: enough that no core waits for the driver, few enough that nothing piles up."""
OBJECT_STORE = 100 * 2**20
"""Bytes; what goes through Ray is small, since features go through the store on shared storage."""


STARTS = 4
"""How often it is tried to start Ray on this machine."""


class RayEngine:
    """Ray's own scheduler, with one task per core."""

    name = "ray"

    def __init__(self, address: str | None, workers: int | None, *, retries: int = 3, threads: int = 1) -> None:
        # Before the import: nothing is reported to anybody, and an exam that fills the memory is not tried for ever.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(retries)}
        self._ray: Any = require("ray", extra="ray", purpose="running on a cluster")
        self._retries, self._where = retries, f"--ray-address {address}" if address else "--engine ray"
        if (address or "").startswith("ray://") and importlib.util.find_spec("grpc") is None:
            raise InputError(
                f"{self._where}: Ray's client is not installed; install it with: pip install 'ray[client]' (here and "
                "on the head), or run this on a machine of the cluster with --ray-address auto"
            )
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if address is None:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would write one into the user's home
            options |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        try:
            with _own_signals():
                self._start(address, options)
        except Exception as error:  # Ray also raises plain exceptions
            reason = reason_of(error)
            if address is None:
                raise InputError(f"{self._where}: Ray does not start ({reason}); use --engine local") from error
            raise InputError(f"{self._where}: no cluster there ({reason}); see 'ray status'") from error
        from dice_ce.archive.worker import perform

        # By name, not by value: every node has the package installed.
        self._perform = self._ray.remote(num_cpus=threads, max_retries=retries)(perform)
        self._threads = threads
        self._tasks: dict[Any, Task] = {}

    def _start(self, address: str | None, options: dict[str, Any]) -> None:
        """Connect, or start Ray here; it gives itself half a minute, which a busy machine may not keep."""
        for left in reversed(range(STARTS if address is None else 1)):
            try:
                self._ray.init(address=address or "local", **options)
                return
            except Exception as error:
                self._ray.shutdown()
                if not left or "timed out" not in str(error):
                    raise

    @property
    def capacity(self) -> int:
        """Some tasks per core of the cluster as it is now; nodes may come and go."""
        with self._connected():
            cores = int(self._ray.cluster_resources().get("CPU", 1))
        return max(1, AHEAD * cores // self._threads)

    def submit(self, task: Task) -> None:
        """Hand a task to Ray."""
        with self._connected():
            self._tasks[self._perform.remote(task)] = task

    def wait(self, seconds: float) -> Sequence[tuple[Task, Result]]:
        """Collect what has ended; an exception is the death of workers, as often as Ray has tried."""
        if not self._tasks:
            return []
        with self._connected():
            ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
            ended = [(self._tasks.pop(reference), reference) for reference in ready]
            return [(task, self._result(task, reference)) for task, reference in ended]

    def _result(self, task: Task, reference: Any) -> Result:
        errors = self._ray.exceptions
        try:
            result: Result = self._ray.get(reference)
            return result
        except (
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.ObjectLostError,
        ) as error:
            how = type(error).__name__
            return Died(describe_death(task.item, how, self._retries + 1))
        except errors.RayTaskError as error:  # the task itself raises nothing
            reason = one_line(str(error.cause).strip().rpartition("\n")[2])
            raise InputError(
                f"{self._where}: a machine cannot do the work ({reason}); install the same version everywhere"
            ) from error

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """End the run when the cluster is gone; no exam is to blame for that."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # Ray also raises plain exceptions
            reason = f"{type(error).__name__}: {reason_of(error)}"
            raise InputError(
                f"{self._where}: the cluster is gone ({reason}); start it, and the same command goes on"
            ) from error

    def close(self) -> None:
        """Leave the cluster, if that is still there; Ray ends what a driver that leaves has started.

        Nothing is cancelled: where tasks were, Ray 2.60 once ended the driver with exit code 1 ("Tried to complete task
        that was not pending"), most likely because one was done in that moment.
        """
        self._tasks.clear()
        with contextlib.suppress(Exception):  # Ray also raises plain exceptions
            self._ray.shutdown()


def reason_of(error: Exception) -> str:
    """Say in one line what Ray says in many: its first, or the last of a traceback that the first announces."""
    lines = str(error).strip().splitlines() or [""]
    return one_line(lines[-1] if lines[0].rstrip().endswith(":") else lines[0])


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what the program does when it is told to end; Ray puts an exit of its own in its place."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
