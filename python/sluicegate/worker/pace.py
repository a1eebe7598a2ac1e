"""`Pace`: decides if it pays to prefetch batches of a stream, on a separate thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

# Handing a batch to a thread, and back, takes about this long: both threads want the interpreter.
_LEAST_SECONDS = 50e-6
# One of 64 batches is measured, and more at first: asking for the processor time may take as long as a small batch.
_EVERY = 64
_NOTHING = contextlib.nullcontext()


class Pace:
    """How long a batch takes to fetch, and how long the consumer is away between two: both as running means.

    A thread that prefetches saves time only while the consumer is busy with other work. If the consumer is back before
    a batch is finished, it has to wait for the thread, and could fetch the batch itself at less cost: the data just
    read is still in the processor's cache, and no thread has to be woken.

    For one consumer thread. Any thread may measure: of two at once, one may get lost.
    """

    def __init__(self) -> None:
        self._fetch = self._away = self._waited = 0.0
        self._asked: float | None = None
        self._batches = 0

    def measuring(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that measures fetching a batch."""
        self._batches = batches = self._batches + 1
        is_measured = batches % _EVERY == 0 or batches & (batches - 1) == 0
        return self._measuring() if is_measured or not self._fetch else _NOTHING

    @contextlib.contextmanager
    def _measuring(self) -> Iterator[None]:
        # Processor time: waiting for samples costs neither thread anything.
        start = time.thread_time()
        yield
        taken = time.thread_time() - start
        self._fetch += (taken - self._fetch) / (2 if self._fetch else 1)

    def wait(self, seconds: float) -> None:
        """Record that the consumer waited, or fetched a batch, for so long."""
        self._waited += seconds

    def pays_ahead(self) -> bool:
        """Record that the consumer requests a batch; return True if a thread should prefetch the next ones.

        A batch that has not been measured is worth a thread: a slow one must not wait for the consumer.
        """
        now = time.perf_counter()
        if self._asked is not None:
            away = max(now - self._asked - self._waited, 0.0)
            self._away += (away - self._away) / 4
        self._asked, self._waited = now, 0.0
        return self._fetch == 0.0 or self._away > max(self._fetch, _LEAST_SECONDS)
