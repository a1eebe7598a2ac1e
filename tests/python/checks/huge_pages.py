"""Makes forks of this process cheap: a fork copies its page table, which is large with pages of the default size."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

SIZE = 2 << 20
MADV_COLLAPSE = 25
# With half of 190 huge pages split, a fork took 8 ms more; collapsing them again took 140 ms.
MANY_FORKS = 50
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(\[heap\])?$", re.MULTILINE)
_forks: list[None] = []  # since pages were collapsed
os.register_at_fork(after_in_parent=lambda: _forks.append(None))


def collapse() -> None:
    """Collapse the memory of this process into huge pages, if the kernel can (Linux 6.1).

    Hundreds of megabytes of modules and tests do not change: with pages of 4 KiB, copying and freeing their page table
    for each worker took a third of the time of all tests. Pages that a process writes to are still copied by 4 KiB.
    """
    _forks.clear()
    library = ctypes.CDLL(None)
    for begin, end, _ in _MAPPING.findall(Path("/proc/self/maps").read_text()):
        first = -(-int(begin, 16) // SIZE) * SIZE
        for address in range(first, int(end, 16) - SIZE + 1, SIZE):
            # Fails if a page was never touched, which is harmless.
            library.madvise(ctypes.c_void_p(address), ctypes.c_size_t(SIZE), MADV_COLLAPSE)


def collapse_after_forks() -> None:
    """Collapse again if there were many forks: the next write to a huge page that a fork shares splits it."""
    if len(_forks) > MANY_FORKS:
        collapse()
