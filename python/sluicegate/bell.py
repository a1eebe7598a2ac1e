"""`Bell`: wakes a thread that waits, also in a program whose signal handlers raise exceptions."""

from __future__ import annotations

import queue


class Bell:
    """Wakes one thread that waits for a change.

    The thread looks for the change itself, waits, and looks again. A ring without a waiter ends the next wait, so none
    is lost between the look and the wait.

    `threading.Condition` and `Semaphore` are written in Python: the exception of a signal handler (Ctrl-C) inside
    leaves a lock held, or a waiter asleep forever. A `SimpleQueue` takes one step.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Ends the wait, or the next one. To be called after the change; from any thread, and from finalizers."""
        if self._rings.empty():  # One is enough: the thread that takes it looks for everything.
            self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Waits for a ring; False when `seconds` pass first. Signal handlers run meanwhile, and may raise."""
        try:
            self._rings.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return False
        return True
