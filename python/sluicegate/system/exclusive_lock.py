"""`ExclusiveLock`: lets one process or thread at a time write to a place."""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from contextlib import suppress

from .own_file import open_own


class ExclusiveLock:
    """A lock file, which the operating system releases if its process dies. It is removed when it is released.

    On a file system without locks it excludes nothing.

    Args:
        path: the path of the lock file.
        use: what the owner does, for the error: `"writes to '/data/out'"`.
        argument: the argument that could be different, for the error.

    Examples:
        >>> import tempfile
        >>> with ExclusiveLock(f"{tempfile.mkdtemp()}/out.lock", "writes", "path") as lock:
        ...     os.path.exists(lock.path)
        True
    """

    def __init__(self, path: str, use: str, argument: str) -> None:
        self.path = path
        self.use = use
        self.argument = argument
        self.descriptor: int | None = None

    def __enter__(self) -> ExclusiveLock:
        """Take the lock.

        Raises:
            RuntimeError: another process or thread has it.
        """
        while True:
            lock = open_own(self.path)
            try:
                # The lock belongs to the open file, so threads of one process exclude each other too.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(lock)
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise RuntimeError(
                        f"another process or thread {self.use}, and holds the lock {self.path!r}; wait for it, or "
                        f"pass a different {self.argument}"
                    ) from None
                # The file system has no locks.
                with suppress(OSError):
                    os.remove(self.path)
                return self
            # The previous owner may have removed the file in the meantime.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(self.path)):
                    self.descriptor = lock
                    _locked.add(self)
                    return self
            os.close(lock)

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        if self.descriptor is not None:
            # Another process may have removed it as a leftover.
            with suppress(FileNotFoundError):
                os.remove(self.path)
            os.close(self.descriptor)
            self.descriptor = None


_locked: weakref.WeakSet[ExclusiveLock] = weakref.WeakSet()


def _close_inherited_locks() -> None:
    """Close the locks in a forked child, which would otherwise keep them after its parent has died."""
    for lock in _locked:
        if lock.descriptor is not None:
            with suppress(OSError):
                os.close(lock.descriptor)
            lock.descriptor = None
    _locked.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)
