"""ONNX Runtime: the one place that imports it, so that it runs here as quietly as it is told to.

It reports to its maker from the moment it is imported, unless `ORT_DISABLE_TELEMETRY` is set by then; the package does
that before anything else, see `dice_ce/__init__.py`.
"""

from __future__ import annotations

from typing import Any


def start_session(model: bytes, threads: int) -> Any:
    """Load a model to be run on the CPU; with one thread, it computes in the thread that calls it."""
    import onnxruntime

    # Too late for what the import itself reported, if a program imported it before this package, but not for the rest.
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning threads take the cores away from the decoder: 13 % of the throughput.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
