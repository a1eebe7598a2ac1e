"""`SplitPart`: the samples of one class that a pass has read and the class has not taken."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from .spill_file import SpillFile


class SplitPart:
    """The state of one class in the pass. Guarded by the pass's lock."""

    def __init__(self) -> None:
        self.samples: deque[Any] = deque()
        self.spilled: SpillFile | None = None
        # The thread that reads this class: the last one that asked. None until one has.
        self.reader: threading.Thread | None = None
        # True if it was left before its end: the remaining samples will not be taken.
        self.is_left = False
        self.is_taken = False
        # How many samples were taken, and how many of those are still to be dropped when rereading after a resume.
        self.taken = 0
        self.taken_before = 0

    def __len__(self) -> int:
        return len(self.samples) + (len(self.spilled) if self.spilled is not None else 0)

    def pop(self) -> Any:
        """Remove and return the oldest sample."""
        if self.samples:
            return self.samples.popleft()
        assert self.spilled is not None
        return self.spilled.popleft()

    def clear(self) -> None:
        """Drop all samples, in memory and on disk."""
        self.samples.clear()
        if self.spilled is not None:
            self.spilled.close()
            self.spilled = None
