"""Nothing is sent, and nothing is left but what was asked for: whole commands, under a kernel that allows no socket."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUARD = (sys.executable, str(ROOT / "tests" / "no_sockets.py"))
DICE_CE = (sys.executable, "-m", "dice_ce.cli")
NATIVE_THREAD = """
import ctypes, threading
thread = threading.Thread(target=lambda: ctypes.CDLL(None).socket(2, 2, 0))
thread.start()
thread.join()
"""
READ_TEXT = """
import importlib.util
if importlib.util.find_spec("rapidocr"):
    import numpy as np
    from dice_ce.exam.ocr import text_reader
    from dice_ce.outputs.lettering import write_text
    image = np.zeros((64, 160, 3), np.uint8)
    write_text(image, "03:12:45", 12, 20, scale=3)
    assert [line.text for line in text_reader().find(image)] == ["03:12:45"]
"""


@dataclass(frozen=True)
class Place:
    """Where a command runs: everything that programs write to unasked is fresh, and lies in one folder."""

    folder: Path
    guard: tuple[str, ...]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        unasked = {name: self.folder / name.lower() for name in ("HOME", "TMPDIR")}
        unasked |= {f"XDG_{kind}_HOME": self.folder / "home" / kind.lower() for kind in ("CACHE", "CONFIG", "DATA")}
        for name in (*unasked.values(), self.folder / "cwd"):
            name.mkdir(parents=True, exist_ok=True)
        ours = ("DICE_CE_", "XDG_", "HF_", "ORT_", "MPL", "DO_NOT_TRACK")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        fresh = {name: str(path) for name, path in unasked.items()}
        settled = {"DICE_CE_CACHE": str(self.folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1", "USER": "reader"}
        return subprocess.run(
            [*self.guard, *command],
            cwd=self.folder / "cwd",
            env=inherited | fresh | settled,
            capture_output=True,
            text=True,
            check=False,
        )

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def unasked(self) -> list[str]:
        return [name for name in self.files() if not name.startswith(("cache/", "out/"))]


def run_guarded(code: str) -> int:
    return subprocess.run([*GUARD, sys.executable, "-c", code], capture_output=True, check=False).returncode


@pytest.fixture(scope="module")
def guard() -> tuple[str, ...]:
    """What forbids sockets, or nothing where it does not run: files are looked at anyway."""
    return GUARD if run_guarded("") == 0 else ()


@pytest.fixture
def place(tmp_path: Path, guard: tuple[str, ...]) -> Place:
    return Place(tmp_path, guard)


@pytest.fixture(scope="module")
def exam(tmp_path_factory: pytest.TempPathFactory, guard: tuple[str, ...]) -> Path:
    """A simulated exam, rendered under the same guard."""
    place = Place(tmp_path_factory.mktemp("simulated"), guard)
    video = place.folder / "out" / "exam.mp4"
    done = place.run(*DICE_CE, "simulate", "--out", str(video), "--frames", "150", "--size", "160", "--seed", "4711")
    assert done.returncode == 0, done.stderr
    assert place.unasked() == []
    return video


def test_the_guard_sees_what_native_code_does_in_a_thread_of_its_own(guard: tuple[str, ...]) -> None:
    if not guard:
        pytest.skip(
            "sockets cannot be forbidden here, so only files are looked at: seccomp needs Linux on x86-64 or ARM"
        )
    assert run_guarded("print('no socket')") == 0
    assert run_guarded(NATIVE_THREAD) == -signal.SIGSYS


def test_a_whole_summary_opens_no_socket_and_leaves_no_file_outside_cache_and_output(exam: Path, place: Place) -> None:
    done = place.run(*DICE_CE, "summarize", str(exam), "--out", str(place.folder / "out"))
    assert done.returncode == 0, done.stderr
    files = place.files()
    assert "out/exam/report.html" in files
    assert any(name.startswith("cache/features/") for name in files)
    assert place.unasked() == []


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "EXAM", "--sheet", "OUT/sheet.png"),
        ("extract", "EXAM"),
        ("predict", "EXAM", "--out", "OUT/scores.csv"),
        ("encoder", "list"),
        ("bundle", "check"),
        ("bundle", "export", "--out", "OUT/bundle.zip"),
        ("cache", "list"),
        ("archive", "run", "EXAM", "--out", "OUT/archive", "--workers", "1"),
        ("doctor",),
    ],
    ids=lambda words: words[0] + "-" + words[1].lower() if len(words) > 1 else words[0],
)
def test_other_commands_keep_to_themselves_as_well(words: Sequence[str], exam: Path, place: Place) -> None:
    given = [word.replace("EXAM", str(exam)).replace("OUT", str(place.folder / "out")) for word in words]
    done = place.run(*DICE_CE, *given)
    assert done.returncode == 0, done.stderr
    assert place.unasked() == []


@pytest.mark.parametrize(
    "code",
    [
        "import dice_ce",
        "import dice_ce; dice_ce.load_bundle()",
        "import dice_ce, onnxruntime",  # also for what the program itself does with it afterwards
        "from dice_ce.features.encoder import OnnxEncoder; import onnxruntime",
        READ_TEXT,
    ],
)
def test_programs_that_use_the_package_keep_to_themselves_as_well(code: str, place: Place) -> None:
    done = place.run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert place.unasked() == []


def test_loading_a_transformers_model_from_a_folder_asks_nobody(place: Place) -> None:
    pytest.importorskip("transformers")
    from tests.tiny_models import save_tiny_model

    model = save_tiny_model("dinov3", place.folder / "out" / "model")
    code = f"from dice_ce.features.encoder import load_encoder; print(load_encoder({str(model)!r}).dim)"
    done = place.run(sys.executable, "-c", code)
    assert done.stdout == "32\n", done.stderr
    assert place.unasked() == []


def test_one_place_imports_onnx_runtime() -> None:
    """Whoever else imported it might do so before it was told to be quiet."""
    importers = set()
    for path in sorted(file for folder in ("src", "tools", "benchmarks") for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [str(node.value)]
                if isinstance(node, ast.Constant) and "." in str(node.value)  # what `require` imports late
                else []
            )
            if any(name.split(".")[0] == "onnxruntime" for name in names):
                importers.add(str(path.relative_to(ROOT)))
    # Networks are quantised with its tools, inside functions: by then dice_ce is imported.
    late = {f"src/dice_ce/lab/training/{name}.py" for name in ("quantize", "transformer")}
    assert importers == {"src/dice_ce/features/runtime.py"} | late
