"""The whole way from a video to a folder of results, with a tiny bundle whose behaviour is known."""

import csv
import dataclasses
import json
import os
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dice_ce
from dice_ce.cli import main
from dice_ce.exam.codec import write_image
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.method.bundle import Profile, export_bundle, save_bundle
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser
from dice_ce.method.selector import Head
from dice_ce.method.settings import Settings
from dice_ce.method.summary import SCHEMA_FILE
from dice_ce.method.weaver import WeaverSettings
from dice_ce.settings import values_of
from dice_ce.taxonomy import Taxonomy
from tests.golden import GOLDEN, golden_summary
from tests.material import write_tiny_encoder, write_video, zipped

COLOURS = {"ulcer": (230, 40, 40), "polyp": (40, 40, 230), "normal": (60, 200, 60)}
LABELS = Taxonomy("colours", tuple(COLOURS))
EVENTS = [
    ("normal", 60),
    ("ulcer", 20),
    ("normal", 80),
    ("polyp", 15),
    ("normal", 40),
    ("ulcer", 10),
    ("normal", 30),
    ("polyp", 12),
    ("normal", 20),
]


def colour_head(wanted: dict[str, tuple[float, float, float]], outputs: list[str], gain: float) -> Head:
    """A head that weighs the mean red, green and blue of a frame; the tiny encoder gives 16 cells of each in turn."""
    weight = np.zeros((48, len(outputs)), np.float32)
    for k, label in enumerate(outputs):
        for channel in range(3):
            weight[channel * 16 : channel * 16 + 16, k] = gain * wanted[label][channel] / 16
    ones, zeros = np.ones(48, np.float32), np.zeros(48, np.float32)
    # GELU is near the identity for large inputs: shift up, pass through, shift back.
    lift = 40.0
    bias = np.full(48, lift, np.float32)
    return Head(ones, zeros, np.eye(48, dtype=np.float32), bias, weight, -lift * weight.sum(axis=0))


def save_colour_bundle(folder: Path) -> Path:
    toward = {"ulcer": (1.0, -0.5, -0.5), "polyp": (-0.5, -0.5, 1.0), "normal": (-0.5, 1.0, -0.5)}
    away = {"abnormal": (0.5, -1.0, 0.5)}
    save_bundle(
        folder,
        name="colours",
        taxonomy=LABELS,
        encoder=OnnxEncoder.open(write_tiny_encoder(folder / "tiny.onnx")),
        selector=colour_head(away, ["abnormal"], 8.0),
        diagnoser=HeadDiagnoser(colour_head(toward, list(COLOURS), 4.0)),
        profiles={"default": Profile(Settings(), "")},
        card="",
    )
    return folder


def colour_frames() -> list[np.ndarray]:
    """Stretches of colour with some texture: red is an ulcer, blue a polyp, green is normal."""
    rng = np.random.default_rng(0)
    frames = []
    for label, count in EVENTS:
        for _ in range(count):
            noise = rng.integers(-25, 25, (12, 12, 3)).repeat(8, axis=0).repeat(8, axis=1)
            frames.append(np.clip(np.array(COLOURS[label]) + noise, 0, 255).astype(np.uint8))
    return frames


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_colour_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("video") / "exam.mp4", colour_frames(), options={"g": "50"})


def test_findings_are_found_named_and_timed(video: Path, bundle: Path) -> None:
    exam = dice_ce.open_exam(video, clock=dice_ce.ClockOptions(exam_fps=Fraction(1, 10)))
    with exam:
        summary = dice_ce.summarize(exam, bundle=bundle)
    assert [item.label for item in summary.items] == ["ulcer", "polyp", "ulcer", "polyp"]
    starts = np.cumsum([0, *(count for _, count in EVENTS)])
    for item, event in zip(summary.items, (1, 3, 5, 7), strict=True):
        assert starts[event] <= item.keyframe.frame < starts[event + 1]
        assert item.keyframe.seconds == 10 * item.keyframe.frame
        assert len(item.support) + len(item.dissent) == EVENTS[event][1]
    assert summary.counts.candidates == 57
    assert summary.exam.clock.source == "options"


def test_python_needs_only_a_path(video: Path, bundle: Path) -> None:
    assert dice_ce.summarize(video, bundle=str(bundle)).counts.kept == 4


