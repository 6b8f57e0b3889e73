"""Exams of any length to measure on: a short simulated one, and the same over and over again."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
from av.video.frame import PictureType

from dice_ce.lab.simulator import simulate
from dice_ce.progress import ProgressBar

CODECS = {
    "H.264": ("libx264", ".mp4", "yuv420p", {"crf": "18"}),
    "HEVC": ("libx265", ".mp4", "yuv420p", {"crf": "20", "preset": "ultrafast", "x265-params": "log-level=error"}),
    "MPEG-4": ("mpeg4", ".avi", "yuv420p", {"qmin": "3", "qmax": "3"}),
    "MJPEG": ("mjpeg", ".avi", "yuvj420p", {"qmin": "3", "qmax": "3"}),
}
"""How exports come, by the name that people know: encoder, container, pixel format, quality."""
RATE, KEYFRAME_EVERY = 25, 250


def make_exam(folder: Path, frames: int, size: int, codec: str = "H.264") -> Path:
    """Render the exam, once; other codecs than H.264 get the same images."""
    rendered = folder / f"simulated-{size}-{frames}.mp4"
    if not rendered.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with ProgressBar(f"rendering {rendered.name}") as bar:
            simulate(rendered, frames=frames, size=size, lesions=0, progress=bar)
    return rendered if codec == "H.264" else transcoded(rendered, codec)


def transcoded(video: Path, codec: str) -> Path:
    """The same images in another codec."""
    encoder, suffix, pixel_format, options = CODECS[codec]
    target = video.with_name(f"{video.stem}-{encoder}{suffix}")
    if target.exists():
        return target
    draft = target.with_name(f"draft-{target.name}")
    with av.open(str(video)) as source, av.open(str(draft), "w") as output:
        stream = output.add_stream(encoder, rate=RATE, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = source.streams.video[0].width, source.streams.video[0].height
        stream.pix_fmt, stream.gop_size = pixel_format, KEYFRAME_EVERY
        for number, frame in enumerate(source.decode(video=0)):
            image = frame.reformat(format=pixel_format)
            image.pts, image.time_base, image.pict_type = number, Fraction(1, RATE), PictureType.NONE
            output.mux(stream.encode(image))
        output.mux(stream.encode(None))
    draft.rename(target)
    return target


def repeated(video: Path, times: int) -> Path:
    """The same exam several times over, packet by packet, without encoding it again."""
    target = video.with_name(f"{video.stem}-times-{times}{video.suffix}")
    if times == 1 or target.exists():
        return video if times == 1 else target
    draft = target.with_name(f"draft-{target.name}")
    with av.open(str(draft), "w") as output:
        copy, offset = None, 0
        for _ in range(times):
            with av.open(str(video)) as source:
                stream = source.streams.video[0]
                copy = copy or output.add_stream_from_template(stream)
                for packet in source.demux(stream):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.pts, packet.dts, packet.stream = packet.pts + offset, packet.dts + offset, copy
                    output.mux(packet)
                offset += stream.duration or 0
    draft.rename(target)
    return target


def peak_megabytes() -> float:
    """Return how much memory this process took at most.

    The usual figure (ru_maxrss) of a new process begins with that of the one that started it.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) / 1024
