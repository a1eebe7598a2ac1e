"""`ProgressLine`: the progress of a long task, on one line of the terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

# Seconds between two updates of the line.
_INTERVAL = 0.1


class ProgressLine:
    """A line on stderr that shows the progress of a task; nothing if stderr is not a terminal.

    Args:
        what: the task, in a few words.
        total: the number of steps; None if unknown.

    Examples:
        >>> with ProgressLine("counting", 3) as line:
        ...     for _ in range(3):
        ...         line.advance(1)
    """

    def __init__(self, what: str, total: int | None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._started = self._last = time.monotonic()

    def advance(self, steps: int) -> None:
        """Record that `steps` more are done."""
        self.done += steps
        if self._shown and time.monotonic() - self._last >= _INTERVAL:
            self._show()

    def _show(self) -> None:
        self._last = time.monotonic()
        elapsed = self._last - self._started
        if self.total is None:
            text = f"{self.what}: {self.done:,} ({elapsed:.0f} s)"
        else:
            share = self.done / self.total if self.total else 1.0
            left = f", {elapsed / share - elapsed:.0f} s left" if 0 < share < 1 else ""
            text = f"{self.what}: {self.done:,} of {self.total:,} ({share:.0%}{left})"
        # Clears the rest of the line, which may have been longer.
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> ProgressLine:
        """Return this line."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Show the final progress, and go to the next line."""
        if self._shown:
            self._show()
            print(file=sys.stderr)
