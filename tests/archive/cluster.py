"""A Ray cluster of several nodes on this machine: small, quiet, and easy to hurt."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.archive.material import wait_until

STORE = 80 * 2**20
TRIES = 5


class SmallCluster:
    """A head that works on nothing, and nodes of one core each."""

    def __init__(self, nodes: int) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
        self._cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.nodes: list[Any] = []
        for _ in range(nodes):
            self.add_node()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def kill_head(self) -> None:
        """End the node through which drivers on this machine speak to the cluster."""
        kill_worker(raylet_of(self._cluster.head_node))

    def add_node(self) -> None:
        self.nodes.append(patiently(lambda: self._cluster.add_node(num_cpus=1, object_store_memory=STORE)))

    def node_of(self, worker: int) -> Any:
        """The node whose raylet has started this worker."""
        parent = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        return next(node for node in self.nodes if raylet_of(node) == parent)

    def kill_node(self, node: Any) -> None:
        """End a whole node at once, as a power cut does."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def workers(self) -> list[int]:
        """Processes that work on a task just now."""
        raylets = {raylet_of(node) for node in self.nodes}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in raylets and b"ray::perform" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        self._cluster.shutdown()


def patiently(start: Callable[[], Any]) -> Any:
    """Start something of Ray's, several times if need be: it has half a minute, which a busy machine may not keep."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Exception):  # Ray raises plain ones
            return start()
    return start()


def raylet_of(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


@contextlib.contextmanager
def small_cluster(nodes: int) -> Iterator[SmallCluster]:
    cluster = SmallCluster(nodes)
    try:
        yield cluster
    finally:
        cluster.close()


def kill_worker(pid: int) -> None:
    """End a worker at once, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "the end of a worker")


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
