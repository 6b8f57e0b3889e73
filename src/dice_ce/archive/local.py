"""The engine of one machine: processes with limits. One that dies is replaced, and only its own exam is affected."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from dice_ce.archive.engine import describe_death
from dice_ce.archive.items import Died, Limits, Result, Task
from dice_ce.features.extraction import cpu_count
from dice_ce.processes import die_with

SMALLEST_MEMORY = 2**30
"""Bytes below which a worker cannot load a model."""
MEMORY_SHARE = 0.8
"""Of the memory that is available when the run begins, for all workers together."""
SUMS_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads NumPy's sums may have; it is read when NumPy is loaded."""


def default_memory(workers: int) -> int | None:
    """Deal the available memory to the workers; None where the system does not say how much there is."""
    try:
        with open("/proc/meminfo") as file:
            facts = dict(line.split(":", 1) for line in file)
        available = int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    return max(SMALLEST_MEMORY, int(MEMORY_SHARE * available / workers))


class LocalEngine:
    """Worker processes, each with one task at a time."""

    name = "local"

    def __init__(self, workers: int | None, limits: Limits, *, retries: int = 1) -> None:
        self._count = workers or cpu_count()
        self._limits, self._retries = limits, retries
        # Neither forked from the driver, which may have threads, nor by a server, which would open a socket.
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, Task, int]] = {}

    @property
    def capacity(self) -> int:
        """As many tasks as there are workers."""
        return self._count

    def submit(self, task: Task) -> None:
        """Give a task to an idle worker, or to a new one."""
        self._send(task, deaths=0)

    def _send(self, task: Task, deaths: int) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._context, self._limits.memory_bytes)
        self._busy[worker.connection] = (worker, task, deaths)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it died idle; `wait` sees that
            worker.connection.send(task)

    def wait(self, seconds: float) -> Sequence[tuple[Task, Result]]:
        """Collect what has ended, one way or another."""
        ended: list[tuple[Task, Result]] = []
        for connection in wait(list(self._busy), seconds):
            assert isinstance(connection, Connection)
            worker, task, deaths = self._busy.pop(connection)
            try:
                ended.append((task, connection.recv()))
                self._idle.append(worker)
            except (EOFError, OSError):
                how = worker.bury()
                if deaths < self._retries:
                    self._send(task, deaths + 1)
                else:
                    ended.append((task, Died(describe_death(task.item, how, deaths + 1))))
        return ended

    def close(self) -> None:
        """End all workers; killing them is safe, since everything they write is published whole."""
        for worker in [*self._idle, *(worker for worker, _, _ in self._busy.values())]:
            worker.kill()
        self._idle.clear()
        self._busy.clear()


class _Worker:
    def __init__(self, context: Any, memory: int | None) -> None:
        self.connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, memory, os.getpid()), daemon=True)
        with sums_in_one_thread():
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def bury(self) -> str:
        """Clear a dead worker away and say how it died."""
        self._process.join(10)
        code = self._process.exitcode
        self.kill()
        if code == 1:  # faulthandler's
            return "no progress for too long"
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            return f"{name}, probably out of memory" if -code == signal.SIGKILL else f"{name}, a crash of native code"
        return f"exit code {code}"

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


@contextlib.contextmanager
def sums_in_one_thread() -> Iterator[None]:
    """Have new processes add up in one thread, unless the user says otherwise.

    Threads that meet in small sums spin while they wait, and take the cores from other workers: a fifth of what a short
    exam cost.
    """
    if SUMS_THREADS in os.environ:
        yield
        return
    os.environ[SUMS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[SUMS_THREADS]


def _serve(connection: Connection, memory: int | None, driver: int) -> None:
    """Work until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's affair
    die_with(driver)
    _limit_memory(memory)
    from dice_ce.archive.worker import perform

    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(perform(task))


def _limit_memory(memory: int | None) -> None:
    """Make allocations beyond the limit fail, and have the system end this process rather than the driver."""
    if sys.platform != "linux":
        return
    if memory is not None:
        import resource

        # Data, not address space: mapped files such as models and features cost no memory of their own.
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")
