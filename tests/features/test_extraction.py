"""Extraction is resumable, identical however it was interrupted, and never leaves a cache that reads wrongly."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dice_ce.errors import EncoderError, StoreError
from dice_ce.exam.open import Crop, Exam, open_exam
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.features.extraction import BLOCK_LENGTH, SEGMENT_LENGTH, _Run, extract, plan_segments
from dice_ce.features.gate import GateConfig
from dice_ce.features.store import FeatureStore, clear_cache, count_doubtful, list_cache
from tests.material import corrupt, moving_dots, numbered_folder, write_tiny_encoder, write_video

COUNT = 1200
PATIENCE = 600.0
"""Seconds after which something is taken to hang; nothing waits that long otherwise."""


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = moving_dots(COUNT, still=range(300, 700))
    return write_video(tmp_path_factory.mktemp("video") / "exam.mp4", frames, options={"g": "50"})


@pytest.fixture
def exam(video: Path) -> Iterator[Exam]:
    with open_exam(video) as opened:
        yield opened


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- what comes out


def test_features_are_those_of_the_frames_one_by_one(exam: Exam, tiny_encoder: OnnxEncoder) -> None:
    features = extract(exam, tiny_encoder, gate=None)
    images = np.stack([image for _, image in exam.read(size=tiny_encoder.input_size)])
    assert features.vectors.dtype == np.float16
    assert np.array_equal(features.vectors, tiny_encoder.encode(images).astype(np.float16))
    assert features.frames.index.tolist() == list(range(COUNT))
    assert (features.report.exact, features.report.reused) == (COUNT, 0)


def test_the_gate_saves_work_where_the_capsule_stands_still(exam: Exam, tiny_encoder: OnnxEncoder) -> None:
    exact = extract(exam, tiny_encoder, gate=None)
    gated = extract(exam, tiny_encoder)
    report = gated.report
    assert report.exact + report.reused == COUNT
    assert report.reused > 300
    assert not gated.exact[350:640].all()
    a, b = exact.vectors.astype(np.float64), gated.vectors.astype(np.float64)
    distance = 1 - (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert distance.max() <= 2 * GateConfig().feature
    assert report.gate_error <= GateConfig().feature


def test_features_are_mapped_from_the_cache_the_second_time(exam: Exam, tiny_encoder: OnnxEncoder) -> None:
    first = extract(exam, tiny_encoder)

    class Refuses:
        name, digest, dim = tiny_encoder.name, tiny_encoder.digest, tiny_encoder.dim
        input_size, resize = tiny_encoder.input_size, tiny_encoder.resize

        def encode(self, batch: np.ndarray) -> np.ndarray:
            raise AssertionError("nothing should be encoded")

    second = extract(exam, Refuses())
    assert isinstance(second.vectors, np.memmap)
    assert np.array_equal(first.vectors, second.vectors)
    assert second.report == first.report


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_no_byte(
    exam: Exam, tiny_encoder: OnnxEncoder, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "one"))
    extract(exam, tiny_encoder, workers=1)
    monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "many"))
    extract(exam, tiny_encoder, workers=workers)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "many")


def test_everything_that_shapes_features_is_in_their_address(video: Path, tmp_path: Path) -> None:
    encoder = OnnxEncoder.open(write_tiny_encoder(tmp_path / "a.onnx"))
    other = OnnxEncoder.open(write_tiny_encoder(tmp_path / "b.onnx", scale=0.5))
    with (
        open_exam(video) as plain,
        open_exam(video, mask=False) as bare,
        open_exam(video, crop=Crop(0, 0, 64, 64)) as cut,
    ):
        stores = [
            FeatureStore.of(plain, encoder, GateConfig(), segment_length=256),
            FeatureStore.of(plain, encoder, None, segment_length=256),
            FeatureStore.of(plain, encoder, GateConfig(pixel=1), segment_length=256),
            FeatureStore.of(plain, other, GateConfig(), segment_length=256),
            FeatureStore.of(bare, encoder, GateConfig(), segment_length=256),
            FeatureStore.of(cut, encoder, GateConfig(), segment_length=256),
        ]
    assert len({store.folder for store in stores}) == len(stores)


def test_progress_counts_every_frame_up_to_the_last(exam: Exam, tiny_encoder: OnnxEncoder) -> None:
    seen: list[tuple[int, int]] = []
    extract(exam, tiny_encoder, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, COUNT)
    assert seen[-1] == (COUNT, COUNT)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


# --- damage


def test_undecodable_frames_are_counted_and_the_rest_goes_on(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    path = write_video(tmp_path / "e.mp4", moving_dots(400), options={"g": "20", "sc_threshold": "0"})
    corrupt(path, 0.5, path.stat().st_size // 40)
    with open_exam(path) as exam:
        features = extract(exam, tiny_encoder, gate=None)
    report = features.report
    assert report.undecodable
    assert report.frames == 400 == report.exact + len(report.undecodable)
    assert len(features) == 400 - len(report.undecodable)
    assert set(report.undecodable).isdisjoint(features.frames.index.tolist())
    assert 0 < report.doubtful < 60


def test_a_stretch_without_any_decodable_frame_is_survived(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    folder = numbered_folder(tmp_path / "f", [f"{i}.jpg" for i in range(2 * SEGMENT_LENGTH + 10)])
    for i in range(SEGMENT_LENGTH, 2 * SEGMENT_LENGTH):
        (folder / f"{i}.jpg").write_bytes(b"\xff\xd8\xff damaged")
    with open_exam(folder) as exam:
        report = extract(exam, tiny_encoder).report
    assert report.undecodable == tuple(range(SEGMENT_LENGTH, 2 * SEGMENT_LENGTH))
    assert report.doubtful == 0, "images do not build on each other"


def test_frames_after_a_lost_one_are_doubtful_up_to_the_next_keyframe() -> None:
    keys = np.array([0, 10, 20])
    assert count_doubtful(np.array([7]), keys, 30) == 2
    assert count_doubtful(np.array([7, 8]), keys, 30) == 1
    assert count_doubtful(np.array([25]), keys, 30) == 4
    assert count_doubtful(np.array([], np.int64), keys, 30) == 0


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e6])
def test_features_that_16_bits_cannot_hold_are_refused(exam: Exam, tmp_path: Path, scale: float) -> None:
    encoder = OnnxEncoder.open(write_tiny_encoder(tmp_path / "bad.onnx", scale=scale))
    with pytest.raises(EncoderError, match="not finite or too large for 16 bits near frame"):
        extract(exam, encoder)


# --- segments


@pytest.mark.parametrize(
    ("frames", "keyframes", "expected"),
    [
        (1000, range(0, 1000, 50), [(0, 300), (300, 600), (600, 900), (900, 1000)]),
        (600, [0], [(0, 256), (256, 512), (512, 600)]),
        (600, [0, 511], [(0, 511), (511, 600)]),
        (600, [0, 512], [(0, 256), (256, 512), (512, 600)]),
        (1, [0], [(0, 1)]),
        (256, [0], [(0, 256)]),
    ],
)
def test_segments_begin_at_keyframes_unless_none_is_near(
    frames: int, keyframes: list[int], expected: list[tuple[int, int]]
) -> None:
    assert plan_segments(frames, np.array(list(keyframes))) == expected


# --- interruptions


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Shells start background jobs deaf to Ctrl-C, and a test run may be one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_after_ctrl_c_a_rerun_resumes_and_yields_the_identical_bytes(
    exam: Exam, tiny_encoder: OnnxEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "whole"))
    extract(exam, tiny_encoder)
    monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "resumed"))
    pressed, runs = threading.Event(), list[_Run]()
    real_go = _Run.go

    def go(self: _Run, workers: int) -> None:
        runs.append(self)
        real_go(self, workers)

    def press_ctrl_c(done: int, total: int) -> None:
        if done >= 700 and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)

    class Waits:
        name, digest, dim = tiny_encoder.name, tiny_encoder.digest, tiny_encoder.dim
        input_size, resize = tiny_encoder.input_size, tiny_encoder.resize

        def encode(self, batch: np.ndarray) -> np.ndarray:
            if pressed.is_set():  # however late the waiting thread hears of it, workers get no further meanwhile
                assert runs[0]._stop.wait(PATIENCE)
            return tiny_encoder.encode(batch)

    monkeypatch.setattr(_Run, "go", go)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        extract(exam, Waits(), workers=2, progress=press_ctrl_c)
    for worker in set(threading.enumerate()) - before:
        worker.join(PATIENCE)
        assert not worker.is_alive(), "no worker is left behind"
    (entry,) = list_cache()
    assert entry.kind == "partial"
    starts: list[int] = []
    extract(exam, tiny_encoder, progress=lambda done, total: starts.append(done))
    assert 0 < starts[0] < COUNT, "finished segments are not done again"
    assert snapshot(tmp_path / "whole") == snapshot(tmp_path / "resumed")


EXTRACTS = """
import sys
from pathlib import Path
from dice_ce.features.encoder import OnnxEncoder
from dice_ce.exam.open import open_exam
from dice_ce.features.extraction import extract

