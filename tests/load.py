"""A machine with other things to do: what must not depend on speed is tested under it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

# Ends by itself when whoever started it is gone, however that went.
BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    sum(range(100_000))
"""


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Keep so many processes computing meanwhile."""
    children = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(processes)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()


def litter_memory(seed: int) -> None:
    """Leave noise in memory that is free again, for whoever reads what nobody wrote."""
    chance = np.random.default_rng(seed)
    sizes = (2.0 ** chance.uniform(6, 19, 200)).astype(int)
    blocks = [chance.bytes(size) for size in sizes]
    del blocks[::2]  # holes of all sizes first, then the rest
