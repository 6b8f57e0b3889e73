"""Runs a command that the kernel ends with SIGSYS as soon as any of its threads or children opens a socket.

    python tests/no_sockets.py COMMAND ARGUMENT ...

A hook in Python would not see what native code does in threads of its own. This is a seccomp filter: it needs Linux on
x86-64 or ARM, but neither root nor a namespace nor another program, and a process can never take it off again.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

SOCKET_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""By machine: what the kernel calls it, and the number of socket(2). Unix sockets count, too: daemons look up names."""
IO_URING_SETUP = 425
"""Another way to open sockets; the same number everywhere."""
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_AT, MACHINE_AT = 0, 4
ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


class Instruction(ctypes.Structure):
    """One line of a filter: struct sock_filter."""

    _fields_ = (
        ("code", ctypes.c_uint16),
        ("skip_if_true", ctypes.c_uint8),
        ("skip_if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class Program(ctypes.Structure):
    """A filter: struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def forbid_sockets() -> None:
    """Have this process, and all that it becomes or starts, killed for opening a socket; OSError where that fails."""
    if sys.platform != "linux" or platform.machine() not in SOCKET_CALLS:
        raise OSError(f"no filter for {sys.platform} on {platform.machine()}")
    machine, socket_call = SOCKET_CALLS[platform.machine()]
    lines = (
        (LOAD, 0, 0, MACHINE_AT),
        (JUMP_IF_EQUAL, 0, 3, machine),  # calls by another convention are numbered otherwise: none may pass
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_IF_EQUAL, 1, 0, socket_call),
        (JUMP_IF_EQUAL, 0, 1, IO_URING_SETUP),
        (RETURN, 0, 0, KILL_PROCESS),
        (RETURN, 0, 0, ALLOW),
    )
    instructions = (Instruction * len(lines))(*(Instruction(*line) for line in lines))
    program = Program(len(lines), ctypes.cast(instructions, ctypes.POINTER(Instruction)))
    libc = ctypes.CDLL(None, use_errno=True)
    zero, one = ctypes.c_ulong(0), ctypes.c_ulong(1)
    for option, first, second in (
        (PR_SET_NO_NEW_PRIVS, one, zero),
        (PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program)),
    ):
        if libc.prctl(option, first, second, zero, zero):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    forbid_sockets()
    os.execvp(sys.argv[1], sys.argv[1:])
