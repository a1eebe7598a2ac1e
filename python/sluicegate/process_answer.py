"""What a worker process answered for one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import _core, envelope, worker_error
from .report import Report, attachment

if TYPE_CHECKING:
    from .destination import Destination


class ProcessAnswer:
    """What a worker process answered for one batch; counted among what is ahead as long as it lives."""

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
        """The bytes of the batch; 0 where there is none."""
        return 0 if self._held is None else self._held.bytes

    @property
    def report(self) -> Report | None:
        """What the worker says beside the batch; None when it says nothing."""
        return attachment(self._content)

    @property
    def is_ready(self) -> bool:
        """Whether there is a batch, all of which is in the memory where it is to be."""
        if self.failed or self.ended:
            return False
        return isinstance(self._tensors, list) or self._tensors.is_done

    def begin(self, destination: Destination) -> None:
        """Has `destination` begin with the batch, which is ready, before its turn."""
        if self._begun is None:
            try:
                batch = self.batch()
            except Exception:  # It will say so in its turn.
                return
            self._begun, self._tensors = destination.begin(batch), []

    def batch(self) -> Any:
        """The batch, or what a destination has made of it; raises the exception that the worker met."""
        if self.failed:
            raise worker_error.unpack(self._content)
        if self._begun is not None:
            return self._begun
        if not isinstance(self._tensors, list):
            self._tensors = self._tensors.tensors()
        return envelope.read(self._content, self._tensors)
