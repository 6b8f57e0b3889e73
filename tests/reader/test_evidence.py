"""The mark of where the evidence lies points at what the model looks at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dice_ce.method.bundle import load_bundle
from dice_ce.reader.evidence import CELLS, covered, find_evidence, spread
from dice_ce.types import Floats
from tests.material import SIZE, write_video
from tests.reader.conftest import Reader
from tests.reader.material import open_numbered


class OneCell:
    """Believes in the first label as much as one of the tiny encoder's sixteen cells is bright."""

    def diagnose(self, vectors: Floats) -> Floats:
        """Look at the cell in row 1, column 2."""
        cells = vectors.reshape(len(vectors), 3, 4, 4)
        bright = cells[:, :, 1, 2].mean(axis=1)
        return np.stack([bright, *[(1 - bright) / 11] * 11], axis=1)


def test_the_cell_that_counts_is_found(tmp_path: Path, bundle_folder: Path) -> None:
    image = np.full((SIZE, SIZE, 3), 60, np.uint8)
    image[SIZE // 4 : SIZE // 2, SIZE // 2 : 3 * SIZE // 4] = 240
    bundle = replace(load_bundle(bundle_folder), diagnoser=OneCell())  # type: ignore[arg-type]
    with open_numbered(write_video(tmp_path / "spot.mp4", [image] * 3)) as exam:
        found = find_evidence(exam, 1, "ulcer", bundle)
    weights = np.array(found.weights)
    assert found.label == "ulcer"
    assert (found.left, found.top, found.right, found.bottom) == (0, 0, 1, 1)
    inside = weights[2:4, 4:6]
    assert inside.min() > 2 * weights[[0, 1, 5, 6, 7]].max()
    assert inside.min() > weights[2:4, [0, 1, 2, 7]].max()


def test_black_around_the_field_of_view_is_not_covered() -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    image[:, 16:] = 200
    places, images = covered(image)
    assert min(column for _, column in places) == CELLS // 2 - 1
    assert all((one[:, :16] == 0).all() for one in images)


def test_cells_are_judged_by_all_covers_over_them() -> None:
    grid = spread([(0, 0), (0, 1)], np.array([0.2, 0.6]))
    assert np.allclose(grid[0, :4], [0.2, 0.4, 0.6, 0.0])


def test_another_bundle_than_that_of_the_results_is_not_asked(reader: Reader) -> None:
    me = reader.browser()
    path = f"/api/exams/{me.exam()}/frames/20/evidence"
    answer = me.get(path, params={"label": "polyp"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "bundle_missing")
    assert me.get(path, params={"label": "diverticulum"}).json()["error"]["code"] == "not_found"