def test_python_takes_the_clock_directly(video: Path, bundle: Path, tmp_path: Path) -> None:
    given = dice_ce.summarize(video, bundle=bundle, exam_duration="8:30:00", exam_start="0:10:00")
    assert given.exam.clock.detail == "playback stretched over 08:30:00"
    assert given.exam.clock.first_seconds == 600
    assert dice_ce.summarize(video, bundle=bundle, exam_fps=0.5).exam.clock.last_seconds == 2 * 286
    (tmp_path / "c.csv").write_text("0,0\n286,1000\n")
    assert dice_ce.summarize(video, bundle=bundle, clock=tmp_path / "c.csv").exam.clock.source == "sidecar"
    with pytest.raises(dice_ce.DiceError, match="exam_duration: '8:30' may be hours or minutes: write 8:30:00"):
        dice_ce.summarize(video, bundle=bundle, exam_duration="8:30")


def test_one_exam_has_one_clock(video: Path, bundle: Path) -> None:
    options = dice_ce.ClockOptions(exam_fps=Fraction(1))
    with pytest.raises(dice_ce.DiceError, match=r"exam_start beside clock=ClockOptions"):
        dice_ce.open_exam(video, clock=options, exam_start=5)
    with (
        dice_ce.open_exam(video, exam_fps=1) as exam,
        pytest.raises(dice_ce.DiceError, match=r"give the clock to open_exam\(\)"),
    ):
        dice_ce.summarize(exam, bundle=bundle, exam_fps=1)


