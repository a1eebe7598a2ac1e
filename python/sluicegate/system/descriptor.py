"""`identity_of`: which file a descriptor refers to."""

from __future__ import annotations

import os


def identity_of(descriptor: int) -> tuple[int, int] | None:
    """Return the device and the inode of the file that `descriptor` is open on; None if it is closed.

    A descriptor's number is reused after it was closed, so the number alone does not identify the file.

    Examples:
        >>> import os
        >>> with open(os.devnull) as file:
        ...     identity_of(file.fileno()) is None
        False
    """
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino
