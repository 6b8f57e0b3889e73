"""Decoding, seeking and time, proved on frames that carry their ordinal in their pixels."""

import itertools
import random
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dice_ce.exam.images import natural_order
from dice_ce.exam.open import open_exam
from dice_ce.exam.readers import open_source
from dice_ce.exam.video import VideoCursor, index_video
from tests.material import (
    corrupt,
    moving_dots,
    numbered,
    numbered_folder,
    numbered_video,
    read_number,
    variable_rate,
    write_video,
    zipped,
)

COUNT = 70
MILLISECONDS = Fraction(1, 1000)
QUIET_HEVC = {"x265-params": "log-level=0:keyint=20"}

FORMATS: dict[str, dict[str, Any]] = {
    "h264-long-gop.mp4": {"options": {"g": "250", "sc_threshold": "0"}},
    "h264-variable-rate.mp4": {"pts": variable_rate, "time_base": MILLISECONDS},
    "h264-delayed-start.mp4": {"pts": lambda i: i + 50},
    "h264-open-gop.mkv": {"options": {"x264-params": "open-gop=1:keyint=15:bframes=3"}},
    "h264-variable-rate.mkv": {"pts": variable_rate, "time_base": MILLISECONDS},
    "h264-with-b-frames.avi": {"options": {"bf": "3", "g": "20"}},
    "h264-raw.h264": {"options": {"g": "20"}},
    "h264.ts": {"options": {"g": "20"}},
    "hevc.mp4": {"codec": "libx265", "options": QUIET_HEVC},
    "hevc.mkv": {"codec": "libx265", "options": QUIET_HEVC},
    "mpeg4.avi": {"codec": "mpeg4", "options": {"g": "12"}},
    "mpeg4-with-b-frames.avi": {"codec": "mpeg4", "options": {"bf": "2", "g": "12"}},
    "mjpeg.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "mpeg1.mpg": {"codec": "mpeg1video", "options": {"g": "12"}},
    "mpeg2-with-b-frames.mpg": {"codec": "mpeg2video", "options": {"bf": "2", "g": "12"}},
    "wmv.wmv": {"codec": "wmv2", "options": {"g": "12"}},
    "lossless-rgb.mkv": {"codec": "ffv1", "pix_fmt": "bgr0"},
    "grey.mkv": {"codec": "ffv1", "pix_fmt": "gray"},
    "frames-jpg": {"names": [f"0728084c8da942d9_{n}.jpg" for n in range(8, 8 + COUNT)]},
    "frames-png": {"names": [f"frame_{n:06d}.PNG" for n in range(95, 95 + COUNT)]},
    "frames-bmp": {"names": [f"{n}.bmp" for n in range(COUNT)]},
    "frames.zip": {"names": [f"img{n}.jpg" for n in range(COUNT)]},
}


def make(name: str, folder: Path) -> Path:
    settings = dict(FORMATS[name])
    if "names" not in settings:
        return numbered_video(folder / name, COUNT, **settings)
    frames = numbered_folder(folder / "frames", settings["names"])
    return zipped(frames, folder / name) if name.endswith(".zip") else frames


@pytest.mark.parametrize("name", FORMATS)
class TestEveryFormat:
    def test_streaming_yields_every_frame_once_in_order(self, name: str, tmp_path: Path) -> None:
        with open_exam(make(name, tmp_path), mask=False) as exam:
            assert len(exam) == COUNT
            assert [(i, read_number(image)) for i, image in exam.read()] == [(i, i) for i in range(COUNT)]

    def test_random_access_is_frame_exact(self, name: str, tmp_path: Path) -> None:
        order = list(range(COUNT))
        random.Random(0).shuffle(order)
        with open_exam(make(name, tmp_path), mask=False) as exam:
            assert [(i, read_number(image)) for i, image in exam.images(order)] == [(i, i) for i in order]

    def test_a_stretch_in_the_middle_is_the_same_as_in_the_whole(self, name: str, tmp_path: Path) -> None:
        with open_exam(make(name, tmp_path), mask=False) as exam:
            whole = [image for _, image in exam.read()]
            for start, stop in ((0, 5), (13, 31), (20, 21), (60, COUNT + 5)):
                for i, image in exam.read(start, stop):
                    assert np.array_equal(image, whole[i])


