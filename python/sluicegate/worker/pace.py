"""`Pace`: decides if it pays to prefetch batches of a stream, on a separate thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# Handing a batch to a thread, and back, takes about this long: both threads want the interpreter.
_LEAST_SECONDS = 50e-6
# One of 64 batches is measured, and more at first: asking for the processor time may take as long as a small batch.
_EVERY = 64


class Pace:
    """How long a batch takes to fetch, and how long the consumer is away between two: both as running means.

    A thread that prefetches saves time only while the consumer is busy with other work. If the consumer is back before
    a batch is finished, it has to wait for the thread, and could fetch the batch itself at less cost: the data just
    read is still in the processor's cache, and no thread has to be woken.

    For one consumer thread. Any thread may measure: of two at once, one may get lost.

    Attributes:
        since: since when the consumer does not wait for a batch, on the performance counter; set after every wait.
    """

    def __init__(self) -> None:
        self._fetch = self._away = 0.0
        self.since: float | None = None
        self._batches = 0

    def measured(self, fetch: Callable[..., Any], *arguments: Any) -> Any:
        """Return the batch that `fetch` returns for `arguments`, and measure how long that takes."""
        self._batches = batches = self._batches + 1
        if self._fetch and batches % _EVERY and batches & (batches - 1):
            return fetch(*arguments)
        # Processor time: waiting for samples costs neither thread anything.
        start = time.thread_time()
        batch = fetch(*arguments)
        taken = time.thread_time() - start
        self._fetch += (taken - self._fetch) / (2 if self._fetch else 1)
        return batch

    def pays_ahead(self) -> bool:
        """Record that the consumer requests a batch; return True if a thread should prefetch the next ones.

        A batch that has not been measured is worth a thread: a slow one must not wait for the consumer.
        """
        now = time.perf_counter()
        if self.since is not None:
            self._away += (now - self.since - self._away) / 4
        self.since = now
        return self._fetch == 0.0 or self._away > max(self._fetch, _LEAST_SECONDS)
