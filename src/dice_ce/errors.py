"""One exception tree. Every message is one line, names the input, and ends with the remedy.

DiceError                      exit code
├── InputError                     1      an exam, a clock, a cache or a model that cannot be used
│   ├── ExamError                         the video, folder or zip cannot be read
│   │   └── UnreachableError              its storage failed, or the file changed, while it was read
│   ├── ClockError                        the exam clock is wrong or missing
│   ├── EncoderError                      an encoder cannot be loaded or was fed the wrong thing
│   ├── BundleError                       a model bundle is damaged or does not fit
│   └── StoreError                        the cache cannot be written or read
├── MissingExtraError              1      an optional dependency is not installed
└── UsageError                     2      options that contradict each other or make no sense
"""

from __future__ import annotations

import importlib
import socket
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class DiceError(Exception):
    """Base of everything raised on purpose; the command prints it as one line, without a traceback."""

    exit_code = 1


class InputError(DiceError):
    """Something that was given cannot be used."""


class ExamError(InputError):
    """The video, folder or zip cannot be read as an exam."""


class UnreachableError(ExamError):
    """The storage of an exam failed, or the file changed, while it was read: that says nothing about the exam."""


class ClockError(InputError):
    """The exam clock is wrong, incomplete or runs backwards."""


class EncoderError(InputError):
    """An encoder cannot be loaded, or was fed the wrong thing."""


class BundleError(InputError):
    """A model bundle is damaged, or does not fit what is installed."""


class StoreError(InputError):
    """The cache cannot be written or read."""


class MissingExtraError(DiceError):
    """An optional dependency is not installed."""


class UsageError(DiceError):
    """Options that contradict each other or make no sense."""

    exit_code = 2


LONGEST_LINE = 1000


def one_line(text: str) -> str:
    """Replace what would end a line or command a terminal; names of files may contain it."""
    return "".join("_" if unicodedata.category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)


def error_line(error: DiceError) -> str:
    """Write an error as one line that can be read, whatever the names and cells that it quotes contain."""
    text, half = one_line(str(error)), LONGEST_LINE // 2
    return text if len(text) <= LONGEST_LINE else f"{text[:half]} … {text[-half:]}"


@contextmanager
def _without_probing() -> Iterator[None]:
    """Keep urllib3, which pydicom brings along, from opening a socket on import to see whether there is IPv6."""
    has_ipv6, socket.has_ipv6 = socket.has_ipv6, False
    try:
        yield
    finally:
        socket.has_ipv6 = has_ipv6


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency late, or say exactly what to install."""
    try:
        with _without_probing():
            return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        from dice_ce.extras import install_command

        raise MissingExtraError(
            f"{purpose} needs the package '{missing.name}', which is not installed; install it with: "
            f"{install_command(extra)}"
        ) from missing
    except ImportError as broken:  # installed, but something below it is not, such as a library of the system
        reason = str(broken).partition("\n")[0]
        raise MissingExtraError(
            f"{purpose} needs the package '{module}', which cannot be loaded ({reason}); install it again"
        ) from broken
