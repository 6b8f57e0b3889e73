"""Rows that are read when they are needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dice_ce.features.rows import Rows, rows_of


def test_rows_of_rows_are_those_of_the_matrix_in_memory_and_in_a_file(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float16)
    np.save(tmp_path / "matrix.npy", matrix)
    for stored in (matrix, np.load(tmp_path / "matrix.npy", mmap_mode="r")):
        some = rows_of(stored).some(np.arange(10, 40)).some(np.array([3, 20, 7]))
        assert (len(some), some.shape) == (3, (3, 4))
        np.testing.assert_array_equal(some[:], matrix[[13, 30, 17]])
        np.testing.assert_array_equal(some[np.array([True, False, True])], matrix[[13, 17]])
        np.testing.assert_array_equal(np.asarray(some, np.float32), matrix[[13, 30, 17]].astype(np.float32))
        np.testing.assert_array_equal(rows_of(stored)[5:8], matrix[5:8])


def test_what_was_read_is_a_copy() -> None:
    matrix = np.zeros((3, 2), np.float16)
    Rows(matrix)[:2][:] = 1
    Rows(matrix).some(np.arange(3))[1:][:] = 1
    assert not matrix.any()


def test_a_mapped_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "matrix.npy", np.ones((4096, 1024), np.float16))
    mapped = np.load(tmp_path / "matrix.npy", mmap_mode="r")

    def resident() -> int:
        """Kilobytes of this file that are in the memory of the process, as Linux tells."""
        lines = Path("/proc/self/smaps").read_text().splitlines()
        place = next((i for i, line in enumerate(lines) if line.endswith("matrix.npy")), None)
        return 0 if place is None else next(int(line.split()[1]) for line in lines[place:] if line.startswith("Rss:"))

    if not Path("/proc/self/smaps").exists():
        return
    assert mapped.sum(dtype=np.float64) == 4096 * 1024
    assert resident() > 4000
    assert Rows(mapped)[:10].all()
    assert resident() < 1000
