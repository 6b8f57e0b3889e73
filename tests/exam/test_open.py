import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from dice_ce.errors import ExamError, UsageError
from dice_ce.exam.clock import ClockOptions
from dice_ce.exam.codec import write_image
from dice_ce.exam.open import Crop, open_exam
from dice_ce.exam.video import VideoCursor
from tests.material import SIZE, moving_dots, numbered, numbered_folder, numbered_video, read_number, write_video


def side_by_side(count: int) -> list[np.ndarray]:
    """Two cameras in one layout: the left shows the ordinal, the right the ordinal plus 1000, with a bar above."""
    bar = np.full((31, 2 * SIZE, 3), 90, np.uint8)
    return [np.vstack([bar, np.hstack([numbered(i), numbered(i + 1000)])])[:126] for i in range(count)]


def test_a_crop_takes_one_camera_out_of_a_layout(tmp_path: Path) -> None:
    path = write_video(tmp_path / "e.mp4", side_by_side(20), options={"crf": "10"})
    with open_exam(path, crop=Crop(SIZE, 31, SIZE, 95), mask=False) as exam:
        assert (exam.width, exam.height) == (SIZE, 95)
        assert [read_number(image) for _, image in exam.read()] == [1000 + i for i in range(20)]
    with open_exam(path, crop=Crop(0, 31, 95, 95), mask=False) as exam:
        assert read_number(exam.image(7)) == 7


def test_a_crop_gives_the_pixels_of_the_whole_image(tmp_path: Path) -> None:
    path = write_video(tmp_path / "e.mkv", side_by_side(3), codec="ffv1", pix_fmt="bgr0")
    with open_exam(path, mask=False) as whole, open_exam(path, crop=Crop(33, 17, 65, 51), mask=False) as part:
        assert np.array_equal(part.image(1), whole.image(1)[17:68, 33:98])


@pytest.mark.parametrize("text", ["1,2,3", "a,b,c,d", "0,0,10,10", "-1,0,64,64", ""])
def test_a_crop_that_makes_no_sense_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="--crop"):
        Crop.parse(text)


def test_a_crop_outside_the_image_is_refused(tmp_path: Path) -> None:
    path = numbered_video(tmp_path / "e.mp4", 3)
    with pytest.raises(ExamError, match="the crop 50,0,64,64 does not fit images of 96x96"):
        open_exam(path, crop=Crop(50, 0, 64, 64))


def test_images_are_fitted_into_the_square_without_distortion(tmp_path: Path) -> None:
    wide = np.full((64, 128, 3), 200, np.uint8)
    path = write_video(tmp_path / "e.mkv", [wide] * 3, codec="ffv1", pix_fmt="bgr0")
    with open_exam(path, mask=False) as exam:
        square = exam.image(0, size=32)
        assert square.shape == (32, 32, 3)
        assert (square[8:24] == 200).all()
        assert not square[:8].any()
        assert not square[24:].any()


def test_other_sizes_among_the_frames_are_refused_by_name(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "f", ["1.png", "2.png"])
    write_image(folder / "3.png", np.zeros((40, 40, 3), np.uint8))
    with (
        pytest.raises(ExamError, match="frame 2 has 40x40 pixels, the first has 96x96: put images of one size"),
        open_exam(folder) as exam,
    ):
        list(exam.read())


def test_colours_survive(tmp_path: Path) -> None:
    mucosa = np.full((64, 64, 3), (190, 110, 80), np.uint8)
    for name, settings in {
        "limited.mp4": {"options": {"crf": "1"}},
        "full.mp4": {"options": {"crf": "1"}, "pix_fmt": "yuvj420p"},
        "jpeg.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p", "options": {"qmin": "1", "qmax": "2"}},
        "rgb.mkv": {"codec": "ffv1", "pix_fmt": "bgr0"},
    }.items():
        path = write_video(tmp_path / name, [mucosa] * 2, **settings)  # type: ignore[arg-type]
        with open_exam(path, mask=False) as exam:
            for size in (None, 32):
                image = exam.image(1, size=size).astype(int)
                assert np.abs(image - (190, 110, 80)).max() <= 4, name
    folder = tmp_path / "images"
    for suffix in ("jpg", "png", "bmp"):
        write_image(folder / f"1.{suffix}", mucosa)
    with open_exam(folder, mask=False) as exam:
        assert all(np.abs(image.astype(int) - (190, 110, 80)).max() <= 4 for _, image in exam.read())


