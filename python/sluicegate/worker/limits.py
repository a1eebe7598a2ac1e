"""The limits of this process, for messages about exhausted resources."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator

from .exception_parts import as_text


def limits_in_words() -> str:
    """Return the limits of this process that loading may run into, and how much of each is used.

    Examples:
        >>> "ulimit -n" in limits_in_words()
        True
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = [f"{_open_files()} of {files} files are open (ulimit -n)"]
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY:
        limits.append(f"{_address_space():,} of {space:,} bytes of address space are used (ulimit -v)")
    return f"in process {os.getpid()} {', '.join(limits)}; raise the limit that ran out"


def is_of_a_limit(error: Exception) -> bool:
    """Return True if `error` says that memory or file handles ran out.

    Examples:
        >>> [is_of_a_limit(OSError(number, "text")) for number in (errno.ENOENT, errno.EMFILE)]
        [False, True]
    """
    if isinstance(error, MemoryError) or getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        return True
    # Torch's allocator raises RuntimeError, and libraries have their own errors.
    return any(words in as_text(error) for words in ("allocate memory", "Too many open files"))


def _open_files() -> str:
    try:
        return str(len(os.listdir("/proc/self/fd")))
    except OSError:  # No file can be opened, so all are taken.
        return "all"


def _address_space() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


@contextlib.contextmanager
def descriptor_limit_named(count: int) -> Iterator[None]:
    """Make the error for too many open files report the need of `count` workers, and the remedy."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if getattr(error, "errno", None) not in (errno.EMFILE, errno.ENFILE) and "ulimit -n" not in as_text(error):
            raise
        raise RuntimeError(
            f"Too many open files: {count} workers need about {8 + 4 * count} file descriptors ({error}; "
            f"{limits_in_words()}). Please increase the limit using `ulimit -n` in the shell, or use fewer workers. "
            "Batches need none: `torch.multiprocessing.set_sharing_strategy` makes no difference here"
        ) from error