@pytest.mark.parametrize(
    "name",
    ["b-frames.mp4", "open-gop.mp4", "h264-open-gop.mkv", "hevc.mp4", "hevc.mkv", "mpeg4.avi", "mjpeg.avi"],
)
def test_decoding_for_a_keyframe_begins_at_that_keyframe(name: str, tmp_path: Path) -> None:
    """Not at the one before, which seeking by the time of decoding leads to where images are reordered."""
    more = {
        "b-frames.mp4": {"options": {"bf": "3", "g": "10", "sc_threshold": "0"}},
        "open-gop.mp4": {"options": {"x264-params": "open-gop=1:keyint=15:bframes=3"}},
    }
    source = index_video(numbered_video(tmp_path / name, COUNT, **{**FORMATS, **more}[name]))
    assert len(source.keyframes) > 3
    with closing(VideoCursor(source, threads=1)) as cursor:
        for rank in range(len(source.keyframes) - 1, 0, -1):
            assert cursor._seek(rank)
            assert cursor._held is not None
            assert cursor._held[0] == source.keyframes[rank]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h264-variable-rate.mp4", [Fraction(variable_rate(i) - variable_rate(0), 1000) for i in range(COUNT)]),
        ("h264-variable-rate.mkv", [Fraction(variable_rate(i) - variable_rate(0), 1000) for i in range(COUNT)]),
        ("h264-delayed-start.mp4", [Fraction(i, 25) for i in range(COUNT)]),
        ("mpeg2-with-b-frames.mpg", [Fraction(i, 25) for i in range(COUNT)]),
        ("mpeg4-with-b-frames.avi", [Fraction(i, 25) for i in range(COUNT)]),
        ("h264-with-b-frames.avi", [Fraction(i, 25) for i in range(COUNT)]),
    ],
)
def test_times_are_exact(name: str, expected: list[Fraction], tmp_path: Path) -> None:
    with open_exam(make(name, tmp_path), mask=False) as exam:
        assert [exam.clock.seconds(i) for i in range(COUNT)] == expected


def test_natural_order_puts_9_before_10(tmp_path: Path) -> None:
    names = ["f10.jpg", "f9.jpg", "f1.jpg", "F2.jpg"]
    folder = tmp_path / "frames"
    numbered_folder(folder, names)
    (folder / "notes.txt").write_text("not a frame")
    (folder / ".f3.jpg").write_text("not a frame either")
    with open_exam(folder, mask=False) as exam:
        assert exam.source.names == ("f1.jpg", "F2.jpg", "f9.jpg", "f10.jpg")
        assert [read_number(image) for _, image in exam.read()] == [2, 3, 1, 0]


@given(st.lists(st.integers(0, 10**6), unique=True, min_size=2, max_size=20))
def test_numbered_names_sort_by_their_number(numbers: list[int]) -> None:
    names = [f"frame_{n}.jpg" for n in numbers]
    assert sorted(names, key=natural_order) == [f"frame_{n}.jpg" for n in sorted(numbers)]


def test_the_content_of_an_image_decides_not_its_ending(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "frames", ["1.jpg", "2.jpg"])
    (folder / "2.jpg").rename(folder / "2.PNG")
    with open_exam(folder, mask=False) as exam:
        assert [read_number(image) for _, image in exam.read()] == [0, 1]


def test_frames_of_several_exams_in_one_folder_are_noticed(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "frames", ["aaa_1.jpg", "bbb_1.jpg"])
    with open_exam(folder, mask=False) as exam:
        assert exam.warnings == ("the frame names have 2 different beginnings: is this really one exam?",)


