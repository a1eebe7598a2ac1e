"""`Lane`: the tasks of one worker thread, and its current activity."""

from __future__ import annotations

import queue
import time
from typing import Any


class Lane:
    """The tasks of one worker thread, and its current activity. Its set-up counts as its first task."""

    def __init__(self) -> None:
        # Not a deque and a semaphore: if a signal handler raised between the two, a task would be left that the thread
        # is not woken for, and every later task would wake it for the one before.
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Two counts, because each has only one thread that changes it.
        self._asked, self._done = 1, 0
        self.doing: tuple[int, int, Any] | None = None
        self.since: float | None = None

    @property
    def is_idle(self) -> bool:
        """True if the thread has done everything that it was asked for."""
        return self._asked == self._done

    def ask(self, task: Any) -> None:
        """Add a task."""
        self._asked += 1  # First: if a signal handler raises in between, the thread counts as busy.
        self._tasks.put(task)

    def next(self) -> Any:
        """Wait for the next task. The last one is "stop", which `close` sends, also at interpreter exit."""
        return self._tasks.get()

    def done(self) -> None:
        """Record that the thread is done with a task."""
        self.doing = self.since = None
        self._done += 1

    def begin(self, task: tuple[int, int, Any]) -> None:
        """Record that a batch is being fetched."""
        self.doing, self.since = task, time.monotonic()