def test_a_clock_beside_the_video_is_found(tmp_path: Path) -> None:
    path = numbered_video(tmp_path / "e.mp4", 3)
    (tmp_path / "e.clock.csv").write_text("frame,seconds\n0,10\n1,20\n2,35.5\n")
    with open_exam(path) as exam:
        assert exam.clock.source == "sidecar"
        assert exam.clock.seconds(2) == Fraction(71, 2)
    with open_exam(path, clock=ClockOptions(exam_fps=Fraction(2))) as exam:
        assert exam.clock.source == "sidecar", "what was written down for this exam wins over what is said of all"
    (tmp_path / "e.clock.csv").unlink()
    with open_exam(path, clock=ClockOptions(exam_fps=Fraction(2))) as exam:
        assert exam.clock.source == "options"


def test_the_digest_is_of_the_content_and_the_id_of_the_name(tmp_path: Path) -> None:
    first = numbered_video(tmp_path / "a.b.mp4", 5)
    second = tmp_path / "copy.mp4"
    second.write_bytes(first.read_bytes())
    folder = numbered_folder(tmp_path / "f", ["1.png", "2.png"])
    with open_exam(first) as one, open_exam(second) as two, open_exam(folder) as three:
        assert one.digest == two.digest
        assert (one.id, two.id, three.id) == ("a.b", "copy", "f")
        before = three.digest
    (folder / "2.png").rename(folder / "0.png")
    with open_exam(folder) as renamed:
        assert renamed.digest != before


def test_the_original_is_never_changed(tmp_path: Path) -> None:
    path = numbered_video(tmp_path / "e.mp4", 5)
    path.chmod(0o444)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with open_exam(path) as exam:
        list(exam.read())
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_frame_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with (
        open_exam(numbered_video(tmp_path / "e.mp4", 5)) as exam,
        pytest.raises(ExamError, match="e: no frame 5; the exam has frames 0 to 4"),
    ):
        exam.image(5)


def test_a_frame_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "f", ["1.jpg", "2.jpg"])
    (folder / "2.jpg").write_bytes(b"\xff\xd8\xff nothing")
    with open_exam(folder) as exam, pytest.raises(ExamError, match="f: frame 1 is damaged and cannot be decoded"):
        exam.image(1)


def test_a_frame_that_was_asked_for_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    read = VideoCursor.read

    def counted(cursor: VideoCursor, start: int, stop: int) -> Iterator[tuple[int, av.VideoFrame]]:
        decoded.append(start)
        return read(cursor, start, stop)

    with open_exam(numbered_video(tmp_path / "exam.mp4", 40)) as exam:
        monkeypatch.setattr(VideoCursor, "read", counted)
        first = dict(exam.images([7, 30]))
        with exam.apart() as own:
            again = dict(own.images([30, 31, 7]))
        assert decoded == [7, 30, 31]
        assert all(np.array_equal(first[i], again[i]) for i in first)
        assert len(pickle.loads(pickle.dumps(exam)).image(7)) == exam.height, "elsewhere it decodes its own"


@pytest.mark.parametrize("room", [0, 2**20])
def test_what_an_exam_keeps_changes_no_image(tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, image in enumerate(moving_dots(30, 96)):
        write_image(tmp_path / "exam" / f"{i:03d}.png", np.maximum(image, 2))  # not black outside the disc
    monkeypatch.setattr("dice_ce.exam.open.KEPT_BYTES", room)
    with open_exam(tmp_path / "exam") as exam, open_exam(tmp_path / "exam") as fresh:
        assert exam.field.kind == "round"
        exam.image(5)  # of its own size, and masked in place
        assert np.array_equal(exam.image(5, size=40), fresh.image(5, size=40))
