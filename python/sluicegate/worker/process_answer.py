"""`ProcessAnswer`: a worker process's answer for one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sluicegate import _core

from . import envelope
from . import error as worker_error
from .report import Report, attachment

if TYPE_CHECKING:
    from sluicegate.device.destination import Destination


class ProcessAnswer:
    """A worker process's answer for one batch; counted as a prefetched batch while it exists."""

    __slots__ = ("_begun", "_content", "_held", "_tensors", "ended", "epoch", "failed", "number", "worker")

    def __init__(
        self,
        worker: int,
        epoch: int,
        number: int,
        outcome: str,
        tensors: list[torch.Tensor] | _core.PinnedCopy,
        content: bytes,
        held: _core.Held | None,
    ) -> None:
        self.worker, self.epoch, self.number = worker, epoch, number
        self.ended, self.failed = outcome == "ended", outcome == "failed"
        self._tensors, self._content, self._held = tensors, content, held
        self._begun: Any = None

    @property
    def size(self) -> int:
        """The bytes of the batch; 0 if there is none."""
        return 0 if self._held is None else self._held.bytes

    @property
    def report(self) -> Report | None:
        """What the worker reports along with the batch; None if it reports nothing."""
        return attachment(self._content)

    @property
    def is_ready(self) -> bool:
        """True if there is a batch and all of it is in the memory where it should be."""
        if self.failed or self.ended:
            return False
        return isinstance(self._tensors, list) or self._tensors.is_done

    def begin(self, destination: Destination) -> None:
        """Start processing the batch, which is ready, in `destination`, before its turn."""
        if self._begun is None:
            try:
                batch = self.batch()
            except Exception:  # `batch` raises it again in its turn
                return
            self._begun, self._tensors = destination.begin(batch), []

    def batch(self) -> Any:
        """Return the batch, or the destination's result; raise the worker's exception if there was one."""
        if self.failed:
            raise worker_error.unpack(self._content)
        if self._begun is not None:
            return self._begun
        if not isinstance(self._tensors, list):
            self._tensors = self._tensors.tensors()
        return envelope.read(self._content, self._tensors)
