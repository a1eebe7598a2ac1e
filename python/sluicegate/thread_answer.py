"""`ThreadAnswer`: what a worker thread has made of one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from .report import Report

if TYPE_CHECKING:
    from .destination import Destination


class ThreadAnswer:
    """What a worker thread answered for one batch."""

    __slots__ = ("begun", "content", "ended", "epoch", "error", "held", "number", "report", "worker")

    def __init__(self, worker: int, epoch: int, number: int) -> None:
        self.worker, self.epoch, self.number = worker, epoch, number
        self.content: Any = None
        # What a destination has made of it.
        self.begun: Any = None
        self.error: BaseException | None = None
        # What counts it among what is ahead.
        self.held: _core.Held | None = None
        self.ended = False
        # What the worker says beside the batch.
        self.report: Report | None = None

    @property
    def size(self) -> int:
        """The bytes of the batch; 0 where there is none."""
        return 0 if self.held is None else self.held.bytes

    @property
    def is_ready(self) -> bool:
        """Whether there is a batch."""
        return self.error is None and not self.ended

    def begin(self, destination: Destination) -> None:
        """Has `destination` begin with the batch, which is ready, before its turn."""
        if self.begun is None:
            self.begun, self.content = destination.begin(self.content), None

    def batch(self) -> Any:
        """The batch, or what a destination has made of it; raises the exception that the worker met."""
        if self.error is not None:
            raise self.error
        return self.content if self.begun is None else self.begun
