"""A second network as the diagnoser: which images it gets, and what it says about those it cannot get."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dice_ce.exam.open import Exam, open_exam
from dice_ce.exam.readers import Cursor
from dice_ce.exam.video import VideoSource
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.chain import Woven
from dice_ce.method.diagnoser import HeadedEncoder, NetworkDiagnoser, RememberedDiagnoser, softmax
from dice_ce.method.keyframes import Keyframes
from dice_ce.method.pipeline import diagnose_contexts
from dice_ce.method.selector import Candidates, Screened
from dice_ce.method.settings import Settings
from dice_ce.method.weaver import Context
from dice_ce.taxonomy import Taxonomy
from dice_ce.types import Resize
from tests.material import numbered_folder, numbered_video, tiny_head, write_tiny_encoder


def candidates(exam: Exam, rows: list[int]) -> Candidates:
    count = len(rows)
    frames = exam.frames[np.array(rows, np.int64)]
    return Candidates(frames, np.array(rows, float), np.zeros((count, 2), np.float32), np.ones(count, np.float32))


def test_what_a_network_cannot_see_is_not_a_number_and_the_others_keep_their_rows(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "f", [f"{i}.png" for i in range(12)])
    (folder / "5.png").write_bytes(b"nothing")
    network = NetworkDiagnoser((OnnxEncoder.open(write_tiny_encoder(tmp_path / "n.onnx")),))
    cells = Taxonomy("cells", (*map(str, range(47)), "normal"))
    with open_exam(folder) as exam:
        some = candidates(exam, [1, 3, 5, 6, 9])
        found = network(exam, some)
        assert np.isnan(found).all(axis=1).tolist() == [False, False, True, False, False]
        for row, frame in ((0, 1), (1, 3), (3, 6), (4, 9)):
            alone = network.networks[0].encode(exam.image(frame, size=32)[None])
            np.testing.assert_array_equal(found[row], softmax(alone)[0])
        woven = Woven(some, (Context(0, 0, np.arange(5)),), Keyframes(some))
        seen = diagnose_contexts(woven, lambda frames: network(exam, frames), cells, Settings())
        assert seen.unseen == (5,)
        np.testing.assert_array_equal(seen.distributions, found)
        assert np.isnan(network(exam, candidates(exam, [5]))).all()
        assert len(network(exam, candidates(exam, []))) == 0


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
        NetworkDiagnoser((Noting(),))(exam, candidates(exam, [1, 3]))
        read = dict(exam.read(size=32, resize=resize))
        other = dict(exam.read(size=32, resize="area" if resize != "area" else "bicubic"))
    wanted = [[one[i].tobytes() for i in (1, 3)] for one in (read, other)]
    assert {image.tobytes() for image in given} == set(wanted[0]) != set(wanted[1])


def test_networks_say_how_far_they_are_and_see_frames_each_in_its_own_size(tmp_path: Path) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "n.onnx"))
    other = HeadedEncoder(OnnxEncoder.open(write_tiny_encoder(tmp_path / "e.onnx", size=16)), tiny_head(12, 48, seed=5))
    told: list[tuple[int, int]] = []
    with open_exam(numbered_folder(tmp_path / "f", [f"{i}.png" for i in range(80)])) as exam:
        some = candidates(exam, list(range(1, 80)))
        alone = NetworkDiagnoser((network,))(exam, some, lambda done, total: told.append((done, total)))
        both = NetworkDiagnoser((other, network))(exam, some)
        small = np.stack([image for _, image in exam.images(range(1, 80), size=16)])
    assert told == [(0, 79), (64, 79), (79, 79)]
    np.testing.assert_allclose(both, softmax(np.log(alone) + other.encode(small)), atol=1e-5)


def test_a_head_takes_the_features_that_its_encoder_gave_already(tmp_path: Path) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "n.onnx"))
    encoder, head = OnnxEncoder.open(write_tiny_encoder(tmp_path / "e.onnx", size=16)), tiny_head(12, 48, seed=5)
    diagnoser = NetworkDiagnoser((HeadedEncoder(encoder, head), network))
    features = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float16)
    folder = numbered_folder(tmp_path / "f", [f"{i}.png" for i in range(4)])
    (folder / "2.png").write_bytes(b"nothing")
    with open_exam(folder) as exam:
        some = replace(candidates(exam, [0, 2, 3]), vectors=features)
        looked = diagnoser(exam, some)
        alone = NetworkDiagnoser((network,))(exam, some)
        given = diagnoser(exam, replace(some, seen_by=encoder.digest)[np.arange(3)])
    wanted = softmax(np.log(alone) + head(features))
    np.testing.assert_allclose(given[[0, 2]], wanted[[0, 2]], atol=1e-5)
    assert not np.allclose(looked[[0, 2]], given[[0, 2]], atol=1e-3)
    assert np.isnan(given[1]).all()


def test_those_who_look_at_the_same_time_decode_in_one_thread_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or every one of them would start as many decoders as there are cores, and seeking would feed all of these."""
    opened: list[int] = []
    start = VideoSource.open

    def noting(source: VideoSource, *, threads: int = 0) -> Cursor:
        opened.append(threads)
        return start(source, threads=threads)

    network = NetworkDiagnoser((OnnxEncoder.open(write_tiny_encoder(tmp_path / "n.onnx")),))
    with open_exam(numbered_video(tmp_path / "v.mp4", 140)) as exam:
        monkeypatch.setattr(VideoSource, "open", noting)
        network(exam, candidates(exam, list(range(140))), workers=2)
    assert opened == [1, 1, 1]


def test_a_diagnoser_that_remembers_judges_every_frame_once(tmp_path: Path) -> None:
    """Also a frame about which nothing can be said: it will not be readable the next time either."""
    asked: list[list[int]] = []

    def look(frames: Screened) -> np.ndarray:
        asked.append(frames.frames.index.tolist())
        found = np.repeat(frames.frames.index[:, None], 2, axis=1).astype(np.float32)
        return np.where(found == 3, np.nan, found)

    with open_exam(numbered_folder(tmp_path / "f", [f"{i}.png" for i in range(8)])) as exam:
        remembered = RememberedDiagnoser(look, 8, 2)
        first = remembered(candidates(exam, [1, 3, 6]))
        again = remembered(candidates(exam, [0, 3, 6, 7]))
        assert len(remembered(candidates(exam, []))) == 0
    assert asked == [[1, 3, 6], [0, 7]]
    np.testing.assert_array_equal(first, [[1, 1], [np.nan, np.nan], [6, 6]])
    np.testing.assert_array_equal(again, [[0, 0], [np.nan, np.nan], [6, 6], [7, 7]])
