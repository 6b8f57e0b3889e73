"""A second network as the diagnoser: which images it gets, and what it says about those it cannot get."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dice_ce.diagnoser import NetworkDiagnoser, leave_out_unseen
from dice_ce.encoder import OnnxEncoder, Resize
from dice_ce.exam import Exam, open_exam
from dice_ce.selector import Candidates
from tests.material import numbered_folder, write_tiny_encoder


def candidates(exam: Exam, rows: list[int]) -> Candidates:
    count = len(rows)
    frames = exam.frames[np.array(rows, np.int64)]
    return Candidates(frames, np.array(rows, float), np.zeros((count, 2), np.float32), np.ones(count, np.float32))


def test_what_a_network_cannot_see_is_not_a_number_and_the_others_keep_their_rows(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "f", [f"{i}.png" for i in range(12)])
    (folder / "5.png").write_bytes(b"nothing")
    diagnose = NetworkDiagnoser(OnnxEncoder.open(write_tiny_encoder(tmp_path / "n.onnx")))
    with open_exam(folder) as exam:
        some = candidates(exam, [1, 3, 5, 6, 9])
        found = diagnose(exam, some)
        assert np.isnan(found).all(axis=1).tolist() == [False, False, True, False, False]
        for row, frame in ((0, 1), (1, 3), (3, 6), (4, 9)):
            np.testing.assert_array_equal(found[row], diagnose.judge([exam.image(frame, size=32)])[0])
        seen, distributions = leave_out_unseen(some, found)
        assert seen.frames.index.tolist() == seen.seconds.tolist() == [1, 3, 6, 9]
        np.testing.assert_array_equal(distributions, found[[0, 1, 3, 4]])
        assert np.isnan(diagnose(exam, candidates(exam, [5]))).all()
        assert len(diagnose(exam, candidates(exam, []))) == 0


@pytest.mark.parametrize("resize", get_args(Resize))
def test_a_network_gets_images_resized_as_it_asks(tmp_path: Path, resize: Resize) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "n.onnx"))
    given: list[np.ndarray] = []

    class Noting:
        name, digest, dim, input_size = network.name, network.digest, network.dim, network.input_size

        def __init__(self) -> None:
            self.resize: Resize = resize

        def encode(self, batch: np.ndarray) -> np.ndarray:
            given.extend(batch)
            return network.encode(batch)

    with open_exam(numbered_folder(tmp_path / "f", [f"{i}.png" for i in range(4)])) as exam:
        NetworkDiagnoser(Noting())(exam, candidates(exam, [1, 3]))
        read = dict(exam.read(size=32, resize=resize))
        other = dict(exam.read(size=32, resize="area" if resize != "area" else "bicubic"))
    np.testing.assert_array_equal(given, [read[1], read[3]])
    assert not np.array_equal(given, [other[1], other[3]])
