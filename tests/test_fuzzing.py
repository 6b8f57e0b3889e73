"""A short run of the fuzzer (`make fuzz` is the long one), and proof that it notices what it looks for."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fuzzing
from tests.fuzzing import BINARY, Case, damage, damage_json, damage_table, judge, run_case

ROOT = Path(__file__).parent.parent


def test_eighty_damaged_inputs_do_no_harm() -> None:
    words = [sys.executable, "-m", "tests.fuzzing", "--inputs", "80", "--seed", "11"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "80 damaged inputs, seed 11: 0 failures" in done.stdout


def test_the_same_seed_gives_the_same_damage() -> None:
    def made(seed: int) -> list[bytes]:
        chance = random.Random(seed)
        content = {"a": [1, {"b": 2}]}
        return [
            *(damage(bytes(range(256)) * 8, chance) for _ in range(20)),
            *(damage_table(fuzzing.EXAMS, chance) for _ in range(20)),
            *(damage_json(content, chance) for _ in range(20)),
        ]

    assert made(1) == made(1)
    assert made(1) != made(2)


@pytest.mark.parametrize("way", sorted(set(BINARY), key=lambda way: way.__name__), ids=lambda way: way.__name__)
def test_every_kind_of_damage_damages(way: object) -> None:
    whole = random.Random(0).randbytes(4096)
    results = set()
    for seed in range(20):
        data = bytearray(whole)
        way(data, random.Random(seed))  # type: ignore[operator]
        results.add(bytes(data))
    assert len(results - {whole}) >= 2


def judged(case: Case, room: Path) -> list[str]:
    before = fuzzing._fingerprints(case.watched)
    child = run_case(case, room)
    return judge(case, room, os.waitpid(child, 0)[1], before)


def misbehave(monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    """Let the command do something else instead of its work."""

    def main(words: list[str]) -> int:
        room = Path(words[-1])
        if deed == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if deed == "raise":
            raise ValueError("a mistake of ours")
        if deed == "change":
            (room / "exam.mp4").write_text("other")
        if deed == "half":
            (room / "out" / "exam").mkdir(parents=True)
            (room / "out" / "exam" / "summary.json").write_text("{")
        if deed == "litter":
            (room / "out").mkdir()
            (room / "out" / ".part-1").touch()
        if deed == "babble":
            print("libav: something", file=sys.stderr)
        return 1 if deed == "silent" else 0

    monkeypatch.setattr("dice_ce.cli.main", main)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # nothing in the child waits for a thread
@pytest.mark.parametrize(
    ("deed", "problem"),
    [
        ("nothing", None),
        ("crash", "ended by SIGKILL"),
        ("raise", "traceback: ValueError: a mistake of ours"),
        ("silent", "exit code 1 without a word"),
        ("change", "changed its input"),
        ("half", "half a result"),
        ("litter", "left .part-1 behind"),
        ("babble", "says more than an error in one line: libav: something"),
    ],
)
def test_the_fuzzer_notices(deed: str, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exam.mp4").write_text("exam")
    misbehave(monkeypatch, deed)
    problems = judged(Case("mp4", ["summarize", str(tmp_path)], (tmp_path / "exam.mp4",)), tmp_path)
    assert not problems if problem is None else any(problem in found for found in problems), problems
