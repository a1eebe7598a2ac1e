"""`InheritedFiles`: gives a worker process its own offsets in the files that were open before the fork."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from sluicegate.system.descriptor import identity_of

_DESCRIPTORS = "/proc/self/fd"
# Standard input, output and error: a worker has its own input, and the others are only appended to.
_STANDARD = 3
# Opening `/proc/self/fd/N` follows a link, whatever flags the file itself was opened with.
_NOT_REPEATED = os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL | os.O_TRUNC
# If the descriptors cannot be listed, the search ends here.
_HIGHEST_DESCRIPTOR = 65_536


@dataclass(frozen=True)
class _SharedFile:
    """A file whose offset other processes can move, too."""

    descriptor: int
    device: int
    inode: int
    offset: int
    # The reason why it has no separate offset.
    reason: str

    def has_moved(self) -> bool:
        """Return True if the descriptor is still this file and its offset has changed."""
        try:
            found = os.fstat(self.descriptor)
            is_same = (found.st_dev, found.st_ino) == (self.device, self.inode)
            return is_same and os.lseek(self.descriptor, 0, os.SEEK_CUR) != self.offset
        except OSError:  # Closed since.
            return False


class InheritedFiles:
    """The files that this process inherited open, each with its own offset if possible.

    A fork copies descriptors but not the offsets behind them: a `seek` and `read` in one worker moves the file for its
    siblings and for the training process, which then read from wrong places. So the constructor reopens every regular
    file that is open for reading, through `/proc/self/fd` (deleted files included), under the same number, at the same
    offset. Buffers of Python's file objects are copied by the fork and stay valid.

    Files that are also open for writing keep the shared offset: processes that write one file depend on it. So do files
    that can't be reopened, and block devices. `check` reports when the offset of one of them moves, which means that a
    worker or the training process reads or writes at it.

    Positional reads (`os.pread`, memory maps, SQLite, HDF5) don't move offsets. Files that are only written or appended
    to (logs), and standard output and error, are left alone. Descriptors that were copied with `os.dup` no longer share
    an offset with each other.

    To be made in a new process before any other thread runs. Not thread-safe.

    Examples:
        >>> files = InheritedFiles()
        >>> files.check()
    """

    def __init__(self) -> None:
        self._shared: list[_SharedFile] = []
        self._checks = 0
        reason = ""
        try:
            descriptors: Iterable[int] = map(int, os.listdir(_DESCRIPTORS))
        except FileNotFoundError:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            descriptors = range(min(limit, _HIGHEST_DESCRIPTOR))
            reason = f"it can't be opened again without {_DESCRIPTORS}"
        except OSError:
            return  # Too many open files: the worker will fail when it tries to open one.
        output = {identity_of(descriptor) for descriptor in range(1, _STANDARD)}
        for descriptor in descriptors:
            with contextlib.suppress(OSError):  # The descriptor that listed the others is closed.
                self._separate(descriptor, reason, output)

    def _separate(self, descriptor: int, reason: str, output: set[tuple[int, int] | None]) -> None:
        """Give `descriptor` its own offset, or record it as sharing one."""
        found = os.fstat(descriptor)
        is_block_device = stat.S_ISBLK(found.st_mode)
        if not (stat.S_ISREG(found.st_mode) or is_block_device):
            return
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        if flags & (os.O_WRONLY | os.O_APPEND | os.O_PATH):
            return
        if is_block_device:
            reason = reason or "it is a block device"
        elif flags & os.O_RDWR:
            if descriptor < _STANDARD or (found.st_dev, found.st_ino) in output or _is_in_memory(descriptor):
                return
            reason = reason or "it was opened for writing, too"
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        if not reason:
            try:
                _reopen(descriptor, flags & ~_NOT_REPEATED, offset)
            except OSError as error:
                reason = f"it can't be opened again: {error.strerror}"
            else:
                return
        self._shared.append(_SharedFile(descriptor, found.st_dev, found.st_ino, offset, reason))

    def check(self) -> str | None:
        """Return a warning, once, about files whose shared offset has moved. To be called after each batch.

        It checks only at calls 1, 2, 4, 8, ...
        """
        if not self._shared:
            return None
        self._checks += 1
        if self._checks & (self._checks - 1):
            return None
        moved = [file for file in self._shared if file.has_moved()]
        if not moved:
            return None
        self._shared = []
        named = "; ".join(f"{_path(file.descriptor)} (descriptor {file.descriptor}: {file.reason})" for file in moved)
        return (
            "files that were opened before the workers were forked share their offset with all workers and this "
            f"process, and it has moved, so samples may be read from wrong places: {named}. Open such a file in the "
            "worker, at its first use or in worker_init_fn, or open it for reading only"
        )


def _is_in_memory(descriptor: int) -> bool:
    """Return True for shared memory, which is mapped rather than read."""
    return _path(descriptor).startswith(("/memfd:", "/dev/shm/"))


def _path(descriptor: int) -> str:
    try:
        return os.readlink(f"{_DESCRIPTORS}/{descriptor}")
    except OSError:
        return "a file"


def _reopen(descriptor: int, flags: int, offset: int) -> None:
    own = os.open(f"{_DESCRIPTORS}/{descriptor}", flags | os.O_CLOEXEC)
    try:
        if offset:
            os.lseek(own, offset, os.SEEK_SET)
        os.dup2(own, descriptor, inheritable=os.get_inheritable(descriptor))
    finally:
        os.close(own)
