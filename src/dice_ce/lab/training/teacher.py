"""A teacher: a larger network that a small encoder learns to see like (distillation).

The encoder's targets become half what the teacher says of the very view that it is shown, and one more head guesses the
teacher's feature of it. Labels tell one of twelve things about an image, a feature hundreds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import require
from dice_ce.features.runtime import start_session
from dice_ce.lab.training.rehead import feature_of
from dice_ce.method.diagnoser import softmax
from dice_ce.types import Floats

onnx, cv2 = (require(package, extra="train", purpose="training") for package in ("onnx", "cv2"))

Pixels = npt.NDArray[np.uint8]
SMALLEST_SPREAD = 1e-3


@dataclass(frozen=True)
class Lesson:
    """What a teacher has to say about some images."""

    said: Floats
    """Probabilities of the labels."""
    seen: Floats
    """Its features, each number with mean 0 and spread 1 over typical images."""


@dataclass(frozen=True, eq=False)
class Teacher:
    """A diagnoser's own network, as `tools/finetune_diagnoser.py` writes it."""

    session: Any
    outputs: tuple[str, str]
    """Names of logits and feature."""
    side: int
    mean: Floats
    spread: Floats
    digest: str

    @property
    def dim(self) -> int:
        """Length of its feature."""
        return len(self.mean)

    @classmethod
    def load(cls, content: bytes, typical: Pixels) -> Teacher:
        """Load a network and let it see typical images; its feature is what its last concatenation puts together."""
        model = onnx.load_from_string(content)
        logits, feature = model.graph.output[0].name, feature_of(model)
        model.graph.output.append(onnx.helper.make_tensor_value_info(feature, onnx.TensorProto.FLOAT, None))
        session = start_session(model.SerializeToString(), 1)
        side = int(session.get_inputs()[0].shape[1])
        digest = hashlib.sha256(content).hexdigest()
        nothing, one = np.zeros(1, np.float32), np.ones(1, np.float32)
        plain = cls(session, (logits, feature), side, nothing, one, digest)
        seen = plain(typical).seen
        return cls(session, plain.outputs, side, seen.mean(axis=0), seen.std(axis=0) + SMALLEST_SPREAD, digest)

    def __call__(self, images: Pixels) -> Lesson:
        """Look at images of any size, one after the other, as the network takes them."""
        name = self.session.get_inputs()[0].name
        answers = [self.session.run(list(self.outputs), {name: self._fitting(image)[None]}) for image in images]
        logits, features = (np.concatenate(values) for values in zip(*answers, strict=True))
        return Lesson(softmax(logits), ((features - self.mean) / self.spread).astype(np.float32))

    def _fitting(self, image: Pixels) -> Pixels:
        return np.asarray(cv2.resize(image, (self.side, self.side), interpolation=cv2.INTER_AREA))
