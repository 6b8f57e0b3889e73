"""Nothing of a user's is replaced by accident, and what would stop a command is found before any work starts."""

import argparse
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dice_ce.cli import build_parser, main
from dice_ce.cli.checks import check_before_work
from dice_ce.errors import BundleError, DiceError, MissingExtraError, StoreError, require
from dice_ce.files import atomic_file, atomic_folder, check_file, check_folder, write_atomically
from dice_ce.method.bundle import load_bundle
from dice_ce.outputs import OUTPUTS
from tests.lab.test_training import write_frames
from tests.material import moving_dots, numbered_folder, write_tiny_encoder, write_video, zipped
from tests.method.test_pipeline import save_colour_bundle
from tests.test_docs import commands


def run(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run a command; return its exit code and what it says on stderr."""
    code = main([str(argument) for argument in arguments])
    return code, capfd.readouterr().err


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return save_colour_bundle(tmp_path / "bundle")


@pytest.fixture
def exams(tmp_path: Path) -> tuple[Path, Path]:
    """Two exams of the same name."""
    for name, seed in (("monday", 0), ("tuesday", 1)):
        (tmp_path / name).mkdir()
        write_video(tmp_path / name / "exam.mp4", moving_dots(12, seed=seed))
    return tmp_path / "monday" / "exam.mp4", tmp_path / "tuesday" / "exam.mp4"


# --- results of summarize ------------------------------------------------------------------------------------------


def test_another_exam_of_the_same_name_does_not_replace_the_first(
    exams: tuple[Path, Path], bundle: Path, tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = exams
    out = tmp_path / "out"
    words = ["--out", out, "--bundle", bundle]
    assert run(capfd, "summarize", first, *words)[0] == 0
    results, features = content(out), content(cache)
    code, said = run(capfd, "summarize", second, *words)
    assert code == 2
    assert said.count("\n") == 1
    assert str(second) in said
    assert str(out / "exam") in said
    assert "--force" in said
    assert content(out) == results
    assert content(cache) == features, "no frame was encoded"
    assert run(capfd, "summarize", first, *words)[0] == 0, "the same exam may be summarised again"
    assert content(out) == results
    assert run(capfd, "summarize", second, *words, "--force")[0] == 0
    assert content(out) != results
    assert names(out / "exam") <= {output.name for output in OUTPUTS.values()}


def test_two_inputs_of_one_name_are_found_before_any_work(
    exams: tuple[Path, Path], bundle: Path, tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capfd, "summarize", *exams, "--out", tmp_path / "out", "--bundle", bundle)
    assert code == 2
    assert said == (
        f"dice-ce: error: {exams[1]}: {exams[0]} is called 'exam', too; summarise them into different folders (--out)\n"
    )
    assert not cache.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stored", [None, "no json", "{}", "[" * 100_000])
def test_a_folder_that_is_no_result_is_not_replaced(
    stored: str | None,
    exams: tuple[Path, Path],
    bundle: Path,
    tmp_path: Path,
    cache: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "out" / "exam"
    folder.mkdir(parents=True)
    (folder / "thesis.doc").write_text("years of work")
    if stored is not None:
        (folder / "summary.json").write_text(stored)
    words = ["summarize", exams[0], "--out", tmp_path / "out", "--bundle", bundle]
    code, said = run(capfd, *words)
    assert (code, said.count("\n")) == (2, 1)
    assert f"{folder}: is there already and holds no summary" in said
    assert not cache.exists()
    assert run(capfd, *words, "--force")[0] == 0
    assert (folder / "thesis.doc").read_text() == "years of work", "even then, what is not ours stays"
    assert json.loads((folder / "summary.json").read_text())["exam"]["id"] == "exam"


def test_notes_beside_a_result_survive_the_next_one(
    exams: tuple[Path, Path], bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["summarize", exams[0], "--out", tmp_path / "out", "--bundle", bundle]
    assert run(capfd, *words)[0] == 0
    (tmp_path / "out" / "exam" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "exam" / "keyframes").mkdir(exist_ok=True)
    (tmp_path / "out" / "exam" / "keyframes" / "99_old.jpg").write_text("of an earlier run")
    assert run(capfd, *words)[0] == 0
    assert (tmp_path / "out" / "exam" / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "out" / "exam" / "keyframes" / "99_old.jpg").exists()
    assert names(tmp_path / "out") == {"exam"}


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("kind", ["frames", "video in a folder of its name", "video without ending"])
def test_results_never_replace_the_exam_they_are_of(
    kind: str, force: list[str], bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "exams"
    if kind == "frames":
        exam = numbered_folder(home / "a", [f"{i}.png" for i in range(3)])
    elif kind == "video without ending":
        home.mkdir()
        exam = write_video(tmp_path / "a.mp4", moving_dots(3)).rename(home / "a")
    else:
        (home / "a").mkdir(parents=True)
        exam = write_video(home / "a" / "a.mp4", moving_dots(3))
    before = content(home)
    code, said = run(capfd, "summarize", exam, "--out", home, "--bundle", bundle, *force)
    assert (code, said.count("\n")) == (2, 1)
    assert content(home) == before


@pytest.mark.parametrize("name", ["..mp4", "...mp4"])
def test_an_exam_without_a_name_does_not_replace_the_output_folder(
    name: str, bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exam = write_video(tmp_path / "exam.mp4", moving_dots(3)).rename(tmp_path / name)
    (tmp_path / "out" / "below").mkdir(parents=True)
    (tmp_path / "out" / "mine.txt").write_text("mine")
    code, said = run(capfd, "summarize", exam, "--out", tmp_path / "out" / "below", "--bundle", bundle, "--force")
    assert (code, said.count("\n")) == (1, 1)
    assert "rename it" in said
    assert content(tmp_path / "out") == {"mine.txt": b"mine"}


def test_a_linked_result_folder_stays_a_link(
    exams: tuple[Path, Path], bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "exam").symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        assert run(capfd, "summarize", exams[0], "--out", tmp_path / "out", "--bundle", bundle)[0] == 0
    assert (tmp_path / "out" / "exam").is_symlink()
    assert (tmp_path / "elsewhere" / "report.html").is_file()
    assert names(tmp_path / "out") == {"exam"}


# --- files that are no files ---------------------------------------------------------------------------------------


def test_a_link_stays_and_what_it_points_at_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "there" / "real.csv")
    for text in (b"first", b"second"):
        write_atomically(tmp_path / "link.csv", text)
        assert (tmp_path / "link.csv").is_symlink()
        assert content(tmp_path / "there") == {"real.csv": text}
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StoreError, match="loop: cannot be written"):
        write_atomically(tmp_path / "loop", b"")


def test_a_device_is_written_into_and_stays_a_device() -> None:
    write_atomically(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(StoreError, match=r"/dev/full: cannot be written \(No space left on device\)"):
        write_atomically(Path("/dev/full"), b"too much")
    assert Path("/dev/full").is_char_device()
    check_file(Path("/dev/null"))


def test_a_named_pipe_gets_the_whole_content_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with atomic_file(pipe) as file:
        file.write(b"part, ")
        file.seek(0)
        file.write(b"whole,")
    reader.join()
    assert read == [b"whole,"]
    assert pipe.is_fifo()


def test_a_folder_where_a_file_is_expected_is_refused(tmp_path: Path) -> None:
    for refuse in (check_file, lambda path: write_atomically(path, b"")):
        with pytest.raises(StoreError, match="is a folder; give the name of a file"):
            refuse(tmp_path)


def test_standard_output_can_be_named_even_if_it_is_a_file(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from dice_ce.files import write_atomically; print('before');"
        "write_atomically(Path('/dev/stdout'), b'named\\n'); print('after')"
    )
    with (tmp_path / "out.txt").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out.txt").read_text() == "before\nnamed\nafter\n"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("old")

    def fail() -> None:
        with atomic_folder(tmp_path / "folder", ["old"]) as draft:
            (draft / "new").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert content(tmp_path) == {"folder/old": b"old"}
    with atomic_folder(tmp_path / "folder", ["old"]) as draft:
        (draft / "new").write_text("new")
    assert content(tmp_path) == {"folder/new": b"new"}


def test_a_folder_that_cannot_be_filled_is_named_and_not_its_draft(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_folder(tmp_path / "exam", []) as draft:
            (draft / "report.html").symlink_to("/dev/full")
            write_atomically(draft / "report.html", b"too much")

    with pytest.raises(StoreError, match=r"exam/report\.html: cannot be written \(No space left on device\)") as told:
        fill()
    assert ".part-" not in str(told.value)
    assert names(tmp_path) == set()


# --- before any work starts ----------------------------------------------------------------------------------------

WRITING = [parser for parser in commands(build_parser()) if parser.get_default("outputs")]


def options_with(parser: argparse.ArgumentParser, **values: object) -> argparse.Namespace:
    """What parsing a command line with these options gives; the rest is left out."""
    options = argparse.Namespace(**{**dict.fromkeys(action.dest for action in parser._actions), **parser._defaults})
    for name, value in values.items():
        setattr(options, name, value)
    return options


def test_every_command_declares_what_it_writes() -> None:
    names = {"out", "folds_out", "sheet", "plot", "log"}
    for parser in commands(build_parser()):
        declared = parser.get_default("outputs") or {}
        assert {action.dest for action in parser._actions} & names == set(declared), parser.prog
    assert len(WRITING) >= 11


@pytest.mark.parametrize("parser", WRITING, ids=lambda parser: parser.prog.replace("dice-ce ", ""))
def test_an_output_that_cannot_be_written_is_found_before_any_work(
    parser: argparse.ArgumentParser, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    for name in parser.get_default("outputs"):
        options = options_with(parser, **{name: tmp_path / "file" / "below.png"})
        with pytest.raises(StoreError, match=r"below\.png: cannot be written \(Not a directory\)"):
            check_before_work(options)
    assert content(tmp_path) == {"file": b"in the way"}


@pytest.mark.parametrize("parser", WRITING, ids=lambda parser: parser.prog.replace("dice-ce ", ""))
def test_no_command_writes_over_what_it_reads(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    given = tmp_path / "given.png"
    given.write_text("mine")
    for name in parser.get_default("outputs"):
        (tmp_path / "link.png").unlink(missing_ok=True)
        (tmp_path / "link.png").symlink_to(given)
        options = options_with(parser, **{name: tmp_path / "link.png", "some_input": [given]})
        with pytest.raises(DiceError, match="would replace what the command reads"):
            check_before_work(options)


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        (["train", "--data", "FRAMES", "--out", "FOLDER"], "bundle.json"),
        (["bundle", "export", "--out", "FOLDER"], "bundle.json"),
        (["benchmark", "--data", "FRAMES", "--out", "FOLDER"], "results.md"),
        (["data", "compose", "--frames", "FRAMES", "--timelines", "x.json", "--out", "FOLDER"], "composition.json"),
    ],
)
def test_a_folder_of_something_else_is_not_written_into(
    words: list[str], mark: str, tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.doc").write_text("years of work")
    places = {"FOLDER": folder, "FRAMES": tmp_path}
    code, said = run(capfd, *(places.get(word, word) for word in words))
    assert (code, said.count("\n")) == (2, 1)
    assert f"{folder}: is there already and holds something else (no {mark}" in said
    assert content(folder) == {"thesis.doc": b"years of work"}
    assert not cache.exists()
    check_folder(tmp_path / "new", (mark,))
    (folder / mark).touch()
    check_folder(folder, (mark,))


def test_a_bundle_is_not_written_over_itself(bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = content(bundle)
    (tmp_path / "link").symlink_to(bundle)
    assert run(capfd, "bundle", "export", bundle, "--out", tmp_path / "link")[0] == 2
    assert run(capfd, "tune", "--data", tmp_path, "--bundle", bundle, "--out", bundle)[0] == 2
    assert content(bundle) == before


def test_a_bundle_replaces_an_earlier_one_whole_and_keeps_what_others_put_there(
    bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy"
    assert run(capfd, "bundle", "export", "--out", target)[0] == 0
    (target / "notes.txt").write_text("mine")
    assert run(capfd, "bundle", "export", bundle, "--out", target)[0] == 0
    assert load_bundle(target).name == "colours"
    facts = json.loads((target / "bundle.json").read_text())
    assert set(content(target)) == {"bundle.json", "notes.txt", *facts["files"]}


def test_a_simulated_exam_does_not_replace_a_real_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    small = ["--frames", "2", "--size", "80"]
    for name in ("exam.mp4", "exam.clock.csv", "exam.findings.csv"):
        (tmp_path / name).write_text("real")
        code, said = run(capfd, "simulate", "--out", tmp_path / "exam.mp4", *small)
        assert (code, said.count("\n")) == (2, 1)
        assert content(tmp_path) == {name: b"real"}
        (tmp_path / name).unlink()
    for _ in range(2):
        assert run(capfd, "simulate", "--out", tmp_path / "exam.mp4", *small)[0] == 0
    assert run(capfd, "simulate", "--out", "/dev/null", *small)[0] == 1


def test_dealing_splits_touches_nothing_but_their_column(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exams = 'Exam_ID;Patient_ID;Split;Video;Age\na;p1;;a.mp4;71\nb;p2;;b.mp4;"60; about"\n'
    findings = "exam_id,finding_id,seconds,label,doctor\na,1,00:00:10,Ulcer,Dr. X\n"
    (tmp_path / "exams.csv").write_text(exams)
    (tmp_path / "findings.csv").write_text(findings)
    assert run(capfd, "data", "split", tmp_path, "--shares", "1,0,0")[0] == 0
    filled = 'Exam_ID;Patient_ID;Split;Video;Age\na;p1;train;a.mp4;71\nb;p2;train;b.mp4;"60; about"\n'
    assert (tmp_path / "exams.csv").read_text() == filled
    assert (tmp_path / "findings.csv").read_text() == findings


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("raise ImportError('libGL.so.1: cannot open\\nmore lines')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=r"cannot be loaded \(libGL.so.1: cannot open\); install it again"):
        require("broken_package", extra="train", purpose="training")


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Absent())
from dice_ce.cli import main
sys.exit(main(sys.argv[2:]))
"""


def dataset(folder: Path) -> Path:
    folder.mkdir()
    write_video(folder / "a.mp4", moving_dots(12))
    (folder / "exams.csv").write_text("exam_id,patient_id,split,video,exam_fps\na,p,test,a.mp4,1\n")
    return folder


@pytest.mark.parametrize(
    ("package", "command", "make"),
    [
        ("matplotlib", ["train", "--encoder", "ENCODER", "--out", "OUT", "--data"], write_frames),
        ("cv2", ["train", "--encoder", "ENCODER", "--out", "OUT", "--data"], write_frames),
        ("torch", ["train", "--encoder", "ENCODER", "--out", "OUT", "--data"], write_frames),
        ("torch", ["backbones", "--encoders", "ENCODER", "--data"], write_frames),
        ("matplotlib", ["benchmark", "--bundle", "BUNDLE", "--out", "OUT", "--data"], dataset),
        ("matplotlib", ["data", "check", "--plot", "OUT.png"], dataset),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_missing_package_is_found_before_any_frame_is_encoded(
    package: str, command: list[str], make: Callable[[Path], Path], bundle: Path, tmp_path: Path, cache: Path
) -> None:
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx")
    places = {"ENCODER": encoder, "OUT": tmp_path / "new", "OUT.png": tmp_path / "new.png", "BUNDLE": bundle}
    words = [str(places.get(word, word)) for word in [*command, make(tmp_path / "data")]]  # type: ignore[call-overload]
    done = subprocess.run([sys.executable, "-c", WITHOUT, package, *words], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"needs the package '{package}', which is not installed" in done.stderr
    assert not cache.exists()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["summarize", "x.mp4", "--out", "o", "--coarse-minutes", "-1"],
        ["summarize", "x.mp4", "--out", "o", "--delta-fine", "nan"],
        ["train", "--data", "d", "--out", "o", "--views", "-1"],
        ["train", "--data", "d", "--out", "o", "--learning-rate", "inf"],
        ["inspect", "x.mp4", "--sheet", "sheet.gif"],
        ["data", "check", "d", "--plot", "image.doc"],
    ],
)
def test_impossible_options_are_wrong_usage(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 2
    assert "Traceback" not in capfd.readouterr().err
    assert not content(tmp_path)


def test_training_on_a_single_case_is_refused_before_encoding(
    tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = write_frames(tmp_path / "frames") / "frames.csv"
    lines = table.read_text().splitlines()
    case = lines[0].split(",").index("case")
    rows = [line.split(",") for line in lines[1:]]
    table.write_text("\n".join([lines[0], *(",".join([*row[:case], "one", *row[case + 1 :]]) for row in rows)]) + "\n")
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx")
    for words in (["train", "--encoder", encoder, "--out", tmp_path / "new"], ["backbones", "--encoders", encoder]):
        code, said = run(capfd, *words, "--data", table)
        assert code == 1
        assert "there are 1 cases to learn from: one is always held out, so it takes two" in said
    assert not cache.exists()


# --- no tracebacks -------------------------------------------------------------------------------------------------


def test_the_folder_one_stands_in_is_an_exam_like_any_other(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = numbered_folder(tmp_path / "exam", [f"{i}.png" for i in range(5)])
    (tmp_path / "exam.clock.csv").write_text("frame,seconds\n0,0\n4,400\n")
    (folder / "below").mkdir()
    encoder = write_tiny_encoder(tmp_path / "tiny.onnx")
    for place, name in ((folder, "."), (folder / "below", "..")):
        monkeypatch.chdir(place)
        capfd.readouterr()
        assert main(["inspect", name, "--json"]) == 0
        facts = json.loads(capfd.readouterr().out)
        assert (facts["id"], facts["clock"]["source"]) == ("exam", "sidecar")
        assert main(["extract", name, "--encoder", str(encoder)]) == 0
        assert main(["summarize", name, "--out", str(tmp_path / "out"), "--bundle", str(bundle)]) == 0
        assert (tmp_path / "out" / "exam" / "report.html").is_file()
        assert main(["predict", name, "--out", str(tmp_path / "scores.csv"), "--bundle", str(bundle)]) == 0


def command(*words: str, **settings: object) -> subprocess.Popen[bytes]:
    settings["env"] = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen([sys.executable, "-m", "dice_ce.cli", *words], stderr=subprocess.PIPE, **settings)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("words", [["encoder", "list"], ["encoder", "list", "--json"], ["--help"], ["bundle", "show"]])
def test_a_closed_pipe_ends_the_command_quietly(words: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)  # nobody reads from the first byte on
    process = command(*words, stdout=theirs)
    os.close(theirs)
    said = process.communicate()[1]
    assert (process.returncode, said) == (141, b"")


def test_more_than_the_memory_holds_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, said = run(capfd, "simulate", "--out", tmp_path / "exam.mp4", "--frames", "2", "--size", "99999998")
    assert code == 1
    assert said.count("\n") == 1
    assert said.startswith("dice-ce: error: not enough memory (Unable to allocate 71.1 PiB")
    assert not content(tmp_path)


@pytest.mark.parametrize("words", [["encoder", "list"], ["--help"], ["bundle", "show"]])
def test_output_into_a_full_disk_is_one_line(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        process = command(*words, stdout=full)
        said = process.communicate()[1].decode()
    assert process.returncode == 1
    assert said == "dice-ce: error: the output: No space left on device; check the disk and the permissions\n"


# --- what the fuzzer found -----------------------------------------------------------------------------------------


def spoil(path: Path, sign: bytes, offset: int, value: bytes, which: int = 1) -> None:
    """Change a field of a zip: of the local (PK 3 4) or central (PK 1 2) header of one of its members."""
    data, place = bytearray(path.read_bytes()), -1
    for _ in range(which + 1):
        place = data.index(sign, place + 1)
    data[place + offset : place + offset + len(value)] = value
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("sign", "offset", "value"),
    [
        (b"PK\x03\x04", 0, b"\0\0"),  # no local header where the directory says
        (b"PK\x01\x02", 10, b"\x63\0"),  # an unknown compression
        (b"PK\x01\x02", 42, b"\xf0\xff\xff\x7f"),  # an offset far behind the end
        (b"PK\x01\x02", 42, b"\xff\xff\xff\xff"),  # an offset that stands for a larger one, which is missing
        (b"PK\x01\x02", 8, b"\x01"),  # encrypted, says the flag
        (b"PK\x01\x02", 8, b"\x20"),  # a patch of something else
        (b"PK\x01\x02", 10, b"\x08\0"),  # compressed, but it is not
        (b"PK\x01\x02", 10, b"\x0e\0"),  # in another way
        (b"PK\x01\x02", 24, b"\xff\xff\xff\x7f"),  # absurdly large
    ],
)
def test_a_damaged_member_of_a_zip_is_an_undecodable_frame(
    sign: bytes, offset: int, value: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = zipped(numbered_folder(tmp_path / "frames", [f"{i}.png" for i in range(4)]), tmp_path / "exam.zip")
    spoil(path, sign, offset, value)
    assert main(["extract", str(path), "--encoder", str(write_tiny_encoder(tmp_path / "tiny.onnx")), "--json"]) == 0
    (facts,) = json.loads(capfd.readouterr().out)["exams"]
    assert (facts["frames"], facts["undecodable"]) == (4, [1])


@pytest.mark.parametrize("value", [b"\xf0\xff\xff\x7f", b"\xff\xff\xff\xff"])
def test_a_damaged_directory_of_a_zip_is_one_line(
    value: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = zipped(numbered_folder(tmp_path / "frames", ["0.png", "1.png"]), tmp_path / "exam.zip")
    for offset in (12, 16):  # size and place of the directory
        spoil(path, b"PK\x05\x06", offset, value, which=0)
    code, said = run(capfd, "inspect", path)
    assert (code, said.count("\n")) == (1, 1)
    assert f"{path}: the zip is damaged or incomplete" in said


def test_members_that_seem_to_begin_before_the_file_are_undecodable(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = zipped(numbered_folder(tmp_path / "frames", ["0.png", "1.png"]), tmp_path / "exam.zip")
    (place,) = struct.unpack("<I", path.read_bytes()[-6:-2])
    spoil(path, b"PK\x05\x06", 16, struct.pack("<I", place + 40), which=0)
    code, said = run(capfd, "inspect", path)
    assert (code, said.count("\n")) == (1, 1)
    assert f"{path}: not one frame can be decoded" in said


@pytest.mark.parametrize("name", [b"ex\xff.mp4", b"x" * 251 + b".mp4", b"two\nlines.mp4", b"\x1b[31m.mp4"])
def test_odd_names_of_exams_do_no_harm(
    name: bytes, bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    exam = write_video(tmp_path / "exam.mp4", moving_dots(3)).rename(tmp_path / os.fsdecode(name))
    code, said = run(capfd, "summarize", exam, "--out", tmp_path / "out", "--bundle", bundle)
    assert (code, "error" in said) == (0, False)
    (folder,) = (tmp_path / "out").iterdir()
    assert json.loads((folder / "summary.json").read_text())["exam"]["id"] == folder.name
    exam.write_text("no video")
    code, said = run(capfd, "inspect", exam)
    assert (code, said.count("\n"), "\x1b" in said) == (1, 1, False)


def test_names_of_frames_need_not_be_valid_text(
    bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = numbered_folder(tmp_path / "exam", [f"{i}.png" for i in range(3)])
    (folder / "1.png").rename(folder / os.fsdecode(b"1\xff.png"))
    assert run(capfd, "summarize", folder, "--out", tmp_path / "out", "--bundle", bundle)[0] == 0
    assert run(capfd, "predict", folder, "--out", tmp_path / "scores.csv", "--bundle", bundle)[0] == 0
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 4


def test_numbers_in_names_may_be_absurd(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = numbered_folder(tmp_path / "exam", ["1.png", f"{'9' * 200}.png"])
    code, said = run(capfd, "inspect", folder, "--exam-fps", "1")
    assert (code, said.count("\n")) == (1, 1)
    assert "longer than any exam" in said


def test_a_clock_with_an_endless_cell_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exam, clock = write_video(tmp_path / "exam.mp4", moving_dots(3)), tmp_path / "clock.csv"
    clock.write_text(f"frame,seconds\n0,{'x' * 200_000}\n2,5\n")
    code, said = run(capfd, "inspect", exam, "--clock", clock)
    assert (code, said.count("\n")) == (1, 1)
    assert "not a table" in said


@pytest.mark.parametrize("file", ["manifest.json", "vectors.npy", "index.npy", "exact.npy"])
@pytest.mark.parametrize("damage", ["cut", "nested", "not finite"])
def test_damage_in_the_cache_is_one_line(
    file: str, damage: str, bundle: Path, tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["extract", write_video(tmp_path / "exam.mp4", moving_dots(9)), "--encoder", bundle / "tiny.onnx"]
    assert run(capfd, *words)[0] == 0
    (path,) = cache.rglob(file)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[:100]
    elif damage == "nested":
        content[:] = b"[" * 100_000
    elif file == "vectors.npy":
        content[-2:] = b"\xff\xff"
    else:
        content[-8:] = b"\xff" * 8
    path.write_bytes(content)
    code, said = run(capfd, *words)
    if code:  # flipped flags alone cannot be told
        assert (code, said.count("\n")) == (1, 2), said
        assert "damaged" in said
        assert "dice-ce cache clear" in said
    else:
        assert (file, damage) == ("exact.npy", "not finite")


DEFAULT = ("profiles", "default", "settings")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((*DEFAULT, "coarse_minutes"), "20"),
        ((*DEFAULT, "coarse_minutes"), 0),
        ((*DEFAULT, "contexts"), "other"),
        ((*DEFAULT, "max_span"), -1.0),
        ((*DEFAULT, "tau_min"), float("nan")),
        ((*DEFAULT, "rival_seconds"), True),
        ((*DEFAULT, "tau_s"), 10**400),
        ((*DEFAULT, "odd"), 1.0),
        (("profiles",), {}),
        (("tuned",), {"aks": {"depth": [3]}}),
        (("diagnoser", "temperature"), 0),
        (("taxonomy", "labels"), ["ulcer", 7, "normal"]),
        (("name",), ["colours"]),
        (("files",), 5),
    ],
)
def test_a_bundle_with_values_that_make_no_sense_is_refused_when_it_is_loaded(
    place: tuple[str, ...], value: object, bundle: Path
) -> None:
    facts = json.loads((bundle / "bundle.json").read_text())
    inner = facts
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    (bundle / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match=r"bundle\.json is damaged"):
        load_bundle(bundle)


def test_a_word_that_the_terminal_cannot_show_is_no_error(tmp_path: Path) -> None:
    code = "from dice_ce.cli import main; raise SystemExit(main(['encoder', 'list']) or print('50\\u202f%'))"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("50\\u202f%\n")


def test_a_frame_whose_name_is_no_text_can_be_summarised(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path / "exam", [f"{i}.png" for i in range(3)])
    (folder / "1.png").rename(folder / os.fsdecode(b"1\xff\n.png"))
    options = ["--exam-fps", "1", "--profile", "paper", "--tau-s", "0", "--tau-min", "0", "--tau-agree", "0"]
    assert main(["summarize", str(folder), "--out", str(tmp_path / "out"), *options]) == 0
    summary = json.loads((tmp_path / "out" / "exam" / "summary.json").read_text())
    frames = {frame["file"] for item in (*summary["items"], *summary["dropped"]) for frame in item["support"]}
    assert len(frames) == 3
    assert all(name.isprintable() for name in frames)