def extracts(video, model, **options):
    with open_exam(video) as exam:
        extract(exam, OnnxEncoder.open(Path(model)), **options)
"""

# Each process forked here ends itself by kill -9 just before the n-th thing it would do to the cache.
KILLED = (
    EXTRACTS
    + """
import os, signal
cache = os.environ["DICE_CE_CACHE"]
left = 0

def count(event, *facts):
    global left
    path = str(facts[0]) if facts else ""
    writes = event != "open" or isinstance(facts[1], str) and set("wxa+") & set(facts[1])
    if left and event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "fsync") and writes:
        if event in ("fsync", "os.remove") or path.startswith(cache):  # what is removed is named without its folder
            left -= 1
            if not left:
                os.write(1, f"{event} {Path(path).name}\\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(lambda event, facts: count(event, *facts))
real_fsync = os.fsync
def fsync(descriptor):
    count("fsync")
    real_fsync(descriptor)
os.fsync = fsync

for line in sys.stdin:
    child = os.fork()
    if not child:
        left = int(line)
        extracts(*sys.argv[1:], workers=1)
        os.write(1, b"finished\\n")
        os._exit(0)
    os.waitpid(child, 0)
    os.write(1, b"ended\\n")
"""
)


def test_kill_9_at_every_change_of_the_cache_never_leaves_one_that_reads_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = write_video(tmp_path / "exam.mp4", moving_dots(SEGMENT_LENGTH + 200, 64), options={"g": "50"})
    with open_exam(video) as exam:
        kill_at_every_change(video, exam, tmp_path, monkeypatch)


def kill_at_every_change(video: Path, exam: Exam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    encoder = OnnxEncoder.open(model)
    monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "whole"))
    whole = extract(exam, encoder)
    cache = tmp_path / "killed"
    monkeypatch.setenv("DICE_CE_CACHE", str(cache))
    store = FeatureStore.of(exam, encoder, GateConfig(), segment_length=SEGMENT_LENGTH)
    places, finished = list[str](), set[int]()
    arguments = [sys.executable, "-c", KILLED, str(video), str(model)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdin is not None
        assert killed.stdout is not None
        while "finished" not in places:
            shutil.rmtree(cache, ignore_errors=True)
            print(len(places) + 1, file=killed.stdin, flush=True)
            places.append(killed.stdout.readline().strip())
            assert killed.stdout.readline() == "ended\n"
            finished.add(len(store.finished_segments()))
            features = store.load(exam)
            assert features is None or np.array_equal(features.vectors, whole.vectors)
            assert np.array_equal(extract(exam, encoder).vectors, whole.vectors)
            assert snapshot(tmp_path / "whole") == snapshot(cache), f"what was left at {places[-1]} is cleared up"
        killed.stdin.close()
    segments = len(plan_segments(len(exam), exam.source.keyframes))
    assert segments == 2
    assert finished == set(range(segments + 1)), "killed before the first, between all, and after the last"
    told = [place.split()[0] for place in places]
    assert told.count("os.rename") == told.count("fsync") == segments + 4, "vectors, index, exact and manifest"
    assert set(told) == {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "fsync", "finished"}


def test_two_processes_on_one_exam_share_the_work(
    video: Path, exam: Exam, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny_encoder(tmp_path / "tiny.onnx")
    arguments = [sys.executable, "-c", f"{EXTRACTS}\nextracts(*sys.argv[1:])", str(video), str(model)]
    children = [subprocess.Popen(arguments) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    assert [entry.kind for entry in list_cache()] == ["features"]


# --- the disk


def test_a_disk_that_fills_up_keeps_finished_segments_and_leaves_no_half_file(
    exam: Exam, tiny_encoder: OnnxEncoder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    real_save, saved = FeatureStore.save_segment, []

    def save(self: FeatureStore, start: int, segment: object) -> None:
        # The system itself refuses to write on, after two segments have gone well.
        if len(saved) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            real_save(self, start, segment)  # type: ignore[arg-type]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        saved.append(start)

    monkeypatch.setattr(FeatureStore, "save_segment", save)
    with pytest.raises(StoreError, match=r"cannot be written.*free some space.*finished work is kept"):
        extract(exam, tiny_encoder, workers=1)
    monkeypatch.setattr(FeatureStore, "save_segment", real_save)
    files = [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert len(files) == 2
    assert not any(path.name.startswith(".part-") for path in files)
    assert len(extract(exam, tiny_encoder)) == COUNT


def test_a_cache_that_cannot_be_written_is_said_so(
    exam: Exam, tiny_encoder: OnnxEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DICE_CE_CACHE", str(tmp_path / "file"))
    with pytest.raises(StoreError, match=r"the cache cannot be written.*set DICE_CE_CACHE to another folder"):
        extract(exam, tiny_encoder)


def test_a_cache_that_goes_away_is_said_so(
    exam: Exam, tiny_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive's share may do that at any moment, and tries again then."""
    publish = FeatureStore.publish

    def publish_on_a_share_that_goes_away(store: FeatureStore, *arguments: object) -> None:
        publish(store, *arguments)  # type: ignore[arg-type]
        shutil.rmtree(store.folder)

    monkeypatch.setattr(FeatureStore, "publish", publish_on_a_share_that_goes_away)
    with pytest.raises(StoreError, match="what was written there a moment ago is gone; is its disk or share mounted"):
        extract(exam, tiny_encoder)


def test_damaged_features_are_noticed(exam: Exam, tiny_encoder: OnnxEncoder, cache: Path) -> None:
    extract(exam, tiny_encoder)
    (vectors,) = cache.rglob("vectors.npy")
    vectors.write_bytes(vectors.read_bytes()[:1000])
    with pytest.raises(StoreError, match=r"the stored features are damaged.*'dice-ce cache clear'"):
        extract(exam, tiny_encoder)


# --- looking after the cache


def test_the_cache_lists_and_clears_what_it_holds(exam: Exam, tiny_encoder: OnnxEncoder, cache: Path) -> None:
    assert list_cache() == []
    extract(exam, tiny_encoder)
    extract(exam, tiny_encoder, gate=None)
    entries = list_cache()
    assert [(entry.kind, entry.name, entry.frames) for entry in entries] == [("features", "exam", COUNT)] * 2
    assert all(entry.bytes > COUNT * tiny_encoder.dim * 2 for entry in entries)
    assert len(clear_cache({"partial"})) == 0
    assert len(clear_cache({"features"})) == 2
    assert snapshot(cache) == {}


def test_the_manifest_tells_where_features_come_from_without_paths(
    exam: Exam, tiny_encoder: OnnxEncoder, cache: Path
) -> None:
    extract(exam, tiny_encoder)
    (manifest,) = cache.rglob("manifest.json")
    content = json.loads(manifest.read_text())
    assert content["identity"]["exam"] == exam.digest
    assert content["identity"]["encoder"] == tiny_encoder.digest
    assert content["identity"]["gate"] == {"pixel": 8.0, "feature": 0.02, "shortest": 8}
    assert str(cache.parent) not in manifest.read_text()


def test_an_extraction_that_runs_is_not_cleared_away(exam: Exam, tiny_encoder: OnnxEncoder) -> None:
    store = FeatureStore.of(exam, tiny_encoder, None, segment_length=SEGMENT_LENGTH)
    store.folder.mkdir(parents=True)
    with store.locked():
        assert clear_cache({"partial"}) == []
    assert [entry.kind for entry in clear_cache({"partial"})] == ["partial"]


def test_blocks_fit_into_segments() -> None:
    assert SEGMENT_LENGTH % BLOCK_LENGTH == 0
