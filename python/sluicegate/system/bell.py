"""`Bell`: wakes a waiting thread, also in a program whose signal handlers raise exceptions."""

from __future__ import annotations

import queue


class Bell:
    """Wakes one thread that waits for a change.

    The thread checks for the change itself, waits, and checks again. A ring without a waiter ends the next wait, so
    none is lost between the check and the wait.

    `threading.Condition` and `Semaphore` are written in Python: if a signal handler (Ctrl-C) raises inside them, a lock
    stays held or a waiter sleeps forever. A `SimpleQueue` takes one step.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """End the current wait or the next one. To be called after the change, from any thread or finalizer."""
        if self._rings.empty():  # One is enough: the thread that takes it checks for everything.
            self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for a ring; return False if `seconds` pass first. Signal handlers run meanwhile, and may raise."""
        try:
            self._rings.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return False
        return True
