"""Tiny exams made on the spot. Every frame carries its ordinal as 16 black or white blocks, so that decoding,
seeking and time can be proved on the pixels themselves.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from dice_ce.exam.codec import write_image
from dice_ce.method.selector import Head
from dice_ce.types import Image

SIZE = 96
BLOCK = SIZE // 4


def numbered(ordinal: int, size: int = SIZE) -> Image:
    """A frame that shows its ordinal in binary, on grey so that black frames cannot pass for zero."""
    bits = np.array([(ordinal >> k) & 1 for k in range(16)], np.uint8).reshape(4, 4)
    grey = np.kron(bits * 160 + 48, np.ones((size // 4, size // 4), np.uint8)).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def read_number(image: Image) -> int:
    """The ordinal a decoded frame shows."""
    block = image.shape[0] // 4
    middles = image[block // 2 :: block, block // 2 :: block].mean(axis=2)
    return int(sum(1 << k for k, value in enumerate(middles.ravel()) if value > 128))


def write_video(
    path: Path,
    frames: Iterable[Image],
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    pix_fmt: str = "yuv420p",
    pts: Callable[[int], int] = lambda i: i,
    time_base: Fraction = Fraction(1, 25),
    container_options: dict[str, str] | None = None,
) -> Path:
    """Encode frames; `pts` says when each is shown, in units of `time_base`."""
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = None
        for i, image in enumerate(frames):
            if stream is None:
                stream = container.add_stream(codec, rate=25, options=options or {})
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = pix_fmt
                stream.codec_context.time_base = time_base
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            frame.pts, frame.time_base = pts(i), time_base
            container.mux(stream.encode(frame))
        assert stream is not None
        container.mux(stream.encode(None))
    return path


def numbered_video(path: Path, count: int = 60, **settings: object) -> Path:
    """A video of numbered frames."""
    return write_video(path, (numbered(i) for i in range(count)), **settings)  # type: ignore[arg-type]


def variable_rate(i: int) -> int:
    """Timestamps in milliseconds that are never evenly spaced."""
    return i * 40 + (i * i * 7) % 23


def numbered_folder(folder: Path, names: Iterable[str]) -> Path:
    """A folder of numbered frames in the order given."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        write_image(folder / name, numbered(i))
    return folder


def zipped(folder: Path, target: Path) -> Path:
    """The folder's files in a zip, below a top folder as file managers do."""
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"export/{file.name}")
    return target


def corrupt(path: Path, start: float, length: int, *, seed: int = 0) -> Path:
    """Overwrite a stretch in the middle with noise."""
    content = bytearray(path.read_bytes())
    at = int(len(content) * start)
    noise = np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8)
    content[at : at + length] = noise.tobytes()
    path.write_bytes(content)
    return path


def moving_dots(count: int, size: int = SIZE, *, still: range = range(0), seed: int = 0) -> Iterable[Image]:
    """Something exam-like: a disc of smooth texture that moves, except in `still`, on black."""
    rng = np.random.default_rng(seed)
    texture = np.kron(rng.integers(40, 220, (3 * size // 8, 3 * size // 8, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    disc = (x**2 + y**2 <= (0.48 * size) ** 2)[:, :, None]
    place = 0
    for i in range(count):
        place += 0 if i in still else 5
        top, left = place % size, place * 2 % size
        yield np.where(disc, texture[top : top + size, left : left + size], np.uint8(0))


def write_tiny_encoder(path: Path, *, size: int = 32, scale: float = 1 / 255) -> Path:
    """A real ONNX encoder: means of 8x8 cells."""
    import onnx
    from onnx import TensorProto, helper

    dim = (size // 8) ** 2 * 3
    nodes = [
        helper.make_node("Transpose", ["frames"], ["nchw"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["nchw"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("AveragePool", ["floats"], ["cells"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Flatten", ["cells"], ["flat"]),
        helper.make_node("Mul", ["flat", "scale"], ["features"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("frames", TensorProto.UINT8, ["n", size, size, 3])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", dim])],
        [onnx.numpy_helper.from_array(np.float32(scale), "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def tiny_head(dim: int, outputs: int, *, hidden: int = 8, seed: int = 0) -> Head:
    """A head with random weights that 16 bits hold exactly."""
    rng = np.random.default_rng(seed)
    shapes = [(dim,), (dim,), (dim, hidden), (hidden,), (hidden, outputs), (outputs,)]
    return Head(*(rng.normal(size=shape).astype(np.float16).astype(np.float32) for shape in shapes))
