"""ONNX Runtime: the one place that imports it, so that it runs here as quietly as it is told to.

It reports to its maker from the moment it is imported, unless `ORT_DISABLE_TELEMETRY` is set by then; the package does
that before anything else, see `dice_ce/__init__.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dice_ce.errors import EncoderError, UsageError

PROVIDERS = {
    "cpu": ("CPUExecutionProvider",),
    "cuda": ("CUDAExecutionProvider", "CPUExecutionProvider"),
    "tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"),
}
"""By device: what computes, and what takes over operations that it does not know."""
AUTO = "auto"
NO_OVERFLOW = "dice_ce.no_overflow"
"""Noted in the file of a network of 8 bits whose sums fit in 16 on every processor."""


def choose_device(wanted: str, available: Sequence[str]) -> str:
    """Choose among what this ONNX Runtime was built for. `auto` never is TensorRT, which takes minutes to start."""
    if wanted == AUTO:
        return "cuda" if PROVIDERS["cuda"][0] in available else "cpu"
    if PROVIDERS[wanted][0] not in available:
        raise UsageError(
            f"--device {wanted}: the ONNX Runtime that is installed cannot use it (it has {', '.join(available)}); "
            "install onnxruntime-gpu in place of onnxruntime, or use --device cpu"
        )
    return wanted


def available_providers() -> list[str]:
    """List what this ONNX Runtime was built for; whether the machine has it is another matter."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


@functools.cache
def _read_cpu_info() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""  # not Linux


def has_vnni(cpu_info: str) -> bool:
    """Whether the processor is known to add up products of 8 bits in 32; others than x86 need not say so."""
    return any("vnni" in line for line in cpu_info.splitlines() if line.startswith("flags"))


def start_session(model: bytes, threads: int, device: str = "cpu") -> Any:
    """Load a model; on the CPU with one thread, it computes in the thread that calls it."""
    import onnxruntime

    # Too late for what the import itself reported, if a program imported it before this package, but not for the rest.
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning threads take the cores away from the decoder: 13 % of the throughput.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if NO_OVERFLOW.encode() not in model and not has_vnni(_read_cpu_info()):
        # Sums of products of 8 bits may overflow. Where none does, this takes 1.5 times as long for the same.
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=[*PROVIDERS[device]], enable_fallback=0)
    if session.get_providers()[0] != PROVIDERS[device][0]:  # it does not say so when it takes the CPU instead
        raise EncoderError(
            f"--device {device}: ONNX Runtime does not find it on this machine; check the driver and that the versions "
            "of CUDA and cuDNN are those that onnxruntime-gpu asks for, or use --device cpu"
        )
    return session
