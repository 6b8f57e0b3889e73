"""Models that bring code of their own: they live in another process, and can be given another environment."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError
from dice_ce.exam.codec import encode_image

PYTHON_VARIABLE = "DICE_CE_VLM_PYTHON"
"""Environment variable with the interpreter for such models; they want older packages than this one does."""
WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 10.0
"""Seconds that the process is given to end by itself."""


@dataclass(frozen=True, eq=False)
class IsolatedModel:
    """The other end of worker.py."""

    name: str
    process: subprocess.Popen[str] = field(repr=False)
    log: IO[str] = field(repr=False)
    """What the process writes beside its answers."""

    @classmethod
    def start(cls, name: str, source: str, device: str | None) -> IsolatedModel:
        """Start the process and wait until its model is loaded."""
        python = os.environ.get(PYTHON_VARIABLE) or sys.executable
        log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  # closed with the model
        try:
            process = subprocess.Popen(
                [python, str(WORKER), name, source, device or "cuda"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )
        except OSError as error:
            log.close()
            raise InputError(
                f"{name}: '{python}' cannot be started ({error.strerror}); "
                f"set {PYTHON_VARIABLE} to a Python interpreter"
            ) from error
        model = cls(name, process, log)
        model._read()
        return model

    def prepare(self, image: npt.NDArray[np.uint8]) -> str:
        """Compress an image without loss, to be sent."""
        return base64.b64encode(encode_image(image, ".png")).decode("ascii")

    def reply(self, prepared: Sequence[str], question: str) -> list[str]:
        """Ask about one image after the other."""
        return [self._ask(image, question) for image in prepared]

    def close(self) -> None:
        """End the process."""
        self._finish()
        self.log.close()

    def _finish(self) -> None:
        """Tell the process that there are no more questions, and make sure that it ends."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # it is gone already, with a question on the way
                    pipe.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask(self, image: str, question: str) -> str:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"image": image, "question": question}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        return str(self._read()["answer"])

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._ended()
        return dict(json.loads(line))

    def _ended(self) -> InputError:
        """Say why the process is gone, in its own last words."""
        self._finish()
        self.log.seek(0)
        last = next((line.strip() for line in reversed(self.log.readlines()) if line.strip()), "it said nothing")
        self.log.close()
        return InputError(
            f"{self.name}: its process ended ({last}); set {PYTHON_VARIABLE} to an environment in which the code "
            "of its authors runs, see docs/how-to/vlm-diagnosers.md"
        )
