"""gather.c from Python: built on first use, called through ctypes (which releases the GIL)."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from machine import CACHE

SOURCE = Path(__file__).with_name("gather.c")


class NoCompilerError(RuntimeError):
    """There is no C compiler on this machine."""


class _Field(ctypes.Structure):
    _fields_ = (("source", ctypes.c_void_p), ("target", ctypes.c_void_p), ("row_bytes", ctypes.c_size_t))


def compiler() -> str | None:
    """Return the C compiler: $CC, or else cc, gcc, or clang."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def library() -> ctypes.CDLL:
    """Return the library of gather.c, rebuilt whenever the source changes."""
    found = compiler()
    if found is None:
        raise NoCompilerError("no C compiler: install one (cc, gcc or clang) or set CC")
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / f"gather-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}.so"
    if not target.exists():
        fresh = target.with_suffix(f".{os.getpid()}")
        flags = ["-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
        subprocess.run([found, *flags, "-o", str(fresh), str(SOURCE)], check=True)
        fresh.replace(target)
    built = ctypes.CDLL(str(target))
    built.gather.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    built.wait_for.argtypes = (ctypes.c_int64,)
    built.wait_for.restype = None
    return built


class Gather:
    """Copies chosen rows of `sources` into `targets` with memcpy."""

    def __init__(
        self, sources: Sequence[npt.NDArray[np.generic]], targets: Sequence[npt.NDArray[np.generic]], threads: int
    ) -> None:
        self._keep = (tuple(sources), tuple(targets))
        self._fields = (_Field * len(sources))(
            *(_Field(s.ctypes.data, t.ctypes.data, s[0].nbytes) for s, t in zip(sources, targets, strict=True))
        )
        self._threads = threads
        self._gather = library().gather

    def __call__(self, indices_address: int, count: int) -> None:
        """Copy the rows whose int64 indices are at `indices_address`."""
        failed = self._gather(self._fields, len(self._fields), indices_address, count, self._threads)
        if failed:
            raise OSError(failed, os.strerror(failed))


class Consumer:
    """Simulates a training step on a device: waits a fixed time, without the GIL and without computing."""

    def __init__(self, seconds: float) -> None:
        self._nanoseconds = round(seconds * 1e9)
        try:
            self._wait_for: Callable[[int], object] = library().wait_for
        except NoCompilerError:
            self._wait_for = lambda nanoseconds: time.sleep(nanoseconds / 1e9)

    def __call__(self) -> None:
        """Wait."""
        self._wait_for(self._nanoseconds)
