"""An encoder in 8 bits: a quarter of the size and twice as fast on processors that have instructions for it.

Ranges come from real frames. Features move a little, so heads are trained on those of the small network. What it
computes are whole numbers, which no processor rounds differently; that none overflows is seen to when it is loaded.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import require
from dice_ce.features.backbones.hub import quiet
from dice_ce.features.runtime import start_session


def quantised(model: bytes, images: npt.NDArray[np.uint8], *, reduce_range: bool = False) -> bytes:
    """Quantise an ONNX encoder after training, by the ranges that its values have on some images."""
    onnx, quantization, shapes = (
        require(package, extra="train", purpose="quantising")
        for package in ("onnx", "onnxruntime.quantization", "onnxruntime.quantization.shape_inference")
    )

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._left = iter(images)

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._left, None)
            return None if image is None else {name: image[None]}

    name = start_session(model, 1).get_inputs()[0].name
    facts = {prop.key: prop.value for prop in onnx.load_from_string(model).metadata_props}
    with tempfile.TemporaryDirectory() as folder, quiet("root"):
        given, prepared, small = (Path(folder) / f"{step}.onnx" for step in ("given", "prepared", "small"))
        given.write_bytes(model)
        shapes.quant_pre_process(given, prepared)
        quantization.quantize_static(
            prepared,
            small,
            Reader(),
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        made = onnx.load(small)
    onnx.helper.set_model_props(made, facts)
    return bytes(made.SerializeToString(deterministic=True))
