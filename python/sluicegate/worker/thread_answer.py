"""`ThreadAnswer`: a worker thread's answer for one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate import _core

from .report import Report

if TYPE_CHECKING:
    from sluicegate.device.destination import Destination


class ThreadAnswer:
    """A worker thread's answer for one batch."""

    __slots__ = ("begun", "content", "ended", "epoch", "error", "held", "number", "report", "worker")

    def __init__(self, worker: int, epoch: int, number: int) -> None:
        self.worker, self.epoch, self.number = worker, epoch, number
        self.content: Any = None
        # The result of a destination that has begun with it.
        self.begun: Any = None
        self.error: BaseException | None = None
        # Counts it as a batch ahead.
        self.held: _core.Held | None = None
        self.ended = False
        # What the worker reports along with the batch.
        self.report: Report | None = None

    @property
    def size(self) -> int:
        """The bytes of the batch; 0 if there is none."""
        return 0 if self.held is None else self.held.bytes

    @property
    def is_ready(self) -> bool:
        """True if there is a batch."""
        return self.error is None and not self.ended

    def begin(self, destination: Destination) -> None:
        """Start processing the batch, which is ready, in `destination`, before its turn."""
        if self.begun is None:
            self.begun, self.content = destination.begin(self.content), None

    def batch(self) -> Any:
        """Return the batch, or the destination's result; raise the worker's exception if there was one."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # Its traceback leads here, and to the iterator, which would live on.
        return self.content if self.begun is None else self.begun
