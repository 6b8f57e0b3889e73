"""Features of single images: the progress counts what is really done, and what is cached is not done again."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from dice_ce.features import images
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.images import encode_images, find_images
from tests.material import numbered_folder


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Images for three chunks, the last of them not full; one cannot be decoded."""
    monkeypatch.setattr(images, "CHUNK", 20)
    folder = numbered_folder(tmp_path / "frames", [f"{i}.png" for i in range(50)])
    (folder / "3.png").write_bytes(b"no image")
    return find_images(folder)


def test_progress_begins_with_nothing_and_counts_every_batch(paths: list[Path], tiny_encoder: OnnxEncoder) -> None:
    seen: list[tuple[int, int]] = []
    encode_images(paths, tiny_encoder, progress=lambda *state: seen.append(state))
    done = [state[0] for state in seen]
    assert done[0] == 0, "so that the first images count for the rate, too"
    assert done == sorted(done)
    assert max(later - before for before, later in itertools.pairwise(done)) <= images.BATCH
    assert seen[-1] == (50, 50)


def test_what_is_cached_counts_as_done_before(
    paths: list[Path], tiny_encoder: OnnxEncoder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = encode_images(paths, tiny_encoder)
    (removed,) = [file for file in (cache / "images").iterdir() if len(np.load(file)) == 10]
    removed.unlink()
    seen: list[int] = []
    again = encode_images(paths, tiny_encoder, progress=lambda done, total: seen.append(done))
    assert seen[0] == 40
    assert seen[-1] == 50
    assert np.array_equal(again, whole, equal_nan=True)
    assert np.isnan(whole).any(axis=1).nonzero()[0].tolist() == [3]
    seen.clear()
    encode_images(paths, tiny_encoder, progress=lambda done, total: seen.append(done))
    assert seen == [], "nothing was left to do"


def test_no_images_have_no_features(tiny_encoder: OnnxEncoder) -> None:
    assert encode_images([], tiny_encoder).shape == (0, tiny_encoder.dim)