# --- damage: skip, count, go on


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("e.avi", {"codec": "mpeg4"}),
        ("e.avi", {"codec": "mjpeg", "pix_fmt": "yuvj420p"}),
        ("e.mpg", {"codec": "mpeg1video"}),
        ("e.mkv", {"container_options": {"cluster_time_limit": "200"}}),
    ],
)
def test_damage_in_the_middle_loses_few_frames_and_keeps_the_rest_in_place(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    count, noise = 200, np.random.default_rng(0)
    frames = (numbered(i) + noise.integers(0, 40, (96, 96, 3), dtype=np.uint8) for i in range(count))
    path = write_video(tmp_path / name, frames, options={"g": "10", "qmin": "5", "qmax": "5"}, **settings)
    corrupt(path, 0.5, path.stat().st_size // 50)
    with open_exam(path, mask=False) as exam:
        read = [(i, read_number(image)) for i, image in exam.read()]
    assert 0.85 * count < len(read) < count
    assert [i for i, _ in read] == sorted({i for i, _ in read})
    assert [shown for i, shown in read if i < 80] == list(range(80)), "frames before the damage are untouched"
    assert [shown for _, shown in read][-60:] == list(range(count - 60, count)), "frames after it are there"


def test_damage_in_an_mp4_is_counted_and_leaves_ordinals_alone(tmp_path: Path) -> None:
    path = write_video(tmp_path / "e.mp4", moving_dots(COUNT), options={"g": "10"})
    corrupt(path, 0.5, path.stat().st_size // 10)
    with open_exam(path, mask=False) as exam:
        assert len(exam) == COUNT
        seen = [i for i, _ in exam.read()]
    assert 0 < COUNT - len(seen) < COUNT // 3


def test_damaged_files_read_the_same_in_one_go_and_in_pieces_that_begin_at_keyframes(tmp_path: Path) -> None:
    path = write_video(tmp_path / "e.mp4", moving_dots(COUNT), options={"g": "10", "sc_threshold": "0"})
    corrupt(path, 0.4, path.stat().st_size // 10)
    source = open_source(path)
    keys = [*source.keyframes.tolist(), COUNT]
    stretches = list(itertools.pairwise(keys))

    def read(order: list[tuple[int, int]]) -> dict[int, bytes]:
        with closing(source.open(threads=1)) as cursor:
            return {i: bytes(f.to_ndarray()) for start, stop in order for i, f in cursor.read(start, stop)}

    forwards = read(stretches)
    assert read(stretches[::-1]) == forwards
    assert read(stretches[1::2]) == {i: x for i, x in forwards.items() if any(a <= i < b for a, b in stretches[1::2])}


@pytest.mark.parametrize("name", ["2.jpg", "2.png", "2.bmp"])
def test_a_damaged_image_is_left_out(name: str, tmp_path: Path) -> None:
    suffix = name[1:]
    folder = numbered_folder(tmp_path / "frames", [f"1{suffix}", name, f"3{suffix}"])
    (folder / name).write_bytes((folder / name).read_bytes()[:20])
    with open_exam(folder, mask=False) as exam:
        assert [i for i, _ in exam.read()] == [0, 2]


def test_a_truncated_faststart_mp4_is_read_up_to_the_cut_and_says_so(tmp_path: Path) -> None:
    path = write_video(
        tmp_path / "e.mp4", moving_dots(COUNT), options={"g": "10"}, container_options={"movflags": "faststart"}
    )
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.7)])
    with open_exam(path, mask=False) as exam:
        assert 10 < len(exam) < COUNT
        assert exam.warnings == (
            f"the file declares {COUNT} frames but holds {len(exam)}: it is incomplete or damaged",
        )
        assert len([i for i, _ in exam.read()]) >= len(exam) - 4  # what waited for the cut ones


# --- resources


def handles() -> int:
    """Open file handles of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("name", ["h264-long-gop.mp4", "frames.zip", "mpeg4.avi"])
def test_a_thousand_opens_leak_no_file_handle(name: str, tmp_path: Path) -> None:
    path = make(name, tmp_path) if name != "h264-long-gop.mp4" else numbered_video(tmp_path / name, 3)

    if not Path("/proc/self/fd").exists():
        pytest.skip("file handles are counted in /proc")
    with open_exam(path, mask=False) as exam:
        exam.image(0)
    before = handles()
    opens = 1000 if name == "h264-long-gop.mp4" else 50
    for _ in range(opens):
        with open_exam(path, mask=False) as exam:
            exam.image(1)
    assert handles() == before


def test_an_abandoned_stream_gives_its_handle_back(tmp_path: Path) -> None:
    path = numbered_video(tmp_path / "e.mp4", 20)
    with open_exam(path, mask=False) as exam:
        before = handles()
        for _ in range(20):
            stream = exam.read()
            next(stream)
            stream.close()
        assert handles() == before


def test_numbered_frames_show_their_number() -> None:
    assert [read_number(numbered(i)) for i in (0, 1, 1000, 65535)] == [0, 1, 1000, 65535]


def test_frames_that_an_edit_list_hides_do_not_count(tmp_path: Path) -> None:
    """As left by cutting tools that copy from the keyframe before the cut."""
    whole = numbered_video(tmp_path / "whole.mp4", COUNT, options={"g": "20", "sc_threshold": "0"})
    cut = tmp_path / "cut.mp4"
    with av.open(str(whole)) as source, av.open(str(cut), "w", options={"avoid_negative_ts": "disabled"}) as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        hidden = 13 * 512  # a frame lasts 512 units
        for packet in source.demux(stream):
            if packet.pts is not None and packet.dts is not None:
                packet.pts, packet.dts, packet.stream = packet.pts - hidden, packet.dts - hidden, copy
                target.mux(packet)
    with open_exam(cut, mask=False) as exam:
        assert len(exam) == COUNT - 13
        assert exam.warnings == ()
        assert [(i, read_number(image)) for i, image in exam.read()] == [(i, i + 13) for i in range(COUNT - 13)]
        assert read_number(exam.image(40)) == 53
        assert exam.clock.seconds(40) == Fraction(40, 25)
