import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dice_ce
from dice_ce.cli import main
from dice_ce.cli.shared import command_line
from dice_ce.exam.open import open_exam
from tests.material import moving_dots, numbered_video, write_tiny_encoder, write_video
from tests.method.test_pipeline import save_colour_bundle as colour_bundle


def run(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    return code, *capfd.readouterr()


def modules_after(statement: str) -> set[str]:
    tell = "print(*sys.modules, sep='\\n', file=sys.stderr)"
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\n{tell}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stderr.splitlines()}


@pytest.mark.parametrize(
    "statement",
    [
        "from dice_ce.cli import main; main(['--help'])",
        "from dice_ce.cli import main; main(['extract', '--help'])",
        "from dice_ce.cli import main; main(['--version'])",
        "import dice_ce",
    ],
)
def test_asking_for_help_imports_nothing_heavy(statement: str) -> None:
    assert modules_after(statement).isdisjoint({"numpy", "av", "onnxruntime", "onnx", "torch", "transformers"})


def test_listing_encoders_imports_neither_torch_nor_onnxruntime() -> None:
    loaded = modules_after("from dice_ce.cli import main; main(['encoder', 'list'])")
    assert loaded.isdisjoint({"onnxruntime", "onnx", "torch", "transformers", "av"})


def test_every_public_name_can_be_had_from_the_package_again_and_again() -> None:
    for _ in range(2):
        assert all(getattr(dice_ce, name) is not None for name in dice_ce.__all__)
    assert callable(dice_ce.extract)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dice_ce.nothing  # noqa: B018


def test_every_help_text_says_that_this_is_no_medical_device(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [
        [],
        ["summarize"],
        ["inspect"],
        ["extract"],
        ["encoder", "list"],
        ["encoder", "export"],
        ["cache", "list"],
        ["doctor"],
    ]
    for command in commands:
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        assert "not a medical device" in capsys.readouterr().out.replace("\n", " ")


def test_inspect_tells_people_what_the_exam_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_video(tmp_path / "exam.mp4", moving_dots(50), options={"g": "10", "sc_threshold": "0"})
    code, out, err = run(capfd, "inspect", path, "--exam-duration", "8:00:00", "--exam-start", "00:10:00")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "exam"
    assert "  frames         50 of 96x96 pixels, 5 keyframes" in lines
    assert "  playback       00:00:02 long" in lines
    assert "  exam clock     00:10:00 to 08:00:24, from options: playback stretched over 08:00:00" in lines
    assert lines[-1] == dice_ce.DISCLAIMER


def test_inspect_marks_playback_time_everywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = numbered_video(tmp_path / "exam.mp4", 30)
    _, out, _ = run(capfd, "inspect", path)
    assert "00:00:00 (playback) to 00:00:01 (playback), from playback" in out
    _, out, _ = run(capfd, "inspect", path, "--json")
    facts = json.loads(out)
    assert (facts["clock"]["source"], facts["clock"]["is_exam_time"]) == ("playback", False)
    assert facts["disclaimer"] == dice_ce.DISCLAIMER


def test_inspect_draws_a_contact_sheet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_video(tmp_path / "exam.mp4", moving_dots(50))
    code, out, _ = run(capfd, "inspect", path, "--exam-fps", "1/2", "--sheet", tmp_path / "sheet.png")
    assert code == 0
    assert str(tmp_path / "sheet.png") in out
    with open_exam(tmp_path / "sheet.png", mask=False) as sheet:
        assert sheet.image(0).shape[1] > 1000


def test_extract_reports_what_was_computed_and_reused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_video(tmp_path / "exam.mp4", moving_dots(120, still=range(20, 110)))
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    code, out, err = run(capfd, "extract", path, "--encoder", model, "--json")
    assert code == 0
    (facts,) = json.loads(out)["exams"]
    assert facts["frames"] == 120 == facts["exact"] + facts["reused"]
    assert facts["reused"] > 50
    assert "120/120 frames" in err, "the log shows the progress"
    code, out, _ = run(capfd, "extract", path, "--encoder", model, "--no-gate")
    assert "exam: 120 features of 48 numbers by tiny; 120 computed, 0 reused" in out


def test_the_cache_can_be_listed_and_cleared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "cache", "list")[:2] == (0, "the cache is empty\n")
    path = write_video(tmp_path / "exam.mp4", moving_dots(20))
    run(capfd, "extract", path, "--encoder", write_tiny_encoder(tmp_path / "tiny.onnx"))
    (entry,) = json.loads(run(capfd, "cache", "list", "--json")[1])
    assert (entry["kind"], entry["name"], entry["frames"]) == ("features", "exam", 20)
    assert "features  exam  tiny" in run(capfd, "cache", "clear")[1]
    assert run(capfd, "cache", "clear")[1] == "nothing to remove\n"


