"""Every bad input gets one line that names it and the remedy, a documented exit code, and no traceback."""

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from dice_ce.cli import main
from tests.material import moving_dots, numbered_folder, numbered_video, write_tiny_encoder, write_video

DAMAGED = "it is damaged, incomplete or of another type: play it to check, then copy or export it again"


def audio_only(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def no_frames(path: Path) -> Path:
    """A well-formed video file with a video stream in which there is nothing."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = 96
        stream.pix_fmt = "yuv420p"
        container.start_encoding()
    return path


def truncated(path: Path) -> Path:
    write_video(path, moving_dots(40))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def text(path: Path) -> Path:
    path.write_text("This is not a video.\n" * 100)
    return path


def playlist(path: Path) -> Path:
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n")
    return path


def tiny_image(path: Path) -> Path:
    return write_video(path, [np.zeros((1, 1, 3), np.uint8)] * 3, codec="ffv1", pix_fmt="bgr0")


def empty_file(path: Path) -> Path:
    path.touch()
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def empty_folder(path: Path) -> Path:
    path.mkdir()
    return path


def folder_of_text(path: Path) -> Path:
    path.mkdir()
    (path / "notes.txt").write_text("no frames")
    return path


def folder_of_damage(path: Path) -> Path:
    path.mkdir()
    for i in range(3):
        (path / f"{i}.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    return path


def damaged_zip(path: Path) -> Path:
    path.write_bytes(b"PK\x03\x04" + bytes(500))
    return path


def encrypted_zip(path: Path) -> Path:
    """A zip whose member claims to be encrypted: the flag alone decides."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("1.jpg", b"x" * 100)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    return path


CASES: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "missing": ("exam.mp4", lambda path: path, "no such file or folder; check the path"),
    "empty": ("exam.mp4", empty_file, "the file is empty (0 bytes); copy or export it again"),
    "pipe": ("exam.mp4", pipe, "is a pipe, and an exam is read more than once; save it as a file first"),
    "truncated": ("exam.mp4", truncated, f"not a readable video (Invalid data found when processing input); {DAMAGED}"),
    "text": ("exam.mp4", text, f"not a readable video (Invalid data found when processing input); {DAMAGED}"),
    "playlist": ("exam.mp4", playlist, "*"),
    "audio only": ("exam.mp4", audio_only, "has only sound; give the exam's video file"),
    "zero frames": ("exam.avi", no_frames, "the video has no frames; copy or export it again"),
    "1x1": (
        "exam.mkv",
        tiny_image,
        "images of 1x1 pixels; an exam has between 32 and 8192 on each side: check that this is the exported exam",
    ),
    "empty folder": (
        "exam",
        empty_folder,
        "holds no frames; expected files ending in .jpg, .jpeg, .png, .bmp directly in the folder",
    ),
    "folder of text": (
        "exam",
        folder_of_text,
        "holds no frames; expected files ending in .jpg, .jpeg, .png, .bmp directly in the folder",
    ),
    "folder of damage": (
        "exam",
        folder_of_damage,
        "not one frame can be decoded; the content is damaged: copy or export it again",
    ),
    "damaged zip": (
        "exam.zip",
        damaged_zip,
        "the zip is damaged or incomplete (File is not a zip file); copy it again",
    ),
    "encrypted zip": ("exam.zip", encrypted_zip, "the zip is encrypted; unpack it first"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_line_and_exit_code_1(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], cache: Path
) -> None:
    name, make, message = CASES[case]
    path = make(tmp_path / name)
    assert main(["inspect", str(path)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1, err
    if message == "*":
        assert lines[0].startswith(f"dice-ce: error: {path}: ")
    else:
        assert lines[0] == f"dice-ce: error: {path}: {message}"
    assert not cache.exists()


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    path = numbered_video(tmp_path / "exam.mp4", 3)
    assert main(["inspect", str(path)]) == 0  # imports what the command needs, which nobody may not
    capfd.readouterr()
    path.chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # whoever reads a name from here needs no permission for the folders above
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(65534)  # root may read everything, so become nobody for a moment
        code = main(["inspect", path.name])
    finally:
        os.seteuid(was)
    err = capfd.readouterr().err
    assert code == 1
    assert err == f"dice-ce: error: {path.name}: cannot be read (Permission denied); check the permissions\n"


def test_one_bad_input_does_not_stop_the_others(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = write_video(tmp_path / "good.mp4", moving_dots(30))
    bad = text(tmp_path / "bad.mp4")
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    assert main(["extract", str(bad), str(good), "--encoder", str(model)]) == 1
    out, err = capfd.readouterr()
    assert "good: 30 features of 48 numbers by tiny" in out
    assert f"dice-ce: error: {bad}: not a readable video" in err
    assert err.rstrip().endswith(f"dice-ce: 1 of 2 inputs failed: {bad}")


def test_damage_in_the_middle_is_said_in_the_result(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = numbered_folder(tmp_path / "exam", [f"{i}.jpg" for i in range(9)])
    for i in (3, 4):
        (folder / f"{i}.jpg").write_bytes(b"\xff\xd8\xff")
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    assert main(["extract", str(folder), "--encoder", str(model)]) == 0
    assert (
        "  warning: 2 of 9 frames could not be decoded (frame 3, 4), and 0 after them may show damage"
        in capfd.readouterr().out.splitlines()
    )


def test_a_disk_that_fills_up(tmp_path: Path, capfd: pytest.CaptureFixture[str], cache: Path) -> None:
    import resource

    video = write_video(tmp_path / "exam.mp4", moving_dots(30))
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))  # the system refuses to write more, as a full disk does
    try:
        code = main(["extract", str(video), "--encoder", str(model)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    err = capfd.readouterr().err
    assert code == 1
    assert re.search(
        r"dice-ce: error: .*\.npz: cannot be written \(File too large\); free some space, "
        r"or point DICE_CE_CACHE or --out at another disk; finished work is kept\n",
        err,
    )
    assert "Traceback" not in err
    assert [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_is_really_full(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small disk")
    try:
        monkeypatch.setenv("DICE_CE_CACHE", str(disk))
        video = write_video(tmp_path / "exam.mp4", moving_dots(1500))
        model = write_tiny_encoder(tmp_path / "tiny.onnx")
        assert main(["extract", str(video), "--encoder", str(model)]) == 1
        assert "cannot be written (No space left on device); free some space" in capfd.readouterr().err
        assert not list(disk.rglob(".part-*"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "x.mp4", "--exam-fps", "0"],
        ["inspect", "x.mp4", "--exam-fps", "1", "--exam-duration", "8:00:00"],
        ["inspect", "x.mp4", "--exam-start", "5"],
        ["inspect", "x.mp4", "--crop", "1,2,3"],
        ["extract", "x.mp4", "--encoder", "ENCODER", "--exam-fps", "-1"],
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    try:
        code = main([str(model) if argument == "ENCODER" else argument for argument in arguments])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 2
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["nothing"], ["inspect"], ["inspect", "x", "--exam-fps", "fast"], ["extract", "x", "--workers", "0"]],
)
def test_words_that_mean_nothing_are_wrong_usage(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    err = capfd.readouterr().err
    assert re.fullmatch(r"dice-ce: error: .+; see dice-ce( \w+)? --help\n", err), "one line, as for every other error"


def test_a_duration_in_two_parts_is_answered_with_what_to_write(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["summarize", "exam.mp4", "--exam-duration", "8:30", "--out", "results"])
    assert stopped.value.code == 2
    assert capfd.readouterr().err == (
        "dice-ce: error: argument --exam-duration: '8:30' may be hours or minutes: write 8:30:00 for 8 h 30 min, "
        "or 00:08:30 for 8 min 30 s; see dice-ce summarize --help\n"
    )


def test_a_clock_for_another_exam_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = numbered_video(tmp_path / "exam.mp4", 3)
    clock = tmp_path / "c.csv"
    clock.write_text("frame,seconds\n0,5\n1,4\n2,6\n")
    assert main(["inspect", str(path), "--clock", str(clock)]) == 1
    assert capfd.readouterr().err == (
        f"dice-ce: error: {path}: the exam clock (sidecar) runs backwards at frame 1: 00:00:04 comes after 00:00:05; "
        "correct that frame's time (past midnight, go on with 24:00:00)\n"
    )
