"""The long run that kills at random moments would notice what is wrong: a look at its own eyes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from tests.soak import complaints


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


INDEX, VECTORS = np.arange(6), np.arange(12, dtype=np.float16).reshape(6, 2)
WHOLE = {
    "cache/features/k.lock": b"",
    "cache/features/k/index.npy": npy(INDEX),
    "cache/features/k/vectors.npy": npy(VECTORS),
    "cache/features/k/manifest.json": b"{}",
    "out/exam/summary.json": b"{}",
    "out/exam/report.html": b"<html>",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def features(count: int) -> dict[str, bytes]:
    return dict(list(WHOLE.items())[:count])


@pytest.mark.parametrize(
    "files",
    [
        {},
        features(1),
        features(3),
        features(4),
        WHOLE,
        {"out/.part-1/summary.json": b"{", "cache/features/k/segments/.part-2": b"PK"},
    ],
)
def test_absent_or_right_is_fine(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert complaints(write(tmp_path, files), WHOLE) == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({**WHOLE, "out/exam/summary.json": b"{"}, "out/exam/summary.json"),
        ({"out/exam/summary.json": b"{}"}, "out: incomplete"),
        ({**WHOLE, "out/exam/more.txt": b""}, "out/exam/more.txt"),
        ({"cache/features/k/manifest.json": b"{}"}, "cache: a manifest, but not all of its files"),
        ({"cache/features/k/vectors.npy": b""}, "cache/features/k/vectors.npy"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, files: dict[str, bytes], complaint: str) -> None:
    assert complaint in complaints(write(tmp_path, files), WHOLE)


@pytest.mark.parametrize(("vectors", "wrong"), [(VECTORS[2:4], False), (VECTORS[1:3], True)])
def test_a_segment_has_the_rows_of_the_whole(tmp_path: Path, vectors: np.ndarray, wrong: bool) -> None:
    file = io.BytesIO()
    np.savez(file, index=INDEX[2:4], vectors=vectors)
    segment = "cache/features/k/segments/00000002.npz"
    assert complaints(write(tmp_path, {segment: file.getvalue()}), WHOLE) == ([segment] if wrong else [])