def test_an_encoder_can_be_exported_and_used(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "copy.onnx"
    code, out, _ = run(capfd, "encoder", "export", write_tiny_encoder(tmp_path / "tiny.onnx"), "--out", target)
    assert code == 0
    assert out.startswith(f"{target}: copy, 48-d at 32, sha256 ")
    path = write_video(tmp_path / "exam.mp4", moving_dots(20))
    assert run(capfd, "extract", path, "--encoder", target)[0] == 0


def test_the_doctor_knows_the_patient(capfd: pytest.CaptureFixture[str], cache: Path) -> None:
    facts = json.loads(run(capfd, "doctor", "--json")[1])
    assert facts["dice_ce"] == dice_ce.__version__
    assert facts["cache"]["path"] == str(cache)
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["encoders"]["dinov2-base"] in ("weights not on this machine", "ready", "needs the extra hf")
    assert facts["bundles"] == {
        name: {"status": "ready", "encoder": f"dice-ce-encoder, 1280-d at {side}"}
        for name, side in (("default", 160), ("simulated", 224))
    }
    assert facts["default_bundle"] == "default"
    assert facts["cpu_threads"] >= 1
    text = run(capfd, "doctor")[1]
    assert str(cache) in text
    assert "default             ready (default), with its encoder: dice-ce-encoder, 1280-d at 160\n" in text
    assert "dinov2-base" in text


def test_the_doctor_names_a_bundle_that_does_not_work(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "bundle.json").write_text("{}")
    monkeypatch.setattr("dice_ce.method.bundle.SHIPPED", tmp_path)
    code, out, _ = run(capfd, "doctor")
    assert code == 0
    assert re.search(r"^bundle +broken .*bundle.json is damaged", out, re.M)


def test_extract_computes_the_features_that_summarize_uses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_video(tmp_path / "exam.mp4", moving_dots(40))
    assert run(capfd, "extract", path)[0] == 0
    before = json.loads(run(capfd, "cache", "list", "--json")[1])
    assert [(entry["kind"], entry["encoder"]) for entry in before] == [("features", "dice-ce-encoder")]
    code, _, err = run(capfd, "summarize", path, "--out", tmp_path / "out")
    assert code == 0
    assert "/40 frames" not in err, "no feature was left to compute; only candidates are looked at"
    assert json.loads(run(capfd, "cache", "list", "--json")[1]) == before


def test_extract_takes_the_encoder_of_another_bundle(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_video(tmp_path / "exam.mp4", moving_dots(40))
    assert "features of 48 numbers by encoder" in run(capfd, "extract", path, "--bundle", colour_bundle(tmp_path))[1]
    with pytest.raises(SystemExit) as stopped:
        run(capfd, "extract", path, "--bundle", "default", "--encoder", "dinov2-base")
    assert stopped.value.code == 2


def test_ctrl_c_ends_with_130_and_a_word_on_how_to_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dice_ce.features.extraction.extract", interrupted)
    path = numbered_video(tmp_path / "exam.mp4", 3)
    code, _, err = run(capfd, "extract", path, "--encoder", write_tiny_encoder(tmp_path / "tiny.onnx"))
    assert code == 130
    assert err == "dice-ce: interrupted; finished work is kept, the same command goes on from there\n"


def test_the_command_is_repeated_without_folders_and_otherwise_as_it_was() -> None:
    words = ["summarize", "/home/ann/exam 1.mp4", "--out=/home/ann/out", "--exam-fps", "1/3", "--exam-fps=1/3"]
    repeated = command_line(argparse.Namespace(words=words))
    assert repeated == "dice-ce summarize 'exam 1.mp4' --out=out --exam-fps 1/3 --exam-fps=1/3"


def test_the_installed_command_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dice_ce.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"dice-ce {dice_ce.__version__}\n"