def test_an_absurd_frame_rate_is_said_in_the_terminal_and_in_the_summary(
    video: Path, bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["summarize", str(video), "--out", str(tmp_path / "out"), "--bundle", str(bundle)]
    assert main([*command, "--exam-duration", "0:00:05"]) == 0
    question = "57.4 frames per exam second, where capsules take 0.5 to 35: is --exam-duration 00:00:05 right?"
    assert f"  warning: {question}\n" in capfd.readouterr().out
    assert json.loads((tmp_path / "out" / "exam" / "summary.json").read_text())["exam"]["warnings"] == [question]


def test_the_ablations_leave_out_their_stage(video: Path, bundle: Path) -> None:
    windows = dice_ce.summarize(video, bundle=bundle, settings=Settings(weaver=WeaverSettings(contexts="windows")))
    assert windows.counts.contexts == 1, "playback lasts 11 s, so one window of 300 s holds everything"
    assert windows.provenance.settings["contexts"] == "windows"
    best = Settings(converger=ConvergerSettings(evidence="best-frame"))
    single = dice_ce.summarize(video, bundle=bundle, settings=best)
    assert len(single.items) >= 4
    assert all(len(item.support) == 1 for item in single.items)
    assert single.provenance.settings["evidence"] == "best-frame"


def test_the_converger_can_be_left_out_but_for_tau_min(video: Path, bundle: Path, tmp_path: Path) -> None:
    """No single frame is as sure as that."""
    kept = {}
    for tau_min in ("0", "0.4", "1"):
        assert run(video, bundle, tmp_path / tau_min, "--evidence", "best-frame", "--tau-min", tau_min) == 0
        kept[tau_min] = dice_ce.Summary.from_json((tmp_path / tau_min / "exam" / "summary.json").read_text())
    assert kept["0"].counts.kept > 0 == kept["0"].counts.dropped_low_confidence
    assert (kept["1"].counts.kept, kept["1"].counts.dropped_low_confidence) == (0, kept["0"].counts.kept)
    assert kept["0.4"].items == tuple(item for item in kept["0"].items if item.confidence >= 0.4)


def test_a_profile_of_the_bundle_is_used_and_named(video: Path, bundle: Path, tmp_path: Path) -> None:
    strict = Settings(converger=ConvergerSettings(tau_min=1.0))
    export_bundle(bundle, tmp_path / "b", profiles={"strict": Profile(strict, "")})
    assert dice_ce.summarize(video, bundle=tmp_path / "b").counts.kept == 4
    summary = dice_ce.summarize(video, bundle=tmp_path / "b", profile="strict")
    assert summary.counts.kept == 0
    assert (summary.provenance.profile, summary.provenance.settings) == ("strict", values_of(strict))
    assert run(video, tmp_path / "b", tmp_path / "out", "--profile", "strict", "--tau-agree", "0.2") == 0
    written = dice_ce.Summary.from_json((tmp_path / "out" / "exam" / "summary.json").read_text())
    assert written.counts.kept == 0
    assert written.provenance.settings == {**values_of(strict), "tau_agree": 0.2}
    with pytest.raises(dice_ce.DiceError, match="no profile 'odd'; it has default, strict"):
        dice_ce.summarize(video, bundle=tmp_path / "b", profile="odd")


def run(video: Path, bundle: Path, out: Path, *more: str) -> int:
    return main(["summarize", str(video), "--out", str(out), "--bundle", str(bundle), "--exam-fps", "1/10", *more])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_command_writes_summary_findings_keyframes_and_report(
    video: Path, bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(video, bundle, tmp_path / "out") == 0
    out = capfd.readouterr().out
    assert "exam: 4 findings in 287 frames (57 candidates" in out
    assert dice_ce.DISCLAIMER in out
    folder = tmp_path / "out" / "exam"
    names = set(contents(folder))
    assert {"summary.json", "findings.csv", "report.html"} < names
    assert len([name for name in names if name.startswith("keyframes/")]) == 4
    with (folder / "findings.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["ulcer", "polyp", "ulcer", "polyp"]
    assert {row["exam_id"] for row in rows} == {"exam"}
    assert all((folder / row["keyframe"]).is_file() for row in rows)
    jsonschema = pytest.importorskip("jsonschema")
    summary = json.loads((folder / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA_FILE.read_text()))
    assert str(tmp_path) not in (folder / "summary.json").read_text(), "no absolute paths"
    assert summary["provenance"]["command"].startswith("dice-ce summarize exam.mp4 --out out --bundle")
    assert summary["provenance"]["command"].endswith(" --exam-fps 1/10"), "a fraction is no path"


@pytest.mark.parametrize("kind", ["folder", "zip", "video"])
def test_the_original_file_names_are_in_summary_and_table(
    kind: str, video: Path, bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = [f"IMG ä {3 * i}.png" for i in range(len(colour_frames()))]
    for name, frame in zip(names, colour_frames(), strict=True):
        write_image(tmp_path / "exam" / name, frame)
    exam = {"folder": tmp_path / "exam", "zip": tmp_path / "exam.zip", "video": video}[kind]
    if kind == "zip":
        zipped(tmp_path / "exam", exam)
    assert run(exam, bundle, tmp_path / "out") == 0
    file_of = {
        "folder": lambda frame: names[frame],
        "zip": lambda frame: f"export/{names[frame]}",
        "video": lambda frame: None,
    }[kind]
    summary = dice_ce.Summary.from_json((tmp_path / "out" / "exam" / "summary.json").read_text())
    assert len(summary.items) >= 4
    for item in summary.items + summary.dropped:
        for frame in (item.keyframe, *item.support, *item.dissent):
            assert frame.file == file_of(frame.frame)
    with (tmp_path / "out" / "exam" / "findings.csv").open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    assert [row["file"] for row in rows] == [item.keyframe.file or "" for item in summary.items]
    keyframe = summary.items[0].keyframe
    assert (f"keyframe {keyframe.frame} ({keyframe.file})" in capfd.readouterr().out) == (kind != "video")
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(summary.to_json()), json.loads(SCHEMA_FILE.read_text()))


def test_the_same_input_gives_the_same_bytes(video: Path, bundle: Path, tmp_path: Path) -> None:
    run(video, bundle, tmp_path / "out")
    first = contents(tmp_path / "out")
    run(video, bundle, tmp_path / "out")
    assert contents(tmp_path / "out") == first


def test_a_rerun_with_other_thresholds_leaves_nothing_of_the_old_one(video: Path, bundle: Path, tmp_path: Path) -> None:
    run(video, bundle, tmp_path / "out")
    assert run(video, bundle, tmp_path / "out", "--tau-min", "1", "--tau-s", "0.9") == 0
    folder = tmp_path / "out" / "exam"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["items"] == []
    assert summary["provenance"]["settings"]["tau_min"] == 1
    assert not (folder / "keyframes").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["exam"]


def test_one_bad_input_does_not_stop_the_others(
    video: Path, bundle: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_text("no video")
    code = main(["summarize", str(bad), str(video), "--out", str(tmp_path / "out"), "--bundle", str(bundle), "--json"])
    out, err = capfd.readouterr()
    assert code == 1
    assert err.rstrip().endswith(f"1 of 2 inputs failed: {bad}")
    failed, done = json.loads(out)["exams"]
    assert "not a readable video" in failed["error"]
    assert done["kept"] == 4


def test_two_exams_of_one_name_are_not_mixed(video: Path, bundle: Path, tmp_path: Path) -> None:
    twin = tmp_path / "exam.mp4"
    twin.write_bytes(video.read_bytes())
    assert main(["summarize", str(video), str(twin), "--out", str(tmp_path / "o"), "--bundle", str(bundle)]) == 2


@pytest.mark.parametrize("option", ["--tau-s 2", "--tau-min x", "--evidence none", "--without weaver"])
def test_thresholds_that_make_no_sense_are_wrong_usage(option: str, video: Path, bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(video, bundle, tmp_path / "out", *option.split())
    assert stopped.value.code == 2


def test_the_summary_is_the_golden_one(bundle: Path) -> None:
    assert golden_summary(colour_frames(), bundle) == json.loads(GOLDEN.read_text()), "run: python -m tests.golden"


def damage_unnoticed(path: Path) -> None:
    """Overwrite a file as a bad sector does: size and date stay."""
    facts = path.stat()
    path.write_bytes(bytes(facts.st_size))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_a_candidate_that_can_no_longer_be_decoded_is_left_out_and_named(tmp_path: Path) -> None:
    """Its features are there already; a second network needs the image, too."""
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx", scale=0.05))
    loaded = dice_ce.load_bundle(save_colour_bundle(tmp_path / "b"))
    taxonomy = Taxonomy("cells", (*map(str, range(47)), "normal"))
    second = dataclasses.replace(loaded, diagnoser=NetworkDiagnoser((network,)), taxonomy=taxonomy)
    for i, frame in enumerate(colour_frames()):
        write_image(tmp_path / "exam" / f"{i:04d}.png", frame)
    with dice_ce.open_exam(tmp_path / "exam") as exam:
        whole = dice_ce.summarize(exam, bundle=second)
        contexts = [item.support + item.dissent for item in whole.items + whole.dropped]
        lost = sorted(frame.frame for context in contexts for frame in context)[1]
        damage_unnoticed(tmp_path / "exam" / f"{lost:04d}.png")
        elsewhere = pickle.loads(pickle.dumps(exam))  # here, the frames that were looked at are kept
        summary = dice_ce.summarize(elsewhere, bundle=second)
    assert summary.counts.candidates == whole.counts.candidates
    assert summary.counts.diagnosed == whole.counts.diagnosed - 1 == whole.counts.candidates - 1
    assert summary.exam.warnings == (f"candidates that could not be decoded for the diagnoser: {lost}",)
    shown = [frame.frame for item in summary.items + summary.dropped for frame in item.support + item.dissent]
    assert len(shown) == summary.counts.diagnosed
    assert lost not in shown
    before, after = (
        {frame.frame: (item.label, frame.probability) for item in one.items + one.dropped for frame in item.support}
        for one in (whole, summary)
    )
    assert all(before[frame] == after[frame] for frame in before.keys() & after.keys() - {lost})


def test_a_second_network_sees_the_candidate_frames_only(video: Path, tmp_path: Path) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx"))
    seen: list[int] = []

    class Counting:
        name, digest, dim = network.name, network.digest, network.dim
        input_size, resize = network.input_size, network.resize

        def encode(self, batch: np.ndarray) -> np.ndarray:
            seen.append(len(batch))
            return network.encode(batch)

    loaded = dice_ce.load_bundle(save_colour_bundle(tmp_path / "b"))
    taxonomy = Taxonomy("cells", (*map(str, range(47)), "normal"))
    second = dataclasses.replace(loaded, diagnoser=NetworkDiagnoser((Counting(),)), taxonomy=taxonomy)
    summary = dice_ce.summarize(video, bundle=second)
    assert sum(seen) == summary.counts.candidates == 57
