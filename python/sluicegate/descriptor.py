"""Which file a descriptor is open on."""

from __future__ import annotations

import os

__all__ = ["identity_of"]


def identity_of(descriptor: int) -> tuple[int, int] | None:
    """Returns the device and the inode of the file that `descriptor` is open on; None if it is closed.

    A descriptor's number is used again after it was closed, so the number alone does not say which file it is.

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
