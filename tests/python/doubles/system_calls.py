"""System calls that fail or never return, in one process: as without locks, or on a disk that fails late or hangs.

A filter (seccomp) can't be removed, so use it only in processes that a test has started.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NoReturn

import pytest

_NUMBERS = {"fcntl": 72, "flock": 73, "fsync": 74, "fdatasync": 75}

# The values of linux/seccomp.h and linux/filter.h.
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_PR_SET_NO_NEW_PRIVS, _SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 38, 317, 1, 8

needs_filters = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="the numbers are those of Linux on x86-64"
)


def full_disk(descriptor: int) -> NoReturn:
    """Replace `os.fsync`, as on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(error: int, *calls: str) -> None:
    """Make these calls fail with this error number, in this thread and those that it starts."""
    _filter(_ERRNO | error, 0, calls)


def hang(*calls: str) -> int:
    """Make these calls wait until the returned descriptor is closed; then they fail with ENOSYS."""
    # The kernel waits for the listener's answer, which never comes.
    return _filter(_NOTIFY, _NEW_LISTENER, calls)


def _filter(action: int, flags: int, calls: tuple[str, ...]) -> int:
    program = [(_LOAD, 0, 0, 0)]
    program += [(_IF_EQUAL, len(calls) - place, 0, _NUMBERS[call]) for place, call in enumerate(calls)]
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, action)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *each) for each in program))
    whole = ctypes.create_string_buffer(struct.pack("<H6xQ", len(program), ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        result = int(libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, whole))
        if result >= 0:
            return result
    raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
