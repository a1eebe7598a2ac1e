"""`WorkerMemory`: the memory that a loader shares with its worker processes, kept from one epoch to the next."""

from __future__ import annotations

import threading

from sluicegate import _core
from sluicegate.fetch.collate import KINDS

# Free slots per worker, in addition to those being filled: for the batch in use and the one before it.
SPARE_SLOTS = 2


class WorkerMemory:
    """Lends memory to one iterator at a time, and makes new memory for others. Any thread may use it."""

    def __init__(self) -> None:
        # Reentrant: while it is held, garbage collection may end an iterator that gives its memory back.
        self._lock = threading.RLock()
        # Memory that no iterator uses.
        self._free: _core.Workers | None = None

    def lend(self, workers: int, under_way: int, bytes_ahead: _core.BytesAhead) -> _core.Workers:
        """Return memory for one iterator: the previous iterator's, or new. `bytes_ahead` counts answers."""
        with self._lock:
            memory, self._free = self._free, None
        if memory is not None and (memory.layout[0], memory.under_way) == (workers, under_way):
            memory.renew(bytes_ahead)
            return memory
        return _core.Workers(workers, under_way, under_way // workers + SPARE_SLOTS, KINDS, bytes_ahead)

    def give_back(self, memory: _core.Workers) -> None:
        """Keep `memory`, which no worker uses any more, for the next iterator."""
        memory.forget()
        with self._lock:
            self._free = memory
