"""Files next to the user's data that other users of the folder must not be able to redirect."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

_OWN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_own(path: str) -> int:
    """Return a descriptor of the file at `path`, open to read and write; the file is created if missing.

    Raises:
        OSError: the path is something that this user has not made: a link, a FIFO, a file that another user owns or one
            with more than one name. Nothing is written to it, and opening it does not wait.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _OWN, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "this is a link; remove it", path) from None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EPERM, "expected a regular file that this user owns, with one hard link; remove it", path)


def open_new(path: str) -> int:
    """Return a descriptor of a new, empty file at `path`, to write.

    An existing file is removed rather than overwritten: it may be a link to another user's file.

    Raises:
        OSError: no file can be made there.
    """
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OWN, 0o666)


def read_regular(path: str) -> str:
    """Return the text of the file at `path`.

    Raises:
        OSError: it can't be read, or is not a regular file: opening a FIFO does not wait for a writer.
        UnicodeDecodeError: it isn't UTF-8.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    # Before a file object is made: for a folder, that raises an error which names the descriptor, and leaves it open.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "this is not a regular file; remove it", path)
    with open(descriptor, encoding="utf-8") as file:
        return file.read()
